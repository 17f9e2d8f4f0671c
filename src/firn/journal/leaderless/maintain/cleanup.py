"""Tombstone cleanup (rules 12 to 15). The plan is pure; running it needs no lock and may be repeated.

Order: data files, then logs, each acknowledged; only then is each log that names them replaced, under its
own name and only in the version that was read. A new name, a plain PUT or replacing first would double
rows or bring deleted ones back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firn.bucket.base import ObjectInfo
from firn.errors import ObjectChangedError, OutcomeUnknownError
from firn.journal.leaderless.format.codec import Log, encode
from firn.journal.leaderless.replay.replay import Burial, ReplayedState, burial, burials
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import DataFile


@dataclass(frozen=True)
class CleanupPlan:
    """`data`: dead paths to delete; `logs`: base names to delete; `rewrites`: cleaned logs by name.
    `horizon_ms`: older snapshots can't be read afterwards."""

    data: tuple[str, ...]
    logs: tuple[str, ...]
    rewrites: tuple[Log, ...]
    horizon_ms: int


def plan_cleanup(
    state: ReplayedState,
    listed: Mapping[str, ObjectInfo],
    *,
    before_ms: int,
    forget_before_ms: int | None = None,
) -> CleanupPlan:
    """The files and logs that may be deleted: all that were tombstoned, effectively, before `before_ms` (rule
    13). What says that they are dead goes, too; of those since `forget_before_ms` it stays (rule 25)."""
    forget_before = before_ms if forget_before_ms is None else min(before_ms, forget_before_ms)
    modified = {log.name: listed[log.name].modified_ms for log in state.logs}
    buried = burials(state.logs, modified)
    replaced: dict[str, Burial] = {}
    for log in state.logs:
        for key, t in log.tombstones.items():
            name = key.rpartition("/")[2]
            replaced[name] = burial(t, log, modified[log.name]).joined(replaced.get(name))
    going = {name for name, b in replaced.items() if b.since < before_ms}
    going -= _last_to_name_live_files(state, going)
    forgotten = {name for name in going if replaced[name].since < forget_before}
    staying = [log for log in state.logs if log.name not in going]
    # Rule 15: a file goes only if no log that stays names it alive.
    named_alive = _named_alive(staying)
    data = {path for path, b in buried.items() if b.since < before_ms and path not in named_alive}
    rewrites = []
    for log in staying:
        if log.name in replaced:
            continue  # tombstoned itself: another log carries its tombstones
        gone_logs = {key for key in log.tombstones if key.rpartition("/")[2] in forgotten}
        gone_data = {path for path in data & log.dead.keys() if buried[path].since < forget_before}
        bare = {f.path: _bare(f) for f in log.files if f.path in data and f.path in log.dead}
        if gone_logs or gone_data or any(bare[f.path] != f for f in log.files if f.path in bare):
            log = replace(log, files=tuple(bare.get(f.path, f) for f in log.files))
            rewrites.append(_without(log, gone_logs, gone_data))
    # Snapshots from the log on that replaced a log or buried a file don't need it. Where that log is cleaned or
    # gone, a sweep before this one has recorded its stamp; a log that still carries the tombstone is younger
    # than that, and may be within the grace.
    gone = (*(replaced[name] for name in going), *(buried[path] for path in data))
    horizon = max((b.stamp for b in gone), default=0)
    return CleanupPlan(tuple(sorted(data)), tuple(sorted(going & listed.keys())), tuple(rewrites), horizon)


def _named_alive(logs: Sequence[Log]) -> set[str]:
    return {f.path for log in logs for f in log.files if f.path not in log.dead}


def _last_to_name_live_files(state: ReplayedState, going: set[str]) -> set[str]:
    """Logs that the reference tombstoned without carrying their files (its hole 1): deleting one would
    lose the live files that only it names."""
    carried = {f.path for log in state.logs if log.name not in going for f in log.files}
    return {
        log.name
        for log in state.logs
        if log.name in going and any(f.path not in carried and f.path not in state.dead for f in log.files)
    }


def _bare(file: DataFile) -> DataFile:
    """A dead file's marker without what it says of the file's rows."""
    part = {key: value for key, value in (file.extra or {}).items() if key == "part"}
    return file._replace(extra=part or None)


def _without(log: Log, gone_logs: set[str], gone_data: set[str]) -> Log:
    return replace(
        log,
        files=tuple(f for f in log.files if f.path not in gone_data),
        dead={p: t for p, t in log.dead.items() if p not in gone_data},
        tombstones={k: t for k, t in log.tombstones.items() if k not in gone_logs},
    )


def run_cleanup(table: TableLog, plan: CleanupPlan, listed: Mapping[str, ObjectInfo]) -> None:
    """Deletes, then 1 PUT a changed log. Files outside the table's prefix are kept: see `SweepReport`."""
    layout, log_bucket = table.layout, table.log_bucket
    table.bucket.delete_many([path for path in plan.data if layout.owns(path)])
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
