"""What `append` takes, and the types that untyped values take on."""

from __future__ import annotations

import datetime as dt
import enum
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from firn.arrow.inputs import InputRows, declared_columns, to_reader
from firn.arrow.types import columns_of, conform
from firn.errors import InvalidInputError
from firn.journal.columns import evolve

UTC = dt.timezone.utc


def rows_of(rows: InputRows) -> list[dict[str, Any]]:
    return pa.Table.from_batches(rows.batches(), rows.schema).to_pylist()


def types_of(data: Any, known: dict[str, str] | None = None) -> dict[str, str]:
    return columns_of(to_reader(data, known=known or {}).schema)


def test_arrow_tables_and_batches() -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int32())})
    for data in (table, table.to_batches()[0]):
        rows = to_reader(data, known={"a": "DOUBLE"})
        assert (rows.repeatable, rows.rows, rows.nbytes) == (True, 2, 8)
        assert rows_of(rows) == rows_of(rows) == [{"a": 1}, {"a": 2}]
        assert columns_of(rows.schema) == {"a": "INTEGER"}


def test_a_record_batch_reader_is_read_once_and_lazily() -> None:
    table = pa.table({"a": [1, 2]})
    pulled = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=1):
            pulled.append(batch)
            yield batch

    rows = to_reader(pa.RecordBatchReader.from_batches(table.schema, batches()), known={})
    assert (rows.repeatable, rows.rows, rows.nbytes, pulled) == (False, None, None, [])
    assert rows_of(rows) == table.to_pylist()
    with pytest.raises(InvalidInputError, match="once only"):
        rows.batches()


def test_anything_with_a_c_stream() -> None:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"a": [1]}).__arrow_c_stream__(requested_schema)

    rows = to_reader(Stream(), known={})
    assert not rows.repeatable
    assert rows_of(rows) == [{"a": 1}]


def test_polars_frames() -> None:
    now = dt.datetime(2020, 1, 1)
    frame = pl.DataFrame({"a": [1, None], "s": ["x", "y"], "t": [now, None], "h": [now.time(), None]})
    for data in (frame, frame.lazy()):
        rows = to_reader(data, known={"a": "INTEGER"})
        columns = columns_of(rows.schema)
        assert columns == {"a": "BIGINT", "s": "VARCHAR", "t": "TIMESTAMP", "h": "TIME"}
        table = pa.Table.from_batches(rows.batches(), rows.schema)
        assert conform(table, columns).to_pylist() == frame.to_dicts()


def test_pandas_frames() -> None:
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "f": [0.5, None],
            "o": ["x", None],
            "mixed": np.array([1, None], dtype=object),
            "n": pd.array([1, None], dtype="Int64"),
            "t": pd.to_datetime(["2020-01-01", None]),
            "z": pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Paris"),
            "c": pd.Categorical(["u", "v"]),
            "d": [dt.date(2020, 1, 1), None],
        },
        index=pd.Index([7, 8], name="key"),
    )
    rows = to_reader(frame, known={})
    assert columns_of(rows.schema) == {
        "key": "BIGINT",
        "i": "BIGINT",
        "f": "DOUBLE",
        "o": "VARCHAR",
        "mixed": "BIGINT",
        "n": "BIGINT",
        "t": "TIMESTAMP",
        "z": "TIMESTAMP WITH TIME ZONE",
        "c": "VARCHAR",
        "d": "DATE",
    }
    first, second = rows_of(rows)
    assert first["z"] == dt.datetime(2019, 12, 31, 23, tzinfo=UTC)
    assert first["c"] == "u"
    assert second == {**dict.fromkeys(frame.columns), "key": 8, "i": 2, "c": "v"}


def test_pandas_nanoseconds_stay_only_where_they_matter() -> None:
    coarse = pd.DataFrame({"t": pd.to_datetime([1000], unit="ns")})
    fine = pd.DataFrame({"t": pd.to_datetime([1001], unit="ns")})
    assert types_of(coarse) == {"t": "TIMESTAMP"}
    assert types_of(fine) == {"t": "TIMESTAMP_NS"}


