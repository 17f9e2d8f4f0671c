"""Predicates were planned in the machine's zone and evaluated on rows in UTC: a text without an offset meant two
moments. All suites run in a zone that isn't UTC, see `tests/conftest.py`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from firn.arrow.connections import connect
from firn.arrow.engine import filter_table, run_query
from firn.predicate import binder
from lake_journals import Lake

UTC = dt.timezone.utc
TWO, EIGHT = (dt.datetime(2001, 1, 1, hour, tzinfo=UTC) for hour in (2, 8))
AS_DATE = "d = CAST(TIMESTAMPTZ '2001-01-01 02:00:00+00' AS DATE)"


def test_every_connection_is_in_utc_and_so_are_its_cursors() -> None:
    asked = "SELECT current_setting('TimeZone')"
    connection = connect()
    assert connection.execute(asked).fetchone() == ("UTC",)
    assert connection.cursor().execute(asked).fetchone() == ("UTC",)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(TIMESTAMPTZ '2001-01-01 02:00:00+00' AS DATE)", dt.date(2001, 1, 1)),
        ("CAST(TIMESTAMPTZ '2001-01-01 02:00:00+00' AS TIMESTAMP)", dt.datetime(2001, 1, 1, 2)),
        ("CAST(TIMESTAMPTZ '2001-01-01 02:00:00+00' AS VARCHAR)", "2001-01-01 02:00:00+00"),
        ("TIMESTAMPTZ '2001-07-01 00:00:00'", dt.datetime(2001, 7, 1, tzinfo=UTC)),
        ("date_trunc('day', TIMESTAMPTZ '2001-01-01 02:00:00+00')", dt.datetime(2001, 1, 1, tzinfo=UTC)),
        ("hour(TIMESTAMPTZ '2001-01-01 02:00:00+00')", 2),
    ],
)
def test_a_constant_is_worth_in_planning_what_it_is_in_a_task(expression: str, value: object) -> None:
    planned = binder.constant(expression)
    assert planned is not None
    in_task = run_query(f"SELECT {expression} AS v FROM t", {"t": pa.table({"x": [1]})})
    assert planned.as_py() == in_task["v"][0].as_py() == value


def test_a_predicate_removes_the_partitions_whose_rows_it_scans(lake: Lake) -> None:
    t = lake.create("t", partition_by=["tz"])
    t.append([{"tz": TWO}, {"tz": EIGHT}])
    where = "tz < '2001-01-01 04:00:00'"
    assert t.scan(where=where).to_arrow()["tz"].to_pylist() == [TWO]
    assert t.remove_partitions(where).rows_deleted == 1
    assert t.scan().to_arrow()["tz"].to_pylist() == [EIGHT]


@pytest.mark.parametrize("soft", [False, None])
def test_a_constant_that_is_cast_to_a_date_is_that_of_utc(lake: Lake, soft: bool | None) -> None:
    t = lake.create("t")
    for day in (dt.date(2000, 12, 31), dt.date(2001, 1, 1)):
        t.append([{"d": day}])
    assert t.scan(where=AS_DATE).to_arrow()["d"].to_pylist() == [dt.date(2001, 1, 1)]
    t.delete(AS_DATE, soft=soft)
    assert t.scan().to_arrow()["d"].to_pylist() == [dt.date(2000, 12, 31)]


def test_updates_queries_and_overwrites_take_a_text_for_the_same_moment(lake: Lake) -> None:
    keyed = lake.create("k", key=["id"])
    keyed.upsert([{"id": 1, "tz": TWO}, {"id": 2, "tz": EIGHT}])
    keyed.update("tz < '2001-01-01 04:00:00'", {"tz": "TIMESTAMPTZ '2001-01-01 05:00:00'"})
    assert _by_id(keyed.scan(where="tz = '2001-01-01 05:00:00+00'")) == {1: TWO.replace(hour=5)}
    t = lake.create("t")
    t.append(
        [{"id": 1, "at": "2001-01-01 02:00"}], query="SELECT id, CAST(at AS TIMESTAMPTZ) AS tz FROM _rows"
    )
    assert _by_id(t.scan()) == {1: TWO}
    t.overwrite([{"id": 2, "tz": TWO}], where="CAST(tz AS DATE) = '2001-01-01'")
    t.rewrite("SELECT * REPLACE (tz + (tz - TIMESTAMPTZ '2001-01-01') * 3 AS tz) FROM _rows")
    assert _by_id(t.scan()) == {2: EIGHT}


def test_rows_are_filtered_in_utc_wherever_they_come_from() -> None:
    rows = pa.table({"tz": [TWO, EIGHT]})
    assert filter_table(rows, "tz < '2001-01-01 04:00:00'")["tz"].to_pylist() == [TWO]


def _by_id(scan: Any) -> Mapping[int, dt.datetime]:
    return {row["id"]: row["tz"] for row in scan.to_arrow().to_pylist()}
