"""Casting Arrow arrays so that every value stays what it is, nested ones too.

Arrow's own cast serves for leaves alone: it loses the items of list views, rounds and overflows between
floats, parses text, and doesn't find a struct's field that is spelled in another case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.connections import connection
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.names import fold

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")


@dataclass
class MisfitError(Exception):
    """A value that can't be cast; becomes an `InvalidInputError` where the column is known.

    `kind` is the type it has, `row` its row in the array (None inside of lists and structs), `path` leads to
    it from the column, like ``.a[]``.
    """

    kind: pa.DataType
    value: object
    row: int | None
    path: str = ""


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's five kinds of lists."""
    tests = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
    return any(test(kind) for test in tests)


def convert(array: pa.Array, to: pa.DataType, *, loose: bool = False) -> pa.Array:
    """`array` as type `to`, or `MisfitError` with the first value that can't be one.

    Numbers, text, bytes, dates and times stay among themselves. With `loose`, numbers may be rounded to a
    float, and everything has a text.

    >>> convert(pa.array([1, None]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('1.00'), None]
    """
    kind = array.type
    if kind.equals(to):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), to)
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid" and pt.is_string(to):
            return _as_text(array)
        if kind.extension_name == "arrow.bool8":
            return convert(array.cast(pa.bool_()), to, loose=loose)
        return convert(array.storage, to, loose=loose)
    if pt.is_dictionary(kind):
        return convert(array.dictionary_decode(), to, loose=loose)
    if pt.is_run_end_encoded(kind):
        return convert(pc.run_end_decode(array), to, loose=loose)
    if is_list(kind) and is_list(to):
        return _convert_list(array, to, loose)
    if pt.is_map(kind) and pt.is_map(to):
        return _convert_map(array, to, loose)
    if pt.is_struct(kind) and pt.is_struct(to):
        return _convert_struct(array, to, loose)
    if _family(kind) is not None and _family(kind) == _family(to):
        return _convert_leaf(array, to, loose)
    if loose and pt.is_string(to):
        return _as_text(array)
    row = pc.index(array.is_valid(), True).as_py()
    raise MisfitError(kind, _value(array, row), row)


def _within(path: str, array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    try:
        return convert(array, to, loose=loose)
    except MisfitError as misfit:
        raise MisfitError(misfit.kind, misfit.value, None, path + misfit.path) from None


def _lengths(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets into the flattened items, and which lists are null."""
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends]), array.is_null()


def _convert_list(array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    offsets, nulls = _lengths(array)
    if isinstance(array.type.value_type, pa.BaseExtensionType):
        items = pa.concat_arrays([item.values for item in array if item.is_valid])
    else:
        items = array.flatten()
    items = _within("[]", items, to.value_type, loose)
    plain = pa.ListArray.from_arrays(offsets, items, mask=nulls)
    if not pt.is_fixed_size_list(to):
        return plain
    wrong = pc.index(
        pc.fill_null(pc.not_equal(pc.list_value_length(plain), to.list_size), False), True
    ).as_py()
    if wrong >= 0:
        raise MisfitError(array.type, _value(array, wrong), wrong)
    return plain.cast(to)


def _convert_map(array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    kind = array.type
    entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    offsets, nulls = _lengths(as_list := array.cast(pa.list_(entries)))
    keys, values = as_list.flatten().flatten()
    keys = _within("[key]", keys, to.key_type, loose)
    values = _within("[]", values, to.item_type, loose)
    return pa.MapArray.from_arrays(offsets, keys, values, mask=nulls)


def _convert_struct(array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    wanted = {field.name for field in to}
    folded = {fold(name): part for name, part in parts.items() if name not in wanted}
    children = []
    for field in to:
        part = parts.get(field.name, folded.get(fold(field.name)))
        if part is None:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_within("." + field.name, part, field.type, loose))
    return pa.StructArray.from_arrays(children, fields=list(to), mask=array.is_null())


def _family(kind: pa.DataType) -> str | None:
    for family, tests in _FAMILIES.items():
        if any(test(kind) for test in tests):
            return family
    if pt.is_timestamp(kind):
        return "local time" if kind.tz is None else "instant"
    return None


_FAMILIES: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "number": (pt.is_integer, pt.is_floating, pt.is_decimal),
    "text": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "bytes": (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
    "date": (pt.is_date,),
    "time": (pt.is_time,),
}


def _convert_leaf(array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    try:
        return _cast(array, to, loose)
    except pa.ArrowInvalid:
        row = _first_misfit(array, to, loose)
        raise MisfitError(array.type, _value(array, row), row) from None


def _cast(array: pa.Array, to: pa.DataType, loose: bool) -> pa.Array:
    kind = array.type
    if pt.is_integer(kind) and pt.is_decimal(to):
        return array.cast(pa.decimal256(20 + to.scale, to.scale)).cast(to)  # Arrow asks for room for any int
    if pt.is_float16(kind):
        array = array.cast(pa.float32())
    if loose and pt.is_floating(to):
        return array.cast(to, safe=False)
    there = array.cast(to)
    if (pt.is_floating(kind) and (pt.is_float32(to) or pt.is_decimal(to))) or (
        pt.is_decimal(kind) and pt.is_floating(to)
    ):
        back = there.cast(array.type)
        same = pc.equal(back, array)
        if pt.is_floating(kind):
            same = pc.or_(same, pc.and_(pc.is_nan(array), pc.is_nan(back)))
        if pc.all(same).as_py() is False:
            raise pa.ArrowInvalid("the value is rounded")
    return there


def _value(array: pa.Array, row: int) -> object:
    try:
        return array[row].as_py()
    except ValueError:  # nanoseconds, which Python's own times don't have
        return str(array[row])


def _first_misfit(array: pa.Array, to: pa.DataType, loose: bool) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), to, loose)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _as_text(array: pa.Array) -> pa.Array:
    with connection() as duck:
        try:
            texts = (
                duck.from_arrow(pa.table({"x": array})).project("CAST(x AS VARCHAR) AS x").to_arrow_table()
            )
        except duckdb.Error as error:
            raise InvalidInputError(f"values of type {array.type} have no text: {error}") from None
    return texts.column("x").combine_chunks().cast(pa.string())
