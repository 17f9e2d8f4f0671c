"""One table as Spark's data source names it: opened by its options, planned, or made for a write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from firn.errors import InvalidInputError, TableExistsError, TableNotFoundError, UnsupportedError
from firn.lake.table import LakeTable
from firn.reads import TableRead, plan_read
from firn.spark.plan import spark_kind
from firn.spark.session.options import SourceOptions
from firn.spark.session.types import incoming_columns, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class SourceTable:
    """The table that a data source's options name."""

    def __init__(self, options: SourceOptions, connect: Callable[..., Any]) -> None:
        self.options = options
        self.connect = connect
        self.pinned: TableRead | None = None

    def schema(self) -> StructType:
        """The columns that a read gives; pins the snapshot."""
        if self.pinned is None:
            self.pinned = self.plan()
        return spark_schema(self.pinned.columns)

    def plan(self, schema: StructType | None = None) -> TableRead:
        """The table's newest version, or the one that the options ask for, less what they leave out.

        Args:
            schema: the one that the user has given to Spark.
        """
        o = self.options
        table = self.open()
        kind = spark_kind(table)
        if o.changes:
            return kind.changes(table, columns=o.columns, where=o.where, since=o.since, upto=o.at)
        fields = None if schema is None else kind.fields(schema)
        return plan_read(table, columns=o.columns, where=o.where, at=o.at, fields=fields)

    def open(self) -> Any:
        """The table, of whatever kind, reachable from Spark's workers."""
        table = self._database().table(self.options.table)
        if not table.bucket.capabilities.shareable:
            raise UnsupportedError(f"{self.options.url} lives in another process, out of Spark's reach.")
        return table

    def open_or_create(self, schema: StructType) -> LakeTable:
        """The table that a write goes to; made, as Spark's own sinks do, if there is none.

        Raises:
            InvalidInputError: it is kept by writers' catalogs, and no writer is named.
            UnsupportedError: a keyed or record table.
        """
        try:
            table = self.open()
        except TableNotFoundError:
            journal = self.options.journal or "leaderless"
            self._check_writer(journal)
            with suppress(TableExistsError):  # somebody else may be first
                self._database().create_table(
                    self.options.table,
                    schema=incoming_columns(schema, {}),
                    partition_by=self.options.partition_by,
                    sort_by=self.options.sort_by,
                    journal=journal,
                )
            table = self.open()
        table = spark_kind(table).sink(table)
        self._check_writer(table.context.definition.journal)
        return table

    def _check_writer(self, journal: str) -> None:
        if journal == "writer" and self.options.writer is None:
            raise InvalidInputError(
                f"{self.options.table} is kept by writers' catalogs, and each process that writes needs an id of its "
                'own: add .option("writer", ID), with an id that no other process uses.'
            )

    def _database(self) -> Any:
        o = self.options
        return self.connect(o.url, options=dict(o.store), writer=o.writer, strict=o.strict)
