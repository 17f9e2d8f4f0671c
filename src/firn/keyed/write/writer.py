"""`KeyedWriter`: the one process that changes a keyed table, until another opens it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from firn.concurrency.at_exit import unclosed
from firn.concurrency.background import Background
from firn.concurrency.single_flight import again
from firn.errors import CorruptObjectError, FencedError, FirnError, InvalidInputError, ObjectNotFoundError
from firn.journal.manifest import View, WriterSession
from firn.keyed.context import KeyedContext
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, expiry
from firn.keyed.encoding.values import Values
from firn.keyed.maintain.local_compaction import OwnCompaction
from firn.keyed.merge.memtable import checked_weight
from firn.keyed.read.reader import KeyedSnapshot
from firn.keyed.read.reads import Reads, Tree
from firn.keyed.read.sources import loading
from firn.keyed.results import WriterStats
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.flusher import Flusher
from firn.keyed.write.queue import MemtableQueue
from firn.keyed.write.tree import WriterTree
from firn.units import Duration, parse_duration_ms

if TYPE_CHECKING:
    from firn.keyed.maintain.compaction import CompactionReport

T = TypeVar("T")

log = logging.getLogger("firn.keyed")

LAGGING_POLL_S = 1.0
"""How often a writer whose puts are slowed down by L0 looks whether another process has compacted it."""

MAX_BATCH = 512 << 20
"""Bytes of a batch: it is in one memtable, and that is one batch of Arrow."""


Change = tuple[bytes, Any, int, int | None]
"""An entry: its encoded key, its stored value, its kind and its expiry."""


class _Checks(NamedTuple):
    """What values are checked by: one for as long as the table isn't altered."""

    values: Values
    value: Callable[[object], object]
    operand: Callable[[object], object]
    operator: Callable[[object], None] | None

    @staticmethod
    def of(table: KeyedContext) -> _Checks:
        values, operator = table.values, table.operator
        return _Checks(
            values, values.check, values.check_operand, None if operator is None else operator.check
        )


