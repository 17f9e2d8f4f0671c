"""What `append` takes: rows in any of the shapes that programs have them in, as Arrow batches.

Arrow, polars and the like bring their types along. Python values and pandas columns bring hardly any (an int
is an int), so they take on the types of the table's columns where every value fits; see `firn.arrow.pyvalues`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.pyvalues import build, shown, toward
from firn.arrow.types import arrow_type, columns_of, duckdb_name
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Type, canonical, parse


@dataclass(frozen=True)
class InputRows:
    """Rows to append: `batches()` iterates over them, again and again if `repeatable`, else once.

    `rows` and `nbytes` (bytes in memory) are None for a stream. Columns of null type have no type yet. `types` are
    the DuckDB types of the columns where Arrow says less: a UUID is text in it.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    repeatable: bool
    rows: int | None
    nbytes: int | None
    types: ColumnTypes = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, str]:
        """`columns_of` the schema, with `types` where Arrow has the same type for both."""
        return {
            name: self.types[name]
            if name in self.types and duckdb_name(arrow_type(self.types[name])) == kind
            else kind
            for name, kind in columns_of(self.schema).items()
        }


def to_reader(data: Any, *, known: ColumnTypes) -> InputRows:
    """The rows of `data`.

    Takes a pyarrow Table, RecordBatch or RecordBatchReader, anything with `__arrow_c_stream__`, a pandas
    DataFrame, a polars DataFrame or LazyFrame, a list of dicts, or a dict of lists. The named levels of a pandas
    index are columns; an index of integers without a name is row numbers, and isn't stored. Arrow and polars
    keep their types. In the others, ints are BIGINT, ints with floats DOUBLE, naive datetimes TIMESTAMP, aware
    ones TIMESTAMP WITH TIME ZONE, dicts STRUCT; but where `known`, the table's columns, has another type that
    holds every value, the column takes that. Text stays text. The columns of a list of dicts are those of all
    its dicts, in order of first appearance.

    Raises `InvalidInputError` for anything else, for a column of mixed types (naming the rows), and for names
    or types that no table can have. Costs no requests.

    >>> to_reader([{"n": 1}, {"n": 2.5, "day": None}], known={}).schema.types
    [DataType(double), DataType(null)]
    """
    rows = _rows(data, known)
    columns_of(rows.schema)
    return rows


def declared_columns(schema: pa.Schema | Mapping[str, str] | None) -> dict[str, str]:
    """A schema that a user declares, as name → DuckDB type name; None declares nothing.

    `InvalidInputError` that names the column for a name or type that no table can have.

    >>> declared_columns({"day": "date", "n": "INT8"})
    {'day': 'DATE', 'n': 'BIGINT'}
    """
    if schema is None:
        return {}
    if isinstance(schema, pa.Schema):
        columns = columns_of(schema)
        for field in schema:
            if field.name not in columns:
                raise InvalidInputError(f"column {field.name!r} has type {field.type}: declare a type for it")
        return columns
    if not isinstance(schema, Mapping) or not all(
        isinstance(part, str) for item in schema.items() for part in item
    ):
        raise InvalidInputError(
            f"{shown(schema)} isn't a schema: give a pyarrow.Schema, or a dict of names to DuckDB types"
        )
    columns = {}
    for name, text in schema.items():
        try:
            columns[name] = canonical(text)
            storable = duckdb_name(arrow_type(text))
        except UnsupportedError:
            raise InvalidInputError(
                f"column {name!r}: {text} isn't a type that a table can have; write it as DuckDB does, like VARCHAR, "
                "BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, DECIMAL(18,2), BIGINT[] or STRUCT(a VARCHAR)"
            ) from None
        except InvalidInputError as error:
            raise InvalidInputError(f"column {name!r}: {error}") from None
        if storable is None:
            raise InvalidInputError(f"column {name!r} has type {text}: declare a type for it")
    columns_of(pa.schema([(name, pa.int8()) for name in columns]))
    return columns


