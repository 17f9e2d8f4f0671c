"""How a keyed table begins: its pointer, and what a clone has from its parent.

The definition is written first, the pointer then. Where a crash came between, the first reader of the table writes
the pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from firn.bucket.base import at_once
from firn.concurrency.parallel import in_flight
from firn.errors import CorruptObjectError, SnapshotTooOldError, TableExistsError, TableNotFoundError
from firn.journal.entries import Entries
from firn.journal.manifest import L0File, SnapshotRef, SSTInfo, View
from firn.journal.manifest.layout import manifest_name
from firn.keyed.context import KeyedContext
from firn.keyed.definition.definition import read_definition
from firn.keyed.definition.settings import POLLS

T = TypeVar("T")


def found(table: KeyedContext) -> None:
    """Write the pointer, with which the table begins; a clone begins with its parent's SSTs."""
    made = table.definition

    def listed(columns: Mapping[str, str] | None) -> list[list[str]] | None:
        return None if columns is None else [list(item) for item in columns.items()]

    settings = {
        "table": made.id,
        "flush_ms": made.settings.flush_ms,
        "writer_epoch_refresh_ms": round(made.settings.poll_max * 1000 / POLLS),
        "schema": {"key": listed(made.key), "columns": listed(made.columns)},
    }
    if made.parent is None:
        table.journal.create(settings, made.first_epoch)
    else:
        ssts, last, changes = _first_ssts(table)
        table.journal.create(settings, made.first_epoch, ssts=ssts, last_compacted=last, definition=changes)


def founded(table: KeyedContext, read: Callable[[], T]) -> T:
    """Read; and if there is no pointer because the creator of the table crashed, write it first."""
    try:
        return read()
    except TableNotFoundError:
        definition = read_definition(table.bucket, table.prefix)
        if definition is None or definition.dropped or definition.id != table.definition.id:
            raise TableNotFoundError(
                f"{table.bucket.uri(table.prefix)} was dropped. Open it with db.table({table.name!r}) if it is there "
                "again."
            ) from None
    if has_files(table):
        raise CorruptObjectError(
            f"{table.journal.store.pointers.where} is missing, and files of the table are there. Copy the newest "
            "version of it back from a backup; nobody can open the table until then."
        )
    with suppress(TableExistsError):  # somebody else has mended it meanwhile
        found(table)
    return read()


def newest_view(table: KeyedContext) -> View:
    """The newest SSTs and L0 objects. 2 GETs, the manifest's chain and 1 LIST."""
    return founded(table, table.journal.read)


def has_files(table: KeyedContext) -> bool:
    """Whether there is a flush, or a manifest but the one that a clone puts before its pointer. 2 LISTs."""
    layout = table.journal.layout
    first = None
    if table.definition.parent is not None:
        first = layout.manifest_key(manifest_name(table.definition.first_epoch, 0))
    prefixes = (layout.manifests_prefix, layout.l0_prefix)
    return any(i.key != first for prefix in prefixes for i in table.bucket.list(prefix).objects)


def parent_of(table: KeyedContext) -> KeyedContext:
    """The table that a clone was made of. 1 GET.

    Raises:
        TableNotFoundError: its definition is gone.
    """
    prefix = (table.definition.parent or {})["table"]
    definition = read_definition(table.bucket, prefix)
    if definition is None:
        raise TableNotFoundError(
            f"{table.name} is a clone of {table.bucket.uri(prefix)}, whose definition is gone: it was deleted by "
            "other means than Firn's. Restore the parent's objects from a backup."
        )
    return table.beside(definition, prefix)


def pin_of(table: KeyedContext, parent: KeyedContext) -> SnapshotRef | None:
    """The checkpoint of its parent that holds what a clone reads; None once it is let go. 1 LIST, and 1 GET each."""
    wanted = (table.definition.parent or {})["checkpoint"]
    return next((ref for ref in parent.journal.snapshots() if ref.id == wanted), None)


def _first_ssts(table: KeyedContext) -> tuple[list[SSTInfo], int, Entries]:
    """The beginning of a clone: all its parent's SSTs and L0 objects, the last L0 number of these, and how the parent
    was altered.

    L0 objects become the newest runs of level 1. Cost: 1 GET of the pin, the manifest, 1 GET an L0 object's index.

    Raises:
        SnapshotTooOldError: the pin is gone; no clone can be made of it any more.
    """
    parent = parent_of(table)
    pin = pin_of(table, parent)
    if pin is None:
        raise SnapshotTooOldError(
            f"{table.name} was to be a clone of {parent.name}, but the checkpoint that held its data is gone. Drop "
            f"{table.name}, and clone again."
        )
    view = parent.journal.view_of(pin)
    layout = parent.journal.layout
    ssts = [replace(sst, file="/" + layout.sst_key(sst.file)) for sst in view.manifest.ssts]
    first_run = max((sst.run for sst in ssts if sst.level == 1), default=-1) + 1
    return (
        [*ssts, *_flushed(parent, list(reversed(view.l0)), first_run)],
        view.last_l0,
        view.manifest.definition,
    )


def _flushed(parent: KeyedContext, files: Sequence[L0File], first_run: int) -> list[SSTInfo]:
    def info(item: tuple[int, L0File]) -> SSTInfo:
        at, file = item
        return parent.sst(file.key, file.bytes).index.info(
            level=1, run=first_run + at, number=file.number, file="/" + file.key, size=file.bytes
        )

    return in_flight(info, list(enumerate(files)), at_once(parent.bucket))
