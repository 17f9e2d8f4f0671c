"""The SSTs of a view as a reader asks them: L0 objects newest first, then sorted runs. Nothing here is mutable."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from firn.arrow.bloom import passing
from firn.concurrency.background import Background
from firn.concurrency.parallel import in_flight
from firn.journal.manifest.model import SSTInfo, View
from firn.keyed.context import KeyedContext
from firn.keyed.read.runs import runs_of
from firn.keyed.sst.reader import SstReader

SHORT_SHARE = 32
"""A scan of no more blocks than this part of the cache keeps them there, as point reads do."""


class Run:
    """SSTs whose keys don't overlap, in key order."""

    def __init__(self, ssts: Sequence[SSTInfo], readers: Sequence[SstReader]) -> None:
        self.readers = tuple(readers)
        self._first = [sst.min_key for sst in ssts]
        self._last = [sst.max_key for sst in ssts]

    def of(self, key: bytes) -> SstReader | None:
        """The only SST that may hold a key."""
        at = bisect_left(self._last, key)
        return self.readers[at] if at < len(self._first) and self._first[at] <= key else None

    def split(self, keys: Sequence[bytes]) -> list[tuple[SstReader, list[bytes]]]:
        """Sorted keys by the SST that may hold them; the others are left out."""
        found: dict[int, list[bytes]] = {}
        for key in keys:
            at = bisect_left(self._last, key)
            if at < len(self._first) and self._first[at] <= key:
                found.setdefault(at, []).append(key)
        return [(self.readers[at], part) for at, part in found.items()]

    def between(self, start: bytes | None, end: bytes | None) -> tuple[SstReader, ...]:
        """The SSTs that overlap [start, end)."""
        low = 0 if start is None else bisect_left(self._last, start)
        high = len(self._first) if end is None else bisect_left(self._first, end)
        return self.readers[low:high]


class Sources:
    """The objects of a view in the bucket, and the table by the definition that they are read by. `l0` is newest
    first, then `runs`, the newest first too."""

    def __init__(self, table: KeyedContext, l0: Sequence[SstReader], runs: Sequence[Run]) -> None:
        self.table, self.l0, self.runs, self._readers = table, tuple(l0), tuple(runs), table.ssts
        self._filters: tuple[tuple[memoryview, int, SstReader], ...] | None = None

    def load(self) -> None:
        """See that the indices of all L0 objects are here: which keys they hold is known by nothing else."""
        if self._filters is None and self._readers.load(self.l0):
            self._filters = self._asked()

    def l0_with(self, hashed: int) -> Iterator[SstReader]:
        """The L0 objects, newest first, whose filter takes a hashed key for present."""
        self.load()
        return passing(self._filters or self._asked(), hashed)

    def scans(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> list[Iterator[pa.RecordBatch]]:
        """One iterator a run that has keys in [start, end), newest first, each with its first batch under way."""
        self.load()
        overlapping = [run.between(start, end) for run in self.runs]
        overlapping = [readers[::-1] if reverse else readers for readers in overlapping if readers]
        # The SSTs that the scan begins with: their indices would be waited for one after the other, too.
        self._readers.load([readers[0] for readers in overlapping])
        runs = [(reader,) for reader in self.l0 if reader.index.overlaps(start, end)] + overlapping
        held = self._held(runs, start, end)
        together = len(runs)
        found = [
            _scan(readers, start, end, reverse=reverse, keep=held is not None, runs=together)
            for readers in runs
        ]
        cold = [at for at in range(len(runs)) if held is None or not held[at]]
        if len(cold) > 1:
            firsts = in_flight(lambda batches: next(batches, None), [found[at] for at in cold])
            for at, first in zip(cold, firsts, strict=True):
                if first is not None:
                    found[at] = chain((first,), found[at])
        return found

    def _asked(self) -> tuple[tuple[memoryview, int, SstReader], ...]:
        return tuple((*reader.pairs, reader) for reader in self.l0)

    def _held(
        self, runs: Sequence[Sequence[SstReader]], start: bytes | None, end: bytes | None
    ) -> list[bool] | None:
        """Whether the cache has all that a short scan reads of each run. None if it reads so much that it would push
        too much else out."""
        room = self._readers.cache.max_bytes // SHORT_SHARE
        held = []
        for readers in runs:
            here = True
            for reader in readers:
                if not reader.is_open:  # it goes beyond the SST that it begins with
                    return None
                blocks = reader.index.blocks_between(start, end)
                room -= reader.index.bytes_of(blocks)
                if room < 0:
                    return None
                here = here and all(reader.cached(block) is not None for block in blocks)
            held.append(here)
        return held


def loading(sources: Callable[[], Sources], name: str) -> Background:
    """A thread that has the indices of L0 fetched, which the first read would wait for. Where one can't be had, the
    reads that need it raise."""
    return Background(name, lambda: sources().load(), lambda error: None, first=0.0)


def runs_from(table: KeyedContext, ssts: Iterable[SSTInfo]) -> list[Run]:
    """The runs that a manifest names. No request."""
    sst_key = table.journal.layout.sst_key
    return [Run(run, [table.sst(sst_key(sst.file), sst.bytes) for sst in run]) for run in runs_of(ssts)]


def sources_of(table: KeyedContext, view: View) -> Sources:
    """The objects of a view in the bucket, to be read. No request."""
    l0 = [table.sst(file.key, file.bytes) for file in view.l0]
    return Sources(table, l0, runs_from(table, view.manifest.ssts))


def _scan(
    readers: Sequence[SstReader],
    start: bytes | None,
    end: bytes | None,
    *,
    reverse: bool,
    keep: bool,
    runs: int,
) -> Iterator[pa.RecordBatch]:
    """A run's entries; an SST is opened when the scan comes to it."""
    for reader in readers:
        yield from reader.scan(start, end, reverse=reverse, keep=keep, runs=runs)
