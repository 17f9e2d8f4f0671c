"""Unique indices that come while others write, and who is in the way of whom then (rules 26 and 27)."""

from __future__ import annotations

import pytest

from firn.errors import ConflictError, DuplicateKeyError, NotFoundError, TableNotFoundError
from firn.journal.sequence import Ddl, LogTransaction, RowWrite, commit
from firn.records.maintain.ddl import DefinitionChange, define
from firn.records.maintain.indexes import build_index, drop_index
from firn.records.write.transaction import begin
from record_stores import Before, Database


@pytest.fixture
def db():
    db = Database()
    db.put(**{f"r{n}": {"city": f"town {n}"} for n in range(4)})
    db.apply()
    return db


def towns(db):
    return sorted(row["city"] for row in db.begin().scan("t"))


def test_who_began_before_a_unique_index_is_judged_by_what_was_written_before_it(db):
    """Between the two, somebody brought the value in, and had nothing to claim yet."""
    early = db.begin("early")
    early.insert("t", "early", {"city": "new"})
    db.put(late={"city": "new"})
    build_index(db.store("builder"), "t", "city", unique=True)
    with pytest.raises(DuplicateKeyError, match="t/city/new"):
        early.commit()
    assert towns(db).count("new") == 1


def test_a_value_that_was_given_up_before_the_unique_index_came_is_free(db):
    early = db.begin("early")
    early.insert("t", "early", {"city": "new"})
    db.put(late={"city": "new"})
    db.put(late={"city": "another"})
    build_index(db.store("builder"), "t", "city", unique=True)
    early.commit()
    assert towns(db).count("new") == 1


class Keeps:
    """A writer that keeps its row's value, which need not be claimed."""

    txid, snapshot = "keeps", 3

    def admit(self, moment):
        return LogTransaction(self.txid, self.snapshot, (RowWrite("t", "r3", b'{"city":"town 3","n":1}'),))


class Takes:
    """A writer that had looked for its value before entries were there."""

    txid, snapshot = "takes", 3

    def admit(self, moment):
        writes = (RowWrite("t", "late", b'{"city":"town 3"}'),)
        return LogTransaction(self.txid, self.snapshot, writes, ("t/city/town%203",))


def test_a_row_that_is_written_and_keeps_its_value_just_before_a_unique_index_is_ready(db):
    """Two threads share a record: one writes the row, the other one brings its value in once more."""
    log = db.store("late").log
    at = f"{log.refresh().number + 2:020}"
    builder = db.store("builder", Before("put_if_absent", at, lambda: commit(log, [Keeps(), Takes()])))
    with pytest.raises(DuplicateKeyError, match="row 'r3' and row 'late', written meanwhile, have one value"):
        build_index(builder, "t", "city", unique=True)
    assert "city" not in db.store().log.refresh().catalog["t"].fields


def test_any_number_of_rows_may_have_null(db):
    """Before the index, while it is built, and who is older than it."""
    db.put(x={"city": None}, y={})
    early = db.begin("early")
    early.insert("t", "early", {"city": None})
    db.put(before={})
    at = f"{db.store().log.refresh().number + 2:020}"
    build_index(
        db.store("builder", Before("put_if_absent", at, lambda: db.put(a={}, b={"city": None}))),
        "t",
        "city",
        unique=True,
    )
    early.commit()
    db.put(after={})
    assert db.begin().count("t", city=None) == 7


def test_a_builder_that_slept_does_not_end_another_ones_build(db):
    """The index that it built was dropped, and another one of the field is being built."""

    def overtaken():
        drop_index(db.store(), "t", "city")
        define(db.store(), Ddl("build", "t", field="city"))

    asleep = db.store("asleep", Before("list", "t/data/", overtaken))
    with pytest.raises((NotFoundError, ConflictError)):
        build_index(asleep, "t", "city")
    index = db.store().log.refresh().catalog["t"].fields["city"]
    assert index.stage == "build", "it would be used without its entries"
    assert index.generation == 1


def test_a_builder_that_fails_late_does_not_drop_another_ones_index(db):
    db.put(r0={"city": "town 3"})

    def overtaken():
        drop_index(db.store(), "t", "city")
        build_index(db.store("other"), "t", "city")

    asleep = db.store("asleep", Before("list", "t/data/", overtaken))
    with pytest.raises((NotFoundError, ConflictError, DuplicateKeyError)):
        build_index(asleep, "t", "city", unique=True)
    assert db.store().log.refresh().catalog["t"].fields["city"].stage == "ready"


def test_who_writes_to_a_table_that_is_dropped_in_the_same_record_is_told(db):
    store = db.store("threads")
    tx = begin(store)
    tx.upsert("t", "a", {"n": 1})
    drop = DefinitionChange(Ddl("drop", "t"), store.log.refresh().number)
    outcomes = commit(store.log, [drop, tx])
    assert isinstance(outcomes[drop.txid], int)
    assert isinstance(outcomes[tx.txid], TableNotFoundError)
