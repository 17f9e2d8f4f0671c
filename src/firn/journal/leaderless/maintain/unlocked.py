"""A merge that holds the lock only to publish: it reads and writes beside other maintenance (rules 27 and 28).

    1. read the logs, read files, write others (`part-w-…`), without the lock
    2. take the lock; read all logs again
    3. publish what replaces files that are live still

Any number of such merges of different files go at once, and folds go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from firn.bucket.presence import is_there
from firn.errors import ConflictError, CorruptObjectError, FirnError
from firn.journal.entries import DROP, INTO, TYPE, Entries
from firn.journal.leaderless.append import OpenAppend
from firn.journal.leaderless.format.layout import is_unlocked_part
from firn.journal.leaderless.maintain.lease import Lease
from firn.journal.leaderless.maintain.session import MaintenanceSession, locked
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.lock import ExclusiveLock
from firn.journal.model import ColumnTypes, Commit, DataFile, Snapshot, with_types


class UnlockedMerge:
    """A merge under way without the lock. Made, and its snapshot read, before its first data PUT: its age is that of
    its files.

    Cost: nothing until it reads. Then 1 LIST sequence + the logs that aren't cached + 1 GET, and the same once more
    under the lock.
    """

    def __init__(self, table: TableLog) -> None:
        self.table = table
        self.age = OpenAppend(table, "merge of")
        self.namer = table.layout.unlocked_namer()
        self._snapshot: Snapshot | None = None
        self._sweeps: Sequence[Mapping[str, Any]] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """What it reads: the table as it was when this was first asked for."""
        if self._snapshot is None:
            self._sweeps = self._recorded_sweeps()
            loaded = self.table.loader.load(scope=Scope.MAINTENANCE)
            self.table.check_there(loaded.listed)
            self._snapshot = self.table.fold(loaded.logs).snapshot()
        return self._snapshot

    def check(self) -> None:
        """Raise `AppendExpiredError` as soon as it is too old to be published."""
        self.age.check_age()

    def orphans_went(self) -> bool:
        """Whether a sweep may have deleted orphans since: one by a shorter age than the table's takes parts of any
        age. It notes that before it deletes."""
        before, now = self._sweeps, self._recorded_sweeps()
        if before is None or now is None:
            return True
        return any(sweep["orphans"] for sweep in now if sweep not in before)

    def _recorded_sweeps(self) -> Sequence[Mapping[str, Any]] | None:
        try:
            return read_horizon(self.table.log_bucket, self.table.layout).sweeps
        except CorruptObjectError:  # `firn mend` writes it anew; a merge needn't wait for that
            return None

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete files that it has written, and that no commit of it will ever name: who overtook it may have erased
        rows that they hold. What fails here is left to sweep. 1 DELETE a file, fewer in bulk."""
        with suppress(FirnError):
            self.table.bucket.delete_many([file.path for file in files if is_unlocked_part(file.path)])

    @contextmanager
    def publishing(self, op: str) -> Iterator[PublishingSession]:
        """Hold the lock, to publish. Waits for it as long as the work has taken, if that is longer than `lock_wait`:
        so much was done already.

        Raises:
            LockHeldError: somebody else maintains the table for all that time.
        """
        worked = self.table.clock.monotonic() - self.age.started
        wait_ms = max(self.table.settings.lock_wait_ms, int(worked * 1000))
        with locked(
            self.table, op, lambda *held: PublishingSession(self, op, *held), wait_ms=wait_ms
        ) as session:
            yield session


class PublishingSession(MaintenanceSession):
    """The lock held, for files that were read and written before it was taken."""

    def __init__(
        self, merge: UnlockedMerge, op: str, lease: Lease | None, outer: tuple[ExclusiveLock, Any] | None
    ) -> None:
        super().__init__(merge.table, op, lease, outer)
        self.merge = merge

    def holds(self, paths: Iterable[str]) -> bool:
        """Whether files, and rows of logs, are as the merge read them, so that what it made of them can take their
        place (rule 28)."""
        return self.are_live(paths) and self.reads_alike()

    def are_live(self, paths: Iterable[str]) -> bool:
        """Whether nobody has replaced or removed them."""
        files, dead = self.state.files, self.state.dead
        return all(path in files and path not in dead for path in paths)

    def reads_alike(self) -> bool:
        """Whether the columns that the table had are read as they were. A merge leaves dropped columns out, and who
        brings one back would miss its values; it writes others under the types that they were read as."""
        read, columns = self.merge.snapshot, self.merge.snapshot.stored
        return _entries_of(self.state.definition, columns) == _entries_of(read.definition, columns)

    def publish(self, commit: Commit) -> str:
        """Make `commit` visible, as a session that held the lock throughout. 1 GET more; where a sweep has deleted
        orphans meanwhile, also 1 HEAD a file that was written without the lock.

        Raises:
            ConflictError: a file that it replaces isn't what it read any more, or one that it wrote was swept.
            AppendExpiredError: it is so old that a sweep may be about to take its files.
        """
        written = [file for file in commit.adds if is_unlocked_part(file.path)]
        where = self.table.bucket.uri(self.table.layout.prefix)
        if not self.holds(commit.removes):
            raise ConflictError(
                f"{where}: files that this {self.op} read were replaced, removed or altered before it could publish. "
                "Nothing of it is visible; run it again."
            )
        # No sweep begins while this lock is held.
        if self.merge.orphans_went() and not all(is_there(self.table.bucket, file.path) for file in written):
            raise ConflictError(
                f"{where}: a sweep by a shorter age than the table's orphan_age deleted files of this {self.op} "
                "before it could publish. Nothing of it is visible; run it again."
            )
        return super().publish(replace(commit, adds=self._as_written(commit.adds)))

    def _as_written(self, adds: Sequence[DataFile]) -> list[DataFile]:
        """The files, with the types of columns that have widened, and got defaults, since they were written."""
        older = self.state.agreement.differing(self.merge.snapshot.stored)
        return [with_types(file, older) if is_unlocked_part(file.path) else file for file in adds]

    def _check_ages(self, revived: Sequence[DataFile]) -> None:
        super()._check_ages(revived)
        self.merge.check()


def _entries_of(definition: Entries, columns: ColumnTypes) -> dict[tuple[str, str], Any]:
    """What decides how columns are read and written by a merge."""
    return {
        key: entry.value
        for key, entry in definition.map.items()
        if key[0] in (DROP, TYPE, INTO) and key[1] in columns
    }
