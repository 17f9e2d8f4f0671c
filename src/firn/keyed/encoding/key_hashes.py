"""The hashes of many keys at once: `hash64` by columns, since a call a key would take longer than all
else that is done to a key in a merge."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.arrow.bloom import hash64

Words = npt.NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)  # XXH64's
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

_ZERO = np.uint64(0)
_LANES = tuple(np.uint64(start & (1 << 64) - 1) for start in (int(_P1) + int(_P2), int(_P2), 0, -int(_P1)))

_STEP = 1 << 12
"""Keys that are hashed together: what is computed on the way stays in the processor's cache."""

_FEWEST = 32
"""Fewer keys of one length are hashed one by one."""


def key_hashes(keys: pa.Array) -> Words:
    """`hash64` of each of some keys.

    >>> key_hashes(pa.array([b"DTW"])).tolist() == [hash64(b"DTW")]
    True
    """
    count = len(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + count + 1]
    lengths = np.diff(offsets)
    found = np.empty(count, np.uint64)
    if not count:
        return found
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == longest and count >= _FEWEST:
        if not longest:
            found[:] = hash64(b"")
            return found
        rows = data[offsets[0] : offsets[-1]].reshape(count, longest)
        for at in range(0, count, _STEP):
            found[at : at + _STEP] = _hashed(rows[at : at + _STEP])
        return found
    order = np.argsort(lengths, kind="stable")
    edges = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1)).tolist()
    for low, high in pairwise(edges):
        length = int(lengths[order[low]])
        for at in range(low, high, _STEP):
            group = order[at : min(at + _STEP, high)]
            if length and len(group) >= _FEWEST:
                windows = np.lib.stride_tricks.sliding_window_view(data, length)
                found[group] = _hashed(windows[offsets[:-1][group]])
            else:
                starts = offsets[group].tolist()
                found[group] = [hash64(data[start : start + length].tobytes()) for start in starts]
    return found


def _hashed(rows: npt.NDArray[np.uint8]) -> Any:
    """XXH64, seed 0, of rows of one length."""
    count, length = rows.shape
    words = np.ascontiguousarray(rows[:, : length & ~7]).view("<u8")
    at = 0
    if length >= 32:
        lanes = [np.full(count, start) for start in _LANES]
        for at in range(0, length // 32 * 4, 4):
            lanes = [_round(lane, words[:, at + i]) for i, lane in enumerate(lanes)]
        at += 4
        total = _left(lanes[0], 1) + _left(lanes[1], 7) + _left(lanes[2], 12) + _left(lanes[3], 18)
        for lane in lanes:
            total = (total ^ _round(_ZERO, lane)) * _P1 + _P4
    else:
        total = np.full(count, _P5)
    total += np.uint64(length)
    for word in range(at, length >> 3):
        total ^= _round(_ZERO, words[:, word])
        total = _left(total, 27) * _P1 + _P4
    at = length & ~7
    if length & 4:
        half = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4").reshape(-1).astype(np.uint64)
        total = _left(total ^ (half * _P1), 23) * _P2 + _P3
        at += 4
    for byte in range(at, length):
        total = _left(total ^ (rows[:, byte].astype(np.uint64) * _P5), 11) * _P1
    total = (total ^ (total >> np.uint64(33))) * _P2
    total = (total ^ (total >> np.uint64(29))) * _P3
    return total ^ (total >> np.uint64(32))


def _round(lane: Any, word: Any) -> Any:
    return _left(lane + word * _P2, 31) * _P1


def _left(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
