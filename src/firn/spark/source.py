"""The data source `firn` for batches: `spark.read.format("firn").load("./prod/flights")`, and back.

Spark makes these objects in short-lived Python processes on the driver, pickles them from one to the next,
and plans anew at every action; so a read is pinned to one snapshot as soon as Spark asks for the schema. A
temporary view `USING firn` stays at the snapshot of its creation, too.

| option | |
| --- | --- |
| `path`, or `url` and `table` | which table |
| `columns` | only these, between commas or as a JSON list (Spark doesn't tell a Python source) |
| `where` | a predicate in DuckDB's SQL |
| `at` | a version or a time; of writers' catalogs a vector like `a=3,b=7`, too |
| `partitionBy`, `sortBy`, `journal` | for a table that a write creates |
| `writer` | the writer to commit as, to a table of writers' catalogs |
| `strict` | `true`: read no table while one of its writers can't be read |
| `pushFilters` | `true`: files and rows are pruned by Spark's filters, too; see below |
| `startingTime`, `maxFilesPerTrigger` | for streams: see `firn.spark.streaming` |
| `store.<name>` | options of the store, as `firn.connect(options=)` takes them |

Spark up to 4.3 keeps what a filter has pruned for all later uses of the same `load()`, filtered otherwise or not
at all, which then lack rows. So filters are taken from such a Spark only with `pushFilters`, which is right for a
DataFrame that is used with one filter. `where` has no such catch. Later versions, told by their `pushLimit`, are
trusted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from firn.bucket.base import Bucket
from firn.errors import (
    FirnError,
    InvalidInputError,
    SchemaConflictError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.model import ColumnTypes, Commit, DataFile, Namer, Places
from firn.lake.append import target_columns
from firn.lake.keys import KeySpec
from firn.lake.latest import LatestSpec, VersionGroup, plan_groups
from firn.lake.partition import PartitionSpec
from firn.lake.predicate import Predicate
from firn.lake.prune import Pruner
from firn.lake.read import ReadSpec
from firn.lake.write import WriteSpec
from firn.spark.append import write_rows
from firn.spark.filters import pushed_sql
from firn.spark.options import SourceOptions
from firn.spark.packing import bin_count, pack
from firn.spark.scan import lean, read_newest_rows, read_rows, without_stats
from firn.spark.types import incoming_columns, spark_arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, Filter
    from pyspark.sql.types import StructType

    from firn.lake.table import LakeTable

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""Loaded where Spark is about to push filters. While that is switched off, Spark refuses readers that can."""


