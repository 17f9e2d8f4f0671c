"""New rows beside those of a snapshot, before they are committed: both are read under the columns that the commit
will leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firn.journal.agreement import Rules, Source, agree
from firn.journal.column_entries import NULLS, ColumnEntries
from firn.journal.model import DataFile, Snapshot
from firn.lake.context import Written


def beside(snapshot: Snapshot, written: Written) -> tuple[Snapshot, Sequence[DataFile]]:
    """The snapshot with the columns that the new rows bring, or widen, which its own rows lack, and the new rows'
    files as they are read with it. Pure."""
    columns = {**snapshot.columns, **written.columns}
    brought = written.naming.brought(name for name in written.columns if name not in snapshot.columns)
    naming = snapshot.naming
    if brought:
        called = {name: physical for physical, name in brought.items()}
        naming = replace(naming, stored={**naming.stored, **called})
    seen = replace(snapshot, columns=columns, naming=naming)
    if not naming:
        return seen, written.files
    stored = {**snapshot.stored, **naming.in_files(columns)}
    agreed = agree(Rules(naming=naming), [Source("the new rows", stored)])
    files = (
        tuple(_lacking(file, tuple(brought.values())) for file in snapshot.files)
        if brought
        else snapshot.files
    )
    return replace(seen, files=files), [agreed.as_read(file) for file in written.files]


def _lacking(file: DataFile, names: Sequence[str]) -> DataFile:
    """A file as it is read with columns that it lacks, though it may have others which were called so."""
    extra = dict(file.extra or {})
    nothing = dict.fromkeys(names, NULLS)
    extra["reads"] = {**file.reads, **dict.fromkeys(names, ())}
    extra["odd"] = (*file.odd, *names)
    rows = file.rows
    extra["stats"] = ColumnEntries(file.stats, nothing, None if rows is None else [None, None, rows])
    if "bloom" in extra:
        extra["bloom"] = ColumnEntries(extra["bloom"], nothing, None)
    return file._replace(extra=extra)
