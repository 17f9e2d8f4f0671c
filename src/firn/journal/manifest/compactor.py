"""The compactor: its epoch (rule 10), its SSTs and its commits (rules 11 to 13)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace

from firn.bucket.base import Bucket
from firn.errors import (
    ConflictError,
    FencedError,
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from firn.journal.entries import Entries
from firn.journal.manifest.codec import ManifestFile, encode_manifest, encode_pointer
from firn.journal.manifest.layout import NO_MANIFEST, manifest_name
from firn.journal.manifest.model import Manifest, Pointer, SSTInfo, View
from firn.journal.manifest.replaced import remembered
from firn.journal.manifest.store import ManifestStore, applied
from firn.journal.manifest.views import read_view
from firn.journal.manifest.walk import reduced, walk


def take_epoch(store: ManifestStore) -> int:
    """Raise the compactor's epoch by one CAS (rule 10); whoever compacted before is fenced. GET, CAS."""
    backoff = store.backoff()
    while True:
        pointer = store.pointer()
        epoch = max(pointer.compactor_epoch + 1, pointer.first_epoch)
        try:
            swap_pointer(store, replace(pointer, compactor_epoch=epoch))
            return epoch
        except (ObjectChangedError, OutcomeUnknownError) as error:
            # Another may have raised it to the same number; only what a CAS was answered for is one's own.
            if not backoff.wait():
                raise ConflictError(
                    f"{store.pointers.where} is changed by others all the time, so no compactor can open it; retry"
                ) from error


def swap_pointer(store: ManifestStore, changed: Pointer) -> Pointer:
    """Put a changed pointer in the place of the version that it was made of (its `etag`). 1 CAS.

    Raises:
        ObjectChangedError: that version isn't in place any more, and this one neither.
        OutcomeUnknownError: it isn't in place, and may come to be.
    """
    fresh = replace(changed, revision=changed.revision + 1, nonce=secrets.token_hex(16))
    etag = store.pointers.swap(encode_pointer(fresh), changed.etag, nonce=fresh.nonce)
    return replace(fresh, etag=etag)


def uncommitted(store: ManifestStore, view: View) -> int:
    """See `ManifestJournal.uncommitted`: those of which rule 18 says that they are spared."""
    epoch, layout = view.pointer.compactor_epoch, store.layout
    settled = view.manifest.next_sst if view.manifest.compactor_epoch == epoch else 0
    found = store.bucket.list(layout.ssts_prefix, after=layout.before_sst(epoch, settled)).objects
    names = [layout.parse_sst(info.key) for info in found]
    return sum(1 for name in names if name is not None and name.epoch == epoch)


def put_sst(bucket: Bucket, key: str, data: bytes) -> None:
    """Put an SST up, in a task of any process. 1 PUT; after a refusal or without an answer also 1 GET.

    A task that is run twice may use its key twice if it makes the same bytes; what is there is never replaced,
    since it may be part of the table already.

    Raises:
        ObjectExistsError: other bytes are there: take another number.
        FencedError: it was collected since, so another compactor is at work.
        OutcomeUnknownError: it isn't there, and may come to be: put the same bytes again.
    """
    try:
        bucket.put_if_absent(key, data)
    except (ObjectExistsError, OutcomeUnknownError) as error:
        try:
            found = bucket.get(key)
        except ObjectNotFoundError:
            if isinstance(error, OutcomeUnknownError):
                raise error from None
            # The refusal was the echo of an attempt that landed, and a collector has taken what it put.
            raise FencedError(
                f"{bucket.uri(key)} was there and was collected, so another compactor took over. Nothing of this "
                "compaction is visible: leave it to the other."
            ) from error
        if len(found.data) != found.info.size:
            raise OutcomeUnknownError(
                f"{bucket.uri(key)}: the answer is cut short; put the same bytes again"
            ) from error
        if found.data != data:
            raise ObjectExistsError(
                f"{bucket.uri(key)} holds another SST; take another number for this one"
            ) from error


