"""The types that both lake journals load and take: a snapshot of data files, and a commit that changes it.

Operations of `firn.lake` stand above these types and know no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from firn.bucket.base import Bucket
from firn.journal.entries import Entries
from firn.journal.naming import PLAIN, Naming

ColumnTypes = Mapping[str, str]
"""Column name → DuckDB type name, in column order."""


LACKING = '"NULL"'
"""Among the types of a file's columns: it lacks this one, whose default its rows have."""

Reads = Mapping[str, Sequence[str]]
"""Column of the table → the file's own columns that it is read from: the first that isn't null counts, and none
means that it is null in all rows, or has its default; `NULLS` alone means that it is null although it has a default.
Columns that aren't in it are read from the file's own of their name."""


class DataFile(NamedTuple):
    """One Parquet file of a table.

    `path` is the whole key in the bucket. `extra` is what Firn adds to the reference's marker, as decoded JSON, or
    None (the reference's own files, or extras it dropped): keys `rows` (int), `stats` (column → [min, max,
    nulls], encoded by `firn.predicate.stats`), `crc` (CRC-32 of the Parquet footer), `spec` (id of the partition
    spec it was written under), `part` (partition values, only where the path can't tell them), `cols` (of a file
    that was registered where columns aren't called as in files: physical name → the file's own, complete),
    `bloom` (column → [type, filters], encoded by `firn.predicate.bloom`). Missing means unknown, never empty.
    `deletes` and `reads`, which a journal sets as it loads, are the soft deletes on the file, and how its columns
    are read; `stats` and `bloom` are then of the columns as they are read. Tables with a key also have `clock`
    (text, the file's place in the order of commits; the journal adds it as it publishes) or `clocks` (least and
    greatest of a merged file's rows), `fold` (files of one id share no key) and `key_deletes` (True where some
    rows say that their keys are deleted).

    Rows that stand in a log are such a file, too, in memory alone, with the key `inlined`: see
    `firn.journal.inlined`. `placed` ones are the rows of one partition in several logs, as Arrow: `parts` are the
    paths of these, `directory` where they belong.
    """

    path: str
    size: int
    created_ms: int
    extra: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int | None:
        """Rows stored in the file, where known; those that soft deletes took are among them."""
        return None if self.extra is None else self.extra.get("rows")

    @property
    def inlined(self) -> Any:
        """The rows themselves, where they stand in a log and not in a file: `InlinedRows`, or Arrow if placed."""
        return None if self.extra is None else self.extra.get("inlined")

    @property
    def live_rows(self) -> int | None:
        """Rows that exist, where known: nobody counts what a soft delete takes."""
        return None if self.deletes else self.rows

    @property
    def clocks(self) -> tuple[str, str] | None:
        """The least and greatest clock of the file's rows, on tables with a key. Texts of one table order as its
        commits do: those of the leaderless log begin with the log's name."""
        extra = self.extra or {}
        if "clock" in extra:
            return extra["clock"], extra["clock"]
        return tuple(extra["clocks"]) if "clocks" in extra else None

    @property
    def key_deletes(self) -> bool:
        """Whether some of the file's rows say that their keys are deleted."""
        return bool((self.extra or {}).get("key_deletes"))

    @property
    def stats(self) -> Mapping[str, Sequence[Any]]:
        return {} if self.extra is None else self.extra.get("stats") or {}

    @property
    def reads(self) -> Reads:
        """The columns of the table that are read otherwise than by their name in the file."""
        return {} if self.extra is None else self.extra.get("reads") or {}

    @property
    def odd(self) -> Collection[str]:
        """Those of the columns in `reads` that aren't just called otherwise in the file."""
        return () if self.extra is None else self.extra.get("odd") or ()

    @property
    def spec(self) -> str:
        """The id of the partition spec that it was written under; "" for none."""
        return "" if self.extra is None else self.extra.get("spec") or ""

    @property
    def deletes(self) -> tuple[str, ...]:
        """Predicates, as DuckDB's texts over the file's own columns: rows for which any of them is true don't exist
        for any reader."""
        return () if self.extra is None else tuple(self.extra.get("deletes") or ())

    @property
    def cols(self) -> Mapping[str, str] | None:
        """Physical name → the file's own, of all columns that it has; None where they are the same."""
        return None if self.extra is None else self.extra.get("cols")

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the file's columns that aren't the table's."""
        return {} if self.extra is None else self.extra.get("types") or {}