class TableSource:
    """One table as Spark's data source sees it; `pyspark_firn.DefaultSource` hands every call on to it."""

    def __init__(self, options: SourceOptions, connect: Callable[..., Any]) -> None:
        self.options = options
        self.connect = connect
        self.pinned: ReadPlan | None = None

    def schema(self) -> StructType:
        """The columns that a read gives; pins the snapshot."""
        if self.pinned is None:
            self.pinned = plan_read(self.open(), self.options)
        return spark_schema(self.pinned.read.columns)

    def open(self) -> LakeTable:
        """The table, reachable from Spark's workers."""
        table: LakeTable = self._database().table(self.options.table)
        if not table.bucket.capabilities.shareable:
            raise UnsupportedError(f"{self.options.url} lives in another process, out of Spark's reach.")
        return table

    def open_or_create(self, schema: StructType) -> LakeTable:
        """The table that a write goes to; made, as Spark's own sinks do, if there is none.

        Raises:
            InvalidInputError: it is kept by writers' catalogs, and no writer is named.
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
        self._check_writer(table.descriptor.journal)
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

    def reader(self, schema: StructType) -> DataSourceReader:
        plan = self.pinned or plan_read(self.open(), self.options)
        plan = plan.narrowed_to(schema)
        wanted = self.options.push_filters or hasattr(DataSourceReader, "pushLimit")
        return PushingReader(plan, schema) if wanted and _spark_pushes() else TableReader(plan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TableWriter(self, schema, overwrite)

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        from firn.spark.streaming import stream_reader

        return stream_reader(self, schema)

    def stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from firn.spark.streaming import TableStreamWriter

        return TableStreamWriter(self, schema, overwrite)


def _spark_pushes() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == PUSHDOWN_WORKER)


# -- reading


@dataclass(frozen=True)
class ReadPlan:
    """A pinned read: all that planning and tasks need, without the table. Picklable.

    Of a table with a key, `files` are all, and pruning waits for the whole predicate.
    """

    bucket: Bucket
    table: str
    version: str
    files: tuple[DataFile, ...]
    read: ReadSpec
    partition: PartitionSpec
    places: Places
    keys: KeySpec | None = None

    def narrowed_to(self, schema: StructType) -> ReadPlan:
        """For a schema that the user gave to Spark: some of the columns, under the types they have."""
        have = {field.name: field.dataType for field in spark_schema(self.read.columns)}
        for field in schema.fields:
            if have.get(field.name) != field.dataType:
                asked = f"{field.name!r} {field.dataType.simpleString()}"
                known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in have.items())
                raise InvalidInputError(
                    f"{self.table} can't be read with a column {asked}; it has: {known}. Leave the schema "
                    "out, and cast afterwards."
                )
        columns = {field.name: self.read.columns[field.name] for field in schema.fields}
        return replace(self, read=replace(self.read, columns=columns))

    def where(self, sql: str) -> ReadPlan:
        """The same, less the files and rows that a further predicate excludes."""
        known = self.read.table_columns
        predicate = Predicate.parse(sql, known)
        pruner = Pruner(predicate, known, self.partition)
        both = sql if self.read.where is None else f"({self.read.where}) AND ({sql})"
        files = self.files
        if self.keys is None:
            files = tuple(file for file in files if pruner.may_match(file))
        return replace(self, files=files, read=replace(self.read, where=both))

    def groups(self) -> list[VersionGroup]:
        """Of a table with a key: the files that may share keys together, pruned by the predicate so far."""
        assert self.keys is not None
        known = self.read.table_columns
        return plan_groups(
            self.files,
            places=self.places,
            keys=self.keys,
            predicate=None if self.read.where is None else Predicate.parse(self.read.where, known),
            columns=known,
            spec=self.partition,
        )


def plan_read(table: LakeTable, options: SourceOptions) -> ReadPlan:
    """Pin a snapshot and prune its files. Cost: the snapshot's requests."""
    scan = table.scan(columns=options.columns, where=options.where, at=options.at)
    return ReadPlan(
        table.bucket,
        table.name,
        scan.snapshot.version,
        tuple(scan.files() if table.keys is None else scan.snapshot.files),
        scan.read_spec(),
        table.pruning_spec,
        table.places,
        table.keys,
    )


class FileBin(InputPartition):  # type: ignore[misc]
    """The files that one Spark task reads. `table_columns`, where given, are the table's of later than the plan:
    soft deletes may use them."""

    def __init__(self, files: Sequence[DataFile], table_columns: ColumnTypes | None = None) -> None:
        self.files = tuple(without_stats(file) for file in files)
        self.table_columns = table_columns


class GroupBin(InputPartition):  # type: ignore[misc]
    """The groups of files that one Spark task reads, of a table with a key."""

    def __init__(self, groups: Sequence[VersionGroup]) -> None:
        self.groups = tuple(lean(group) for group in groups)


