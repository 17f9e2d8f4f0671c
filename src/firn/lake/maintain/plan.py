"""Which files a merge reads together. Pure: a plan can be printed before it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from firn.journal.model import DataFile, Places
from firn.lake.partition.partition import directory_of

SKEW_LIMIT = 4
"""A file joins a merge only if it is at most so many times as large as all smaller ones together: else one
big file would be rewritten again and again with a few small ones."""
FAN_IN = 8
"""So many files of a class of sizes become one of a higher class, where appends go on."""


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


def plan_keeping(
    files: Iterable[DataFile],
    *,
    places: Places,
    target_size: int,
    at_once: int,
    idle: Collection[str] = (),
    keyed: bool = False,
) -> list[MergeGroup]:
    """What to merge beside appends that go on: few files, and no row written often.

    A partition's files are in classes by size, each up to eight times as large as the next smaller one. Where eight
    of a class are there, they become one of a higher class, up to `target_size`; the rows of logs that are about to
    be written count as one of their class, and are written into the same file. So a row is written at most about
    1 + log₈(target / rows of a fold) times, and at most 7 files a class stay.

    Args:
        files: the live ones, and the placed rows of logs, each of which is in the plan.
        at_once: if rows of logs would be merged with files to more bytes, they are written alone, and the files are a
            group of their own: these take long, and the rows needn't wait.
        idle: the directories that get no rows any more: their small files are merged to the end, as `merge` does it,
            and stand first.
        keyed: of a table with a key, on which files of one merge are taken all or not at all, and however large.
    """
    by_place: dict[tuple[str, str], list[DataFile]] = defaultdict(list)
    for file in files:
        by_place[directory_of(file, places), "" if keyed else file.spec].append(file)
    ended: list[MergeGroup] = []
    going: list[MergeGroup] = []
    for (directory, _), members in sorted(by_place.items()):
        if directory in idle:
            ended += (
                plan_folds(members, places=places)
                if keyed
                else plan_merge(members, places=places, target_size=target_size)
            )
            continue
        rows = [file for file in members if file.inlined is not None]
        units = _units([file for file in members if file.inlined is None], keyed=keyed)
        chosen = _completed(units, sum(file.size for file in rows), target_size, keyed=keyed)
        merged = sorted([*rows, *chosen], key=lambda f: (f.created_ms, f.path))
        if rows and chosen and sum(file.size for file in merged) > at_once:
            going += [MergeGroup(directory, tuple(rows)), MergeGroup(directory, tuple(chosen))]
        elif rows or len(chosen) > 1:
            going.append(MergeGroup(directory, tuple(merged)))
    return [*ended, *going]


def _units(files: Sequence[DataFile], *, keyed: bool) -> list[list[DataFile]]:
    """Files that are taken together: each alone, or on a table with a key those of one merge."""
    if not keyed:
        return [[file] for file in files]
    made: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        made[(file.extra or {}).get("fold") or file.path].append(file)
    return list(made.values())


def _completed(
    units: Sequence[Sequence[DataFile]], rows: int, target_size: int, *, keyed: bool
) -> list[DataFile]:
    """The files of the classes that are complete, with the bytes of rows that are about to be written. The largest
    class may also be complete by its bytes: a file of the target size comes of it."""
    by_class: dict[int, list[tuple[int, Sequence[DataFile]]]] = defaultdict(list)
    for unit in units:
        size = sum(file.size for file in unit)
        if keyed or size < target_size * 3 // 4:
            by_class[_size_class(size, target_size)].append((size, unit))
    chosen: list[DataFile] = []
    total = rows
    for number in sorted(by_class, reverse=True):
        there = by_class[number]
        joins = bool(total) and _size_class(total, target_size) == number
        size = sum(size for size, _ in there)
        full = not keyed and len(there) > 1 and size + total * joins >= target_size
        if len(there) + joins >= FAN_IN or full:
            chosen += [file for _, unit in there for file in unit]
            total += size
    return chosen


def _size_class(size: int, target_size: int) -> int:
    """How often something must grow eightfold to be of the target size.

    >>> [_size_class(n, 4096) for n in (32769, 4097, 4096, 513, 512, 1)]
    [-2, -1, 0, 0, 1, 4]
    """
    number = 0
    while size * FAN_IN <= target_size and size:
        size *= FAN_IN
        number += 1
    while size > target_size:
        size = -(-size // FAN_IN)
        number -= 1
    return number


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
