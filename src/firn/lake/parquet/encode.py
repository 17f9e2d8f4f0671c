"""One Parquet file in the making: row groups go in, its bytes and what its log marker says come out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from firn.bucket.base import BytesLike
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.lake.parquet.bloom import filters_of, marker_entries, writer_options
from firn.lake.parquet.footer import footer_crc
from firn.lake.parquet.schema import leaf_count
from firn.names import fold
from firn.predicate.bloom import has_filters
from firn.predicate.stats import from_metadata

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc = DeferredModule("pyarrow.compute")
    pq = DeferredModule("pyarrow.parquet")

CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
ZSTD_LEVEL = 1  # 20 % smaller than snappy for the same time; level 3 takes a third longer for 5 %

DICTIONARY_SAMPLE = range(256, 8192)
DICTIONARY_SHARE = 0.4
"""Columns with more distinct values than this share of a sample, of so many rows at least and at most, are
written plain: a dictionary of them overflows, after the time to build it was spent, and the file is larger
for it."""

AUTO: Literal["auto"] = "auto"
AUTO_ROWS = 16
AUTO_COLUMNS = 4
AUTO_TYPES = ("VARCHAR", "BLOB", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT")
"""With `bloom_filters="auto"`, the first columns of these types whose values are mostly distinct in a sample
of so many rows at least: identifiers, rather than measures and times, which are looked up by ranges."""

BloomColumns = tuple[str, ...] | Literal["auto"]


@dataclass(frozen=True)
class Encoding:
    """How files of one write are encoded; the same for all of them.

    `blooms` are the columns that get Bloom filters, and their DuckDB types.
    """

    schema: pa.Schema
    codec: str
    dictionary: tuple[str, ...]
    sorting: tuple[pq.SortingColumn, ...]
    stats_columns: int
    first: tuple[str, ...]
    blooms: Mapping[str, str]


@dataclass(frozen=True)
class EncodedFile:
    """A whole file's bytes; `extra` has the keys `rows`, `stats`, `crc` and `bloom` of a `DataFile`."""

    data: BytesLike
    size: int
    extra: dict[str, Any]
    filters_crc: int


def choose_encoding(
    sample: pa.Table,
    *,
    schema: pa.Schema,
    codec: str,
    sort_keys: Sequence[tuple[str, str]],
    stats_columns: int,
    first: Sequence[str],
    blooms: Mapping[str, str],
) -> Encoding:
    """Look at the first rows and decide which columns deserve a dictionary. `first` are the columns whose
    statistics matter most.

    Raises:
        InvalidInputError: a codec that Parquet, or Spark, doesn't know.
    """
    if codec not in CODECS:
        raise InvalidInputError(f"the codec {codec!r} isn't one of {', '.join(CODECS)}")
    leaves = _leaves(schema)
    plain = {f.name for f in schema if _mostly_distinct(sample.column(f.name))}
    return Encoding(
        schema=schema,
        codec=codec,
        dictionary=tuple(path for name, path in leaves if name not in plain),
        sorting=tuple(pq.SortingColumn.from_ordering(schema, list(sort_keys), "at_end")),
        stats_columns=stats_columns,
        first=tuple(first),
        blooms=blooms,
    )


def bloom_columns(wanted: BloomColumns, columns: Mapping[str, str], sample: pa.Table) -> dict[str, str]:
    """The columns that get Bloom filters, and their DuckDB types: those of the wanted ones that are there and
    whose type can have them.

    >>> sample = pa.table({"id": list(range(100)), "day": [1, 2] * 50})
    >>> bloom_columns("auto", {"id": "BIGINT", "day": "BIGINT"}, sample)
    {'id': 'BIGINT'}
    """
    if not isinstance(wanted, str):
        spelled = {fold(name): name for name in columns}
        names = (spelled.get(fold(name)) for name in wanted)
        return {name: columns[name] for name in names if name is not None and has_filters(columns[name])}
    chosen = (
        name
        for name, kind in columns.items()
        if kind in AUTO_TYPES and _mostly_distinct(sample.column(name), least=AUTO_ROWS)
    )
    return {name: columns[name] for name in islice(chosen, AUTO_COLUMNS)}


