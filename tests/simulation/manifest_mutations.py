"""Each rule of the manifest's protocol, left out: a mutation patches the journal, and simulations must notice.

The rules are those of docs/format/keyed-manifest.md, by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from firn.errors import FencedError, ObjectChangedError, ObjectExistsError, OutcomeUnknownError
from firn.journal.manifest import collection, compactor, journal, opening, snapshots, views
from firn.journal.manifest.codec import encode_snapshot
from firn.journal.manifest.compactor import CompactorSession
from firn.journal.manifest.layout import NO_MANIFEST
from firn.journal.manifest.model import EpochInfo, L0File, Manifest, Pointer, Replacement, View
from firn.journal.manifest.replaced import Replaced
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.walk import listed_after, walk
from firn.journal.manifest.writer import WriterSession

Mutation = Callable[[pytest.MonkeyPatch], None]


# -- open a writer


def open_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: fence the old writer before the claim."""
    patch.setattr(opening, "fence", lambda store, last, number: [])


def take_data_for_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: where the fence is refused there may be a flush, which counts."""

    def place(store: ManifestStore, key: str) -> str:
        try:
            store.bucket.put_if_absent(key, opening.FENCE)
        except ObjectExistsError:
            pass
        except OutcomeUnknownError:
            return "moved"
        return "fence"

    patch.setattr(opening, "_place_fence", place)


def claim_with_an_old_start(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: on a conflict begin again, as what was walked isn't all any more."""
    sound = opening._claim

    def claim(store: ManifestStore, view: View, start: int) -> Any:
        while True:
            opened = sound(store, view, start)
            if opened is not None:
                return opened
            view = replace(view, pointer=store.pointer())

    patch.setattr(opening, "_claim", claim)


