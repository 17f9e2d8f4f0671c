"""A block of an SST in memory: what was decoded, laid out for point reads in microseconds and in little room.

Arrow's own access to one cell costs a microsecond a call, so keys, seqs and values are read straight from the
columns' bytes. Columns that say nothing aren't kept: the ends of keys and values if all are of one length, kinds if
all are puts, expiries if there are none. Scans get it back as Arrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from firn.keyed.encoding.entries import DELETE, PUT, Entry

STRIDE = 16
"""Every so many rows' key is a Python object; the others are looked for in the column's bytes."""

_OBJECT_BYTES = 56  # of a Python bytes object, rounded up, and its place in a list, without the bytes
_BLOCK_BYTES = 1500  # of a block's own objects, and its place in a cache

RowOf = Callable[[Sequence[pa.Array], int], object]
"""The stored value in one row of a file's value columns."""

_made: Any = tuple.__new__  # what `Entry(…)` comes down to, without its checks


class Block:
    """The decoded rows of one block. Safe for several threads: nothing changes after it is made."""

    __slots__ = (
        "_cells",
        "_expires",
        "_key_data",
        "_key_ends",
        "_key_width",
        "_kinds",
        "_rows",
        "_samples",
        "_schema",
        "_seq_column",
        "_seqs",
        "_valid",
        "_value_data",
        "_value_ends",
        "nbytes",
    )

    def __init__(self, batch: pa.RecordBatch, *, typed: bool) -> None:
        """`batch` has a file's columns, from row 0 of its buffers on, as Parquet is decoded; one row at least. With
        `typed` values are rows of columns."""
        keys, seqs, kinds, expires, *cells = batch.columns
        self._rows = rows = len(keys)
        self._schema = batch.schema
        ends, self._key_width, data = _texts(keys)
        self._key_ends = ends
        self._key_data: bytes = data.to_pybytes()  # slices of it are keys as they are
        self._samples = [self._key_data[ends[i] : ends[i + 1]] for i in range(0, rows, STRIDE)]
        self._seq_column = seqs
        self._seqs = memoryview(seqs.buffers()[1]).cast("q")
        raw = kinds.buffers()[1].to_pybytes()[:rows]
        self._kinds: bytes | None = None if raw.count(PUT) == rows else raw
        self._expires: pa.Array | None = None if expires.null_count == rows else expires
        nbytes = _BLOCK_BYTES + len(self._key_data) + 8 * rows
        nbytes += len(self._samples) * (_OBJECT_BYTES + len(self._key_data) // rows)
        nbytes += 0 if self._kinds is None else rows
        nbytes += 0 if self._expires is None else 9 * rows
        # Typed values go the long way, by Arrow.
        self._cells: list[pa.Array] = []
        self._valid: pa.Buffer | None = None
        if typed:
            self._cells = cells
            nbytes += sum(cell.nbytes for cell in cells)
        else:
            self._value_ends, width, data = _texts(cells[0])
            self._value_data = memoryview(data)
            self._valid = cells[0].buffers()[0]
            nbytes += data.size + (0 if width else 4 * rows)
            nbytes += 0 if self._valid is None else self._valid.size
        self.nbytes: int = nbytes + (0 if self._key_width else 4 * rows)

    def __len__(self) -> int:
        return self._rows

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as they were decoded. Copies no key and no value."""
        rows = self._rows
        columns = [
            pa.Array.from_buffers(
                pa.binary(), rows, [None, pa.py_buffer(self._key_ends), pa.py_buffer(self._key_data)]
            ),
            self._seq_column,
            _puts(_room(rows)).slice(0, rows)
            if self._kinds is None
            else pa.Array.from_buffers(pa.int8(), rows, [None, pa.py_buffer(self._kinds)]),
            _nothing(_room(rows)).slice(0, rows) if self._expires is None else self._expires,
            *self._cells,
        ]
        if not self._cells:
            buffers = [self._valid, pa.py_buffer(self._value_ends), pa.py_buffer(self._value_data)]
            columns.append(pa.Array.from_buffers(pa.binary(), rows, buffers))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def lower_bound(self, key: bytes) -> int:
        """The first row whose key isn't below `key`."""
        stop = bisect_left(self._samples, key) * STRIDE
        if not stop:
            return 0
        ends, data = self._key_ends, self._key_data
        low, high = stop - STRIDE + 1, min(stop, self._rows)
        while low < high:
            middle = (low + high) >> 1
            if data[ends[middle] : ends[middle + 1]] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def versions(self, key: bytes, row_of: RowOf | None = None) -> list[Entry]:
        """All entries of a key, newest first. `row_of` makes values of rows, where these are typed."""
        row = self._find(key)
        if row < 0:
            return []
        rows, ends, data = self._rows, self._key_ends, self._key_data
        found = [self._entry(key, row, row_of)]
        row += 1
        while row < rows and data[ends[row] : ends[row + 1]] == key:
            found.append(self._entry(key, row, row_of))
            row += 1
        return found

    def _find(self, key: bytes) -> int:
        """A key's first row, -1 if there is none."""
        width, ends, data = self._key_width, self._key_ends, self._key_data
        stop = bisect_left(self._samples, key) * STRIDE
        first = stop - STRIDE if stop else 0
        last = stop + 1 if stop < self._rows else self._rows
        # One search in C for the key's bytes: a bisection in Python would take twice as long.
        at = data.find(key, ends[first], ends[last])
        if at < 0:
            return -1
        row = at // width if width else bisect_left(ends, at, first, last)
        if ends[row] == at and ends[row + 1] - at == len(key):
            return row
        # Its bytes stand across two keys, or begin a longer one, and may come again.
        row = self.lower_bound(key)
        return row if row < self._rows and data[ends[row] : ends[row + 1]] == key else -1

    def _entry(self, key: bytes, row: int, row_of: RowOf | None) -> Entry:
        kind = PUT if self._kinds is None else self._kinds[row]
        expires = self._expires
        if kind == DELETE:
            value: object = None
        elif row_of is not None and self._cells:
            value = row_of(self._cells, row)
        else:
            ends = self._value_ends
            value = bytes(self._value_data[ends[row] : ends[row + 1]])
        entry: Entry = _made(
            Entry, (key, self._seqs[row], kind, None if expires is None else expires[row].as_py(), value)
        )
        return entry


def _texts(column: pa.Array) -> tuple[memoryview, int, pa.Buffer]:
    """Where the values of a binary column end in its bytes (and begin, one place before), the length that all
    have or 0, and the bytes."""
    rows = len(column)
    _, offsets, data = column.buffers()
    ends = memoryview(offsets).cast("i")
    width = ends[1]
    if width and ends[rows] == rows * width:
        steps = _steps(width, _room(rows))  # shared by all such blocks
        if np.array_equal(
            np.frombuffer(offsets, np.int32, rows + 1), np.frombuffer(steps, np.int32, rows + 1)
        ):
            return steps, width, data
    return ends, 0, pa.py_buffer(b"") if data is None else data


def _room(rows: int) -> int:
    """Rows that what blocks share has place for."""
    return 1 << rows.bit_length()


@lru_cache(maxsize=32)
def _steps(width: int, rows: int) -> memoryview:
    return memoryview(np.arange(rows + 1, dtype=np.int32) * np.int32(width))


@lru_cache(maxsize=64)
def _puts(rows: int) -> pa.Array:
    return pa.array(np.full(rows, PUT, np.int8))


@lru_cache(maxsize=64)
def _nothing(rows: int) -> pa.Array:
    return pa.nulls(rows, pa.int64())


_ENCODED_BYTES = 300  # of a block's objects and its place in a cache


@dataclass
class Encoded:
    """A block as it is in the file: what comes along with others may never be read, and what is read for one key may
    never be read again. `checked`: its checksum was compared. `asked`: it was read for a key; the next one has it
    decoded."""

    data: bytes
    checked: bool = False
    asked: bool = False

    @property
    def nbytes(self) -> int:
        return len(self.data) + _ENCODED_BYTES
