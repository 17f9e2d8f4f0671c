"""Reads of tables as DataFrames: by Spark's own reader where a kind has a way, else units packed for Python tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.errors import ObjectNotFoundError, SnapshotTooOldError
from firn.journal.model import ColumnTypes
from firn.reads import TableRead, Unit
from firn.spark.session.packing import bin_count, pack
from firn.spark.session.runner import BROADCAST_BYTES
from firn.spark.session.session import ARROW_BATCH_ROWS, is_connect, slots
from firn.spark.session.types import recast, spark_arrow_schema, spark_schema
from firn.spark.session.worker import settle_imports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def packed(units: Sequence[Unit], slots: int, most: int | None = None) -> list[list[Any]]:
    """Units shared out among tasks, the heaviest task first: no more tasks than pay, but with `most` so many that
    none weighs much more than that."""
    weights = [unit.weight for unit in units]
    count = bin_count(weights, slots)
    if most is not None:
        count = max(count, min(len(weights), sum(weights) // most))
    return [[units[index].work for index in one] for one in pack(weights, count)]


def frame_of_table(rows: pa.Table, columns: ColumnTypes, spark: SparkSession) -> DataFrame:
    """Rows at hand, in these DuckDB types."""
    schema = spark_schema(columns)
    return spark.createDataFrame(recast(rows, spark_arrow_schema(schema)), schema)


def frame_of_tasks(read: TableRead, units: Sequence[Unit], spark: SparkSession) -> DataFrame:
    """The rows of units, read by Python tasks."""
    schema = spark_schema(read.columns)
    wanted = spark_arrow_schema(schema)
    lean = read.for_tasks()
    bins = packed(units, slots(spark))
    if not bins:
        return spark.createDataFrame([], schema)
    work: Any = bins
    if not is_connect(spark):
        from pyspark import cloudpickle

        if len(cloudpickle.dumps(bins)) > BROADCAST_BYTES:
            work = spark.sparkContext.broadcast(bins)

    def read_bins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from firn.spark.frames import handed_over

        mine = getattr(work, "value", work)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from handed_over(lean, mine[number], wanted)

    n = len(bins)
    frame: DataFrame = spark.range(0, n, 1, n).mapInArrow(read_bins, schema)
    return frame


def frame_of_rows(read: TableRead, spark: SparkSession) -> DataFrame:
    """For a store in this process's memory: the rows travel with the plan."""
    schema = spark_schema(read.columns)
    wanted = spark_arrow_schema(schema)
    works = [unit.work for unit in read.units()]
    tables = [recast(rows, wanted) for rows in read.rows(works)] if works else []
    rows = pa.concat_tables(tables) if tables else wanted.empty_table()
    return spark.createDataFrame(rows, schema)


def handed_over(read: TableRead, works: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """In a worker: the rows of units in exactly `schema`, in batches of at most 131,072 rows."""
    try:
        yield from _batches(read.rows(works), schema)
    except ObjectNotFoundError as error:
        raise SnapshotTooOldError(
            f"a file of {read.table} is gone ({error}): the table was swept since this DataFrame was made. Make "
            f"it again, or keep old versions for longer, by {read.kept_by}."
        ) from error
    finally:
        settle_imports()


def _batches(each: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in each:
        yield from recast(rows, schema).to_batches(max_chunksize=ARROW_BATCH_ROWS)
