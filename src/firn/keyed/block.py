"""A block of an SST in memory: decoded columns, laid out for point reads in microseconds.

Arrow's own access to one cell costs a microsecond a call, so keys, seqs and values are read straight from the
columns' buffers; the rows stay Arrow for scans.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pyarrow as pa

from firn.keyed.entries import DELETE, Entry
from firn.keyed.values import Values

STRIDE = 8
"""Every so many rows' key is a Python object; the others are cut out of the column when a search passes them."""

_OBJECT_BYTES = 41  # of a Python bytes object and its place in a list, without the bytes


class Block:
    """The decoded rows of one block. Safe for several threads: nothing changes after it is made."""

    __slots__ = (
        "_expires",
        "_key_data",
        "_key_ends",
        "_kinds",
        "_samples",
        "_seqs",
        "_value_data",
        "_value_ends",
        "_values",
        "batch",
        "nbytes",
    )

    def __init__(self, batch: pa.RecordBatch, values: Values) -> None:
        """`batch` is a run's, from row 0 of its buffers on, as Parquet is decoded."""
        self.batch = batch
        self._values = values
        keys, seqs, kinds, expires = batch.columns[:4]
        self._key_ends, self._key_data = binary_parts(keys)
        self._seqs = memoryview(seqs.buffers()[1]).cast("q")
        self._kinds = memoryview(kinds.buffers()[1]).cast("b")
        self._expires: pa.Array | None = None if expires.null_count == len(expires) else expires
        # Typed rows and nulls go the long way, by Arrow.
        self._value_ends: memoryview | None = None
        self._value_data: Any = None
        if not values.typed:
            self._value_ends, self._value_data = binary_parts(batch.column(4))
        ends, data = self._key_ends, self._key_data
        self._samples = [data[ends[i] : ends[i + 1]] for i in range(0, len(keys), STRIDE)]
        self.nbytes: int = (
            batch.nbytes + len(data) + sum(map(len, self._samples)) + _OBJECT_BYTES * len(self._samples)
        )

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def lower_bound(self, key: bytes) -> int:
        """The first row whose key isn't below `key`."""
        stop = bisect_left(self._samples, key) * STRIDE
        if not stop:
            return 0
        ends, data = self._key_ends, self._key_data
        low, high = stop - STRIDE + 1, min(stop, len(ends) - 1)
        while low < high:
            middle = (low + high) >> 1
            if data[ends[middle] : ends[middle + 1]] < key:
                low = middle + 1
            else:
                high = middle
        return low

    def versions(self, key: bytes) -> list[Entry]:
        """All entries of a key, newest first."""
        row = self.lower_bound(key)
        ends, data = self._key_ends, self._key_data
        last = len(ends) - 1
        found = []
        while row < last and data[ends[row] : ends[row + 1]] == key:
            found.append(self._entry(key, row))
            row += 1
        return found

    def _entry(self, key: bytes, row: int) -> Entry:
        kind = self._kinds[row]
        expires = self._expires
        if kind == DELETE:
            value: object = None
        elif self._value_ends is not None:
            ends = self._value_ends
            value = bytes(self._value_data[ends[row] : ends[row + 1]])
        else:
            value = self._values.from_batch(self.batch, row)
        return Entry(key, self._seqs[row], kind, None if expires is None else expires[row].as_py(), value)


def binary_parts(column: pa.Array) -> tuple[memoryview, bytes]:
    """Where the values of a binary column end in its bytes (and begin, one place before), and the bytes."""
    _, offsets, data = column.buffers()
    ends = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1]
    return ends, b"" if data is None else data.to_pybytes()


def lower_bound(keys: pa.Array, key: bytes) -> int:
    """The first place in a sorted binary column whose key isn't below `key`.

    >>> lower_bound(pa.array([b"a", b"c", b"c"], pa.binary()), b"c")
    1
    """
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle].as_py() < key:
            low = middle + 1
        else:
            high = middle
    return low
