"""A row whose object is damaged, gone or older than it was is put anew, of what the log still has of it; damaged
bytes are kept for a while.

So no commit waits for such a row. Snapshots from before what was found can't read it any more.
"""

from __future__ import annotations

import logging

from firn.bucket.base import Blob
from firn.errors import CorruptObjectError
from firn.journal.sequence.history import chunks
from firn.records.names.layout import RecordLayout
from firn.records.names.names import digest
from firn.records.objects.row import Row, decode_row
from firn.records.objects.staged import checksum
from firn.records.objects.store import RecordStore

log = logging.getLogger("firn.records")


def read_anyway(store: RecordStore, layout: RecordLayout, id: str) -> tuple[Row | None, Blob | None]:
    """A row, and its object; None for a row that is damaged, and for an object that isn't there. 1 GET."""
    blob = store.log.store.find(layout.row(id))
    if blob is None:
        return Row(id), None
    try:
        return decode_row(blob.data, key=blob.info.key, where=store.bucket.uri(blob.info.key)), blob
    except CorruptObjectError:
        return None, blob


def put_anew(store: RecordStore, layout: RecordLayout, id: str, *, after: int, since: int) -> Row | None:
    """Put a row anew with all that commits behind `after` made of it, if it is damaged or lacks some of that; the
    row, or None if nothing is wrong with it, or these commits have nothing of it. 2 GETs or more as `refresh`, 1 PUT,
    1 more for damaged bytes, 1 GET a commit that isn't in memory, and 1 PUT an index entry.

    Args:
        since: the commit that created the table.

    Raises:
        ObjectChangedError, ObjectExistsError, OutcomeUnknownError: somebody else may have put it; look again.
    """
    applied, horizon = store.log.applied, store.log.horizon
    row, blob = read_anyway(store, layout, id)
    # The end of the log as it is after the object was read: whatever was in that is no newer.
    head = store.log.refresh()
    upto, table = head.number, head.catalog.get(layout.table)
    if table is None or table.generation != layout.generation:
        return None  # its rows went with it
    writes = [
        (record.number, write)
        for record in chunks(store.log, max(after, since), upto)
        for write in record.writes
        if (write.table, write.id) == (layout.table, id)
    ]
    if not writes or (row is not None and not row.lacks(n for n, _ in writes if n <= applied)):
        return None
    # Entries of what no snapshot sees any more may have been deleted.
    anew = (row or Row(id)).mended(writes, max(after, since), since).pruned(horizon)[0]
    kept = _keep(store, layout, id, blob) if row is None and blob is not None else ""
    store.put_entries(layout, anew.versions)
    store.put_row(layout, anew, None if blob is None else blob.info.etag)
    log.error(
        "%s was %s, and is put anew as commit %d left it%s",
        store.bucket.uri(layout.row(id)),
        "gone" if blob is None else "damaged" if row is None else f"as commit {row.newest} left it",
        anew.newest,
        (f"; what was before commit {anew.cut} is lost" if anew.cut else "") + kept,
    )
    return anew


def _keep(store: RecordStore, layout: RecordLayout, id: str, blob: Blob) -> str:
    """Keep damaged bytes among staged documents that nothing refers to: a sweep takes them when they are old."""
    name = digest(layout.row(id).encode(), 32)
    key = store.log.store.layout.body_key(f"damaged.{name}.{checksum(blob.data)}")
    store.bucket.put(key, blob.data)
    return f". The damaged object is kept as {store.bucket.uri(key)}"