def _rows(data: Any, known: ColumnTypes) -> InputRows:
    if isinstance(data, InputRows):
        return data
    if hasattr(data, "_input_rows"):  # a query's result knows more of its types than Arrow
        return cast("InputRows", data._input_rows())
    if isinstance(data, pa.Table):
        return _table(data)
    if isinstance(data, pa.RecordBatch):
        return _table(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _stream(data)
    module = type(data).__module__.partition(".")[0]
    pandas_class = _pandas_class(data)
    if pandas_class == "DataFrame":
        return _table(_from_pandas(data, known))
    if pandas_class == "Series":
        raise InvalidInputError(
            "a pandas Series is one column, not rows: append series.reset_index(), or series.to_frame()"
        )
    if module == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if module == "polars" and type(data).__name__ == "DataFrame":
        for name in data.columns:
            _refuse_objects(name, data.get_column(name))
        return _table(_converted("polars DataFrame", data.to_arrow))
    if isinstance(data, Mapping):
        return _table(_from_columns(data, known))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes | bytearray | memoryview):
        return _table(_from_dicts(data, known))
    if hasattr(data, "__arrow_c_stream__"):
        return _stream(_converted(type(data).__name__, lambda: pa.RecordBatchReader.from_stream(data)))
    raise InvalidInputError(
        f"{shown(data)} can't be taken for rows: give a list of dicts, a dict of lists, a pandas, polars or "
        "Spark DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or what has __arrow_c_stream__"
    )


def _table(table: pa.Table) -> InputRows:
    return InputRows(table.schema, lambda: iter(table.to_batches()), True, table.num_rows, table.nbytes)


def _stream(reader: pa.RecordBatchReader) -> InputRows:
    unread = [reader]

    def batches() -> Iterator[pa.RecordBatch]:
        if not unread:
            raise InvalidInputError(
                "this stream of rows has been read already, and can be read once only: give append a new one"
            )
        return iter(unread.pop())

    return InputRows(reader.schema, batches, False, None, None)


def _converted(what: str, convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except Exception as error:  # each library has its own, for types that Arrow lacks
        raise InvalidInputError(f"{what} can't be turned into Arrow: {error}") from None


def _from_dicts(rows: Sequence[Any], known: ColumnTypes) -> pa.Table:
    names: dict[str, None] = {}
    seen: Any = None
    for number, row in enumerate(rows):
        if type(row) is dict and row.keys() == seen:  # as the one before, which is quick to tell
            continue
        if not isinstance(row, Mapping):
            raise InvalidInputError(f"row {number} is {shown(row)}: a list of rows has a dict for each")
        for name in row:
            if not isinstance(name, str):
                raise InvalidInputError(f"row {number} has the key {name!r}: column names are strings")
        names.update(dict.fromkeys(row))
        seen = row.keys()
    if rows and not names:
        raise InvalidInputError("the rows are empty dicts: give them at least one column")
    numbers = range(len(rows))
    columns = {
        name: build([row.get(name) for row in rows], numbers, f"column {name!r}", _kind(name, known))
        for name in names
    }
    return pa.table(columns)


def _from_columns(data: Mapping[Any, Any], known: ColumnTypes) -> pa.Table:
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"the data has the column {name!r}: column names are strings")
        columns[name] = _column(name, values, known)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(
            "the columns differ in length: " + ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        )
    return pa.table(columns)


def _column(name: str, values: Any, known: ColumnTypes) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    module = type(values).__module__.partition(".")[0]
    if module == "pandas" and hasattr(values, "dtype"):
        return _from_series(name, values, known)
    if module == "polars" and hasattr(values, "to_arrow"):
        _refuse_objects(name, values)
        return _converted(f"column {name!r}", values.to_arrow)
    if module == "numpy" and hasattr(values, "ndim") and values.ndim > 0:
        if values.dtype != object and values.ndim == 1:
            return _numeric(_converted(f"column {name!r}", lambda: pa.array(values)), name, known)
        values = values.tolist()
    if not isinstance(values, list | tuple | range):
        raise InvalidInputError(
            f"column {name!r} is {shown(values)}: a dict of columns has a list for each; "
            "to append one row, put its dict in a list: [row]"
        )
    return build(list(values), range(len(values)), f"column {name!r}", _kind(name, known))


