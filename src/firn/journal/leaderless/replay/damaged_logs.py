"""Damaged logs: which there are, what other objects know of them, and how a table goes on without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firn.errors import CorruptObjectError
from firn.journal.leaderless.format.codec import Log, decode, replaced_names
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.horizon import record
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import SweepReport


@dataclass(frozen=True)
class DamagedLog:
    """A log that can't be decoded. `copy` is its copy in the log checkpoint; `replaced` says that a later log
    carries all that it said. If it has neither, nobody knows what it said."""

    key: str
    error: CorruptObjectError
    size: int
    copy: bytes | None = None
    replaced: bool = False


@dataclass(frozen=True)
class SortedLogs:
    """All logs of a table: those that can be read, and the others."""

    readable: Sequence[Log]
    damaged: Sequence[DamagedLog]


def sort_logs(table: TableLog) -> SortedLogs:
    """1 LIST, 1 GET a log; where one is damaged 1 GET more, of the checkpoint."""
    bucket, layout = table.log_bucket, table.layout
    keys = [info.key for info in layout.logs_in(bucket.list(layout.log_prefix).objects).values()]
    readable, damaged = [], []
    for key, blob in zip(keys, bucket.get_many(keys), strict=True):
        if blob is not None:  # else a sweep has deleted it meanwhile
            try:
                readable.append(decode(layout.log_name(key), blob.data, where=bucket.uri(key)))
            except CorruptObjectError as error:
                damaged.append((key, error, len(blob.data)))
    if not damaged:
        return SortedLogs(readable, ())
    copies = _copies(table)
    carried = replaced_names(readable)
    return SortedLogs(
        readable,
        [
            DamagedLog(key, error, size, copies.get(layout.log_name(key)), layout.log_name(key) in carried)
            for key, error, size in damaged
        ],
    )


def _copies(table: TableLog) -> dict[str, bytes]:
    """The logs that the log checkpoint holds, by name: an older state of some, before a sweep cleaned them."""
    found = {}
    for (name, _), body in checkpoint.read(table.log_bucket, table.layout).bodies.items():
        if decode(name, body, where=name).is_commit:
            found[name] = body
    return found


def mend_logs(table: TableLog, *, dry_run: bool) -> list[str]:
    """Put the checkpoint's copies in place of damaged logs, and delete those that later logs carry: versions before
    the newest of these can't be read any more. The URLs. Cost: `sort_logs`, and 1 PUT or DELETE a damaged log.

    Raises:
        CorruptObjectError: nobody knows what a log said; those that can be mended are.
    """
    bucket = table.log_bucket
    found = sort_logs(table)
    mended = [log for log in found.damaged if log.copy is not None or log.replaced]
    if not dry_run:
        for log in mended:
            if log.copy is not None:
                bucket.put(log.key, log.copy)
        delete_logs(table, found, [log for log in mended if log.copy is None])
    for log in found.damaged:
        if log not in mended:
            raise CorruptObjectError(
                f"{bucket.uri(log.key)} can't be mended: no other object has what it said. Copy it back from a "
                "backup; or let it go, with what it added, replaced or removed, by "
                f"forget_files([{log.key!r}]), in a shell `firn forget-files TABLE {log.key}`."
            ) from log.error
    return [bucket.uri(log.key) for log in mended]


def delete_logs(table: TableLog, found: SortedLogs, gone: Sequence[DamagedLog]) -> None:
    """Delete damaged logs. Versions before the newest maintenance are told as too old: they may lack something."""
    if not gone:
        return
    newest = max((log.t for log in found.readable if log.tombstones or log.dead), default=0)
    report = SweepReport(logs=tuple(log.key for log in gone))
    record(table.log_bucket, table.layout, horizon_ms=newest, report=report, now=table.now_ms())
    if any(log.copy is not None for log in gone):  # else new views would go on showing what it says
        table.log_bucket.delete_many([table.layout.checkpoint_key])
    table.log_bucket.delete_many([log.key for log in gone])
