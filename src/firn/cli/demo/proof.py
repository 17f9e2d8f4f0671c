"""Proof that erased rows are gone: every object that is left of a table is read, and searched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError

if TYPE_CHECKING:
    from firn.bucket.base import Blob
    from firn.lake.table import LakeTable


@dataclass(frozen=True)
class Searched:
    """What was looked through."""

    objects: int
    parquet_files: int
    rows: int


def search_everything(table: LakeTable, *, word: str, since: datetime, until: datetime) -> Searched:
    """Look in every object below the table for a word, and for times from `since` to before `until`.

    Parquet files are read whole: every value, and the statistics in their footers. All other objects, which
    are text, are searched as it stands, for the month as well.

    Raises:
        FirnError: something was found; the message names the object.
    """
    parquet = rows = 0
    listing = table.bucket.list(f"{table.prefix}/").objects
    blobs = table.bucket.get_many([info.key for info in listing])
    for info, blob in zip(listing, blobs, strict=True):
        if blob is None:
            continue
        if info.key.endswith(".parquet"):
            parquet += 1
            rows += _search_parquet(table, blob, word, since, until)
            continue
        for wanted in (word, f"{since:%Y-%m}"):
            if wanted.encode() in blob.data:
                raise _found(table, info.key, wanted)
    return Searched(len(listing), parquet, rows)


def _found(table: LakeTable, key: str, what: Any) -> FirnError:
    return FirnError(f"{what} is still in {table.bucket.uri(key)}.")


def _search_parquet(table: LakeTable, blob: Blob, word: str, since: datetime, until: datetime) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    key = blob.info.key
    file = pq.ParquetFile(pa.BufferReader(blob.data))
    read = file.read()
    for name, column in zip(read.column_names, read.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            inside = pc.and_(pc.greater_equal(column, since), pc.less(column, until))
            if pc.any(inside).as_py():
                raise _found(table, key, f"{since:%B %Y} (in {name})")
        elif pa.types.is_string(column.type) and pc.any(pc.match_substring(column, word)).as_py():
            raise _found(table, key, word)
    for value in _footer_values(file.metadata):
        if value == word or (isinstance(value, datetime) and since <= value < until):
            raise _found(table, key, f"{value} (in its statistics)")
    return int(read.num_rows)


def _footer_values(metadata: Any) -> Iterable[Any]:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield from (statistics.min, statistics.max)
