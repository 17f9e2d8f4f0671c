"""A scan as a Spark DataFrame: read by Spark's own Parquet reader where it can, by Python tasks elsewhere.

Spark's reader prunes columns and row groups itself and is three to four times faster for aggregations. Tasks
read anywhere (no jars) and anything (types and names that Spark's reader fails on, or silently misreads);
one DataFrame may be a union of both. Either way it is bound to one snapshot, whatever happens later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.journal.model import ColumnTypes, DataFile
from firn.lake.deletes import predicates
from firn.lake.latest import LatestSpec, VersionGroup, read_latest
from firn.lake.predicate import Predicate
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


MAX_GROUPS = 8
"""Spark plans each set of soft deletes by itself: files of rarer sets go through tasks."""


@dataclass(frozen=True)
class NativeGroup:
    """Files with the same soft deletes, by path. `guarded` are the columns that hide from Spark's filters, as
    some file may hold a NaN there."""

    paths: tuple[str, ...]
    deletes: tuple[Predicate, ...] = ()
    guarded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SparkPlan:
    """Which files Spark reads itself, and which go through tasks."""

    groups: tuple[NativeGroup, ...]
    tasks: tuple[DataFile, ...]

    @property
    def native(self) -> tuple[str, ...]:
        """The paths of the files that Spark reads itself."""
        return tuple(path for group in self.groups for path in group.paths)


def to_spark(scan: Scan, spark: SparkSession) -> DataFrame:
    """The scan's rows as a lazy DataFrame, bound to the scan's snapshot.

    It stays readable as long as the snapshot does: for the table's tombstone_grace after the last commit that
    replaced one of its files.

    Raises:
        UnsupportedError: a column whose type Spark lacks.

    Cost: the snapshot's requests. Spark's reader asks for each file's footer and column chunks; a task makes
    1 GET a small file, or a few ranged ones.
    """
    if scan.table.keys is not None:
        return groups_to_spark(scan, scan.groups(), spark)
    return files_to_spark(scan, scan.files(), spark)


def groups_to_spark(scan: Scan, groups: Sequence[VersionGroup], spark: SparkSession) -> DataFrame:
    """Like `to_spark`, of these groups of a table with a key. Those that hold nothing twice are read like any
    file, natively too; each of the others is one task's, which needs the memory that `firn.lake.latest` tells."""
    plain = [file for group in groups if group.plain for file in group.files if file.path in group.shown]
    rest = [group for group in groups if not group.plain]
    if not rest or not scan.table.bucket.capabilities.shareable:
        return files_to_spark(scan, plain, spark)
    newest = _newest(scan, rest, spark)
    return files_to_spark(scan, plain, spark).unionByName(newest) if plain else newest


