"""The data source `firn` for streams.

Sink: exactly once. Spark repeats a batch after a crash under the same query id and batch id; the table
remembers both, and a repeated commit changes nothing. The output mode `complete` replaces the table's rows.

Source: each append once (rule 20 of the leaderless log). Without options a stream begins with all rows of one
snapshot and goes on with what is appended after it; with `startingTime`, with what was appended since. Merges
change nothing; deletes, rewrites and overwrites aren't seen. A stream that rests for longer than the table's
`tombstone_grace` (less the retry window and landing delay: 53 minutes by default) can't know what it has
missed, and says so when it is started again.

`maxFilesPerTrigger` bounds a batch in files; an append is never divided, so one of more files comes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from firn.errors import CorruptObjectError, SnapshotTooOldError, UnsupportedError
from firn.journal.leaderless import stream
from firn.journal.leaderless.codec import Log
from firn.journal.leaderless.stream import StreamOffset
from firn.journal.model import DataFile
from firn.lake.read import ReadSpec
from firn.spark.scan import read_rows
from firn.spark.source import (
    FileBin,
    TableSource,
    bins_of,
    collect,
    commit_files,
    plan_read,
    plan_write,
    write_task,
)
from firn.spark.types import spark_arrow_schema
from firn.units import parse_time

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from firn.journal.leaderless.journal import LeaderlessJournal
    from firn.lake.table import LakeTable
    from firn.lake.write import WriteSpec

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # pyspark 4.1
    SupportsTriggerAvailableNow = None

BEGINNING = {"firn": "beginning"}
"""The offset of a stream that hasn't looked at the table yet: always the same, as Spark doesn't keep it."""

REFRESH_PART = 4
"""An idle stream moves its offset on after this part of the time that it may rest, so that a restart finds it
fresh."""


# -- offsets


@dataclass(frozen=True)
class SnapshotProgress:
    """How far the first snapshot is delivered: `index` of its `total` files, ordered by path."""

    version: str
    index: int
    total: int
    digest: str
    base: StreamOffset

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "index": self.index,
            "total": self.total,
            "digest": self.digest,
            "base": self.base.to_json(),
        }

    def at(self, index: int) -> SnapshotProgress:
        return SnapshotProgress(self.version, index, self.total, self.digest, self.base)


@dataclass(frozen=True)
class Offset:
    """Where a stream stands: in the snapshot it began with, if that isn't done, and in the log."""

    log: StreamOffset
    snapshot: SnapshotProgress | None = None

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"firn": 1, "log": self.log.to_json()}
        if self.snapshot is not None:
            raw["snapshot"] = self.snapshot.to_json()
        return raw

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Offset | None:
        """None for the beginning."""
        if raw == BEGINNING:
            return None
        try:
            progress = None
            if "snapshot" in raw:
                s = raw["snapshot"]
                progress = SnapshotProgress(
                    s["version"], s["index"], s["total"], s["digest"], StreamOffset.from_json(s["base"])
                )
            return Offset(StreamOffset.from_json(raw["log"]), progress)
        except (KeyError, TypeError) as error:
            raise CorruptObjectError(f"not an offset of a Firn stream: {raw!r}") from error


