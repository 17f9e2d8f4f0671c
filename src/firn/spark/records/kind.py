"""Record tables, as Spark's source and queries ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.reads import TableRead
from firn.records.load.load import RecordLoadReport
from firn.records.plan.read import RecordsRead
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.spark.plan import SparkKind
from firn.spark.records.changes import RecordChangesRead, RecordFollower
from firn.spark.records.load import load_dataframe
from firn.spark.session.types import incoming_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class RecordsOnSpark(SparkKind):
    def fields(self, schema: StructType) -> ColumnTypes:
        return incoming_columns(schema, {})

    def load(
        self, table: RecordTable | RowTable, frame: DataFrame, *, id: str, batch: int
    ) -> RecordLoadReport:
        return load_dataframe(table, frame, id=id, batch=batch)

    def changes(
        self,
        table: RecordTable | RowTable,
        *,
        columns: Sequence[str] | None,
        where: str | None,
        since: Any,
        upto: Any,
    ) -> RecordChangesRead:
        if isinstance(table, RowTable):
            raise InvalidInputError(
                f"changes are told of keyed and record tables; {table.name} has isolation='row'."
            )
        return RecordChangesRead.of(table, columns=columns, where=where, since=since, upto=upto)

    def follow(self, table: RecordTable | RowTable, plan: TableRead, *, narrowed: bool) -> RecordFollower:
        assert isinstance(plan, RecordsRead | RecordChangesRead)
        return RecordFollower(table, plan)

    def sink(self, table: RecordTable | RowTable) -> NoReturn:
        raise UnsupportedError(
            f"{table.name} is a record table, whose rows change in transactions or one by one: load the DataFrame "
            "with db.table(name).load(frame); of a stream, each batch so, by foreachBatch."
        )


PART: SparkKind = RecordsOnSpark()
