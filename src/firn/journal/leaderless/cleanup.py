"""Tombstone cleanup (rules 12 to 15). The plan is pure; running it needs no lock and may be repeated.

Order: data files, then logs, each acknowledged; only then is each log that names them replaced, under its
own name and only in the version that was read. A new name, a plain PUT or replacing first would double
rows or bring deleted ones back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firn.bucket.base import Bucket, ObjectInfo
from firn.errors import ObjectChangedError, OutcomeUnknownError
from firn.journal.leaderless.codec import Log, encode
from firn.journal.leaderless.fold import State, effective_time
from firn.journal.leaderless.layout import TableLayout


@dataclass(frozen=True)
class CleanupPlan:
    """`data`: dead paths to delete; `logs`: base names to delete; `rewrites`: cleaned logs by name.
    `horizon_ms`: older snapshots can't be read afterwards."""

    data: tuple[str, ...]
    logs: tuple[str, ...]
    rewrites: tuple[Log, ...]
    horizon_ms: int

    @property
    def empty(self) -> bool:
        return not (self.data or self.logs)


def plan_cleanup(state: State, listed: Mapping[str, ObjectInfo], *, before_ms: int) -> CleanupPlan:
    """What may go: all that was tombstoned, effectively, before `before_ms` (rule 13)."""
    logs_since: dict[str, int] = {}
    dead_since: dict[str, int] = {}
    for log in state.logs:
        modified = listed[log.name].modified_ms
        for key, t in log.tombstones.items():
            name = key.rpartition("/")[2]
            since = effective_time(t, log, modified)
            logs_since[name] = min(since, logs_since.get(name, since))
        for path, t in log.dead.items():
            since = effective_time(t, log, modified)
            dead_since[path] = min(since, dead_since.get(path, since))
    going = {name for name, since in logs_since.items() if since < before_ms}
    going -= _last_to_name_live_files(state, going)
    staying = [log for log in state.logs if log.name not in going]
    # Rule 15: a file goes only if no log that stays names it alive.
    named_alive = {f.path for log in staying for f in log.files if f.path not in log.dead}
    data = {
        path
        for path, since in dead_since.items()
        if since < before_ms and path in state.dead and path not in named_alive
    }
    rewrites = []
    for log in staying:
        if log.name in logs_since:
            continue  # tombstoned itself: another log carries its tombstones
        gone_logs = {key for key in log.tombstones if key.rpartition("/")[2] in going}
        gone_data = data & log.dead.keys()
        if gone_logs or gone_data:
            rewrites.append(_without(log, gone_logs, gone_data))
    return CleanupPlan(
        tuple(sorted(data)), tuple(sorted(going)), tuple(rewrites), _horizon(state, going, data)
    )


def _horizon(state: State, going: set[str], data: set[str]) -> int:
    """From when on snapshots don't need what goes: the stamp of the first log that replaces each log and
    buries each file. Not the tombstones' times: a log that was published late is stamped earlier."""
    first: dict[str, int] = {}
    for log in reversed(state.logs):
        for key in log.tombstones:
            first[key.rpartition("/")[2]] = log.t
        for path in log.dead:
            first[path] = log.t
    return max((first[name] for name in going | data), default=0)


def _last_to_name_live_files(state: State, going: set[str]) -> set[str]:
    """Logs that the reference tombstoned without carrying their files (its hole 1): deleting one would
    lose the live files that only it names."""
    carried = {f.path for log in state.logs if log.name not in going for f in log.files}
    return {
        log.name
        for log in state.logs
        if log.name in going and any(f.path not in carried and f.path not in state.dead for f in log.files)
    }


def _without(log: Log, gone_logs: set[str], gone_data: set[str]) -> Log:
    return replace(
        log,
        files=tuple(f for f in log.files if f.path not in gone_data),
        dead={p: t for p, t in log.dead.items() if p not in gone_data},
        tombstones={k: t for k, t in log.tombstones.items() if k not in gone_logs},
    )


def run_cleanup(
    plan: CleanupPlan,
    *,
    bucket: Bucket,
    log_bucket: Bucket,
    layout: TableLayout,
    listed: Mapping[str, ObjectInfo],
) -> None:
    """Deletes, then 1 PUT a changed log. Files outside the table's prefix are kept: see `SweepReport`."""
    bucket.delete_many([path for path in plan.data if layout.owns(path)])
    log_bucket.delete_many([layout.log_key(name) for name in plan.logs])
    for log in plan.rewrites:
        info = listed[log.name]
        if log_bucket.capabilities.conditional_put:
            try:
                log_bucket.put_if_match(info.key, encode(log), info.etag)
            except (ObjectChangedError, OutcomeUnknownError):
                continue  # another cleaner was first, or it may yet land: the next pass finds what is left
        else:
            log_bucket.put(info.key, encode(log))