def _refuse_objects(name: str, series: Any) -> None:
    if str(series.dtype) == "Object":  # polars hands out their addresses
        raise InvalidInputError(f"column {name!r} has polars type Object: cast it to a type of its own")


def _pandas_class(data: Any) -> str | None:
    """The class of pandas that this is one of, or of a subclass (a GeoDataFrame is a DataFrame)."""
    for base in type(data).__mro__:
        if base.__module__.partition(".")[0] == "pandas" and base.__name__ in ("DataFrame", "Series"):
            return base.__name__
    return None


def _from_pandas(frame: Any, known: ColumnTypes) -> pa.Table:
    named = [(name, frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    for name, _ in named:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"the DataFrame has the column {name!r}: column names are strings, so rename it"
            )
    named = [*_index_columns(frame), *named]
    arrays = [_from_series(name, series, known) for name, series in named]
    return pa.table(arrays, names=[name for name, _ in named])


def _index_columns(frame: Any) -> list[tuple[str, Any]]:
    """The levels of a DataFrame's index that hold data, as columns.

    Integers without a name are row numbers: those of a filter, a sort or a concat are no range any more.
    """
    index, found = frame.index, []
    if index.nlevels == 1 and index.name is None and index.dtype.kind in "iu":
        return []
    for level, name in enumerate(index.names):
        values = index.get_level_values(level)
        if name is None and len(index):
            raise InvalidInputError(
                f"the DataFrame's index ({values.dtype}) has no name, so it can't be a column: name it with "
                "df.rename_axis('name'), or leave it out with df.reset_index(drop=True)"
            )
        if name is None:
            continue
        if not isinstance(name, str):
            raise InvalidInputError(f"the DataFrame's index is named {name!r}: give it a string for a name")
        series = values.to_series(index=frame.index)
        if name not in frame.columns:
            found.append((name, series))
        elif not series.equals(frame[name]):
            raise InvalidInputError(
                f"{name!r} is both a column and the index of the DataFrame, with other values: rename one, or "
                "leave the index out with df.reset_index(drop=True)"
            )
    return found


def _from_series(name: str, series: Any, known: ColumnTypes) -> pa.Array | pa.ChunkedArray:
    if series.dtype == object:
        missing = series.isna().tolist()
        values = [None if null else value for value, null in zip(series, missing, strict=True)]
        return build(values, range(len(values)), f"column {name!r}", _kind(name, known))
    array = _converted(f"column {name!r}", partial(pa.Array.from_pandas, series))
    if isinstance(array.type, pa.BaseExtensionType) and array.type.extension_name.startswith("pandas."):
        raise InvalidInputError(f"column {name!r} has pandas type {series.dtype}: convert it with astype")
    if pt.is_timestamp(array.type) and array.type.unit == "ns":
        try:
            return array.cast(pa.timestamp("us", array.type.tz))
        except pa.ArrowInvalid:
            return array
    return array if "pyarrow" in str(series.dtype) else _numeric(array, name, known)


def _numeric(array: pa.Array | pa.ChunkedArray, name: str, known: ColumnTypes) -> pa.Array | pa.ChunkedArray:
    """Numbers of numpy and pandas as the table has them: their widths say little about what is meant."""
    if not (pt.is_integer(array.type) or pt.is_floating(array.type)) or name not in known:
        return array
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    whole = pa.concat_arrays(chunks) if chunks else pa.array([], array.type)
    return toward(whole, parse(known[name]))


def _kind(name: str, known: ColumnTypes) -> Type | None:
    return parse(known[name]) if name in known else None
