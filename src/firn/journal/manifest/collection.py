"""Garbage collection (rules 16 to 21): delete objects that no reader, no snapshot and no client under way can need.

The order makes it safe: the pointer first, then the lists of objects, then snapshots. An object that was listed is
garbage only by what was known before (the pointer), or can't become live any more (old epochs, old numbers).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from firn.bucket.base import ObjectInfo
from firn.errors import AccessDeniedError, ObjectChangedError, ObjectNotFoundError, OutcomeUnknownError
from firn.journal.backoff import Backoff
from firn.journal.manifest.codec import SnapshotFile
from firn.journal.manifest.layout import ManifestLayout, Numbered, order_of
from firn.journal.manifest.model import CollectReport, L0File, Manifest, Pointer
from firn.journal.manifest.replaced import Replaced, replaced
from firn.journal.manifest.snapshots import bury, is_dead, list_snapshots
from firn.journal.manifest.store import ManifestStore
from firn.journal.manifest.walk import owner, walk


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects that there were, read after the pointer."""

    l0: Sequence[ObjectInfo]
    ssts: Sequence[ObjectInfo]
    manifests: Sequence[ObjectInfo]


@dataclass(slots=True)
class Live:
    """The keys of all objects that pointer and snapshots name (rule 17)."""

    ssts: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    l0: set[str] = field(default_factory=set)
    dangling: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Garbage:
    """The objects that may be deleted, and the reasons."""

    l0: tuple[ObjectInfo, ...]
    fences: tuple[ObjectInfo, ...]
    ssts: tuple[ObjectInfo, ...]
    manifests: tuple[ObjectInfo, ...]


def collect(
    store: ManifestStore,
    *,
    l0_min_age_s: float | Callable[[Manifest], float],
    buffer_s: float,
    dry_run: bool,
) -> CollectReport:
    """See `ManifestJournal.collect`."""
    now_ms = _now_ms(store, dry_run)
    pointer, manifest = store.current()
    age_s = l0_min_age_s(manifest) if callable(l0_min_age_s) else l0_min_age_s
    before_ms = now_ms - round(age_s * 1000)
    bucket, layout = store.bucket, store.layout
    listed = Listed(
        l0=bucket.list(layout.l0_prefix).objects,
        ssts=bucket.list(layout.ssts_prefix).objects,
        manifests=bucket.list(layout.manifests_prefix).objects,
    )
    buried, kept = _expire(store, buffer_s, dry_run)
    live = live_objects(store, manifest, kept, listed)
    lately = replaced(store, pointer, manifest, listed.manifests, before_ms=before_ms)
    plan = garbage(layout, pointer, manifest, listed, live, lately, before_ms=before_ms)
    report = CollectReport(
        l0=_keys(plan.l0),
        fences=_keys(plan.fences),
        ssts=_keys(plan.ssts),
        manifests=_keys(plan.manifests),
        snapshots=tuple(buried),
        bytes=sum(info.size for info in (*plan.l0, *plan.ssts, *plan.manifests)),
        live_l0=len(live.l0.union(_walked(layout, pointer, manifest, listed.l0))),
        live_ssts=len(live.ssts),
        live_manifests=len(live.manifests),
        live_snapshots=len(kept),
        dangling=tuple(live.dangling),
        dry_run=dry_run,
    )
    if not dry_run:
        bucket.delete_many([*report.l0, *report.fences, *report.ssts, *report.manifests])
    return report


def _now_ms(store: ManifestStore, dry_run: bool) -> int:
    """The store's time; of a dry run this machine's will do, where nothing may be written to learn the store's."""
    try:
        return store.now_ms()
    except AccessDeniedError:
        if not dry_run:
            raise
        return store.clock.now_ms()


def _expire(store: ManifestStore, buffer_s: float, dry_run: bool) -> tuple[list[str], list[SnapshotFile]]:
    """Delete the expired (rule 16); their keys, and what stays alive.

    Snapshots are listed until all that are listed are alive. One that was made of another, just before that one
    expired, isn't in the list that had the first.
    """
    before_ms = store.clock.now_ms() - round(buffer_s * 1000)
    buried: dict[str, None] = {}
    backoff = store.backoff()
    while True:
        kept: list[SnapshotFile] = []
        listed = list_snapshots(store)
        for key, file, etag in listed:
            if file is not None and not _is_over(file, before_ms):
                kept.append(file)
                continue
            if dry_run:
                buried[key] = None
            elif file is not None and (file.expired or _bury(store, key, file, etag, backoff)):
                store.bucket.delete(key)
                buried[key] = None
        if dry_run or len(kept) == len(listed):
            return list(buried), kept


def _is_over(file: SnapshotFile, before_ms: int) -> bool:
    return is_dead(file) or (file.expires_ms is not None and file.expires_ms < before_ms)


def _bury(store: ManifestStore, key: str, file: SnapshotFile, etag: str, backoff: Backoff) -> bool:
    """False: it was refreshed, or deleted, and the next list tells."""
    try:
        bury(store, key, file, etag)
        return True
    except (ObjectChangedError, OutcomeUnknownError):
        if not backoff.wait():
            raise
        return False


