"""The block cache: blocks of all SSTs of a process, least recently used out first, bounded in bytes."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError

OFFERED_SHARE = 4
"""Blocks that nobody has read yet have at most this part of the cache."""


class Sized(Protocol):
    """An item of a cache: `nbytes` is the memory that it takes, Python objects counted too."""

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


class CachedFile:
    """An SST as a cache knows it. Its blocks' names are `base | block`.

    The cache knows it for as long as a reader holds this, or one of its blocks is here.
    """

    __slots__ = ("__weakref__", "base", "blocks", "bucket")

    def __init__(self, bucket: Bucket, number: int) -> None:
        self.bucket = bucket  # held: it is known by its identity, which no other may get
        self.base = number << 32
        self.blocks = 0


class BlockCache:
    """Blocks of any number of SSTs. Safe for several threads.

    One larger than the whole cache isn't kept; with `max_bytes` of 0, none is.

    >>> BlockCache(128 << 20).stats().blocks
    0
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise InvalidInputError(f"a block cache can't have {max_bytes} bytes: give 0 or more")
        self.max_bytes = max_bytes
        self.offered_bytes = max_bytes // OFFERED_SHARE
        """How much of what nobody has read yet is kept."""
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, Sized] = OrderedDict()
        self._offers: OrderedDict[int, Sized] = OrderedDict()
        self._files: WeakValueDictionary[tuple[int, str], CachedFile] = WeakValueDictionary()
        self._filled: dict[int, CachedFile] = {}  # by base: those with blocks here
        self._next = itertools.count()
        self._bytes = self._offered = 0
        self._hits = 0
        self._misses = 0
        self._evicted = 0

    def file(self, bucket: Bucket, key: str) -> CachedFile:
        """An SST, with the blocks that a reader of it left here."""
        with self._lock:
            # By identity: two stores in memory have the same URL.
            name = id(bucket), key
            found = self._files.get(name)
            if found is None:
                found = self._files[name] = CachedFile(bucket, next(self._next))
            return found

    def get(self, name: int) -> Sized | None:
        """The block, which becomes the last one to go; None if it isn't here."""
        # No lock: each step is one call of a dictionary in C, and the counts are statistics.
        found = self._blocks.get(name)
        if found is None:
            return self._accepted(name)
        self._hits += 1
        try:
            self._blocks.move_to_end(name)
        except KeyError:
            return found  # evicted between the two steps; the block in hand is as good
        return found

    def peek(self, name: int) -> Sized | None:
        """The block, without counting or moving it: for scans, which would push out what point reads want."""
        found = self._blocks.get(name)
        return self._offers.get(name) if found is None else found

    def put(self, file: CachedFile, block: int, data: Sized) -> None:
        """Keep a block that is read, at the cost of those that were read longest ago."""
        with self._lock:
            self._put(file, file.base | block, data)

    def offer(self, file: CachedFile, block: int, data: Sized) -> None:
        """Keep a block that nobody has asked for yet, at the cost of those that were offered first."""
        with self._lock:
            name = file.base | block
            if name in self._blocks or data.nbytes > self.offered_bytes:
                return
            self._remove(name)
            self._offers[name] = data
            self._offered += data.nbytes
            self._add(file, data)
            while self._offered > self.offered_bytes:
                self._evict(self._offers)
            # Each makes room at the cost of the other: what was flushed long ago goes when reads come, and of what
            # was read long ago a part when flushes come.
            self._shrink(self._blocks, self._offers)

    def forget(self, file: CachedFile, blocks: int) -> None:
        """Let go of a file's blocks, of which there are so many."""
        with self._lock:
            for block in range(blocks):
                self._remove(file.base | block)

    def stats(self) -> CacheStats:
        """How much it holds and how often it helped."""
        with self._lock:
            count = len(self._blocks) + len(self._offers)
            return CacheStats(self.max_bytes, self._bytes, count, self._hits, self._misses, self._evicted)

    # -- with the lock held, but the first

    def _accepted(self, name: int) -> Sized | None:
        """An offer that is read for the first time."""
        if name in self._offers:
            with self._lock:
                found = self._offers.get(name)
                if found is not None:
                    self._put(self._filled[name >> 32 << 32], name, found)
                    self._hits += 1
                    return found
        self._misses += 1
        return None

    def _put(self, file: CachedFile, name: int, data: Sized) -> None:
        self._remove(name)
        if data.nbytes > self.max_bytes:
            return
        self._blocks[name] = data
        self._add(file, data)
        self._shrink(self._offers, self._blocks)

    def _add(self, file: CachedFile, data: Sized) -> None:
        self._bytes += data.nbytes
        file.blocks += 1
        self._filled[file.base] = file

    def _shrink(self, first: OrderedDict[int, Sized], then: OrderedDict[int, Sized]) -> None:
        while self._bytes > self.max_bytes:
            self._evict(first or then)

    def _evict(self, blocks: OrderedDict[int, Sized]) -> None:
        self._evicted += 1
        self._remove(next(iter(blocks)))

    def _remove(self, name: int) -> None:
        data = self._blocks.pop(name, None)
        if data is None:
            data = self._offers.pop(name, None)
            if data is None:
                return
            self._offered -= data.nbytes
        self._bytes -= data.nbytes
        file = self._filled[name >> 32 << 32]
        file.blocks -= 1
        if not file.blocks:
            del self._filled[file.base]
