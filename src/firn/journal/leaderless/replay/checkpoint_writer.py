"""Writes the log checkpoint: without a lock. One that lands late costs GETs, no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from firn.bucket.base import ObjectInfo
from firn.errors import (
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    StoreUnavailableError,
    TableNotFoundError,
)
from firn.journal.leaderless.format.codec import decode_many
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.checkpoint import Basis, Bodies, Checkpoint
from firn.journal.leaderless.replay.loader import Loaded
from firn.journal.leaderless.replay.replay import definition_in
from firn.journal.leaderless.replay.table_log import TableLog

BEHIND = 100
"""So many logs more than the checkpoint has are worth another one."""
MAX_ATTEMPTS = 10


def write_checkpoint(table: TableLog, *, whole: bool = False) -> int:
    """Store what a new reader needs of the log in one object. The number of logs covered.

    It holds bytes, not decoded logs, so that it keeps the additions of later versions. It replaces exactly the one
    that it has read: else it could bring rows back that a sweep has just left out. If somebody else was faster,
    theirs stays. Cost: that of a view, 1 GET each of the last checkpoint and of a log that is in neither, 1 PUT.
    Where a sweep or a drop leaves nothing that would refuse it, 1 LIST of everything more.

    Args:
        whole: of a view that lists everything, and in the place of any other.
    """
    return _written(table, whole) or 0


def _written(
    table: TableLog, whole: bool = False, least: int = 0, before: Checkpoint | None = None
) -> int | None:
    """As `write_checkpoint`; None where fewer than `least` logs are new, and nothing is written. `before` is the last
    checkpoint, if it was read already."""
    try:
        return _attempts(table, whole, least, before)
    except TableNotFoundError:  # of a generation of the name that nobody opens any more
        table.log_bucket.delete_many([table.layout.checkpoint_key])
        raise


def _attempts(table: TableLog, whole: bool, least: int, read: Checkpoint | None) -> int | None:
    for attempt in range(MAX_ATTEMPTS):
        # Before the LIST: a sweep that goes on from here on puts another one in its place.
        before, read = read or checkpoint.read(table.log_bucket, table.layout), None
        found = None if table.windowed else _of_all(table, before)
        if found is None:  # the log says as well that views may build on earlier ones
            raw: dict[tuple[str, str], bytes] = {}
            loaded, _ = table.view(whole=whole or attempt > 0, raw=raw)
            covered = {} if before.basis is None else before.basis.logs
            if sum(log.name not in covered for log in loaded.logs) < least:
                return None
            found = _of_view(table, loaded, replace(before, bodies={**before.bodies, **raw}))
        if found is None:
            continue
        stored = _stored(table, found[0], before.etag)
        if stored and _may_be_late(table, before) and not holds_only(found[0], _listed(table)):
            continue
        if stored or not whole:
            return found[1]
    raise StoreUnavailableError(
        f"{table.log_bucket.uri(table.layout.log_prefix)} changed {MAX_ATTEMPTS} times while its checkpoint was "
        "written. Is cleanup run in a loop? Retry."
    )


def _may_be_late(table: TableLog, before: Checkpoint) -> bool:
    """Whether it may have been stored though a sweep had deleted logs that it holds: one that found no checkpoint, of
    a table whose views build on none; or any, on a store that refuses no PUT. So may the first one of a table that
    was dropped meanwhile."""
    return before.etag is None or not (table.windowed and table.log_bucket.capabilities.conditional_put)


def _listed(table: TableLog) -> Mapping[str, ObjectInfo]:
    """All logs that are there, by name."""
    logs = table.layout.logs_in(table.log_bucket.list(table.layout.log_prefix).objects)
    return {name.name: info for name, info in logs.items()}


def holds_only(data: bytes, listed: Mapping[str, ObjectInfo]) -> bool:
    """Whether all logs of a checkpoint are there, in the versions that it has."""
    try:
        held = checkpoint.decode(data, where="the log checkpoint").bodies
    except CorruptObjectError:
        return False
    return all(name in listed and listed[name].etag == etag for name, etag in held)


def _stored(table: TableLog, data: bytes, etag: str | None) -> bool:
    """Whether the checkpoint was put in place of that version, None for where there was none."""
    bucket, key = table.log_bucket, table.layout.checkpoint_key
    try:
        if not bucket.capabilities.conditional_put:
            bucket.put(key, data)
        elif etag is None:
            bucket.put_if_absent(key, data)
        else:
            bucket.put_if_match(key, data, etag)
    except (ObjectChangedError, ObjectExistsError):
        return False
    return True


class Look(NamedTuple):
    """Whether the checkpoint was written, and after how many more logs another look is worth it."""

    written: bool
    wait: int


def write_if_behind(table: TableLog) -> Look:
    """Store the log checkpoint anew if many logs came since the last one: `BEHIND`, and a quarter of those it has, so
    that all that is written is at most five times the last. Cost: 1 GET and 1 LIST sequence; if that shows so many
    logs, `write_checkpoint`, less its PUT where others have replaced most of these."""
    after, known, least = None, frozenset[str](), BEHIND
    before = checkpoint.read(table.log_bucket, table.layout)
    if (basis := before.basis) is not None:
        after = table.layout.log_key(basis.start)[:-1]
        known = basis.replaced.union(basis.logs)
        least = max(BEHIND, len(basis.logs) // 4)
    listed = table.layout.logs_in(table.log_bucket.list(table.layout.log_prefix, after=after).objects)
    behind = sum(name.name not in known for name in listed)
    if behind < least:
        return Look(False, least - behind)
    return Look(_written(table, least=least, before=before) is not None, BEHIND)


def _of_view(table: TableLog, loaded: Loaded, before: Checkpoint) -> tuple[bytes, int] | None:
    """The bytes of a checkpoint of what no log replaces, and how many logs that are. None if one of them was changed
    or deleted meanwhile."""
    window = table.window()
    basis = None
    if window is not None:
        live = (log.name for log in loaded.logs)
        basis = Basis.of(loaded.at_ms, window.width_ms, loaded.listed, live)
    if basis is None:  # names don't sort by time
        return _packed_all(_fetched(table, list(loaded.listed.values()), before))
    bodies = _fetched(table, list(basis.logs.values()), before)
    if len(bodies) < len(basis.logs):
        return None
    return checkpoint.encode(basis, bodies.values(), log_prefix=table.layout.log_prefix), len(bodies)


def _of_all(table: TableLog, before: Checkpoint) -> tuple[bytes, int] | None:
    """The bytes of a checkpoint of every log. None if they say that the table has a window."""
    listed = _listed(table)
    table.check_there(listed)
    bodies = _fetched(table, list(listed.values()), before)
    maintenance = [(key, body, key) for (key, _), body in bodies.items() if "_m_" in key]
    table.learn(definition_in(decode_many(maintenance)))
    return None if table.windowed else _packed_all(bodies)


def _packed_all(bodies: Bodies) -> tuple[bytes, int]:
    return checkpoint.encode_all((name, etag, body) for (name, etag), body in bodies.items()), len(bodies)


def _fetched(
    table: TableLog, infos: Sequence[ObjectInfo], before: Checkpoint
) -> dict[tuple[str, str], bytes]:
    """(name, etag) → the bytes of these logs, in their order; of those that are still the same."""
    bucket, name_of, have = table.log_bucket, table.layout.log_name, before.bodies
    found = {(name_of(info.key), info.etag): have.get((name_of(info.key), info.etag)) for info in infos}
    missing = [info for info in infos if found[name_of(info.key), info.etag] is None]
    for info, blob in zip(missing, bucket.get_many([info.key for info in missing]), strict=True):
        if blob is not None and blob.info.etag == info.etag:
            found[name_of(info.key), info.etag] = blob.data
    return {place: body for place, body in found.items() if body is not None}
