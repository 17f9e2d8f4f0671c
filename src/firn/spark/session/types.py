"""Spark's types and DuckDB's names: what a table's columns are in a DataFrame, and back.

Spark has no unsigned integers, times of day, UUIDs or nanoseconds: such columns come as the next wider type,
as text, or rounded down to microseconds. Everything else keeps its type both ways.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import NULL, Decimal, Enum, List, Map, Scalar, Struct, Type, parse, quoted
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# DuckDB's name → the name that Spark's DDL has for the type that holds its values.
_SPARK: dict[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "UTINYINT": "smallint",
    "USMALLINT": "int",
    "UINTEGER": "bigint",
    "UBIGINT": "decimal(20,0)",
    "HUGEINT": "decimal(38,0)",
    "UHUGEINT": "decimal(38,0)",
    "FLOAT": "float",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "JSON": "string",
    "UUID": "string",
    "BLOB": "binary",
    "DATE": "date",
    "TIME": "string",
    "TIME_NS": "string",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_S": "timestamp_ntz",
    "TIMESTAMP_MS": "timestamp_ntz",
    "TIMESTAMP_NS": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "TIMESTAMPTZ_NS": "timestamp",
}

# The class of each of these types but the decimals.
_CLASSES: Mapping[str, str] = {
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "smallint": "ShortType",
    "int": "IntegerType",
    "bigint": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
}

# A class → the first DuckDB name above whose values it holds.
_DUCKDB: Mapping[str, str] = {
    "TimeType": "TIME",
    **{_CLASSES[spark]: name for name, spark in reversed(_SPARK.items()) if spark in _CLASSES},
}

# Types that Spark's Parquet reader reads as the column's Spark type, from any writer's files.
_NATIVE = _SPARK.keys() - {
    *("HUGEINT", "UHUGEINT", "UUID"),
    *("TIME", "TIME_NS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS"),
    *("TIMESTAMP_S", "TIMESTAMP_MS"),  # a filter by a finer literal loses rows of such files
}

# The same, in files that Firn wrote: DuckDB writes a HUGEINT as a double and a UUID as 16 bytes.
_NATIVE_OURS = _NATIVE | {"HUGEINT", "UHUGEINT", "UUID"}

# Widenings that Spark's reader does by itself; measured, and in the suite.
_WIDENED: Mapping[str, frozenset[str]] = {
    "TINYINT": frozenset(("SMALLINT", "INTEGER", "BIGINT", "DOUBLE")),
    "SMALLINT": frozenset(("INTEGER", "BIGINT", "DOUBLE")),
    "INTEGER": frozenset(("BIGINT", "DOUBLE")),
    "UTINYINT": frozenset(("SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT")),
    "USMALLINT": frozenset(("INTEGER", "UINTEGER", "BIGINT")),
    "UINTEGER": frozenset(("BIGINT",)),
    "FLOAT": frozenset(("DOUBLE",)),
}
_INT32_DIGITS = 10
"""Digits that a decimal needs before the point for Spark to read an INT32 column as it."""


def spark_schema(columns: ColumnTypes) -> StructType:
    """The Spark schema of a table's columns, all nullable.

    `UnsupportedError` names a column whose type has no counterpart in Spark (INTERVAL, BIT, …).

    Example:
        >>> spark_schema({"a": "UINTEGER", "t": "TIMESTAMP"}).simpleString()
        'struct<a:bigint,t:timestamp_ntz>'
    """
    from pyspark.sql.types import StructField, StructType

    fields = []
    for name, kind in columns.items():
        try:
            fields.append(StructField(name, _spark(parse(kind)), True))
        except UnsupportedError as error:
            raise UnsupportedError(f"column {name!r}: {error}") from None
    return StructType(fields)


def columns_of_schema(schema: StructType, *, lacking: str | None = None) -> dict[str, str]:
    """Column → DuckDB name for a DataFrame's schema; what has no type (void) is `lacking`, or left out.

    Raises:
        InvalidInputError: an empty name, or two names that differ only by case.
        UnsupportedError: a type that no file of a table holds; the message names the column.
    """
    columns: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for field in schema.fields:
        there = spelled.setdefault(fold(field.name), field.name)
        if not field.name or there != field.name or field.name in columns:
            raise InvalidInputError(
                f"the DataFrame has the columns {there!r} and {field.name!r}, which SQL can't tell "
                "apart: rename one"
                if field.name
                else "the DataFrame has a column without a name: give it one with alias()"
            )
        kind = _duckdb(field.dataType, field.name, lacking)
        if kind is not None:
            columns[field.name] = kind
    return columns


def incoming_columns(schema: StructType, known: ColumnTypes) -> dict[str, str]:
    """Like `columns_of_schema`, for rows that go into a table of the columns `known`.

    A column whose Spark type is what the table's own type is read as counts as the table's: rows that were
    read from a table go back into it without widening it.

    Example:
        >>> from pyspark.sql.types import StructType
        >>> incoming_columns(StructType.fromDDL("a smallint, b smallint"), {"a": "UTINYINT"})
        {'a': 'UTINYINT', 'b': 'SMALLINT'}
    """
    columns = columns_of_schema(schema)
    folded = {fold(name): kind for name, kind in known.items()}
    for name in columns:
        kind = folded.get(fold(name))
        if (
            kind is not None
            and columns[name] != kind
            and _read_as(kind) == schema[name].dataType.simpleString()
        ):
            columns[name] = kind
    return columns


def _read_as(kind: str) -> str | None:
    if kind in ("TIME", "TIME_NS"):
        return None  # read as text, and text is never parsed on its way in
    try:
        return str(_spark(parse(kind)).simpleString())
    except UnsupportedError:
        return None


def handed_back(kind: str) -> bool:
    """Whether a column of DuckDB's type `kind` that went through Spark can be stored under that type."""
    return _read_as(kind) is not None


