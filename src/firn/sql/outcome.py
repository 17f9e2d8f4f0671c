"""The answer of a statement that isn't a query: rows that are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

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
    report: Mapping[str, bool | int | str | None] = field(default_factory=dict, hash=False)
    """Of CALL what else the verb returns, by name: of names of objects, how many there are."""

    def rows(self) -> FixedRows:
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "report"}
        columns = {name: "VARCHAR" if name in ("op", "version") else "BIGINT" for name in told}
        columns |= {name: _type(value) for name, value in self.report.items()}
        rows = pa.Table.from_pylist([{**told, **self.report}], arrow_schema(columns))
        return FixedRows(rows, columns, self)


def told_by(op: str, returned: Any) -> Outcome:
    """The row of CALL for what the verb returned."""
    if isinstance(returned, int):  # a lake table's checkpoint
        return Outcome(op, report={"logs": returned})
    found: dict[str, Any] = {
        one.name: _figure(getattr(returned, one.name))
        for one in fields(returned)
        if one.repr and not one.name.startswith("_")
    }
    found.pop("op", None)
    if op in ("copy", "register"):
        found["rows_inserted"] = found.pop("rows")
    if op == "register":
        found["files_added"] = found.pop("files")
    own = {one.name for one in fields(Outcome)} & found.keys()
    told = {name: found.pop(name) for name in own}
    return Outcome(op, **told, report=found)


def _figure(value: Any) -> bool | int | str | None:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return len(value)


def _type(value: bool | int | str | None) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    return "VARCHAR" if isinstance(value, str) else "BIGINT"


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