class FileEncoder:
    """Encodes one file in memory. Not for several threads. `group_rows` is how many rows the first row group
    will have."""

    def __init__(self, encoding: Encoding, group_rows: int) -> None:
        self.rows = 0
        self._encoding = encoding
        self._sink = pa.BufferOutputStream()
        self._metadata: list[pq.FileMetaData] = []
        self._nan_columns: set[str] = set()
        self._writer = pq.ParquetWriter(
            self._sink,
            encoding.schema,
            compression=encoding.codec.upper(),
            compression_level=ZSTD_LEVEL if encoding.codec == "zstd" else None,
            use_dictionary=list(encoding.dictionary) or False,
            sorting_columns=encoding.sorting or None,
            write_page_index=True,
            write_page_checksum=True,
            store_decimal_as_integer=True,  # as Spark does: read a third faster than fixed-length bytes
            metadata_collector=self._metadata,
            # Later groups may be larger; but Arrow keeps every filter at full size until the file is closed.
            **writer_options(encoding.blooms, rows=2 * group_rows),
        )

    @property
    def size(self) -> int:
        """Bytes so far, without the footer."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Add `rows` as one row group."""
        for field in rows.schema:
            if field.name not in self._nan_columns and _has_nan(rows.column(field.name)):
                self._nan_columns.add(field.name)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self.rows += rows.num_rows

    @property
    def recipe(self) -> dict[str, Any]:
        """The facts that `firn.lake.maintain.rebuild.restored_file` needs beside the footer, JSON-able."""
        encoding = self._encoding
        return {
            "rows": self.rows,
            "nan": sorted(self._nan_columns),
            "stats": encoding.stats_columns,
            "first": list(encoding.first),
            "bloom": dict(encoding.blooms),
        }

    def close(self, metadata: Mapping[str, str] | None = None) -> EncodedFile:
        """Finish the file, with this key-value metadata; the encoder is of no use afterwards."""
        if metadata:
            self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()
        buffer = self._sink.getvalue()
        stats = from_metadata(
            self._metadata[0],
            self._encoding.schema,
            nan_columns=self._nan_columns,
            max_columns=self._encoding.stats_columns,
            first=self._encoding.first,
        )
        extra = {"rows": self.rows, "stats": stats, "crc": footer_crc(buffer)}
        if blooms := marker_entries(buffer, self._metadata[0], self._encoding.blooms):
            extra["bloom"] = blooms
        extent = filters_of(self._metadata[0], self._encoding.blooms)
        filters = b"" if extent is None else memoryview(buffer)[extent[0] : sum(extent)]
        return EncodedFile(memoryview(buffer), buffer.size, extra, zlib.crc32(filters))


@lru_cache(maxsize=64)
def _leaves(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """(column, Parquet leaf path) of all leaves, in file order."""
    columns = [field.name for field in schema for _ in range(leaf_count(field.type))]
    if not any(pa.types.is_nested(field.type) for field in schema):
        return tuple((name, name) for name in columns)
    sink = pa.BufferOutputStream()
    written: list[pq.FileMetaData] = []
    pq.write_table(schema.empty_table(), sink, metadata_collector=written)
    paths = [written[0].schema.column(i).path for i in range(len(columns))]
    return tuple(zip(columns, paths, strict=True))


def _mostly_distinct(column: pa.ChunkedArray, *, least: int = DICTIONARY_SAMPLE.start) -> bool:
    sample = column.slice(0, DICTIONARY_SAMPLE.stop)
    if len(sample) < least or pa.types.is_nested(sample.type):
        return False
    try:
        return bool(pc.count_distinct(sample).as_py() > DICTIONARY_SHARE * len(sample))
    except pa.ArrowNotImplementedError:
        # A type whose values Arrow can't count keeps the dictionary, Parquet's default.
        return False


def _has_nan(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.is_nan(column)).as_py())