def test_pandas_numbers_take_on_the_tables_types() -> None:
    frame = pd.DataFrame({"i": [1, 2], "f": [1.0, None], "big": [70_000, 1]})
    known = {"i": "SMALLINT", "f": "BIGINT", "big": "SMALLINT"}
    assert types_of(frame, known) == {"i": "SMALLINT", "f": "BIGINT", "big": "BIGINT"}


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (pd.DataFrame([[1, 2]]), "column 0"),
        (pd.DataFrame({"p": pd.period_range("2020", periods=1, freq="D")}), "'p' has pandas type period"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "'a' and 'A'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a'"),
        (pd.DataFrame({"x": ["1", 1]}), "'x' is mixed"),
        (pd.DataFrame({"d": [pd.Timedelta(1)]}), "column 'd'"),
        (pd.DataFrame({"c": [1j]}), "column 'c'"),
    ],
)
def test_pandas_frames_that_no_table_can_have(frame: pd.DataFrame, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        to_reader(frame, known={})


def test_a_list_of_dicts_has_the_columns_of_all_rows() -> None:
    data = [{"a": 1}, {"b": "x", "a": None}, {"c": None}]
    rows = to_reader(data, known={})
    assert rows.schema.names == ["a", "b", "c"]
    assert columns_of(rows.schema) == {"a": "BIGINT", "b": "VARCHAR"}
    assert (rows.rows, rows.repeatable) == (3, True)
    assert rows_of(rows) == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": "x", "c": None},
        {"a": None, "b": None, "c": None},
    ]


def test_no_rows() -> None:
    rows = to_reader([], known={"a": "DATE"})
    assert (rows.rows, rows.schema.names, rows_of(rows)) == (0, [], [])


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([True, None], "BOOLEAN"),
        ([1, 2.5], "DOUBLE"),
        ([1, Decimal("2.50")], "DECIMAL(3,2)"),
        (["x"], "VARCHAR"),
        ([b"x", bytearray(b"y")], "BLOB"),
        ([dt.date(2020, 1, 1)], "DATE"),
        ([dt.time(1)], "TIME"),
        ([dt.datetime(2020, 1, 1)], "TIMESTAMP"),
        ([dt.datetime(2020, 1, 1, tzinfo=UTC)], "TIMESTAMP WITH TIME ZONE"),
        ([uuid.UUID(int=1)], "VARCHAR"),
        ([[1], None, []], "BIGINT[]"),
        ([[1], [0.5]], "DOUBLE[]"),
        ([(1, 2)], "BIGINT[]"),
        ([{"a": 1}, {"b": [{"c": "x"}]}, None], "STRUCT(a BIGINT, b STRUCT(c VARCHAR)[])"),
        ([{"a": 1, "b": None}], "STRUCT(a BIGINT)"),
        ([np.int8(1), np.int64(2)], "BIGINT"),
        ([np.float32(0.5), 1], "DOUBLE"),
        ([np.bool_(True)], "BOOLEAN"),
        ([np.array([1, 2])], "BIGINT[]"),
        ([pd.NA, 1], "BIGINT"),
        ([pd.NaT, dt.datetime(2020, 1, 1)], "TIMESTAMP"),
        ([pd.Timestamp("2020-01-01", tz="UTC")], "TIMESTAMP WITH TIME ZONE"),
        ([enum.IntEnum("E", "A").A], "BIGINT"),
    ],
    ids=str,
)
def test_types_of_python_values(values: list[Any], name: str) -> None:
    assert types_of([{"x": value} for value in values]) == {"x": name}
    assert types_of({"x": values}) == {"x": name}


@pytest.mark.parametrize(
    "values", [[None], [[]], [{}], [[], None], [[None]], [{"a": None}], [{"a": []}]], ids=str
)
def test_a_column_of_nothing_has_no_type_yet(values: list[Any]) -> None:
    assert types_of([{"x": value} for value in values]) == {}


def test_nested_values_arrive() -> None:
    data = [{"x": [{"a": 1, "b": [1, 2]}, None, {"b": []}]}, {"x": None}, {"x": []}]
    got = rows_of(to_reader(data, known={}))
    assert got[0]["x"] == [{"a": 1, "b": [1, 2]}, None, {"a": None, "b": []}]
    assert [row["x"] for row in got[1:]] == [None, []]


def test_aware_times_are_the_same_instants_in_utc() -> None:
    paris = dt.timezone(dt.timedelta(hours=2))
    values = [dt.datetime(2020, 6, 1, 0, 30, tzinfo=paris), dt.datetime(2020, 6, 1, tzinfo=UTC), None]
    got = rows_of(to_reader({"x": values}, known={}))
    assert [row["x"] for row in got] == values


