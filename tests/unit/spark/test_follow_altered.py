"""Streams of lake tables across changes of their definition: columns keep the names that they had when the query was
planned, and no value is lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from firn.errors import ConflictError
from firn.journal.position import BEGINNING
from firn.lake.plan.read import LakeRead
from firn.lake.table import LakeTable
from firn.spark.lake.follow import LakeFollower


class Query:
    """One query over a table, and what it was delivered so far."""

    def __init__(self, table: LakeTable) -> None:
        self.follower = LakeFollower(table, LakeRead.of(table.scan()))
        self.at = self.follower.position.begin(None).to_json()
        self.rows = self._rows(dict(BEGINNING), self.at)

    def _rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        plan = self.follower.between(start, end)
        if plan is None:
            return []
        return [row for unit in plan.units() for part in plan.rows([unit.work]) for row in part.to_pylist()]

    def more(self) -> list[dict[str, Any]]:
        """The next batch."""
        after = self.follower.advance(self.at, None, self.follower.target())
        found = self._rows(self.at, after)
        self.at = after
        return found


@pytest.fixture(params=["leaderless", "writer"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    db = firn.connect(tmp_path, writer="w")
    made = db.create_table("t", journal=request.param, schema={"a": "BIGINT", "b": "VARCHAR"})
    made.append([{"a": 1, "b": "x"}])
    return made


def test_names_are_those_of_the_start(table: LakeTable) -> None:
    query = Query(table)
    assert query.rows == [{"a": 1, "b": "x"}]
    table.append([{"a": 2, "b": "y"}])
    table.alter(rename={"a": "b", "b": "a"})
    table.append([{"a": "z", "b": 3}])
    assert query.more() == [{"a": 2, "b": "y"}, {"a": 3, "b": "z"}]
    table.alter(drop=["a"])
    table.append([{"b": 4}])
    assert query.more() == [{"a": 4, "b": None}]
    again = Query(table)
    assert sorted(again.rows, key=str) == [{"b": n} for n in (1, 2, 3, 4)]


def test_a_new_column_and_a_type_that_was_set_stop_it(table: LakeTable) -> None:
    query = Query(table)
    table.alter(add={"c": ("BIGINT", 7)})
    table.append([{"a": 2, "b": "y"}])
    assert query.more() == [{"a": 2, "b": "y"}]
    table.append([{"a": 3, "b": "y", "c": 1}])
    with pytest.raises(ConflictError, match="the column 'c' came as BIGINT"):
        query.more()
    query = Query(table)
    assert sorted(row["c"] for row in query.rows) == [1, 7, 7]
    table.alter(types={"a": "DOUBLE"})
    table.append([{"a": 4.5}])
    with pytest.raises(ConflictError, match="the column 'a' was BIGINT and is DOUBLE now"):
        query.more()
    assert 4.5 in {row["a"] for row in Query(table).rows}
