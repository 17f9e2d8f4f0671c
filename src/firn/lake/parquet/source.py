"""Open Parquet objects: a file of this machine, a body in memory, or ranges of a large object."""

from __future__ import annotations

import bisect
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.deferred import DeferredModule
from firn.journal.column_entries import ColumnEntries
from firn.journal.model import DataFile
from firn.lake.parquet.footer import check_footer, corrupt, data_file, decoding, read_footer
from firn.lake.parquet.inlined import BATCH_ROWS, InlinedSource
from firn.lake.parquet.schema import leaf_count
from firn.names import fold

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = DeferredModule("pyarrow.parquet")

WHOLE_BYTES = 8 << 20
"""Objects up to this size are fetched whole, by one GET."""

GAP_BYTES = 512 << 10
"""Ranges that are no further apart are fetched as one: faster than another request."""

SMALL_BYTES = 64 << 10
"""Files below this are read whole and decoded by one thread: to share out their columns takes twice the CPU time."""


class ParquetSource:
    """One open Parquet object; read by one thread. Made by `open_rows`."""

    def __init__(
        self,
        bucket: Bucket,
        data: DataFile,
        file: pq.ParquetFile,
        ranges: RangedFile | None,
        *,
        body: bytes | None = None,
        in_place: bool,
        threads: bool = True,
        blooms: Mapping[str, Any] | None = None,
    ) -> None:
        key = data.path
        self._body = body
        self._bucket = bucket
        self._key = key
        self._file = file
        self._ranges = ranges
        self._in_place = in_place
        self._threads = threads
        self.metadata: pq.FileMetaData = file.metadata
        self.counts = [self.metadata.row_group(at).num_rows for at in range(self.metadata.num_row_groups)]
        self.schema: pa.Schema = file.schema_arrow
        ends: list[int] = []
        for field in self.schema:
            ends.append((ends[-1] if ends else 0) + leaf_count(field.type))
        self._leaves = {
            field.name: range(end - leaf_count(field.type), end)
            for field, end in zip(self.schema, ends, strict=True)
        }
        self.names = self._leaves.keys()
        self.uri = bucket.uri(key)
        self.deletes = data.deletes
        self.reads = data.reads
        self.blooms: Mapping[str, Any] = blooms or {}
        """The marker's entries of Bloom filters."""
        self.is_remote = ranges is not None
        """Whether reading more of it takes requests."""

    @cached_property
    def folded(self) -> dict[str, str]:
        """Spellings by folded name."""
        return {fold(name): name for name in self.names}

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes of the file at these places (start, length). 1 `get_ranges` call where it is remote."""
        if self._body is not None:
            return [self._body[start : start + length] for start, length in ranges]
        if not self._in_place:
            return self._bucket.get_ranges(self._key, ranges)
        with decoding(self._bucket, self._key), open(self._bucket.local_path(self._key) or "", "rb") as file:
            self._bucket.counters.add(bytes_in=sum(length for _, length in ranges))
            return [os.pread(file.fileno(), length, start) for start, length in ranges]

    def batches(self, row_groups: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of some row groups, in batches of at most `BATCH_ROWS` rows; with no columns, batches
        that know their number of rows alone. At most one `get_ranges` call, if it wasn't loaded before."""
        if self._ranges is not None and names:
            self.load(row_groups, names)
        if self._in_place:
            self._bucket.counters.add(
                bytes_in=sum(self.compressed_bytes(group, names) for group in row_groups)
            )
        paths = [self.metadata.schema.column(i).path for name in names for i in self._leaves[name]]
        missing = sum(self.counts[group] for group in row_groups)
        with decoding(self._bucket, self._key):
            for batch in self._file.iter_batches(
                BATCH_ROWS, row_groups=list(row_groups), columns=paths, use_threads=self._threads
            ):
                missing -= batch.num_rows
                yield batch
            if missing:
                # Parquet skips pages of kinds that it doesn't know, and a damaged header looks like one.
                raise pa.ArrowInvalid(f"{missing} rows are missing")

    def load(self, row_groups: Sequence[int], names: Sequence[str]) -> None:
        """Fetch what `batches` of these will read, for one call or several."""
        if self._ranges is not None:
            chunks = [self._chunk(g, i) for g in row_groups for name in names for i in self._leaves[name]]
            self._ranges.load(_merged(chunks))

    def sorting(self, row_group: int) -> Any:
        """The order that a row group says it is in, as (columns, where nulls are); None if it says nothing."""
        claimed = self.metadata.row_group(row_group).sorting_columns
        return pq.SortingColumn.to_ordering(self.schema, claimed) if claimed else None

    def compressed_bytes(self, row_group: int, names: Sequence[str]) -> int:
        """Bytes of these columns in the file."""
        return sum(self._chunk(row_group, i)[1] for name in names for i in self._leaves[name])

    def _chunk(self, row_group: int, leaf: int) -> tuple[int, int]:
        column = self.metadata.row_group(row_group).column(leaf)
        start = column.data_page_offset
        if column.dictionary_page_offset is not None and 0 < column.dictionary_page_offset < start:
            start = column.dictionary_page_offset
        return start, column.total_compressed_size


