"""Writes the log checkpoint: without a lock, by a plain PUT. One that lands late costs GETs, no rows."""

from __future__ import annotations

from firn.errors import StoreUnavailableError
from firn.journal.leaderless.format.layout import parse_log_name
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.checkpoint import Basis, Bodies
from firn.journal.leaderless.replay.table_log import TableLog

MAX_ATTEMPTS = 10


def write_checkpoint(table: TableLog, *, whole: bool = False) -> int:
    """Store what a new reader needs of the log in one object. The number of logs covered.

    It holds bytes, not decoded logs, so that it keeps the additions of later versions. Cost: that of a view, 1 GET
    each of the last checkpoint and of a log that isn't in it, 1 PUT. `whole`: of a view that lists everything.
    """
    for attempt in range(MAX_ATTEMPTS):
        loaded, _ = table.view(whole=whole or attempt > 0)
        window = table.window()
        if window is None:
            return _write_all(table)
        basis = Basis.of(loaded.at_ms, window.width_ms, loaded.listed, (log.name for log in loaded.logs))
        if basis is None:
            return _write_all(table)
        bodies = _bodies(table, basis)
        if bodies is not None:
            table.log_bucket.put(table.layout.checkpoint_key, checkpoint.encode(basis, bodies))
            return len(bodies)
    raise StoreUnavailableError(
        f"{table.log_bucket.uri(table.layout.log_prefix)} changed {MAX_ATTEMPTS} times while its checkpoint was "
        "written. Is cleanup run in a loop? Retry."
    )


def _bodies(table: TableLog, basis: Basis) -> list[bytes] | None:
    """The bytes of a basis's logs; None if one was changed or deleted since."""
    bucket = table.log_bucket
    have = checkpoint.read(bucket, table.layout).bodies
    found = {name: have.get((name, info.etag)) for name, info in basis.logs.items()}
    missing = [name for name, body in found.items() if body is None]
    keys = [basis.logs[name].key for name in missing]
    for name, blob in zip(missing, bucket.get_many(keys), strict=True):
        if blob is None or blob.info.etag != basis.logs[name].etag:
            return None
        found[name] = blob.data
    return [body for body in found.values() if body is not None]


def _write_all(table: TableLog) -> int:
    """A checkpoint of version 1, of every log: 1 LIST + 1 GET a log + 1 PUT."""
    bucket, layout = table.log_bucket, table.layout
    listing = bucket.list(layout.log_prefix)
    chosen = [i for i in listing.objects if parse_log_name(i.key[len(layout.log_prefix) :]) is not None]
    have: Bodies = checkpoint.read(bucket, layout).bodies
    missing = [i for i in chosen if (layout.log_name(i.key), i.etag) not in have]
    fresh = {
        (layout.log_name(i.key), blob.info.etag): blob.data
        for i, blob in zip(missing, bucket.get_many([i.key for i in missing]), strict=True)
        if blob is not None
    }
    triples = []
    for info in chosen:
        name = layout.log_name(info.key)
        body = have.get((name, info.etag)) or fresh.get((name, info.etag))
        if body is not None:
            triples.append((name, info.etag, body))
    bucket.put(layout.checkpoint_key, checkpoint.encode_all(triples))
    return len(triples)
