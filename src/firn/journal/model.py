"""What both lake journals load to and take: a snapshot of data files, and a commit that changes it.

Operations of `firn.lake` stand above these types and know no protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from firn.bucket.base import Bucket

ColumnTypes = Mapping[str, str]
"""Column name → DuckDB type name, in column order."""


class DataFile(NamedTuple):
    """One Parquet file of a table.

    `path` is the whole key in the bucket. `extra` is what Firn adds to the reference's marker, as
    decoded JSON, or None (the reference's own files, or extras it dropped): keys `rows` (int), `stats`
    (column → [min, max, nulls], encoded by `firn.lake.stats`), `crc` (CRC-32 of the Parquet footer), `spec`
    (id of the partition spec it was written under), `part` (partition values, only where the path can't
    tell them). Missing means unknown, never empty.
    """

    path: str
    size: int
    created_ms: int
    extra: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int | None:
        return None if self.extra is None else self.extra.get("rows")

    @property
    def stats(self) -> Mapping[str, Sequence[Any]]:
        return {} if self.extra is None else self.extra.get("stats") or {}


@dataclass(frozen=True)
class Snapshot:
    """A table at one version: its live files and its columns. Immutable and picklable."""

    version: str
    time_ms: int
    columns: ColumnTypes
    files: tuple[DataFile, ...]
    warnings: tuple[str, ...] = ()

    @property
    def time(self) -> datetime | None:
        """Commit time of the newest commit, UTC; None for a table without any."""
        from datetime import timezone

        return datetime.fromtimestamp(self.time_ms / 1000, timezone.utc) if self.time_ms else None


@dataclass(frozen=True)
class Commit:
    """A change: files that appear, paths that stop being live, columns known to the writer."""

    op: str
    adds: Sequence[DataFile] = ()
    removes: Sequence[str] = ()
    columns: ColumnTypes = field(default_factory=dict)
    batch_id: str | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitInfo:
    """One line of `history()`."""

    version: str
    time: datetime
    op: str
    files_added: int
    files_removed: int
    rows_added: int | None
    bytes_added: int
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class SweepReport:
    """What sweep deleted, or would delete. `kept_foreign`: registered files outside the table's prefix
    that no version reads any more; Firn never deletes what it doesn't own."""

    data_files: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    bytes: int = 0
    kept_foreign: tuple[str, ...] = ()
    dry_run: bool = False


class Namer(Protocol):
    """Makes unique data file keys; picklable, so that tasks anywhere can name their files."""

    def __call__(self, partition: str) -> str:
        """A new key for a file of the partition directory `a=1/b=2` ('' for none)."""
        ...


class AppendTicket(Protocol):
    """An append under way; its clock runs since before the first data PUT."""

    def backdate(self, seconds: float) -> None:
        """Say that the first data PUT was so long ago: other processes made it."""
        ...

    def check_age(self) -> None:
        """`AppendExpiredError` if the append has taken so long that its files may be gone."""
        ...

    def commit(self, commit: Commit) -> str:
        """Publish; the version. `AppendExpiredError` if it took too long, `OutcomeUnknownError` if no
        answer came. A `batch_id` that the table has seen makes it a no-op returning that version."""
        ...


class Session(Protocol):
    """Exclusive maintenance of a table: nobody else merges, rewrites or removes meanwhile."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def log_length(self) -> int:
        """How many log objects a reader must look at; a merge makes it one."""
        ...

    def revivable(self, at: str | int | datetime) -> Snapshot:
        """The snapshot at `at`, whose files are sure to outlast a commit that makes them live again."""
        ...

    def check(self) -> None:
        """Raise `LockLostError` early if somebody took over. Free of requests."""
        ...

    def publish(self, commit: Commit) -> str: ...


class LakeJournal(Protocol):
    """How a lake table agrees on its files. Two implementations: `leaderless` and `writer`."""

    @property
    def bucket(self) -> Bucket: ...

    def snapshot(self, at: str | int | datetime | None = None) -> Snapshot: ...

    def namer(self, *, maintenance: bool) -> Namer: ...

    def seen_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, or None."""
        ...

    def begin_append(self) -> AppendTicket: ...

    def exclusive(self, op: str) -> AbstractContextManager[Session]: ...

    def columns(self) -> ColumnTypes:
        """The table's columns as an appender knows them: of a moment ago at worst."""
        ...

    def history(self) -> list[CommitInfo]: ...

    def checkpoint(self) -> int:
        """Write a replay cache; the number of logs it covers."""
        ...

    def sweep(self, *, grace_ms: int, orphan_age_ms: int, margin: bool, dry_run: bool) -> SweepReport: ...
