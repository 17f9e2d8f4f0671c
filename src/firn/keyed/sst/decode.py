"""Blocks of an SST as bytes into Arrow: checksums first, then Parquet's decoder over just these bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from firn.bucket.base import BytesLike
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.entries import Entry
from firn.keyed.sst.index import SstIndex
from firn.keyed.sst.probe import Probe
from firn.keyed.sst.tail import DamagedError, checksum


class _Window(io.RawIOBase):
    """A file of which one part is here, at its place in the whole: offsets in Parquet's footer fit it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = memoryview(b"")
        self._start = self._at = 0

    def show(self, data: memoryview, start: int) -> None:
        """From now on be this part."""
        self._data, self._start = data, start

    def read(self, size: int = -1) -> memoryview:
        low = self._at - self._start
        part = self._data[low : low + size]
        self._at += len(part)
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset if whence == 0 else self._size + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class BlockDecoder:
    """Decodes the blocks of one SST, whose columns are `schema`. Safe for several threads.

    Raises, from every method, `DamagedError` for bytes that aren't what was written.
    """

    def __init__(self, index: SstIndex, footer: bytes) -> None:
        self._index = index
        # Opening costs half of what decoding does, so each thread takes one that another left.
        self._open: list[tuple[_Window, pq.ParquetFile]] = []
        self._schemas: dict[tuple[str, ...] | None, pa.Schema] = {}
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(footer))
            self.schema: pa.Schema = self._metadata.schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"its footer isn't Parquet's: {error}") from error
        self._probe = Probe(index, self._metadata)
        if self._metadata.num_row_groups != index.blocks:
            raise DamagedError(
                f"its footer tells of {self._metadata.num_row_groups} blocks, its index of {index.blocks}"
            )

    def given(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns of rows as `decode` gives them."""
        if columns is None:
            return self.schema
        wanted = tuple(columns)
        found = self._schemas.get(wanted)
        if found is None:
            names = (*ENTRY_COLUMNS, *wanted)
            found = self._schemas[wanted] = pa.schema([self.schema.field(name) for name in names])
        return found

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """About how many bytes each block has when it is decoded."""
        groups = range(self._metadata.num_row_groups)
        return tuple(self._metadata.row_group(group).total_byte_size for group in groups)

    def decode(self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows of neighbouring blocks, out of the bytes of exactly these, as they lie in the file; `columns` are
        value columns of it."""
        self.check(data, blocks)
        view, (start, _) = memoryview(data), self._index.extent(blocks.start)
        wanted = None if columns is None else (*ENTRY_COLUMNS, *columns)
        try:
            table = self._read(view, start, blocks, wanted)
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"block {blocks.start} can't be decoded: {error}") from error
        schema = self.given(columns)
        arrays = [table.column(name) for name in schema.names]
        arrays = [each.chunk(0) if each.num_chunks == 1 else each.combine_chunks() for each in arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def entries(self, data: BytesLike, block: int, key: bytes) -> list[Entry] | None:
        """All entries of a key, newest first, out of the bytes of its block, which were checked and whose values are
        bytes; None where that isn't less work than to decode them all."""
        view, (start, _) = memoryview(data), self._index.extent(block)
        try:
            return self._probe.entries(
                view,
                start,
                block,
                key,
                lambda columns: self._read(view, start, range(block, block + 1), columns),
            )
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"block {block} can't be decoded: {error}") from error

    def check(self, data: BytesLike, blocks: range) -> None:
        """See that these are the bytes of exactly these blocks."""
        index = self._index
        start, _ = index.extent(blocks.start)
        if len(data) != index.ends[blocks.stop - 1] - start:
            raise DamagedError(f"it ends at byte {start + len(data)}, within its blocks")
        view = memoryview(data)
        for block in blocks:
            at, length = index.extent(block)
            if checksum(view[at - start : at - start + length]) != index.checksums[block]:
                raise DamagedError(f"the checksum of block {block} (bytes {at} to {at + length}) is wrong")

    def _read(self, view: memoryview, start: int, blocks: range, wanted: Sequence[str] | None) -> pa.Table:
        try:
            window, file = self._open.pop()
        except IndexError:
            window = _Window(self._index.ends[-1])
            # Reading ahead is for files that are far away: here it would only hop to another thread.
            file = pq.ParquetFile(pa.PythonFile(window, mode="r"), metadata=self._metadata, pre_buffer=False)
        window.show(view, start)
        table = file.read_row_groups(list(blocks), columns=wanted, use_threads=False)
        window.show(memoryview(b""), 0)
        self._open.append((window, file))
        return table