def with_types(file: DataFile, types: Mapping[str, str]) -> DataFile:
    """The file with these types of its columns noted, unless it has others of them noted."""
    return file._replace(extra={**(file.extra or {}), "types": {**types, **file.types}}) if types else file


def with_deletes(file: DataFile, *predicates: str) -> DataFile:
    """The file with these soft deletes on it, as a journal loads it."""
    return file._replace(extra={**(file.extra or {}), "deletes": list(predicates)})


class Conflict(NamedTuple):
    """Values of `column` that have a type which the column's doesn't take in.

    Attributes:
        aside: the column as which they are shown.
        source: the first file that has them; `owner` is the one whose type the column has.
        common_type: a type that takes in both.
    """

    column: str
    type: str
    aside: str
    source: str
    kept_type: str
    owner: str
    common_type: str

    def __str__(self) -> str:
        return (
            f"column {self.column!r} is {self.kept_type} in {self.owner} and {self.type} in {self.source}: values of "
            f"the latter are shown as {self.aside!r}, and {self.column!r} is null there. resolve({self.column!r}, "
            f"to={self.common_type!r}) makes them one column"
        )


@dataclass(frozen=True)
class Snapshot:
    """A table at one version: its live files and its columns. Immutable and picklable.

    `conflicts` say which values are set aside, and `aside` are the columns that hold them; `loose` are those that
    are read from types which don't widen to theirs. `refusal` is why the rows aren't to be shown, where
    `on_conflict="error"` asks for that. `definition` has the changes of the table's definition up to then, and
    `naming` says what columns are called in files, where `stored` are their types, of those too that aren't shown.
    """

    version: str
    time_ms: int
    columns: ColumnTypes
    files: tuple[DataFile, ...]
    warnings: tuple[str, ...] = ()
    aside: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    conflicts: tuple[Conflict, ...] = ()
    refusal: str | None = None
    definition: Entries = field(default_factory=Entries)
    naming: Naming = PLAIN
    stored: ColumnTypes = field(default_factory=dict)

    @property
    def objects(self) -> tuple[DataFile, ...]:
        """The files that are objects in the bucket: all but the rows of logs."""
        return tuple(file for file in self.files if file.inlined is None)

    @property
    def in_files(self) -> ColumnTypes:
        """The columns under their physical names."""
        return self.naming.in_files(self.columns) if self.naming else self.columns

    @property
    def time(self) -> datetime | None:
        """Commit time of the newest commit, UTC; None for a table without any."""
        from datetime import timezone

        return datetime.fromtimestamp(self.time_ms / 1000, timezone.utc) if self.time_ms else None


@dataclass(frozen=True)
class KnownColumns:
    """A table's columns as an appender knows them, and the definition by which it writes them. `aside` are those that
    hold what was set aside, each with the column that it is of."""

    columns: ColumnTypes
    naming: Naming = PLAIN
    definition: Entries = field(default_factory=Entries)
    aside: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(snapshot: Snapshot) -> KnownColumns:
        """As they are in a snapshot."""
        return KnownColumns(snapshot.columns, snapshot.naming, snapshot.definition)


@dataclass(frozen=True)
class SoftDelete:
    """A predicate on files that stay: from its commit on, readers leave out the rows for which it is true.
    Files that come later are untouched, and it goes with the file."""

    predicate: str
    paths: tuple[str, ...]


class Counted(NamedTuple):
    """Of a batch that is called by its number in a source: how many rows of the source it has, and how many a whole
    one has. Only the source's last one has fewer."""

    rows: int
    whole: int


