"""`KeyedScan`: live entries of a range of keys, as pairs or as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa


class KeyedScan:
    """The live entries of a range, by key. Iterating gives (key, value) pairs; nothing is read before.

    Made by `scan` and `scan_prefix` of a writer, a reader or a snapshot; each use reads anew, at the same moment.
    """

    def __init__(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        yield from ()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches: `key`, or the key's columns, then `value`, or the value's columns."""
        yield from self._batches()

    def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table."""
        return pa.Table.from_batches(list(self._batches()))