class CompactorSession:
    """The right to compact a table, until another compactor takes it. Safe to use from several threads, but
    for `commit` and `refresh`, which one thread calls.

    Example:
        >>> from firn.bucket import open_bucket
        >>> from firn.journal.manifest import ManifestJournal
        >>> journal = ManifestJournal(open_bucket("memory://"), "t")
        >>> _ = journal.create({}, first_epoch=1)
        >>> writer = journal.open_writer()
        >>> writer.put_l0(0, b"a flush")
        >>> compactor = journal.open_compactor()
        >>> [file.number for file in compactor.view.l0]
        [0]
        >>> n = compactor.next_sst_number()
        >>> compactor.put_sst(n, b"an SST")
        >>> sst = SSTInfo(1, 0, n, compactor.sst_file(n), b"a", b"z", rows=1, bytes=6, max_seq=1 << 32)
        >>> compactor.commit(adds=[sst], deletes=[], last_compacted=0).version
        'manifest.000000000000000001.000000000000000000@0'
        >>> journal.read().l0
        ()
    """

    def __init__(self, store: ManifestStore, epoch: int) -> None:
        self.epoch = epoch
        self._store = store
        self._mutex = threading.Lock()
        self._next_sst = 0
        self._next_manifest = 0
        self._view = read_view(store)
        self._must_be_mine(self._view.pointer)

    @property
    def view(self) -> View:
        """The newest view that this session has made or read. No request."""
        return self._view

    def refresh(self) -> View:
        """Read anew. LIST + GET, and 1 GET a new manifest.

        Raises:
            FencedError: another compactor has taken over.
        """
        view = read_view(self._store, self._view)
        self._must_be_mine(view.pointer)
        self._view = view
        return view

    def next_sst_number(self) -> int:
        """A number for an SST, never given twice. No request. A task anywhere may use it."""
        return self.reserve_ssts(1)[0]

    def reserve_ssts(self, count: int) -> range:
        """Numbers for tasks of other processes; those that stay unused do no harm. No request."""
        with self._mutex:
            first = self._next_sst
            self._next_sst += count
            return range(first, self._next_sst)

    def sst_file(self, number: int) -> str:
        """What `SSTInfo.file` is for this number."""
        return self._store.layout.sst_file(self.epoch, number)

    def sst_key(self, number: int) -> str:
        """The object's whole key in the bucket for this number."""
        return self._store.layout.sst_key(self.sst_file(number))

    def put_sst(self, number: int, data: bytes) -> None:
        """Put an SST up: see the function `put_sst`, which tasks call with `sst_key(number)`.

        Raises:
            ObjectExistsError: the number was used for other bytes.
        """
        put_sst(self._store.bucket, self.sst_key(number), data)

    def commit(
        self,
        *,
        adds: Sequence[SSTInfo],
        deletes: Sequence[SSTInfo],
        last_compacted: int,
        in_flight: int | None = None,
        definition: Entries | None = None,
    ) -> View:
        """Make SSTs part of the table and others not, with all L0 up to `last_compacted` in them (rules 11 to 13).

        2 PUTs; after a conflict also 1 GET and 1 PUT each.

        Args:
            adds: SSTs that are up. One that moves to another level is deleted and added.
            deletes: SSTs of the session's view.
            last_compacted: the manifest's own where only SSTs are merged.
            in_flight: the lowest number of this session whose SST isn't in any commit yet and shall be in a
                later one; None if there is none. SSTs with lower numbers that no commit names may be collected.
            definition: how the table is altered from now on; None leaves it as it is.

        Raises:
            FencedError: another compactor has taken over; nothing of this is visible.
            ObjectChangedError: an earlier commit, whose outcome was unknown, has landed: refresh, and plan again.
            OutcomeUnknownError, StoreError: it may or may not be visible, now or soon: refresh, and plan again.
            InvalidInputError: a deleted SST isn't in the manifest, an added one is, or `last_compacted` wasn't
                walked.
        """
        before = self._view
        # A commit whose answer was lost may have been looked into when another compactor had the epoch already.
        self._must_be_mine(before.pointer)
        _check(before, adds, deletes, last_compacted)
        with self._mutex:
            next_sst = self._next_sst if in_flight is None else min(in_flight, self._next_sst)
        file = self._manifest(before, adds, deletes, last_compacted, next_sst)
        file = replace(file, definition=before.manifest.definition if definition is None else definition)
        self._put_manifest(file)
        manifest = applied(before.manifest, [file])
        pointer = self._publish(manifest)
        l0 = walk(pointer.infos, manifest.last_compacted, before.l0)
        self._view = View(pointer, manifest, l0)
        return self._view

    def _manifest(
        self,
        before: View,
        adds: Sequence[SSTInfo],
        deletes: Sequence[SSTInfo],
        last_compacted: int,
        next_sst: int,
    ) -> ManifestFile:
        """The object to write: changes while they are few and their chain is short, else the whole (rule 13)."""
        base = before.manifest
        last_epoch = base.last_compacted_epoch
        if last_compacted > base.last_compacted:
            last_epoch = before.l0[before.last_l0 - last_compacted].epoch
        # Never used again, even if this commit fails: its object may land later.
        name = manifest_name(self.epoch, self._next_manifest)
        self._next_manifest += 1
        changes = len(adds) + len(deletes)
        full = (
            base.name == NO_MANIFEST or len(base.chain) >= self._store.max_chain or changes >= len(base.ssts)
        )
        file = ManifestFile(
            name=name,
            base=None if full else base.name,
            adds=tuple(adds),
            deletes=tuple(sst.file for sst in deletes),
            chain=(name,) if full else (*base.chain, name),
            last_compacted=last_compacted,
            last_epoch=last_epoch,
            next_sst=next_sst,
            compactor_epoch=self.epoch,
        )
        if not full:
            return file
        after = applied(base, [replace(file, base=base.name)])
        replaced = remembered(after.replaced, self._store.clock.now_ms(), self._store.l0_min_age_s)
        return replace(file, adds=after.ssts, deletes=(), replaced=replaced)

    def _put_manifest(self, file: ManifestFile) -> None:
        key, data = self._store.layout.manifest_key(file.name), encode_manifest(file)
        self._store.backoff().persist(lambda: put_sst(self._store.bucket, key, data), OutcomeUnknownError)

    def _publish(self, manifest: Manifest) -> Pointer:
        """The CAS (rule 11), again for as long as only writers come in between."""
        backoff = self._store.backoff()
        pointer = self._view.pointer
        while True:
            changed = replace(
                pointer,
                manifest=manifest.name,
                infos=reduced(pointer.infos, manifest.last_compacted),
                last_compacted_ms=self._store.clock.now_ms(),
            )
            try:
                return swap_pointer(self._store, changed)
            except (ObjectChangedError, OutcomeUnknownError) as error:
                conflict = error
            pointer = self._store.pointer()
            if pointer.manifest == manifest.name:
                return pointer
            self._must_be_mine(pointer)
            if pointer.manifest != self._view.manifest.name:
                raise ObjectChangedError(
                    f"{self._store.pointers.where}: an earlier commit of this compactor, of unknown outcome, has "
                    "landed since. Refresh, and plan again."
                ) from conflict
            if not backoff.wait():
                raise conflict

    def _must_be_mine(self, pointer: Pointer) -> None:
        if pointer.compactor_epoch != self.epoch:
            raise FencedError(
                f"{self._store.pointers.where}: a compactor of epoch {pointer.compactor_epoch} has taken over from "
                f"this one, of epoch {self.epoch}. Nothing of this compaction is visible: leave it to the other."
            )


def _check(view: View, adds: Sequence[SSTInfo], deletes: Sequence[SSTInfo], last_compacted: int) -> None:
    named = {sst.file for sst in view.manifest.ssts}
    gone = {sst.file for sst in deletes}
    if not gone <= named:
        raise InvalidInputError(
            f"{min(gone - named)} can't be deleted from {view.version}, which doesn't name it"
        )
    added = [sst.file for sst in adds]
    again = (set(added) & (named - gone)) or {file for file in added if added.count(file) > 1}
    if again:
        raise InvalidInputError(f"{min(again)} can't be added twice to {view.version}")
    if not view.manifest.last_compacted <= last_compacted <= view.last_l0:
        raise InvalidInputError(
            f"L0 up to {last_compacted} can't be compacted in {view.version}: it ends at {view.last_l0}, and up to "
            f"{view.manifest.last_compacted} is compacted already"
        )
