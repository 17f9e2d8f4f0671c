"""Finding rows of record tables, and unique values: through indices, at snapshots old and new (rules 11 and 26)."""

from __future__ import annotations

import pytest

from firn.errors import (
    DuplicateKeyError,
    InvalidInputError,
    SnapshotTooOldError,
    TableNotFoundError,
)
from firn.records.apply.apply import settle
from firn.records.documents.predicates import Prefix, Range
from firn.records.maintain.collection import collect
from firn.records.write.transaction import begin
from record_stores import Database, R

OLD, NEW = {"n": 1}, {"n": 2}


@pytest.fixture(params=["pending", "applied"])
def applied(request):
    """Whether commits are in rows already, or only in the log."""
    return request.param == "applied"


@pytest.fixture
def db(twins):
    return Database(twins=twins)


# -- finding


def test_finding(db, applied):
    db.put(**{f"r{n}": {"n": n, "u": f"name {n}"} for n in range(5)})
    db.put(r0=None, r1={"n": 7, "u": "name 1"})
    if applied:
        db.apply()
    tx = db.begin()

    def ids(*args, **where):
        return [row["_id"] for row in tx.find("t", *args, **where)]

    assert ids(n=1) == []
    assert ids(n=Range(2, 7)) == ["r2", "r3", "r4"]
    assert ids(n=Range(2, 7, closed=True), u="name 1") == ["r1"]
    assert ids({"u": Prefix("name")}) == ["r1", "r2", "r3", "r4"]
    assert ids(u=Range("name 2", None), other=None) == ["r2", "r3", "r4"]
    assert tx.count("t") == 4
    assert tx.count("t", n=2) == 1
    assert [row["_id"] for row in tx.scan("t", other=None)] == ["r1", "r2", "r3", "r4"]
    tx.update("t", "r2", {"n": 1})
    tx.insert("t", "s", {"n": 1})
    assert ids(n=1) == ["r2", "s"]
    assert ids(n=2) == []


def test_finding_without_an_index(db):
    with pytest.raises(InvalidInputError, match=r"find in 't' needs a field that is indexed \(n, u\)"):
        db.begin().find("t", other=1)
    with pytest.raises(InvalidInputError, match=r"find in 'plain' needs a field that is indexed \(none\)"):
        db.begin().find("plain")


def test_what_an_index_can_not_hold(db):
    with pytest.raises(InvalidInputError, match="at n, which is indexed"):
        db.begin().insert("t", "a", {"n": [1]})


def test_what_comes_out_may_be_changed(db):
    db.put(a={"n": 1, "list": [1]})
    tx = db.begin()
    tx.get("t", "a")["list"].append(2)
    tx.find("t", n=1)[0]["list"].append(2)
    assert tx.get("t", "a").document == {"n": 1, "list": [1]}


def test_unknown_tables(db):
    with pytest.raises(TableNotFoundError, match="is no record table"):
        db.begin().get("u", "a")


# -- old snapshots


def test_a_find_at_a_snapshot_that_was_collected(db):
    """Rule 11: entries that are gone tell nothing."""
    db.put(a=OLD)
    old, fresh_within_r = db.begin("old"), db.begin("lately")
    db.put(a=NEW)
    db.put(a=NEW)
    db.apply()
    assert old.find("t", n=1)
    db.age(R + 2)
    db.put(b=OLD)
    assert db.collect().horizon == 4
    for tx in (old, fresh_within_r):
        with pytest.raises(SnapshotTooOldError, match="is older than what is kept"):
            tx.find("t", n=1)


def test_what_this_process_reads_is_not_collected(db):
    db.put(a={"n": 1})
    store = db.store("both")
    tx = begin(store, timeout_s=10_000)
    for n in range(2, 5):
        db.put(a={"n": n})
        db.age(R + 2)
    settle(store)
    assert collect(store, retention_s=0).horizon == tx.snapshot
    assert [row["n"] for row in tx.find("t", n=1)] == [1]
    tx.rollback()
    assert collect(store, retention_s=0).horizon == tx.snapshot + 2


def test_a_row_at_a_snapshot_that_was_collected(db):
    """Rule 10: `cut`."""
    db.put(a=OLD, b=OLD)
    db.apply()
    old = db.begin("old")
    db.put(a=NEW)
    db.put(a=NEW)
    db.apply()
    db.age(R + 2)
    db.put(c=OLD)
    assert db.collect().versions == 1
    assert old.get("t", "b").document == OLD
    with pytest.raises(
        SnapshotTooOldError, match="row 'a': the version of the snapshot at commit 3 was removed"
    ):
        old.get("t", "a")


# -- unique


def test_unique_values(db, applied):
    db.put(a={"n": 1, "u": "x"})
    if applied:
        db.apply()
    tx = db.begin()
    tx.insert("t", "b", {"u": "x"})
    with pytest.raises(DuplicateKeyError, match="t/u/x: row 'a' has this value of the unique index already"):
        tx.commit()
    with db.begin() as tx:  # handing it over
        tx.update("t", "a", {"n": 1, "u": "y"})
        tx.insert("t", "b", {"u": "x"})
    with db.begin() as tx:  # keeping it, and nulls
        tx.update("t", "b", {"n": 5, "u": "x"})
        tx.insert("t", "c", {"n": 5})
        tx.insert("t", "d", {"n": 5, "u": None})
    with pytest.raises(DuplicateKeyError, match="t/u/z: row 'e'"), db.begin() as tx:
        tx.insert("t", "e", {"u": "z"})
        tx.insert("t", "f", {"u": "z"})


def test_a_unique_value_that_one_own_row_keeps_and_another_takes(db):
    """The row that keeps it is written too, so that it isn't found as somebody else's."""
    db.put(a={"u": 1}, b={"u": 2})
    tx = db.begin()
    tx.update("t", "a", {"u": 1, "n": 1})
    tx.update("t", "b", {"u": 1})
    with pytest.raises(DuplicateKeyError, match="row 'a' has this value"):
        tx.commit()
    with db.begin() as tx:
        tx.update("t", "a", {"u": 2})
        tx.update("t", "b", {"u": 1})
    assert [row["_id"] for row in db.begin().find("t", u=1)] == ["b"]


def test_two_who_bring_in_one_unique_value_at_once(db):
    one, other = db.begin("one"), db.begin("other")
    one.insert("t", "a", {"u": "x"})
    other.insert("t", "b", {"u": "x"})
    one.commit()
    with pytest.raises(DuplicateKeyError, match="t/u/x is taken: commit 3 brought it into the unique index"):
        other.commit()
