"""Plan a read of a table on Spark, of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.journal.model import ColumnTypes
from firn.keyed.table import KeyedTable
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.spark.keyed.read import KeyedRead
from firn.spark.lake.read import LakeRead
from firn.spark.reads import TableRead
from firn.spark.records.read import Moment, RecordsRead


def plan_read(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    at: Any = None,
    moment: Moment | None = None,
    fields: ColumnTypes | None = None,
) -> TableRead:
    """Pin a version of a table, of any kind. Cost: the snapshot's requests.

    Args:
        moment: the record tables of one query, which have a log in common, are read at one commit.
        fields: columns that are wanted of a table that may not have declared any.
    """
    if isinstance(table, RecordTable | RowTable):
        return RecordsRead.of(table, columns=columns, where=where, at=at, moment=moment, fields=fields)
    if isinstance(table, KeyedTable):
        return KeyedRead.of(table, columns=columns, where=where, at=at)
    return LakeRead.of(table.scan(columns=columns, where=where, at=at))
