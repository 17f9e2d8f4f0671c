"""Transactions over record tables against a model: a list of states and what each transaction has touched.

Several transactions are open at once, each in a process of its own; between their steps others apply commits, collect
what is old and let time pass. Every result and every error is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firn
from firn.records.apply.apply import settle
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.documents.predicates import matches, predicate_of
from firn.records.maintain.collection import collect, sweep
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import Transaction, begin
from firn.testing import SimStore

IDS = st.sampled_from(["a", "b", "c", "é___/.."])
NUMBERS = st.sampled_from([None, 1, 2, 2.5, True])
NAMES = st.sampled_from([None, "", "x", "xy", "e\u0301t", "\u00e9t", "~" * 120])
TAGS = st.sampled_from([None, 1, 1.0, "x", "xy", "e\u0301t"])
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS,
        "name": NAMES,
        "mail": st.sampled_from("pqr"),
        "tags": st.none() | st.lists(TAGS, max_size=3),
        "keys": st.lists(st.sampled_from([None, *"uvwxyz"]), max_size=2),
    },
)
WHERE = st.one_of(
    st.fixed_dictionaries({"n": NUMBERS}),
    st.fixed_dictionaries(
        {"n": st.sampled_from([firn.Range(1, 3), firn.Range(2, closed=True), firn.Range(end=2)])}
    ),
    st.fixed_dictionaries({"name": NAMES}),
    st.fixed_dictionaries(
        {"name": st.sampled_from([firn.Prefix("x"), firn.Prefix("é"), firn.Prefix(""), firn.Range("", "y")])}
    ),
    st.fixed_dictionaries({"mail": st.sampled_from("pqr"), "n": NUMBERS}),
    st.fixed_dictionaries({"tags": TAGS.map(firn.Contains)}, optional={"name": NAMES}),
    st.fixed_dictionaries(
        {"tags": st.sampled_from([firn.Prefix("x"), firn.Range(1), firn.Range("", "y")]).map(firn.Contains)}
    ),
    st.fixed_dictionaries({"keys": st.sampled_from("uvw").map(firn.Contains)}),
)
Rows = dict[str, dict[str, Any]]


@dataclass
class Model:
    """A transaction: the number of its snapshot, and what it touched."""

    tx: Transaction
    snapshot: int
    serializable: bool
    writes: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    predicates: list[dict[str, Any]] = field(default_factory=list)
    beyond: bool = False
    stream: tuple[Iterator[Any], list[Any], Rows] | None = None


@dataclass
class Commit:
    writes: dict[str, dict[str, Any] | None]
    claims: set[str]


STEPS = st.one_of(
    st.tuples(st.sampled_from(["get", "delete"]), IDS),
    st.tuples(st.sampled_from(["find", "scan", "count", "stream"]), WHERE),
    st.tuples(st.sampled_from(["insert", "update", "upsert"]), IDS, DOCUMENTS),
    st.tuples(st.just("upsert"), IDS, DOCUMENTS),
    st.tuples(st.sampled_from(["commit", "commit", "rollback"])),
    st.tuples(st.sampled_from(["apply", "pass_time", "collect"])),
)
"""What one of three transactions does next, or somebody else."""


TRANSACTIONS = given(
    st.lists(st.tuples(st.integers(0, 2), STEPS), min_size=15, max_size=60), st.tuples(*3 * [st.booleans()])
)


@settings(max_examples=80)
@TRANSACTIONS
def test_transactions_are_those_of_the_model(steps, serializable):
    _run(steps, serializable)


@pytest.mark.long
@settings(max_examples=400)
@TRANSACTIONS
def test_transactions_are_those_of_the_model_at_length(steps, serializable):
    _run(steps, serializable)


def _run(steps, serializable):
    records = Records()
    for slot, (verb, *arguments) in steps:
        if verb in ("apply", "pass_time", "collect"):
            getattr(records, verb)()
            continue
        if slot not in records.open:
            records.begin(slot, serializable[slot])
        getattr(records, verb)(slot, *arguments)
    for slot in sorted(records.open):
        records.commit(slot)
    for last in (records.all_rows(), (records.collect(), records.all_rows())[1]):
        assert last == records.states[-1]


class Records:
    def __init__(self) -> None:
        self.store = SimStore(page_size=3)
        self.definition = RecordDefinition(
            "t",
            db="db",
            indices=(
                Index("n"),
                Index("name"),
                Index("mail", unique=True),
                Index("tags", each=True),
                Index("keys", unique=True, each=True),
            ),
            state="ready",
        )
        define(self.opened(), self.definition.creation())
        self.states: list[Rows] = [{}]
        self.commits: list[Commit] = []
        self.open: dict[int, Model] = {}

    def opened(self) -> RecordStore:
        bucket = self.store.bucket("client")
        return RecordStore(bucket, "db", clock=bucket.clock, definitions={"t": self.definition}.get)

    def all_rows(self) -> Rows:
        tx = begin(self.opened())
        found = {row.id: row.document for row in tx.scan("t")}
        assert found == {row.id: row.document for row in tx.find("t", name=None)} | {
            row.id: row.document for row in tx.find("t", name=firn.Prefix(""))
        }
        return found

    # -- transactions

    def begin(self, slot: int, serializable: bool) -> None:
        tx = begin(self.opened(), serializable=serializable)
        self.open[slot] = Model(tx, len(self.commits), serializable)

    def get(self, slot: int, id: str) -> None:
        m = self.open[slot]
        m.reads.add(id)
        expected = self.seen(m).get(id)
        try:
            assert m.tx.get("t", id).document == expected
        except firn.NoSuchKeyError:
            assert expected is None

    def find(self, slot: int, where: dict[str, Any]) -> None:
        self.look(self.open[slot], self.open[slot].tx.find, where)

    def scan(self, slot: int, where: dict[str, Any]) -> None:
        self.look(self.open[slot], self.open[slot].tx.scan, where)

    def count(self, slot: int, where: dict[str, Any]) -> None:
        m = self.open[slot]
        assert m.tx.count("t", where) == len(self.looked(m, where))

    def stream(self, slot: int, where: dict[str, Any]) -> None:
        """Read the first row, and the others when the next stream begins or the transaction ends."""
        m = self.open[slot]
        self.end_stream(m)
        rows, there = m.tx.stream("t", where), self.looked(m, where)
        first = next(rows, None)
        if first is not None:
            m.stream = (rows, [first], there)
        else:
            assert not there

    def end_stream(self, m: Model) -> None:
        if m.stream is not None:
            rows, found, there = m.stream
            m.stream = None
            assert {row.id: row.document for row in (*found, *rows)} == there

    def look(self, m: Model, look: Any, where: dict[str, Any]) -> None:
        assert {row.id: row.document for row in look("t", where)} == self.looked(m, where)

    def looked(self, m: Model, where: dict[str, Any]) -> Rows:
        """What matches, which is read with that."""
        asked = {name: predicate_of(value) for name, value in where.items()}
        m.predicates.append(asked)
        m.reads |= {id for id, row in self.states[m.snapshot].items() if matches(row, asked)}
        return {id: row for id, row in self.seen(m).items() if matches(row, asked)}

    def insert(self, slot: int, id: str, document: dict[str, Any]) -> None:
        m = self.open[slot]
        error = self.insert_error(m, id)
        self.same({error} - {None}, lambda: m.tx.insert("t", id, document))
        if error is None:
            m.writes[id] = document
        elif error is firn.DuplicateKeyError and id not in m.writes:
            m.reads.add(id)
            m.beyond |= any(id in commit.writes for commit in self.commits[m.snapshot :])

    def update(self, slot: int, id: str, document: dict[str, Any]) -> None:
        m = self.open[slot]
        m.reads.update({id} - m.writes.keys())
        error = firn.NoSuchKeyError if id not in self.seen(m) else None
        self.same({error} - {None}, lambda: m.tx.update("t", id, document))
        if error is None:
            m.writes[id] = document

    def upsert(self, slot: int, id: str, document: dict[str, Any]) -> None:
        m = self.open[slot]
        m.tx.upsert("t", id, document)
        m.writes[id] = document

    def delete(self, slot: int, id: str) -> None:
        m = self.open[slot]
        m.reads.update({id} - m.writes.keys())
        error = firn.NoSuchKeyError if id not in self.seen(m) else None
        self.same({error} - {None}, lambda: m.tx.delete("t", id))
        if error is None:
            m.writes[id] = None

    def commit(self, slot: int) -> None:
        m = self.open.pop(slot)
        self.end_stream(m)
        errors, claims = self.commit_errors(m)
        self.same(errors, m.tx.commit)
        if not errors and m.writes:
            rows = {**self.states[-1], **m.writes}
            self.states.append({id: row for id, row in rows.items() if row is not None})
            self.commits.append(Commit(m.writes, claims))

    def rollback(self, slot: int) -> None:
        self.open.pop(slot).tx.rollback()

    # -- others

    def apply(self) -> None:
        settle(self.opened())

    def pass_time(self) -> None:
        self.store.time.advance(10_000)

    def collect(self) -> None:
        """With a retention that spares all who are open; with none, if nobody is."""
        store = self.opened()
        if not self.open:
            self.store.time.advance(40_000)
        settle(store)
        collect(store, retention_s=10**6 if self.open else 0)
        sweep(store, orphan_age_s=10**6)

    # -- the model

    def seen(self, m: Model) -> Rows:
        rows = {**self.states[m.snapshot], **m.writes}
        return {id: row for id, row in rows.items() if row is not None}

    def same(self, errors: set[type[Exception]], call: Any) -> None:
        if not errors:
            call()
            return
        with pytest.raises(firn.FirnError) as raised:
            call()
        assert raised.type in errors

    def insert_error(self, m: Model, id: str) -> type[Exception] | None:
        """Rule 12; it moves the snapshot where that may be."""
        if id in m.writes:
            return None if m.writes[id] is None else firn.DuplicateKeyError
        since = self.commits[m.snapshot :]
        last = next((commit.writes[id] for commit in reversed(since) if id in commit.writes), ...)
        if last is ...:
            return firn.DuplicateKeyError if id in self.states[m.snapshot] else None
        if last is not None:
            return firn.DuplicateKeyError
        if m.stream is not None or self.touched(m, since, reads=True):
            return firn.StaleObjectError
        m.snapshot = len(self.commits)
        return None

    def touched(self, m: Model, since: list[Commit], *, reads: bool) -> bool:
        for commit in since:
            for id, row in commit.writes.items():
                if id in m.writes or (reads and id in m.reads):
                    return True
                if reads and row is not None and any(matches(row, asked) for asked in m.predicates):
                    return True
        return False

    def commit_errors(self, m: Model) -> tuple[set[type[Exception]], set[str]]:
        """What a commit may fail by, which is no error if there is none, and what it brings into the unique index."""
        since = self.commits[m.snapshot :]
        errors: set[type[Exception]] = set()
        if not m.writes:
            # An error told of what came after the snapshot.
            return {firn.StaleObjectError} if m.serializable and m.beyond else errors, set()
        if self.touched(m, since, reads=m.serializable):
            errors.add(firn.StaleObjectError)
        old = self.states[m.snapshot]
        brought = {
            value
            for id, row in m.writes.items()
            if row is not None
            for value in unique_values(row) - unique_values(old.get(id, {}))
        }
        values = [value for row in self.seen(m).values() for value in unique_values(row)]
        if any(values.count(value) > 1 for value in values) or any(c.claims & brought for c in since):
            errors.add(firn.DuplicateKeyError)
        return errors, brought


def unique_values(row: dict[str, Any]) -> set[str]:
    """What no other row may have."""
    return {value for value in (row.get("mail"), *row.get("keys", ())) if value is not None}
