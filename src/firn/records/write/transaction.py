"""Transactions: reads at one snapshot, own writes kept back until commit, and what lets that succeed or fail."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal

from firn.arguments import checked
from firn.errors import (
    DatabaseClosedError,
    DuplicateKeyError,
    OutcomeUnknownError,
    StaleObjectError,
    TransactionClosedError,
    TransactionTimedOutError,
)
from firn.journal import sequence
from firn.journal.sequence import Catalog, Head, Moment
from firn.records.apply.apply import keep_up
from firn.records.documents.documents import Record
from firn.records.names.names import check_id
from firn.records.objects.own_etags import became, check_etag, check_new
from firn.records.objects.store import RecordStore, Table
from firn.records.read.snapshot import RecordSnapshot, SeenRow, etag_of, no_such_key
from firn.records.write.locks import Locks
from firn.records.write.reads import TransactionReads
from firn.records.write.uniqueness import Holders, claims_of
from firn.records.write.validation import (
    DecodedDocuments,
    Footprint,
    RowKey,
    Unseen,
    WriteConflict,
    conflict,
    last_write,
    unseen,
)
from firn.records.write.writes import Buffer, PendingWrite, Savepoint

TIMEOUT_S: Final = 600.0

State = Literal["open", "committed", "rolled back", "timed out", "unknown"]


def begin(
    store: RecordStore,
    *,
    serializable: bool = False,
    lock: bool = False,
    timeout_s: float = TIMEOUT_S,
    new: Callable[..., Transaction] | None = None,
) -> Transaction:
    """See `Database.begin`. At the end of the log as it is now: as `SequenceLog.refresh`. `new` makes the
    transaction: `Transaction`, or what adds verbs to it."""
    head = store.log.refresh()
    keep_up(store)
    return (new or Transaction)(store, head, serializable=serializable, lock=lock, timeout_s=timeout_s)


@checked
class Transaction(TransactionReads):
    """Reads of one snapshot, with own writes laid over it, and their commit as one. For one thread at a time.

    As a context manager it commits at the end, and rolls back if an exception leaves it. One that took too long
    raises there, also where the block has swallowed that error. After an error of a commit, but
    `OutcomeUnknownError`, nothing of it is visible.
    """

    def __init__(
        self, store: RecordStore, head: Head, *, serializable: bool, lock: bool, timeout_s: float
    ) -> None:
        self.txid = secrets.token_hex(16)
        self.serializable = serializable
        self.committed: int | None = None
        self._store = store
        self._at = RecordSnapshot(store, head)
        self._timeout_s = timeout_s
        self._ends_s = store.clock.monotonic() + timeout_s
        self._state: State = "open"
        self._footprint = Footprint()
        self._beyond: RowKey | None = None
        self._seen: dict[RowKey, SeenRow | None] = {}
        self._streams: list[str] = []
        self._writes = Buffer(self.txid)
        self._holders = Holders()
        self._locks = Locks(store, self.txid, ends_s=self._ends_s) if lock else None
        store.reads(self)

    @property
    def in_doubt(self) -> bool:
        """Whether it may be committed, and nobody knows."""
        return self._state == "unknown"

    @property
    def snapshot(self) -> int:
        """The number of the last commit that it sees."""
        return self._at.number

    @property
    def is_open(self) -> bool:
        """Whether it can still do anything."""
        return self._state == "open" and self._store.clock.monotonic() < self._ends_s

    # -- writing

    def insert(self, table: str, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """A new row; its ETag, which stays good after the commit. 1 GET and 1 a new record to see whether it was
        inserted since (rule 12), 1 GET of it.

        Args:
            etag: "" for `upsert`; a new row has none.

        Raises:
            DuplicateKeyError: there is such a row, in this snapshot or by now.
            StaleObjectError: the row was deleted since, and something that this transaction knows changed with it.
        """
        if etag == "":
            return self.upsert(table, id, document)
        check_new(etag)
        return self._insert(table, {id: document}, self._store.log.refresh)[id]

    def insert_many(self, table: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows, by id, all or none; their ETags, by id. As `insert`, with all rows looked for at once: 1 GET and
        1 a new record for all of them, and 1 GET each."""
        return self._insert(table, rows, self._store.log.refresh)

    def insert_first(self, table: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """`insert_many` right after `begin`, which has just looked at the end of the log: 1 GET a row."""
        return self._insert(table, rows, lambda: self._at.head)

    def upsert(self, table: str, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag. No request, but with an `etag`."""
        opened = self._table(table)
        body = opened.encode(id, document)
        if check_etag(etag):
            self._expect(opened, id, etag)
        self._lock((table, id))
        return self._write(opened, id, body)

    def upsert_many(self, table: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The rows become these documents, by id, whether they are there or not; their ETags, by id. No request."""
        opened = self._table(table)
        return self._put(opened, {id: opened.encode(id, document) for id, document in rows.items()})

    def put_bodies(self, table: str, bodies: Iterable[tuple[str, bytes | None]]) -> None:
        """`upsert` of documents that are `encoded` already: what a load does. None deletes whatever there is. No
        request."""
        self._put(self._table(table), dict(bodies))

    def update(self, table: str, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document; its ETag. 1 GET, none if the transaction read or wrote it.

        Args:
            etag: of the version that is to be replaced; "" for `upsert`, None for whatever the snapshot has.

        Raises:
            NoSuchKeyError: there is no such row.
            StaleObjectError: it has another ETag, or is gone; `current` is what there is.
        """
        if check_etag(etag) == "":
            return self.upsert(table, id, document)
        opened = self._table(table)
        body = opened.encode(id, document)
        self._expect(opened, id, etag)
        self._lock((table, id))
        return self._write(opened, id, body)

    def delete(self, table: str, id: str, *, etag: str | None = None) -> None:
        """Delete the row. Arguments, errors and cost as `update`; with "" a missing one is fine."""
        opened = self._table(table)
        check_id(id)
        if check_etag(etag) == "" and self._current(opened, id) is None:
            return
        self._expect(opened, id, etag or None)
        self._lock((table, id))
        self._write(opened, id, None)

    def delete_many(self, table: str, ids: Iterable[str]) -> list[str]:
        """Delete the rows that there are of these ids, which are returned. 1 GET each, many at once, none for those
        that the transaction read or wrote."""
        opened = self._table(table)
        there = list(self.get_many(table, ids))
        self._put(opened, dict.fromkeys(there))
        return there

    # -- the end

    def commit(self) -> int:
        """Make all writes visible at once; the number of the commit, which for a transaction that wrote nothing is
        its snapshot's. 1 PUT, and 1 GET for the horizon if nobody has asked for it within R; 1 GET, 1 a record and
        1 PUT more if others were faster. Large documents are staged: 1 PUT each.

        Raises:
            StaleObjectError: a row that it wrote was changed meanwhile, or columns or the JSON schema of its table;
                serializable: or a row that it read.
            DuplicateKeyError: somebody has brought a value of a unique index in.
            SnapshotTooOldError: it took so long that nobody can tell any more.
            OutcomeUnknownError: it may or may not be committed: look before retrying.
        """
        self._must_be_open()
        if not self._writes:
            self._must_be_of_one_moment()
            self._end("committed")
            self.committed = self.snapshot
            return self.committed
        try:
            keep_up(self._store)
            self._writes.stage(
                self._store, {name: self._at.table(name).inline for name in self._writes.tables}
            )
            # Here, and not in the thread that leads the group: there one would wait for the other.
            tables = {name: self._at.table(name) for name in sorted(self._writes.tables)}
            self._holders.look(self._at, tables, self._writes)
            self.committed = self._store.group.commit(self)
        except Exception as error:
            self._end("unknown" if isinstance(error, OutcomeUnknownError) else "rolled back")
            raise
        except BaseException:  # interrupted, as by Ctrl-C, maybe while it was on its way
            self._end("unknown")
            raise
        self._end("committed")
        self._store.committed()
        return self.committed

    def landed(self, number: int) -> None:
        """Its outcome was unknown, and somebody has found it in the log."""
        self._state, self.committed = "committed", number
        self._store.committed()

    def savepoint(self) -> Savepoint:
        """Mark the writes until now, for `rollback(to=…)`; as often as it is needed. No request.

        >>> import firn
        >>> db = firn.connect("memory://")
        >>> people = db.create_table("people", kind="records")
        >>> with db.begin() as tx:
        ...     _ = tx.insert("people", "ada", {"born": 1815})
        ...     before = tx.savepoint()
        ...     _ = tx.insert("people", "bob", {"born": 0})
        ...     tx.rollback(to=before)
        >>> [row.id for row in people.scan()]
        ['ada']
        """
        self._must_be_open()
        return self._writes.saved()

    def rollback(self, *, to: Savepoint | None = None) -> None:
        """Forget all writes. No request, but to release locks.

        Args:
            to: forget only what was written since that savepoint, and go on. Rows that were read since count as
                read, and locks stay.

        Raises:
            InvalidInputError: the savepoint is another transaction's.
        """
        self._must_be_open()
        if to is None:
            self._end("rolled back")
            return
        self._writes.restore(to)
        self._footprint.writes = self._writes.keys()

    def __repr__(self) -> str:
        return f"<Transaction {self.txid[:8]} {self._state}>"

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._state in ("open", "timed out"):
            self.commit()  # or say that it took too long: nobody may take it for committed
        elif self._state == "open":
            self._end("rolled back")

    def admit(self, moment: Moment) -> sequence.LogTransaction:
        """Rules 13 to 16 and 26, by the definitions as they are now: what to commit."""
        if self._writes.may_be_swept(self._store):
            raise TransactionTimedOutError(
                f"transaction {self.txid} staged its large rows days ago, and a sweep may have removed them; begin "
                "another"
            )
        self._tables_must_stand(moment.catalog)
        self._rules_must_stand(moment.catalog, self._judged())
        others = [*unseen(moment.since), *((moment.head.number + 1, member) for member in moment.earlier)]
        decoded = moment.shared.setdefault("documents", DecodedDocuments())
        self._must_stand(others, serializable=self.serializable, decoded=decoded)
        tables = {name: self._written_table(name, moment.catalog) for name in sorted(self._writes.tables)}
        claims = claims_of(self._at, tables, self._writes, others, self._holders)
        return sequence.LogTransaction(self.txid, self.snapshot, self._writes.to_log(tables), claims)

    # -- how

    def _written_table(self, name: str, catalog: Catalog) -> Table:
        """A table that was written to, as it is now."""
        return self._store.table(name, catalog)

    def _expect(self, table: Table, id: str, etag: str | None) -> None:
        """The row must be there, with that ETag if one is given."""
        current = self._current(table, id)
        if etag is not None and (current is None or not self._is(table, current, etag)):
            found = "was deleted" if current is None else f"is at {current.etag!r}"
            raise StaleObjectError(
                f"row {id!r} of {table.name!r} {found}, not at {etag!r} any more; read it again",
                current,
                lasting=True,
            )
        if current is None:
            raise no_such_key(table.name, id)

    def _is(self, table: Table, current: Record, etag: str) -> bool:
        """Whether that is the row's ETag, or was before it was committed."""
        if current.etag == etag:
            return True
        seen = (
            None if (table.name, current.id) in self._footprint.writes else self._seen[table.name, current.id]
        )
        return seen is not None and became(self._store.log, etag, table.name, current.id, seen.seq)

    def _insert(
        self, table: str, rows: Mapping[str, Mapping[str, Any]], end: Callable[[], Head]
    ) -> dict[str, str]:
        opened = self._table(table)
        bodies = {id: opened.encode(id, document) for id, document in rows.items()}
        new = []
        for id in bodies:
            own = self._writes.get((table, id))
            if own is None:
                new.append(id)
            elif own.body is not None:
                raise DuplicateKeyError(f"{table!r} has a row {id!r}, written by this transaction; update it")
        if new:
            self._look(opened, new, end())
        return self._put(opened, bodies)

    def _look(self, table: Table, ids: Sequence[str], head: Head) -> None:
        """Rule 12: whether rows may be inserted, by the log up to its end as it is now. The answer is a read."""
        since = self._store.log.records(self.snapshot, head.number)
        last = {
            write.id: write
            for _, other in unseen(since)
            for write in other.writes
            if write.table == table.name
        }
        self._read_many(table, [id for id in ids if id not in last])
        for id in ids:
            if id not in last and self._seen[table.name, id] is not None:
                raise DuplicateKeyError(f"{table.name!r} has a row {id!r} already; update it, or use upsert")
            if id in last and not last[id].deletes:
                self._look_beyond((table.name, id))
                raise DuplicateKeyError(f"{table.name!r} has a row {id!r} by now; begin again and update it")
        gone = [(table.name, id) for id in ids if id in last]
        if gone:
            self._tables_must_stand(head.catalog)
            self._rules_must_stand(head.catalog, {table.name, *self._footprint.tables()})
            self._must_stand(unseen(since), serializable=True)
            self._must_stream_on(since)
            self._at = RecordSnapshot(self._store, head)
            self._footprint.reads.update(gone)
            self._seen.update(dict.fromkeys(gone))

    def _look_beyond(self, key: RowKey) -> None:
        """An error tells of a commit that the snapshot doesn't have: a serializable commit fails by this read."""
        self._footprint.reads.add(key)
        self._beyond = key

    def _must_be_of_one_moment(self) -> None:
        """Without writes no look at the log is needed: reads are the snapshot's, but for what errors told."""
        if self.serializable and self._beyond is not None:
            self._end("rolled back")
            table, id = self._beyond
            raise StaleObjectError(
                f"row {id!r} of {table!r} was changed after this transaction's snapshot, as an error told it; begin "
                "again and retry"
            )

    def _tables_must_stand(self, catalog: Catalog) -> None:
        """Tables that were read must still be there: rows vanish with theirs."""
        for name in self._footprint.tables():
            state, read = catalog.get(name), self._at.head.catalog[name]
            if state is None and name in self._writes.tables:
                self._store.table(name, catalog)  # which isn't found
            if state is None or state.since != read.since:
                what = "dropped" if state is None else "dropped and created again"
                raise StaleObjectError(f"the table {name!r} was {what} meanwhile; begin again")

    def _judged(self) -> set[str]:
        """The tables that mustn't be altered until it commits: its documents were judged by what they allowed. What
        it looked for is compared with others' new documents, which may have other types then."""
        looked = {table for table, _ in self._footprint.predicates} if self.serializable else set()
        return self._writes.tables | looked

    def _rules_must_stand(self, catalog: Catalog, names: Iterable[str]) -> None:
        """Tables must allow what they did (rule 29)."""
        for name in sorted(names):
            state = catalog.get(name)
            if state is not None and state.altered > self.snapshot:
                raise StaleObjectError(
                    f"columns or the schema of {name!r} were altered by commit {state.altered}, after this "
                    "transaction began; begin again and retry"
                )

    def _must_stream_on(self, since: Iterable[sequence.LogRecord]) -> None:
        """Rows that a stream has yet to read mustn't have changed: it goes on at the snapshot that it began at."""
        changed = {write.table for _, other in unseen(since) for write in other.writes}
        for name in self._streams:
            if name in changed:
                raise StaleObjectError(
                    f"{name!r} was changed while this transaction streams it; begin again, and insert after the "
                    "stream has ended"
                )

    def _must_stand(
        self, others: Iterable[Unseen], *, serializable: bool, decoded: DecodedDocuments | None = None
    ) -> None:
        others, documents = list(others), decoded or DecodedDocuments()
        found = conflict(
            self._footprint,
            others,
            lambda write: documents.of(write, self._document),
            serializable=serializable,
        )
        if found is not None:
            raise StaleObjectError(str(found), self._now(found, others))

    def _now(self, found: WriteConflict, others: Iterable[Unseen]) -> Record | None:
        """The row of a conflict as it is now."""
        last = last_write((found.write.table, found.write.id), others)
        assert last is not None
        number, write = last
        if write.deletes:
            return None
        return Record(write.id, self._document(write), etag_of(write.table, write.id, number))

    def _document(self, write: sequence.RowWrite) -> Mapping[str, Any]:
        """The document that another transaction has put since, read by the table as it is now: types may have
        widened."""
        now, then = self._store.log.head().catalog.get(write.table), self._at.head.catalog[write.table]
        same = now is not None and now.since == then.since
        at = replace(self._at, head=self._store.log.head()) if same else self._at
        return at.document(write)

    def _put(self, table: Table, bodies: Mapping[str, bytes | None]) -> dict[str, str]:
        for id in bodies:
            self._lock((table.name, id))
        return {id: self._write(table, id, body) for id, body in bodies.items()}

    def _write(self, table: Table, id: str, body: bytes | None) -> str:
        key = (table.name, id)
        own = self._writes.get(key)
        base = own.base if own is not None else self._seen.get(key)
        self._footprint.writes.add(key)
        return self._writes.put(PendingWrite(table.name, id, body, base))

    def _lock(self, key: RowKey) -> None:
        """Rule 25: take the row's lock, and fail at once if the row moved meanwhile."""
        if self._locks is None or key in self._footprint.writes:
            return
        layout = self._at.table(key[0]).layout
        self._locks.take(layout, key[1])
        head = self._store.log.refresh()
        others = list(unseen(self._store.log.records(self.snapshot, head.number)))
        found = conflict(Footprint(writes={key}), others, self._document, serializable=False)
        if found is not None:
            self._look_beyond(key)
            self._locks.release_row(layout, key[1])
            raise StaleObjectError(str(found), self._now(found, others))

    def _must_be_open(self) -> None:
        if self._state == "open" and self._store.clock.monotonic() >= self._ends_s:
            self._end("timed out")
        if self._state == "open" and self._store.closed:
            self._end("rolled back")
            raise DatabaseClosedError(
                f"the connection of transaction {self.txid} was closed, and the transaction was rolled back: connect "
                "again."
            )
        if self._state == "timed out":
            raise TransactionTimedOutError(
                f"transaction {self.txid} took longer than {self._timeout_s:g} s and was rolled back; begin another, "
                "with a longer timeout if need be"
            )
        if self._state == "unknown":
            raise TransactionClosedError(f"transaction {self.txid} has ended with an unknown outcome")
        if self._state != "open":
            raise TransactionClosedError(f"transaction {self.txid} is already {self._state}; begin another")

    def _end(self, state: State) -> None:
        self._state = state
        if self._locks is not None:
            self._locks.release()
