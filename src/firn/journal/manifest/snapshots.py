"""Durable snapshots (rules 14 and 15): objects that keep a view readable until they expire or are deleted.

A collector reads the pointer before it lists snapshots. So a snapshot whose manifest is still current after it
came to life is seen by every collection that could take something from it.

One is put expired, and comes to life by a compare-and-swap. A put that lands again after the snapshot was deleted
brings back one that never lived: it keeps nothing, nobody can read or refresh it, and the next collection takes it.
A swap that lands again finds another version, or none.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace

from firn.bucket.conditional import swap
from firn.bucket.presence import is_there
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
)
from firn.journal.manifest.codec import SnapshotFile, decode_snapshot, encode_snapshot
from firn.journal.manifest.layout import NO_MANIFEST
from firn.journal.manifest.model import L0File, SnapshotRef, View
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.views import read_view

UNBORN_MS = 0
"""Expiry of a snapshot that hasn't come to life: to collectors it has expired. Frozen."""


def take(store: ManifestStore, view: View | None, *, name: str | None, expires_ms: int | None) -> SnapshotRef:
    """Rule 14. PUT, CAS, GET, and those of a read without a view."""
    backoff = store.backoff()
    seen = view or read_view(store)
    while True:
        ref = _put(store, _file(store, seen, name, expires_ms))
        if store.pointer().manifest == seen.manifest.name:
            return ref
        store.bucket.delete(ref.key)
        if view is not None:
            raise ObjectChangedError(
                f"{store.pointers.where}: {view.manifest.name} isn't current any more, so {view.version} can't be "
                "kept; take the snapshot of a newer view"
            )
        if not backoff.wait():
            raise ConflictError(
                f"{store.pointers.where} changes all the time, so no snapshot of it can be taken; retry"
            )
        seen = read_view(store, seen)


def copy(store: ManifestStore, ref: SnapshotRef, *, name: str | None, expires_ms: int | None) -> SnapshotRef:
    """Another snapshot of what one keeps, with a life of its own. GET, PUT, CAS, GET.

    The first is alive after the second has come to life. A collector that finds it expired later makes a tombstone
    of it, and then lists snapshots again before it takes anything for garbage: that list has the second.
    """
    file, _ = _alive(store, ref)
    made = replace(
        file,
        id=secrets.token_hex(16),
        name=name,
        created_ms=store.clock.now_ms(),
        expires_ms=expires_ms,
        revision=2,
        nonce=secrets.token_hex(16),
    )
    copied = _put(store, made)
    try:
        _alive(store, ref)
    except SnapshotTooOldError:
        store.bucket.delete(copied.key)
        raise
    return copied


def _file(store: ManifestStore, view: View, name: str | None, expires_ms: int | None) -> SnapshotFile:
    return SnapshotFile(
        id=secrets.token_hex(16),
        name=name,
        pointer=view.pointer,
        chain=view.manifest.chain,
        l0=tuple((f.epoch, f.number, f.bytes) for f in view.l0),
        last_l0=view.last_l0,
        created_ms=store.clock.now_ms(),
        expires_ms=expires_ms,
        revision=2,
        nonce=secrets.token_hex(16),
    )


def _put(store: ManifestStore, file: SnapshotFile) -> SnapshotRef:
    """Put it up expired, then let it live. PUT, CAS.

    A collector may take the first for expired; then begin again, with another id: late writes of the old one are
    dead.
    """
    backoff = store.backoff()
    while True:
        key = store.layout.snapshot_key(file.pointer.manifest, file.id)
        try:
            etag = _put_unborn(store, key, _unborn(file))
            return _ref(key, file, _brought_to_life(store, key, file, etag))
        except (ObjectChangedError, ObjectNotFoundError) as error:
            if not backoff.wait():
                raise ConflictError(
                    f"{store.bucket.uri(store.layout.snapshots_prefix)} is collected all the time, so no snapshot "
                    "can be made; retry"
                ) from error
            file = replace(file, id=secrets.token_hex(16))


def _unborn(file: SnapshotFile) -> SnapshotFile:
    return replace(file, expires_ms=UNBORN_MS, revision=1, nonce=secrets.token_hex(16))


def _put_unborn(store: ManifestStore, key: str, file: SnapshotFile) -> str:
    """Its etag; `ObjectChangedError` if it became a tombstone at once."""
    data = encode_snapshot(file)
    backoff = store.backoff()
    while True:
        try:
            return store.bucket.put_if_absent(key, data)
        except (ObjectExistsError, OutcomeUnknownError):
            try:
                blob = store.fetch(key)
            except ObjectNotFoundError:
                if not backoff.wait():
                    raise
            else:
                if blob.data == data:
                    return blob.info.etag
                # The id is random: whatever is there was made of this one.
                raise ObjectChangedError(f"{store.bucket.uri(key)} was collected meanwhile") from None


def _brought_to_life(store: ManifestStore, key: str, file: SnapshotFile, etag: str) -> str:
    return store.backoff().persist(lambda: replace_snapshot(store, key, file, etag), OutcomeUnknownError)


