"""The index of an SST: where its blocks are, which keys each may hold, and what the whole file holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from firn.journal.manifest.model import SSTInfo

GROWTH = 4
"""Each span is so many times as large as the one before: a short scan reads little, a long one in few requests."""


@dataclass(frozen=True)
class SstIndex:
    """All that is known of an SST without its blocks.

    `lows` has for each block a short key above all keys of the block before and not above its own first one, so
    block i holds keys in [lows[i], lows[i + 1]), and lows[0] is `min_key`. Where `continued[i]`, the block begins
    with more versions of the last key of the block before, and lows[i] is that key. `ends` is where each block
    ends in the file: the next begins there, and the first one at 0.
    """

    rows: int
    max_seq: int
    tombstones: int
    merges: int
    min_expire: int | None
    max_key: bytes
    lows: tuple[bytes, ...]
    continued: tuple[bool, ...]
    ends: tuple[int, ...]
    block_rows: tuple[int, ...]
    checksums: tuple[int, ...]

    @property
    def min_key(self) -> bytes:
        return self.lows[0]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.lows)

    def info(
        self, *, level: int, run: int, number: int, file: str, size: int, max_loaded: int = -1, clock: int = 0
    ) -> SSTInfo:
        """The SST as a manifest names it; `size` is the file's, in bytes, and `clock` the definition's."""
        return SSTInfo(
            level=level,
            run=run,
            number=number,
            file=file,
            min_key=self.min_key,
            max_key=self.max_key,
            rows=self.rows,
            bytes=size,
            max_seq=self.max_seq,
            tombstones=self.tombstones,
            min_expire=self.min_expire,
            max_loaded=max_loaded,
            clock=clock,
        )

    def extent(self, block: int) -> tuple[int, int]:
        """Where a block begins in the file, and how many bytes it has."""
        start = self.ends[block - 1] if block else 0
        return start, self.ends[block] - start

    def size_of(self, block: int) -> int:
        """How many bytes a block has in the file."""
        return self.extent(block)[1]

    def blocks_of(self, key: bytes) -> range:
        """The blocks that may hold versions of a key, newest first: one, or none; more if they filled a block.

        >>> lows, continued = (b"a", b"e", b"e"), (False, False, True)
        >>> index = SstIndex(9, 9, 0, 0, None, b"k", lows, continued, (5, 9, 15), (3,) * 3, (0,) * 3)
        >>> index.blocks_of(b"c"), index.blocks_of(b"e"), index.blocks_of(b"f"), index.blocks_of(b"z")
        (range(0, 1), range(1, 3), range(2, 3), range(0, 0))
        """
        stop = bisect_right(self.lows, key)
        if not stop or key > self.max_key:
            return range(0)
        return range(self._first(stop - 1, key), stop)

    def blocks_between(self, start: bytes | None, end: bytes | None) -> range:
        """The blocks that may hold keys in [start, end).

        >>> index = SstIndex(9, 9, 0, 0, None, b"k", (b"a", b"e", b"i"), (False,) * 3, (5, 9, 15), (3,) * 3, (0,) * 3)
        >>> index.blocks_between(b"c", b"e"), index.blocks_between(b"e", None), index.blocks_between(b"l", None)
        (range(0, 1), range(1, 3), range(0, 0))
        """
        first, stop = 0, len(self.lows)
        if end is not None:
            stop = bisect_left(self.lows, end)
        if start is not None:
            if start > self.max_key:
                return range(0)
            first = self._first(max(0, bisect_right(self.lows, start) - 1), start)
        return range(first, max(first, stop))

    def overlaps(self, start: bytes | None, end: bytes | None) -> bool:
        """Whether there may be keys in [start, end)."""
        return (start is None or start <= self.max_key) and (end is None or self.lows[0] < end)

    def bytes_of(self, blocks: range) -> int:
        """The bytes of neighbouring blocks in the file."""
        return self.ends[blocks.stop - 1] - self.extent(blocks.start)[0] if blocks else 0

    def _first(self, block: int, key: bytes) -> int:
        while self.continued[block] and self.lows[block] == key:
            block -= 1
        return block


def spans(
    blocks: range, size_of: Callable[[int], int], room: int, *, most: int | None = None, reverse: bool = False
) -> Iterator[range]:
    """Neighbouring blocks in parts of up to `room` bytes, or one block; with `most` ever larger ones, up to that.

    >>> list(spans(range(4), (5, 4, 6, 15).__getitem__, 10))
    [range(0, 2), range(2, 3), range(3, 4)]
    >>> list(spans(range(1, 11), lambda block: 1 << 20, 0, most=4 << 20, reverse=True))
    [range(10, 11), range(6, 10), range(2, 6), range(1, 2)]
    """
    left = blocks
    while left:
        count = size = 0
        for block in reversed(left) if reverse else left:
            if count and size + size_of(block) > room:
                break
            size += size_of(block)
            count += 1
        yield left[len(left) - count :] if reverse else left[:count]
        left = left[: len(left) - count] if reverse else left[count:]
        if most is not None:
            room = min(most, GROWTH * max(room, size))
