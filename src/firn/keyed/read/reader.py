"""`KeyedReader`: reads a keyed table without writing anything to the bucket; any number of them, in any process."""

from __future__ import annotations

import threading

from firn.errors import CorruptObjectError, InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.journal.manifest import View
from firn.keyed.context import KeyedContext
from firn.keyed.read.reads import Reads, Tree
from firn.keyed.read.sources import sources_of
from firn.keyed.results import ReaderStats


class KeyedReader(Reads):
    """A table's entries, as of its newest flush or of one moment. Made by `KeyedTable.reader`.

    Safe to share between threads. One that follows looks for newer flushes when it is asked something and what it
    knows is older than it may be: without reads it costs nothing.
    """

    def __init__(self, table: KeyedContext, view: View, *, follow: float | None) -> None:
        table = table.as_in(view)
        super().__init__(table)
        self._view, self._follow = view, follow
        self._at = Tree((), sources_of(table, view))
        self._monotonic = table.clock.monotonic
        self._due = float("inf") if follow is None else self._monotonic() + follow
        self._refreshing = threading.Lock()
        self._refreshes = 0
        self._closed = False

    def __repr__(self) -> str:
        closed = " closed" if self._closed else ""
        return f"<KeyedReader {self.table.bucket.uri(self.table.prefix)} at {self.version}{closed}>"

    @property
    def view(self) -> View:
        """The SSTs and L0 objects that it reads."""
        return self._view

    @property
    def version(self) -> str:
        """What `KeyedTable.reader(at=…)` and `changes(since)` take."""
        return self._view.version

    def refresh(self) -> str:
        """Take in what was flushed since; the version. 1 LIST + 1 GET, and the manifests that are new.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        with self._refreshing:
            return self._refresh()

    def stats(self) -> ReaderStats:
        """Figures of now. No request.

        Example:
            >>> import firn
            >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> with table.open(compaction=False) as kv:
            ...     kv.put(b"DTW", b"66")
            >>> table.reader().stats().l0
            1
        """
        view, cache = self._view, self.table.cache.stats()
        ssts = view.manifest.ssts
        return ReaderStats(
            version=view.version,
            l0=len(view.l0),
            ssts=len(ssts),
            runs=len({(sst.level, sst.run) for sst in ssts}),
            refreshes=self._refreshes,
            cache_bytes=cache.bytes,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
        )

    def close(self) -> None:
        """Let go of what it holds; later reads are refused. Nothing is written."""
        self._closed = True

    def _refresh(self) -> str:
        begun = self._monotonic()
        view = self.table.journal.read(self._view)
        if view.version != self._view.version:
            table = self.table.as_in(view)
            self._at = Tree((), sources_of(table, view))
            self.table = table
        self._view = view
        self._refreshes += 1
        if self._follow is not None:
            self._due = begun + self._follow
        return view.version

    def _tree(self, durable: bool) -> Tree:
        if self._closed:
            raise InvalidInputError(f"this reader of {self.table.name} is closed. Get another one.")
        asked = self._monotonic()
        if asked >= self._due:
            with self._refreshing:
                if asked >= self._due:  # else another thread has, and its look began after this call
                    self._refresh()
        return self._at

    def _newer(self, tree: Tree, gone: ObjectNotFoundError) -> Tree:
        if self._follow is None:
            raise SnapshotTooOldError(
                f"{self.table.name} was compacted and swept since this reader's version ({gone}). Use refresh(), or "
                "read a checkpoint, which sweep spares."
            ) from gone
        with self._refreshing:
            if self._at is tree:
                self._refresh()
            if self._at is tree:
                raise CorruptObjectError(
                    f"{gone}, and the newest of {self.table.name} names it. `firn fsck` tells what is missing."
                ) from gone
            return self._at


class KeyedSnapshot(Reads):
    """One moment of an open writer, in its process; made by `KeyedWriter.snapshot`.

    It holds the memtables. The objects in the bucket stay for at least the table's `l0_min_age`; to read later
    than that, keep a checkpoint.
    """

    def __init__(self, table: KeyedContext, tree: Tree, durable: Tree, check: object) -> None:
        super().__init__(table)
        self._all, self._durable, self._check = tree, durable, check

    def close(self) -> None:
        """Let go of what it holds."""
        self._check = None

    def _tree(self, durable: bool) -> Tree:
        if not callable(self._check):
            raise InvalidInputError(f"this snapshot of {self.table.name} is closed. Take another one.")
        self._check()
        return self._durable if durable else self._all

    def _newer(self, tree: Tree, gone: ObjectNotFoundError) -> Tree:
        raise SnapshotTooOldError(
            f"{self.table.name} was compacted and swept since the snapshot was taken ({gone}). Take another one, or "
            "keep a checkpoint."
        ) from gone