@dataclass(frozen=True)
class Commit:
    """A change: files that appear, paths that stop being live, predicates on files that stay, columns known
    to the writer. `adds` carry no soft deletes. `replaced` are the removed paths of which an added file's own
    metadata says that it replaces them.

    With `clocked` the journal gives each file that has no clock yet its own: see `with_clocks`. `definition` is
    joined with the table's. `aside` are those of `columns` that hold what was set aside: files say which of them they
    have. `columns` and `aside` are physical names; `names` are those of new columns that are called otherwise.
    An append has files, or one addition that is `inlined`. `counted` is remembered with the `batch_id`.
    """

    op: str
    adds: Sequence[DataFile] = ()
    removes: Sequence[str] = ()
    columns: ColumnTypes = field(default_factory=dict)
    batch_id: str | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    soft_deletes: Sequence[SoftDelete] = ()
    replaced: Sequence[str] = ()
    clocked: bool = False
    definition: Entries | None = None
    aside: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    counted: Counted | None = None


def with_clocks(commit: Commit, clock: str) -> Sequence[DataFile]:
    """The commit's files, of a `clocked` commit each with its clock: the commit's, and its place.

    `clock` is any text that orders as the journal's commits do, without `#`. A file that was committed before,
    or merged from others, keeps what it has.

    >>> file = DataFile("t/_data/x.parquet", 1, 0, {"rows": 2})
    >>> with_clocks(Commit("append", [file], clocked=True), "1767258000755_a")[0].clocks
    ('1767258000755_a#000000', '1767258000755_a#000000')
    """
    if not commit.clocked:
        return commit.adds
    return [
        f if f.clocks is not None else f._replace(extra={**(f.extra or {}), "clock": clock_of(clock, n)})
        for n, f in enumerate(commit.adds)
    ]


def clock_of(clock: str, number: int) -> str:
    """The clock of a commit's file of this number."""
    return f"{clock}#{number:06d}"


@dataclass(frozen=True)
class CommitInfo:
    """One line of `history()`. `bytes_added` are those of files, or of rows that stand in the log itself."""

    version: str
    time: datetime
    op: str
    files_added: int
    files_removed: int
    rows_added: int | None
    bytes_added: int
    summary: Mapping[str, Any]

    @property
    def inlined(self) -> bool:
        """Whether its rows came without a file."""
        return self.files_added == 0 and bool(self.rows_added)


SUMMARY_TEXTS = ("where", "query", "statement", "on", "to")
"""The parts of a commit's summary that say what was asked for."""


@dataclass(frozen=True)
class SweepReport:
    """The result of a sweep: what it deleted, or would delete. `kept_foreign`: registered files outside the table's
    prefix that no version reads any more; Firn never deletes what it doesn't own."""

    data_files: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    bytes: int = 0
    kept_foreign: tuple[str, ...] = ()
    dry_run: bool = False


class Places(Protocol):
    """Where a table's data files lie; picklable."""

    def directory_of(self, path: str) -> str | None:
        """The partition directory in a data file's key, '' for none; None for a file that lies elsewhere."""
        ...


class Namer(Places, Protocol):
    """Makes unique data file keys; picklable, so that tasks anywhere can name their files."""

    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        """A new key for a file of the partition directory `a=1/b=2` ('' for none), whose footer and Bloom filters
        have these CRC-32s."""
        ...

    def metadata(
        self,
        partition: str,
        columns: ColumnTypes,
        *,
        extra: Mapping[str, Any],
        replaces: Sequence[str] = (),
        applied: Sequence[str] = (),
    ) -> Mapping[str, str]:
        """The Parquet key-value metadata by which a file of the directory describes itself, for its journal to find
        again; empty if the journal has no use for it.

        Args:
            columns: the file's own.
            extra: JSON-able, to be given back.
            replaces: paths of the files whose rows it holds: they have to go with the commit that adds it.
            applied: predicates by which rows of these were left out.
        """
        ...


class StagingTicket(Protocol):
    """Files that no commit names, as long as a statement needs them; its clock runs since before their first PUT.
    Sweep takes those that a crash leaves once they are as old as an append may be."""

    @property
    def namer(self) -> Namer:
        """Names the files."""
        ...

    def check_age(self) -> None:
        """`AppendExpiredError` if so long has passed that files may be gone."""
        ...


