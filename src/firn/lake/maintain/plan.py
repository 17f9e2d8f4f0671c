"""Which files a merge reads together. Pure: a plan can be printed before it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firn.journal.model import DataFile, Places
from firn.lake.partition.partition import directory_of

SKEW_LIMIT = 4
"""A file joins a merge only if it is at most so many times as large as all smaller ones together: else one
big file would be rewritten again and again with a few small ones."""


@dataclass(frozen=True)
class MergeGroup:
    """Files of one partition directory that become one file (or a few, of the target size). Without a directory,
    their rows are dealt out anew."""

    directory: str | None
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.files)


def plan_merge(
    files: Iterable[DataFile],
    *,
    places: Places,
    target_size: int,
    whole: bool = False,
    respec: str | None = None,
) -> list[MergeGroup]:
    """Group each partition's small files into merges of about `target_size` bytes.

    `whole` takes all files of a partition, whatever their sizes: custom queries aggregate over all of it.
    Rows of logs are always taken. So is a file with soft deletes, alone and large as it may be: until it is written
    anew each reader pays for them, and who merges and sweeps expects deleted rows to be gone from the store. A
    partition with nothing to gain isn't in the plan. `respec` is the id of the spec by which rows of all others are
    dealt out anew.
    """
    by_place: dict[tuple[str, str], list[DataFile]] = defaultdict(list)
    for file in files:
        by_place[directory_of(file, places), file.spec].append(file)
    groups = []
    for (directory, spec), members in sorted(by_place.items()):
        if respec is not None and spec != respec:
            members.sort(key=lambda f: (f.created_ms, f.path))
            groups += [MergeGroup(None, tuple(bin_)) for bin_ in _bins(members, target_size)]
            continue
        tier = set() if whole else {f.path for f in _tier(members, target_size)}
        chosen = [f for f in members if whole or f.deletes or f.inlined is not None or f.path in tier]
        chosen.sort(key=lambda f: (f.created_ms, f.path))
        groups += [MergeGroup(directory, tuple(bin_)) for bin_ in _bins(chosen, target_size)]
    return [
        g
        for g in groups
        if len(g.files) > 1 or g.files[0].deletes or g.files[0].inlined is not None or g.directory is None
    ]


def plan_folds(files: Iterable[DataFile], *, places: Places, scattered: bool = False) -> list[MergeGroup]:
    """The same for tables with a key, one merge a partition, however large the files are: only when all of them
    come from one merge is it known that no key is in two. Files of one merge are taken all or not at all.

    With `scattered` the files don't agree on where a row belongs (see `firn.lake.partition.placement`): one merge
    takes all.
    """
    if scattered:
        every = sorted(files, key=lambda f: (f.created_ms, f.path))
        return [MergeGroup(None, tuple(every))] if every else []
    by_directory: dict[str, dict[str, list[DataFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        made_by = (file.extra or {}).get("fold") or file.path
        by_directory[directory_of(file, places)][made_by].append(file)
    groups = []
    for directory, units in sorted(by_directory.items()):
        chosen = _alike(list(units.values()))
        if len(chosen) > 1:
            members = sorted((f for unit in chosen for f in unit), key=lambda f: (f.created_ms, f.path))
            groups.append(MergeGroup(directory, tuple(members)))
    return groups


def _tier(members: Sequence[DataFile], target_size: int) -> list[DataFile]:
    """The files worth merging: small ones, and none that outweighs those below it by `SKEW_LIMIT`."""
    chosen = _alike([[f] for f in members if f.size < target_size * 3 // 4])
    return sorted((f for unit in chosen for f in unit), key=lambda f: (f.created_ms, f.path))


def _alike(units: Sequence[Sequence[DataFile]]) -> list[Sequence[DataFile]]:
    """From the smallest on, those that don't outweigh the ones below by `SKEW_LIMIT`."""
    total = 0
    chosen: list[Sequence[DataFile]] = []
    for size, unit in sorted(((sum(f.size for f in unit), unit) for unit in units), key=lambda pair: pair[0]):
        if chosen and size > SKEW_LIMIT * total:
            if len(chosen) > 1:
                break
            total, chosen = 0, []  # one tiny file below a larger one: begin at the larger one
        chosen.append(unit)
        total += size
    return chosen


def _bins(files: Sequence[DataFile], target_size: int) -> list[list[DataFile]]:
    """Fill bins in the order of age, so that rows that arrived together stay together."""
    bins: list[list[DataFile]] = []
    room = 0
    for file in files:
        if not bins or file.size > room:
            bins.append([])
            room = target_size
        bins[-1].append(file)
        room -= file.size
    return bins
