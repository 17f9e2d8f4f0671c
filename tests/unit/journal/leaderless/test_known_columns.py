"""What appenders know of a table's columns: their own commits for nothing, those of others by one LIST."""

from __future__ import annotations

import uuid

import pytest

import firn


@pytest.fixture
def place():
    return f"memory://known-columns-{uuid.uuid4()}"


def opened(place):
    return firn.connect(place).table("t")


@pytest.fixture
def table(place):
    return firn.connect(place).create_table("t", properties={"schema_refresh": "0s"})


def counted(table, work):
    before = table.bucket.counters.as_dict()
    work()
    return table.bucket.counters.since(before)


def test_own_logs_are_not_read_back(table):
    table.append([{"a": 1}])
    for looks in (1, 0, 0):  # the first LIST that begins anew asks whether the table still stands
        spent = counted(table, lambda: table.append([{"a": 1}]))
        assert (spent["get"], spent["list"], spent["put"]) == (looks, 1, 2)


def test_each_log_of_others_is_read_once(table, place):
    table.append([{"a": 1}])
    table.append([{"a": 1}])
    other = opened(place)
    other.append([{"b": "x"}])
    other.append([{"c": "x"}])
    assert counted(table, lambda: table.append([{"a": 1}]))["get"] == 2
    assert table.journal.known().columns.keys() == {"a", "b", "c"}
    assert counted(table, lambda: table.append([{"a": 1}]))["get"] == 0


def test_a_conflict_with_others_is_refused_between_own_appends(table, place):
    table.append([{"a": 1}])
    opened(place).append([{"b": "text"}])
    table.append([{"a": 1}])
    with pytest.raises(firn.SchemaConflictError):
        table.append([{"b": {"x": 1}}])


def test_a_batch_that_another_process_committed_makes_its_columns_known(table, place):
    table.append([{"a": 1}])
    opened(place).append([{"a": 1, "b": "x"}], batch_id="one")
    assert table.append([{"a": 1}], batch_id="one").duplicate
    assert table.journal.known().columns.keys() == {"a", "b"}
