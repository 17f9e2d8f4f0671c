"""Blocks of an SST as bytes into Arrow: checksums first, then Parquet's decoder over just these bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from firn.bucket.base import BytesLike
from firn.keyed.sst_index import SstIndex
from firn.keyed.sst_schema import ENTRY_COLUMNS
from firn.keyed.sst_tail import DamagedError, checksum


class _Window(io.RawIOBase):
    """A part of a file that stands at its place in the whole: offsets in Parquet's footer fit it."""

    def __init__(self, data: BytesLike, start: int) -> None:
        self._data = memoryview(data)
        self._start = start
        self._at = 0

    def read(self, size: int = -1) -> memoryview:
        low = self._at - self._start
        part = self._data[low : low + size]
        self._at += len(part)
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset if whence == 0 else self._start + len(self._data) + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class BlockDecoder:
    """Decodes the blocks of one SST. Safe for several threads.

    Raises, from every method, `DamagedError` for bytes that aren't what was written.
    """

    def __init__(self, index: SstIndex, footer: bytes, schema: pa.Schema) -> None:
        self._index = index
        self._schema = schema
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(footer))
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"its footer isn't Parquet's: {error}") from error
        names = [
            self._metadata.schema.column(i).path.partition(".")[0] for i in range(self._metadata.num_columns)
        ]
        if list(dict.fromkeys(names)) != schema.names or self._metadata.num_row_groups != index.blocks:
            raise DamagedError(
                f"it has the columns {', '.join(dict.fromkeys(names))} and the table's are {', '.join(schema.names)}"
            )

    def decode(self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows of neighbouring blocks, out of the bytes of exactly these; `columns` are value columns."""
        index = self._index
        start, _ = index.extent(blocks.start)
        if len(data) != index.ends[blocks.stop - 1] - start:
            raise DamagedError(f"it ends at byte {start + len(data)}, within its blocks")
        view = memoryview(data)
        for block in blocks:
            at, length = index.extent(block)
            if checksum(view[at - start : at - start + length]) != index.checksums[block]:
                raise DamagedError(f"the checksum of block {block} (bytes {at} to {at + length}) is wrong")
        wanted = None if columns is None else [*ENTRY_COLUMNS, *columns]
        file = pq.ParquetFile(pa.PythonFile(_Window(view, start), mode="r"), metadata=self._metadata)
        try:
            table = file.read_row_groups(list(blocks), columns=wanted, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"block {blocks.start} can't be decoded: {error}") from error
        names = self._schema.names if wanted is None else wanted
        fields = [self._schema.field(name) for name in names]
        return pa.RecordBatch.from_arrays(
            [_array(table.column(field.name), field.type) for field in fields], schema=pa.schema(fields)
        )


def _array(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if not column.type.equals(kind):
        column = column.cast(kind)  # what Parquet has no type for: timestamps of seconds, lists of one length
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()
