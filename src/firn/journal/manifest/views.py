"""Views of a table (rules 8 and 9).

A LIST is trusted only with a pointer that was read after it. That pointer's manifest covers all flushes that the
LIST no longer showed, and the pointer names every writer that could have voided a flush in the LIST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.journal.manifest.model import L0File, View
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.walk import listed_after, walk

T = TypeVar("T")


def read_view(store: ManifestStore, since: View | None = None) -> View:
    """The table as it is now (rule 8). GET, manifest, LIST, GET; with an earlier view LIST, GET, manifest."""
    if since is not None:
        seen, view = since, _refreshed(store, since)
        if view.pointer.table_id == seen.pointer.table_id:
            return view
    while True:
        pointer, manifest = store.current()
        files = store.list_l0(listed_after(store.layout, pointer, manifest.last_compacted))
        later, manifest = store.current(manifest, store.pointer())
        if later.table_id == pointer.table_id:
            return View(later, manifest, walk(later.infos, manifest.last_compacted, files))


def _refreshed(store: ManifestStore, since: View) -> View:
    last = since.l0[0].key if since.l0 else None
    files = store.list_l0(last or listed_after(store.layout, since.pointer, since.manifest.last_compacted))
    pointer = store.pointer()
    if pointer.table_id != since.pointer.table_id:
        return View(pointer, since.manifest, ())
    pointer, manifest = store.current(since.manifest, pointer)
    return View(pointer, manifest, walk(pointer.infos, manifest.last_compacted, [*since.l0, *files]))


def read_l0(store: ManifestStore, file: L0File) -> bytes:
    """A flush's bytes (rule 9). 1 GET."""
    blob = store.fetch(file.key)
    if blob.info.size == 0:
        # The flush was collected, and a fence of long ago has landed in its place.
        raise ObjectNotFoundError(
            f"{store.bucket.uri(file.key)} was compacted and collected; refresh the view and read again"
        )
    return blob.data


def restarting(store: ManifestStore, view: View, read: Callable[[View], T]) -> tuple[View, T]:
    """`read(view)`, with newer views until no object of the view is gone (rule 9)."""
    backoff = store.backoff()
    while True:
        try:
            return view, read(view)
        except ObjectNotFoundError as error:
            newer = read_view(store, view)
            if newer.manifest.name == view.manifest.name or not backoff.wait():
                raise CorruptObjectError(
                    f"{store.bucket.uri(store.layout.prefix)}: an object of the newest view is missing: {error}. "
                    "Copy it back from a backup."
                ) from error
            view = newer
