"""Load a Spark DataFrame into a record table: each task commits and applies the rows of its partition.

Tasks that run at once read one another's commits, as any two clients do. A task that Spark tries again puts the same
rows once more, which comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.errors import InvalidInputError
from firn.records.apply.apply import settle
from firn.records.definition.definition import RecordDefinition
from firn.records.documents.documents import Documents
from firn.records.load.load import LoadedPart, RecordLoadReport, load
from firn.records.load.rows import load_rows
from firn.records.objects.store import RecordStore
from firn.records.row_tables import RowTable
from firn.spark.session.partitions import each_partition
from firn.spark.session.session import ARROW_BATCH_CONF, conf
from firn.spark.session.types import columns_of_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.records.table import RecordTable

BATCH_ROWS = 10_000
"""Rows that Spark hands over at once: they become Python values, which are large."""


@dataclass(frozen=True)
class RecordLoadContext:
    """All that the tasks of one load share; picklable. `database` and `prefix` are the keys' beginnings of the
    database and of the table."""

    database: str
    prefix: str
    definition: RecordDefinition
    documents: Documents
    id: str
    batch: int


def load_dataframe(
    table: RecordTable | RowTable, frame: DataFrame, *, id: str, batch: int
) -> RecordLoadReport:
    """See `RecordTable.load`. As many tasks as the DataFrame has partitions: one that takes a second pays."""
    if id not in columns_of_schema(frame.schema):
        raise InvalidInputError(
            f"the DataFrame has no column {id} with the rows' ids, it has {', '.join(frame.columns)}: name theirs "
            "by id=."
        )
    definition = table.definition
    database = table.prefix[: -len(definition.name)].rstrip("/")
    context = RecordLoadContext(database, table.prefix, definition, _documents(table), id, batch)
    work = partial(_load_part, table.bucket, context)
    with conf(frame.sparkSession, {ARROW_BATCH_CONF: str(BATCH_ROWS)}):
        parts = each_partition(frame, table.bucket, work, description="firn: load")
    rows = sum(part.rows for part in parts)
    commits = tuple(sorted(number for part in parts for number in part.commits))
    if isinstance(table, RowTable):
        return RecordLoadReport(rows, 0, None)
    store = table.session.store
    for number in commits:
        store.log.mark_applied(number)
    # To read what tasks have committed, one record after another, would bring all rows here.
    store.log.forget()
    settle(store)
    return LoadedPart(rows, commits).report(store.log.head().number)


def _documents(table: RecordTable | RowTable) -> Documents:
    """What documents may hold now. As the end of the log is found, or 1 GET at most."""
    if isinstance(table, RowTable):
        return table.latest.now().documents
    store = table.session.store
    return store.table(table.name, store.log.head().catalog).documents


def _load_part(bucket: Bucket, context: RecordLoadContext, batches: Iterator[pa.RecordBatch]) -> LoadedPart:
    """In a worker: load one partition's rows."""
    definition = context.definition
    rows = load_rows(batches, context.documents, id=context.id)
    if definition.isolation == "row":
        table = RowTable(bucket, context.prefix, definition)
        return LoadedPart(table.load_rows(rows, batch=context.batch), ())
    store = RecordStore(
        bucket, context.database, clock=SystemClock(), definitions={definition.name: definition}.get
    )
    return load(store, definition.name, rows, batch=context.batch)