def bins_of(files: Sequence[DataFile], table_columns: ColumnTypes | None = None) -> list[InputPartition]:
    """Files packed for tasks. The planner isn't told how many run at once; the driver's cores are a guess."""
    sizes = [file.size for file in files]
    count = max(bin_count(sizes, os.cpu_count() or 1), min(len(sizes), sum(sizes) >> 27))
    return [FileBin([files[index] for index in one], table_columns) for one in pack(sizes, count)]


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads a plan's files in tasks."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        self.plan = plan
        self.schema: pa.Schema = spark_arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        # Spark takes no partitions at all for one unknown one.
        if self.plan.keys is not None:
            groups = self.plan.groups()
            weights = [group.bytes for group in groups]
            bins = pack(weights, bin_count(weights, os.cpu_count() or 1))
            return [GroupBin([groups[index] for index in one]) for one in bins] or [FileBin(())]
        return bins_of(self.plan.files) or [FileBin(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, GroupBin):
            assert self.plan.keys is not None
            spec = LatestSpec(self.plan.keys, self.plan.read)
            return read_newest_rows(self.plan.bucket, partition.groups, spec, self.schema, self.plan.table)
        assert isinstance(partition, FileBin)
        return read_rows(self.plan.bucket, partition.files, self.plan.read, self.schema, self.plan.table)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get their files with their partition.
        return {"plan": replace(self.plan, files=()), "schema": self.schema}


class PushingReader(TableReader):
    """A reader that takes Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Prune files and rows by what is understood; Spark still evaluates all of it, by its own rules."""
        sql = pushed_sql(filters, self.plan.read.table_columns)
        if sql is not None:
            self.plan = self.plan.where(sql)
        return filters


# -- writing


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """What a task wrote, or why it couldn't; `began_ms` is before its first PUT."""

    files: tuple[DataFile, ...]
    columns: ColumnTypes
    error: FirnError | None
    began_ms: int
    query_id: str | None = None
    namer: Namer | None = None


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends to a table, or replaces all its rows. Made on the driver; tasks and the commit get copies."""

    def __init__(self, source: TableSource, schema: StructType, overwrite: bool) -> None:
        table = source.open_or_create(schema)
        self.source = source
        self.overwrite = overwrite
        self.bucket: Bucket = table.bucket
        self.names = schema.fieldNames()
        self.spec = plan_write(table, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(self.bucket, self.spec, self.names, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One commit of all files. An error of a task is raised here: Spark would try it again, in vain."""
        commit_files(self.source.open(), collect(messages), overwrite=self.overwrite, batch_id=None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is deleted: Spark calls this after a commit that raised, too, and that one may have landed.
        What no log names, sweep deletes."""


def plan_write(table: LakeTable, schema: StructType) -> WriteSpec:
    """Check the columns against the table's, before any task runs. Files are named as an append's even for an
    overwrite: those of maintenance are safe from sweep only while the lock is held."""
    known = table.journal.columns()
    incoming = incoming_columns(schema, known)
    if not incoming:
        raise SchemaConflictError(
            f"the rows for {table.name} have no column with a type: there is nothing to store"
        )
    return table.write_spec(target_columns(table, known, incoming), table.journal.begin_append().namer)


def write_task(
    bucket: Bucket, spec: WriteSpec, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> WrittenFiles:
    """In a worker: the rows of one Spark partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    began_ms = time.time_ns() // 1_000_000
    outcome = write_rows(bucket, spec, (batch.rename_columns(list(names)) for batch in batches))
    return WrittenFiles(
        tuple(outcome.files), dict(spec.columns), outcome.error, began_ms, query_id, spec.namer
    )


def collect(messages: Sequence[WriterCommitMessage | None]) -> WrittenFiles:
    """What all tasks wrote, in one; raises what a task could not do."""
    files: list[DataFile] = []
    columns: ColumnTypes = {}
    began_ms = time.time_ns() // 1_000_000
    query_id = namer = None
    for message in messages:
        if not isinstance(message, WrittenFiles):
            continue
        if message.error is not None:
            raise message.error
        files.extend(message.files)
        columns, query_id, namer = message.columns, message.query_id, message.namer
        began_ms = min(began_ms, message.began_ms)
    return WrittenFiles(tuple(files), columns, None, began_ms, query_id, namer)


def commit_files(table: LakeTable, written: WrittenFiles, *, overwrite: bool, batch_id: str | None) -> None:
    """Publish what tasks wrote: an append, or, under the table's lock, in the place of all files.

    Raises `AppendExpiredError` where the first of them is so old that sweep may have taken it.
    """
    files = written.files
    if not files and not overwrite:
        return
    clocked = table.keys is not None
    ticket = table.journal.begin_append(written.namer)
    ticket.backdate(time.time_ns() / 1e9 - written.began_ms / 1000)
    if not overwrite:
        ticket.commit(Commit("append", files, columns=written.columns, batch_id=batch_id, clocked=clocked))
        return
    with table.journal.exclusive("overwrite") as session:
        ticket.check_age()
        replaced = [file.path for file in session.snapshot.files if table.journal.owns(file.path)]
        if files or replaced:
            columns = written.columns if files else {}
            session.publish(Commit("overwrite", files, replaced, columns, clocked=clocked))
