"""A scan as a Spark DataFrame: read by Spark's own Parquet reader where it can, by Python tasks elsewhere.

Spark's reader prunes columns and row groups itself and is three to four times faster for aggregations. Tasks
read anywhere (no jars) and anything (types and names that Spark's reader fails on, or silently misreads);
one DataFrame may be a union of both. Either way it is bound to one snapshot, whatever happens later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.journal.model import DataFile
from firn.lake.read import ReadSpec, read_files
from firn.spark.agreement import engines_agree
from firn.spark.native import (
    escape_glob,
    guard,
    hadoop_reads,
    hadoop_uri,
    may_hold_nan,
    quote,
    reads_natively,
)
from firn.spark.packing import bin_count, pack
from firn.spark.runner import BROADCAST_BYTES
from firn.spark.session import (
    ARROW_BATCH_ROWS,
    DISCOVERY_CONF,
    DISCOVERY_THRESHOLD,
    conf,
    is_connect,
    slots,
)
from firn.spark.types import recast, spark_arrow_schema, spark_schema
from firn.spark.worker import settle_imports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firn.lake.scan import Scan

NATIVE_CONF = "spark.firn.nativeScan"
"""Spark setting: `auto` (the default), `always` or `never` use Spark's own Parquet reader."""

# Whatever the session says: a missing file is no empty one, and days before 1582 are proleptic Gregorian.
_READ_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

