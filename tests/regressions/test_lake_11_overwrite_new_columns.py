"""An overwrite by a predicate knew the table's columns alone, not those that its own rows brought: a daily job failed
on its first day, and on the day of a new column."""

from __future__ import annotations

import pyarrow as pa
import pytest

import firn
from lake_journals import Lake


def test_a_daily_job_is_the_same_on_its_first_day(lake: Lake) -> None:
    t = lake.create("t", partition_by=["day"])
    for _ in range(2):
        t.overwrite([{"day": "mon", "v": 1}], where="day = 'mon'")
        t.overwrite([{"day": "tue", "v": 2}], where="day = 'tue'")
    assert sorted(t.scan().to_arrow()["v"].to_pylist()) == [1, 2]


def test_a_first_day_without_rows_changes_nothing(lake: Lake) -> None:
    t = lake.create("t")
    t.overwrite([], where="day = 'mon'")
    assert t.scan().count() == 0


def test_the_predicate_may_name_a_column_that_the_rows_bring(lake: Lake) -> None:
    t = lake.create("t")
    t.append([{"v": 1}])
    t.overwrite([{"v": 2, "w": 5}], where="w = 5")
    t.overwrite([{"v": 3, "w": 5}], where="w = 5")
    assert sorted(t.scan().to_arrow()["v"].to_pylist()) == [1, 3]
    t.overwrite([{"v": 4, "w": 6}], where="w IS NULL OR w = 6")
    assert sorted(t.scan().to_arrow()["v"].to_pylist()) == [3, 4]


def test_a_wider_type_counts_for_old_rows_and_new_ones(lake: Lake) -> None:
    t = lake.create("t")
    t.append(pa.table({"x": pa.array([0.5, 0.1], pa.float32())}))
    t.overwrite(pa.table({"x": pa.array([0.5], pa.float64())}), where="x = CAST(0.5 AS DOUBLE)")
    assert t.scan(where="x = 0.5").count() == 1
    assert t.scan().count() == 2


def test_a_column_that_nobody_has_is_refused(lake: Lake) -> None:
    t = lake.create("t")
    with pytest.raises(firn.InvalidInputError, match="'dya' isn't a column"):
        t.overwrite([{"day": "mon"}], where="dya = 'mon'")
    assert t.scan().count() == 0
