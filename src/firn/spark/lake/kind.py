"""Lake tables, as Spark's source and queries ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from firn.errors import InvalidInputError
from firn.journal.model import Namer, Snapshot
from firn.lake.context import LakeContext, Written
from firn.lake.plan.read import LakeRead
from firn.lake.read.scan import Scan
from firn.lake.table import LakeTable
from firn.reads import TableRead
from firn.spark.lake.append import stage_dataframe, write_dataframe
from firn.spark.lake.follow import LakeFollower
from firn.spark.lake.scan import read_to_spark
from firn.spark.plan import SparkKind, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LakeOnSpark(SparkKind):
    def frame(
        self,
        table: LakeContext,
        session: Callable[[], SparkSession],
        *,
        columns: Sequence[str] | None,
        where: str | None,
        at: Snapshot,
    ) -> DataFrame:
        scan = Scan(table, columns=columns, where=where, snapshot=at)
        return frame_of(LakeRead.of(scan), session())

    def dataframe(self, read: TableRead, spark: SparkSession) -> DataFrame:
        assert isinstance(read, LakeRead)
        return read_to_spark(read, spark)

    def load(
        self,
        table: LakeContext,
        frame: DataFrame,
        *,
        namer: Namer,
        query: str | None = None,
        by: Snapshot | None = None,
        staged: bool = False,
    ) -> Written:
        if staged:
            return stage_dataframe(table, frame, namer)
        return write_dataframe(table, frame, namer, query=query, by=by)

    def changes(
        self, table: LakeTable, *, columns: Sequence[str] | None, where: str | None, since: Any, upto: Any
    ) -> TableRead:
        raise InvalidInputError(f"changes are told of keyed and record tables; {table.name} is a lake table.")

    def follow(self, table: LakeTable, plan: TableRead, *, narrowed: bool) -> LakeFollower:
        assert isinstance(plan, LakeRead)
        return LakeFollower(table, plan, narrowed=narrowed)

    def sink(self, table: LakeTable) -> LakeTable:
        return table


PART: SparkKind = LakeOnSpark()