@pytest.mark.parametrize(
    ("values", "known", "after"),
    [
        ([1, 2], "INTEGER", "INTEGER"),
        ([1, 2], "UTINYINT", "UTINYINT"),
        ([1, 300], "TINYINT", "BIGINT"),
        ([1, -1], "UBIGINT", "BIGINT"),
        ([2**63], "UBIGINT", "UBIGINT"),
        ([2**70], "DECIMAL(38,0)", "DECIMAL(38,0)"),
        ([2**70], "HUGEINT", "DECIMAL(38,0)"),
        ([1, 2], "DOUBLE", "DOUBLE"),
        ([1, 2], "FLOAT", "FLOAT"),
        ([0.1], "FLOAT", "FLOAT"),
        ([1e300], "FLOAT", "DOUBLE"),
        ([1.0, 2], "INTEGER", "INTEGER"),
        ([1.5], "INTEGER", "DOUBLE"),
        ([0.5], "DECIMAL(5,2)", "DECIMAL(5,2)"),
        ([1, 2], "DECIMAL(5,2)", "DECIMAL(5,2)"),
        ([1000], "DECIMAL(5,2)", "BIGINT"),
        ([Decimal("1.5")], "DECIMAL(12,2)", "DECIMAL(12,2)"),
        ([Decimal("1.555")], "DECIMAL(12,2)", "DECIMAL(4,3)"),
        (["2020-01-01"], "DATE", "VARCHAR"),
        (["1"], "BIGINT", "VARCHAR"),
        ([1], "VARCHAR", "BIGINT"),
        ([True], "BIGINT", "BOOLEAN"),
        ([dt.datetime(2020, 1, 1)], "TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
        ([dt.datetime(2020, 1, 1, tzinfo=UTC)], "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
        ([dt.datetime(2020, 1, 1)], "TIMESTAMP_NS", "TIMESTAMP_NS"),
        ([dt.datetime(3000, 1, 1)], "TIMESTAMP_NS", "TIMESTAMP"),
        ([[1], []], "SMALLINT[]", "SMALLINT[]"),
        ([[1, 2]], "SMALLINT[2]", "SMALLINT[2]"),
        ([[1]], "SMALLINT[2]", "SMALLINT[]"),
        ([{"a": 1, "fresh": 1}], "STRUCT(a SMALLINT, b DATE)", "STRUCT(a SMALLINT, fresh BIGINT)"),
        ([{"k": 1}, None, {}], "MAP(VARCHAR, SMALLINT)", "MAP(VARCHAR, SMALLINT)"),
        ([{1: "x"}], "MAP(BIGINT, VARCHAR)", "MAP(BIGINT, VARCHAR)"),
        ([1], "BIT", "BIGINT"),
    ],
    ids=str,
)
def test_untyped_values_take_on_the_tables_type_where_all_fit(
    values: list[Any], known: str, after: str
) -> None:
    for data in ([{"x": value} for value in values], {"x": values}, {"x": pd.Series(values, dtype=object)}):
        assert types_of(data, {"x": known}) == {"x": after}


def test_a_map_arrives() -> None:
    got = to_reader([{"x": {"a": 1}}, {"x": None}, {"x": {}}], known={"x": "MAP(VARCHAR, INTEGER)"})
    assert [row["x"] for row in rows_of(got)] == [[("a", 1)], None, []]


def test_small_ints_leave_a_shared_table_as_it_is() -> None:
    known = {"n": "INTEGER", "price": "DECIMAL(9,2)", "at": "TIMESTAMP"}
    incoming = types_of([{"n": 1, "price": 2, "at": None}], known)
    assert evolve(known, incoming, allow_widening=False) == known


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ([None, "1", 1], ["'x' is mixed", "'1'", "row 1", "(1)", "row 2"]),
        ([True, 1], ["bool", "int"]),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)], ["date", "datetime", "row 1"]),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)], ["zone", "row 1"]),
        ([b"a", "b"], ["bytes", "str"]),
        ([Decimal(1), 0.5], ["Decimal", "float"]),
        ([[1], ["a"]], ["'x'[]", "row 1"]),
        ([{"a": 1}, {"a": "b"}], ["'x'.a", "row 1"]),
        ([{"a": 1}, [1]], ["dict", "list"]),
        ([{1: 2}], ["key 1", "row 0"]),
        ([1, Ellipsis], ["ellipsis", "row 1"]),
        ([{1, 2}], ["set"]),
        ([1j], ["complex"]),
        ([dt.timedelta(1)], ["timedelta"]),
        ([enum.Enum("E", "A").A], ["E.A"]),
        ([np.datetime64("2020-01-01")], ["datetime64"]),
        ([1, 2**63], [str(2**63), "row 1", "BIGINT"]),
        ([2**200], ["too large"]),
        ([0.5, 2**53 + 1], [str(2**53 + 1), "row 1"]),
        ([Decimal("NaN")], ["NaN"]),
        ([Decimal(10) ** 40], ["38 digits"]),
        ([Decimal("1e30"), Decimal("1e-20")], ["38 digits"]),
        (["ok", "\ud800"], ["Unicode", "row 1"]),
        ([dt.time(1, tzinfo=UTC)], ["zone"]),
        ([pd.Timestamp("2020-01-01 00:00:00.000000001")], ["nanoseconds"]),
    ],
    ids=ascii,
)
def test_values_that_no_column_can_hold_are_refused_by_column_and_row(
    values: list[Any], parts: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        to_reader([{"x": value} for value in values], known={})
    for part in ["'x'", *parts]:
        assert part in str(caught.value)


def test_a_map_has_no_null_key() -> None:
    with pytest.raises(InvalidInputError, match="key is None"):
        to_reader([{"x": {None: 1}}], known={"x": "MAP(VARCHAR, BIGINT)"})


def test_a_dict_of_columns() -> None:
    data = {"l": [1, 2], "a": pa.array([1, 2], pa.int8()), "n": np.array([1, 2], np.int16), "r": range(2)}
    data |= {"p": pd.Series([0.5, None]), "q": pl.Series(["x", "y"]), "o": np.array(["x", None], object)}
    assert types_of(data) == {
        "l": "BIGINT",
        "a": "TINYINT",
        "n": "SMALLINT",
        "r": "BIGINT",
        "p": "DOUBLE",
        "q": "VARCHAR",
        "o": "VARCHAR",
    }
    assert types_of({"n": np.array([1], np.int64), "a": pa.array([1])}, {"n": "TINYINT", "a": "TINYINT"}) == {
        "n": "TINYINT",
        "a": "BIGINT",
    }
    assert types_of({"m": np.array([[1, 2], [3, 4]])}) == {"m": "BIGINT[]"}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"a": 1, "b": "x"}, r"put its dict in a list: \[row\]"),
        ({"a": "xy"}, r"\[row\]"),
        ({"a": [1], "b": [1, 2]}, "differ in length: 'a' has 1, 'b' has 2"),
        ({1: [1]}, "column 1"),
        ([1, 2], r"row 0 is an int \(1\)"),
        ([{"a": 1}, None], "row 1 is a NoneType"),
        ([{1: 2}], "row 0 has the key 1"),
        ([{}, {}], "empty dicts"),
        ([{"a": 1, "A": 2}], "'a' and 'A'"),
        ([{"": 1}], "empty name"),
        ("rows.parquet", r"list of dicts.*pandas.*polars.*Spark.*RecordBatchReader"),
        (b"x", "bytes"),
        (None, "NoneType"),
        (5, "int"),
        (iter([{"a": 1}]), "list_iterator"),
        (object, "type"),
        (pa.array([1]), "Array"),
        (pl.Series([1]), "Series"),
        (pd.Series([1]), "Series"),
        (pa.table({"d": pa.array([1], pa.duration("s"))}), "column 'd'"),
        (pl.DataFrame({"d": [dt.timedelta(1)]}), "column 'd'"),
        (pl.DataFrame({"d": [object()]}), "'d' has polars type Object"),
        ({"d": pl.Series([object()])}, "'d' has polars type Object"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_append_cant_take_is_refused_with_a_hint(data: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        to_reader(data, known={})


def test_plain_rows_need_neither_pandas_nor_polars() -> None:
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars", "pyspark"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from firn.arrow.inputs import to_reader
print(to_reader([{"a": [1.5], "b": {"c": None}}], known={"a": "FLOAT[]"}).schema.field("a").type)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "list<item: float>"


def test_declared_columns() -> None:
    assert declared_columns(None) == {}
    assert declared_columns({"a": "int8", "s": "struct(x text)"}) == {"a": "BIGINT", "s": "STRUCT(x VARCHAR)"}
    assert declared_columns(pa.schema([("a", pa.int32()), ("t", pa.timestamp("ms"))])) == {
        "a": "INTEGER",
        "t": "TIMESTAMP",
    }


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        ({"a": "BIGNIT"}, "'a'.*BIGNIT"),
        ({"a": "INT)"}, "'a'.*isn't a DuckDB type name"),
        ({"a": "INTERVAL"}, "'a'"),
        ({"a": "NULL"}, "'a' has type NULL"),
        ({"a": "DATE", "A": "DATE"}, "'a' and 'A'"),
        ({"": "DATE"}, "empty name"),
        ({1: "DATE"}, "isn't a schema"),
        ({"a": int}, "isn't a schema"),
        (["a"], "isn't a schema"),
        (pa.schema([("a", pa.null())]), "'a' has type null"),
        (pa.schema([("a", pa.duration("s"))]), "'a'"),
    ],
    ids=str,
)
def test_a_schema_that_no_table_can_have(schema: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        declared_columns(schema)


@pytest.mark.parametrize("kind", ["BIGINT", "VARCHAR", "JSON", "BIGINT[]"])
def test_an_empty_dict_is_no_null_of_another_type(kind: str) -> None:
    with pytest.raises(InvalidInputError, match="the column is"):
        to_reader([{"c": {}}, {"c": None}], known={"c": kind})


def test_an_empty_dict_is_the_struct_that_it_is_beside_others() -> None:
    for rows in ([{"c": {}}], [{"c": {}}, {"c": {"a": 1}}]):
        found = to_reader(rows, known={"c": "STRUCT(a BIGINT)"})
        assert next(found.batches()).column("c").to_pylist()[0] == {"a": None}
