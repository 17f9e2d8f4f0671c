"""What a query made of a file stood under the file's old directory if it lacked the partition's column: pruning
believed the directory, readers the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

import pytest

import firn
from firn.lake.table import LakeTable
from lake_journals import Lake

Verb = Callable[[LakeTable, str], object]
VERBS: Mapping[str, Verb] = {
    "merge": lambda t, columns: t.merge(query=f"SELECT {columns} FROM source_files"),
    "rewrite": lambda t, columns: t.rewrite(f"SELECT {columns} FROM _rows"),
}


def partitioned(lake: Lake, partition_by: str = "s") -> LakeTable:
    t = lake.create("t", partition_by=[partition_by])
    for i, text in enumerate("abab"):
        t.append([{"s": text, "i": i, "d": dt.date(2001, 1 + i % 2, 1)}])
    return t


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("partition_by", "columns"), [("s", "i"), ("month(d)", "s, i"), ("bucket(4, i)", "s")]
)
def test_a_query_that_drops_a_partition_column_is_refused(
    lake: Lake, verb: str, partition_by: str, columns: str
) -> None:
    t = partitioned(lake, partition_by)
    before = t.snapshot().version
    with pytest.raises(firn.InvalidInputError, match="select it too, or NULL AS"):
        VERBS[verb](t, columns)
    assert t.snapshot().version == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_query_that_empties_a_partition_column_moves_its_rows(lake: Lake, verb: str) -> None:
    t = partitioned(lake)
    VERBS[verb](t, 'i, NULL AS "s"')
    assert [dict(p.values) for p in t.partitions() if p.rows] == [{"s": None}]
    assert t.scan(where="s IS NULL").count() == 4
    assert t.scan(where="s = 'a'").count() == 0
    assert t.delete("s = 'a'").version is None
    assert sorted(t.scan().to_arrow()["i"].to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("verb", VERBS)
def test_a_query_that_changes_a_partition_column_moves_its_rows(lake: Lake, verb: str) -> None:
    t = partitioned(lake)
    VERBS[verb](t, "i, CASE WHEN i < 2 THEN 'a' ELSE upper(s) END AS S")
    assert {p.values["s"]: p.rows for p in t.partitions() if p.rows} == {"a": 2, "A": 1, "B": 1}
    assert sorted(t.scan(where="s = 'a'").to_arrow()["i"].to_pylist()) == [0, 1]
    assert t.scan(where="s = 'b'").count() == 0


def test_an_append_whose_query_leaves_the_column_out_goes_to_the_null_partition(lake: Lake) -> None:
    t = partitioned(lake)
    t.append([{"s": "a", "i": 9}], query="SELECT i FROM _rows")
    assert t.scan(where="s IS NULL").to_arrow()["i"].to_pylist() == [9]
    assert {p.values["s"]: p.rows for p in t.partitions()} == {"a": 2, "b": 2, None: 1}
