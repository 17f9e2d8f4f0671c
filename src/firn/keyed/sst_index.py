"""The index of an SST: where its blocks are, which keys each holds, and what the whole file holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class SstIndex:
    """All of an SST but its blocks.

    `lows` has for each block the shortest key that is above all keys of the block before and not above its own
    first one (`min_key` for the first block), so block i holds the keys in [lows[i], lows[i + 1]). Where
    `continued[i]`, the block begins with more versions of the last key of the block before, and `lows[i]` is that key.
    """

    min_key: bytes
    max_key: bytes
    rows: int
    max_seq: int
    tombstones: int
    min_expire: int | None
    lows: tuple[bytes, ...]
    continued: tuple[bool, ...]
    offsets: tuple[int, ...]
    """Where each block begins in the file, and where the last one ends."""
    block_rows: tuple[int, ...]
    checksums: tuple[int, ...]

    def blocks_of(self, key: bytes) -> range:
        """The blocks that may hold versions of a key, newest first; nearly always one, or none."""
        stop = bisect_right(self.lows, key)
        if not stop or key > self.max_key:
            return range(0)
        first = stop - 1
        while first and self.continued[first] and self.lows[first] == key:
            first -= 1
        return range(first, stop)

    def blocks_between(self, start: bytes | None, end: bytes | None) -> range:
        """The blocks that may hold keys in [start, end)."""
        first = 0 if start is None else max(0, bisect_right(self.lows, start) - 1)
        while first and self.continued[first] and self.lows[first] == start:
            first -= 1
        stop = len(self.lows) if end is None else bisect_left(self.lows, end)
        if (start is not None and start > self.max_key) or stop <= first:
            return range(0)
        return range(first, stop)