class AppendTicket(StagingTicket, Protocol):
    """An append under way; its clock runs since before the first data PUT."""

    @property
    def lasting(self) -> bool:
        """Whether a commit is durable when it returns. In a transaction it waits for its end."""
        ...

    def backdate(self, seconds: float) -> None:
        """Say that the first data PUT was so long ago: other processes made it."""
        ...

    def commit(self, commit: Commit) -> str:
        """Publish; the version. `AppendExpiredError` if it took too long, `OutcomeUnknownError` if no
        answer came. A `batch_id` that the table has seen makes it a no-op returning that version."""
        ...

    @property
    def duplicate(self) -> bool:
        """Whether `commit` returned the version of another append with its `batch_id`."""
        ...

    def settle(self, wait: Callable[[float], object]) -> str | None:
        """After `commit` raised `OutcomeUnknownError`: wait until it is certain what became of it. The version if it
        is there. None if it isn't and never will be, or if another append with its batch id can't double it: then
        the rows may be appended again.

        Args:
            wait: waits so many seconds; what it raises ends this.

        Raises:
            OutcomeUnknownError, StoreError: it isn't certain yet; call again.
        """
        ...


class Replacing(Protocol):
    """Who writes files that take others' places."""

    @property
    def namer(self) -> Namer:
        """Names them."""
        ...

    def check(self) -> None:
        """Raise early where the work can't be published any more."""
        ...


class UnlockedMerge(Replacing, Protocol):
    """A merge that others maintain the table beside: it takes the lock only to publish. Its clock runs since before
    its first data PUT."""

    @property
    def snapshot(self) -> Snapshot:
        """What it reads: the table as it was when this was first asked for, before the first data PUT."""
        ...

    def publishing(self, op: str) -> AbstractContextManager[PublishingSession]:
        """Hold the table's lock, to publish."""
        ...

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete files that it has written, and that no commit of it will ever name."""
        ...


class Session(Replacing, Protocol):
    """Exclusive maintenance of a table: nobody else merges, rewrites or removes meanwhile."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def writer(self) -> str:
        """The writer that changes the definition: the connection's, or "" on a journal without writers."""
        ...

    @property
    def log_length(self) -> int:
        """How many log objects a reader must look at; a merge makes it one."""
        ...

    def revivable(self, at: str | int | datetime) -> Snapshot:
        """The snapshot at `at`, whose files are there, and sure to outlast a commit that makes them live again.

        Raises:
            SnapshotTooOldError: they aren't.
        """
        ...

    def check(self) -> None:
        """Raise `LockLostError` early if somebody took over. Free of requests."""
        ...

    def publish(self, commit: Commit) -> str: ...


class PublishingSession(Session, Protocol):
    """The lock held, for files that were read and written before it was taken."""

    def holds(self, paths: Iterable[str]) -> bool:
        """Whether files, and rows of logs, are as the merge read them, so that what it made of them can take their
        place. `publish` refuses with `ConflictError` what replaces others."""
        ...


class LogOffset(Protocol):
    """Where a stream stands in a journal: what is before it is delivered. Immutable."""

    def to_json(self) -> dict[str, Any]: ...


OffsetT = TypeVar("OffsetT", bound=LogOffset)


@dataclass(frozen=True)
class StreamStart(Generic[OffsetT]):
    """The first delivery of a stream from the beginning: live files as of `version`."""

    version: str
    files: tuple[DataFile, ...]
    offset: OffsetT
    columns: ColumnTypes


class Delivered(NamedTuple):
    """Files that a stream delivers, and the columns that they hold, by physical names: of each commit its own, or a
    snapshot's."""

    files: tuple[DataFile, ...]
    schemas: tuple[ColumnTypes, ...] = ()


@dataclass(frozen=True)
class Delivery(Generic[OffsetT]):
    """The result of one poll: the new files of each append, in order, and the offset after them. `renew`: take that
    offset even if nothing is new, as the one before it grows too old to go on from."""

    appends: tuple[tuple[DataFile, ...], ...]
    offset: OffsetT
    renew: bool = False