RowSource = ParquetSource | InlinedSource


class RangedFile(io.RawIOBase):
    """A file object over ranges that were fetched; a read outside of them costs a request of its own."""

    def __init__(self, bucket: Bucket, key: str, size: int) -> None:
        self._bucket = bucket
        self._key = key
        self._size = size
        self._position = 0
        self._starts: list[int] = []
        self._bodies: list[bytes] = []

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch these ranges (start, length), in order and apart, unless they are there; drop all others."""
        if all(self._find(start, length) is not None for start, length in ranges):
            return
        self._starts, self._bodies = [], []
        bodies = self._bucket.get_ranges(self._key, ranges)
        for (_, length), body in zip(ranges, bodies, strict=True):
            if len(body) != length:
                raise corrupt(self._bucket, self._key, "it is shorter than its footer says")
        self._starts, self._bodies = [start for start, _ in ranges], bodies

    def _find(self, start: int, length: int) -> memoryview | None:
        at = bisect.bisect_right(self._starts, start) - 1
        if at < 0 or start + length > self._starts[at] + len(self._bodies[at]):
            return None
        offset = start - self._starts[at]
        return memoryview(self._bodies[at])[offset : offset + length]

    def read(self, size: int | None = -1) -> Any:
        length = self._size - self._position
        if size is not None and 0 <= size < length:
            length = size
        found: Any = self._find(self._position, length)
        if found is None:
            found = self._bucket.get_range(self._key, self._position, length)
        self._position += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@contextmanager
def open_rows(bucket: Bucket, file: DataFile, *, body: bytes | None = None) -> Iterator[RowSource]:
    """Open a data file, or its `body` where that was fetched already, or rows that stand in a log.

    A directory of this machine is read in place, files below 64 KiB whole. Elsewhere: 1 GET up to 8 MiB; above
    that 1 ranged GET for the footer (2 if it has more than 128 KiB), and then those that `ParquetSource` makes. Rows
    of a log cost nothing more.

    Raises:
        ObjectNotFoundError: there is no such object.
        CorruptObjectError: it isn't Parquet, not all of it, or its footer isn't the one that was written
            (`crc` in the file's extra); reading it later may raise this too.
    """
    if file.inlined is not None:
        yield InlinedSource(bucket, file)
        return
    with data_file(bucket, file.path), _opened(bucket, file, body) as source:
        yield source


@contextmanager
def _opened(bucket: Bucket, file: DataFile, body: bytes | None) -> Iterator[ParquetSource]:
    extra = file.extra or {}
    key, crc, blooms = file.path, extra.get("crc"), extra.get("bloom")
    small = file.size < SMALL_BYTES
    path = bucket.local_path(key) if body is None and not small else None
    ranges = metadata = None
    if path is not None:
        metadata, _ = read_footer(bucket, key, file.size, crc=crc)
        source: Any = path
    elif body is not None or file.size <= WHOLE_BYTES:
        body = bucket.get(key).data if body is None else body
        check_footer(bucket, key, body, crc=crc)
        source = pa.BufferReader(body)
    else:
        metadata, _ = read_footer(bucket, key, file.size, crc=crc)
        ranges = RangedFile(bucket, key, file.size)
        source = pa.PythonFile(ranges, mode="r")
    with decoding(bucket, key):
        parquet = pq.ParquetFile(
            source,
            metadata=metadata,
            memory_map=False,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
    with parquet:
        yield ParquetSource(
            bucket,
            file,
            parquet,
            ranges,
            body=body,
            in_place=path is not None,
            threads=not small,
            blooms=_stored(blooms),
        )


def _stored(blooms: Any) -> Mapping[str, Any] | None:
    """Entries of Bloom filters by the columns' names in the file."""
    if isinstance(blooms, ColumnEntries):
        return blooms.stored
    return blooms if isinstance(blooms, Mapping) else None


def _merged(chunks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, length in sorted(chunks):
        if merged and start - sum(merged[-1]) <= GAP_BYTES:
            first = merged[-1][0]
            merged[-1] = (first, max(sum(merged[-1]), start + length) - first)
        else:
            merged.append((start, length))
    return merged
