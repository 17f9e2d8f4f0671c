"""The table of advice: columns of tables, and the leaderless log."""

from __future__ import annotations

import pyarrow as pa
import pytest

import firn
from advice import advises


@pytest.fixture
def db() -> firn.Database:
    return firn.connect("memory://")


def test_a_column_is_cast_or_has_another_name(db):
    table = db.create_table("t")
    table.append([{"price": 5}])
    with advises("cast the data, or append it under another column name", names=["price", "VARCHAR"]):
        table.append([{"price": "6"}])
    table.append([{"price": "6"}], query="SELECT CAST(price AS BIGINT) AS price FROM _rows")
    table.append([{"price_text": "6"}])
    assert table.scan().count() == 3


def test_a_column_of_another_case_is_renamed(db):
    table = db.create_table("t")
    table.append([{"price": 5}])
    with advises("only by case, and SQL can't tell them apart: rename it to ", names=["Price", "price"]):
        table.append([{"Price": 6}])
    table.append([{"price": 6}])
    table.append([{"price_of": 6}])
    assert table.scan().count() == 3


def test_a_column_like_those_set_aside_has_another_name(db):
    table = db.create_table("t")
    with advises("as their types didn't fit. Choose another name", names="price~text"):
        table.append([{"price~text": "6"}])
    table.append([{"price_text": "6"}])
    assert table.scan().count() == 1


def test_a_shared_table_takes_the_type_that_it_has(db):
    table = db.create_table("t", properties={"shared": "icedb"})
    table.append(pa.table({"price": pa.array([5], pa.int32())}))
    with advises("can't be widened to ", names=["price", "BIGINT", "cast the data to INTEGER"]):
        table.append(pa.table({"price": [6]}))
    table.append(pa.table({"price": [6]}), query="SELECT CAST(price AS INTEGER) AS price FROM _rows")
    assert table.scan().count() == 2


def test_a_time_is_written_as_the_message_says(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    with advises("a string like '2026-01-01T12:30Z'", names=["t", "yesterdayish"]):
        table.scan(at="yesterdayish").count()
    assert table.scan(at="9999-01-01T12:30Z").count() == 1


def test_a_dropped_table_is_opened_again(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    db.drop_table("t")
    db.create_table("t").append([{"n": 2}, {"n": 3}])
    with advises("Open it again with db.table(", names="t"):
        table.scan().count()
    assert db.table("t").scan().count() == 2


def test_a_later_version_is_read_where_sweep_was(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    table.overwrite([{"n": 2}])
    before, after = (line.version for line in table.history())
    table.sweep(older_than="0s")
    with advises("Read a later version, or set a larger tombstone_grace", names="t"):
        table.scan(at=before).count()
    assert table.scan(at=after).to_arrow().to_pylist() == [{"n": 2}]
