"""Reads of one table by Spark: a plan bound to a version, for every kind of table.

The data source, streams and SQL narrow a plan and hand its rows to Spark, and know no more of a table than this. A
kind of table joins by a `TableRead` of its own and its part of `firn.spark.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import ObjectNotFoundError, SnapshotTooOldError
from firn.journal.model import ColumnTypes
from firn.predicate.predicate import Predicate
from firn.spark.session.packing import bin_count, pack
from firn.spark.session.runner import BROADCAST_BYTES
from firn.spark.session.session import ARROW_BATCH_ROWS, is_connect, slots
from firn.spark.session.types import recast, spark_arrow_schema, spark_schema
from firn.spark.session.worker import settle_imports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")


class Unit(NamedTuple):
    """The least that a task can read by itself, and the bytes of input that it weighs. Picklable."""

    work: Any
    weight: int


class QueryMoment:
    """The moment of one query: it reads tables that have a log in common at one commit of that log."""

    def __init__(self) -> None:
        self._pinned: dict[int, Any] = {}

    def of(self, log: object, pin: Callable[[], T]) -> T:
        """The value that `pin` has given for the first table of this log."""
        if id(log) not in self._pinned:
            self._pinned[id(log)] = pin()
        found: T = self._pinned[id(log)]
        return found


class TableRead(Protocol):
    """One table at one version: all that planning and tasks need, without the table. Immutable and picklable."""

    @property
    def bucket(self) -> Bucket: ...

    @property
    def table(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def version(self) -> str:
        """The version that is read; empty where a table has none."""
        ...

    @property
    def kept_by(self) -> str:
        """The setting or object that keeps old versions readable for longer, for messages."""
        ...

    @property
    def columns(self) -> ColumnTypes:
        """The columns that a read gives, in order."""
        ...

    @property
    def known(self) -> ColumnTypes:
        """All that predicates may name."""
        ...

    def select(self, names: Sequence[str]) -> TableRead:
        """The same, with these of the known columns only. Names are spelled as the table does."""
        ...

    def where(self, sql: str) -> TableRead:
        """Only the rows for which a further predicate is true."""
        ...

    def pruned(self, predicates: Sequence[Predicate]) -> TableRead:
        """Less what surely holds no row for which all predicates are true; rows that aren't may stay."""
        ...

    def scope(self) -> Hashable:
        """The part that is left to be read. Reads that differ by `pruned` alone give the same rows if it is equal."""
        ...

    def units(self) -> list[Unit]:
        """The units that tasks share. May cost requests, on the driver."""
        ...

    def for_tasks(self) -> TableRead:
        """The read as tasks need it besides their units."""
        ...

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table | pa.RecordBatch]:
        """In a task: the rows of units, with at least the read's columns, none of the pieces empty."""
        ...

    def frame(self, spark: SparkSession) -> DataFrame:
        """All of it as a lazy DataFrame: read natively where Spark's own reader gives the same rows."""
        ...


def packed(units: Sequence[Unit], slots: int, most: int | None = None) -> list[list[Any]]:
    """Units shared out among tasks, the heaviest task first: no more tasks than pay, but with `most` so many that
    none weighs much more than that."""
    weights = [unit.weight for unit in units]
    count = bin_count(weights, slots)
    if most is not None:
        count = max(count, min(len(weights), sum(weights) // most))
    return [[units[index].work for index in one] for one in pack(weights, count)]


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
        from firn.spark.reads import handed_over

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