def spark_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark wants batches of this schema: zone and nullability included."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # pyspark 4.1: always UTC


def recast(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Rows of a table's columns as Spark wants them; columns are found by name, missing ones are null."""
    arrays = []
    for field in schema:
        if field.name in rows.schema.names:
            column = rows.column(field.name)
            arrays.append(column if column.type.equals(field.type) else column.cast(field.type, safe=False))
        else:
            arrays.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def natively_readable(stored: str, wanted: str, *, ours: bool) -> bool:
    """Whether Spark's Parquet reader reads a column stored as `stored` as the table's `wanted` type.

    `ours` tells files that Firn wrote from others, whose Parquet types DuckDB's names don't settle.

    Example:
        >>> natively_readable("INTEGER", "BIGINT", ours=True)
        True
        >>> natively_readable("BIGINT", "DOUBLE", ours=True)
        False
    """
    return _native(parse(stored), parse(wanted), ours)


def _native(stored: Type, wanted: Type, ours: bool) -> bool:
    if isinstance(stored, Scalar) and isinstance(wanted, Scalar):
        if stored == wanted:
            return stored.name in (_NATIVE_OURS if ours else _NATIVE)
        return wanted.name in _WIDENED.get(stored.name, ())
    if isinstance(wanted, Decimal):
        before_point = wanted.precision - wanted.scale
        if isinstance(stored, Decimal):
            return before_point >= stored.precision - stored.scale and wanted.scale >= stored.scale
        return str(stored) in ("TINYINT", "SMALLINT", "INTEGER") and before_point >= _INT32_DIGITS
    if isinstance(stored, List) and isinstance(wanted, List):
        return _native(stored.item, wanted.item, ours)
    if isinstance(stored, Map) and isinstance(wanted, Map):
        return _native(stored.key, wanted.key, ours) and _native(stored.value, wanted.value, ours)
    if isinstance(stored, Struct) and isinstance(wanted, Struct):
        have = dict(stored.fields)
        # A struct none of whose fields is in the file reads as null, though the struct is there.
        return all(_native(have.get(name, kind), kind, ours) for name, kind in wanted.fields) and any(
            name in have for name, _ in wanted.fields
        )
    return isinstance(stored, Enum) and stored == wanted and ours


def _spark(kind: Type) -> DataType:
    from pyspark.sql import types

    if isinstance(kind, Scalar) and kind.name in _SPARK:
        return _scalar(_SPARK[kind.name])
    if kind == NULL:
        return types.NullType()
    if isinstance(kind, Decimal):
        return types.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, Enum):
        return types.StringType()
    if isinstance(kind, List):
        return types.ArrayType(_spark(kind.item), True)
    if isinstance(kind, Map):
        return types.MapType(_spark(kind.key), _spark(kind.value), True)
    if isinstance(kind, Struct):
        return types.StructType([types.StructField(name, _spark(inner), True) for name, inner in kind.fields])
    raise UnsupportedError(f"Spark has no type for {kind}; leave the column out of the scan's columns")


def _scalar(name: str) -> DataType:
    from pyspark.sql import types

    if name.startswith("decimal"):
        return types.DecimalType(int(name[8:10]), 0)
    kind: DataType = getattr(types, _CLASSES[name])()
    return kind


def _duckdb(kind: DataType, column: str, lacking: str | None) -> str | None:
    from pyspark.sql import types

    name = type(kind).__name__
    if name in _DUCKDB:
        return _DUCKDB[name]
    if isinstance(kind, types.NullType):
        return lacking
    if isinstance(kind, types.DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, types.ArrayType):
        item = _duckdb(kind.elementType, f"{column}[]", lacking)
        return item and f"{item}[]"
    if isinstance(kind, types.MapType):
        key, value = (
            _duckdb(kind.keyType, f"{column}[key]", lacking),
            _duckdb(kind.valueType, f"{column}[]", lacking),
        )
        return key and value and f"MAP({key}, {value})"
    if isinstance(kind, types.StructType):
        return _struct(kind, column, lacking)
    raise UnsupportedError(
        f"column {column!r} of the DataFrame is {kind.simpleString()}, which no file of a table holds: "
        "cast it (to string or binary, for example), or drop it"
    )


def _struct(kind: StructType, column: str, lacking: str | None) -> str | None:
    fields = [
        (field.name, _duckdb(field.dataType, f"{column}.{field.name}", lacking)) for field in kind.fields
    ]
    names = [fold(name) for name, _ in fields]
    if not all(names) or len(set(names)) < len(names):
        raise InvalidInputError(
            f"column {column!r} of the DataFrame has a field without a name, or two that differ only by "
            "case: rename them"
        )
    text = ", ".join(f"{quoted(name)} {inner}" for name, inner in fields if inner)
    return f"STRUCT({text})" if text else None
