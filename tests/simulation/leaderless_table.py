"""The smallest table over the real journal: rows are ids, and a data file holds some of them as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import orjson

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.journal.inlined import InlinedRows
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.format.layout import DataNamer
from firn.journal.leaderless.maintain.cleanup import plan_cleanup, run_cleanup
from firn.journal.leaderless.replay.horizon import record
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.lock import ExclusiveLock
from firn.journal.model import DataFile, Snapshot, SweepReport

HOUR = 3_600_000
SETTINGS = LeaderlessSettings(grace_ms=HOUR, orphan_age_ms=2 * HOUR, lock_wait_ms=240_000)
PREFIX = "db/t"
PARTITIONS = ("p=a", "p=b")


def journal_of(
    bucket: Bucket,
    clock: Clock,
    settings: LeaderlessSettings = SETTINGS,
    lock: ExclusiveLock | None = None,
    *,
    windowed: bool = False,
) -> LeaderlessJournal:
    """A process's journal, without threads."""
    return LeaderlessJournal(
        bucket,
        PREFIX,
        settings=settings,
        clock=clock,
        lock=lock,
        renew_in_background=False,
        windowed=windowed,
    )


def put_rows(
    journal: LeaderlessJournal,
    partition: str,
    ids: Sequence[int],
    *,
    maintenance: bool = False,
    namer: DataNamer | None = None,
) -> DataFile:
    """One data file."""
    path = (namer or journal.layout.namer(maintenance=maintenance))(partition)
    body = orjson.dumps(list(ids))
    journal.bucket.put(path, body)
    return DataFile(path, len(body), journal.clock.now_ms(), {"rows": len(ids)})


def inlined_rows(ids: Sequence[int], columns: Mapping[str, str]) -> DataFile:
    """Rows that are to stand in their append's log."""
    values = [list(ids), *([None] * len(ids) for _ in range(len(columns) - 1))]
    return DataFile("", 1, 0, {"rows": len(ids), "inlined": InlinedRows.of(columns, values, len(ids))})


def rows_of(journal: LeaderlessJournal, file: DataFile) -> list[int]:
    if file.inlined is not None:
        return list(next(iter(file.inlined.values().values())))
    return list(orjson.loads(journal.bucket.get(file.path).data))


def rows_by_partition(journal: LeaderlessJournal, file: DataFile) -> dict[str, list[int]]:
    """The rows of a file, which is of one partition, or of a log, which is of all."""
    if file.inlined is None:
        return {partition_of(file): rows_of(journal, file)}
    found: dict[str, list[int]] = {}
    for i in rows_of(journal, file):
        found.setdefault(PARTITIONS[i % len(PARTITIONS)], []).append(i)
    return found


def rows_that_stay(
    journal: LeaderlessJournal, files: Sequence[DataFile], erased: Collection[int] = ()
) -> dict[str, list[int]]:
    """The rows of files that a commit replaces, by partition: all of them, of rows in logs also those of partitions
    that it isn't about."""
    found: dict[str, list[int]] = {}
    for file in files:
        for p, ids in rows_by_partition(journal, file).items():
            if kept := [i for i in ids if i not in erased]:
                found.setdefault(p, []).extend(kept)
    return found


def read_all(journal: LeaderlessJournal, snapshot: Snapshot) -> list[int]:
    return [i for file in snapshot.files for i in rows_of(journal, file)]


def clean(journal: LeaderlessJournal) -> bool:
    """Cleanup as it may run anywhere, without the lock and by the client's own clock; whether there was any."""
    s = journal.settings
    # Before the LIST: what is restored after it was dead for less than a grace by then.
    before = journal.clock.now_ms() - s.grace_ms - 2 * s.max_skew_ms
    loaded = journal.loader.load(scope=Scope.MAINTENANCE)
    plan = plan_cleanup(journal.fold(loaded.logs), loaded.listed, before_ms=before)
    if not (plan.data or plan.logs):
        return False
    now = journal.clock.now_ms()
    record(journal.log_bucket, journal.layout, horizon_ms=plan.horizon_ms, report=SweepReport(), now=now)
    run_cleanup(journal, plan, loaded.listed)
    return True


def partition_of(file: DataFile) -> str:
    return file.path.split("/")[3]
