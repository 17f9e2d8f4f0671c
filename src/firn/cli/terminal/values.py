"""Values of Arrow columns as Python's, and as text where Python has none: nanoseconds, intervals, far years."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def values_of(column: pa.Array) -> list[Any]:
    """A column's values. Those that Python has none for are texts, as DuckDB writes them.

    >>> import pyarrow as pa
    >>> values_of(pa.array([0, 1 << 30], pa.date32()))
    [datetime.date(1970, 1, 1), '2941775-04-07']
    """
    column = _with_texts(column, _is_unknown)
    try:
        found: list[Any] = column.to_pylist()
        return found
    except (OverflowError, ValueError):
        texts = _with_texts(column, _is_time).to_pylist()
        return [_value(value, text) for value, text in zip(column, texts, strict=True)]


def _value(value: Any, text: Any) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return text


def _with_texts(column: pa.Array, chosen: Callable[[pa.DataType], bool]) -> pa.Array:
    kind = _texts(column.type, chosen)
    if kind.equals(column.type):
        return column
    from firn.arrow.casting import convert  # which few columns need

    return convert(column, kind, loose=True)


def _texts(kind: pa.DataType, chosen: Callable[[pa.DataType], bool]) -> pa.DataType:
    """The type, with text in the place of the chosen ones, nested ones too."""
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_list(kind):
        return pa.list_(_texts(kind.value_type, chosen))
    if pt.is_fixed_size_list(kind):
        return pa.list_(_texts(kind.value_type, chosen), kind.list_size)
    if pt.is_map(kind):
        return pa.map_(_texts(kind.key_type, chosen), _texts(kind.item_type, chosen))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_texts(field.type, chosen)) for field in kind])
    return pa.string() if chosen(kind) else kind


def _is_unknown(kind: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_interval(kind)) or ((pt.is_timestamp(kind) or pt.is_time(kind)) and kind.unit == "ns")


def _is_time(kind: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_timestamp(kind) or pt.is_date(kind))
