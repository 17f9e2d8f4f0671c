"""Where Parquet files are opened: data files in, rows of a table's columns and types out."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.arrow.types import arrow_schema, columns_of
from firn.bucket.base import Bucket
from firn.deferred import DeferredModule
from firn.journal.inlined import InlinedRows, joined
from firn.journal.model import DataFile
from firn.lake.parquet.footer import data_file, missing, read_footer
from firn.lake.parquet.source import SMALL_BYTES, WHOLE_BYTES, open_rows
from firn.lake.read.decode import ReadSpec, rows_of
from firn.predicate.stats import from_metadata

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = DeferredModule("pyarrow.parquet")

__all__ = [
    "ReadSpec",
    "arrow_schema_of",
    "count_rows",
    "file_footer",
    "inspect_file",
    "read_file",
    "read_files",
    "read_table",
]

LUMP_FILES = 64
"""Small files that are read together, `WHOLE_BYTES` of them at most."""


def read_file(bucket: Bucket, file: DataFile, spec: ReadSpec) -> Iterator[pa.Table]:
    """The rows of one file in its order, in tables of at most 131,072 rows, none of them empty.

    Columns that the file lacks are null, others of the file are ignored, narrower types are cast. Rows that soft
    deletes took are left out. Row groups whose statistics exclude the predicate aren't read. Memory: a run of row
    groups' compressed bytes (16 MiB and one row group more) and a few batches.

    Cost: none of a directory of this machine; 1 GET up to 8 MiB; else 1 or 2 for the footer, and 1 for each
    16 MiB of the wanted columns, more where unwanted columns of more than 512 KiB lie between them.

    Raises:
        ObjectNotFoundError: the file is gone.
        CorruptObjectError: it is truncated or damaged, or a soft delete on it can't be evaluated.
        InvalidInputError: a value in it doesn't fit the table's type.
    """
    with open_rows(bucket, file) as source:
        yield from rows_of(source, spec)


def read_files(bucket: Bucket, files: Sequence[DataFile], spec: ReadSpec) -> Iterator[pa.Table]:
    """`read_file` of several files, one after the other; small ones are fetched many at a time, so that a
    thousand of them cost a thousand GETs but not as many round trips. 8 MiB more memory than `read_file`. Rows of
    logs come last, as those of one file where their logs are alike."""
    for lump in lumps_of(bucket, files):
        if len(lump) == 1 or bucket.local_path(lump[0].path) or lump[0].inlined is not None:
            for file in lump:
                yield from read_file(bucket, file, spec)
            continue
        for file, blob in zip(lump, bucket.get_many([f.path for f in lump]), strict=True):
            if blob is None:
                with data_file(bucket, file.path):
                    raise missing(bucket, file.path)
            with open_rows(bucket, file, body=blob.data) as source:
                yield from rows_of(source, spec)


def read_table(
    bucket: Bucket, files: Sequence[DataFile], spec: ReadSpec, threads: int | None = None
) -> pa.Table:
    """All rows of `files` in one table, in the order of the files; `threads` of them are read at a time.

    Cost and errors as for `read_file`. Memory: the result, and what one `read_files` takes for each thread.
    """
    threads = threads or min(8, os.cpu_count() or 1)
    lumps = lumps_of(bucket, files)

    def read(lump: list[DataFile]) -> list[pa.Table]:
        return list(read_files(bucket, lump, spec))

    if threads == 1 or len(lumps) == 1:
        parts = [read(lump) for lump in lumps]
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="firn-read") as pool:
            futures = [pool.submit(read, lump) for lump in lumps]
            try:
                parts = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    tables = [table for part in parts for table in part]
    return pa.concat_tables(tables) if tables else arrow_schema(spec.columns).empty_table()


def count_rows(bucket: Bucket, file: DataFile) -> int:
    """How many rows a file stores, whatever soft deletes took: from the log, else from its footer (1 or 2 ranged
    GETs)."""
    if file.rows is not None:
        return file.rows
    with data_file(bucket, file.path):
        footer = read_footer(bucket, file.path, file.size, crc=(file.extra or {}).get("crc"))
    return int(footer.metadata.num_rows)


def file_footer(bucket: Bucket, key: str, size: int) -> pq.FileMetaData:
    """The footer of any Parquet object of `size` bytes. 1 or 2 ranged GETs; errors as for `read_file`."""
    return read_footer(bucket, key, size).metadata


def inspect_file(bucket: Bucket, key: str, size: int) -> tuple[dict[str, str], DataFile]:
    """The columns of a Parquet file that is there already, and a `DataFile` with its rows and statistics, to
    be completed with a time and a partition. 1 or 2 ranged GETs; those of `read_file` for columns of nanoseconds,
    whose values a table may not be able to hold.

    Raises:
        InvalidInputError: columns that a table can't have, or a value that doesn't fit a column's type.
        CorruptObjectError: not a Parquet file.
    """
    metadata, crc = read_footer(bucket, key, size)
    schema = arrow_schema_of(metadata)
    columns = columns_of(schema)
    extra = {"rows": metadata.num_rows, "stats": from_metadata(metadata, schema), "crc": crc}
    file = DataFile(key, size, 0, extra)
    finer = {name: kind for name, kind in columns.items() if _is_finer(schema.field(name).type)}
    for _ in read_file(bucket, file, ReadSpec(finer)) if finer else ():
        """Nothing: the rows are of no interest, but whether they can be read."""
    return columns, file


def _is_finer(kind: pa.DataType) -> bool:
    """Whether a type has nanoseconds and the one that columns have for it hasn't."""
    if pa.types.is_nested(kind):
        return any(_is_finer(kind.field(at).type) for at in range(kind.num_fields))
    return kind == pa.time64("ns") or (
        pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is not None
    )


