from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.predicate.domain import decoder
from firn.predicate.stats import from_metadata, of_values, row_group_stats

UTC = dt.timezone.utc


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def stats_of(
    table: pa.Table, nan_columns: frozenset[str] | None = frozenset(), **options: Any
) -> dict[str, list[Any]]:
    metadata = footer(table, **options)
    return from_metadata(metadata, metadata.schema.to_arrow_schema(), nan_columns=nan_columns)


@pytest.mark.parametrize(
    ("values", "kind", "entry"),
    [
        ([3, None, -2], pa.int8(), [-2, 3, 1]),
        ([0, 2**32 - 1], pa.uint32(), [0, 2**32 - 1, 0]),
        ([1, 2**64 - 1], pa.uint64(), [1, 2**64 - 1, 0]),
        ([True, None, False], pa.bool_(), [False, True, 1]),
        ([1.5, -2.5], pa.float64(), [-2.5, 1.5, 0]),
        ([0.1], pa.float32(), [float(np.float32(0.1)), float(np.float32(0.1)), 0]),
        ([float("-inf"), 1.0], pa.float64(), [None, 1.0, 0]),
        ([1.0, float("inf")], pa.float64(), [1.0, None, 0]),
        ([float("nan")], pa.float64(), [None, None, 0]),
        (["b", "a\0", None], pa.string(), ["a\0", "b", 1]),
        (["b", "a"], pa.large_string(), ["a", "b", 0]),
        (["b", "a"], pa.string_view(), ["a", "b", 0]),
        ([dt.date(1969, 12, 31), dt.date(1970, 1, 2)], pa.date32(), [-1, 1, 0, "date"]),
        ([dt.date(1970, 1, 2)], pa.date64(), [1, 1, 0, "date"]),
        ([-1, 1], pa.timestamp("us"), [-1, 1, 0, "timestamp"]),
        ([-1, 1], pa.timestamp("ms"), [-1000, 1000, 0, "timestamp"]),
        ([-1, 1], pa.timestamp("s"), [-1_000_000, 1_000_000, 0, "timestamp"]),
        ([-1, 1001], pa.timestamp("ns"), [-1, 2, 0, "timestamp"]),
        ([5], pa.timestamp("us", "America/New_York"), [5, 5, 0, "timestamptz"]),
        ([dt.time(0, 0, 1)], pa.time32("ms"), [1_000_000, 1_000_000, 0, "time"]),
        ([dt.time(0, 0, 1)], pa.time64("us"), [1_000_000, 1_000_000, 0, "time"]),
        ([Decimal("-1.50"), Decimal("2.00")], pa.decimal128(5, 2), ["-1.50", "2.00", 0, "decimal"]),
        ([Decimal("1e30")], pa.decimal128(38, 0), ["1" + "0" * 30, "1" + "0" * 30, 0, "decimal"]),
        ([b"a", None], pa.binary(), [None, None, 1]),
        ([None, None], pa.int64(), [None, None, 2]),
        ([], pa.int64(), [None, None, 0]),
    ],
)
def test_each_type_has_its_encoding(values: list[Any], kind: pa.DataType, entry: list[Any]) -> None:
    found = stats_of(pa.table({"x": pa.array(values, kind)}))["x"]
    assert found == entry
    assert [type(v) for v in found] == [type(v) for v in entry]
    assert json.loads(json.dumps(found)) == entry
    unknown = pa.types.is_floating(kind) or kind in (
        pa.large_string(),
        pa.string_view(),
        pa.date64(),
        pa.binary(),
    )
    in_memory = of_values(pa.chunked_array([pa.array(values, kind)]))
    assert in_memory == ([None, None, entry[2]] if unknown else entry)
    assert unknown or [type(v) for v in in_memory] == [type(v) for v in entry]


def test_row_groups_are_joined_and_told_apart() -> None:
    table = pa.table({"x": [1, 2, None, None, 7, 5], "s": ["a", "b", "c", "d", "e", None]})
    metadata = footer(table, row_group_size=2)
    assert from_metadata(metadata, table.schema, nan_columns=frozenset()) == {
        "x": [1, 7, 2],
        "s": ["a", "e", 1],
    }
    groups = [row_group_stats(metadata, n, table.schema, ["x", "gone"]) for n in range(3)]
    assert groups == [{"x": [1, 2, 0]}, {"x": [None, None, 2]}, {"x": [5, 7, 0]}]


