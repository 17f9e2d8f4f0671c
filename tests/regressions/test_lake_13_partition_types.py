"""A table was partitioned by a column of a type that no partition has: the first append raised an error of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import firn


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], {}, 1.5, b"x"])
@pytest.mark.parametrize("field", ["c", "bucket(4, c)", "truncate(4, c)", "month(c)"])
def test_the_first_rows_are_refused_before_anything_is_written(field: str, value: Any) -> None:
    if (field, value) in [("c", 1.5), ("bucket(4, c)", b"x")]:
        return  # these can be
    db = firn.connect("memory://")
    table = db.create_table("t", partition_by=[field])
    rows = (
        pa.table({"c": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))})
        if value == {}
        else [{"c": value}]
    )
    with pytest.raises(firn.InvalidInputError, match=r"t: .*'c'"):
        table.append(rows)
    assert db.bucket.list("t/_data/").objects == ()
    assert (
        table.append([{"c": "five" if "month" not in field else pa.scalar(0, pa.date32()).as_py()}]).rows == 1
    )


def test_a_column_does_not_widen_to_such_a_type() -> None:
    table = firn.connect("memory://").create_table("t", partition_by=["bucket(4, c)"])
    table.append(pa.table({"c": pa.array([1], pa.int32())}))
    with pytest.raises(firn.InvalidInputError, match="bucket can't partition"):
        table.append([{"c": 1.5}])
    with pytest.raises(firn.InvalidInputError, match="bucket can't partition"):
        table.alter(types={"c": "DOUBLE"})
    table.alter(types={"c": "BIGINT"})
    table.append([{"c": 2}])
    assert table.scan().count() == 2
