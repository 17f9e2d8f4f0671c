"""The order in which sorted runs, one behind the other, make one: a stable sort of keys that knows they are runs.

Numpy's stable sort finds the runs and merges them, far faster on numbers and fixed-length text than Arrow sorts
binary keys. The first tries may not see a difference between two keys; each is checked, and the last is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Order = npt.NDArray[np.int64]
_WIDEST = 64  # bytes of a key, behind the common prefix, that are laid out in columns


def key_order(keys: pa.Array) -> tuple[_Order | None, pa.Array]:
    """A stable ascending order of keys without nulls, and the keys in it; None where they are in order already."""
    if is_ascending(keys):
        return None, keys
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(
        np.int64
    )
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    skipped = _common_prefix(keys)
    starts, lengths = offsets[:-1] + skipped, np.diff(offsets) - skipped
    order: _Order = np.argsort(_words(data, starts, lengths), kind="stable")
    ordered = keys.take(pa.array(order))
    if is_ascending(ordered):
        return order, ordered
    width = int(lengths.max())
    if width <= _WIDEST:
        order = np.argsort(_texts(data, starts, lengths, width), kind="stable")
        ordered = keys.take(pa.array(order))
        if is_ascending(ordered):
            return order, ordered
    order = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
    return order, keys.take(pa.array(order))


def is_ascending(keys: pa.Array) -> bool:
    """Whether no key is below the one before it.

    >>> is_ascending(pa.array([b"a", b"a", b"b"])), is_ascending(pa.array([b"b", b"a"]))
    (True, False)
    """
    return len(keys) < 2 or not pc.any(pc.less(keys[1:], keys[:-1])).as_py()


def _common_prefix(keys: pa.Array) -> int:
    bounds = pc.min_max(keys)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    for at, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return at
    return min(len(low), len(high))


def _rows(data: npt.NDArray[np.uint8], starts: _Order, lengths: _Order, width: int) -> npt.NDArray[np.uint8]:
    """`width` bytes of each key, zero where it ends before."""
    if len(data) and len(starts) and int(starts[-1]) + width <= len(data):
        padded = data
    else:
        padded = np.concatenate([data, np.zeros(width, np.uint8)])
    rows = np.lib.stride_tricks.sliding_window_view(padded, width)[starts]
    if int(lengths.min()) < width:
        rows[np.arange(width) >= lengths[:, None]] = 0
    return rows


def _words(data: npt.NDArray[np.uint8], starts: _Order, lengths: _Order) -> Any:
    return np.ascontiguousarray(_rows(data, starts, lengths, 8)).view(">u8").reshape(-1).astype(np.uint64)


def _texts(data: npt.NDArray[np.uint8], starts: _Order, lengths: _Order, width: int) -> Any:
    return np.ascontiguousarray(_rows(data, starts, lengths, width)).view(f"S{width}").reshape(-1)
