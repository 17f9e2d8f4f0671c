"""`KeyedScan`: live entries of a range of keys, as pairs or as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.values import Values


class KeyedScan:
    """The live entries of a range, by key. Iterating gives (key, value) pairs; nothing is read before.

    Made by `scan` and `scan_prefix` of a writer, a reader or a snapshot; each use reads anew, at the same moment.
    """

    def __init__(self, merged: Callable[[], Iterator[pa.RecordBatch]], keys: Keys, values: Values) -> None:
        self._merged, self._keys, self._values = merged, keys, values
        self.schema: pa.Schema = pa.schema([*keys.schema, *values.schema])
        """The columns of `to_batches` and `to_arrow`."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        keys, values = self._keys, self._values
        for batch in self._merged():
            stored = values.from_columns(batch.columns[len(ENTRY_COLUMNS) :])
            yield from zip(
                keys.decode_list(batch.column(0)),
                map(values.public, stored) if values.typed else stored,
                strict=True,
            )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches: `key`, or the key's columns, then `value`, or the value's columns."""
        for batch in self._merged():
            keys = self._keys.decode_array(batch.column(0))
            columns = [*keys, *batch.columns[len(ENTRY_COLUMNS) :]]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table.

        Example:
            >>> import firn
            >>> with firn.connect("memory://").create_table("delays", kind="keyed").open() as kv:
            ...     kv.put(b"DTW", b"66", durable=False)
            ...     kv.scan().to_arrow().to_pylist()
            [{'key': b'DTW', 'value': b'66'}]
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)
