"""Removing a partition also took files whose value of its column was set aside, and whose rows read as null there."""

from __future__ import annotations

from typing import Any

import pytest

from firn.lake.table import LakeTable
from regressions.test_lake_01_conflicting_types import race, rows


def _raced() -> LakeTable:
    """`x=5` has a row of BIGINT and one of VARCHAR, which is set aside."""
    table = race([5, "5"], partition_by=["x"])
    assert [(row.get("x"), row.get("x~varchar")) for row in rows(table)] == [(5, None), (None, "5")]
    return table


@pytest.mark.parametrize("where", ["x = 5", [{"x": "5"}]])
def test_rows_that_are_set_aside_stay(where: Any) -> None:
    table = _raced()
    assert [p.values for p in table.partitions()] == [{}, {"x": "5"}]
    assert table.remove_partitions(where, dry_run=True).moved_files == 1
    done = table.remove_partitions(where)
    assert (done.files_removed, done.moved_files) == (1, 1)
    assert [row["n"] for row in rows(table)] == [1]


def test_such_files_are_a_partition_of_their_own() -> None:
    table = _raced()
    assert table.remove_partitions(table.partitions()[:1]).files_removed == 1
    assert [row["n"] for row in rows(table)] == [0]


def test_what_is_resolved_is_found_by_its_value() -> None:
    table = _raced()
    table.resolve("x")
    assert [p.values for p in table.partitions()] == [{"x": "5"}]
    assert table.remove_partitions("x = '5'").files_removed == 2
    assert rows(table) == []


def test_what_was_merged_while_set_aside_is_nulls_no_more() -> None:
    table = _raced()
    table.merge()
    table.resolve("x")
    assert [row["x"] for row in rows(table)] == ["5", "5"]
    done = table.remove_partitions("x IS NULL")
    assert (done.files_removed, done.moved_files) == (0, 1)
    table.delete("x = '5'")
    assert rows(table) == []