class KeyedWriter(Reads):
    """Reads and writes a table. Made by `KeyedTable.open`; safe to share between threads; a context manager.

    After another process has opened the table, everything here raises `FencedError`, reads too.
    """

    def __init__(
        self, table: KeyedContext, session: WriterSession, *, compaction: bool, poll_every: float
    ) -> None:
        super().__init__(table)
        self._session, self._poll_every = session, poll_every
        self._checks = _Checks.of(table)
        self._ttl_ms = table.definition.ttl_ms
        self._closed = False
        view = session.view
        self._at = tree = WriterTree(table, view, compacting=compaction)
        self._queue = queue = MemtableQueue(tree, session.next_number)
        self._flusher = Flusher(session, queue)
        self._compaction = OwnCompaction(self)
        self._poller = Background(
            f"firn-poll-{table.name}",
            self._poll_again,
            queue.fail,
            first=self._poll_pause(),
            wake=tree.poll_wanted,
        )
        far = table.bucket.capabilities.shareable and view.l0
        self._loader = loading(lambda: tree.whole.sources, f"firn-load-{table.name}") if far else None
        if compaction:
            self._compaction.start(tree.compaction_wanted, self._compaction_failed)
        unclosed.add(self)

    def __repr__(self) -> str:
        return f"<KeyedWriter {self.table.bucket.uri(self.table.prefix)} epoch {self.epoch}>"

    @property
    def owner(self) -> object:
        """The engines of the database that opened it, with which it ends."""
        return self.table.engines

    @property
    def epoch(self) -> int:
        """This writer's epoch: greater than that of any writer before."""
        return self._session.epoch

    @property
    def view(self) -> View:
        """The SSTs and L0 objects that it reads."""
        return self._session.view

    @property
    def version(self) -> str:
        """The version of what is durable, for `KeyedTable.reader(at=…)` and `changes(since)`."""
        return self.view.version

    # -- writing

    def put(self, key: Any, value: Any, *, ttl: Duration | None = None, durable: bool = True) -> None:
        """Set a key's value.

        Args:
            key: bytes; of a typed key a tuple, or the lone value if it has one column.
            value: bytes; of a table with a schema a dict of the columns.
            ttl: how long it lives; by default the table's.
            durable: return when no crash can undo it. All that wait share one flush, which begins at once if none is
                under way. Else return at once; the entry is flushed within `flush_ms`, in the order of puts.

        Raises:
            FencedError: another writer has opened the table. Whether a durable put counts is unknown.
            InvalidInputError: not a key or value of this table, or the writer is closed.

        Cost: 1 PUT a flush, however many puts share it; with `strict` 1 GET more.
        """
        encoded = self._encode(key)
        expire_at = None if ttl is None and self._ttl_ms is None else self._expiry(ttl)
        queue = self._queue
        while True:
            checks = self._checks
            stored = checks.value(value)
            if checks.operator is not None:
                checks.operator(stored)
            with queue.lock:
                active = queue.active
                if active.bytes >= queue.limit:
                    active = queue.make_room_locked()
                if checks is not self._checks:
                    continue  # the table was altered meanwhile
                if not active.bytes:
                    self._flusher.begin_locked()
                active.put(encoded, stored, PUT, expire_at)
                if durable:
                    self._flusher.wait_locked(active.number)
                return

    def delete(self, key: Any, *, durable: bool = True) -> None:
        """Remove a key; one that isn't there is fine. Errors and cost: see `put`."""
        entry = self._encode(key), None, DELETE, None
        self._write(lambda checks: [entry], durable)

    def merge(self, key: Any, operand: Any, *, ttl: Duration | None = None, durable: bool = True) -> None:
        """Combine an operand with the key's value by the table's merge operator, without reading it.

        Raises:
            InvalidInputError: the table was created without `merge_operator`, or its operator can't take the operand.
            FencedError: see `put`.

        Cost: see `put`.
        """
        self._write(lambda checks: [self._entry(checks, MERGE, key, operand, ttl)], durable)

    def write(
        self,
        batch: WriteBatch | Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        ttl: Duration | None = None,
        durable: bool = True,
    ) -> None:
        """Make all changes of a batch, or none: a crash never leaves a part of them, and no reader sees one.

        Args:
            batch: a `WriteBatch`; or a dict or pairs of keys and values, to be put.
            ttl: of the dict's or pairs' values.

        Raises, cost: see `put`.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.write({b"DTW": b"66", b"HNL": b"95"})
            ...     kv.multi_get([b"DTW", b"HNL"])
            [b'66', b'95']
        """
        if isinstance(batch, WriteBatch):
            given = list(batch.changes)
            self._write(lambda checks: [self._entry(checks, *change) for change in given], durable)
            return
        expire_at = None if ttl is None and self._ttl_ms is None else self._expiry(ttl)
        with self._taking_pairs():
            pairs = list(batch.items() if isinstance(batch, Mapping) else batch)

        def puts(checks: _Checks) -> list[Change]:
            encode, check, operator = self._encode, checks.value, checks.operator
            with self._taking_pairs():
                changes: list[Change] = [(encode(key), check(value), PUT, expire_at) for key, value in pairs]
            if operator is not None:
                for change in changes:
                    operator(change[1])
            return changes

        self._write(puts, durable)

    def flush(self, timeout: Duration | None = None) -> None:
        """Return when everything that was put before is durable.

        Raises:
            FencedError: another writer has opened the table.
            OutcomeUnknownError: `timeout` has passed; the flush goes on in the background.

        Cost: 1 PUT, none if everything is durable.
        """
        self._check_open()
        self._flusher.flush(_seconds(timeout))

    def poll(self) -> None:
        """Look at the pointer now, as the background does: whether another writer has come, or a compaction ended.

        Raises:
            FencedError: another writer has opened the table.

        Cost: 1 GET, and 1 a manifest that is new.
        """
        try:
            view = self._session.poll()
        except FencedError as error:
            self._queue.fail(error)
            raise
        if view is not None:
            self._install(view)

    # -- reading: see `Reads`

    def snapshot(self) -> KeyedSnapshot:
        """This moment's entries, in this process; no request, and nothing is copied.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.put(b"DTW", b"66")
            ...     before = kv.snapshot()
            ...     kv.put(b"DTW", b"70")
            ...     before.get(b"DTW"), kv.get(b"DTW")
            (b'66', b'70')
        """
        with self._queue.lock:
            return KeyedSnapshot(
                self.table, self._tree(False).fixed(), self._tree(True), lambda: self._tree(False)
            )

    # -- upkeep

    def compact(self, *, full: bool = False) -> CompactionReport:
        """Flush, then compact in this process; see `KeyedTable.compact`."""
        self.flush()
        return self._compaction.by_hand(full=full)

    @property
    def ended(self) -> bool:
        """Whether it was closed or fenced, or failed."""
        return self._closed or self._queue.error is not None

    @property
    def crowded(self) -> bool:
        """Whether puts wait for a compaction."""
        return self._at.pressure.full

    def altered_by(self, alter: Callable[[], T]) -> T:
        """Have the table altered, and go by what it then is."""
        done = self._compaction.beside(alter)
        self._install(self._session.view)
        return done

    def stats(self) -> WriterStats:
        """Figures of now. No request."""
        queue, tree, uploader = self._queue, self._at, self._flusher.uploader
        cache = self.table.cache.stats()
        background = (self._poller, self._loader, self._compaction)
        errors = [each.last_error for each in background if each is not None and each.last_error is not None]
        with queue.lock:
            last = queue.error or uploader.last_error or (errors[0] if errors else None)
            return WriterStats(
                epoch=self.epoch,
                flushes=queue.flushes,
                flushed_bytes=queue.flushed_bytes,
                unflushed_bytes=queue.unflushed,
                memtables=len(queue.frozen) + 1,
                l0=len(tree.l0),
                ssts=tree.ssts,
                runs=len(tree.runs),
                stalls=queue.stalls,
                retries=uploader.retries,
                compactions=self._compaction.count,
                cache_bytes=cache.bytes,
                cache_hits=cache.hits,
                cache_misses=cache.misses,
                last_error=None if last is None else str(last),
            )

    def _close_at_exit(self) -> None:
        """Close in place of a program that forgets to; errors that nobody was told of yet are logged."""
        known = self._queue.error is not None  # and the callers of put were told
        try:
            self.close(30.0)
        except FirnError as error:
            if not known:
                log.error("%s", error)

    def _orphaned(self) -> None:
        """Refuse everything in a forked child, which has the writer without its threads: puts would wait for ever."""
        self._queue.orphaned()

    def close(self, timeout: Duration | None = None) -> None:
        """Flush everything and stop. Closing again is fine.

        Raises:
            FencedError: another writer has opened the table; what wasn't acknowledged may or may not count.
            OutcomeUnknownError: `timeout` has passed before all was flushed.
        """
        if self._closed:
            return
        self._closed = True
        unclosed.discard(self)
        seconds = _seconds(timeout)
        try:
            self._flusher.close(seconds)
        finally:
            for thread in (self._poller, self._loader):
                if thread is not None:
                    thread.stop(seconds)
            self._compaction.stop(seconds)

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        except FirnError:
            if error[0] is None:  # else the block's own error is the one to see
                raise

    # -- entries

    @contextmanager
    def _taking_pairs(self) -> Iterator[None]:
        """Say what `write` takes, where pairs aren't pairs."""
        try:
            yield
        except (TypeError, ValueError) as error:
            if isinstance(error, FirnError):
                raise
            raise InvalidInputError(
                f"write takes a WriteBatch, a dict, or pairs of a key and a value, for {self.table.name}: {error}."
            ) from error

    def _entry(self, checks: _Checks, kind: int, key: Any, value: Any, ttl: Duration | None) -> Change:
        encoded = self._encode(key)
        if kind == DELETE:
            return encoded, None, DELETE, None
        stored = checks.value(value) if kind == PUT else checks.operand(value)
        if checks.operator is not None:
            checks.operator(stored)
        elif kind == MERGE:
            raise InvalidInputError(
                f"{self.table.name} has no merge operator: create the table with merge_operator=…, or put the value."
            )
        return encoded, stored, kind, None if ttl is None and self._ttl_ms is None else self._expiry(ttl)

    def _expiry(self, ttl: Duration | None) -> int:
        return expiry(self._now_ms(), (self._ttl_ms or 0) if ttl is None else parse_duration_ms(ttl))

    def _write(self, made: Callable[[_Checks], list[Change]], durable: bool) -> None:
        """Write what is made by the table's checks; made anew if the table was altered meanwhile."""
        queue, need = self._queue, 0
        while True:
            checks = self._checks
            changes = made(checks)
            if not changes:
                return
            if len(changes) > 1:
                need = checked_weight(changes, checks.values, MAX_BATCH, self.table.name)
            with queue.lock:
                active = queue.active
                if active.bytes + need >= queue.limit:
                    active = queue.make_room_locked(need)
                if checks is not self._checks:
                    continue
                if not active.bytes:
                    self._flusher.begin_locked()
                active.extend(changes)
                if durable:
                    self._flusher.wait_locked(active.number)
                return

    # -- the tree

    def _install(self, view: View) -> None:
        """Read by the manifest of a view, and go by the definition that it tells, unless a newer one is here."""
        with self._queue.lock:
            self._queue.install_locked(view)
            if self._at.table is not self.table:
                self.table = self._at.table
                self._checks = _Checks.of(self.table)

    def _tree(self, durable: bool) -> Tree:
        if self._queue.error is not None or self._closed:
            self._refuse()
        return self._at.durable if durable else self._at.whole

    def _newer(self, tree: Tree, gone: ObjectNotFoundError) -> Tree:
        self.poll()
        newer = self._at.whole if tree.tables else self._at.durable
        if newer.sources is tree.sources:
            raise CorruptObjectError(
                f"{gone}, and the newest manifest of {self.table.name} names it. `firn fsck` lists what is missing."
            ) from gone
        return newer

    def _refuse(self) -> None:
        """Raise, if this writer may not be read any more."""
        error = self._queue.error
        if isinstance(error, FencedError | InvalidInputError):
            raise again(error)
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"the writer of {self.table.name} is closed. Open the table again.")

    # -- in the background

    def _poll_again(self) -> float:
        self.poll()
        return self._poll_pause()

    def _poll_pause(self) -> float:
        pressure = self._at.pressure
        lags = max(pressure.l0_bytes, pressure.l0_files) > 0.5
        return min(LAGGING_POLL_S, self._poll_every) if lags else self._poll_every

    def _compaction_failed(self, error: BaseException) -> None:
        """Without compaction the writer is slower, not wrong: it goes on, and `stats` tells."""
        with self._queue.lock:
            self._at.compacting = False
            self._queue.grow_locked()


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else parse_duration_ms(timeout) / 1000
