"""Proof that erased rows are gone: every object that is left of a table is read, and searched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError

if TYPE_CHECKING:
    from firn.lake.table import LakeTable


@dataclass
class Searched:
    """The objects that were looked through."""

    objects: int = 0
    parquet_files: int = 0
    rows: int = 0


def search_everything(table: LakeTable, *, word: str, since: datetime, until: datetime) -> Searched:
    """Look in every object below the table for a word, and for times from `since` to before `until`.

    Parquet files are read whole: every value, and the statistics in their footers. All other objects, which
    are text, are searched as it stands, for the month as well.

    Raises:
        FirnError: something was found; the message names the object.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = Searched()
    keys = [info.key for info in table.bucket.list(f"{table.prefix}/").objects]
    for key, blob in zip(keys, table.bucket.get_many(keys), strict=True):
        assert blob is not None
        found.objects += 1
        values: list[Any] = [blob.data.decode(errors="replace")]
        if key.endswith(".parquet"):
            file = pq.ParquetFile(pa.BufferReader(blob.data))
            values = [v for column in file.read().columns for v in column.to_pylist()]
            values += _statistics(file.metadata)
            found.parquet_files += 1
            found.rows += file.metadata.num_rows
        for value in values:
            text = isinstance(value, str) and (word in value or f"{since:%Y-%m}" in value)
            if text or (isinstance(value, datetime) and since <= value < until):
                raise FirnError(f"{word} or {since:%B %Y} is still in {table.bucket.uri(key)}.")
    return found


def _statistics(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield from (statistics.min, statistics.max)
