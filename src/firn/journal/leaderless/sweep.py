"""Sweep: cleanup of tombstones, orphans that no log names, expired batch claims (rules 13 to 16).

It runs under the table's lock, as orphans of maintenance can be told from parts being written only while
nobody else maintains. `now` is the store's clock: the last-modified of the lock's own PUT.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from firn.bucket.base import ObjectInfo
from firn.bucket.conditional import create, swap
from firn.errors import CorruptObjectError, ObjectChangedError, ObjectExistsError, ObjectNotFoundError
from firn.journal.leaderless.cleanup import CleanupPlan, plan_cleanup, run_cleanup
from firn.journal.leaderless.fold import BATCH_MEMORY_MS
from firn.journal.leaderless.layout import is_maintenance_part
from firn.journal.leaderless.session import MaintenanceSession
from firn.journal.model import SweepReport

if TYPE_CHECKING:
    from firn.journal.leaderless.journal import LeaderlessJournal

SWEEPS_KEPT = 100


@dataclass(frozen=True)
class Horizon:
    """`_firn/sweep.json`: snapshots before `ms` can't be read any more; the last sweeps for `history()`."""

    ms: int = 0
    sweeps: tuple[dict[str, Any], ...] = ()
    etag: str | None = None


def read_horizon(journal: LeaderlessJournal) -> Horizon:
    """1 GET."""
    bucket, key = journal.log_bucket, journal.layout.horizon_key
    try:
        blob = bucket.get(key)
        raw = orjson.loads(blob.data)
        return Horizon(int(raw["t"]), tuple(raw.get("sweeps") or ()), blob.info.etag)
    except ObjectNotFoundError:
        return Horizon()
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptObjectError(
            f"{bucket.uri(key)} is not a record of sweeps ({error!r}). Delete it: time travel to before the "
            "last sweep then fails by a missing file instead of a clear message."
        ) from error


def sweep(
    journal: LeaderlessJournal,
    session: MaintenanceSession,
    *,
    grace_ms: int,
    orphan_age_ms: int,
    margin: bool,
    dry_run: bool,
) -> SweepReport:
    """Delete what nothing may read.

    Cost: 2 LIST sequences + 1 GET an uncached log + 1 HEAD, then 3 PUTs, the deletes, 1 PUT a changed log.
    """
    now = store_now(journal, session)
    # Data before logs: a file that is published in between has its log in the second list.
    parts = journal.bucket.list(journal.layout.data_prefix).objects
    state, listed = session.state, session.loaded.listed
    skew = 2 * journal.settings.max_skew_ms if margin else 0
    # Without a margin everything that was tombstoned before this sweep goes, whatever clocks say.
    # S3 tells whole seconds, so the newest log may be stamped after `now`.
    latest = max([now, *(log.t for log in state.logs)])
    before = now - grace_ms - skew if margin or grace_ms else latest + 1
    plan = plan_cleanup(state, listed, before_ms=before)
    orphans = _orphans(parts, set(state.files), now - orphan_age_ms if orphan_age_ms else None)
    sizes = {info.key: info.size for info in parts}
    owned = [path for path in plan.data if journal.layout.owns(path)]
    report = SweepReport(
        data_files=tuple(owned),
        logs=tuple(journal.layout.log_key(name) for name in plan.logs),
        orphans=tuple(o.key for o in orphans),
        bytes=sum(sizes.get(p, 0) for p in owned)
        + sum(o.size for o in orphans)
        + sum(listed[n].size for n in plan.logs if n in listed),
        kept_foreign=tuple(path for path in plan.data if not journal.layout.owns(path)),
        dry_run=dry_run,
    )
    if dry_run:
        return report
    # The lock was held until after the LISTs, so no part among the orphans can still be published: without
    # this, a sweep that stalled and lost the lock would take the next holder's parts for orphans.
    session.confirm()
    if report.data_files or report.logs or report.orphans:
        record(journal, plan, report, latest)
    run_cleanup(
        plan, bucket=journal.bucket, log_bucket=journal.log_bucket, layout=journal.layout, listed=listed
    )
    journal.bucket.delete_many([o.key for o in orphans])
    _delete_old_claims(journal, now)
    return report


def store_now(journal: LeaderlessJournal, session: MaintenanceSession) -> int:
    """The store's clock, from an object that this session has just written."""
    bucket, layout = journal.log_bucket, journal.layout
    if session.lease is not None:
        session.lease.renew()
        return bucket.head(layout.lock_key).modified_ms
    bucket.put(layout.clock_key, b"")
    return bucket.head(layout.clock_key).modified_ms


def _orphans(parts: Sequence[ObjectInfo], named: set[str], append_before_ms: int | None) -> list[ObjectInfo]:
    """Parts that no log names: of maintenance any, of appends those last modified before the given time."""
    return [
        part
        for part in parts
        if part.key not in named
        and (is_maintenance_part(part.key) or append_before_ms is None or part.modified_ms < append_before_ms)
    ]


def record(journal: LeaderlessJournal, plan: CleanupPlan, report: SweepReport, now: int) -> None:
    """Before anything is deleted: a reader of an older version then learns why it can't be read.

    By compare-and-swap, as cleanups may race: 1 GET + 1 PUT.
    """
    bucket, key = journal.log_bucket, journal.layout.horizon_key
    entry = {
        "t": now,
        "data_files": len(report.data_files),
        "logs": len(report.logs),
        "orphans": len(report.orphans),
        "bytes": report.bytes,
    }
    while True:
        horizon = read_horizon(journal)
        nonce = secrets.token_hex(16)
        body = orjson.dumps(
            {
                "firn": 1,
                "id": nonce,
                "t": max(horizon.ms, plan.horizon_ms),
                "sweeps": [*horizon.sweeps, entry][-SWEEPS_KEPT:],
            }
        )
        if not bucket.capabilities.conditional_put:
            bucket.put(key, body)
            return
        try:
            if horizon.etag is None:
                create(bucket, key, body, nonce=nonce)
            else:
                swap(bucket, key, body, horizon.etag, nonce=nonce)
            return
        except (ObjectExistsError, ObjectChangedError):
            continue


def _delete_old_claims(journal: LeaderlessJournal, now: int) -> None:
    claims = journal.log_bucket.list(journal.layout.batch_prefix).objects
    journal.log_bucket.delete_many([c.key for c in claims if c.modified_ms < now - BATCH_MEMORY_MS])
