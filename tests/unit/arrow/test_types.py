"""Arrow types against DuckDB's names, and bringing rows into a table's columns."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.arrow.types import arrow_schema, arrow_type, columns_of, conform, duckdb_name
from firn.errors import FirnError, InvalidInputError, UnsupportedError
from firn.journal.columns import join, join_loose
from firn.journal.typenames import canonical

STORED = [
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "DECIMAL(3,2)", "DECIMAL(38,10)", "BIGINT[]", "VARCHAR[][]", "DOUBLE[3]"),
    *('STRUCT(a BIGINT, "b c" VARCHAR[], "year" STRUCT(x DATE))', "MAP(VARCHAR, DECIMAL(5,1)[])"),
]
OTHERS = {
    "TIMESTAMP_S": "TIMESTAMP_S",
    "TIMESTAMP_MS": "TIMESTAMP_MS",
    "TIME_NS": "TIME_NS",
    "HUGEINT": "DECIMAL(38,0)",
    "UUID": "VARCHAR",
    "JSON": "VARCHAR",
    "ENUM('a', 'b')": "VARCHAR",
    "INTERVAL": "INTERVAL",
}


def uuids(*values: uuid.UUID | None) -> pa.Array:
    stored = pa.array([value and value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


UUIDS = pa.ListArray.from_arrays(
    pa.array([0, 1, 1, 1], pa.int32()),
    uuids(uuid.UUID(int=1)),
    mask=pa.array([False, True, False]),
)


def typeof(array: pa.Array) -> str:
    rows = pa.table({"x": array})
    with duckdb.connect() as connection:
        return connection.from_arrow(rows).project("typeof(x) AS t").to_arrow_table()["t"][0].as_py()


@pytest.mark.parametrize("name", STORED)
def test_duckdb_sees_the_recorded_type_in_arrow(name: str) -> None:
    kind = arrow_type(name)
    assert typeof(pa.nulls(1, kind)) == name
    assert duckdb_name(kind) == name


@pytest.mark.parametrize("name", OTHERS)
def test_types_that_share_an_arrow_type(name: str) -> None:
    assert typeof(pa.nulls(1, arrow_type(name))) == OTHERS[name]


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (pa.array(["a"], pa.large_string()), "VARCHAR"),
        (pa.array(["a"], pa.string_view()), "VARCHAR"),
        (pa.array([b"a"], pa.large_binary()), "BLOB"),
        (pa.array([b"a"], pa.binary_view()), "BLOB"),
        (pa.array([b"abc"], pa.binary(3)), "BLOB"),
        (pa.array(["a"]).dictionary_encode(), "VARCHAR"),
        (pa.RunEndEncodedArray.from_arrays([2], ["a"]), "VARCHAR"),
        (pa.array([86_400_000], pa.date64()), "DATE"),
        (pa.array([1], pa.time32("ms")), "TIME"),
        (pa.array([1], pa.timestamp("us", "Europe/Paris")), "TIMESTAMP WITH TIME ZONE"),
        (pa.array([1], pa.timestamp("ms", "UTC")), "TIMESTAMP WITH TIME ZONE"),
        (pa.array([Decimal("1.5")], pa.decimal32(5, 2)), "DECIMAL(5,2)"),
        (pa.array([Decimal("1.5")], pa.decimal64(12, 2)), "DECIMAL(12,2)"),
        (pa.array([[1]], pa.large_list(pa.int64())), "BIGINT[]"),
        (pa.array([[1]], pa.list_view(pa.int64())), "BIGINT[]"),
        (uuids(uuid.UUID(int=1)), "UUID"),
        (pa.array(["1"], pa.json_()), "JSON"),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())), "BOOLEAN"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_variants_have_the_name_that_duckdb_gives_them(array: pa.Array, name: str) -> None:
    assert duckdb_name(array.type) == name == typeof(array)
    plain = conform(pa.table({"x": array}), {"x": name})["x"]
    assert plain.type == arrow_type(name)
    assert plain.null_count == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.float16(), "FLOAT"),
        (pa.timestamp("s"), "TIMESTAMP"),
        (pa.timestamp("ms"), "TIMESTAMP"),
        (pa.timestamp("ns", "UTC"), "TIMESTAMP WITH TIME ZONE"),
        (pa.time64("ns"), "TIME"),
        (pa.decimal256(38, 2), "DECIMAL(38,2)"),
        (pa.decimal128(5, -2), "DECIMAL(7,0)"),
        (pa.decimal128(2, 5), "DECIMAL(5,5)"),
        (pa.null(), None),
        (pa.list_(pa.null()), None),
        (pa.map_(pa.string(), pa.null()), None),
        (pa.struct([("a", pa.null())]), None),
        (pa.struct([("a", pa.null()), ("b", pa.int8())]), "STRUCT(b TINYINT)"),
        (pa.struct([]), None),
    ],
    ids=str,
)
def test_types_that_are_cast_before_they_are_written(kind: pa.DataType, name: str | None) -> None:
    assert duckdb_name(kind) == name


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.duration("us"), pa.month_day_nano_interval(), pa.decimal256(50, 2), pa.decimal128(38, -1)),
        *(pa.sparse_union([pa.field("a", pa.int8())]), pa.struct([("a", pa.int8()), ("A", pa.int8())])),
        *(pa.struct([("", pa.int8())]), pa.list_(pa.duration("s"))),
    ],
    ids=str,
)
def test_what_no_file_can_hold_is_refused_by_column(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="column 'x'"):
        columns_of(pa.schema([("x", kind)]))


@pytest.mark.parametrize(
    "name", ["BIT", "TIME WITH TIME ZONE", "UNION(a INTEGER)", "BIGNIT", "STRUCT(a VARIANT)"]
)
def test_types_without_arrow_are_unsupported_and_name_the_column(name: str) -> None:
    with pytest.raises(UnsupportedError, match="column 'x'"):
        arrow_schema({"x": name})


def test_columns_of_leaves_out_what_has_no_type_yet() -> None:
    schema = pa.schema([("a", pa.int32()), ("n", pa.null()), ("l", pa.list_(pa.null()))])
    assert columns_of(schema) == {"a": "INTEGER"}


@pytest.mark.parametrize(
    ("names", "match"), [(["a", "a"], "'a' and 'a'"), (["a", "A"], "'A'"), ([""], "empty")]
)
def test_columns_of_refuses_names_that_sql_cant_tell_apart(names: list[str], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        columns_of(pa.schema([(name, pa.int8()) for name in names]))


def test_arrow_schema_is_nullable_and_in_order() -> None:
    schema = arrow_schema({"b": "DATE", "a": "STRUCT(x INTEGER)"})
    assert schema.names == ["b", "a"]
    assert all(field.nullable for field in schema)


def test_conform_takes_over_what_fits_already() -> None:
    table = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]})
    assert conform(table, {"a": "INTEGER", "b": "VARCHAR"}) is table
    moved = conform(table, {"b": "VARCHAR", "a": "INTEGER"})
    assert moved.column_names == ["b", "a"]
    assert moved["a"].chunk(0).buffers()[1].address == table["a"].chunk(0).buffers()[1].address


def test_conform_selects_fills_and_orders() -> None:
    got = conform(pa.table({"x": [1], "y": ["b"], "z": [2.0]}), {"z": "DOUBLE", "n": "DATE[]", "x": "BIGINT"})
    assert got.schema.equals(arrow_schema({"z": "DOUBLE", "n": "DATE[]", "x": "BIGINT"}))
    assert got.to_pylist() == [{"z": 2.0, "n": None, "x": 1}]


def test_conform_to_no_columns_keeps_the_number_of_rows() -> None:
    assert conform(pa.table({"x": [1, 2]}), {}).num_rows == 2


def test_conform_takes_batches_and_empty_tables() -> None:
    batch = pa.record_batch({"x": pa.array([1], pa.int8())})
    assert conform(batch, {"x": "INTEGER"})["x"].to_pylist() == [1]
    empty = pa.schema([("x", pa.int8()), ("s", pa.list_view(pa.int8()))]).empty_table()
    assert conform(empty, {"x": "INTEGER", "s": "BIGINT[]"}).schema.types == [
        pa.int32(),
        pa.list_(pa.int64()),
    ]


def test_conform_matches_another_case_only_if_the_exact_name_isnt_there() -> None:
    assert conform(pa.table({"Day": [1]}), {"day": "BIGINT"}).to_pylist() == [{"day": 1}]
    both = pa.table({"DAY": [1], "day": [2]})
    assert conform(both, {"day": "BIGINT"}).to_pylist() == [{"day": 2}]
    struct = pa.table({"s": pa.array([{"A": 1, "a": 2}])})
    assert conform(struct, {"s": "STRUCT(a BIGINT)"}).to_pylist() == [{"s": {"a": 2}}]
    struct = pa.table({"s": pa.array([{"A": 1}])})
    assert conform(struct, {"s": "STRUCT(a BIGINT)"}).to_pylist() == [{"s": {"a": 1}}]


@pytest.mark.parametrize(
    ("array", "name", "values"),
    [
        (pa.array([1, None], pa.int8()), "HUGEINT", [Decimal(1), None]),
        (pa.array([1, None]), "DECIMAL(5,2)", [Decimal("1.00"), None]),
        (pa.array([1]), "DECIMAL(38,37)", [Decimal(1)]),
        (pa.array([2**64 - 1], pa.uint64()), "DECIMAL(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([300]), "SMALLINT", [300]),
        (pa.array([2**53]), "DOUBLE", [2.0**53]),
        (pa.array([1.0]), "BIGINT", [1]),
        (pa.array([0.5, float("inf"), None]), "FLOAT", [0.5, float("inf"), None]),
        (pa.array([0.1], pa.float32()), "DOUBLE", [float(np.float32(0.1))]),
        (pa.array([np.float16(1.5)], pa.float16()), "DOUBLE", [1.5]),
        (pa.array([np.float16(1.5)], pa.float16()), "FLOAT", [1.5]),
        (pa.array([Decimal("1.10")]), "DOUBLE", [1.1]),
        (pa.array([Decimal("1.10")]), "DECIMAL(9,1)", [Decimal("1.1")]),
        (pa.array([Decimal("2.00")]), "INTEGER", [2]),
        (pa.array([1], pa.timestamp("s")), "TIMESTAMP", [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        (pa.array([1000], pa.timestamp("ns")), "TIMESTAMP", [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        (pa.array([0], pa.time64("ns")), "TIME", [dt.time(0)]),
        (pa.array([86_400_000], pa.date64()), "DATE", [dt.date(1970, 1, 2)]),
        (pa.array(["a", None]).dictionary_encode(), "VARCHAR", ["a", None]),
        (pa.nulls(2), "STRUCT(a DATE)", [None, None]),
        (pa.array([None], pa.string()), "DATE", [None]),
        (uuids(uuid.UUID(int=255), None), "VARCHAR", [str(uuid.UUID(int=255)), None]),
        (
            pa.array([[1], None, [], [2, None]]),
            "DECIMAL(3,1)[]",
            [[Decimal(1)], None, [], [Decimal(2), None]],
        ),
        (pa.array([[9], [1], None], pa.list_view(pa.int64())).slice(1), "INTEGER[]", [[1], None]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "SMALLINT[]", [[1, 2], None]),
        (pa.array([[1, 2], None]), "SMALLINT[2]", [[1, 2], None]),
        (pa.array([[], None]), "DATE[]", [[], None]),
        (
            UUIDS,
            "VARCHAR[]",
            [[str(uuid.UUID(int=1))], None, []],
        ),
        (
            pa.array([[("z", 0)], [("a", 1)], None, []], pa.map_(pa.large_string(), pa.int8())).slice(1),
            "MAP(VARCHAR, BIGINT)",
            [[("a", 1)], None, []],
        ),
        (
            pa.array([{"b": 0, "gone": 1}, None, {"b": 2}]).slice(1),
            "STRUCT(a DATE, b SMALLINT)",
            [None, {"a": None, "b": 2}],
        ),
        (pa.array([[{"a": [{"B": 1}]}]]), "STRUCT(a STRUCT(b DOUBLE)[])[]", [[{"a": [{"b": 1.0}]}]]),
    ],
    ids=str,
)
def test_conform_casts_what_stays_the_same(array: pa.Array, name: str, values: list[object]) -> None:
    got = conform(pa.table({"x": array}), {"x": name})
    assert got.schema.equals(arrow_schema({"x": name}))
    assert got["x"].to_pylist() == values
    got.validate(full=True)


@pytest.mark.parametrize(
    ("array", "name", "parts"),
    [
        (pa.array([1, 2, 40_000, 50_000]), "SMALLINT", ["'x' is SMALLINT", "40000", "row 2", "BIGINT"]),
        (pa.array([1, 2**53 + 1]), "DOUBLE", [str(2**53 + 1), "row 1"]),
        (pa.array([1.0, 1.5]), "INTEGER", ["1.5", "DOUBLE"]),
        (pa.array([1.0, float("nan")]), "INTEGER", ["nan"]),
        (pa.array([0.5, 0.1]), "FLOAT", ["0.1", "row 1"]),
        (pa.array([1e300]), "FLOAT", ["1e+300"]),
        (pa.array([0.555]), "DECIMAL(5,2)", ["0.555"]),
        (pa.array([Decimal("0.555")]), "DECIMAL(5,2)", ["0.555"]),
        (pa.array([1000]), "DECIMAL(3,0)", ["1000"]),
        (pa.array([-1]), "UBIGINT", ["-1"]),
        (pa.array(["1"]), "BIGINT", ["'1'", "VARCHAR"]),
        (pa.array([None, 1]), "VARCHAR", ["1", "row 1"]),
        (pa.array([b"a"]), "VARCHAR", ["b'a'"]),
        (pa.array([True]), "BIGINT", ["True"]),
        (pa.array([dt.date(2020, 1, 1)]), "TIMESTAMP", ["DATE"]),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP WITH TIME ZONE", ["TIMESTAMP"]),
        (pa.array([1], pa.timestamp("ns")), "TIMESTAMP", ["TIMESTAMP_NS"]),
        (pa.array([1], pa.timestamp("ns", "UTC")), "TIMESTAMP WITH TIME ZONE", ["doesn't fit"]),
        (pa.array([1], pa.time64("ns")), "TIME", ["doesn't fit"]),
        (pa.array([[1], [1, 300]]), "TINYINT[]", ["'x[]' is TINYINT[]", "300"]),
        (pa.array([[1, 2], [1]]), "BIGINT[2]", ["[1]", "row 1"]),
        (pa.array([{"a": {"b": "t"}}]), "STRUCT(a STRUCT(b DATE))", ["'x.a.b'", "'t'"]),
        (
            pa.array([[("k", 300)]], pa.map_(pa.string(), pa.int64())),
            "MAP(VARCHAR, TINYINT)",
            ["'x[]'", "300"],
        ),
        (pa.array([{"a": 1}]), "BIGINT", ["STRUCT(a BIGINT)"]),
        (pa.array([1], pa.duration("s")), "BIGINT", ["duration[s]"]),
    ],
    ids=str,
)
def test_conform_refuses_what_would_change(array: pa.Array, name: str, parts: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        conform(pa.table({"x": array}), {"x": name})
    for part in parts:
        assert part in str(caught.value)


def test_conform_counts_rows_over_chunks() -> None:
    column = pa.chunked_array([[1, 2], [3, 300]])
    with pytest.raises(InvalidInputError, match="300 in row 3"):
        conform(pa.table({"x": column}), {"x": "TINYINT"})


@pytest.mark.parametrize(
    ("array", "name", "values"),
    [
        (pa.array([2**53 + 1]), "DOUBLE", [2.0**53]),
        (pa.array([Decimal("0.1234567890123456789")]), "DOUBLE", [0.1234567890123456789]),
        (pa.array([1, None]), "VARCHAR", ["1", None]),
        (pa.array([True]), "VARCHAR", ["true"]),
        (pa.array([dt.date(2020, 1, 1)]), "VARCHAR", ["2020-01-01"]),
        (pa.array([b"\xff"]), "VARCHAR", ["\\xFF"]),
        (pa.array([{"a": [1]}]), "VARCHAR", ["{'a': [1]}"]),
        (pa.array([[1], None]), "VARCHAR[]", [["1"], None]),
    ],
    ids=str,
)
def test_conform_loosely_reads_what_widen_promises(array: pa.Array, name: str, values: list[object]) -> None:
    assert conform(pa.table({"x": array}), {"x": name}, loose=True)["x"].to_pylist() == values


names = st.sampled_from([*STORED, *OTHERS]).filter(lambda name: name != "INTERVAL")
SAMPLES = {
    "number": 1,
    "BOOLEAN": True,
    "VARCHAR": "t",
    "BLOB": b"b",
    "DATE": dt.date(2020, 1, 2),
    "TIME": dt.time(1),
    "TIME_NS": dt.time(1),
}


def _sample(kind: pa.DataType) -> object:
    if pa.types.is_struct(kind):
        return {field.name: _sample(field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_sample(kind.key_type), _sample(kind.item_type))]
    if pa.types.is_fixed_size_list(kind):
        return [_sample(kind.value_type)] * kind.list_size
    if pa.types.is_list(kind):
        return [_sample(kind.value_type)]
    if pa.types.is_timestamp(kind):
        return dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc if kind.tz else None)
    if pa.types.is_decimal(kind):
        return Decimal(1)
    return SAMPLES.get(duckdb_name(kind) or "", 1)


@given(names, names)
def test_whatever_joins_conforms(a: str, b: str) -> None:
    joined = join(a, b)
    if joined is not None:
        table = pa.table({"x": pa.array([_sample(arrow_type(a)), None], arrow_type(a))})
        got = conform(table, {"x": joined})
        assert got["x"].type == arrow_type(joined)
        assert got["x"].null_count == 1


@given(names, names)
def test_whatever_is_widened_loosely_can_be_read(a: str, b: str) -> None:
    table = pa.table({"x": pa.array([_sample(arrow_type(a)), None], arrow_type(a))})
    got = conform(table, {"x": join_loose(a, b)}, loose=True)
    assert got["x"].null_count == 1


def test_a_declared_alias_is_the_same_type() -> None:
    assert arrow_type("INT8") == arrow_type(canonical("INT8")) == pa.int64()
    with pytest.raises(FirnError):
        arrow_type("INT8)")
