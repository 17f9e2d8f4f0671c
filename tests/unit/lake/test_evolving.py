"""Columns that were renamed, dropped and added: what finds rows goes by the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from firn.lake.table import LakeTable


@pytest.fixture(params=["leaderless", "writer"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    properties = {"bloom_filters": ["a"], "row_group_rows": 10, "stats_columns": 2}
    schema = {"a": "BIGINT", "b": "BIGINT"}
    db = firn.connect(tmp_path, writer="w")
    made = db.create_table("t", journal=request.param, schema=schema, properties=properties)
    made.append([{"a": n * 7919 % 1000, "b": -n} for n in range(100)])
    return made


def test_filters_and_statistics_go_by_the_column_that_is_read(table: LakeTable) -> None:
    table.alter(rename={"a": "b", "b": "a"})
    for n in (0, 7, 99):
        assert table.scan(where=f"b = {n * 7919 % 1000}").to_arrow().to_pylist() == [
            {"b": n * 7919 % 1000, "a": -n}
        ]
        assert table.scan(where=f"a = {-n}").count() == 1
    assert table.definition().properties["bloom_filters"] == ["b"]
    table.append([{"b": 5000, "a": 1}])
    assert table.scan(where="b = 5000").count() == 1 and table.scan(where="b = 5001").files() == []
    table.delete("b = 0")
    table.merge()
    assert table.scan(where="b = 7919 % 1000").to_arrow().to_pylist() == [{"b": 919, "a": -1}]
    assert table.scan().count() == 100


def test_a_default_is_found_and_an_explicit_null_isnt(table: LakeTable) -> None:
    table.alter(add={"c": ("VARCHAR", "none")})
    table.append([{"a": 1, "b": 1, "c": None}])
    table.append([{"a": 2, "b": 2}])
    assert table.scan(where="c = 'none'").count() == 101
    assert table.scan(where="c IS NULL").to_arrow().to_pylist() == [{"a": 1, "b": 1, "c": None}]
    table.delete("c = 'none' AND a > 500")
    left = table.scan(where="c = 'none'").count()
    table.merge()
    assert table.scan(where="c = 'none'").count() == left < 101


def test_a_soft_delete_outlives_the_column_that_it_names(tmp_path: Path) -> None:
    made = firn.connect(tmp_path, writer="w").create_table("t", journal="writer")
    made.append([{"a": n, "b": n % 2} for n in range(10)])
    made.delete("b = 1")
    made.alter(drop=["b"])
    assert made.scan().count() == 5
    made.alter(add={"b": "BIGINT"})
    assert sorted(made.scan().to_arrow()["a"].to_pylist()) == [0, 2, 4, 6, 8]
    rows = (
        firn.connect(tmp_path).sql("SELECT sum(a)::BIGINT AS s, count(b) AS n FROM t").to_arrow().to_pylist()
    )
    assert rows == [{"s": 20, "n": 0}]
