"""The `DuplicateKeyError` of an insert is a read: it tells that the row is there. So do refusals of other verbs."""

from __future__ import annotations

import pytest

import firn


@pytest.fixture
def db():
    db = firn.connect("memory://")
    table = db.create_table("t", kind="records")
    for id in ("a", "x"):
        table.insert(id, {"n": 0})
    return db


def test_a_refused_insert_is_a_read(db):
    """T1 sees a and writes x; T2 sees the old x and deletes a: no order of both gives that."""
    one, two = db.begin(serializable=True), db.begin(serializable=True)
    with pytest.raises(firn.DuplicateKeyError):
        one.insert("t", "a", {"n": 1})
    one.update("t", "x", {"n": 1})
    assert two.get("t", "x")["n"] == 0
    two.delete("t", "a")
    two.commit()
    with pytest.raises(firn.StaleObjectError, match="'a' of 't' was changed"):
        one.commit()


@pytest.mark.parametrize("writes", [True, False])
def test_a_refused_insert_of_what_came_later_is_a_read(db, writes):
    """The row isn't in the snapshot, and the transaction knows of it: its reads are of two moments."""
    one = db.begin(serializable=True)
    assert one.get("t", "x")["n"] == 0
    db.table("t").insert("b", {"n": 0})
    with pytest.raises(firn.DuplicateKeyError):
        one.insert("t", "b", {"n": 1})
    if writes:
        one.upsert("t", "y", {"n": 1})
    with pytest.raises(firn.StaleObjectError, match="'b' of 't' was changed"):
        one.commit()
    with pytest.raises(firn.TransactionClosedError):
        one.get("t", "x")


def test_a_refusal_repeats_although_the_snapshot_wanted_to_move(db):
    table = db.table("t")
    tx = db.begin()
    with pytest.raises(firn.DuplicateKeyError):
        tx.insert("t", "a", {"n": 1})
    table.delete("x")
    table.delete("a")
    with pytest.raises(firn.StaleObjectError):
        tx.insert("t", "x", {"n": 1})


def test_a_lock_that_is_refused_for_a_change_is_a_read(db):
    one = db.begin(serializable=True, lock=True)
    db.table("t").update("a", {"n": 1})
    with pytest.raises(firn.StaleObjectError):
        one.upsert("t", "a", {"n": 2})
    one.upsert("t", "y", {"n": 1})
    with pytest.raises(firn.StaleObjectError, match="'a' of 't' was changed"):
        one.commit()


@pytest.mark.parametrize("verb", ["get", "update", "delete", "delete if there"])
def test_a_miss_is_a_read(db, verb):
    one = db.begin(serializable=True)
    if verb == "delete if there":
        one.delete("t", "gone", etag="")
    else:
        with pytest.raises(firn.NoSuchKeyError):
            getattr(one, verb)("t", "gone", *([{"n": 1}] if verb == "update" else []))
    db.table("t").insert("gone", {"n": 0})
    one.upsert("t", "y", {"n": 1})
    with pytest.raises(firn.StaleObjectError, match="'gone' of 't' was changed"):
        one.commit()
