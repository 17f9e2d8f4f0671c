"""Check a lake table with a log of its own: its logs, what they carry of one another, its files, its lock and caches.

`writer` checks tables of writers' catalogs, with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import orjson

from firn.arrow.json_columns import column_of
from firn.bucket.base import ObjectInfo
from firn.errors import CorruptObjectError, FirnError, ObjectNotFoundError, UnsupportedError
from firn.inspect.fsck.files import Expected, altered_columns, check_files
from firn.inspect.fsck.findings import Finding, Findings, TableCheck, conflicts, of_error, shared_names, shown
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.append import claimed_log
from firn.journal.leaderless.format.codec import Log, decode, replaced_names, with_part
from firn.journal.leaderless.format.layout import parse_log_name
from firn.journal.leaderless.maintain.lease import LockState
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.journal.leaderless.replay.replay import ReplayedState
from firn.lake.table import LakeTable

_REMEDY = (
    "Copy it back from a backup or an older version of the object; or `firn mend TABLE` sees what other objects know "
    "of it"
)

Bodies = Mapping[tuple[str, str], bytes]
"""(name, etag) → the bytes of a log."""


def check_lake(
    table: LakeTable, *, footers: bool = True, blocks: bool = False, checks: bool = False
) -> Findings:
    """One pass over one table. Cost: see `firn.inspect.fsck.fsck.check`."""
    found = Findings()
    found.count("tables", 1)
    journal = table.journal
    if not isinstance(journal, LeaderlessJournal):
        return found
    logs, bodies = _logs(journal, found)
    for log in logs:
        found.add(*_carried_badly(log, logs, journal))
    state = _folded(journal, logs, found)
    if state is not None:
        _files(journal, state, found, footers)
        if checks:
            found.add(*failed_checks(table))
    _lock(journal, found)
    _batches(journal, found)
    _checkpoint(journal, bodies, logs, found)
    try:
        read_horizon(journal.log_bucket, journal.layout)
    except CorruptObjectError as error:
        found.error(journal.log_bucket.uri(journal.layout.horizon_key), error)
    return found


def failed_checks(table: LakeTable) -> list[Finding]:
    """Rows that fail the checks of a table, as problems of it. Files whose statistics tell aren't read."""
    snapshot = table.snapshot()
    found = []
    for name, text in table.context.at(snapshot).definition.checks.items():
        bad = table.scan(where=f"TRY(({text}) IS FALSE)", at=snapshot.version).count()
        if bad:
            what = f"{bad:,} rows fail the check {name!r}: {text}"
            remedy = f"Change or delete them, or take the check back with alter(checks={{{name!r}: None}})"
            found.append(Finding(table.bucket.uri(table.prefix), what, remedy))
    return found


def _logs(journal: LeaderlessJournal, found: Findings) -> tuple[list[Log], Bodies]:
    """All logs that can be read. Cleanup may delete one after the LIST: that is no loss."""
    bucket, layout = journal.log_bucket, journal.layout
    keys = []
    for info in bucket.list(layout.log_prefix).objects:
        if parse_log_name(info.key[len(layout.log_prefix) :]) is None:
            found.problem(
                bucket.uri(info.key), "it isn't a log's name", "Move it away: the reference fails on it"
            )
        else:
            keys.append(info.key)
    logs: list[Log] = []
    bodies = {}
    for key, blob in zip(keys, bucket.get_many(keys), strict=True):
        if blob is None:
            continue
        found.count("logs", 1)
        name, where = layout.log_name(key), bucket.uri(key)
        bodies[name, blob.info.etag] = blob.data
        try:
            log = decode(name, blob.data, where=where)
            if log.inlined is not None:
                found.count("logs with rows", 1)
                for column, values in log.inlined.values().items():
                    column_of(log.inlined, column, values)
            logs.append(log)
        except CorruptObjectError as error:
            what = str(error).removeprefix(where).lstrip(":, ").partition(". ")[0].rstrip(".")
            found.problem(where, what, _REMEDY)
        except UnsupportedError as error:
            found.error(where, error)
    return sorted(logs, key=lambda log: log.order), bodies


def _carried_badly(log: Log, logs: Sequence[Log], journal: LeaderlessJournal) -> list[Finding]:
    """Readers skip a log that this one replaces: then it has to name every file of it."""
    if not log.notes.get("complete"):
        return []
    layout = journal.layout
    named = {file.path for file in log.files}
    replaced = {layout.log_name(key) for key in log.tombstones}
    findings = []
    for other in logs:
        missing = [f.path for f in other.files if f.path not in named] if other.name in replaced else []
        if missing:
            findings.append(
                Finding(
                    journal.log_bucket.uri(layout.log_key(log.name)),
                    f"it replaces the log {other.name} and doesn't carry its files {shown(missing)}",
                    "Readers miss them: keep both logs safe from the next sweep, and restore the version before",
                )
            )
    return findings


