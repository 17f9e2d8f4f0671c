"""The data source `firn` for batches: tasks that read a plan's units, tasks that write files, and their commit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from firn.arrow.texts import unchecked
from firn.bucket.base import Bucket
from firn.errors import FirnError, InvalidInputError, SchemaConflictError
from firn.journal.model import ColumnTypes, Commit, DataFile, Namer
from firn.journal.naming import PLAIN, Naming
from firn.lake.table import LakeTable
from firn.lake.write.append import agreed_columns, publish
from firn.lake.write.write import WriteSpec, write_batches
from firn.reads import TableRead
from firn.spark.frames import handed_over, packed
from firn.spark.session.partitions import PartitionOutcome
from firn.spark.session.types import columns_of_schema, incoming_columns, spark_arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


from firn.spark.source_table import SourceTable

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
    """The share of a read that one Spark task reads."""

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
    """The files that a task wrote, or why it couldn't; `began_ms` is before its first PUT."""

    files: tuple[DataFile, ...]
    columns: ColumnTypes
    error: FirnError | None
    began_ms: int
    query_id: str | None = None
    namer: Namer | None = None
    naming: Naming = PLAIN

    def commit(self, op: str) -> Commit:
        columns = self.columns if self.files else {}
        return Commit(
            op, self.files, columns=self.naming.in_files(columns), names=self.naming.brought(columns)
        )


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends to a table, or replaces all its rows. Made on the driver; tasks and the commit get copies."""

    def __init__(self, source: SourceTable, schema: StructType, overwrite: bool) -> None:
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
        Sweep deletes the files that no log names."""


def plan_write(table: LakeTable, schema: StructType) -> WriteSpec:
    """Check the columns against the table's, before any task runs. Files are named as an append's even for an
    overwrite: those of maintenance are safe from sweep only while the lock is held."""
    began = table.journal.moment()
    known = table.journal.known()
    incoming = incoming_columns(schema, known.columns)
    if not incoming:
        raise SchemaConflictError(
            f"the rows for {table.name} have no column with a type: there is nothing to store"
        )
    context, columns, all_columns = agreed_columns(
        table.context.at(known), known, incoming, began, schema.names
    )
    texts = unchecked(columns_of_schema(schema), incoming)
    spec = WriteSpec.of(context, columns, table.journal.begin_append().namer, texts=texts)
    return spec.checking(context.definition, all_columns)


def write_task(
    bucket: Bucket, spec: WriteSpec, names: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> WrittenFiles:
    """In a worker: the rows of one Spark partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    began_ms = time.time_ns() // 1_000_000
    named = (batch.rename_columns(list(names)) for batch in batches)
    outcome = PartitionOutcome(bucket, lambda: write_batches(bucket, spec, named))
    files = () if outcome.error is not None else tuple(outcome.result)
    return WrittenFiles(files, dict(spec.columns), outcome.error, began_ms, query_id, spec.namer, spec.naming)


def collect(messages: Sequence[WriterCommitMessage | None]) -> WrittenFiles:
    """The files of all tasks, in one. If a task failed, its error is raised."""
    files: list[DataFile] = []
    columns: ColumnTypes = {}
    began_ms = time.time_ns() // 1_000_000
    query_id = namer = None
    naming = PLAIN
    for message in messages:
        if not isinstance(message, WrittenFiles):
            continue
        if message.error is not None:
            raise message.error
        files.extend(message.files)
        columns, naming, query_id, namer = message.columns, message.naming, message.query_id, message.namer
        began_ms = min(began_ms, message.began_ms)
    return WrittenFiles(tuple(files), columns, None, began_ms, query_id, namer, naming)


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
        commit = replace(written.commit("append"), batch_id=batch_id, clocked=clocked)
        publish(table.context, ticket, commit)
        return
    with table.journal.exclusive("overwrite") as session:
        ticket.check_age()
        replaced = [file.path for file in session.snapshot.files if table.journal.owns(file.path)]
        if files or replaced:
            session.publish(replace(written.commit("overwrite"), removes=replaced, clocked=clocked))
