"""The journal of one keyed table: everything that is known of it without opening an SST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.errors import UnsupportedError
from firn.journal.manifest.compacting import CompactorSession
from firn.journal.manifest.layout import ManifestLayout
from firn.journal.manifest.model import (
    CollectReport,
    L0File,
    Manifest,
    Pointer,
    SnapshotRef,
    SSTInfo,
    View,
    ViewChange,
)
from firn.journal.manifest.pointer_store import BucketPointerStore, PointerStore
from firn.journal.manifest.writing import WriterSession

T = TypeVar("T")


class ManifestJournal:
    """One keyed table's manifest.

    Args:
        bucket: where its objects are.
        prefix: the table's key prefix, without a trailing slash.
        pointers: where its pointer is, by default the same bucket.
        clock: time, for expiry, the age of a look at the pointer, and waits between retries.
        poll_max_s: rule 7: for how many seconds a look at the pointer lets a writer acknowledge flushes.
        max_chain: rule 13: how many manifests at most have to be read for one view.
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
    ) -> None:
        self.bucket = bucket
        self.layout = ManifestLayout(prefix)
        self.pointers: PointerStore = pointers or BucketPointerStore(bucket, self.layout.pointer_key)
        self.clock: Clock = clock or SystemClock()
        self.poll_max_s = poll_max_s
        self.max_chain = max_chain

    def create(
        self,
        settings: Mapping[str, Any],
        first_epoch: int,
        *,
        ssts: Sequence[SSTInfo] = (),
        last_compacted: int = -1,
    ) -> Pointer:
        """Make the table. 1 PUT; with `ssts` (a clone's, of its parent) 2.

        Args:
            settings: JSON-able; kept in the pointer for whoever opens the table.
            first_epoch: greater than any epoch of a table that was ever under this name: its creation in Unix ms.
            ssts: what it begins with. `last_compacted`: L0 numbers begin above.

        Raises:
            TableExistsError: there is a pointer already.
        """
        raise UnsupportedError("not yet")

    def exists(self) -> bool:
        """Whether there is a pointer. 1 request."""
        raise UnsupportedError("not yet")

    def drop(self) -> None:
        """Remove the pointer: the table is gone, its objects are garbage. 1 request."""
        raise UnsupportedError("not yet")

    def pointer(self) -> Pointer:
        """The pointer as it is now. 1 GET.

        Raises:
            TableNotFoundError: there is none.
        """
        raise UnsupportedError("not yet")

    def manifest(self, name: str) -> Manifest:
        """A manifest by its name. 1 GET an object of its chain.

        Raises:
            SnapshotTooOldError: it was collected.
        """
        raise UnsupportedError("not yet")

    def read(self, since: View | None = None) -> View:
        """The table as it is now (rule 8): GET, manifest, LIST, GET. With an earlier view: LIST, GET, and 1 GET a new manifest.

        Raises:
            TableNotFoundError: there is no such table.
        """
        raise UnsupportedError("not yet")

    def get_changes(self, since: View) -> ViewChange:
        """What is new since a view, and the view that has it. Cost as `read(since)`."""
        raise UnsupportedError("not yet")

    def read_l0(self, file: L0File) -> bytes:
        """The bytes of a flush. 1 GET.

        Raises:
            ObjectNotFoundError: it is gone, or a late fence has taken the place of what was collected (rule 9):
                refresh the view and restart the read, as `restarting` does.
        """
        raise UnsupportedError("not yet")

    def restarting(self, view: View, read: Callable[[View], T]) -> tuple[View, T]:
        """`read(view)`, again with a refreshed view whenever it raises `ObjectNotFoundError` (rule 9); the view that was
        read, and the result.

        Raises:
            CorruptObjectError: an object is missing from the newest view.
        """
        raise UnsupportedError("not yet")

    def open_writer(self, *, wait_for_gaps_s: float = 0.0, strict: bool = False) -> WriterSession:
        """Take over writing (rules 1 to 3): the writer before is fenced. GET, manifest, LIST, PUT, CAS.

        Args:
            wait_for_gaps_s: seconds to wait for a flush that is missing while later ones of the same writer are there.
                None of these was acknowledged; without the gap's they are lost.
            strict: acknowledge a flush only after a look at the pointer begun after it was up.
        """
        raise UnsupportedError("not yet")

    def open_compactor(self) -> CompactorSession:
        """Take over compaction (rule 10): the compactor before is fenced at its next commit. GET, CAS, then as `read`."""
        raise UnsupportedError("not yet")

    def snapshot(
        self, view: View | None = None, *, name: str | None = None, expires_ms: int | None = None
    ) -> SnapshotRef:
        """Keep a view readable until it expires or is deleted (rule 14). PUT, GET, and those of `read` without a view.

        Args:
            view: what to keep; by default the table as it is now.
            name: for people; not checked to be unique.
            expires_ms: Unix ms, None for never.

        Raises:
            ObjectChangedError: the given view's manifest isn't the current one any more; snapshot a newer view.
        """
        raise UnsupportedError("not yet")

    def snapshots(self) -> list[SnapshotRef]:
        """Those that aren't deleted, oldest first; some may have expired. LIST, and 1 GET each."""
        raise UnsupportedError("not yet")

    def view_of(self, ref: SnapshotRef) -> View:
        """The view that a snapshot keeps. 1 GET, and 1 a manifest of its chain.

        Raises:
            SnapshotTooOldError: it was deleted, or expired and was collected.
        """
        raise UnsupportedError("not yet")

    def refresh_snapshot(self, ref: SnapshotRef, expires_ms: int | None) -> SnapshotRef:
        """Let it expire at another time (rule 15). GET, CAS.

        Raises:
            SnapshotTooOldError: it was deleted, or expired and was collected.
        """
        raise UnsupportedError("not yet")

    def delete_snapshot(self, ref: SnapshotRef) -> None:
        """Let go of it; a missing one is fine. GET, CAS, DELETE."""
        raise UnsupportedError("not yet")

    def collect(self, *, l0_min_age_s: float, buffer_s: float, dry_run: bool = False) -> CollectReport:
        """Delete what no view and no snapshot can need (rules 16 to 20).

        Args:
            l0_min_age_s: seconds by the store's clock; at least 10 times `poll_max_s`, unless nobody writes or reads.
            buffer_s: seconds that clocks may be apart, before an expired snapshot is taken for one.
            dry_run: only tell.
        """
        raise UnsupportedError("not yet")
