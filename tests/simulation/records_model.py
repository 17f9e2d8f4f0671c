"""What the clients of record tables saw, held against the log that is left: every read, every outcome, every commit.

The log orders all commits. So each read can be computed anew: it must be what the transaction's snapshot had. A
transaction that was acknowledged is in the log once, one that failed is not, and none overlaps with what was
committed between its snapshot and its own commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from firn.journal.sequence import Catalog, IndexState, LogRecord, LogTransaction, RowWrite
from firn.journal.sequence.catalog import after
from firn.records.documents.predicates import matches, predicate_of
from firn.testing.history import RecordedHistory

Status = Literal["committed", "aborted", "unknown"]
Document = Mapping[str, Any]
Found = Mapping[str, Document]
Key = tuple[str, str]

TOTAL = 100
"""All balances of the bank, always."""


@dataclass(frozen=True)
class Look:
    """A read, or an error that tells as much: `ask` gives the answer that it would have from a table's rows.
    `snapshot` is the transaction's when it was made, and `own` are the rows that it had written before. An error may
    tell of a commit behind the snapshot, up to `latest`."""

    snapshot: int
    table: str
    what: str
    ask: Callable[[Found], Any]
    answer: Any
    own: Mapping[str, Document | None]
    latest: int = 0

    def holds(self, *states: Mapping[str, Found]) -> bool:
        """Whether the answer is right in one of these."""
        return any(self.now(state) == self.answer for state in states)

    def now(self, state: Mapping[str, Found]) -> Any:
        """What it would find in another state."""
        rows = {**state.get(self.table, {}), **self.own}
        return self.ask({id: document for id, document in rows.items() if document is not None})

    def __str__(self) -> str:
        return f"{self.what} of {self.table} at {self.snapshot}"


def matching(rows: Found, where: Mapping[str, Any]) -> Found:
    """The rows that match."""
    asked = {name: predicate_of(value) for name, value in where.items()}
    return {id: document for id, document in rows.items() if matches(document, asked)}


def indexed(document: Document, field: str, index: IndexState) -> list[Any]:
    """What a row has in an index: its value, or the different elements of its list."""
    value = document.get(field)
    return list(dict.fromkeys(value or ())) if index.each else [value]


@dataclass
class Observed:
    """A transaction as its client saw it. `floor`: the last commit that anybody was told of before it began."""

    txid: str
    floor: int
    serializable: bool
    began: int
    looks: list[Look] = field(default_factory=list)
    writes: dict[Key, Document | None] = field(default_factory=dict)
    snapshot: int = 0
    status: Status = "unknown"
    number: int = 0


class Model:
    """The transactions of one world."""

    def __init__(self) -> None:
        self.observed: list[Observed] = []
        self.history = RecordedHistory()
        self.acknowledged = 0
        self.happened: Counter[str] = Counter()
        self.elements = 0
        self.large = 0

    def ended(self, transaction: Observed, number: int) -> None:
        """A client was told that its transaction is committed."""
        transaction.status, transaction.number = "committed", number
        self.acknowledged = max(self.acknowledged, number)
        self.happened["committed"] += 1

    def element(self) -> int:
        """One that no list has yet."""
        self.elements += 1
        return self.elements

    def text(self) -> str:
        """What fills a document: a megabyte for a few of them."""
        self.large += 1
        return "x" * (1_200_000 if self.large % 16 == 5 and self.large < 100 else self.large % 60)

    def holds(self, records: Sequence[LogRecord], body: Callable[[RowWrite], bytes]) -> None:
        """Everything is as it was promised, by the whole log."""
        states = States(records, body)
        for transaction in self.observed:
            self._stands(transaction, states)
        all_serializable = all(transaction.serializable for transaction in self.observed)
        verdict = self.history.check("serializable" if all_serializable else "snapshot")
        assert verdict, str(verdict)

    def _stands(self, t: Observed, states: States) -> None:
        landed = states.numbers.get(t.txid)
        if t.status == "committed" and t.writes:
            assert landed == t.number, f"{t.txid} was acknowledged as {t.number}, and is in {landed}"
            assert states.writes_of(t.txid) == t.writes, f"commit {t.number} isn't what was sent"
        if t.status == "aborted":
            assert landed is None, f"{t.txid} failed, and is commit {landed}"
        assert t.snapshot == 0 or t.began >= t.floor, f"{t.txid} began at {t.began}, {t.floor} was there"
        for look in t.looks:
            # The rows of a table go when it is dropped, and nobody who reads is told; whoever commits is.
            if landed is not None or states.stands(look.table, look.snapshot):
                _same(look, f"{t.txid} read", *states.since(look.snapshot, look.latest))
        if t.status == "committed" and t.serializable and not t.writes:
            for look in t.looks:
                if states.stands(look.table, look.snapshot):
                    _same(look, f"{t.txid}, which wrote nothing, had read", states.at(t.snapshot))
        if landed is None:
            return
        told = states.snapshot_of(t.txid)
        assert told == t.snapshot, f"commit {landed} says that it read at {told}, and it was at {t.snapshot}"
        for table in {look.table for look in t.looks} | {table for table, _ in t.writes}:
            assert states.stands(table, t.snapshot, landed), (
                f"commit {landed} has to do with {table}, now another"
            )
        between = states.between(t.snapshot, t.txid)
        touched = {(write.table, write.id) for member in between for write in member.writes}
        assert not touched & t.writes.keys(), f"commit {landed} lost an update of {touched & t.writes.keys()}"
        what = f"commit {landed}, when its snapshot was {t.snapshot}, had read"
        for look in t.looks:
            _same(look, what, *states.since(t.snapshot, look.latest))
        if t.serializable:
            before = states.before(t.txid)
            for look in t.looks:
                _same(look, f"serializable commit {landed} had read", before)


def _same(look: Look, what: str, *states: Mapping[str, Found]) -> None:
    assert look.holds(*states), f"{what} {look}: {look.answer}, and it would be {look.now(states[0])}"


class States:
    """The database after each commit, by the log, with what must hold in all of them."""

    def __init__(self, records: Sequence[LogRecord], body: Callable[[RowWrite], bytes]) -> None:
        self._body = body
        self._catalogs: list[Catalog] = [{}]
        self._states: list[dict[str, dict[str, Document]]] = [{}]
        self._catalog: Catalog = {}
        self._before: dict[str, dict[str, dict[str, Document]]] = {}
        self._members: list[tuple[int, LogTransaction]] = []
        self._at: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        for number, record in enumerate(records, start=1):
            assert record.number == number, f"commit {number} is {record.number}"
            assert record.catalog == self._catalog, f"commit {number} has {record.catalog}"
            self._catalog = after(record)
            self._catalogs.append(self._catalog)
            self._add(record)

    def _add(self, record: LogRecord) -> None:
        state = self._states[-1]
        for member in record.group:
            assert member.txid not in self.numbers, (
                f"{member.txid} is in {self.numbers[member.txid]} and {record.number}"
            )
            self.numbers[member.txid] = record.number
            self._at[member.txid] = len(self._members)
            self._members.append((record.number, member))
            self._before[member.txid] = state
            state = dict(state)
            if member.ddl is not None and member.ddl.verb in ("create", "drop"):
                state[member.ddl.table] = {}
            for write in member.writes:
                rows = state[write.table] = dict(state.get(write.table, {}))
                if write.deletes:
                    rows.pop(write.id, None)
                else:
                    rows[write.id] = orjson.loads(self._body(write))
            _holds_always(state, record.number)
        _unique_values_are(state, record)
        self._states.append(state)

    def at(self, number: int) -> Mapping[str, Found]:
        return self._states[number]

    def since(self, number: int, latest: int) -> Sequence[Mapping[str, Found]]:
        """That after a commit, and those up to a later one."""
        return self._states[number : max(number, latest) + 1]

    def stands(self, table: str, number: int, upto: int | None = None) -> bool:
        """Whether a table that was there after a commit is the same one before a later one, or to the end."""
        was = self._catalogs[number].get(table)
        later = (catalog.get(table) for catalog in self._catalogs[number:upto])
        return all(was is not None and now is not None and now.since == was.since for now in later)

    def before(self, txid: str) -> Mapping[str, Found]:
        return self._before[txid]

    def between(self, snapshot: int, txid: str) -> Iterator[LogTransaction]:
        """What was committed after a snapshot and before a transaction."""
        for number, member in self._members[: self._at[txid]]:
            if number > snapshot:
                yield member

    def snapshot_of(self, txid: str) -> int:
        """What the log says that a transaction read at."""
        return self._members[self._at[txid]][1].snapshot

    def writes_of(self, txid: str) -> dict[Key, Document | None]:
        _, member = self._members[self._at[txid]]
        return {
            (write.table, write.id): None if write.deletes else orjson.loads(self._body(write))
            for write in member.writes
        }


def _holds_always(state: Mapping[str, Found], number: int) -> None:
    bank = state.get("bank", {})
    if bank:
        total = sum(account["balance"] for account in bank.values())
        assert total == TOTAL, f"after commit {number} the bank has {total}"
    emails = [user["email"] for user in state.get("users", {}).values() if user["email"] is not None]
    assert len(emails) == len(set(emails)), f"after commit {number} an email is twice: {sorted(emails)}"
    shifts = {doctor["shift"] for doctor in state.get("doctors", {}).values()}
    for shift in shifts:
        on = [d for d in state["doctors"].values() if d["shift"] == shift and d["on"]]
        assert on, f"after commit {number} nobody is on call in {shift}"


def _unique_values_are(state: Mapping[str, Found], record: LogRecord) -> None:
    """Where there is an index that says so."""
    for table, definition in after(record).items():
        for name, index in definition.fields.items():
            if index.unique and index.stage == "ready":
                rows = state.get(table, {}).values()
                values = [v for row in rows for v in indexed(row, name, index) if v is not None]
                assert len(values) == len(set(values)), (
                    f"after commit {record.number} {table} has {sorted(values)} in a unique index"
                )
