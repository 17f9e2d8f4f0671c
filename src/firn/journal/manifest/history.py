"""The history of compactions: the manifests that are still in the bucket, as commits.

A manifest that no later one stands on leaves no trace of whether the pointer ever named it. So this tells of each
what is known: that it is current, that the current one stands on it, that a snapshot keeps it, or none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from firn.journal.alterations import told
from firn.journal.entries import Entries
from firn.journal.manifest.codec import ManifestFile, decode_manifest
from firn.journal.manifest.layout import NO_MANIFEST, order_of
from firn.journal.manifest.model import SSTInfo
from firn.journal.manifest.store import ManifestStore

State = Literal["current", "chain", "kept", "replaced", "open"]


@dataclass(frozen=True, slots=True)
class ManifestCommit:
    """One manifest, as a step from the one before it.

    `state`: "current"; "chain", the current one stands on it; "kept", a snapshot names it; "replaced", a later one
    has taken its place, or it never was current; "open", it is newer than the current one: its compactor is about to
    commit it, or died before. `version` is what `changes` takes. `time_ms` is by the store's clock. `flushes` are
    those that it took in, up to the number `last_compacted`; `adds` and `deletes` the SSTs that came and went.
    `altered` says what an `alter` changed, a line each; of other commits, and where the one before is gone, nothing.
    """

    version: str
    manifest: str
    state: State
    time_ms: int
    compactor_epoch: int
    full: bool
    last_compacted: int
    flushes: int
    adds: tuple[SSTInfo, ...]
    deletes: tuple[str, ...]
    ssts: int
    rows: int
    bytes: int
    altered: tuple[str, ...] = ()


def history(store: ManifestStore, limit: int | None = None) -> list[ManifestCommit]:
    """See `ManifestJournal.history`."""
    pointer, layout = store.pointer(), store.layout
    listed = [
        (number, info)
        for info in store.bucket.list(layout.manifests_prefix).objects
        if (number := layout.parse_manifest(info.key)) is not None
    ]
    kept = {
        parsed[0]
        for info in store.bucket.list(layout.snapshots_prefix).objects
        if (parsed := layout.parse_snapshot(info.key)) is not None
    }
    listed.sort(key=lambda pair: pair[0])
    blobs = store.fetch_present([info.key for _, info in listed])
    files: dict[str, ManifestFile] = {}
    times: dict[str, int] = {}
    for (_, info), blob in zip(listed, blobs, strict=True):
        if blob is not None:  # else a collector has come in between
            name = info.key[len(layout.manifests_prefix) :]
            files[name] = decode_manifest(name, blob.data, where=store.bucket.uri(info.key))
            times[name] = info.modified_ms
    current = pointer.manifest
    if current not in files:
        store.current()  # raises where it is lost, and not only replaced and collected in between
    chain = files[current].chain if current in files else ()
    found, before = [], _Before({}, -1, None)
    for name, file in files.items():
        state: State
        if name == current:
            state = "current"
        elif name in chain:
            state = "chain"
        elif order_of(name) > order_of(current):
            state = "open"
        else:
            state = "kept" if name in kept else "replaced"
        commit, after = _step(file, files, before, state, times[name])
        found.append(commit)
        before = after
    found.reverse()
    return found if limit is None else found[:limit]


@dataclass(frozen=True)
class _Before:
    """The state that a step begins from."""

    ssts: Mapping[str, SSTInfo]
    last_compacted: int
    definition: Entries | None


def _step(
    file: ManifestFile, files: Mapping[str, ManifestFile], before: _Before, state: State, time_ms: int
) -> tuple[ManifestCommit, _Before]:
    """Changes of an Incremental one are its own; a Full one's are told by the manifest before it in the list."""
    if file.base is not None and file.base in files:
        base = files[file.base]
        before = _Before(_ssts_of(base, files), base.last_compacted, base.definition)
    elif before.definition is None and len(file.replaced) > 1 and file.replaced[-2].manifest == NO_MANIFEST:
        before = replace(before, definition=Entries())  # it is the table's first
    ssts = _ssts_of(file, files)
    if file.base is None:
        adds = tuple(sst for key, sst in ssts.items() if before.ssts.get(key) != sst)
        deletes = tuple(key for key, sst in before.ssts.items() if ssts.get(key) != sst)
    else:
        adds, deletes = file.adds, file.deletes
    commit = ManifestCommit(
        version=f"{file.name}@{file.last_compacted}",
        manifest=file.name,
        state=state,
        time_ms=time_ms,
        compactor_epoch=file.compactor_epoch,
        full=file.base is None,
        last_compacted=file.last_compacted,
        flushes=max(0, file.last_compacted - before.last_compacted),
        adds=adds,
        deletes=deletes,
        ssts=len(ssts),
        rows=sum(sst.rows for sst in ssts.values()),
        bytes=sum(sst.bytes for sst in ssts.values()),
        altered=() if before.definition is None else told(before.definition, file.definition),
    )
    return commit, _Before(ssts, file.last_compacted, file.definition)


def _ssts_of(file: ManifestFile, files: Mapping[str, ManifestFile]) -> dict[str, SSTInfo]:
    """The SSTs that a manifest names, as far as its chain is there."""
    found: dict[str, SSTInfo] = {}
    for name in file.chain:
        link = files.get(name)
        if link is not None:
            for gone in link.deletes:
                found.pop(gone, None)
            found.update((sst.file, sst) for sst in link.adds)
    return found
