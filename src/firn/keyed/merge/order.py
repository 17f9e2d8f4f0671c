"""The order in which sorted runs, one behind the other, make one: a stable sort of keys that knows they are runs.

Numpy's stable sort finds the runs and merges them, far faster on numbers and fixed-length text than Arrow sorts
binary keys. Numbers made of eight bytes of each key tell most keys apart; where two are equal, the keys themselves
are compared, and if these turn out to stand wrong, a slower and more exact sort is next. The last is Arrow's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Order = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WIDEST = 64  # bytes of a key, behind the common prefix, that are laid out side by side


def key_order(keys: pa.Array) -> tuple[Order, Flags]:
    """A stable ascending order of keys, and for each place in it whether another key than before stands there.

    >>> order, first = key_order(pa.array([b"a", b"c", b"a", b"b"]))
    >>> order.tolist(), first.tolist()
    ([0, 2, 3, 1], [True, False, True, True])
    """
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(
        np.int64
    )
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    skipped = _common_prefix(keys)
    starts, lengths = offsets[:-1] + skipped, offsets[1:] - offsets[:-1] - skipped
    words = _rows(data, starts, lengths, 8).view(">u8").reshape(-1).astype(np.uint64)
    found = _checked(keys, words)
    if found is None:
        width = int(lengths.max())
        if width <= _WIDEST:
            found = _checked(keys, _rows(data, starts, lengths, width).view(f"S{width}").reshape(-1))
    if found is not None:
        return found
    order = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
    return order, first_of_each(keys.take(pa.array(order)))


def first_of_each(keys: pa.Array) -> Flags:
    """Whether each of some ascending keys is another than the one before.

    >>> first_of_each(pa.array([b"a", b"a", b"b"])).tolist()
    [True, False, True]
    """
    first = np.ones(len(keys), np.bool_)
    if len(keys) > 1:
        first[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    return first


def _checked(keys: pa.Array, marks: Any) -> tuple[Order, Flags] | None:
    """The order by marks that ascend with the keys but may be equal for different ones; None if that is wrong."""
    order: Order = np.argsort(marks, kind="stable")
    ordered = marks[order]
    first = np.ones(len(order), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    ties = np.flatnonzero(~first)
    if len(ties):
        one, next_one = keys.take(pa.array(order[ties - 1])), keys.take(pa.array(order[ties]))
        if pc.any(pc.less(next_one, one)).as_py():
            return None
        first[ties] = pc.not_equal(one, next_one).to_numpy(zero_copy_only=False)
    return order, first


def _common_prefix(keys: pa.Array) -> int:
    bounds = pc.min_max(keys)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    for at, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return at
    return min(len(low), len(high))


def _rows(data: npt.NDArray[np.uint8], starts: Order, lengths: Order, width: int) -> npt.NDArray[np.uint8]:
    """`width` bytes of each key, zero where it ends before."""
    if int(starts[-1]) + width > len(data):
        data = np.concatenate([data, np.zeros(width, np.uint8)])
    rows = np.lib.stride_tricks.sliding_window_view(data, width)[starts]
    if int(lengths.min()) < width:
        rows[np.arange(width) >= lengths[:, None]] = 0
    return np.ascontiguousarray(rows)
