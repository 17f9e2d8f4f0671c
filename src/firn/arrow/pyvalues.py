"""Python values as Arrow arrays, with nothing lost on the way.

Arrow's own inference takes its type from the first values: dates cut the times off datetimes behind them,
naive and aware datetimes and text and bytes become one. Here all values of a column are of one sort, or it is
an error that names the rows. Nested values are built item by item and field by field.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.casting import MisfitError, convert
from firn.arrow.types import arrow_type
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.typenames import List, Map, Struct, Type

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")


def build(values: Sequence[Any], rows: Sequence[int], path: str, known: Type | None) -> pa.Array:
    """An Arrow array of Python values, of type `known` if that holds all of them, else of their own.

    `rows` are the numbers of the rows that the values come from and `path` what they are ("column 'a'"), both
    for messages. Raises `InvalidInputError` for values of several sorts, of a sort that no column can
    have, or too large for any.

    >>> from firn.journal.typenames import parse
    >>> build([1, None], range(2), "column 'a'", parse("DECIMAL(5,2)")).type
    Decimal128Type(decimal128(5, 2))
    """
    sorts = {kind: _sort(kind) for kind in set(map(type, values))}
    if any(sort in ("missing", "scalar", "array") for sort in sorts.values()):
        values = [_plain(value, sorts[type(value)]) for value in values]
        sorts = {kind: _sort(kind) for kind in set(map(type, values))}
    sort = _common(values, rows, path, sorts)
    if sort == "none":
        return pa.nulls(len(values))
    if sort == "list":
        return _lists(values, rows, path, known)
    if sort == "dict" and isinstance(known, Map):
        return _maps(values, rows, path, known)
    if sort == "dict":
        return _structs(values, rows, path, known)
    return _leaf(values, rows, path, sort, known)


def toward(array: pa.Array, known: Type | None) -> pa.Array:
    """`array` as the Arrow type of `known` if every value fits, else as it is.

    Floats are rounded to a FLOAT, as a Python float can't be told to be one, and naive times are UTC where
    the column has a zone; otherwise a value fits if it stays what it is.
    """
    try:
        target = None if known is None else arrow_type(str(known))
    except UnsupportedError:
        return array
    if target is None:
        return array
    if pt.is_float64(array.type) and pt.is_float32(target):
        rounded = array.cast(target)
        overflown = pc.and_(pc.is_inf(rounded), pc.invert(pc.is_inf(array)))
        return array if pc.any(overflown).as_py() else rounded
    if pt.is_timestamp(array.type) and pt.is_timestamp(target) and array.type.tz is None and target.tz:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    try:
        return convert(array, target)
    except MisfitError:
        return array


def python_rows(rows: pa.Table | pa.RecordBatch, *, maps: bool = False) -> list[dict[str, Any]]:
    """Rows as dicts; with `maps`, maps as dicts, too.

    Raises `InvalidInputError` for dates and times that Python hasn't: of years before 1 or after 9999, and infinity.
    """
    options: Any = {"maps_as_pydicts": "strict"} if maps else {}
    try:
        found: list[dict[str, Any]] = rows.to_pylist(**options)
        return found
    except (OverflowError, ValueError):
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            try:
                column.to_pylist(**options)
            except (OverflowError, ValueError):
                raise InvalidInputError(
                    f"the column {name!r} has a value that Python has none for, like a date after the year 9999: "
                    "cast it to VARCHAR in the query, or take the rows as Arrow."
                ) from None
        raise


def shown(value: object) -> str:
    """A value for a message: its type, and its beginning.

    >>> shown("abc")
    "a str ('abc')"
    """
    name = type(value).__name__
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        text = "too long to be shown"
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name} ({text if len(text) <= 60 else text[:60] + '…'})"


@lru_cache(maxsize=1024)
def _sort(kind: type) -> str:
    if kind is type(None):
        return "none"
    module = kind.__module__.partition(".")[0]
    if module == "pandas" and kind.__name__ in ("NAType", "NaTType"):
        return "missing"
    if module == "numpy" and kind.__name__ == "ndarray":
        return "array"
    for sort, types in _SORTS:
        if issubclass(kind, types):
            return sort
    if module == "numpy" and kind.__name__.startswith(("bool", "int", "uint", "float")):
        return "scalar"
    return f"? {kind.__name__}"


_SORTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("bool", (bool,)),
    ("int", (int,)),
    ("float", (float,)),
    ("decimal", (decimal.Decimal,)),
    ("str", (str,)),
    ("bytes", (bytes, bytearray, memoryview)),
    ("datetime", (dt.datetime,)),
    ("date", (dt.date,)),
    ("time", (dt.time,)),
    ("uuid", (uuid.UUID,)),
    ("dict", (Mapping,)),
    ("list", (list, tuple)),
)


def _plain(value: Any, sort: str) -> Any:
    if sort == "missing":
        return None
    return {"scalar": lambda: value.item(), "array": lambda: value.tolist()}.get(sort, lambda: value)()


def _common(values: Sequence[Any], rows: Sequence[int], path: str, sorts: Mapping[type, str]) -> str:
    present = set(sorts.values()) - {"none"}
    for kind, sort in sorts.items():
        if sort.startswith("?"):
            at = next(at for at, value in enumerate(values) if type(value) is kind)
            raise InvalidInputError(
                f"{path} holds {shown(values[at])} in row {rows[at]}, which no column can: convert it to a "
                "number, bool, str, bytes, date, time, datetime, list or dict"
            )
    if len(present) <= 1:
        return next(iter(present), "none")
    if present == {"int", "float"}:
        return "float"
    if present == {"int", "decimal"}:
        return "decimal"
    first = next(at for at, value in enumerate(values) if value is not None)
    other = next(
        at
        for at, value in enumerate(values)
        if value is not None and sorts[type(value)] != sorts[type(values[first])]
    )
    raise InvalidInputError(
        f"{path} is mixed: {shown(values[first])} in row {rows[first]} and {shown(values[other])} in row "
        f"{rows[other]}; convert them to one type"
    )


def _leaf(values: Sequence[Any], rows: Sequence[int], path: str, sort: str, known: Type | None) -> pa.Array:
    kind: pa.DataType | None = _ARROW.get(sort)
    if sort == "datetime":
        kind = _datetimes(values, rows, path)
    elif sort == "time":
        _refuse_first(values, rows, path, lambda value: value.tzinfo is not None, "a time of day has no zone")
    elif sort == "uuid":
        values = [None if value is None else str(value) for value in values]
    try:
        return toward(pa.array(values, kind), known)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        if sort == "int" and (whole := _large_integers(values, known)) is not None:
            return whole
    why = _LIMITS.get(sort, "it is out of range")
    _refuse_first(values, rows, path, lambda value: not _fits(value, kind), why)
    raise InvalidInputError(f"{path} has values that no one type holds all of: {why}")


_ARROW = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "uuid": pa.string(),
}

_LIMITS = {
    "int": "it is too large for a BIGINT; give it as a decimal.Decimal, or declare a wider column",
    "float": "integers above 2**53 can't stand exactly in a column with floats",
    "decimal": "a DECIMAL has at most 38 digits and no NaN",
    "str": "it isn't valid Unicode",
}


def _datetimes(values: Sequence[Any], rows: Sequence[int], path: str) -> pa.DataType:
    _refuse_first(
        values,
        rows,
        path,
        lambda value: getattr(value, "nanosecond", 0) != 0,
        "it has nanoseconds; give the column as Arrow or a pandas datetime64[ns]",
    )
    zoned = next(value.tzinfo is not None for value in values if value is not None)
    _refuse_first(
        values,
        rows,
        path,
        lambda value: (value.tzinfo is not None) != zoned,
        "some of its times have a zone and others have none",
    )
    return pa.timestamp("us", "UTC" if zoned else None)


def _refuse_first(values: Sequence[Any], rows: Sequence[int], path: str, wrong: Any, why: str) -> None:
    for at, value in enumerate(values):
        if value is not None and wrong(value):
            raise InvalidInputError(f"{path} can't hold {shown(value)} of row {rows[at]}: {why}")


def _fits(value: Any, kind: pa.DataType | None) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return False
    return True


def _large_integers(values: Sequence[Any], known: Type | None) -> pa.Array | None:
    """Integers beyond BIGINT, if the table's column takes them."""
    try:
        exact = [None if value is None else decimal.Decimal(value) for value in values]
        whole = pa.array(exact, pa.decimal128(38, 0))
    except (pa.ArrowException, ValueError):
        return None
    there = toward(whole, known)
    return there if known is not None and there.type.equals(arrow_type(str(known))) else None


