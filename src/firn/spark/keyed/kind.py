"""Keyed tables, as Spark's source and queries ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from firn.errors import UnsupportedError
from firn.keyed.plan.read import KeyedRead
from firn.keyed.results import LoadReport
from firn.keyed.table import KeyedTable
from firn.reads import TableRead
from firn.spark.keyed.changes import ChangesRead, KeyedFollower
from firn.spark.keyed.load import load_dataframe
from firn.spark.keyed.scan import read_to_spark
from firn.spark.plan import SparkKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KeyedOnSpark(SparkKind):
    def dataframe(self, read: TableRead, spark: SparkSession) -> DataFrame:
        if isinstance(read, KeyedRead):
            return read_to_spark(read, spark)
        return super().dataframe(read, spark)

    def load(self, table: KeyedTable, frame: DataFrame) -> LoadReport:
        return load_dataframe(table, frame)

    def changes(
        self, table: KeyedTable, *, columns: Sequence[str] | None, where: str | None, since: Any, upto: Any
    ) -> ChangesRead:
        return ChangesRead.of(table, columns=columns, where=where, since=since, upto=upto)

    def follow(self, table: KeyedTable, plan: TableRead, *, narrowed: bool) -> KeyedFollower:
        assert isinstance(plan, KeyedRead | ChangesRead)
        return KeyedFollower(table, plan)

    def sink(self, table: KeyedTable) -> NoReturn:
        raise UnsupportedError(
            f"{table.name} is a keyed table, whose files are sorted by key throughout: load the DataFrame with "
            "db.table(name).load(frame); of a stream, each batch so, by foreachBatch."
        )


PART: SparkKind = KeyedOnSpark()
