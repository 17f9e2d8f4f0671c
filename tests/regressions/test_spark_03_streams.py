"""A running stream dropped the values of a column that came while it ran: its offset had passed them for good."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.errors import ConflictError
from firn.journal.position import BEGINNING
from firn.reads import plan_read
from firn.spark.lake.follow import LakeFollower


def small(number: int) -> pa.Array:
    return pa.array([number], pa.int32())


@pytest.fixture(params=["leaderless", "writer"])
def table(request: pytest.FixtureRequest) -> firn.LakeTable:
    db = firn.connect("memory://", writer="w" if request.param == "writer" else None)
    table = db.create_table("t", journal=request.param)
    table.append(pa.table({"id": small(1)}))
    return table


def follower(table: firn.LakeTable, **options: Any) -> LakeFollower:
    return LakeFollower(table, plan_read(table, **options))


def ids(follower: LakeFollower, start: Any, end: Any) -> list[Any]:
    read = follower.between(start, end)
    assert read is not None
    return sorted(
        row["id"] for rows in read.rows([unit.work for unit in read.units()]) for row in rows.to_pylist()
    )


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pa.table({"id": small(2), "extra": ["x"]}), "'extra' came as VARCHAR"),
        (pa.table({"id": [1 << 40]}), "'id' was INTEGER and is BIGINT now"),
    ],
)
def test_the_stream_stops_before_it_delivers_and_goes_on_after_a_restart(
    table: firn.LakeTable, rows: pa.Table, says: str
) -> None:
    running = follower(table)
    start = running.advance(dict(BEGINNING), None, None)
    assert ids(running, dict(BEGINNING), start) == [1]
    table.append(pa.table({"id": small(3)}))
    end = running.advance(start, None, None)
    assert ids(running, start, end) == [3]
    table.append(rows)
    after = running.advance(end, None, None)
    for _ in range(2):
        with pytest.raises(ConflictError, match=says):
            running.between(end, after)
    assert ids(follower(table), end, after) == rows["id"].to_pylist()


def test_a_schema_that_changes_before_the_first_batch(table: firn.LakeTable) -> None:
    planned = follower(table)
    table.append([{"id": 2, "extra": "x"}])
    with pytest.raises(ConflictError, match="extra"):
        planned.between(dict(BEGINNING), planned.advance(dict(BEGINNING), None, None))


def test_what_the_user_has_left_out_may_change(table: firn.LakeTable) -> None:
    table.append(pa.table({"id": small(2), "n": small(1)}))
    running = follower(table, columns=["id"])
    start = running.advance(dict(BEGINNING), None, None)
    table.append(pa.table({"id": small(3), "n": [1 << 40], "extra": ["x"]}))
    assert ids(running, start, running.advance(start, None, None)) == [3]
