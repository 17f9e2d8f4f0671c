"""Which files a merge reads together. Pure: a plan can be printed before it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firn.journal.model import DataFile
from firn.lake.partition import dir_of

SKEW_LIMIT = 4
"""A file joins a merge only if it is at most so many times as large as all smaller ones together: else one
big file would be rewritten again and again with a few small ones."""


@dataclass(frozen=True)
class MergeGroup:
    """Files of one partition directory that become one file (or a few, of the target size)."""

    directory: str
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.files)


def directory_of(file: DataFile, data_prefix: str) -> str:
    """The partition directory of a data file: what lies between the table's data prefix and its name.

    Taken from the whole known prefix, so that a table called `x_data` doesn't confuse it. A registered
    file lies elsewhere: its marker tells the partition that it belongs to.
    """
    if file.path.startswith(data_prefix):
        return file.path[len(data_prefix) :].rpartition("/")[0]
    return dir_of((file.extra or {}).get("part") or {})


def plan_merge(
    files: Iterable[DataFile], *, data_prefix: str, target_size: int, whole: bool = False
) -> list[MergeGroup]:
    """Group each partition's small files into merges of about `target_size` bytes.

    `whole` takes all files of a partition, whatever their sizes: custom queries aggregate over all of it.
    A partition with nothing to gain isn't in the plan.
    """
    by_directory: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        by_directory[directory_of(file, data_prefix)].append(file)
    groups = []
    for directory, members in sorted(by_directory.items()):
        chosen = (
            sorted(members, key=lambda f: (f.created_ms, f.path)) if whole else _tier(members, target_size)
        )
        groups += [MergeGroup(directory, tuple(bin_)) for bin_ in _bins(chosen, target_size)]
    return [g for g in groups if len(g.files) > 1]


def _tier(members: Sequence[DataFile], target_size: int) -> list[DataFile]:
    """The files worth merging: small ones, and none that outweighs those below it by `SKEW_LIMIT`."""
    small = sorted((f for f in members if f.size < target_size * 3 // 4), key=lambda f: f.size)
    total = 0
    chosen: list[DataFile] = []
    for file in small:
        if chosen and file.size > SKEW_LIMIT * total:
            if len(chosen) > 1:
                break
            total, chosen = 0, []  # one tiny file below a larger one: begin at the larger one
        chosen.append(file)
        total += file.size
    return sorted(chosen, key=lambda f: (f.created_ms, f.path))


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
