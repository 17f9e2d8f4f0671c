"""Merging whole columns of operands at once, for the operators that are sums, extremes or the newest value.

Same results as the operators' own, key by key; sums of floats may differ in their last digits, as they may anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from firn.keyed.encoding.entries import MERGE, PUT
from firn.keyed.encoding.values import Values
from firn.keyed.merge.builtin_operators import (
    AddFloats,
    AddIntegers,
    AddText,
    Cells,
    ColumnOperators,
    Extreme,
)

Starts = npt.NDArray[np.int64]

Reducer = Callable[[pa.Array, Starts], "pa.Array | None"]
"""Merges a column's groups of rows, each newest first and beginning at a start; None where it can't."""


def reducers_of(operator: object, values: Values) -> tuple[Reducer, ...] | None:
    """One for each value column; None where a column needs to be merged value by value."""
    found: list[Reducer | None]
    if isinstance(operator, ColumnOperators):
        found = [_reducer(operator.by_name[field.name], field.type) for field in values.schema]
    else:
        found = [_add_text if isinstance(operator, AddText) else None]
    whole = tuple(reducer for reducer in found if reducer is not None)
    return whole if len(whole) == len(found) else None


def merge_operands(
    rows: pa.RecordBatch,
    starts: Starts,
    expired: npt.NDArray[np.bool_] | None,
    reducers: Sequence[Reducer],
    *,
    reading: bool,
    bottom: bool,
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]] | None:
    """The rows that are left of keys whose newest version is an operand, and which of them each row is.

    Args:
        rows: all versions of these keys, in a run's order; without `reading`, none that ever expires.
        starts: where each key begins.
        reading, bottom: as `merge_runs` has them.

    Returns:
        None where the keys must be merged one by one.
    """
    count = len(rows)
    place = np.arange(count)
    kinds = rows.column(2).to_numpy(zero_copy_only=False)
    base = np.minimum.reduceat(np.where(kinds == MERGE, count, place), starts)
    key = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    used = (place < base[key]) | ((place == base[key]) & (kinds == PUT))
    if expired is not None:
        used &= ~expired
    if not used.all():
        rows, key = rows.filter(pa.array(used)), key[used]
    if not len(rows):
        return rows, key
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    columns = []
    for reducer, column in zip(reducers, rows.columns[4:], strict=True):
        merged = reducer(column, starts)
        if merged is None:
            return None
        columns.append(merged)
    key = key[starts]
    first = rows.take(pa.array(starts))
    settled = np.full(len(key), True) if reading or bottom else base[key] < count
    kind = pa.array(np.where(settled, PUT, MERGE).astype(np.int8))
    head = [first.column(0), first.column(1), kind, first.column(3)]
    return pa.RecordBatch.from_arrays([*head, *columns], schema=rows.schema), key


def _reducer(cell: Cells, kind: pa.DataType) -> Reducer | None:
    if isinstance(cell, AddIntegers):
        return _sum_integers
    if isinstance(cell, AddFloats):
        return _sum_floats
    if isinstance(cell, Extreme):
        ordered = pt.is_integer(kind) or pt.is_float32(kind) or pt.is_float64(kind)
        return partial(_extreme, greatest=cell.greatest) if ordered else None
    return _newest if type(cell) is Cells else None


def _sum_integers(column: pa.Array, starts: Starts) -> pa.Array:
    wide = np.uint64 if pt.is_unsigned_integer(column.type) else np.int64
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    sums = np.add.reduceat(numbers, starts, dtype=wide)
    return _with_nulls(sums.astype(numbers.dtype), column, starts)  # goes round, as the operator does


def _sum_floats(column: pa.Array, starts: Starts) -> pa.Array:
    numbers = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(numbers, starts, dtype=np.float64).astype(numbers.dtype)
    return _with_nulls(sums, column, starts)


def _extreme(column: pa.Array, starts: Starts, *, greatest: bool) -> pa.Array:
    if pt.is_floating(column.type):
        numbers = pc.fill_null(column, float("nan")).to_numpy(zero_copy_only=False)
        reduce: np.ufunc = np.fmax if greatest else np.fmin
    else:
        limits = np.iinfo(column.type.to_pandas_dtype())
        fill = int(limits.min if greatest else limits.max)
        numbers = pc.fill_null(column, fill).to_numpy(zero_copy_only=False)
        reduce = np.maximum if greatest else np.minimum
    return _with_nulls(reduce.reduceat(numbers, starts), column, starts)


def _newest(column: pa.Array, starts: Starts) -> pa.Array:
    if not column.null_count:
        return column.take(pa.array(starts))
    last = len(column)
    valid = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.arange(last), last)
    first = np.minimum.reduceat(valid, starts)
    return column.take(pa.array(first, mask=first == last))


def _add_text(column: pa.Array, starts: Starts) -> pa.Array | None:
    try:
        numbers = column.cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # larger than an int64, or written in a way that Arrow doesn't read
        return None
    largest = max(-int(numbers.min()), int(numbers.max()))
    if largest * int(np.diff(starts, append=len(numbers)).max()) >= 1 << 63:
        return None
    return pa.array(np.add.reduceat(numbers, starts)).cast(pa.string()).cast(pa.binary())


def _with_nulls(merged: npt.NDArray[Any], column: pa.Array, starts: Starts) -> pa.Array:
    """Null where all of a key's values are."""
    mask = None
    if column.null_count:
        mask = ~np.logical_or.reduceat(column.is_valid().to_numpy(zero_copy_only=False), starts)
    return pa.array(merged, column.type, mask=mask)