def believe_any_claim(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: without an answer it is one's own only if one's nonce is there."""
    sound = opening._claim

    def claim(store: ManifestStore, view: View, start: int) -> Any:
        opened = sound(store, view, start)
        if opened is not None:
            return opened
        infos = store.pointer().infos
        last = view.pointer.infos[-1].writer_epoch if view.pointer.infos else 0
        if infos and infos[-1].writer_epoch == last + 1:
            return opening.OpenedManifest(
                view, replace(infos[-1], starting_sst=start), store.clock.monotonic()
            )
        return None

    patch.setattr(opening, "_claim", claim)


# -- flush


def put_over_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: put-if-absent."""
    patch.setattr(WriterSession, "_put", lambda self, key, data: self._store.bucket.put(key, data))


def believe_refusals_and_silence(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: refused or unanswered, look what is there."""

    def put(self: WriterSession, key: str, data: bytes) -> None:
        with suppress(ObjectExistsError, OutcomeUnknownError):
            self._store.bucket.put_if_absent(key, data)

    patch.setattr(WriterSession, "_put", put)


def acknowledge_above_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: all lower numbers are up."""
    patch.setattr(WriterSession, "_wait_for_all_below", lambda self, number: None)


def never_look_at_the_pointer(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: the pointer was seen lately."""
    patch.setattr(WriterSession, "_is_fresh", lambda self, number: True)


# -- read


def list_after_the_pointer(patch: pytest.MonkeyPatch) -> None:
    """Rule 8: a LIST is trusted only with a pointer that was read after it."""

    def read(store: ManifestStore, since: View | None = None) -> View:
        known = None if since is None else since.manifest
        pointer, manifest = store.current(known)
        files = store.list_l0(listed_after(store.layout, pointer, manifest.last_compacted))
        return View(pointer, manifest, walk(pointer.infos, manifest.last_compacted, files))

    patch.setattr(views, "read_view", read)
    for module in (compactor, snapshots):
        patch.setattr(module, "read_view", read)


def take_a_fence_for_a_flush(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: "gone" includes empty."""
    patch.setattr(views, "read_l0", lambda store, file: store.fetch(file.key).data)


def never_restart_a_read(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: what is gone was replaced."""
    patch.setattr(views, "restarting", lambda store, view, read: (view, read(view)))


# -- compact


def share_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: raise it."""
    patch.setattr(journal, "take_epoch", lambda store: max(1, store.pointer().compactor_epoch))
    patch.setattr(CompactorSession, "_must_be_mine", lambda self, pointer: None)


def believe_an_unanswered_epoch(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: unknown outcome → raise again."""

    def take(store: ManifestStore) -> int:
        pointer = store.pointer()
        with suppress(ObjectChangedError, OutcomeUnknownError):
            compactor.swap_pointer(store, replace(pointer, compactor_epoch=pointer.compactor_epoch + 1))
        return pointer.compactor_epoch + 1

    patch.setattr(journal, "take_epoch", take)


def commit_before_the_manifest_is_up(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: PUT, then CAS."""
    late: dict[CompactorSession, Any] = {}
    put, publish = CompactorSession._put_manifest, CompactorSession._publish

    def remember(self: CompactorSession, file: Any) -> None:
        late[self] = file

    def swapped(self: CompactorSession, manifest: Manifest) -> Pointer:
        pointer = publish(self, manifest)
        put(self, late.pop(self))
        return pointer

    patch.setattr(CompactorSession, "_put_manifest", remember)
    patch.setattr(CompactorSession, "_publish", swapped)


def forget_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: `next_sst` is the lowest number still in flight."""
    commit = CompactorSession.commit
    patch.setattr(
        CompactorSession,
        "commit",
        lambda self, *, in_flight=None, **rest: commit(self, in_flight=None, **rest),
    )


def publish_after_another_compactor(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: on a conflict with another compactor's epoch, exit."""

    def publish(self: CompactorSession, manifest: Manifest) -> Pointer:
        pointer = self._view.pointer
        while True:
            infos = compactor.reduced(pointer.infos, manifest.last_compacted)
            try:
                return compactor.swap_pointer(
                    self._store, replace(pointer, manifest=manifest.name, infos=infos)
                )
            except (ObjectChangedError, OutcomeUnknownError):
                pointer = self._store.pointer()

    patch.setattr(CompactorSession, "_publish", publish)


def forget_new_writers(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: on a conflict reduce the infos again, those that are there now."""

    def publish(self: CompactorSession, manifest: Manifest) -> Pointer:
        infos = compactor.reduced(self._view.pointer.infos, manifest.last_compacted)
        while True:
            pointer = self._store.pointer()
            if pointer.compactor_epoch != self.epoch:
                raise FencedError("another compactor")
            try:
                return compactor.swap_pointer(
                    self._store, replace(pointer, manifest=manifest.name, infos=infos)
                )
            except (ObjectChangedError, OutcomeUnknownError):
                continue

    patch.setattr(CompactorSession, "_publish", publish)


def keep_the_last_info_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: one is needed for as long as numbers of its own aren't compacted."""
    patch.setattr(compactor, "reduced", lambda infos, last_compacted: tuple(infos[-1:]))


def keep_no_info(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: keep the last."""

    def reduced(infos: Sequence[EpochInfo], last_compacted: int) -> tuple[EpochInfo, ...]:
        return tuple(info for info in infos if info.starting_sst > last_compacted)

    patch.setattr(compactor, "reduced", reduced)


def apply_the_newest_changes_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 13: changes apply in order, all of them."""
    sound = ManifestStore.manifest

    def manifest(self: ManifestStore, name: str, known: Manifest | None = None) -> Manifest:
        found = sound(self, name, known)
        if len(found.chain) < 3 or (known is not None and known.name in found.chain):
            return found
        skipped = sound(self, found.chain[-2]).ssts
        base = {sst.file for sst in sound(self, found.chain[-3]).ssts}
        gone = {sst.file for sst in skipped} - base
        return replace(found, ssts=tuple(sst for sst in found.ssts if sst.file not in gone))

    patch.setattr(ManifestStore, "manifest", manifest)


def chain_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Rule 13: cap the chain."""
    commit = CompactorSession.commit

    def committed(self: CompactorSession, **arguments: Any) -> View:
        self._store = replace(self._store, max_chain=1000)
        return commit(self, **arguments)

    patch.setattr(CompactorSession, "commit", committed)


# -- snapshots


def snapshot_without_a_second_look(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: GET the pointer after the PUT."""

    def take(store: ManifestStore, view: View | None, *, name: str | None, expires_ms: int | None) -> Any:
        return snapshots._put(store, snapshots._file(store, view or views.read_view(store), name, expires_ms))

    patch.setattr(snapshots, "take", take)


def put_snapshots_alive(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: put it expired, and let it live by a CAS."""
    patch.setattr(snapshots, "_unborn", lambda file: file)


def refresh_by_a_plain_put(patch: pytest.MonkeyPatch) -> None:
    """Rule 15: by CAS only, and a tombstone means expired."""

    def refresh(store: ManifestStore, ref: Any, expires_ms: int | None) -> Any:
        file, _ = snapshots._alive(store, ref)
        changed = replace(file, expires_ms=expires_ms, revision=file.revision + 1, nonce="0" * 32)
        return snapshots._ref(ref.key, changed, store.bucket.put(ref.key, encode_snapshot(changed)))

    patch.setattr(snapshots, "refresh", refresh)


# -- collect


def expire_without_a_tombstone(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: CAS to a tombstone, then delete."""
    patch.setattr(collection, "bury", lambda store, key, file, etag: None)


def take_a_refreshed_one_for_dead(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: if the CAS fails, look again: it may be alive."""

    def bury(store: ManifestStore, key: str, file: Any, etag: str) -> None:
        with suppress(ObjectChangedError, OutcomeUnknownError):
            snapshots.bury(store, key, file, etag)

    patch.setattr(collection, "bury", bury)


def list_snapshots_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: list again until none has newly expired, as one may have been copied just before."""

    def expire(store: ManifestStore, buffer_s: float, dry_run: bool) -> Any:
        before_ms = store.clock.now_ms() - round(buffer_s * 1000)
        kept, buried = [], []
        for key, file, etag in snapshots.list_snapshots(store):
            if file is not None and not collection._is_over(file, before_ms):
                kept.append(file)
            elif file is not None and (
                file.expired or collection._bury(store, key, file, etag, store.backoff())
            ):
                store.bucket.delete(key)
                buried.append(key)
        return buried, kept

    patch.setattr(collection, "_expire", expire)


def no_buffer_for_skew(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: expired, plus a buffer."""
    sound = collection._expire
    patch.setattr(collection, "_expire", lambda store, buffer_s, dry_run: sound(store, 0, dry_run))


def forget_snapshots(patch: pytest.MonkeyPatch) -> None:
    """Rule 17: what snapshots name is live."""
    sound = collection.live_objects
    patch.setattr(
        collection, "live_objects", lambda store, manifest, kept, listed: sound(store, manifest, (), listed)
    )


def forget_l0_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    """Rule 17: their L0 lists."""
    sound = collection.live_objects

    def live(store: ManifestStore, manifest: Manifest, kept: Iterable[Any], listed: Any) -> Any:
        found = sound(store, manifest, kept, listed)
        found.l0.clear()
        return found

    patch.setattr(collection, "live_objects", live)


def forget_chains(patch: pytest.MonkeyPatch) -> None:
    """Rule 17: a manifest stands on all of its chain."""
    sound = collection.live_objects

    def live(store: ManifestStore, manifest: Manifest, kept: Iterable[Any], listed: Any) -> Any:
        found = sound(store, manifest, kept, listed)
        names = [manifest.name, *(file.pointer.manifest for file in kept)]
        found.manifests = {store.layout.manifest_key(name) for name in names}
        return found

    patch.setattr(collection, "live_objects", live)


def forget_what_was_replaced(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: views of a moment ago are still being read."""
    patch.setattr(
        collection,
        "replaced",
        lambda store, pointer, manifest, listed, *, before_ms: Replaced(
            frozenset(), None, manifest.last_compacted
        ),
    )


def tell_nothing_of_earlier_chains(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: a Full manifest tells what the commits of late replaced."""
    sound = compactor.remembered
    patch.setattr(
        compactor,
        "remembered",
        lambda *args: tuple(replace(step, ssts=()) for step in sound(*args)),
    )


def believe_a_short_list(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: of what the first that is told replaced, nothing is known."""
    sound = collection.replaced

    def replaced(store: ManifestStore, pointer: Pointer, manifest: Manifest, listed: Any, **rest: Any) -> Any:
        complete = (Replacement(NO_MANIFEST, -1, (), 0), *manifest.replaced)
        return sound(store, pointer, replace(manifest, replaced=complete), listed, **rest)

    patch.setattr(collection, "replaced", replaced)


def snapshots_before_the_lists(patch: pytest.MonkeyPatch) -> None:
    """Collect: in this order. A snapshot listed before the objects misses those that it came to keep."""
    sound = collection._expire
    listed: dict[int, Any] = {}
    collect = collection.collect

    def early(store: ManifestStore, *, l0_min_age_s: float, buffer_s: float, dry_run: bool) -> Any:
        listed[id(store)] = sound(store, buffer_s, dry_run)
        return collect(store, l0_min_age_s=l0_min_age_s, buffer_s=buffer_s, dry_run=dry_run)

    patch.setattr(collection, "collect", early)
    patch.setattr(collection, "_expire", lambda store, buffer_s, dry_run: listed.pop(id(store)))


def collect_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    """Rule 18: SSTs of the compactor's epoch from `next_sst` on are still to be named."""
    patch.setattr(collection, "_below", lambda name, settled: name is not None)


def collect_the_new_epochs(patch: pytest.MonkeyPatch) -> None:
    """Rule 18: where the current manifest is of an older epoch, the new epoch's are spared."""
    patch.setattr(collection, "_is_current", lambda pointer, current: True)


def collect_l0_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 19: a fence has to outlive what its zombie may still believe."""
    sound = collection._compacted_l0
    patch.setattr(collection, "_compacted_l0", lambda *args: sound(*args[:-1], 2**62))


def collect_fences_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: fences when the pointer hasn't changed for long."""
    sound = collection._zombies
    patch.setattr(collection, "_zombies", lambda *args: sound(*args[:-1], 2**62))


def collect_what_is_not_walked(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: of an older epoch and not the owner's; what the owner has above a gap may yet be walked."""

    def zombies(
        layout: Any, pointer: Pointer, manifest: Manifest, objects: Any, live: Any, before_ms: int
    ) -> Any:
        names = [(info, layout.parse_l0(info.key)) for info in objects]
        files = [L0File(name.epoch, name.number, info.key, info.size) for info, name in names if name]
        walked = {file.key for file in walk(pointer.infos, manifest.last_compacted, files)}
        gone = [
            info
            for info, name in names
            if name and name.number > manifest.last_compacted and info.key not in walked | live.l0
        ]
        return [info for info in gone if info.size], []

    patch.setattr(collection, "_zombies", zombies)
