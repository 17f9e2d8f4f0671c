"""Columns that were renamed, dropped and added: what finds rows goes by the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from firn.lake.table import LakeTable
from moments import append_late


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


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_an_overwrite_judges_new_rows_by_the_names_that_are_shown(journal: str, tmp_path: Path) -> None:
    made = firn.connect(tmp_path, writer="w").create_table("t", journal=journal)
    made.append([{"a": 1, "b": 10}, {"a": 2, "b": 20}])
    made.alter(rename={"a": "b", "b": "a"})
    made.overwrite([{"b": 1, "a": 99}], where="b = 1")
    assert sorted(made.scan().to_arrow().to_pylist(), key=str) == [{"b": 1, "a": 99}, {"b": 2, "a": 20}]
    made.alter(rename={"a": "c"})
    with pytest.raises(firn.InvalidInputError, match="don't satisfy"):
        made.overwrite([{"b": 2, "c": 1}], where="c = 2")


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_an_overwrite_brings_no_dropped_values_back(journal: str, tmp_path: Path) -> None:
    made = firn.connect(tmp_path, writer="w").create_table("t", journal=journal)
    made.append([{"id": 1, "secret": 11}, {"id": 2, "secret": 22}])
    made.alter(drop=["secret"])
    made.overwrite([{"id": 1, "secret": 5}], where="secret > 0 OR id = 1")
    rows = made.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "secret": 5}, {"id": 2, "secret": None}]


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_a_table_with_a_key_is_dealt_out_anew(journal: str, tmp_path: Path) -> None:
    made = firn.connect(tmp_path, writer="w").create_table(
        "t", journal=journal, key=["a", "b"], partition_by=["a", "b"]
    )
    made.append([{"a": n % 2, "b": n} for n in range(4)])
    made.alter(partition_by=["a"])
    made.merge(respec=True)
    assert sorted(p.values["a"] for p in made.partitions()) == ["0", "1"]
    assert made.merge(respec=True).files_removed == 0 and made.scan().count() == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"add": {"c": ("BIGINT", 1.5)}}, "1.5 doesn't fit"),
        ({"add": {"c": ("DECIMAL(5,2)", 1.005)}}, "1.005 doesn't fit"),
        ({"add": {"c": ("VARCHAR", "x" * 5000)}}, "more than 4,096 bytes"),
        ({"add": {"c\0": "BIGINT"}}, "can't name a column"),
        ({"add": {"c\ud800": "BIGINT"}}, "can't name a column"),
        ({"rename": {"a": "c\0"}}, "can't name a column"),
        ({"checks": {5: "a > 0"}}, "5 can't name a check"),
        ({"comments": {"a": "\ud800"}}, "is no text"),
    ],
)
def test_what_no_log_could_hold_is_refused_before_anything_is_written(
    table: LakeTable, change: dict[str, Any], message: str
) -> None:
    keys = {info.key for info in table.bucket.list("").objects}
    with pytest.raises(firn.InvalidInputError, match=message):
        table.alter(**change)
    new = {info.key for info in table.bucket.list("").objects} - keys
    assert all("lock" in key for key in new)


def test_a_refused_row_tells_of_the_check_as_it_was_written(table: LakeTable) -> None:
    table.alter(add={"c": ("VARCHAR", "it's")})
    table.alter(checks={"sane": "c <> '' AND a < 2000"})
    with pytest.raises(firn.CheckFailedError, match="'sane': \"c\" <> '' AND \"a\" < 2000\\. "):
        table.append([{"a": 5000}])


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_a_row_whose_value_is_set_aside_has_null_and_no_default(journal: str, tmp_path: Path) -> None:
    made = firn.connect(tmp_path, writer="w").create_table("t", journal=journal)
    made.append([{"id": 1}])
    made.alter(add={"a": ("BIGINT", 3)})
    append_late(made, [{"id": 2, "a": "v5"}], {"id": "BIGINT"})
    want = [{"id": 1, "a": 3, "a~varchar": None}, {"id": 2, "a": None, "a~varchar": "v5"}]
    for _ in range(2):
        assert made.scan().to_arrow().sort_by("id").select(["id", "a", "a~varchar"]).to_pylist() == want
        assert made.scan(where="a IS NULL").count() == made.scan(where="a = 3").count() == 1
        made.merge()
    made.delete("a IS NULL")
    assert made.scan().to_arrow()["id"].to_pylist() == [1]
