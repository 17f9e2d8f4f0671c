"""Streams over keyed tables that are altered meanwhile keep the columns that they began with."""

from __future__ import annotations

from typing import Any

import pytest

from firn.errors import InvalidInputError
from firn.keyed.plan.read import KeyedRead
from firn.keyed.table import KeyedTable
from firn.spark.keyed.changes import ChangesRead, KeyedFollower
from kv_tables import new_table


def rows(plan: Any) -> list[dict[str, Any]]:
    return [row for unit in plan.units() for part in plan.rows([unit.work]) for row in part.to_pylist()]


@pytest.fixture
def table() -> KeyedTable:
    return new_table(key={"id": "BIGINT"}, schema={"a": "INTEGER", "b": "VARCHAR"})


@pytest.mark.parametrize("told", [False, True])
def test_a_stream_keeps_its_columns_until_it_is_restarted(table: KeyedTable, told: bool) -> None:
    with table.open(compaction=False) as kv:
        kv.put(1, {"a": 1, "b": "x"})
        plan = ChangesRead.of(table) if told else KeyedRead.of(table)
        follower = KeyedFollower(table, plan)
        start = {"firn": 1, "version": table.changes().version}
        kv.put(2, {"a": 2, "b": "y"})
        table.alter(rename={"a": "b"}, drop=["b"], add={"z": ("DATE", "2020-01-01")}, types={"a": "BIGINT"})
        kv.put(3, {"b": 3})
        end = follower.advance(start, None, follower.target())
        batch = follower.between(start, end)
        assert batch is not None
        found = sorted((row["id"], row["a"], row["b"]) for row in rows(batch))
        assert found == [(2, 2, "y"), (3, 3, None)]
        assert [*batch.columns][:3] == ["id", "a", "b"]
        newer = ChangesRead.of(table) if told else KeyedRead.of(table)
        again = KeyedFollower(table, newer).between(start, end)
        assert again is not None and [*again.columns][:3] == ["id", "b", "z"]
        kv.put(4, {"b": 2**40})
        late = follower.between(end, {"firn": 1, "version": table.changes().version})
        with pytest.raises(InvalidInputError, match="before the table was altered"):
            rows(late)


def test_a_stream_from_the_beginning_reads_an_altered_table_by_its_own_columns(table: KeyedTable) -> None:
    from firn.journal.position import BEGINNING

    with table.open(compaction=False) as kv:
        kv.put(1, {"a": 1, "b": "x"})
        follower = KeyedFollower(table, KeyedRead.of(table, columns=["b"], where="a > 0"))
        table.alter(rename={"a": "b", "b": "a"})
        kv.put(2, {"b": 2, "a": "y"})
        kv.compact(full=True)
        batch = follower.between(dict(BEGINNING), {"firn": 1, "version": table.changes().version})
        assert batch is not None and sorted(row["b"] for row in rows(batch)) == ["x", "y"]
