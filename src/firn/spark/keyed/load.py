"""Bulk load of a Spark DataFrame into a keyed table: SSTs straight from executors, one commit on the driver.

Spark sorts the rows by key, ranges of keys to tasks; its order of the types that keys can have is that of the
encoded keys, of UUIDs that of their text in lower case. `firn.keyed.load.bulk_load` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.keyed.load.bulk_load import BulkLoad, LoadContext, load_task
from firn.keyed.results import LoadReport
from firn.names import fold
from firn.spark.native.parquet import quote
from firn.spark.session.partitions import each_partition
from firn.spark.session.runner import SparkRunner
from firn.spark.session.session import ARROW_BATCH_CONF, ARROW_BATCH_ROWS, conf
from firn.spark.session.types import incoming_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firn.journal.manifest.model import SSTInfo
    from firn.journal.model import ColumnTypes
    from firn.keyed.context import KeyedContext

PARTITIONS_CONF = "spark.sql.shuffle.partitions"
INITIAL_CONF = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"


def load_dataframe(table: KeyedContext, frame: DataFrame) -> LoadReport:
    """Put a DataFrame's rows into the table, in place of what their keys had; all of them become visible at once.

    If rows share a key, one of them stays; which one is undefined. The load takes the compactor's epoch, and compacts
    L0 first, on Spark too. Spark decides by the size of the rows how many tasks sort and write them.

    Raises:
        InvalidInputError: a column that the table or the DataFrame lacks, a value that doesn't fit, or a key
            that is null where it is bytes. Nothing is loaded then.
        UnsupportedError: the table lives in this process only.
        FencedError: another compactor has taken over.

    Cost: that of compacting L0; 1 PUT an SST, at least one a task; 2 PUTs for the commit.
    """
    from pyspark.sql import functions as F  # noqa: N812

    spark = frame.sparkSession
    keys = table.keys.columns or {"key": "BLOB"}
    order = [F.lower(quote(name)) if kind == "UUID" else F.col(quote(name)) for name, kind in keys.items()]
    batches = conf(spark, {ARROW_BATCH_CONF: str(ARROW_BATCH_ROWS)})
    with BulkLoad(table, parts=_partitions(spark), runner=SparkRunner(spark)) as load, batches:
        values = load.context.definition.values.columns or {"value": "BLOB"}
        arranged = _arranged(table.name, frame, keys, values)
        ordered = arranged.repartitionByRange(*order).sortWithinPartitions(*order)
        work = partial(_load_part, table.bucket, load.context)
        parts = each_partition(ordered, table.bucket, work, description="firn: load")
        return load.commit([ssts for _, ssts in sorted(parts, key=lambda part: part[0])])


def _arranged(name: str, frame: DataFrame, keys: ColumnTypes, values: ColumnTypes) -> DataFrame:
    """The DataFrame's columns under the table's spelling."""
    from pyspark.sql import functions as F  # noqa: N812

    known = {**keys, **values}
    given = incoming_columns(frame.schema, known)
    folded = {fold(column): column for column in given}
    spelled = {fold(column): column for column in known}
    for column in given:
        if fold(column) not in spelled:
            raise InvalidInputError(f"{name} has no column {column!r}; it has: {', '.join(known)}.")
    for column in keys:
        if fold(column) not in folded:
            raise InvalidInputError(f"the DataFrame has no column {column!r}, which is part of {name}'s key.")
    return frame.select(*[F.col(quote(column)).alias(spelled[fold(column)]) for column in given])


def _partitions(spark: SparkSession) -> int:
    """How many partitions a shuffle has at most."""
    given = (spark.conf.get(PARTITIONS_CONF, "200"), spark.conf.get(INITIAL_CONF, None))
    return max(int(number) for number in given if number is not None)


def _load_part(
    bucket: Bucket, context: LoadContext, batches: Iterator[pa.RecordBatch]
) -> tuple[int, list[SSTInfo]]:
    """In a worker: write one partition's rows; its number, and the files."""
    from pyspark import TaskContext

    task: Any = TaskContext.get()
    part = task.partitionId()
    return part, load_task(bucket, context, part, task.taskAttemptId(), batches)