class StreamPosition:
    """Moves a stream's offset on, and tells the files between two offsets. Knows the log, not Spark."""

    def __init__(self, journal: LeaderlessJournal) -> None:
        self.journal = journal
        self._snapshots: dict[str, tuple[DataFile, ...]] = {}

    def names(self) -> frozenset[str]:
        """The append logs there are now."""
        return frozenset(log.name for log in self.journal.append_logs())

    def begin(self, limit: int | None) -> Offset:
        """The first offset after the beginning: pins a snapshot, delivers at most `limit` of its files."""
        begun = stream.start(self.journal)
        files = _ordered(begun.files)
        if not files:
            return Offset(begun.offset)
        self._snapshots[begun.version] = files
        index = len(files) if limit is None else min(limit, len(files))
        progress = SnapshotProgress(begun.version, index, len(files), _digest(files), begun.offset)
        return Offset(begun.offset, progress)

    def advance(
        self, start: Offset, limit: int | None, *, among: frozenset[str] | None = None
    ) -> Offset | None:
        """The offset after the next batch of at most `limit` files; None if there is nothing to deliver.

        `among` restricts it to these logs. An idle stream's offset is renewed before it grows too old.
        """
        progress, taken = start.snapshot, 0
        if progress is not None:
            left = progress.total - progress.index
            taken = left if limit is None else min(left, limit)
            progress = progress.at(progress.index + taken) if left else None
        delivery = stream.poll(self.journal, start.log, among=among)
        chosen = _fitting(delivery.logs, None if limit is None else limit - taken, alone=not taken)
        if chosen < len(delivery.logs):
            delivery = stream.poll(self.journal, start.log, limit=chosen, among=among)
        if not taken and not any(_live(log) for log in delivery.logs) and not self._stale(start.log):
            return None
        return Offset(delivery.offset, progress)

    def files(self, start: Offset | None, end: Offset) -> list[DataFile]:
        """What lies between two offsets; the same whenever it is asked.

        Raises:
            SnapshotTooOldError: some of it has been swept.
        """
        files: list[DataFile] = []
        if end.snapshot is not None:
            first = start.snapshot.index if start is not None and start.snapshot is not None else 0
            files += self._snapshot_files(end.snapshot)[first : end.snapshot.index]
        if start is not None:
            for log in stream.between(self.journal, start.log, end.log):
                files += _live(log)
        return files

    def _snapshot_files(self, progress: SnapshotProgress) -> tuple[DataFile, ...]:
        if progress.version not in self._snapshots:
            files = _ordered(stream.restart(self.journal, progress.version, progress.base))
            if len(files) != progress.total or _digest(files) != progress.digest:
                raise SnapshotTooOldError(
                    f"version {progress.version} of {self.journal.layout.prefix}, which this stream began "
                    "with, can't be read any more: start the stream anew, with a new checkpoint."
                )
            self._snapshots[progress.version] = files
        return self._snapshots[progress.version]

    def _stale(self, offset: StreamOffset) -> bool:
        s = self.journal.settings
        longest = s.grace_ms - s.retry_window_ms - s.landing_delay_ms
        return bool(self.journal.clock.now_ms() - offset.polled_ms > longest // REFRESH_PART)


def _live(log: Log) -> list[DataFile]:
    return [file for file in log.files if file.path not in log.dead]


def _ordered(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))


def _digest(files: Sequence[DataFile]) -> str:
    return hashlib.sha256("\n".join(file.path for file in files).encode()).hexdigest()[:16]


def _fitting(logs: Sequence[Log], limit: int | None, *, alone: bool) -> int:
    """How many of the logs, from the first, hold at most `limit` files; at least one if `alone`."""
    if limit is None:
        return len(logs)
    files = 0
    for count, log in enumerate(logs):
        files += len(_live(log))
        if files > limit and not (alone and files == len(_live(log))):
            return count
    return len(logs)


# -- source


def stream_reader(source: TableSource, schema: StructType) -> DataSourceStreamReader:
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
    """Spark's view of a `StreamPosition`. Copies of it read in tasks."""

    def __init__(self, source: TableSource, schema: StructType) -> None:
        table = source.open()
        journal = leaderless(table)
        plan = source.pinned or plan_read(table, source.options)
        self.read_spec: ReadSpec = plan.narrowed_to(schema).read
        self.schema: pa.Schema = spark_arrow_schema(schema)
        self.bucket = table.bucket
        self.table = table.name
        self.options = source.options
        self.position: StreamPosition | None = StreamPosition(journal)
        self.target: frozenset[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "position": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self.options.starting_time is None:
            return dict(BEGINNING)
        return Offset(StreamOffset(parse_time(self.options.starting_time))).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.max_files is None else ReadMaxFiles(self.options.max_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        assert self.position is not None
        self.target = self.position.names()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        assert self.position is not None
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        begun = Offset.from_json(start)
        if begun is None:
            return self.position.begin(most).to_json()
        after = self.position.advance(begun, most, among=self.target)
        return start if after is None else after.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        assert self.position is not None
        after = Offset.from_json(end)
        if after is None:
            return []
        return bins_of(self.position.files(Offset.from_json(start), after))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileBin)
        return read_rows(self.bucket, partition.files, self.read_spec, self.schema, self.table)


def leaderless(table: LakeTable) -> LeaderlessJournal:
    """The table's journal, if streams can read it."""
    from firn.journal.leaderless.journal import LeaderlessJournal

    if not isinstance(table.journal, LeaderlessJournal):
        raise UnsupportedError(
            f"{table.name} isn't on the leaderless log; streams read no other journal yet."
        )
    return table.journal


# -- sink


class TableStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream's batches. Spark makes it anew for each batch's tasks, and again for its commit, which
    knows the options and what the tasks returned, and nothing else."""

    def __init__(self, source: TableSource, schema: StructType, overwrite: bool) -> None:
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
