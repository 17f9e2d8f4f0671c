"""The journal of one keyed table: everything that is known of it without opening an SST."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.errors import (
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    SnapshotTooOldError,
    TableExistsError,
    UnsupportedError,
)
from firn.journal.entries import Entries
from firn.journal.manifest import collection, history, opening, snapshots, views
from firn.journal.manifest.codec import ManifestFile, encode_manifest, encode_pointer
from firn.journal.manifest.compactor import CompactorSession, put_sst, take_epoch, uncommitted
from firn.journal.manifest.history import ManifestCommit
from firn.journal.manifest.layout import NO_MANIFEST, ManifestLayout, manifest_name
from firn.journal.manifest.model import (
    CollectReport,
    L0File,
    Manifest,
    Pointer,
    SnapshotRef,
    SSTInfo,
    View,
)
from firn.journal.manifest.pointer_store import BucketPointerStore, PointerStore
from firn.journal.manifest.replaced import Replaced, replaced
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.writer import WriterSession

T = TypeVar("T")


class ManifestJournal:
    """One keyed table's manifest. Making one costs no request; it is safe to share between threads.

    Args:
        bucket: where its objects are.
        prefix: the table's key prefix, without a trailing slash.
        pointers: where its pointer is, by default the same bucket.
        clock: time, for expiry, the age of a look at the pointer, and waits between retries.
        poll_max_s: rule 7: for how many seconds a look at the pointer lets a writer acknowledge flushes.
        max_chain: rule 13: how many manifests at most have to be read for one view.
        l0_min_age_s: rule 21: for how long what was replaced is told by manifests. A collection by a greater age has
            to read some more.
        table: the `table` that the pointer's settings have, if any; that of a later table of the name is refused.
        generation: how many tables of the name were dropped before, whose objects have other names.

    Example:
        >>> from firn.bucket import open_bucket
        >>> journal = ManifestJournal(open_bucket("memory://"), "prod/delays")
        >>> _ = journal.create({"flush_ms": 100}, first_epoch=1)
        >>> writer = journal.open_writer()
        >>> writer.put_l0(writer.start, b"a flush")
        >>> view = journal.read()
        >>> [journal.read_l0(file) for file in view.l0]
        [b'a flush']
        >>> kept = journal.snapshot(view, name="monday")
        >>> journal.view_of(kept) == view
        True
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        pointers: PointerStore | None = None,
        clock: Clock | None = None,
        poll_max_s: float = 30.0,
        max_chain: int = 10,
        l0_min_age_s: float = 600.0,
        table: str | None = None,
        generation: int = 0,
    ) -> None:
        self.bucket = bucket
        self.layout = ManifestLayout(prefix, generation)
        self.pointers: PointerStore = pointers or BucketPointerStore(bucket, self.layout.pointer_key)
        self.clock: Clock = clock or SystemClock()
        self.store = ManifestStore(
            bucket, self.layout, self.pointers, self.clock, poll_max_s, max_chain, l0_min_age_s, table
        )

    def create(
        self,
        settings: Mapping[str, Any],
        first_epoch: int,
        *,
        ssts: Sequence[SSTInfo] = (),
        last_compacted: int = -1,
        definition: Entries | None = None,
    ) -> Pointer:
        """Make the table. 1 PUT; with `ssts` (a clone's, of its parent) 2.

        Args:
            settings: JSON-able; kept in the pointer for whoever opens the table.
            first_epoch: greater than any epoch of a table that was ever under this name: its creation in Unix ms.
            ssts: what it begins with. `last_compacted`: L0 numbers begin above.

        Raises:
            TableExistsError: there is a pointer already.
        """
        self._needs_conditional_puts()
        if first_epoch < 1 or last_compacted < -1:
            raise InvalidInputError(
                f"first_epoch {first_epoch} must be 1 or more, last_compacted {last_compacted} -1 or more"
            )
        begins = ssts or last_compacted >= 0 or definition
        name = manifest_name(first_epoch, 0) if begins else NO_MANIFEST
        if name != NO_MANIFEST:
            file = ManifestFile(
                name,
                None,
                tuple(ssts),
                (),
                (name,),
                last_compacted,
                None,
                0,
                first_epoch,
                definition or Entries(),
            )
            put_sst(self.bucket, self.layout.manifest_key(name), encode_manifest(file))
        pointer = Pointer(
            manifest=name,
            compactor_epoch=first_epoch if name != NO_MANIFEST else first_epoch - 1,
            infos=(),
            table_id=secrets.token_hex(16),
            first_epoch=first_epoch,
            revision=1,
            nonce=secrets.token_hex(16),
            settings=dict(settings),
        )
        try:
            etag = self.pointers.create(encode_pointer(pointer), nonce=pointer.nonce)
        except ObjectExistsError as error:
            raise TableExistsError(
                f"{self.pointers.where} exists: there is a keyed table here; open it, or choose another name"
            ) from error
        return replace(pointer, etag=etag)

    def exists(self) -> bool:
        """Whether there is a pointer. 1 request."""
        return self.pointers.get() is not None

    def drop(self) -> None:
        """Remove the pointer: the table is gone, its objects are garbage. 1 request."""
        self.pointers.delete()

    def pointer(self) -> Pointer:
        """The pointer as it is now. 1 GET.

        Raises:
            TableNotFoundError: there is none.
        """
        return self.store.pointer()

    def manifest(self, name: str) -> Manifest:
        """A manifest by its name. 1 GET an object of its chain.

        Raises:
            SnapshotTooOldError: it was collected.
        """
        try:
            return self.store.manifest(name)
        except ObjectNotFoundError as error:
            raise SnapshotTooOldError(
                f"{name} was replaced and collected: {error}. Only what a snapshot keeps stays readable."
            ) from error

    def history(self, limit: int | None = None) -> list[ManifestCommit]:
        """The manifests that are still in the bucket, the newest first. 1 GET, 2 LISTs, and 1 GET each.

        Args:
            limit: only the newest so many.
        """
        return history.history(self.store, limit)

    def read(self, since: View | None = None) -> View:
        """The table as it is now (rule 8): GET, manifest, LIST, GET. With an earlier view: LIST, GET, and 1
        GET a new manifest.

        Raises:
            TableNotFoundError: there is no such table.
        """
        return views.read_view(self.store, since)

    def read_l0(self, file: L0File) -> bytes:
        """The bytes of a flush. 1 GET.

        Raises:
            ObjectNotFoundError: it is gone, or a late fence has taken the place of what was collected (rule 9):
                refresh the view and restart the read, as `restarting` does.
        """
        return views.read_l0(self.store, file)

    def restarting(self, view: View, read: Callable[[View], T]) -> tuple[View, T]:
        """`read(view)`, again with a refreshed view whenever it raises `ObjectNotFoundError` (rule 9); the
        view that was read, and the result.

        Raises:
            CorruptObjectError: an object is missing from the newest view.
        """
        return views.restarting(self.store, view, read)

    def open_writer(self, *, wait_for_gaps_s: float = 0.0, strict: bool = False) -> WriterSession:
        """Take over writing (rules 1 to 3): the writer before is fenced. GET, manifest, LIST, PUT, CAS.

        Args:
            wait_for_gaps_s: seconds to wait for a flush that is missing while later ones of the same writer
                are there. None of these was acknowledged; without the gap's they are lost.
            strict: acknowledge a flush only after a look at the pointer begun after it was up.
        """
        self._needs_conditional_puts()
        opened = opening.open_writer(self.store, wait_for_gaps_s=wait_for_gaps_s)
        return WriterSession(self.store, opened, strict=strict)

    def open_compactor(self) -> CompactorSession:
        """Take over compaction (rule 10): the compactor before is fenced at its next commit.
        GET, CAS, then as `read`."""
        self._needs_conditional_puts()
        return CompactorSession(self.store, take_epoch(self.store))

    def uncommitted(self, view: View) -> int:
        """The number of SSTs in the bucket that the compactor of the view's epoch may still commit: those that a
        running compaction has put so far. 1 LIST."""
        return uncommitted(self.store, view)

    def snapshot(
        self,
        view: View | None = None,
        *,
        name: str | None = None,
        expires_ms: int | None = None,
        like: SnapshotRef | None = None,
    ) -> SnapshotRef:
        """Keep a view readable until it expires or is deleted (rule 14). PUT, CAS, GET, without a view also `read`.

        Args:
            view: what to keep; by default the table as it is now.
            name: for people; not checked to be unique.
            expires_ms: Unix ms, above 0, None for never.
            like: keep what this snapshot keeps instead, by another one with a life of its own. GET, PUT, CAS, GET.

        Raises:
            ObjectChangedError: the given view's manifest isn't the current one any more; snapshot a newer view.
            SnapshotTooOldError: `like` was deleted, or expired and was collected, in between too.
        """
        self._needs_conditional_puts()
        _check_expiry(expires_ms)
        if like is not None:
            return snapshots.copy(self.store, like, name=name, expires_ms=expires_ms)
        return snapshots.take(self.store, view, name=name, expires_ms=expires_ms)

    def snapshots(self) -> list[SnapshotRef]:
        """Those that aren't deleted, oldest first; some may have expired. LIST, and 1 GET each."""
        return snapshots.refs(self.store)

    def view_of(self, ref: SnapshotRef) -> View:
        """The view that a snapshot keeps. 1 GET, and 1 a manifest of its chain.

        Raises:
            SnapshotTooOldError: it was deleted, or expired and was collected.
        """
        return snapshots.view_of(self.store, ref)

    def refresh_snapshot(self, ref: SnapshotRef, expires_ms: int | None) -> SnapshotRef:
        """Let it expire at another time (rule 15). GET, HEAD, CAS.

        Raises:
            SnapshotTooOldError: it was deleted, or expired and was collected.
        """
        _check_expiry(expires_ms)
        return snapshots.refresh(self.store, ref, expires_ms)

    def delete_snapshot(self, ref: SnapshotRef) -> None:
        """Let go of it; a missing one is fine. GET, CAS, DELETE."""
        snapshots.delete(self.store, ref)

    def replaced(self, age_s: float) -> Replaced:
        """The objects that were replaced within so many seconds (rule 21).

        Cost: that of reading the metadata, 1 PUT, 1 HEAD, 1 LIST.
        """
        store = self.store
        before_ms = store.now_ms() - round(age_s * 1000)
        pointer, manifest = store.current()
        listed = store.bucket.list(store.layout.manifests_prefix).objects
        return replaced(store, pointer, manifest, listed, before_ms=before_ms)

    def collect(
        self, *, l0_min_age_s: float | Callable[[Manifest], float], buffer_s: float, dry_run: bool = False
    ) -> CollectReport:
        """Delete what no view and no snapshot can need (rules 16 to 21).

        Args:
            l0_min_age_s: seconds by the store's clock, or what tells them of the current
                manifest; at least 10 times `poll_max_s`, unless nobody writes or reads.
            buffer_s: seconds that clocks may be apart, before an expired snapshot is taken for one.
            dry_run: only tell.
        """
        return collection.collect(self.store, l0_min_age_s=l0_min_age_s, buffer_s=buffer_s, dry_run=dry_run)

    def _needs_conditional_puts(self) -> None:
        if not self.bucket.capabilities.conditional_put:
            raise UnsupportedError(
                f"{self.bucket.url}: a keyed table needs conditional puts to tell its writers apart, and this store "
                "has none; use another store, or another kind of table"
            )


def _check_expiry(expires_ms: int | None) -> None:
    if expires_ms is not None and expires_ms <= snapshots.UNBORN_MS:
        raise InvalidInputError(f"expires_ms={expires_ms}: give Unix milliseconds above 0, or None for never")
