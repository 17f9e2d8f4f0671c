"""Sweep: cleanup of tombstones, orphans that no log names, old claims and notes (rules 13 to 16).

It runs under the table's lock, as orphans of maintenance can be told from parts being written only while
nobody else maintains. `now` is the store's clock: the last-modified of the lock's own PUT.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from firn.bucket.base import ObjectInfo
from firn.bucket.presence import find
from firn.errors import FirnError
from firn.journal.leaderless.format.layout import is_maintenance_part
from firn.journal.leaderless.maintain.cleanup import plan_cleanup, run_cleanup
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay.checkpoint_writer import holds_only, write_checkpoint
from firn.journal.leaderless.replay.horizon import record
from firn.journal.leaderless.replay.replay import BATCH_MEMORY_MS
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import SweepReport

WORK_MEMORY_MS = 24 * 3600 * 1000
"""How long a note of work is kept that nobody has taken away."""


def sweep(
    session: MaintenanceSession,
    *,
    grace_ms: int | None,
    orphan_age_ms: int | None,
    margin: bool | None,
    dry_run: bool,
    orphans: bool = True,
) -> SweepReport:
    """Delete what nothing may read. Ages are the table's where they are None; there is a margin for clocks unless the
    grace is 0. Without `orphans` no file is looked for that no log names.

    Cost: 2 LIST sequences, without `orphans` 1, + 1 GET an uncached log + 1 GET of the log checkpoint + 1 HEAD, then
    3 PUTs, the deletes, 1 PUT a changed log. Where logs go, what a log checkpoint costs if there is one.
    """
    table = session.table
    now = store_now(session)
    # Data before logs: a file that is published in between has its log in the second list.
    parts = table.bucket.list(table.layout.data_prefix).objects if orphans else ()
    state, listed = session.state, session.loaded.listed
    lasting = table.lasting()
    grace_ms = lasting.grace_ms if grace_ms is None else grace_ms
    orphan_age_ms = lasting.orphan_age_ms if orphan_age_ms is None else orphan_age_ms
    margin = grace_ms > 0 if margin is None else margin
    skew = 2 * lasting.max_skew_ms if margin else 0
    # Without a margin everything that was tombstoned before this sweep goes, whatever clocks say.
    # S3 tells whole seconds, so the newest log may be stamped after `now`.
    latest = max([now, *(log.t for log in state.logs)])
    before = now - grace_ms - skew if margin or grace_ms else latest + 1
    forget_before = now - lasting.grace_ms - 2 * lasting.max_skew_ms if table.windowed else None
    plan = plan_cleanup(state, listed, before_ms=before, forget_before_ms=forget_before)
    unnamed = _orphans(parts, set(state.files), now - orphan_age_ms if orphan_age_ms else None)
    sizes = {info.key: info.size for info in parts}
    if not orphans:  # of those that a sweep before has deleted, too
        sizes = {path: state.files[path].size for path in plan.data if table.layout.owns(path)}
    owned = [path for path in plan.data if path in sizes]  # others' are elsewhere; some were deleted before
    report = SweepReport(
        data_files=tuple(owned),
        logs=tuple(table.layout.log_key(name) for name in plan.logs),
        orphans=tuple(o.key for o in unnamed),
        bytes=sum(sizes[path] for path in owned)
        + sum(o.size for o in unnamed)
        + sum(listed[n].size for n in plan.logs if n in listed),
        kept_foreign=tuple(path for path in plan.data if not table.layout.owns(path)),
        dry_run=dry_run,
    )
    if dry_run:
        return report
    # The lock was held until after the LISTs, so no part among the orphans can still be published: without
    # this, a sweep that stalled and lost the lock would take the next holder's parts for orphans.
    session.confirm()
    if report.data_files or report.logs or report.orphans:
        record(table.log_bucket, table.layout, horizon_ms=plan.horizon_ms, report=report, now=latest)
    run_cleanup(table, replace(plan, data=tuple(owned)), listed)
    going = {*plan.logs, *(log.name for log in plan.rewrites)}
    _forget_bodies(table, listed, going)
    table.bucket.delete_many([o.key for o in unnamed])
    _delete_old_notes(table, now)
    return report


def _forget_bodies(table: TableLog, listed: Mapping[str, ObjectInfo], going: Collection[str]) -> None:
    """Write the log checkpoint anew, without the bodies of logs that are gone: deleted rows may stand in them. If
    that fails, delete it.

    A sweep that deletes no log looks, too: the one that did may have been killed. Where logs go it is written even if
    it has none of them, and where views build on it even if there is none: somebody may be writing one who has read
    these logs, and then finds that it isn't the one before any more.
    """
    bucket, key = table.log_bucket, table.layout.checkpoint_key
    blob = find(bucket, key)
    if blob is None and not (going and table.windowed):
        return
    if blob is not None and not going and holds_only(blob.data, listed):
        return
    try:
        write_checkpoint(table, whole=True)
    except FirnError:
        bucket.delete_many([key])


def store_now(session: MaintenanceSession) -> int:
    """The store's clock, from an object that this session has just written."""
    bucket, layout = session.table.log_bucket, session.table.layout
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


def _delete_old_notes(table: TableLog, now: int) -> None:
    """Claims of batches, and notes of who is at what."""
    layout = table.layout
    oldest = {layout.batch_prefix: now - BATCH_MEMORY_MS, layout.work_prefix: now - WORK_MEMORY_MS}
    there = table.log_bucket.list(layout.firn_prefix).objects
    old = [
        i.key
        for i in there
        for prefix, ms in oldest.items()
        if i.key.startswith(prefix) and i.modified_ms < ms
    ]
    table.log_bucket.delete_many(old)
