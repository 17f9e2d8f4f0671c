"""Cut the key space into shares of about the same size, each the work of one task.

Pure: what it needs to know of the files are the first keys of their blocks and where these lie (`BlockMap`), which
the files' own indices tell. Compaction and Spark scans cut by it alike.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from firn.keyed.sst.index import SstIndex


@dataclass(frozen=True)
class BlockMap:
    """Where a file's bytes lie: the first key of each block, ascending, and the blocks' bytes."""

    first_keys: Sequence[bytes]
    sizes: Sequence[int]

    @staticmethod
    def of(index: SstIndex) -> BlockMap:
        return BlockMap(index.lows, [end - start for start, end in pairwise((0, *index.ends))])


@dataclass(frozen=True)
class KeyRange:
    """Encoded keys from `start` on, up to but without `end`; None is no bound."""

    start: bytes | None = None
    end: bytes | None = None

    def overlaps(self, low: bytes, high: bytes) -> bool:
        """Whether keys from `low` up to and with `high` may lie in it.

        >>> keys = KeyRange(b"c", b"f")
        >>> keys.overlaps(b"a", b"c"), keys.overlaps(b"f", b"g"), keys.overlaps(b"a", b"b")
        (True, False, False)
        """
        return (self.end is None or low < self.end) and (self.start is None or high >= self.start)

    def within(self, start: bytes | None, end: bytes | None) -> KeyRange | None:
        """The keys that it shares with the range from `start` up to `end`; None if there are none.

        >>> KeyRange(b"b", b"d").within(b"c", None), KeyRange(b"b", b"d").within(b"d", None)
        (KeyRange(start=b'c', end=b'd'), None)
        """
        low = self.start if start is None else start if self.start is None else max(start, self.start)
        high = self.end if end is None else end if self.end is None else min(end, self.end)
        return None if low is not None and high is not None and low >= high else KeyRange(low, high)


@dataclass(frozen=True)
class KeyShare(KeyRange):
    """A range of keys that is one task's. `weight` is the bytes of the blocks that begin there, in all files."""

    weight: int = 0


def cut(files: Iterable[BlockMap], share_bytes: int) -> list[KeyShare]:
    """Shares of about `share_bytes`, in key order, that together are all keys; a single one if there is less.

    No key is in two shares, however many versions it has. A share is larger than asked by less than one block a
    file, or where one key has more versions than fit.

    Args:
        files: the block maps of all files.
        share_bytes: how many bytes of blocks a share should have.

    Example:
        >>> a = BlockMap([b"a", b"c", b"e"], [10, 10, 10])
        >>> b = BlockMap([b"b", b"e"], [10, 10])
        >>> [(s.start, s.end, s.weight) for s in cut([a, b], 20)]
        [(None, b'e', 30), (b'e', None, 20)]
    """
    blocks = heapq.merge(*(zip(f.first_keys, f.sizes, strict=True) for f in files))
    keys: list[bytes] = []
    sizes: list[int] = []
    for key, size in blocks:
        if keys and keys[-1] == key:
            sizes[-1] += size
        else:
            keys.append(key)
            sizes.append(size)
    total = sum(sizes)
    count = max(1, min(len(keys), total // max(1, share_bytes)))
    below = list(accumulate(sizes, initial=0))  # below[i]: bytes of the blocks before keys[i]
    cuts = sorted({bisect_left(below, total * n // count) for n in range(1, count)} - {0, len(keys)})
    edges = [0, *cuts, len(keys)]
    return [
        KeyShare(
            keys[low] if low else None,
            keys[high] if high < len(keys) else None,
            below[high] - below[low],
        )
        for low, high in pairwise(edges)
    ]
