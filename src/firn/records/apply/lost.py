"""Rows whose objects were deleted, or put back as they once were: what the log says was applied to them isn't there.

Nothing in Firn does that; people, backups and broken disks do. Appliers put a row's version before anyone says that
its commit is applied, and no row's object is ever deleted (rules 4 and 20). So a row that is read after a commit of
it was known to be applied has that version, or a later one.
"""

from __future__ import annotations

from firn.errors import CorruptObjectError
from firn.records.names.layout import RecordLayout
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
