"""The smallest table over the real journal: rows are ids, and a data file holds some of them as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.maintain.cleanup import plan_cleanup, run_cleanup
from firn.journal.leaderless.replay.horizon import record
from firn.journal.lock import ExclusiveLock
from firn.journal.model import DataFile, Snapshot, SweepReport

HOUR = 3_600_000
SETTINGS = LeaderlessSettings(grace_ms=HOUR, orphan_age_ms=2 * HOUR, lock_wait_ms=240_000)
PREFIX = "db/t"
PARTITIONS = ("p=a", "p=b")


def journal_of(
    bucket: Bucket, clock: Clock, settings: LeaderlessSettings = SETTINGS, lock: ExclusiveLock | None = None
) -> LeaderlessJournal:
    """A process's journal, without threads."""
    return LeaderlessJournal(
        bucket, PREFIX, settings=settings, clock=clock, lock=lock, renew_in_background=False
    )


def put_rows(
    journal: LeaderlessJournal, partition: str, ids: Sequence[int], *, maintenance: bool
) -> DataFile:
    """One data file."""
    path = journal.layout.namer(maintenance=maintenance)(partition)
    body = orjson.dumps(list(ids))
    journal.bucket.put(path, body)
    return DataFile(path, len(body), journal.clock.now_ms(), {"rows": len(ids)})


def rows_of(journal: LeaderlessJournal, file: DataFile) -> list[int]:
    return list(orjson.loads(journal.bucket.get(file.path).data))


def read_all(journal: LeaderlessJournal, snapshot: Snapshot) -> list[int]:
    return [i for file in snapshot.files for i in rows_of(journal, file)]


def clean(journal: LeaderlessJournal) -> bool:
    """Cleanup as it may run anywhere, without the lock and by the client's own clock; whether there was any."""
    s = journal.settings
    # Before the LIST: what is restored after it was dead for less than a grace by then.
    before = journal.clock.now_ms() - s.grace_ms - 2 * s.max_skew_ms
    loaded = journal.loader.load(every=True)
    plan = plan_cleanup(journal.fold(loaded.logs), loaded.listed, before_ms=before)
    if not (plan.data or plan.logs):
        return False
    now = journal.clock.now_ms()
    record(journal.log_bucket, journal.layout, horizon_ms=plan.horizon_ms, report=SweepReport(), now=now)
    run_cleanup(journal, plan, loaded.listed)
    return True


def partition_of(file: DataFile) -> str:
    return file.path.split("/")[3]