class JournalStream(Protocol[OffsetT]):
    """A table as a stream of appends, each delivered exactly once. Merges change nothing; deletes, rewrites and
    overwrites aren't seen.

    A stream can rest, and end in one process and go on in another: all that it knows is in its offset.
    """

    @property
    def name(self) -> str:
        """The table's, for messages."""
        ...

    def parse(self, raw: Mapping[str, Any]) -> OffsetT:
        """An offset from its JSON; `CorruptObjectError` for what isn't one."""
        ...

    def since(self, time_ms: int) -> OffsetT:
        """The offset from which on everything that was appended at a time (Unix milliseconds) or later is new.
        Pure: the same whenever it is asked."""
        ...

    def target(self) -> Any:
        """The present state, for `poll(among=…)`."""
        ...

    def start(self) -> StreamStart[OffsetT]:
        """All live files now, and the offset after them."""
        ...

    def restart(self, version: str, offset: OffsetT) -> Delivered:
        """The files of `start` again.

        Raises:
            SnapshotTooOldError: some of them may be gone.
        """
        ...

    def poll(self, offset: OffsetT, *, limit: int | None = None, among: Any = None) -> Delivery[OffsetT]:
        """The appends since `offset`: at most `limit`, the oldest first, and only those that `target` saw.

        Raises:
            SnapshotTooOldError: the journal may have forgotten some of it. Nothing is skipped in silence.
        """
        ...

    def between(self, begin: OffsetT, end: OffsetT) -> Delivered:
        """The new files between two offsets, the same whenever it is asked; `SnapshotTooOldError` as `poll`."""
        ...


class LakeJournal(Protocol):
    """How a lake table agrees on its files. Two implementations: `leaderless` and `writer`."""

    @property
    def bucket(self) -> Bucket: ...

    @property
    def soft_deletes(self) -> bool:
        """Whether it keeps `Commit.soft_deletes`, and loads them as `DataFile.deletes`."""
        ...

    @property
    def revives(self) -> bool:
        """Whether a file that was removed can be added again."""
        ...

    @property
    def places(self) -> Places: ...

    def owns(self, path: str) -> bool:
        """Whether a live file is this connection's to replace or remove, or another writer's."""
        ...

    def now_ms(self) -> int:
        """The time by the clock that stamps commits."""
        ...

    def snapshot(self, at: str | int | datetime | None = None) -> Snapshot: ...

    def seen_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, or None."""
        ...

    def counted_batch(self, batch_id: str) -> Counted | None:
        """What was said of a batch that was seen, if it is known. At most 1 GET."""
        ...

    def begin_append(self, namer: Namer | None = None) -> AppendTicket:
        """Start an append: before its first data PUT. `namer`: go on with one that another process began, and
        whose files this has named."""
        ...

    def begin_staging(self, what: str) -> StagingTicket:
        """Start to write files that no commit is to name: before their first PUT. `what` they are for, for errors."""
        ...

    def exclusive(self, op: str) -> AbstractContextManager[Session]: ...

    def begin_merge(self) -> UnlockedMerge | None:
        """Start a merge that holds the lock only to publish: before it writes a file. None where whoever maintains
        the table holds the lock throughout."""
        ...

    def known(self, *, since: float | None = None) -> KnownColumns:
        """The table's columns as an appender knows them: as they were some seconds ago at worst, or at `since`, a
        time that `moment` told."""
        ...

    def moment(self) -> float:
        """The time by the journal's monotonic clock, in seconds."""
        ...

    @property
    def definition(self) -> Entries:
        """The changes of the table's definition since its creation, as far as this process has read."""
        ...

    def history(self) -> list[CommitInfo]: ...

    def recent_history(self) -> list[CommitInfo]:
        """As much of the newest history as costs little, oldest first: for messages."""
        ...

    def stream(self, naming: Naming | None = None) -> JournalStream[Any]:
        """The table as a stream of appends, whose columns are called as they are now, or were when it began."""
        ...

    def checkpoint(self) -> int:
        """Write a replay cache; the number of logs it covers."""
        ...

    def sweep(
        self,
        *,
        grace_ms: int | None = None,
        orphan_age_ms: int | None = None,
        margin: bool | None = None,
        dry_run: bool = False,
    ) -> SweepReport:
        """Delete what nothing may read any more. Ages are the table's where they are None; there is a margin for
        clocks unless the grace is 0."""
        ...
