"""The data source `firn` for streams.

Sink: exactly once. Spark repeats a batch after a crash under the same query id and batch id; the table
remembers both, and a repeated commit changes nothing. The output mode `complete` replaces the table's rows.

Source: each append once. Without options a stream begins with all rows of one snapshot and goes on with what is
appended after it; with `startingTime`, with what was appended since. Merges change nothing; deletes, rewrites
and overwrites aren't seen. Tables with a key can't be read: appends are only half of what happens to their
rows.

A keyed table's stream (`firn.spark.keyed.changes`) gives all rows of one moment, then what each flush has put. The
option `changes` tells each put, delete and merge operand, and `since` begins after a version. A record table's
stream is alike (`firn.spark.records.changes`): all rows at one commit, then what commits have put.

On the leaderless log (rule 20), a stream that rests for longer than the table's `tombstone_grace` (less the retry
window and landing delay: 53 minutes by default) can't know what it has missed, and says so when it is started
again. Over writers' catalogs it goes on from any revision that isn't pruned, follows each writer, those that come
later too, and leaves out the rows that soft deletes have taken by the end of a batch. A writer that can't be read
waits; with `strict` the stream stops. It stops in any case where a fork leaves out what it has delivered.

`maxFilesPerTrigger` bounds a batch in files; an append is never divided, so one of more files comes alone. For
record tables it counts commits that change the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from firn.errors import UnsupportedError
from firn.spark.batch import Share, collect, commit_files, narrowed_to, plan_write, shares, write_task
from firn.spark.plan import TableFollower, spark_kind
from firn.spark.session.types import spark_arrow_schema
from firn.spark.source_table import SourceTable

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from firn.lake.write.write import WriteSpec

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # pyspark 4.1
    SupportsTriggerAvailableNow = None

# -- source


def stream_reader(source: SourceTable, schema: StructType) -> DataSourceStreamReader:
    """The reader for this version of pyspark, table and options."""
    if SupportsTriggerAvailableNow is None:
        raise UnsupportedError("streams that read a table need pyspark 4.3 or later; batches and sinks don't")
    return TableStreamReader(source, schema)


_Bases: tuple[type, ...] = (
    (DataSourceStreamReader,)
    if SupportsTriggerAvailableNow is None
    else (DataSourceStreamReader, SupportsTriggerAvailableNow)
)


class TableStreamReader(*_Bases):  # type: ignore[misc]
    """Spark's view of a `TableFollower`. Copies of it read in tasks."""

    def __init__(self, source: SourceTable, schema: StructType) -> None:
        table = source.open()
        plan = narrowed_to(source.pinned or source.plan(schema), schema)
        self.options = source.options
        self.schema: pa.Schema = spark_arrow_schema(schema)
        narrowed = source.options.columns is not None or source.pinned is None
        self.follower: TableFollower | None = spark_kind(table).follow(table, plan, narrowed=narrowed)
        self.target: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get all they need with their partition.
        return {**self.__dict__, "follower": None, "target": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        assert self.follower is not None
        return self.follower.beginning(self.options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.max_files is None else ReadMaxFiles(self.options.max_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        assert self.follower is not None
        self.target = self.follower.target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        assert self.follower is not None
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return self.follower.advance(start, most, self.target)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        assert self.follower is not None
        read = self.follower.between(start, end)
        return [] if read is None else shares(read)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return partition.rows(self.schema)


# -- sink


class TableStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream's batches. Spark makes it anew for each batch's tasks, and again for its commit, which
    knows the options and what the tasks returned, and nothing else."""

    def __init__(self, source: SourceTable, schema: StructType, overwrite: bool) -> None:
        self.source = source
        self.schema = schema
        self.overwrite = overwrite
        self.bucket: Any = None
        self.names = schema.fieldNames()
        self.spec: WriteSpec | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Pickled for tasks only; a commit needs no look at the table's columns.
        if self.spec is None:
            table = self.source.open_or_create(self.schema)
            self.bucket = table.bucket
            self.spec = plan_write(table, self.schema)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        assert self.spec is not None
        return write_task(self.bucket, self.spec, self.names, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = collect(messages)
        if written.files and not self.overwrite and written.query_id is None:
            raise UnsupportedError(
                "Spark told the tasks no query id, so this batch can't be committed exactly once"
            )
        # Replacing all rows by the same rows twice is as good as once.
        batch_id = None if self.overwrite else f"{written.query_id}/{batchId}"
        commit_files(self.source.open(), written, overwrite=self.overwrite, batch_id=batch_id)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is deleted, for the same reason as in `TableWriter.abort`."""
