"""Rows whose objects are damaged, were deleted, or put back as they once were: they are put anew, of what the log
still has of them, and damaged bytes are kept for a while.

Nothing in Firn does that; people, backups and broken disks do. Appliers put a row's version before anyone says that
its commit is applied, and no row's object is ever deleted (rules 4 and 20). So a row that is read after a commit of
it was known to be applied has that version, or a later one. No commit waits for a damaged row. Snapshots from before
what was found can't read it any more.
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
from firn.records.objects.store import RecordStore, Table


def must_have(store: RecordStore, table: Table, key: str, newest: int, written: int) -> None:
    """Raise if a row's newest version is older than a commit of it that was known to be applied before the row was
    read. `newest` is 0 for an object that isn't there. No request; as `refresh` if something is wrong.

    Raises:
        CorruptObjectError: it names the object.
    """
    if newest >= written or written <= table.state.since:
        return
    if is_there(store, table.layout):  # else its rows went with the table
        raise lost_row(store.bucket.uri(key), newest, written)


def is_there(store: RecordStore, layout: RecordLayout) -> bool:
    """Whether a table wasn't dropped, as its objects are deleted after that. As `refresh`."""
    now = store.log.refresh().catalog.get(layout.table)
    return now is not None and now.generation == layout.generation


def lost_row(where: str, newest: int, written: int) -> CorruptObjectError:
    """That a row's object is gone, or older than the log says."""
    found = f"is as commit {newest} left it" if newest else "is gone"
    return CorruptObjectError(
        f"{where} {found}, but commit {written} wrote this row: somebody deleted the object, or put an old copy in "
        "its place. `firn records repair TABLE ID` puts back what the log has of the row."
    )


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
