"""The answer of a statement that isn't a query: rows that are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.journal.model import ColumnTypes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Outcome:
    """The one row that a statement gives; None where nobody counted."""

    op: str
    version: str | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_added: int | None = None
    files_removed: int | None = None
    foreign_files: int | None = None

    def rows(self) -> FixedRows:
        columns = {one.name: "VARCHAR" if one.name in ("op", "version") else "BIGINT" for one in fields(self)}
        return FixedRows(pa.Table.from_pylist([asdict(self)], arrow_schema(columns)), columns, self)


class FixedRows:
    """Rows in memory, as a `BoundQuery`."""

    lazy = False
    kept = True
    warnings = ()

    def __init__(self, rows: pa.Table, columns: ColumnTypes, outcome: Outcome | None = None) -> None:
        self._rows, self.columns, self.outcome = rows, columns, outcome
        self.versions: dict[str, str] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches()

    def frame(self, session: Callable[[], SparkSession]) -> DataFrame:
        from firn.spark.frames import frame_of_table

        return frame_of_table(self._rows, self.columns, session())

    def count(self) -> int:
        return int(self._rows.num_rows)

    def head(self, rows: int) -> pa.Table:
        return self._rows.slice(0, rows)

    def explain(self) -> str:
        return "rows in memory\n"
