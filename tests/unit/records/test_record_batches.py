"""Many rows by one verb: what single verbs would do, with requests side by side, in one transaction."""

from __future__ import annotations

import pytest

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import DuplicateKeyError, InvalidInputError, StaleObjectError
from firn.testing import SimStore
from record_stores import Database


@pytest.fixture
def db(twins):
    return Database(twins=twins)


def test_rows_are_got_by_their_ids(db):
    db.put(a={"n": 1}, b={"n": 2})
    db.apply()
    db.put(b={"n": 3}, c={"n": 4})
    tx = db.begin()
    tx.upsert("t", "d", {"n": 5})
    tx.delete("t", "a")
    found = tx.get_many("t", ["d", "c", "b", "a", "b", "gone"])
    assert {id: row["n"] for id, row in found.items()} == {"d": 5, "c": 4, "b": 3}
    assert list(found) == ["d", "c", "b"]
    assert found["c"] == tx.get("t", "c") and found["c"].etag == tx.get("t", "c").etag
    with pytest.raises(InvalidInputError):
        tx.get_many("t", ["a", 7])


def test_what_was_got_and_missed_is_read(db):
    db.put(a={"n": 1})
    for id in ("a", "gone"):
        tx = db.begin(serializable=True)
        tx.get_many("t", ["a", "gone"])
        db.put(**{id: {"n": 2}})
        tx.upsert("t", "x", {"n": 1})
        with pytest.raises(StaleObjectError):
            tx.commit()
        db.put(gone=None) if id == "gone" else None


def test_all_are_inserted_or_none(db):
    db.put(b={"n": 1})
    tx = db.begin()
    with pytest.raises(DuplicateKeyError, match="'b'"):
        tx.insert_many("t", {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}})
    with pytest.raises(InvalidInputError):
        tx.insert_many("t", {"a": {"n": 1}, "c": {"n": [1]}})
    assert sorted(tx.insert_many("t", {"a": {"n": 1}, "c": {"n": 3, "u": 7}})) == ["a", "c"]
    with pytest.raises(DuplicateKeyError, match="written by this transaction"):
        tx.insert_many("t", {"d": {"n": 1}, "a": {"n": 2}})
    tx.commit()
    assert {row.id for row in db.begin().scan("t")} == {"a", "b", "c"}
    tx = db.begin()
    tx.insert_many("t", {"d": {"u": 8}, "e": {"u": 8}})
    with pytest.raises(DuplicateKeyError, match="t/u/"):
        tx.commit()


def test_rows_that_were_deleted_since_are_inserted(db):
    db.put(a={"n": 1}, b={"n": 1}, c={"n": 1})
    tx, late = db.begin(), db.begin()
    late.get("t", "c")
    db.put(a=None, b=None, c={"n": 2})
    tx.insert_many("t", {"a": {"n": 5}, "b": {"n": 5}, "new": {"n": 5}})
    assert tx.get("t", "c")["n"] == 2
    with pytest.raises(StaleObjectError):
        late.insert_many("t", {"a": {"n": 6}, "x": {"n": 6}})
    tx.commit()
    with pytest.raises(DuplicateKeyError, match="'a' by now"):
        late.insert_many("t", {"x": {"n": 6}, "a": {"n": 6}})


def test_many_are_put_and_deleted(db):
    tx = db.begin()
    etags = tx.upsert_many("t", {"a": {"n": 1}, "b": {"n": 2}})
    assert tx.get("t", "a").etag == etags["a"]
    assert tx.delete_many("t", ["b", "gone", "a"]) == ["b", "a"]
    tx.upsert_many("t", {"b": {"n": 3}})
    tx.commit()
    assert {row.id: row["n"] for row in db.begin().scan("t")} == {"b": 3}


def tables():
    store = SimStore()
    bucket = store.bucket()
    return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_a_table_has_the_same(isolation):
    made = tables()
    table = made.create(made.describe("t", RecordOptions(isolation=isolation)))
    rows = {f"{n:03}": {"n": n} for n in range(100)}
    etags = table.insert_many(rows)
    assert {id: row.document for id, row in table.get_many([*rows, "gone"]).items()} == rows
    assert {id: row.etag for id, row in table.get_many(rows).items()} == etags
    with pytest.raises(DuplicateKeyError):
        table.insert_many({"050": {"n": 0}})
    etags = table.upsert_many({"050": {"n": 0}, "051": {"n": 0}})
    table.update("050", {"n": 7}, etag=etags["050"])
    assert table.delete_many(["000", "gone", "051"]) == ["000", "051"]
    assert table.count() == 98
    assert table.upsert_many({}) == {} == table.get_many([]) and table.delete_many([]) == []


def test_a_batch_costs_one_commit():
    made = tables()
    table = made.create(made.describe("t", RecordOptions()))
    table.insert("first", {"n": 1})
    counters = table.bucket.counters
    before = counters.as_dict()
    table.insert_many({f"{n}": {"n": n} for n in range(50)})
    spent = counters.since(before)
    assert (spent["put"], spent["get"]) == (1, 1 + 50)
    before = counters.as_dict()
    table.upsert_many({f"{n}": {"n": n} for n in range(50)})
    assert counters.since(before)["get"] == 1
