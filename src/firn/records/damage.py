"""A row whose object is damaged is put anew, of what the log still has of it; the damaged bytes are kept for a while.

So no commit waits for a damaged row. Snapshots from before what was found can't read the row any more.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from firn.bucket.base import Blob
from firn.errors import CorruptObjectError
from firn.records.layout import RecordLayout
from firn.records.names import digest
from firn.records.row import Row, decode_row
from firn.records.staged import checksum
from firn.records.store import RecordStore

log = logging.getLogger("firn.records")


def damaged_row(store: RecordStore, layout: RecordLayout, id: str) -> Blob | None:
    """A row's object if it is damaged; None if it is whole, or there is none. 1 GET."""
    blob = store.log.store.find(layout.row(id))
    if blob is None:
        return None
    try:
        decode_row(blob.data, key=blob.info.key, where=store.bucket.uri(blob.info.key))
    except CorruptObjectError:
        return blob
    return None


def put_anew(store: RecordStore, layout: RecordLayout, id: str, *, after: int) -> Row | None:
    """Put a damaged row anew with all that commits behind `after` made of it, which is something; the row, or None if
    it isn't damaged. 2 GETs or more as `refresh`, 2 PUTs, 1 GET a commit that isn't in memory, and 1 PUT
    an index entry.

    Raises:
        ObjectChangedError, OutcomeUnknownError: somebody else may have put it; look again.
    """
    blob = damaged_row(store, layout, id)
    if blob is None:
        return None
    # The end of the log as it is after the object was read: whatever was in that is no newer.
    upto = store.log.refresh().number
    writes = [
        (record.number, write)
        for record in store.log.records(after, upto)
        for member in record.group
        for write in member.writes
        if (write.table, write.id) == (layout.table, id)
    ]
    row = replace(Row(id).extended(writes), cut=writes[0][0])
    # Among staged documents that nothing refers to: a sweep takes it when it is old.
    key = store.log.store.layout.body_key(
        f"damaged.{digest(layout.row(id).encode(), 32)}.{checksum(blob.data)}"
    )
    store.bucket.put(key, blob.data)
    store.bucket.put_many(
        [
            (layout.entry_of_stem(stem, version.seq), b"")
            for version in row.versions
            for stem in version.entries
        ]
    )
    store.put_row(layout, row, blob.info.etag)
    log.error(
        "%s was damaged, and is put anew as commit %d left it; its older versions are lost. The damaged object is "
        "kept as %s",
        store.bucket.uri(blob.info.key),
        row.newest,
        store.bucket.uri(key),
    )
    return row
