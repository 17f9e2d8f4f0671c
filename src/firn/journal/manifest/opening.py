"""Taking over a table as its writer (rules 1 to 3): fence the one before, then claim the numbers above."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Literal

from firn.clock import seconds_awake_or_not
from firn.errors import (
    ConflictError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from firn.journal.manifest.codec import encode_pointer
from firn.journal.manifest.model import EpochInfo, L0File, Manifest, Pointer, View
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.walk import listed_after, walk

FENCE = b""  # frozen


@dataclass(frozen=True, slots=True)
class OpenedManifest:
    """The state that a writer begins with. `seen_s`: when the pointer is known to have named it last."""

    view: View
    info: EpochInfo
    seen_s: float


def open_writer(store: ManifestStore, *, wait_for_gaps_s: float) -> OpenedManifest:
    """Rules 1 to 3. GET, manifest, LIST, PUT, CAS; from the start again when something moved."""
    backoff = store.backoff()
    while True:
        opened = _attempt(store, wait_for_gaps_s)
        if opened is not None:
            return opened
        if not backoff.wait():
            raise ConflictError(
                f"{store.pointers.where} is changed by others all the time, so no writer can be opened; "
                "see who else opens the table, and retry"
            )


def _attempt(store: ManifestStore, wait_for_gaps_s: float) -> OpenedManifest | None:
    """None: something moved, begin again."""
    pointer, manifest = store.current()
    walked = _walk_over_gaps(store, pointer, manifest, wait_for_gaps_s)
    start = (walked[0].number if walked else manifest.last_compacted) + 1
    if pointer.infos:
        fenced = fence(store, pointer.infos[-1], start)
        if fenced is None:
            return None
        walked, start = (*reversed(fenced), *walked), start + len(fenced)
    return _claim(store, View(pointer, manifest, tuple(walked)), start)


def _walk_over_gaps(
    store: ManifestStore, pointer: Pointer, manifest: Manifest, wait_for_gaps_s: float
) -> tuple[L0File, ...]:
    """The walk; while a flush of the last writer is missing below others of its own, wait for it."""
    began = store.clock.monotonic()
    after = listed_after(store.layout, pointer, manifest.last_compacted)
    while True:
        files = store.list_l0(after)
        walked = walk(pointer.infos, manifest.last_compacted, files)
        stopped = (walked[0].number if walked else manifest.last_compacted) + 1
        last = pointer.infos[-1].writer_epoch if pointer.infos else None
        gap = any(f.epoch == last and f.number > stopped and f.bytes for f in files) and not any(
            f.epoch == last and f.number == stopped for f in files
        )
        left = wait_for_gaps_s - (store.clock.monotonic() - began)
        if not gap or left <= 0:
            return walked
        store.clock.sleep(min(left, max(0.01, wait_for_gaps_s / 20)))


def fence(store: ManifestStore, last: EpochInfo, number: int) -> list[L0File] | None:
    """Keep the last writer from putting any flush from `number` on that counts (rule 1). Returns the flushes that
    it put meanwhile and that count, oldest first; None if the view is out of date: begin again.
    """
    if number < last.starting_sst:
        return None
    found: list[L0File] = []
    while True:
        key = store.layout.l0_key(last.writer_epoch, number + len(found))
        placed = _place_fence(store, key)
        if placed == "fence":
            return found
        if placed == "moved":
            return None
        found.append(L0File(last.writer_epoch, number + len(found), key, placed))


def _place_fence(store: ManifestStore, key: str) -> int | Literal["fence", "moved"]:
    """The object that is there in the end: a fence, or a flush, by its size."""
    backoff = store.backoff()
    while True:
        try:
            store.bucket.put_if_absent(key, FENCE)
            return "fence"
        except ObjectExistsError:
            refused = True
        except OutcomeUnknownError:
            refused = False
        try:
            size = store.fetch(key).info.size
        except ObjectNotFoundError:
            if refused or not backoff.wait():
                return "moved"
            continue
        return size or "fence"


def _claim(store: ManifestStore, view: View, start: int) -> OpenedManifest | None:
    """Append the new writer to the pointer that step 1 read (rules 2 and 3). None: it was changed, begin again."""
    pointer = view.pointer
    claim = secrets.token_hex(16)
    epoch = pointer.infos[-1].writer_epoch + 1 if pointer.infos else pointer.first_epoch
    info = EpochInfo(epoch, start, claim)
    claimed = replace(
        pointer, infos=(*pointer.infos, info), revision=pointer.revision + 1, nonce=secrets.token_hex(16)
    )
    begun = seconds_awake_or_not(store.clock)
    try:
        etag = store.pointers.swap(encode_pointer(claimed), pointer.etag, nonce=claimed.nonce)
    except (ObjectChangedError, OutcomeUnknownError):
        # A compactor may have gone on from our claim before the lost answer was looked into.
        begun = seconds_awake_or_not(store.clock)
        found = store.pointer()
        if found.infos[-1:] != (info,):
            return None
        return _after_claim(store, view, found, info, begun)
    return OpenedManifest(replace(view, pointer=replace(claimed, etag=etag)), info, begun)


def _after_claim(
    store: ManifestStore, view: View, pointer: Pointer, info: EpochInfo, begun: float
) -> OpenedManifest:
    pointer, manifest = store.current(view.manifest, pointer)
    l0 = tuple(file for file in view.l0 if file.number > manifest.last_compacted)
    return OpenedManifest(View(pointer, manifest, l0), info, begun)