def test_a_float_has_no_maximum_unless_it_has_no_nan_for_certain() -> None:
    table = pa.table({"x": [1.0, float("nan"), 2.0], "y": [1.0, 2.0, 3.0]})
    assert stats_of(table, frozenset({"x"})) == {"x": [1.0, None, 0], "y": [1.0, 3.0, 0]}
    assert stats_of(table, None) == {"x": [1.0, None, 0], "y": [1.0, None, 0]}
    # one row group of nothing but NaN has no bounds at all, and neither has the file
    split = pa.table({"x": [1.0, float("nan")]})
    assert stats_of(split, frozenset({"x"}), row_group_size=1)["x"] == [None, None, 0]


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("x" * 64, "x" * 64, "x" * 64),
        ("x" * 65, "x" * 64, "x" * 63 + "y"),
        ("é" * 70, "é" * 64, "é" * 63 + "ê"),
        ("x" * 63 + "\ud7ff" + "a", "x" * 63 + "\ud7ff", "x" * 63 + "\ue000"),
        ("x" * 63 + "\U0010ffff" * 2, "x" * 63 + "\U0010ffff", "x" * 62 + "y"),
        ("\U0010ffff" * 70, "\U0010ffff" * 64, None),
    ],
)
def test_long_text_is_cut_and_its_maximum_rounded_up(value: str, low: str, high: str | None) -> None:
    found = stats_of(pa.table({"x": [value]}))["x"]
    assert found == [low, high, 0]
    assert low <= value
    assert high is None or high >= value


def test_text_that_isnt_utf8_is_unknown() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    assert stats_of(pa.table({"x": broken}))["x"] == [None, None, 0]


def test_files_without_statistics_are_unknown() -> None:
    table = pa.table({"x": [1, None], "t": pa.array([1, 2], pa.timestamp("ns"))})
    assert stats_of(table, write_statistics=False) == {"x": [None, None, None], "t": [None, None, None]}
    int96 = stats_of(table, use_deprecated_int96_timestamps=True)
    assert int96["t"][:2] == [None, None]


def test_decimals_that_are_stored_as_integers() -> None:
    table = pa.table({"x": pa.array([Decimal("1.20"), Decimal("-3.10")], pa.decimal128(5, 2))})
    found = stats_of(table, store_decimal_as_integer=True)["x"]
    assert found in (["-3.10", "1.20", 0, "decimal"], [None, None, 0])


def test_nested_columns_have_none_and_dotted_names_do() -> None:
    table = pa.table({"a.b": [1], "s": [{"b": 2}], "l": [[3]], "x": [4]})
    assert stats_of(table) == {"a.b": [1, 1, 0], "x": [4, 4, 0]}


def test_the_first_columns_come_first() -> None:
    table = pa.table({f"c{n}": [n] for n in range(40)})
    metadata = footer(table)
    assert list(from_metadata(metadata, table.schema)) == [f"c{n}" for n in range(32)]
    chosen = from_metadata(metadata, table.schema, max_columns=3, first=["c39", "gone", "c7"])
    assert list(chosen) == ["c39", "c7", "c0"]


@pytest.mark.parametrize(
    ("entry", "now", "bounds"),
    [
        ([1, 5, 0], "HUGEINT", (1, 5)),
        ([1, 5, 0], "DECIMAL(12,2)", (Decimal(1), Decimal(5))),
        ([1, 5, 0], "DOUBLE", (1.0, 5.0)),
        (["1", "5", 0, "decimal"], "HUGEINT", (1, 5)),
        ([1.5, 2.5, 0], "DOUBLE", (1.5, 2.5)),
        ([1, 2, 0, "date"], "DATE", (86_400_000_000, 172_800_000_000)),
        # what was a number, a day or a decimal when it was written isn't text in text's order
        ([1, 5, 0], "VARCHAR", (None, None)),
        (["1.50", "9.00", 0, "decimal"], "VARCHAR", (None, None)),
        ([1, 2, 0, "date"], "TIMESTAMP", (None, None)),
        ([1, 2, 0, "timestamp"], "TIMESTAMP WITH TIME ZONE", (None, None)),
        ([True, True, 0], "BIGINT", (None, None)),
        ([1, 5, 0], "BOOLEAN", (None, None)),
        ([1, 5, 0], "BLOB", (None, None)),
        (["x", "y", 0, "decimal"], "DECIMAL(5,2)", (None, None)),
        (["a", "b", 0], "ENUM('b', 'a')", (None, None)),
    ],
)
def test_statistics_keep_their_meaning_when_the_type_changes(
    entry: list[Any], now: str, bounds: tuple[Any, Any]
) -> None:
    assert decoder(now)(entry) == bounds


def test_rounding_on_the_way_to_double_stays_outside() -> None:
    low, high = decoder("DOUBLE")([2**53 + 1, 2**53 + 3, 0])
    assert low <= float(2**53 + 1)
    assert high >= float(2**53 + 3)
    low, high = decoder("DOUBLE")(["0.1", "0.1", 0, "decimal"])
    assert low < 0.1 < high
    assert sys.float_info.max >= high
