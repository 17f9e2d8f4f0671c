"""A pandas index was dropped in silence: the groups of a groupby, the times of a resample."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import pytest

import firn
from firn.errors import InvalidInputError


def stored(frame: pd.DataFrame) -> list[dict[str, Any]]:
    table = firn.connect("memory://").create_table("t")
    table.append(frame)
    return table.scan().to_arrow().to_pylist()


READINGS = pd.DataFrame(
    {
        "device": ["a", "b", "a"],
        "room": ["x", "y", "x"],
        "n": [1, 2, 3],
        "time": pd.to_datetime(["2001-01-01 00:10", "2001-01-01 00:20", "2001-01-01 01:30"]),
    }
)


def test_the_groups_of_a_groupby_are_a_column() -> None:
    assert stored(READINGS.groupby("device")[["n"]].sum()) == [
        {"device": "a", "n": 4},
        {"device": "b", "n": 2},
    ]


def test_all_levels_of_an_index_are_columns_before_the_others() -> None:
    assert stored(READINGS.groupby(["device", "room"])[["n"]].max()) == [
        {"device": "a", "room": "x", "n": 3},
        {"device": "b", "room": "y", "n": 2},
    ]


def test_the_times_of_a_resample_are_a_column() -> None:
    assert stored(READINGS.resample("1h", on="time")[["n"]].sum()) == [
        {"time": datetime(2001, 1, 1, 0), "n": 3},
        {"time": datetime(2001, 1, 1, 1), "n": 3},
    ]


def test_a_named_range_is_a_column_too() -> None:
    frame = pd.DataFrame({"n": [5, 6]}, index=pd.RangeIndex(7, 9, name="id"))
    assert stored(frame) == [{"id": 7, "n": 5}, {"id": 8, "n": 6}]


@pytest.mark.parametrize(
    "frame",
    [
        READINGS[["n"]],
        READINGS[["n"]][READINGS.n > 1],
        READINGS[["n"]].sort_values("n", ascending=False),
        pd.concat([READINGS[["n"]], READINGS[["n"]]]),
    ],
)
def test_unnamed_integers_are_row_numbers_and_no_column(frame: pd.DataFrame) -> None:
    assert stored(frame) == [{"n": n} for n in frame.n]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["a", "b", "c"]),
        pd.date_range("2001-01-01", periods=3),
        pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")], names=["id", None]),
        pd.Index([0.5, 1.5, 2.5]),
    ],
)
def test_any_other_unnamed_index_is_refused_with_both_remedies(index: pd.Index) -> None:
    frame = READINGS[["n"]].set_axis(index)
    with pytest.raises(InvalidInputError, match=r"index.*no name.*rename_axis.*reset_index\(drop=True\)"):
        stored(frame)
    named = stored(frame.rename_axis(["key", "sub"][: index.nlevels]))
    assert [*named[0]] == ["key", "sub", "n"] if index.nlevels > 1 else ["key", "n"]
    assert stored(frame.reset_index(drop=True)) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_an_index_that_is_a_column_too_is_stored_once() -> None:
    assert stored(READINGS[["device", "n"]].set_index("device", drop=False)) == [
        {"device": "a", "n": 1},
        {"device": "b", "n": 2},
        {"device": "a", "n": 3},
    ]


def test_an_index_with_the_name_of_another_column_is_refused() -> None:
    frame = READINGS[["device", "n"]].set_index(pd.Index([7, 8, 9], name="n"))
    with pytest.raises(InvalidInputError, match=r"'n' is both a column and the index"):
        stored(frame)


def test_an_index_takes_on_the_tables_type() -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "INTEGER", "n": "BIGINT"})
    table.append(pd.DataFrame({"n": [1]}, index=pd.Index([7], name="id")))
    assert table.snapshot().columns == {"id": "INTEGER", "n": "BIGINT"}


def test_a_subclass_of_a_frame_keeps_its_index() -> None:
    class Frame(pd.DataFrame):
        pass

    assert stored(Frame({"n": [1]}, index=pd.Index(["a"], name="id"))) == [{"id": "a", "n": 1}]


def test_a_series_is_refused_with_the_remedy() -> None:
    series = READINGS.groupby("device")["n"].sum()
    with pytest.raises(InvalidInputError, match=r"Series.*reset_index"):
        stored(series)  # type: ignore[arg-type]
    assert stored(series.reset_index()) == [{"device": "a", "n": 4}, {"device": "b", "n": 2}]


def test_keyed_and_record_tables_take_the_index_too() -> None:
    db = firn.connect("memory://")
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="_id"))
    db.create_table("documents", kind="records").load(frame)
    assert db.table("documents").get("b")["n"] == 2
    keyed = db.create_table("counts", kind="keyed", schema={"n": "BIGINT"}, key={"airport": "VARCHAR"})
    keyed.load(frame.rename_axis("airport"))
    assert keyed.reader().get("b") == {"n": 2}


def test_rows_are_deleted_by_the_keys_of_an_index() -> None:
    table = firn.connect("memory://").create_table("stock", key=["id"])
    table.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
    table.delete_keys(pd.DataFrame(index=pd.Index([1], name="id")))
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "n": 6}]
