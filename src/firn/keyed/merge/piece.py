"""One piece of several runs, all versions of its keys, merged column by column.

Only keys with operands whose operator isn't a sum, an extreme or the like are looked at row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.merge.columns import Reducer, merge_operands
from firn.keyed.merge.order import Flags, Order, first_of_each, key_order
from firn.keyed.merge.run_buffers import Piece


@dataclass(frozen=True)
class PieceMerge:
    """How to merge: `merge` makes of the versions of a key with operands what stays of it."""

    values: Values
    merge: Callable[[list[Entry]], list[Entry]]
    now_ms: int
    drop_gone: bool
    reading: bool
    reducers: tuple[Reducer, ...] | None
    upto_seq: int | None


def merge_piece(piece: Piece, how: PieceMerge, *, reverse: bool = False) -> pa.RecordBatch:
    """The rows that stay, in key order, or backwards with `reverse`."""
    batches = [batch for run in piece for batch in run]
    if how.upto_seq is not None:
        batches = [upto for batch in batches if len(upto := _upto(batch, how.upto_seq))]
    if not batches:
        return how.values.empty
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    order: Order | None = None
    if sum(map(bool, piece)) > 1:
        order, newest = key_order(rows.column(0))
    else:
        newest = first_of_each(rows.column(0))
    kinds = _kinds(rows)
    expired = _expired(rows.column(3), how.now_ms)
    if not kinds.any() and expired is None:
        return _take(rows, order, newest, reverse)
    if order is not None:
        kinds = kinds[order]
        expired = None if expired is None else expired[order]
    operands = newest & (kinds == MERGE)
    gone = kinds == DELETE if expired is None else (kinds == DELETE) | ((kinds == PUT) & expired)
    mixed = bool(operands.any())
    kept = newest & ~operands
    if how.drop_gone:
        kept &= ~gone
    plain = _take(rows, order, kept, reverse and not mixed)
    if not how.drop_gone:
        plain = _bury(plain, how.now_ms)
    if not mixed:
        return plain
    # The rows of keys without operands, and in between what `merge` makes of the others.
    number = np.cumsum(newest)  # of each row's key in the piece
    theirs = operands[np.flatnonzero(newest)][number - 1]
    merged, places = _merged(_take(rows, order, theirs), number[theirs], how)
    if not len(merged):
        return _take(plain, None, np.ones(len(plain), np.bool_), reverse)
    both = pa.concat_batches([plain, merged])
    place = np.argsort(np.concatenate([number[kept], places]), kind="stable")
    return both.take(pa.array(place[::-1] if reverse else place))


def _merged(rows: pa.RecordBatch, numbers: Order, how: PieceMerge) -> tuple[pa.RecordBatch, Order]:
    """The rows that stay of keys with operands, and their numbers: by columns where that can be, else key by key."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    expire_at = rows.column(3)
    if how.reducers is not None and (how.reading or expire_at.null_count == len(expire_at)):
        expired = _expired(expire_at, how.now_ms)
        merged = merge_operands(
            rows, starts, expired, how.reducers, reading=how.reading, bottom=how.drop_gone
        )
        if merged is not None:
            return merged[0], numbers[starts][merged[1]]
    versions = how.values.entries(rows)
    found: list[Entry] = []
    places: list[int] = []
    for low, high in pairwise([*starts.tolist(), len(versions)]):
        entries = how.merge(versions[low:high])
        found += entries
        places += [int(numbers[low])] * len(entries)
    return how.values.batch(found).cast(rows.schema), np.array(places, np.int64)


def _take(rows: pa.RecordBatch, order: Order | None, kept: Flags, reverse: bool = False) -> pa.RecordBatch:
    """The rows that are kept of those in `order`."""
    if order is None and not reverse:
        return rows if kept.all() else rows.filter(pa.array(kept))
    indices = np.flatnonzero(kept) if order is None else order[kept]
    return rows.take(pa.array(indices[::-1] if reverse else indices))


def _bury(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Expired puts as deletes: they hide what is older, and their values aren't needed any more."""
    expired = _expired(rows.column(3), now_ms)
    if expired is None:
        return rows
    dead = pa.array(expired & (_kinds(rows) == PUT))
    columns = [
        rows.column(0),
        rows.column(1),
        pc.if_else(dead, pa.scalar(DELETE, pa.int8()), rows.column(2)),
        *(pc.if_else(dead, pa.scalar(None, column.type), column) for column in rows.columns[3:]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _upto(rows: pa.RecordBatch, seq: int) -> pa.RecordBatch:
    """The rows that aren't newer; nearly always all."""
    seqs = rows.column(1).to_numpy(zero_copy_only=False)
    return rows if int(seqs.max()) <= seq else rows.filter(pa.array(seqs <= seq))


def _kinds(rows: pa.RecordBatch) -> Any:
    return rows.column(2).to_numpy(zero_copy_only=False)


def _expired(expire_at: pa.Array, now_ms: int) -> Flags | None:
    """Which rows have expired; None where none has."""
    if expire_at.null_count == len(expire_at):
        return None
    flags = pc.fill_null(pc.less_equal(expire_at, now_ms), False).to_numpy(zero_copy_only=False)
    return flags if flags.any() else None