def _folded(journal: LeaderlessJournal, logs: Sequence[Log], found: Findings) -> ReplayedState | None:
    try:
        key, clocked = journal.layout.log_key, bool(journal.rules.key)
        state = journal.fold([with_part(log, key(log.name), clocked=clocked) for log in logs])
        where = journal.log_bucket.uri(journal.layout.log_prefix)
        found.add(*conflicts(where, state.agreement.conflicts), *shared_names(where, state.agreement.naming))
        return state
    except FirnError as error:
        found.error(journal.log_bucket.uri(journal.layout.log_prefix), error)
        return None


def _files(journal: LeaderlessJournal, state: ReplayedState, found: Findings, footers: bool) -> None:
    bucket, layout = journal.bucket, journal.layout
    listed: dict[str, ObjectInfo] = {i.key: i for i in bucket.list(layout.data_prefix).objects}
    live = [f for path, f in state.files.items() if path not in state.dead and f.inlined is None]
    known = state.agreement.known | altered_columns(state.definition)
    expected = [Expected(f, "live", columns=known) for f in live]
    check_files(bucket, expected, listed, found, footers=footers)
    waiting = [i for key, i in listed.items() if key in state.dead]
    loose = [i for key, i in listed.items() if key not in state.files]
    where = bucket.uri(layout.data_prefix)
    for infos, what in ((waiting, "were replaced or removed"), (loose, "are of no version")):
        if infos:
            size = sum(info.size for info in infos)
            found.note(where, f"{len(infos):,} files of {size:,} bytes {what}", "`firn sweep` deletes them")


def _lock(journal: LeaderlessJournal, found: Findings) -> None:
    bucket, key = journal.log_bucket, journal.layout.lock_key
    try:
        blob = bucket.get(key)
        state = LockState.decode(blob.data, bucket.uri(key))
    except ObjectNotFoundError:
        return
    except CorruptObjectError as error:
        found.error(bucket.uri(key), error)
        return
    if state.holder is not None:
        since = datetime.fromtimestamp(blob.info.modified_ms / 1000, timezone.utc)
        found.note(
            bucket.uri(key),
            f"{state.holder} holds the lock for {state.op}, renewed at {since:%Y-%m-%d %H:%M:%S} UTC",
            "If it is dead, the next maintenance takes over after a lease",
        )


def _batches(journal: LeaderlessJournal, found: Findings) -> None:
    """A retry of a batch believes its claim."""
    bucket, layout = journal.log_bucket, journal.layout
    keys = [info.key for info in bucket.list(layout.batch_prefix).objects]
    for key, blob in zip(keys, bucket.get_many(keys), strict=True):
        if blob is None:
            continue
        found.count("batch claims", 1)
        try:
            claimed_log(blob.data, None, key)
            sound = layout.batch_key(orjson.loads(blob.data)["batch"]) == key
        except CorruptObjectError:
            sound = False
        if not sound:
            found.problem(
                bucket.uri(key),
                "it isn't the claim of a batch",
                "Delete it if `firn log` shows no append that is under way",
            )


def _checkpoint(journal: LeaderlessJournal, bodies: Bodies, logs: Sequence[Log], found: Findings) -> None:
    bucket, key = journal.log_bucket, journal.layout.checkpoint_key
    remedy = "Delete it, or write it anew with `firn checkpoint`: it is only a cache"
    try:
        held = checkpoint.decode(
            bucket.get(key).data, where=bucket.uri(key), log_prefix=journal.layout.log_prefix
        )
    except ObjectNotFoundError:
        return
    except CorruptObjectError as error:
        found.problem(bucket.uri(key), of_error(bucket.uri(key), error).what, remedy)
        return
    found.count("checkpoints", 1)
    for (name, etag), body in held.bodies.items():
        if (name, etag) in bodies and bodies[name, etag] != body:
            found.problem(bucket.uri(key), f"it holds other bytes of the log {name} than the log has", remedy)
    there = {name for name, _ in bodies}
    newest = max((log.order for log in logs), default=(0, ""))
    for (name, _), body in held.bodies.items():
        # Cleanup deletes logs that a later one replaces, so never the newest.
        if name not in there and _is_commit(name, body, after=newest):
            found.problem(
                bucket.uri(journal.layout.log_key(name)),
                "it is gone, was newer than every log that is left, and the checkpoint still has it",
                "Copy it back from a backup or an older version of the object, or out of the checkpoint",
            )
    if held.basis is None:
        return
    carried, basis = replaced_names(logs), held.basis
    for log in logs:
        known = log.name < basis.start or log.name in basis.replaced
        if known and log.name not in basis.logs and log.name not in carried:
            found.problem(
                bucket.uri(key), f"it passes over the log {log.name}, which no other replaces", remedy
            )


def _is_commit(name: str, body: bytes, *, after: tuple[int, str]) -> bool:
    try:
        log = decode(name, body, where=name)
    except FirnError:
        return False
    return log.order > after and log.is_commit


PART: TableCheck = check_lake
