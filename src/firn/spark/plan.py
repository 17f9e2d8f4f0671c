"""Spark's questions to a kind of table: a plan of a read, of its changes, a follower for streams, the sink's table.

Each kind's answers stand in `firn.spark.<kind>.kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from firn.journal.model import ColumnTypes
from firn.kinds import part_of
from firn.spark.reads import QueryMoment, TableRead

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

    def read(
        self,
        table: Any,
        *,
        columns: Sequence[str] | None,
        where: str | None,
        at: Any,
        moment: QueryMoment | None,
        fields: ColumnTypes | None,
    ) -> TableRead:
        """See `plan_read`."""
        ...

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
        plan = self.read(table, columns=columns, where=where, at=at, moment=None, fields=None)
        return plan.frame(session())

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
            plan: a plan of `read` or of `changes`.
            narrowed: the user has named the columns, and others may come.
        """
        ...

    def sink(self, table: Any) -> LakeTable:
        """The table, if Spark's writers can append files to it; else `UnsupportedError`, with what to do instead."""
        ...


def spark_kind(table: Any) -> SparkKind:
    return cast("SparkKind", part_of(table.kind, "spark"))


def plan_read(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    at: Any = None,
    moment: QueryMoment | None = None,
    fields: ColumnTypes | None = None,
) -> TableRead:
    """Pin a version of a table, of any kind. Cost: the snapshot's requests.

    Args:
        moment: the tables of one query that have a log in common are read at one commit.
        fields: columns that are wanted of a table that may not have declared any.
    """
    return spark_kind(table).read(table, columns=columns, where=where, at=at, moment=moment, fields=fields)
