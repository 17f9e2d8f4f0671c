"""Arrow types and DuckDB type names, and how rows are brought into a table's columns.

Logs record DuckDB names (`firn.journal.columns`), files and memory hold Arrow. Each name has one Arrow type;
several Arrow types have the same name (`large_string`, `string_view` and a dictionary of strings are all
VARCHAR), and `conform` turns them into the one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NoReturn, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.casting import MisfitError, convert, is_list
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Decimal, Enum, List, Map, Scalar, Struct, Type, parse, quoted
from firn.names import fold

S = TypeVar("S")
T = TypeVar("T")


def duckdb_name(kind: pa.DataType) -> str | None:
    """The DuckDB name under which a log records columns of this Arrow type.

    Dictionaries and run ends count as their values, large and view variants as the plain type, extension
    types as their storage (UUID and JSON have names of their own). Timestamps of seconds or milliseconds are
    TIMESTAMP, half floats FLOAT; nanoseconds with a zone are TIMESTAMP WITH TIME ZONE and times of
    nanoseconds TIME, which `conform` refuses where it would cut a digit off.

    None for null, and for lists, maps and structs with nothing but null inside: such a column has no type yet.
    Raises `InvalidInputError` for types that no Parquet file of a table can hold: durations, intervals, unions,
    decimals of more than 38 digits.

    >>> duckdb_name(pa.timestamp("ms")), duckdb_name(pa.list_(pa.int64())), duckdb_name(pa.null())
    ('TIMESTAMP', 'BIGINT[]', None)
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pt.is_null(kind):
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSIONS.get(kind.extension_name) or duckdb_name(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return duckdb_name(kind.value_type)
    if pt.is_timestamp(kind):
        if kind.tz is not None:
            return "TIMESTAMP WITH TIME ZONE"
        return "TIMESTAMP_NS" if kind.unit == "ns" else "TIMESTAMP"
    if pt.is_time(kind):
        return "TIME"
    if pt.is_fixed_size_binary(kind):
        return "BLOB"
    if pt.is_decimal(kind):
        return _decimal_name(kind)
    if is_list(kind):
        item = duckdb_name(kind.value_type)
        return item and f"{item}[{kind.list_size if pt.is_fixed_size_list(kind) else ''}]"
    if pt.is_map(kind):
        key, value = duckdb_name(kind.key_type), duckdb_name(kind.item_type)
        return key and value and f"MAP({key}, {value})"
    if pt.is_struct(kind):
        return _struct_name(kind)
    raise InvalidInputError(
        f"Arrow type {kind} can't be a column of a table, because no Parquet file holds it: "
        "cast it, a duration to BIGINT for example"
    )


@lru_cache(maxsize=4096)
def arrow_type(name: str) -> pa.DataType:
    """The Arrow type that holds a DuckDB type in memory and in files.

    UUID, JSON and ENUM are strings, HUGEINT is `decimal128(38, 0)`, a timestamp with a zone is microseconds
    in UTC. `UnsupportedError` for types that Arrow has no like of (BIT, VARIANT, TIME WITH TIME ZONE, …).

    >>> arrow_type("STRUCT(a INTEGER, b DATE[])")
    StructType(struct<a: int32, b: list<item: date32[day]>>)
    """
    return _arrow(parse(name))


def columns_of(schema: pa.Schema) -> dict[str, str]:
    """Name → DuckDB name of an Arrow schema's columns, those without a type yet left out.

    `InvalidInputError` for an empty name, two names equal up to case, and types that can't be stored.
    """
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for field in schema:
        if not field.name:
            raise InvalidInputError(f"a column of the data ({field.type}) has an empty name: give it one")
        there = spelled.setdefault(fold(field.name), field.name)
        if there != field.name or field.name in found:
            raise InvalidInputError(
                f"the data has the columns {there!r} and {field.name!r}, which SQL can't tell apart "
                "(case doesn't count): rename one"
            )
        name = _named(field.name, duckdb_name, field.type)
        if name is not None:
            found[field.name] = name
    return found


def all_columns_of(schema: pa.Schema) -> dict[str, str]:
    """As `columns_of`, with what has no type yet: DuckDB calls it `"NULL"`, and fits it to what it is used with.

    >>> all_columns_of(pa.schema([("n", pa.int64()), ("a", pa.null()), ("b", pa.list_(pa.null()))]))
    {'n': 'BIGINT', 'a': '"NULL"', 'b': '"NULL"[]'}
    """
    columns_of(schema)
    return {field.name: _whole_name(field.type) for field in schema}


def _whole_name(kind: pa.DataType) -> str:
    """The name of an Arrow type, `"NULL"` for parts that have none yet."""
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {_whole_name(field.type)}' for field in kind)})"
    if is_list(kind):
        size = kind.list_size if pt.is_fixed_size_list(kind) else ""
        return f"{_whole_name(kind.value_type)}[{size}]"
    if pt.is_map(kind):
        return f"MAP({_whole_name(kind.key_type)}, {_whole_name(kind.item_type)})"
    return duckdb_name(kind) or '"NULL"'


def arrow_schema(columns: ColumnTypes) -> pa.Schema:
    """The Arrow schema of a table's columns, all nullable. `UnsupportedError` names the column at fault."""
    return _arrow_schema(tuple(columns.items()))


@lru_cache(maxsize=256)
def _arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    return pa.schema([pa.field(name, _named(name, arrow_type, text)) for name, text in columns])


def conform(data: pa.Table | pa.RecordBatch, columns: ColumnTypes, *, loose: bool = False) -> pa.Table:
    """The rows of `data` under exactly these columns, in this order.

    Types are cast where every value stays what it is, nested ones too, struct fields by name; columns that `data`
    lacks are null, its other columns are dropped. A name that `data` spells only in another case is taken for the
    column. Text is never parsed, nor anything turned into text; with `loose` (for files that `on_conflict="widen"`
    reads), numbers may be rounded, and anything becomes text where the column is VARCHAR.

    Raises `InvalidInputError` that names the column, both types and the first value that doesn't fit.
    Columns that have the right type already are taken over without a copy.

    >>> conform(pa.table({"B": [1], "c": ["x"]}), {"a": "DATE", "b": "DOUBLE"}).to_pylist()
    [{'a': None, 'b': 1.0}]
    """
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    schema = arrow_schema(columns)
    if table.schema.equals(schema):
        return table
    if not columns:
        return table.select([])
    exact = {name: at for at, name in enumerate(table.column_names)}
    folded = {fold(name): at for name, at in exact.items() if name not in columns}
    arrays = []
    for field in schema:
        at = exact.get(field.name, folded.get(fold(field.name)))
        if at is None:
            arrays.append(pa.nulls(len(table), field.type))
        else:
            arrays.append(_column(table.column(at), field, columns[field.name], loose))
    return pa.Table.from_arrays(arrays, schema=schema)


_PLAIN: Mapping[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": pa.decimal128(38, 0),
    "UHUGEINT": pa.decimal128(38, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "UUID": pa.string(),
    "JSON": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIME_NS": pa.time64("ns"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC"),
    "INTERVAL": pa.month_day_nano_interval(),
    '"NULL"': pa.null(),
}

_NAMES: Mapping[pa.DataType, str] = {
    **{
        _PLAIN[name]: name
        for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
    },
    **{_PLAIN[name]: name for name in ("UBIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR", "BLOB", "DATE")},
    pa.float16(): "FLOAT",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.large_binary(): "BLOB",
    pa.binary_view(): "BLOB",
    pa.date64(): "DATE",
}

_EXTENSIONS = {"arrow.uuid": "UUID", "arrow.json": "JSON", "arrow.bool8": "BOOLEAN"}


def _arrow(kind: Type) -> pa.DataType:
    if isinstance(kind, Scalar) and kind.name in _PLAIN:
        return _PLAIN[kind.name]
    if isinstance(kind, Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, Enum):
        return pa.string()
    if isinstance(kind, List):
        return pa.list_(_arrow(kind.item), -1 if kind.size is None else kind.size)
    if isinstance(kind, Map):
        key = _arrow(kind.key)
        return pa.map_(pa.string() if pt.is_null(key) else key, _arrow(kind.value))  # no key is null
    if isinstance(kind, Struct):
        return pa.struct([pa.field(name, _arrow(inner)) for name, inner in kind.fields])
    raise UnsupportedError(
        f"Firn has no Arrow type for DuckDB's {kind}: leave the column out, or cast it in the query"
    )


def _decimal_name(kind: pa.DataType) -> str:
    precision, scale = kind.precision - min(kind.scale, 0), max(kind.scale, 0)
    if max(precision, scale) > 38:
        raise InvalidInputError(f"{kind} has more than the 38 digits of a DECIMAL: cast it to fewer")
    return f"DECIMAL({max(precision, scale)},{scale})"


def _struct_name(kind: pa.StructType) -> str | None:
    fields = [(field.name, duckdb_name(field.type)) for field in kind]
    text = ", ".join(f"{quoted(name)} {inner}" for name, inner in fields if inner)
    if any(not name for name, _ in fields) or len({fold(name) for name, _ in fields}) < len(fields):
        raise InvalidInputError(
            f"{kind} has a field without a name, or two that differ only by case: rename them"
        )
    return f"STRUCT({text})" if text else None


def _named(column: str, translate: Callable[[S], T], kind: S) -> T:
    try:
        return translate(kind)
    except (InvalidInputError, UnsupportedError) as error:
        raise type(error)(f"column {column!r}: {error}") from None


def _column(data: pa.ChunkedArray, field: pa.Field, name: str, loose: bool) -> pa.ChunkedArray:
    if data.type.equals(field.type):
        return data
    chunks, row = [], 0
    for chunk in data.chunks:
        try:
            chunks.append(convert(chunk, field.type, loose=loose))
        except MisfitError as misfit:
            _refuse(field.name, name, misfit, row)
        row += len(chunk)
    return pa.chunked_array(chunks, type=field.type)


def _refuse(column: str, name: str, misfit: MisfitError, row: int) -> NoReturn:
    try:
        has = duckdb_name(misfit.kind) or str(misfit.kind)
    except InvalidInputError:
        has = str(misfit.kind)
    text = repr(misfit.value)
    where = "" if misfit.row is None else f" in row {row + misfit.row}"
    raise InvalidInputError(
        f"column {column + misfit.path!r} is {name}, and the value {text[:100]}{where} of the data ({has}) "
        "doesn't fit it: cast or correct the data"
    )