def files_to_spark(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> DataFrame:
    """Like `to_spark`, of these files of the scan's snapshot only."""
    schema = spark_schema(scan.columns)
    if not scan.table.bucket.capabilities.shareable:
        # A store in this process's memory: the rows travel with the plan.
        return spark.createDataFrame(recast(scan.to_arrow(), spark_arrow_schema(schema)), schema)
    plan = plan_files(scan, files, spark)
    parts = [_native(scan, group, spark) for group in plan.groups]
    if plan.tasks:
        parts.append(_tasks(scan, plan.tasks, spark))
    if not parts:
        return spark.createDataFrame([], schema)
    return reduce(lambda frame, part: frame.unionByName(part), parts)


def plan_files(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> SparkPlan:
    """Decide for each file who reads it. Pure but for the settings it asks the session for."""
    paths = _native_paths(scan, files, spark)
    if paths is None:
        return SparkPlan((), tuple(files))
    if scan.predicate is not None and not _runs_in_spark(scan.predicate, scan.snapshot.columns, spark):
        return SparkPlan((), tuple(files))
    known = scan.snapshot.columns
    tasks: list[DataFile] = []
    sets: dict[tuple[str, ...], list[tuple[DataFile, str]]] = {}
    for file, path in zip(files, paths, strict=True):
        sets.setdefault(file.deletes, []).append((file, path))
    groups: list[NativeGroup] = []
    for texts, members in sorted(sets.items(), key=lambda one: -sum(file.size for file, _ in one[1])):
        deletes = predicates(texts, known, scan.table.bucket.uri(members[0][0].path))
        if len(groups) == MAX_GROUPS or not all(_runs_in_spark(p, known, spark) for p in deletes):
            tasks += [file for file, _ in members]
            continue
        needed = needed_columns(scan, deletes)
        chosen = []
        guarded: set[str] = set()
        for file, path in members:
            if reads_natively(file, needed, scan.table.places):
                chosen.append(path)
                guarded |= may_hold_nan(file, needed)
            else:
                tasks.append(file)
        if chosen:
            groups.append(NativeGroup(tuple(chosen), deletes, frozenset(guarded)))
    return SparkPlan(tuple(groups), tuple(tasks))


def needed_columns(scan: Scan, deletes: Sequence[Predicate] = ()) -> dict[str, str]:
    """The scan's columns and those that its predicate and soft deletes read, with the table's types."""
    needed = dict(scan.columns)
    for predicate in (scan.predicate, *deletes):
        if predicate is not None:
            needed.update({name: scan.snapshot.columns[name] for name in sorted(predicate.columns)})
    return needed


def _runs_in_spark(predicate: Predicate, known: ColumnTypes, spark: SparkSession) -> bool:
    """Whether Spark's answer to a predicate is DuckDB's. It compares instants in the session's time zone."""
    zoned = any("TIME ZONE" in known[name] for name in predicate.columns)
    if zoned and spark.conf.get("spark.sql.session.timeZone", "") not in _UTC:
        return False
    return engines_agree(predicate.ast, known)


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


def _native(scan: Scan, group: NativeGroup, spark: SparkSession) -> DataFrame:
    needed = needed_columns(scan, group.deletes)
    schema = spark_schema(needed)
    if is_connect(spark):
        # Planned on the server at each action, so the setting has to stay; the session is this client's own.
        if int(spark.conf.get(DISCOVERY_CONF, "32")) < DISCOVERY_THRESHOLD:
            spark.conf.set(DISCOVERY_CONF, str(DISCOVERY_THRESHOLD))
        planning: Any = nullcontext()
    else:
        planning = conf(spark, {DISCOVERY_CONF: str(DISCOVERY_THRESHOLD)})
    with planning:
        frame = spark.read.schema(schema).options(**_READ_OPTIONS).parquet(*group.paths)
    if group.guarded:
        columns = [
            guard(name, kind) if name in group.guarded else quote(name) for name, kind in needed.items()
        ]
        frame = frame.selectExpr(*columns)
    for delete in group.deletes:
        frame = frame.where(f"({delete.spark_sql}) IS NOT TRUE")
    if scan.predicate is not None:
        frame = frame.where(scan.predicate.spark_sql)
    return frame.select(*[quote(name) for name in scan.columns])


def _tasks(scan: Scan, files: Sequence[DataFile], spark: SparkSession) -> DataFrame:
    bucket, spec, name = scan.table.bucket, scan.read_spec(), scan.table.name

    def read(mine: Sequence[DataFile], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        from firn.spark.scan import read_rows

        return read_rows(bucket, mine, spec, wanted, name)

    return _mapped(scan, [without_stats(f) for f in files], [f.size for f in files], read, spark)


def _newest(scan: Scan, groups: Sequence[VersionGroup], spark: SparkSession) -> DataFrame:
    bucket, spec, name = scan.table.bucket, scan.latest_spec(), scan.table.name

    def read(mine: Sequence[VersionGroup], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        from firn.spark.scan import read_newest_rows

        return read_newest_rows(bucket, mine, spec, wanted, name)

    return _mapped(scan, [lean(group) for group in groups], [g.bytes for g in groups], read, spark)


def _mapped(
    scan: Scan,
    items: Sequence[Any],
    weights: Sequence[int],
    read: Callable[[Sequence[Any], pa.Schema], Iterator[pa.RecordBatch]],
    spark: SparkSession,
) -> DataFrame:
    """What tasks `read` of the items, packed by their weights."""
    schema = spark_schema(scan.columns)
    wanted = spark_arrow_schema(schema)
    bins = [[items[index] for index in one] for one in pack(weights, bin_count(weights, slots(spark)))]
    work: Any = bins
    if not is_connect(spark):
        from pyspark import cloudpickle

        if len(cloudpickle.dumps(bins)) > BROADCAST_BYTES:
            work = spark.sparkContext.broadcast(bins)

    def read_bins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = getattr(work, "value", work)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(mine[number], wanted)

    n = len(bins)
    frame: DataFrame = spark.range(0, n, 1, n).mapInArrow(read_bins, schema)
    return frame


def without_stats(file: DataFile) -> DataFile:
    """What a task needs of a file: planning has used its statistics, and they are most of its size."""
    if file.extra is None or "stats" not in file.extra:
        return file
    return file._replace(extra={key: value for key, value in file.extra.items() if key != "stats"})


def lean(group: VersionGroup) -> VersionGroup:
    """The same of a group."""
    return replace(group, files=tuple(without_stats(file) for file in group.files))


def read_rows(
    bucket: Bucket, files: Sequence[DataFile], spec: ReadSpec, schema: pa.Schema, table: str
) -> Iterator[pa.RecordBatch]:
    """In a worker: the files' rows in exactly `schema`, in batches of at most 131,072 rows."""
    return _handed_over(read_files(bucket, files, spec), schema, table)


def read_newest_rows(
    bucket: Bucket, groups: Sequence[VersionGroup], spec: LatestSpec, schema: pa.Schema, table: str
) -> Iterator[pa.RecordBatch]:
    """In a worker: the same of the newest rows of groups."""
    each = (rows for group in groups for rows in read_latest(bucket, group, spec))
    return _handed_over(each, schema, table)


def _handed_over(each: Iterable[pa.Table], schema: pa.Schema, table: str) -> Iterator[pa.RecordBatch]:
    try:
        for rows in each:
            yield from recast(rows, schema).to_batches(max_chunksize=ARROW_BATCH_ROWS)
    except ObjectNotFoundError as error:
        raise SnapshotTooOldError(
            f"a file of {table} is gone ({error}): the table was swept since this DataFrame was made. Make "
            "it again, or keep old versions for longer, by the table's tombstone_grace or, of writers' catalogs, by "
            "prune's older_than."
        ) from error
    finally:
        settle_imports()
