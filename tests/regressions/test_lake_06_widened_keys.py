"""A partition's directory has the text or the hash of a value under the type of its column then. When that widened,
versions of one row stood in two partitions, and both were shown."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.arrow.types import arrow_type
from firn.journal.columns import join
from firn.journal.model import KnownColumns
from firn.lake.partition.partition import PartitionSpec
from firn.lake.partition.placement import placed_as
from firn.lake.table import LakeTable
from lake_journals import Lake

SPECS = ["bucket(4, id)", "id", "truncate(3, id)"]
INT64, UINT64, UINT32 = pa.int64(), pa.uint64(), pa.uint32()
SCALED = pa.decimal128(9, 2)


def rows(kind: pa.DataType, v: int, ids: Any = range(8)) -> pa.Table:
    return pa.table(
        {"id": pa.array([Decimal(i) if kind == SCALED else i for i in ids], kind), "v": [v] * len(ids)}
    )


def shown(t: LakeTable) -> dict[int, int]:
    found = t.scan().to_arrow().to_pylist()
    assert len(found) == len({row["id"] for row in found}) == t.scan().count()
    for row in found[:2]:
        assert t.scan(where=f"id = {row['id']}").to_arrow()["v"].to_pylist() == [row["v"]]
    return {int(row["id"]): row["v"] for row in found}


@pytest.mark.parametrize("partition_by", SPECS)
@pytest.mark.parametrize("kind", [UINT64, SCALED], ids=["uint64", "scaled"])
def test_no_key_is_shown_twice_whatever_its_type(lake: Lake, partition_by: str, kind: pa.DataType) -> None:
    t = lake.create("t", key=["id"], partition_by=[partition_by])
    t.upsert(rows(INT64, 1))
    stored = lake.stored("t")
    if kind == UINT64 and partition_by != "bucket(4, id)":
        t.upsert(rows(kind, 2))  # their texts are those of any whole number
    else:
        with pytest.raises(firn.SchemaConflictError, match="Cast the column to BIGINT"):
            t.upsert(rows(kind, 2))
        assert lake.stored("t") == stored, "nothing was uploaded"
        t.upsert(rows(INT64, 2))
    assert shown(t) == dict.fromkeys(range(8), 2)
    t.merge()
    assert shown(t) == dict.fromkeys(range(8), 2)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), UINT32], ids=str)
def test_whole_numbers_of_any_width_are_one_key(lake: Lake, kind: pa.DataType) -> None:
    t = lake.create("t", key=["id"], partition_by=["bucket(4, id)"])
    t.upsert(rows(kind, 1))
    t.upsert(rows(INT64, 2, range(4)))
    assert shown(t) == {i: 2 if i < 4 else 1 for i in range(8)}


def back(names: set[str]) -> list[str]:
    return sorted(names)[::-1]


RACES = [(spec, kind, order) for order in (sorted, back) for kind in (UINT64, SCALED) for spec in SPECS]
SOME = (0, 2, 4, 7, 9, 11)
"""Of them, each spec with each order and each type, and each type with each order."""


@pytest.mark.parametrize(
    ("partition_by", "kind", "order"),
    [pytest.param(*race, marks=() if n in SOME else pytest.mark.long) for n, race in enumerate(RACES)],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_after_a_race_of_two_types_each_key_is_one_and_a_merge_brings_it_home(
    lake: Lake, partition_by: str, kind: pa.DataType, order: Callable[[set[str]], list[str]]
) -> None:
    t = lake.create("t", key=["id"], partition_by=[partition_by])
    writer = "w" if lake.journal == "leaderless" else "v"
    other = lake.connect(writer).table("t")
    for table in (t, other):
        assert not table.journal.known().columns
    t.upsert(rows(INT64, 1))
    known = KnownColumns({})
    other.journal.known = lambda **_: known  # type: ignore[method-assign]
    other.upsert(rows(kind, 2, range(2, 10)))
    t = lake.connect("w").table("t")
    expected = shown(t)  # of two that didn't see each other, clocks and names say which is newer
    assert sorted(expected) == list(range(10)) and set(expected.values()) == {1, 2}
    t.update("id = 3", {"v": "7"})
    t.delete("id = 4")
    expected[3] = 7
    del expected[4]
    assert shown(t) == expected
    for name in order({"w", writer}):
        lake.connect(name).table("t").merge()
    t = lake.connect("w").table("t")
    assert shown(t) == expected
    t.upsert(pa.table({"id": pa.array([5], t.schema().field("id").type), "v": [9]}))
    expected[5] = 9
    assert shown(t) == expected
    t.merge()
    assert shown(t) == expected


def test_overwriting_what_is_touched_leaves_no_row_of_another_type(lake: Lake) -> None:
    t = lake.create("t", partition_by=["id"])
    t.append(rows(INT64, 1))
    with pytest.raises(firn.SchemaConflictError, match="Cast the column to BIGINT"):
        t.overwrite(rows(SCALED, 2, [3]), partitions="touched")
    t.append(rows(SCALED, 2, [9]))
    with pytest.raises(firn.UnsupportedError, match="rewrite"):
        t.overwrite(rows(INT64, 3, [3]), partitions="touched")
    assert shown(t) == {**dict.fromkeys(range(8), 1), 9: 2}
    t.rewrite("SELECT * FROM _rows")
    t.overwrite(rows(INT64, 3, [3, 9]), partitions="touched")
    assert shown(t) == {**dict.fromkeys(range(8), 1), 3: 3, 9: 3}


def test_a_file_that_is_written_anew_is_dealt_out_anew(lake: Lake) -> None:
    """Else nothing would tell any more that its rows stand under an older type's directory."""
    t = lake.create("t", partition_by=["id"])
    t.append(rows(INT64, 1, [1, 1, 2]))
    t.append(rows(INT64, 2, [1, 2]))
    t.append(rows(SCALED, 3, [5]))
    t.delete("v = 1 AND id = 1", soft=False)
    t.merge()
    t.delete("v = 2", soft=False)
    t.rewrite("SELECT * FROM _rows")
    t.overwrite(rows(INT64, 4, [1, 2]), partitions="touched")
    assert shown(t) == {1: 4, 2: 4, 5: 3}


WHOLE = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "HUGEINT",
]
KINDS = [*WHOLE, "DECIMAL(20,0)", "DECIMAL(24,2)", "DECIMAL(25,3)", "FLOAT", "DOUBLE"]


@pytest.mark.parametrize("field", ["x", "bucket(8, x)", "truncate(3, x)"])
def test_types_that_place_alike_have_equal_directories(field: str) -> None:
    kinds = KINDS if field == "x" else KINDS[:-2]
    pairs = [
        (a, joined) for a in kinds for b in kinds if (joined := join(a, b)) is not None and joined in kinds
    ]
    for narrow, wide in pairs:
        (parsed,) = PartitionSpec.parse([field], {"x": narrow}).fields
        if placed_as(parsed.transform, narrow) == placed_as(parsed.transform, wide):
            assert directories(field, narrow) == directories(field, wide), (narrow, wide)


def directories(field: str, kind: str) -> list[str]:
    spec = PartitionSpec.parse([field], {"x": kind})
    values = [pa.array([Decimal(v)]).cast(pa.decimal128(38, 3)) for v in (0, 1, 5, 100, 127)]
    return [spec.split(pa.table({"x": v.cast(arrow_type(kind))}))[0].directory for v in values]
