"""Cut several runs into pieces that hold all versions of each of their keys, so that each piece can be merged alone.

Batches end where their files have it. Keys below the least of the last keys that were read are complete in all
runs: they are a piece, and what is above waits for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

PIECE_BYTES = 16 << 20
"""Bytes that all runs together read ahead for one piece, about."""

SMALL_BYTES = 256 << 10
"""Batches up to this size may be held for the sake of a few rows."""

FIRST_ROWS = 512  # a scan may stop after a few rows

Piece = list[list[pa.RecordBatch]]
"""The batches of each run, in key order; the newest run first."""


def pieces(
    runs: Sequence[Iterator[pa.RecordBatch]],
    *,
    rows: int,
    reverse: bool = False,
    first_rows: int = FIRST_ROWS,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[Piece]:
    """The runs in pieces that share no key, in key order, or from the last one with `reverse`.

    Within a piece all batches are in a run's order, also where the runs come backwards. Pieces grow from
    `first_rows`, for callers that want no more, to about `rows` of each run, or `piece_bytes` of all.
    """
    buffers = [_Buffer(run, reverse) for run in runs]
    budget = piece_bytes // max(1, len(buffers))
    wanted = min(rows, first_rows)
    while True:
        for buffer in buffers:
            buffer.fill(wanted, budget)
        edges = [buffer.edge for buffer in buffers if not buffer.done]
        if edges:
            edge = max(edges) if reverse else min(edges)
            piece = [buffer.cut(edge) for buffer in buffers]
        else:
            piece = [buffer.rest() for buffer in buffers]
        if any(piece):
            yield piece
            wanted = min(rows, 2 * wanted)
        elif not edges:
            return
        else:  # a key with more versions than were read
            wanted, budget = 2 * wanted, 2 * budget


class _Buffer:
    """The rows of one run that were read and aren't in a piece yet."""

    def __init__(self, run: Iterator[pa.RecordBatch], reverse: bool) -> None:
        self._run = run
        self._reverse = reverse
        self._batches: list[pa.RecordBatch] = []  # as read
        self._rows = self._bytes = 0
        self.done = False

    @property
    def edge(self) -> bytes:
        """The key up to which the run was read; there may be more versions of it."""
        last = self._batches[-1]
        key: bytes = last.column(0)[0 if self._reverse else len(last) - 1].as_py()
        return key

    def fill(self, rows: int, budget: int) -> None:
        while not self.done and (not self._batches or (self._rows < rows and self._bytes < budget)):
            batch = next(self._run, None)
            if batch is None:
                self.done = True
            elif len(batch):
                self._rows += len(batch)
                self._bytes += batch.nbytes
                backwards = pa.array(np.arange(len(batch) - 1, -1, -1)) if self._reverse else None
                self._batches.append(batch if backwards is None else batch.take(backwards))

    def cut(self, edge: bytes) -> list[pa.RecordBatch]:
        """Take out what is before `edge`."""
        taken: list[pa.RecordBatch] = []
        left: list[pa.RecordBatch] = []
        for batch in self._batches:
            keys = batch.column(0)
            if self._reverse:
                at = bisect_keys(keys, edge + b"\0")
                before, behind = batch.slice(at), batch.slice(0, at)
            else:
                at = bisect_keys(keys, edge)
                before, behind = batch.slice(0, at), batch.slice(at)
            if len(before):
                taken.append(before)
            if len(behind):
                left.append(_let_go(behind))
        self._batches, self._rows = left, sum(map(len, left))
        self._bytes = sum(batch.nbytes for batch in left)
        return taken[::-1] if self._reverse else taken

    def rest(self) -> list[pa.RecordBatch]:
        taken, self._batches, self._rows, self._bytes = self._batches, [], 0, 0
        return taken[::-1] if self._reverse else taken


def _let_go(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, without the much larger batch that they are the end of: each run would hold one."""
    whole = rows.get_total_buffer_size()
    if whole < SMALL_BYTES or rows.nbytes * 4 > whole:
        return rows
    return rows.take(pa.array(np.arange(len(rows))))


def bisect_keys(keys: Any, key: bytes) -> int:
    """How many keys of an ascending array are below `key`.

    >>> bisect_keys(pa.array([b"a", b"c"]), b"b")
    1
    """
    low, high = 0, len(keys)
    if not high or keys[high - 1].as_py() < key:
        return high
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() < key:
            low = middle + 1
        else:
            high = middle
    return low
