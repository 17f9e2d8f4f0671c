"""The block cache: decoded blocks of all SSTs of a process, least recently used out first, bounded in bytes."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError

MAX_NAMES = 1 << 14
"""SSTs whose numbers are remembered. A writer that flushes for days would else remember every flush."""


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
    """Blocks of any number of SSTs. Safe for several threads.

    A block's name is `number(bucket, key) << 32 | block`. One larger than the whole cache isn't kept; with
    `max_bytes` of 0, none is.

    >>> BlockCache(128 << 20).stats().blocks
    0
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise InvalidInputError(f"a block cache can't have {max_bytes} bytes: give 0 or more")
        self._max = max_bytes
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, Sized] = OrderedDict()
        self._numbers: dict[tuple[int, str], int] = {}
        self._buckets: dict[int, Bucket] = {}
        self._next = itertools.count()
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._evicted = 0

    def number(self, bucket: Bucket, key: str) -> int:
        """A number for an SST that no other has, and that it nearly always has again for a reader opened anew."""
        with self._lock:
            # By identity: two stores in memory have the same URL. Held, so that none takes another's place.
            self._buckets[id(bucket)] = bucket
            name = id(bucket), key
            if name not in self._numbers:
                if len(self._numbers) >= MAX_NAMES:
                    del self._numbers[next(iter(self._numbers))]
                self._numbers[name] = next(self._next)
            return self._numbers[name]

    def get(self, name: int) -> Sized | None:
        """The block, which becomes the last one to go; None if it isn't here."""
        # No lock: each step is one call of a dictionary in C, and the counts are statistics.
        found = self._blocks.get(name)
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        with contextlib.suppress(KeyError):  # evicted between the two steps; the block in hand is as good
            self._blocks.move_to_end(name)
        return found

    def peek(self, name: int) -> Sized | None:
        """The block, without counting or moving it: for scans, which would push out what point reads want."""
        return self._blocks.get(name)

    def put(self, name: int, block: Sized) -> None:
        """Keep a block, at the cost of those that were used longest ago."""
        with self._lock:
            old = self._blocks.pop(name, None)
            if old is not None:
                self._bytes -= old.nbytes
            if block.nbytes > self._max:
                return
            self._blocks[name] = block
            self._bytes += block.nbytes
            while self._bytes > self._max:
                _, gone = self._blocks.popitem(last=False)
                self._bytes -= gone.nbytes
                self._evicted += 1

    def drop(self, bucket: Bucket, key: str) -> None:
        """Forget an SST that is read no more, and its blocks."""
        with self._lock:
            number = self._numbers.pop((id(bucket), key), None)
            for name in [name for name in self._blocks if name >> 32 == number]:
                self._bytes -= self._blocks.pop(name).nbytes

    def stats(self) -> CacheStats:
        """What it holds and how often it helped."""
        with self._lock:
            return CacheStats(
                self._max, self._bytes, len(self._blocks), self._hits, self._misses, self._evicted
            )
