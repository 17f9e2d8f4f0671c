"""Which files of a keyed table have to be merged together, and what each task merges. Pure.

Files whose keys overlap belong together: a version in one may hide one in another. Groups of these share no key, so
each is read by itself: one that is a single compacted file holds every key once, and needs no merge at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from firn.keyed.maintain.key_shares import BlockMap, KeyRange, KeyShare, cut

SHARE_BYTES = 16 << 20
"""Bytes that a task merges at a time. Files of up to as many are read whole, without a look at their indices."""


@dataclass(frozen=True)
class KeyFile:
    """A file of a sorted run: an L0 object or an SST.

    `size` is in bytes, and `age` the run's place among all runs, 0 the newest; files of one age don't overlap.
    `plain`: it holds no key twice and no merge operands. `hides`: some of its entries may not be seen, deletes or
    expired ones. `clock`: that of the definition by which it was written, as far as it is known.
    """

    key: str
    size: int
    age: int
    min_key: bytes
    max_key: bytes
    plain: bool
    hides: bool
    clock: int = 0


@dataclass(frozen=True)
class KeyUnit:
    """A range of keys and all files that may hold versions of them. Picklable."""

    range: KeyRange
    files: tuple[KeyFile, ...]

    def runs(self) -> list[list[KeyFile]]:
        """The files by run, newest run first, each run's by key."""
        ordered = sorted(self.files, key=lambda file: (file.age, file.min_key))
        return [list(run) for _, run in groupby(ordered, key=lambda file: file.age)]


def groups(files: Sequence[KeyFile]) -> list[tuple[KeyFile, ...]]:
    """The files in groups that share no key, ascending.

    Example:
        >>> def file(low, high):
        ...     return KeyFile(f"{low}", 1, 0, low, high, True, False)
        >>> [[f.key for f in group] for group in groups([file(b"a", b"c"), file(b"d", b"e"), file(b"b", b"c")])]
        [["b'a'", "b'b'"], ["b'd'"]]
    """
    found: list[list[KeyFile]] = []
    reach = b""
    for file in sorted(files, key=lambda file: file.min_key):
        if found and file.min_key <= reach:
            found[-1].append(file)
        else:
            found.append([file])
        reach = max(reach, file.max_key)
    return [tuple(group) for group in found]


def reached(files: Sequence[KeyFile], ranges: Sequence[KeyRange]) -> tuple[KeyFile, ...]:
    """The files that may hold keys of one of the ranges."""
    return tuple(f for f in files if any(r.overlaps(f.min_key, f.max_key) for r in ranges))


def units_of(
    group: Sequence[KeyFile], ranges: Sequence[KeyRange], map_of: Callable[[KeyFile], BlockMap]
) -> list[tuple[KeyUnit, int]]:
    """A group cut into units of about `SHARE_BYTES`, those that the ranges reach, with the bytes each weighs.

    `map_of` tells where a file's bytes lie; it is asked of files of groups larger than that only.
    """
    total = sum(file.size for file in group)
    if total <= SHARE_BYTES:
        shares = [KeyShare(weight=total)]
    else:
        shares = cut([map_of(file) for file in group], SHARE_BYTES)
    found = []
    for share in shares:
        for wanted in ranges:
            mine = wanted.within(share.start, share.end)
            if mine is None:
                continue
            files = tuple(f for f in group if mine.overlaps(f.min_key, f.max_key))
            if files:
                found.append((KeyUnit(mine, files), share.weight))
    return found
