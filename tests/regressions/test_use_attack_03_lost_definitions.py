"""A keyed table without its pointer or its definition looked empty, or as if it had never been."""

from __future__ import annotations

import warnings

import pytest

import firn
from firn.inspect.fsck.fsck import check


@pytest.fixture
def db() -> firn.Database:
    db = firn.connect("memory://")
    table = db.create_table("k", kind="keyed", schema={"v": "BIGINT"}, key={"n": "BIGINT"})
    with table.open() as kv:
        kv.put(1, {"v": 1})
    return db


def test_a_keyed_table_without_its_pointer_isnt_begun_anew(db: firn.Database) -> None:
    key = "k/_metadata/current_manifest"
    body = db.bucket.get(key).data
    db.bucket.delete(key)
    table = db.table("k", kind="keyed")
    for use in (table.reader, table.open, table.compact):
        with pytest.raises(
            firn.CorruptObjectError, match="current_manifest is missing, and files of the table"
        ):
            use()
    assert [f.severity for f in check(db).findings] == ["problem"]
    db.bucket.put(key, body)
    with table.open() as kv:
        assert kv.get(1) == {"v": 1}


def test_a_keyed_table_without_its_definition_is_told(db: firn.Database) -> None:
    key = "k/_firn/table.json"
    body = db.bucket.get(key).data
    db.bucket.delete(key)
    (finding,) = check(db).problems
    assert finding.object == db.bucket.uri(key) and "Copy it back" in finding.remedy
    with pytest.raises(firn.CorruptObjectError, match="is missing, and files of a keyed table are there"):
        db.create_table("k", kind="keyed", schema={"v": "BIGINT"}, key={"n": "BIGINT"})
    db.bucket.put(key, body)
    assert check(db).problems == ()
    with db.table("k", kind="keyed").open() as kv:
        assert kv.get(1) == {"v": 1}


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_a_record_tables_definition_is_said_again(isolation: str) -> None:
    db = firn.connect("memory://")
    table = db.create_table("r", kind="records", isolation=isolation)
    table.insert("1", {"c": 1})
    key = "r/_firn/table.json"
    db.bucket.put(key, db.bucket.get(key).data[:-9])
    with pytest.raises(firn.NotFoundError, match="delete it and say what it was by create_table"):
        db.mend_table("r")
    db.bucket.delete(key)
    with pytest.raises(firn.TableExistsError, match="Open it"):
        db.create_table("r", kind="records", isolation=isolation)
    assert [dict(row) for row in db.table("r").scan()] == [{"_id": "1", "c": 1}]


def test_one_damaged_definition_hides_no_other_table() -> None:
    db = firn.connect("memory://")
    db.create_table("a").append([{"n": 1}])
    db.create_table("b")
    db.bucket.put("b/_firn/table.json", b"{")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert db.tables() == ["a", "b"]
    assert "firn mend TABLE" in str(warned[0].message)
