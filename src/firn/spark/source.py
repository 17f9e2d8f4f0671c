"""The data source `firn` for batches: `spark.read.format("firn").load("./prod/flights")`, and back.

Spark makes these objects in short-lived Python processes on the driver, pickles them from one to the next,
and plans anew at every action; so a read is pinned to one snapshot as soon as Spark asks for the schema. A
temporary view `USING firn` stays at the snapshot of its creation, too.

| option | |
| --- | --- |
| `path`, or `url` and `table` | which table |
| `columns` | only these, between commas or as a JSON list (Spark doesn't tell a Python source) |
| `where` | a predicate in DuckDB's SQL |
| `at` | a version or a time; of writers' catalogs a vector like `a=3,b=7`, too; of record tables a commit's number |
| `partitionBy`, `sortBy`, `journal` | for a table that a write creates |
| `writer` | the writer to commit as, to a table of writers' catalogs |
| `strict` | `true`: read no table while one of its writers can't be read |
| `changes` | `true`: of a keyed or record table each put, delete, merge operand, by `_kind`, in the order of `_seq` |
| `since` | changes after this version only |
| `startingTime`, `maxFilesPerTrigger` | for streams: see `firn.spark.streaming` |
| `store.<name>` | options of the store, as `firn.connect(options=)` takes them |

A schema that the user gives to Spark names columns of the table. Of a record table without declared columns it names
fields of documents, under types that these have.

Spark's own filters prune nothing: it keeps what a Python source has pruned by one filter for all later uses of the
same `load()`, filtered otherwise or not at all, which then lack rows. `where` has no such catch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from firn.journal.model import ColumnTypes, Commit, DataFile, Namer
from firn.keyed.table import KeyedTable
from firn.lake.table import LakeTable
from firn.lake.write.append import agreed_columns
from firn.lake.write.write import WriteSpec
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.spark.keyed.changes import ChangesRead
from firn.spark.lake.append import write_rows
from firn.spark.reads import TableRead, handed_over, packed, plan_read
from firn.spark.records.changes import RecordChangesRead
from firn.spark.session.options import SourceOptions
from firn.spark.session.types import incoming_columns, spark_arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
    from pyspark.sql.types import StructType


class TableSource:
    """One table as Spark's data source sees it; `pyspark_firn.DefaultSource` hands every call on to it."""

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
        if not o.changes:
            records = schema is not None and isinstance(table, RecordTable | RowTable)
            fields = incoming_columns(schema, {}) if records else None
            return plan_read(table, columns=o.columns, where=o.where, at=o.at, fields=fields)
        if isinstance(table, RecordTable):
            return RecordChangesRead.of(table, columns=o.columns, where=o.where, since=o.since, upto=o.at)
        if not isinstance(table, KeyedTable):
            kind = "has isolation='row'" if isinstance(table, RowTable) else "is a lake table"
            raise InvalidInputError(f"changes are told of keyed and record tables; {table.name} {kind}.")
        return ChangesRead.of(table, columns=o.columns, where=o.where, since=o.since, upto=o.at)

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
        if isinstance(table, RecordTable | RowTable):
            raise UnsupportedError(
                f"{table.name} is a record table, whose rows change in transactions or one by one: load the "
                "DataFrame with db.table(name).load(frame); of a stream, each batch so, by foreachBatch."
            )
        if not isinstance(table, LakeTable):
            raise UnsupportedError(
                f"{table.name} is a keyed table, whose files are sorted by key throughout: load the DataFrame with "
                "db.table(name).load(frame); of a stream, each batch so, by foreachBatch."
            )
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
        return TableReader(narrowed_to(self.pinned or self.plan(schema), schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TableWriter(self, schema, overwrite)

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        from firn.spark.streaming import stream_reader

        return stream_reader(self, schema)

    def stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from firn.spark.streaming import TableStreamWriter

        return TableStreamWriter(self, schema, overwrite)


# -- reading


def narrowed_to(read: TableRead, schema: StructType) -> TableRead:
    """For a schema that the user gave to Spark: some of the columns, under the types they have."""
    have = {field.name: field.dataType for field in spark_schema(read.columns)}
    for field in schema.fields:
        if have.get(field.name) != field.dataType:
            asked = f"{field.name!r} {field.dataType.simpleString()}"
            known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in have.items())
            raise InvalidInputError(
                f"{read.table} can't be read with a column {asked}; it has: {known}. Leave the schema "
                "out, and cast afterwards."
            )
    return read.select(schema.fieldNames())


class Share(InputPartition):  # type: ignore[misc]
    """What one Spark task reads."""

    def __init__(self, read: TableRead, works: Sequence[Any]) -> None:
        self.lean = read.for_tasks()
        self.works = tuple(works)

    def rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return handed_over(self.lean, self.works, schema)


def shares(read: TableRead) -> list[InputPartition]:
    """A read packed for tasks. The planner isn't told how many run at once; the driver's cores are a guess."""
    return [Share(read, works) for works in packed(read.units(), os.cpu_count() or 1, most=1 << 27)]


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads a plan's units in tasks."""

    def __init__(self, plan: TableRead, schema: StructType) -> None:
        self.plan = plan
        self.schema: pa.Schema = spark_arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        # Spark takes no partitions at all for one unknown one.
        return shares(self.plan) or [Share(self.plan, ())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return partition.rows(self.schema)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get all they need with their partition.
        return {"plan": self.plan.for_tasks(), "schema": self.schema}


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
    began = table.journal.moment()
    known = table.journal.columns()
    incoming = incoming_columns(schema, known)
    if not incoming:
        raise SchemaConflictError(
            f"the rows for {table.name} have no column with a type: there is nothing to store"
        )
    columns = agreed_columns(table, known, incoming, began, schema.names)
    return table.write_spec(columns, table.journal.begin_append().namer)


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
