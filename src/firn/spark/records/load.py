"""Load a Spark DataFrame into a record table: each task commits and applies the rows of its partition.

Tasks that run at once read one another's commits, as any two clients do. A task that Spark tries again puts the same
rows once more, which comes to the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.errors import FirnError, InvalidInputError
from firn.records.apply.apply import settle
from firn.records.definition.definition import RecordDefinition
from firn.records.load.load import LoadedPart, RecordLoadReport, load
from firn.records.load.rows import load_rows
from firn.records.objects.store import RecordStore
from firn.records.row_tables import RowTable
from firn.spark.session.job import run_job
from firn.spark.session.session import ARROW_BATCH_CONF, conf
from firn.spark.session.types import columns_of_schema
from firn.spark.session.worker import settle_imports

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
    id: str
    batch: int


class RecordLoadOutcome(NamedTuple):
    """The result of a task: an error that a retry can't mend comes as a value."""

    loaded: LoadedPart
    error: FirnError | None
    counters: dict[str, int]


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
    context = RecordLoadContext(database, table.prefix, definition, id, batch)
    outcomes = _run(frame, table.bucket, context)
    for outcome in outcomes:
        table.bucket.counters.add(**outcome.counters)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    rows = sum(outcome.loaded.rows for outcome in outcomes)
    commits = tuple(sorted(n for outcome in outcomes for n in outcome.loaded.commits))
    if isinstance(table, RowTable):
        return RecordLoadReport(rows, 0, None)
    store = table.session.store
    for number in commits:
        store.log.mark_applied(number)
    # To read what tasks have committed, one record after another, would bring all rows here.
    store.log.forget()
    settle(store)
    return LoadedPart(rows, commits).report(store.log.head().number)


def _run(frame: DataFrame, bucket: Bucket, context: RecordLoadContext) -> list[RecordLoadOutcome]:
    names = frame.columns
    # mapInArrow takes a dot in a column's name for a field of a struct.
    frame = frame.toDF(*[f"c{number}" for number in range(len(names))])

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from firn.spark.records.load import load_partition

        outcome = load_partition(bucket, context, (batch.rename_columns(names) for batch in batches))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(outcome)], pa.binary())], ["r"])

    with conf(frame.sparkSession, {ARROW_BATCH_CONF: str(BATCH_ROWS)}):
        collect = frame.mapInArrow(load, "r binary").collect
        rows: list[Any] = run_job(frame.sparkSession, collect, description="firn: load")
    return [pickle.loads(row["r"]) for row in rows]


def load_partition(
    bucket: Bucket, context: RecordLoadContext, batches: Iterator[pa.RecordBatch]
) -> RecordLoadOutcome:
    """In a worker: load one partition's rows."""
    before = bucket.counters.as_dict()
    loaded, error = LoadedPart(0, ()), None
    definition = context.definition
    rows = load_rows(batches, definition.documents, id=context.id)
    try:
        if definition.isolation == "row":
            table = RowTable(bucket, context.prefix, definition)
            loaded = LoadedPart(table.load_rows(rows, batch=context.batch), ())
        else:
            store = RecordStore(
                bucket, context.database, clock=SystemClock(), definitions={definition.name: definition}.get
            )
            loaded = load(store, definition.name, rows, batch=context.batch)
    except FirnError as failure:
        error = failure
    settle_imports()
    return RecordLoadOutcome(loaded, error, bucket.counters.since(before))
