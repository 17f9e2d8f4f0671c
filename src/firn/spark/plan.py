"""Spark's questions to a kind of table: a read's DataFrame, a plan of its changes, a follower, the sink's table.

Each kind's answers stand in `firn.spark.<kind>.kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from firn.journal.model import ColumnTypes
from firn.kinds import part_of
from firn.reads import TableRead, plan_read
from firn.spark.frames import frame_of_rows, frame_of_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from firn.lake.table import LakeTable
    from firn.spark.session.options import SourceOptions


class TableFollower(Protocol):
    """How a stream follows a table of some kind. Offsets are JSON that Spark keeps in its checkpoint."""

    def beginning(self, options: SourceOptions) -> dict[str, Any]:
        """Where a stream begins, from the options alone: Spark asks more than once, and keeps the answer late."""
        ...

    def target(self) -> Any:
        """Where the table stands now, for a stream that ends there."""
        ...

    def advance(self, start: dict[str, Any], most: int | None, target: Any) -> dict[str, Any]:
        """The next offset after `start`, at most `most` files on; `start` itself if there is nothing new."""
        ...

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> TableRead | None:
        """The rows that came between two offsets; None if there are none."""
        ...


class SparkKind(Protocol):
    """One kind of table on Spark. `table` is always one of the kind's own."""

    def fields(self, schema: StructType) -> ColumnTypes | None:
        """The columns that a user's schema for Spark gives to a table that may not have declared its own."""
        return None

    def frame(
        self,
        table: Any,
        session: Callable[[], SparkSession],
        *,
        columns: Sequence[str] | None,
        where: str | None,
        at: Any,
    ) -> DataFrame:
        """The DataFrame of a read, in the session that `session` finds or starts."""
        return frame_of(plan_read(table, columns=columns, where=where, at=at), session())

    def dataframe(self, read: TableRead, spark: SparkSession) -> DataFrame:
        """The rows of a read in a bucket that Spark's tasks reach, lazily: by Spark's own reader where it gives the
        same rows."""
        return frame_of_tasks(read, read.units(), spark)

    def load(self, table: Any, *args: Any, **options: Any) -> Any:
        """Put a DataFrame's rows into the table: `load(table, frame, …)`, with the kind's own options and result."""
        ...

    def changes(
        self, table: Any, *, columns: Sequence[str] | None, where: str | None, since: Any, upto: Any
    ) -> TableRead:
        """Plan a read of each change between two versions. `InvalidInputError` where the table tells none."""
        ...

    def follow(self, table: Any, plan: TableRead, *, narrowed: bool) -> TableFollower:
        """Follow the table in a stream, reading what `plan` does of what comes.

        Args:
            plan: of `firn.reads.plan_read`, or of `changes`.
            narrowed: the user has named the columns, and others may come.
        """
        ...

    def sink(self, table: Any) -> LakeTable:
        """The table, if Spark's writers can append files to it; else `UnsupportedError`, with what to do instead."""
        ...


def spark_kind(table: Any) -> SparkKind:
    """The Spark part of a table's kind, or of a read's."""
    return cast("SparkKind", part_of(table.kind, "spark"))


def frame_of(read: TableRead, spark: SparkSession) -> DataFrame:
    """All of a read, of any kind, as a lazy DataFrame."""
    if not read.bucket.capabilities.shareable:
        return frame_of_rows(read, spark)
    return spark_kind(read).dataframe(read, spark)