def united(files: Sequence[DataFile]) -> list[DataFile]:
    """The files, and after them the rows of logs, those of logs that are read alike as of one: to read a thousand
    logs' rows then costs little more than a single one's."""
    parts = [file for file in files if isinstance(file.inlined, InlinedRows)]
    rest = [file for file in files if not isinstance(file.inlined, InlinedRows)]
    return [*rest, *(as_one(group) for group in read_alike(parts))]


def read_alike(parts: Sequence[DataFile]) -> list[list[DataFile]]:
    """Rows of logs, those together that have the same columns and are read in the same way. Costs a lookup for each
    log that shares both with another, as logs do that were decoded together."""
    groups: dict[Hashable, list[DataFile]] = {}
    known: dict[tuple[int, int, int], list[DataFile]] = {}
    for part in parts:
        extra = part.extra or {}
        shared = id(part.inlined.columns), id(extra.get("reads")), id(extra.get("deletes"))
        group = known.get(shared)
        if group is None:
            reads = tuple((name, tuple(own)) for name, own in sorted(part.reads.items()))
            key = tuple(part.inlined.columns.items()), reads, tuple(sorted(part.odd)), part.deletes
            group = known[shared] = groups.setdefault(key, [])
        group.append(part)
    return list(groups.values())


def as_one(parts: Sequence[DataFile]) -> DataFile:
    """Rows of logs that are read alike, as those of one."""
    if len(parts) == 1:
        return parts[0]
    rows = joined([part.inlined for part in parts])
    extra = {**(parts[0].extra or {}), "rows": rows.count, "inlined": rows}
    return parts[0]._replace(size=sum(part.size for part in parts), extra=extra)


def lumps_of(bucket: Bucket, files: Sequence[DataFile]) -> list[list[DataFile]]:
    """The files in their order, small ones together that are worth fetching together, or decoding by one thread; then
    rows of logs."""
    every = united(files)
    inlined = [[file] for file in every if file.inlined is not None]
    return [*_lumps_of(bucket, [file for file in every if file.inlined is None]), *inlined]


def _lumps_of(bucket: Bucket, files: Sequence[DataFile]) -> list[list[DataFile]]:
    lumps: list[list[DataFile]] = []
    room = 0
    for file in files:
        alone = file.size >= SMALL_BYTES and bucket.local_path(file.path)
        if not lumps or file.size > room or len(lumps[-1]) == LUMP_FILES or alone:
            lumps.append([])
            room = WHOLE_BYTES
        lumps[-1].append(file)
        room -= file.size
    return lumps


def arrow_schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """The schema as `open_rows` reads it: INT96 timestamps as microseconds."""
    empty = pa.BufferReader(b"")
    with pq.ParquetFile(empty, metadata=metadata, coerce_int96_timestamp_unit="us") as file:
        return file.schema_arrow
