"""The block cache: decoded blocks of all SSTs of a process, least recently used out first, bounded in bytes."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from firn.errors import InvalidInputError


class Sized(Protocol):
    """What a cache holds: `nbytes` is what it takes of memory, Python objects counted too."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class CacheStats:
    """`bytes` and `blocks` are held now; the others count since the cache was made."""

    max_bytes: int
    bytes: int
    blocks: int
    hits: int
    misses: int
    evicted: int


class BlockCache:
    """Blocks of any number of SSTs under keys that no two SSTs share. Safe for several threads.

    A block larger than the whole cache isn't kept; with `max_bytes` of 0, none is.

    >>> BlockCache(128 << 20).stats().blocks
    0
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise InvalidInputError(f"a block cache can't have {max_bytes} bytes: give 0 or more")
        self._max = max_bytes
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Hashable, tuple[Sized, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._evicted = 0

    def get(self, key: Hashable) -> Sized | None:
        """The block, which becomes the last one to go; None if it isn't here."""
        # No lock: each step is one call of a C dictionary, and the counts are statistics.
        found = self._blocks.get(key)
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        with contextlib.suppress(KeyError):  # evicted between the two steps; the block in hand is as good
            self._blocks.move_to_end(key)
        return found[0]

    def peek(self, key: Hashable) -> Sized | None:
        """The block, without counting or moving it: for scans, which would push out what point reads want."""
        found = self._blocks.get(key)
        return None if found is None else found[0]

    def put(self, key: Hashable, block: Sized) -> None:
        """Keep a block, at the cost of those that were used longest ago."""
        size = block.nbytes
        with self._lock:
            old = self._blocks.pop(key, None)
            if old is not None:
                self._bytes -= old[1]
            if size > self._max:
                return
            self._blocks[key] = block, size
            self._bytes += size
            while self._bytes > self._max:
                _, (_, gone) = self._blocks.popitem(last=False)
                self._bytes -= gone
                self._evicted += 1

    def drop(self, sst: Hashable) -> None:
        """Forget the blocks of one SST, whose keys are tuples that begin with `sst`: it is live no more."""
        with self._lock:
            gone = [key for key in self._blocks if isinstance(key, tuple) and key[0] == sst]
            for key in gone:
                self._bytes -= self._blocks.pop(key)[1]

    def stats(self) -> CacheStats:
        """What it holds and how often it helped."""
        with self._lock:
            return CacheStats(
                self._max, self._bytes, len(self._blocks), self._hits, self._misses, self._evicted
            )