def live_objects(
    store: ManifestStore, manifest: Manifest, snapshots: Iterable[SnapshotFile], listed: Listed
) -> Live:
    """Rule 17. 1 GET an object of a snapshot's chain that the pointer's doesn't have."""
    live, layout = Live(), store.layout
    _name(layout, live, manifest)
    known = {manifest.name: manifest}
    there = {info.key for infos in (listed.l0, listed.ssts, listed.manifests) for info in infos}
    for file in snapshots:
        name = file.pointer.manifest
        live.l0.update(layout.l0_key(epoch, number) for epoch, number, _ in file.l0)
        live.manifests.update(layout.manifest_key(link) for link in file.chain)
        if name not in known:
            try:
                known[name] = store.manifest(name)
            except ObjectNotFoundError:
                live.dangling.append(layout.snapshot_key(name, file.id))
                continue
        _name(layout, live, known[name])
        if not _settled_names(layout, manifest, file, known[name]) <= there:
            live.dangling.append(layout.snapshot_key(name, file.id))
    return live


def _settled_names(
    layout: ManifestLayout, current: Manifest, file: SnapshotFile, manifest: Manifest
) -> set[str]:
    """The objects of a snapshot that are older than the current manifest, so that no LIST misses them."""
    named = {layout.l0_key(epoch, number) for epoch, number, _ in file.l0 if number <= current.last_compacted}
    if order_of(manifest.name) <= order_of(current.name):
        named.update(layout.manifest_key(link) for link in manifest.chain)
        named.update(layout.sst_key(sst.file) for sst in manifest.ssts if not sst.file.startswith("/"))
    return named


def _name(layout: ManifestLayout, live: Live, manifest: Manifest) -> None:
    live.ssts.update(layout.sst_key(sst.file) for sst in manifest.ssts)
    live.manifests.update(layout.manifest_key(link) for link in manifest.chain)


def garbage(
    layout: ManifestLayout,
    pointer: Pointer,
    manifest: Manifest,
    listed: Listed,
    live: Live,
    lately: Replaced,
    *,
    before_ms: int,
) -> Garbage:
    """The objects that may be deleted (rules 18 to 21). Pure. `before_ms`: by the store's clock; as old as that is
    old enough."""
    current = order_of(manifest.name)
    settled_sst = Numbered(pointer.compactor_epoch, manifest.next_sst if _is_current(pointer, current) else 0)
    settled_manifest = Numbered(
        pointer.compactor_epoch, current.number if _is_current(pointer, current) else 0
    )
    if lately.since is not None:
        settled_manifest = min(settled_manifest, lately.since)
    compacted = _compacted_l0(layout, manifest, lately, listed.l0, live, before_ms)
    data, fences = _zombies(layout, pointer, manifest, listed.l0, live, before_ms)
    spared = live.ssts.union(layout.sst_key(file) for file in lately.ssts)
    return Garbage(
        l0=(*(info for info in compacted if info.size), *data),
        fences=(*(info for info in compacted if not info.size), *fences),
        ssts=tuple(
            info
            for info in listed.ssts
            if info.key not in spared and _below(layout.parse_sst(info.key), settled_sst)
        ),
        manifests=tuple(
            info
            for info in listed.manifests
            if info.key not in live.manifests and _below(layout.parse_manifest(info.key), settled_manifest)
        ),
    )


def _is_current(pointer: Pointer, current: Numbered) -> bool:
    """Whether the compactor that has the epoch has committed. If not, all that it has put is still to be named."""
    return current.epoch == pointer.compactor_epoch


def _below(name: Numbered | None, settled: Numbered) -> bool:
    """Rule 18, never by age: a compactor that stalled for a day may still commit what it has put."""
    return name is not None and name < settled


def _compacted_l0(
    layout: ManifestLayout,
    manifest: Manifest,
    lately: Replaced,
    objects: Sequence[ObjectInfo],
    live: Live,
    before_ms: int,
) -> list[ObjectInfo]:
    """Rule 19: by numbers, since a young object tells that somebody still works at that number."""
    by_number: dict[int, list[ObjectInfo]] = defaultdict(list)
    for info in objects:
        name = layout.parse_l0(info.key)
        if name is not None and name.number <= manifest.last_compacted:
            by_number[name.number].append(info)
    return [
        info
        for number, group in by_number.items()
        if all(each.modified_ms <= before_ms for each in group)
        for info in group
        if info.key not in live.l0 and (number <= lately.compacted or not info.size)  # nobody reads a fence
    ]


def _zombies(
    layout: ManifestLayout,
    pointer: Pointer,
    manifest: Manifest,
    objects: Sequence[ObjectInfo],
    live: Live,
    before_ms: int,
) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
    """Rule 20: data and fences of writers that were followed by others, where the number isn't theirs."""
    newest = pointer.infos[-1].writer_epoch if pointer.infos else pointer.first_epoch
    settled = pointer.modified_ms is not None and pointer.modified_ms <= before_ms
    data, fences = [], []
    for info in objects:
        name = layout.parse_l0(info.key)
        if name is None or name.number <= manifest.last_compacted or info.key in live.l0:
            continue
        whose = owner(pointer.infos, name.number)
        if name.epoch >= newest or (whose is not None and whose.writer_epoch == name.epoch):
            continue
        if info.size:
            data.append(info)
        elif settled:
            fences.append(info)
    return data, fences


def _walked(
    layout: ManifestLayout, pointer: Pointer, manifest: Manifest, objects: Sequence[ObjectInfo]
) -> list[str]:
    names = [(info, layout.parse_l0(info.key)) for info in objects]
    files = [L0File(name.epoch, name.number, info.key, info.size) for info, name in names if name is not None]
    return [file.key for file in walk(pointer.infos, manifest.last_compacted, files)]


def _keys(objects: Iterable[ObjectInfo]) -> tuple[str, ...]:
    return tuple(info.key for info in objects)
