"""Rows that stand in logs, as the readers of files know a source: one row group, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from firn.arrow.json_columns import column_of
from firn.arrow.types import arrow_type
from firn.bucket.base import Bucket
from firn.journal.model import DataFile
from firn.names import fold

BATCH_ROWS = 131_072


class InlinedSource:
    """The rows of a `DataFile` that is `inlined`; columns are decoded when asked for. See `ParquetSource`."""

    def __init__(self, bucket: Bucket, data: DataFile) -> None:
        rows = data.inlined
        self._rows = rows
        self._columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        self.counts = [data.rows or 0]
        if isinstance(rows, pa.Table):
            self.schema: pa.Schema = rows.schema
        else:
            self.schema = pa.schema([(name, arrow_type(kind)) for name, kind in rows.columns.items()])
        self.names = dict.fromkeys(self.schema.names).keys()
        self.uri = bucket.uri(data.path)
        self.deletes = data.deletes
        self.reads = data.reads
        self.is_remote = False

    @cached_property
    def folded(self) -> dict[str, str]:
        """Spellings by folded name."""
        return {fold(name): name for name in self.names}

    @cached_property
    def _values(self) -> Any:
        """What each column is made of, by name: of rows in logs their values, which are parsed once."""
        return self._rows if isinstance(self._rows, pa.Table) else self._rows.values()

    def batches(self, row_groups: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows, in batches of at most `BATCH_ROWS`."""
        if not row_groups:
            return
        if not names:  # batches that know their number of rows alone
            table = pa.table({"~": pa.nulls(self.counts[0])}).select([])
            yield from table.to_batches()
            return
        for name in names:
            if name not in self._columns:
                rows, values = self._rows, self._values[name]
                self._columns[name] = values if isinstance(rows, pa.Table) else column_of(rows, name, values)
        table = pa.table({name: self._columns[name] for name in names})
        yield from table.to_batches(BATCH_ROWS)

    def load(self, row_groups: Sequence[int], names: Sequence[str]) -> None:
        """Nothing to fetch."""

    def sorting(self, row_group: int) -> None:
        """None: rows stand as they came."""

    def compressed_bytes(self, row_group: int, names: Sequence[str]) -> int:
        """0: nothing is read."""
        return 0
