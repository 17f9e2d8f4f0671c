"""Names that Firn gave to its own columns and sources in queries met columns of the same name: a partition's number
was taken for its value, a struct's field for a column."""

from __future__ import annotations

import pytest

from lake_journals import Lake

NAMES = ["_row", "_candidates", "rows", "_rows"]


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_column_of_any_name_tells_partitions_apart_by_its_values(lake: Lake, name: str) -> None:
    t = lake.create("t", partition_by=[name])
    t.append([{name: value} for value in (7, 1, 0)])
    assert t.remove_partitions(f'"{name}" = 1').rows_deleted == 1
    assert t.remove_partitions(f'"{name}" = 2').version is None
    assert sorted(t.scan().to_arrow()[name].to_pylist()) == [0, 7]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_of_a_struct_of_any_name_is_no_column(lake: Lake, name: str) -> None:
    other = "x" if name != "x" else "y"
    rows = [{name: {other: i}, other: -i, "id": i} for i in range(3)]
    t = lake.create("t")
    t.append(rows)
    where = f'"{name}".{other} = 1'
    assert t.scan(where=where).to_arrow()["id"].to_pylist() == [1]
    t.rewrite(f"NOT {where}")
    t.delete(f'"{name}".{other} = 2', soft=False)
    assert t.scan().to_arrow()["id"].to_pylist() == [0]
    keyed = lake.create("keyed", key=["id"])
    keyed.upsert(rows)
    keyed.update(where, {other: f'"{name}".{other} + 10'})
    assert sorted(keyed.scan().to_arrow()[other].to_pylist()) == [-2, 0, 11]
    keyed.delete(where)
    assert sorted(keyed.scan().to_arrow()["id"].to_pylist()) == [0, 2]