def _lists(values: Sequence[Any], rows: Sequence[int], path: str, known: Type | None) -> pa.Array:
    inner = known.item if isinstance(known, List) else None
    items = build(*_flat(values, values, rows), path + "[]", inner)
    lists = pa.ListArray.from_arrays(_offsets(values), items, mask=_nulls(values))
    return toward(lists, known) if isinstance(known, List) and known.size is not None else lists


def _maps(values: Sequence[Any], rows: Sequence[int], path: str, known: Map) -> pa.Array:
    """Dicts for a column that is a MAP already; without one, they are structs."""
    keys = [None if value is None else list(value) for value in values]
    items = [None if value is None else list(value.values()) for value in values]
    _refuse_first(keys, rows, path, lambda value: None in value, "a key is None")
    return pa.MapArray.from_arrays(
        _offsets(values),
        build(*_flat(keys, values, rows), path + "[key]", known.key),
        build(*_flat(items, values, rows), path + "[]", known.value),
        mask=_nulls(values),
    )


def _flat(parts: Sequence[Any], values: Sequence[Any], rows: Sequence[int]) -> tuple[list[Any], list[int]]:
    """The items of all lists, and the row that each is from."""
    return (
        [item for part in parts if part is not None for item in part],
        [row for row, value in zip(rows, values, strict=True) if value is not None for _ in value],
    )


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _structs(values: Sequence[Any], rows: Sequence[int], path: str, known: Type | None) -> pa.Array:
    names: dict[str, None] = {}
    for at, value in enumerate(values):
        for name in value or ():
            if not isinstance(name, str):
                raise InvalidInputError(f"{path} has the key {name!r} in row {rows[at]}: keys are strings")
            names[name] = None
    inner = dict(known.fields) if isinstance(known, Struct) else {}
    if not names and known is not None and not inner:
        _refuse_first(values, rows, path, lambda value: True, f"the column is {known}")
    names = names or dict.fromkeys(inner)
    if not names:
        return pa.nulls(len(values))
    children = {
        name: build(
            [None if value is None else value.get(name) for value in values],
            rows,
            f"{path}.{name}",
            inner.get(name),
        )
        for name in names
    }
    return pa.StructArray.from_arrays(
        list(children.values()),
        fields=[pa.field(name, child.type) for name, child in children.items()],
        mask=_nulls(values),
    )