_UTC = frozenset(("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "Etc/GMT", "UCT", "Zulu"))


@dataclass(frozen=True)
class SparkPlan:
    """Which files Spark reads itself, by path, and which go through tasks. `guarded` are the columns that hide
    from Spark's filters, as some native file may hold a NaN there."""

    native: tuple[str, ...]
    tasks: tuple[DataFile, ...]
    guarded: frozenset[str] = frozenset()


def to_spark(scan: Scan, spark: SparkSession) -> DataFrame:
    """The scan's rows as a lazy DataFrame, bound to the scan's snapshot.

    It stays readable as long as the snapshot does: for the table's tombstone_grace after the last commit that
    replaced one of its files.

    Raises:
        UnsupportedError: a column whose type Spark lacks.

    Cost: the snapshot's requests. Spark's reader asks for each file's footer and column chunks; a task makes
    1 GET a small file, or a few ranged ones.
    """
    return files_to_spark(scan, scan.files(), spark)


def files_to_spark(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> DataFrame:
    """Like `to_spark`, of these files of the scan's snapshot only."""
    schema = spark_schema(scan.columns)
    if not scan.table.bucket.capabilities.shareable:
        # A store in this process's memory: the rows travel with the plan.
        return spark.createDataFrame(recast(scan.to_arrow(), spark_arrow_schema(schema)), schema)
    plan = plan_files(scan, files, spark)
    parts = []
    if plan.native:
        parts.append(_native(scan, plan, spark))
    if plan.tasks:
        parts.append(_tasks(scan, plan.tasks, spark))
    if not parts:
        return spark.createDataFrame([], schema)
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def plan_files(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> SparkPlan:
    """Decide for each file who reads it. Pure but for the settings it asks the session for."""
    paths = _native_paths(scan, files, spark)
    if paths is None or not _predicate_runs_in_spark(scan, spark):
        return SparkPlan((), tuple(files))
    needed = needed_columns(scan)
    native, tasks = [], []
    guarded: set[str] = set()
    for file, path in zip(files, paths, strict=True):
        if reads_natively(file, needed, scan.table.data_prefix):
            native.append(path)
            guarded |= may_hold_nan(file, needed)
        else:
            tasks.append(file)
    return SparkPlan(tuple(native), tuple(tasks), frozenset(guarded))


def needed_columns(scan: Scan) -> dict[str, str]:
    """The scan's columns and those its predicate reads, with the table's types."""
    needed = dict(scan.columns)
    if scan.predicate is not None:
        needed.update({name: scan.snapshot.columns[name] for name in scan.predicate.columns})
    return needed


def _predicate_runs_in_spark(scan: Scan, spark: SparkSession) -> bool:
    """Whether Spark's answer to the predicate is DuckDB's. It compares instants in the session's time zone."""
    if scan.predicate is None:
        return True
    known = scan.snapshot.columns
    zoned = any("TIME ZONE" in known[name] for name in scan.predicate.columns)
    if zoned and spark.conf.get("spark.sql.session.timeZone", "") not in _UTC:
        return False
    return engines_agree(scan.predicate.ast, known)


def _native_paths(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> list[str] | None:
    """The files' paths as Spark's Hadoop names them, or None where it can't reach them."""
    mode = spark.conf.get(NATIVE_CONF, "auto")
    if mode not in ("auto", "always", "never"):
        raise InvalidInputError(f"{NATIVE_CONF} is {mode!r}; it can be auto, always or never.")
    if mode == "never" or not files or not scan.columns:
        return None
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        return None  # a file that spells a column otherwise would read as null
    bucket = scan.table.bucket
    local = [bucket.local_path(file.path) for file in files]
    if all(path is not None for path in local):
        return [escape_glob(path) for path in local if path is not None]
    uris = [hadoop_uri(bucket, file.path) for file in files]
    if mode == "always" or hadoop_reads(spark, bucket.url, uris[0]):
        return [escape_glob(uri) for uri in uris]
    return None


def _native(scan: Scan, plan: SparkPlan, spark: SparkSession) -> DataFrame:
    needed = needed_columns(scan)
    schema = spark_schema(needed)
    if is_connect(spark):
        # Planned on the server at each action, so the setting has to stay; the session is this client's own.
        if int(spark.conf.get(DISCOVERY_CONF, "32")) < DISCOVERY_THRESHOLD:
            spark.conf.set(DISCOVERY_CONF, str(DISCOVERY_THRESHOLD))
        planning: Any = nullcontext()
    else:
        planning = conf(spark, {DISCOVERY_CONF: str(DISCOVERY_THRESHOLD)})
    with planning:
        frame = spark.read.schema(schema).options(**_READ_OPTIONS).parquet(*plan.native)
    if plan.guarded:
        columns = [
            guard(name, kind) if name in plan.guarded else quote(name) for name, kind in needed.items()
        ]
        frame = frame.selectExpr(*columns)
    if scan.predicate is not None:
        frame = frame.where(scan.predicate.spark_sql)
    return frame.select(*[quote(name) for name in scan.columns])


def _tasks(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> DataFrame:
    schema = spark_schema(scan.columns)
    wanted = spark_arrow_schema(schema)
    weights = [file.size for file in files]
    bins = [
        [without_stats(files[index]) for index in one]
        for one in pack(weights, bin_count(weights, slots(spark)))
    ]
    bucket, spec, name = scan.table.bucket, scan.read_spec(), scan.table.name
    work: Any = bins
    if not is_connect(spark):
        from pyspark import cloudpickle

        if len(cloudpickle.dumps(bins)) > BROADCAST_BYTES:
            work = spark.sparkContext.broadcast(bins)

    def read_bins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from firn.spark.scan import read_rows

        mine = getattr(work, "value", work)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_rows(bucket, mine[number], spec, wanted, name)

    n = len(bins)
    frame: DataFrame = spark.range(0, n, 1, n).mapInArrow(read_bins, schema)
    return frame


def without_stats(file: DataFile) -> DataFile:
    """What a task needs of a file: planning has used its statistics, and they are most of its size."""
    if file.extra is None or "stats" not in file.extra:
        return file
    return file._replace(extra={key: value for key, value in file.extra.items() if key != "stats"})


def read_rows(
    bucket: Bucket, files: Sequence[DataFile], spec: ReadSpec, schema: pa.Schema, table: str
) -> Iterator[pa.RecordBatch]:
    """In a worker: the files' rows in exactly `schema`, in batches of at most 131,072 rows."""
    try:
        for rows in read_files(bucket, files, spec):
            yield from recast(rows, schema).to_batches(max_chunksize=ARROW_BATCH_ROWS)
    except ObjectNotFoundError as error:
        raise SnapshotTooOldError(
            f"a file of {table} is gone ({error}): the table was swept since this DataFrame was made. Make "
            "it again, or raise the table's tombstone_grace."
        ) from error
    finally:
        settle_imports()
