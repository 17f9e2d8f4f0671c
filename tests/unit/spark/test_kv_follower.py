"""How a stream moves through a keyed table's versions, without Spark."""

from __future__ import annotations

import pytest

import firn
from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.position import BEGINNING
from firn.keyed.plan.read import KeyedRead
from firn.spark.keyed.changes import ChangesRead, KeyedFollower


@pytest.fixture
def table():
    return firn.connect("memory://").create_table(
        "t", kind="keyed", key={"k": "BIGINT"}, schema={"v": "BIGINT"}
    )


def put(table, *keys):
    with table.open(compaction=False) as kv:
        for key in keys:
            kv.put(key, {"v": key}, durable=False)


def rows(read):
    works = [unit.work for unit in read.units()]
    return sorted(row["k"] for part in read.rows(works) for row in part.to_pylist())


def test_it_stands_still_where_nothing_is_new(table):
    put(table, 1, 2)
    follower = KeyedFollower(table, KeyedRead.of(table))
    offset = follower.advance(dict(BEGINNING), None, None)
    assert follower.advance(offset, None, None) == offset
    assert follower.advance(offset, 1, follower.target()) == offset
    table.compact(full=True)  # which changes files, and no row
    again = follower.advance(offset, None, None)
    read = follower.between(offset, again)
    assert read is None or rows(read) == []


def test_each_change_comes_once_in_steps_of_at_most_so_many_files(table):
    put(table, 1, 2)
    follower = KeyedFollower(table, KeyedRead.of(table))
    offset = follower.advance(dict(BEGINNING), 1, follower.target())
    assert rows(follower.between(dict(BEGINNING), offset)) == [1, 2]
    for key in (3, 4, 5):
        put(table, key)
    target, seen = follower.target(), []
    put(table, 6)  # not of this run
    while (after := follower.advance(offset, 2, target)) != offset:
        seen.append(rows(follower.between(offset, after)))
        offset = after
    assert seen == [[3, 4], [5]]
    assert rows(follower.between(offset, follower.advance(offset, None, None))) == [6]


def test_a_place_of_another_stream_is_refused(table):
    follower = KeyedFollower(table, ChangesRead.of(table))
    with pytest.raises(CorruptObjectError, match="checkpoint"):
        follower.advance({"log": "x"}, None, None)


def test_operands_are_rows_only_where_they_are_asked_for():
    counts = firn.connect("memory://").create_table("t", kind="keyed", merge_operator="add")
    with pytest.raises(UnsupportedError, match="changes"):
        KeyedFollower(counts, KeyedRead.of(counts))
    assert KeyedFollower(counts, ChangesRead.of(counts)).target()
