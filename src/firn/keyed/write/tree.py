"""The tree that an open writer reads: memtables, L0 objects above the newest manifest, and that manifest's runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from firn.journal.manifest import View
from firn.keyed.context import KeyedContext
from firn.keyed.merge.memtable import Memtable
from firn.keyed.merge.older_memtable import by
from firn.keyed.read.reads import Tree
from firn.keyed.read.sources import Run, Sources, runs_from
from firn.keyed.sst.reader import SstReader
from firn.keyed.write.pressure import CALM, Pressure


class WriterTree:
    """The trees that a writer's reads begin from, and how far compaction lags behind. The queue's lock guards it."""

    def __init__(self, table: KeyedContext, view: View, *, compacting: bool) -> None:
        self.table = table
        """By its definition of now."""
        self.compacting = compacting
        """Whether this process compacts: without that, puts never wait for a compaction."""
        self.l0 = tuple((file.number, table.sst(file.key, file.bytes)) for file in view.l0)
        self.ssts, self.runs = 0, tuple[Run, ...]()
        self.poll_wanted, self.compaction_wanted = threading.Event(), threading.Event()
        """Set where L0 has become so large that puts wait; the second one also where it has grown."""
        self._compacted = self._revision = -1
        self.install(view)
        self.durable = self.whole = Tree((), self._sources())
        self.pressure = self._weigh(())

    def install(self, view: View) -> None:
        """Take the manifest of a view from now on, and the definition that it tells, unless a newer one is here."""
        manifest = view.manifest
        if view.pointer.revision > self._revision:
            self.table = self.table.as_in(view)
            self._revision, self._compacted = view.pointer.revision, manifest.last_compacted
            self.ssts = len(manifest.ssts)
            self.runs = tuple(runs_from(self.table, manifest.ssts))
            # A flush may be compacted before this writer knows that it is durable: then the runs have it.
            values = self.table.values
            self.l0 = tuple(
                (number, reader.under(values))
                for number, reader in self.l0
                if number > manifest.last_compacted
            )

    def land(self, number: int, reader: SstReader) -> None:
        """A flush is durable: it is an L0 object now."""
        if number > self._compacted:
            self.l0 = ((number, reader.under(self.table.values)), *self.l0)
        self.compaction_wanted.set()

    def grow(self, active: Memtable, frozen: Sequence[Memtable]) -> None:
        """Let reads begin from here: memtables, of which the frozen ones are oldest first, and what is in the
        bucket."""
        waiting = [memtable for memtable in reversed(frozen) if memtable.number > self._compacted]
        sources = self._sources()
        values = self.table.values
        tables = tuple(by(memtable, values) for memtable in (active, *waiting))
        self.durable, self.whole = Tree((), sources), Tree(tables, sources)
        before, self.pressure = self.pressure, self._weigh(waiting)
        if self.pressure.full and not before.full:
            self.poll_wanted.set()
            self.compaction_wanted.set()

    def _sources(self) -> Sources:
        return Sources(self.table, [reader for _, reader in self.l0], self.runs)

    def _weigh(self, waiting: Sequence[Memtable]) -> Pressure:
        """How far compaction lags behind, with memtables that will be L0 objects."""
        if not self.compacting:
            return CALM
        size = sum(reader.size for _, reader in self.l0) + sum(memtable.bytes for memtable in waiting)
        settings = self.table.settings
        return Pressure(
            l0_bytes=size / settings.max_l0_size, l0_files=(len(self.l0) + len(waiting)) / settings.max_l0
        )