def list_snapshots(store: ManifestStore) -> list[tuple[str, SnapshotFile | None, str]]:
    """All there are: key, content (None: it went after the LIST), etag. Tombstones are among them. LIST, and 1
    GET each.

    Raises:
        CorruptObjectError: one can't be read.
    """
    objects = store.bucket.list(store.layout.snapshots_prefix).objects
    keys = [info.key for info in objects if store.layout.parse_snapshot(info.key) is not None]
    found: list[tuple[str, SnapshotFile | None, str]] = []
    for key, blob in zip(keys, store.fetch_present(keys), strict=True):
        if blob is None:
            found.append((key, None, ""))
        else:
            found.append((key, decode_snapshot(blob.data, where=store.bucket.uri(key)), blob.info.etag))
    return found


def refs(store: ManifestStore) -> list[SnapshotRef]:
    """Those that are alive, or have expired by themselves, oldest first. LIST, and 1 GET each."""
    found = [
        _ref(key, file, etag)
        for key, file, etag in list_snapshots(store)
        if file is not None and not is_dead(file)
    ]
    return sorted(found, key=lambda ref: (ref.created_ms, ref.id))


def view_of(store: ManifestStore, ref: SnapshotRef) -> View:
    """The view that a snapshot keeps. 1 GET, and 1 a manifest of its chain; 1 more where one is missing."""
    file, _ = _alive(store, ref)
    try:
        manifest = store.manifest(file.pointer.manifest)
    except ObjectNotFoundError as error:
        _alive(store, ref)  # nothing that it needs is collected before it is dead
        raise CorruptObjectError(
            f"{store.bucket.uri(ref.key)} keeps a view of which an object is missing: {error}. Copy that back from a "
            "backup, or delete the checkpoint to give it up."
        ) from error
    l0 = tuple(L0File(e, n, store.layout.l0_key(e, n), size) for e, n, size in file.l0)
    view = View(file.pointer, manifest, l0)
    if view.last_l0 != file.last_l0 or manifest.chain != file.chain:
        raise CorruptObjectError(
            f"{store.bucket.uri(ref.key)} keeps {view.version}, but says that it ends at {file.last_l0}. Delete it."
        )
    return view


def refresh(store: ManifestStore, ref: SnapshotRef, expires_ms: int | None) -> SnapshotRef:
    """Rule 15: by CAS only, so that it can't come back from the dead. GET, HEAD, CAS."""

    def attempt() -> SnapshotRef:
        file, etag = _alive(store, ref)
        manifest = file.pointer.manifest
        if manifest != NO_MANIFEST and not is_there(store.bucket, store.layout.manifest_key(manifest)):
            # A live snapshot always has it: a refresh would promise objects that aren't there.
            raise _too_old(store, ref)
        changed = replace(
            file, expires_ms=expires_ms, revision=file.revision + 1, nonce=secrets.token_hex(16)
        )
        return _ref(ref.key, changed, replace_snapshot(store, ref.key, changed, etag))

    return store.backoff().persist(attempt, (ObjectChangedError, OutcomeUnknownError))


def delete(store: ManifestStore, ref: SnapshotRef) -> None:
    """A tombstone, then nothing: a refresh that is under way fails. GET, CAS, DELETE; a missing one is fine."""
    with suppress(SnapshotTooOldError):
        store.backoff().persist(
            lambda: bury(store, ref.key, *_alive(store, ref)), (ObjectChangedError, OutcomeUnknownError)
        )
    store.bucket.delete(ref.key)


def bury(store: ManifestStore, key: str, file: SnapshotFile, etag: str) -> None:
    """Make a tombstone of it (rule 16). 1 CAS. `ObjectChangedError` if it was refreshed, or deleted, meanwhile."""
    tombstone = replace(file, expired=True, revision=file.revision + 1, nonce=secrets.token_hex(16))
    replace_snapshot(store, key, tombstone, etag)


def replace_snapshot(store: ManifestStore, key: str, file: SnapshotFile, etag: str) -> str:
    """The CAS of a snapshot; the new etag. Errors as `conditional.swap`."""
    return swap(store.bucket, key, encode_snapshot(file), etag, nonce=file.nonce)


def _alive(store: ManifestStore, ref: SnapshotRef) -> tuple[SnapshotFile, str]:
    try:
        blob = store.fetch(ref.key)
    except ObjectNotFoundError as error:
        raise _too_old(store, ref) from error
    file = decode_snapshot(blob.data, where=store.bucket.uri(ref.key))
    if is_dead(file):
        raise _too_old(store, ref)
    return file, blob.info.etag


def is_dead(file: SnapshotFile) -> bool:
    """Whether it is a tombstone, or never came to life, and so keeps nothing."""
    return file.expired or file.expires_ms == UNBORN_MS


def _too_old(store: ManifestStore, ref: SnapshotRef) -> SnapshotTooOldError:
    return SnapshotTooOldError(
        f"{store.bucket.uri(ref.key)}: the snapshot {ref.name or ref.id} was deleted, or expired and was collected; "
        "take a new one"
    )


def _ref(key: str, file: SnapshotFile, etag: str) -> SnapshotRef:
    return SnapshotRef(
        id=file.id,
        key=key,
        name=file.name,
        manifest=file.pointer.manifest,
        version=f"{file.pointer.manifest}@{file.last_l0}",
        created_ms=file.created_ms,
        expires_ms=file.expires_ms,
        etag=etag,
    )
