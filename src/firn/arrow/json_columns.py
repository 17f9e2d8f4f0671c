"""Columns as JSON has them in logs, exactly: values of Arrow to JSON and back, by DuckDB's types.

The forms are in docs/format/leaderless-log.md, "Rows in the log".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal as Exact
from functools import lru_cache
from typing import Any

import pyarrow as pa

from firn.arrow.types import arrow_type
from firn.errors import CorruptObjectError
from firn.journal.inlined import InlinedRows
from firn.journal.typenames import Decimal, List, Map, Scalar, Struct, Type, leaves, parse

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_PLAIN = frozenset((*_INTEGERS, "BOOLEAN", "VARCHAR", "JSON", "UUID"))
_TIMES = (
    *("TIME", "TIME_NS", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
)
_COUNTED: Mapping[str, pa.DataType] = {"DATE": pa.int32(), **dict.fromkeys(_TIMES, pa.int64())}
"""Types whose values are counts of a unit, and the integers that hold them."""
_FLOATS = frozenset(("FLOAT", "DOUBLE"))
_WHOLE = frozenset(("HUGEINT", "UHUGEINT"))
_SCALARS = frozenset((*_PLAIN, *_COUNTED, *_FLOATS, *_WHOLE, "BLOB"))
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Convert = Callable[[Any], Any]
"""Turns one value, never None, into another; None stands for no change."""


@lru_cache(maxsize=1024)
def has_json(kind: str) -> bool:
    """Whether values of a DuckDB type have a form in JSON.

    >>> has_json("STRUCT(a DECIMAL(9,2), b MAP(VARCHAR, TIMESTAMP))"), has_json("INTERVAL[]")
    (True, False)
    """
    return all(not isinstance(leaf, Scalar) or leaf.name in _SCALARS for leaf in leaves(parse(kind)))


def to_json(column: pa.ChunkedArray, kind: str) -> list[Any]:
    """The values of a column of a type that `has_json`.

    Raises:
        UnicodeDecodeError: a text that isn't UTF-8.

    >>> to_json(pa.chunked_array([[None, 1.5, float("nan")]]), "DOUBLE")
    [None, 1.5, 'NaN']
    """
    carried, encode = _encoder(kind)
    values: list[Any] = (column if column.type.equals(carried) else column.cast(carried)).to_pylist()
    if encode is None:
        return values
    return [None if value is None else encode(value) for value in values]


def from_json(values: Sequence[Any], kind: str) -> pa.Array:
    """The column of values that `to_json` gave. `ValueError`, `TypeError`, `OverflowError` or `pa.ArrowException` for
    others.

    >>> from_json([[["a", 1]], None], "MAP(VARCHAR, BIGINT)").to_pylist()
    [[('a', 1)], None]
    """
    decode = _decoder(kind)
    if decode is not None and not (kind in _FLOATS and all(type(value) is not str for value in values)):
        values = [None if value is None else decode(value) for value in values]
    return pa.array(values, arrow_type(kind))


def column_of(rows: InlinedRows, name: str, values: Sequence[Any]) -> pa.Array:
    """One column of rows in logs, of its values.

    Raises:
        CorruptObjectError: values that aren't of the column's type.
    """
    kind = rows.columns[name]
    try:
        return from_json(values, kind)
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException) as error:
        for part in rows.parts:  # which log it is
            column_of(part, name, part.values()[name])
        raise CorruptObjectError(
            f"{rows.where}: the column {name!r} ({kind}) of its rows holds something else ({error}): the object was "
            "changed. Copy it back from a backup or an older object version."
        ) from error


@lru_cache(maxsize=1024)
def _encoder(kind: str) -> tuple[pa.DataType, Convert | None]:
    """The Arrow type whose Python values are encoded, and how."""
    parsed = parse(kind)
    return _carrier(parsed), _encode(parsed)


def _carrier(kind: Type) -> pa.DataType:
    """The Arrow type of a DuckDB type, with counts as integers: Python has no values for all times."""
    if isinstance(kind, Scalar):
        return _COUNTED.get(kind.name) or arrow_type(str(kind))
    if isinstance(kind, List):
        return pa.list_(_carrier(kind.item), -1 if kind.size is None else kind.size)
    if isinstance(kind, Map):
        return pa.map_(_carrier(kind.key), _carrier(kind.value))
    if isinstance(kind, Struct):
        return pa.struct([pa.field(name, _carrier(inner)) for name, inner in kind.fields])
    return arrow_type(str(kind))


def _encode(kind: Type) -> Convert | None:
    if isinstance(kind, Decimal) or (isinstance(kind, Scalar) and kind.name in _WHOLE):
        return lambda value: format(value, "f")
    if isinstance(kind, Scalar) and kind.name in _FLOATS:
        return lambda value: value if math.isfinite(value) else _special(value)
    if isinstance(kind, Scalar) and kind.name == "BLOB":
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, List):
        item = _each(_encode(kind.item))
        return None if item is None else lambda values: [item(value) for value in values]
    if isinstance(kind, Map):
        key, value = _each(_encode(kind.key)) or _same, _each(_encode(kind.value)) or _same
        return lambda pairs: [[key(k), value(v)] for k, v in pairs]
    if isinstance(kind, Struct):
        fields = [(name, _each(_encode(inner)) or _same) for name, inner in kind.fields]
        return lambda values: [encode(values[name]) for name, encode in fields]
    return None


@lru_cache(maxsize=1024)
def _decoder(kind: str) -> Convert | None:
    return _decode(parse(kind))


def _decode(kind: Type) -> Convert | None:
    if isinstance(kind, Decimal) or (isinstance(kind, Scalar) and kind.name in _WHOLE):
        return _exact
    if isinstance(kind, Scalar) and kind.name in _FLOATS:
        return _float
    if isinstance(kind, Scalar) and kind.name == "BLOB":
        return lambda text: base64.b64decode(text, validate=True)
    if isinstance(kind, List):
        item = _each(_decode(kind.item)) or _same
        return lambda values: [item(value) for value in _array(values)]
    if isinstance(kind, Map):
        key, value = _each(_decode(kind.key)) or _same, _each(_decode(kind.value)) or _same
        return lambda pairs: [(key(k), value(v)) for k, v in map(_pair, _array(pairs))]
    if isinstance(kind, Struct):
        fields = [(name, _each(_decode(inner)) or _same) for name, inner in kind.fields]
        return lambda values: {
            name: decode(value) for (name, decode), value in zip(fields, _array(values), strict=True)
        }
    return None  # Arrow refuses what isn't of the type


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert | None) -> Convert | None:
    """The same for values inside of others, which may be None."""
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _float(value: Any) -> float:
    if isinstance(value, str):
        return _SPECIAL[value] if value in _SPECIAL else _refuse(value)
    return float(value) if type(value) in (int, float) else _refuse(value)


def _exact(text: Any) -> Exact:
    return Exact(text) if isinstance(text, str) else _refuse(text)


def _array(values: Any) -> list[Any]:
    return values if isinstance(values, list) else _refuse(values)


def _pair(pair: Any) -> tuple[Any, Any]:
    return (pair[0], pair[1]) if isinstance(pair, list) and len(pair) == 2 else _refuse(pair)


def _refuse(value: Any) -> Any:
    raise ValueError(f"not a value of the type: {value!r:.60}")
