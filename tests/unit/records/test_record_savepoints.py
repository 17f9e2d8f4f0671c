"""Savepoints: a transaction forgets what it wrote since, and goes on."""

from __future__ import annotations

import pytest

from firn.errors import InvalidInputError, StaleObjectError, TransactionClosedError
from firn.records.write.transaction import begin
from record_stores import Database


@pytest.fixture
def db():
    db = Database()
    db.put(a={"n": 1}, b={"n": 1})
    return db


def rows(db):
    return {row.id: row["n"] for row in begin(db.store()).scan("t")}


def test_writes_since_are_forgotten_and_those_before_stay(db):
    with begin(db.store()) as tx:
        tx.update("t", "a", {"n": 2})
        point = tx.savepoint()
        for n in (3, 4):
            tx.update("t", "a", {"n": n})
            tx.delete("t", "b")
            tx.insert("t", "c", {"n": n})
            assert [row.id for row in tx.find("t", n=n)] == ["a", "c"]
            tx.rollback(to=point)
            assert tx.get("t", "a")["n"] == 2 and tx.get("t", "b")["n"] == 1
            assert tx.find("t", n=n) == [] and tx.count("t") == 2 + db_rest(db)
        tx.insert("t", "c", {"n": 5})
    assert {id: n for id, n in rows(db).items() if id in "abc"} == {"a": 2, "b": 1, "c": 5}


def db_rest(db):
    return sum(1 for id in rows(db) if id not in "abc")


def test_what_was_only_written_since_is_in_nobodys_way(db):
    tx = begin(db.store())
    point = tx.savepoint()
    tx.upsert("t", "a", {"n": 7})
    tx.rollback(to=point)
    db.put(a={"n": 8})
    tx.upsert("t", "b", {"n": 9})
    tx.commit()
    assert (rows(db)["a"], rows(db)["b"]) == (8, 9)


def test_what_was_read_since_counts(db):
    tx = begin(db.store(), serializable=True)
    point = tx.savepoint()
    tx.update("t", "a", {"n": 7})
    tx.rollback(to=point)
    db.put(a={"n": 8})
    tx.upsert("t", "b", {"n": 9})
    with pytest.raises(StaleObjectError):
        tx.commit()


def test_a_transaction_without_writes_left_commits_nothing(db):
    tx = begin(db.store())
    point = tx.savepoint()
    tx.upsert("t", "a", {"n": 7})
    tx.rollback(to=point)
    assert tx.commit() == tx.snapshot


def test_a_unique_value_that_was_given_back_is_free(db):
    with begin(db.store()) as tx:
        point = tx.savepoint()
        tx.upsert("t", "a", {"u": "x"})
        tx.rollback(to=point)
        tx.upsert("t", "b", {"u": "x"})


def test_locks_stay(db):
    with begin(db.store(), lock=True) as tx:
        point = tx.savepoint()
        tx.update("t", "a", {"n": 7})
        tx.rollback(to=point)
        tx.update("t", "a", {"n": 8})
    assert rows(db)["a"] == 8


def test_it_is_of_its_transaction_while_that_is_open(db):
    tx, other = begin(db.store()), begin(db.store())
    with pytest.raises(InvalidInputError, match="another transaction's"):
        other.rollback(to=tx.savepoint())
    tx.rollback()
    with pytest.raises(TransactionClosedError):
        tx.savepoint()
