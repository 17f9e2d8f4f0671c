"""The objects of the manifest journal, decoded: the pointer, manifests, L0 objects, and views made of them.

Everything is immutable and picklable. `View` is what the rest of a keyed table works with: one moment of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firn.journal.entries import Entries
from firn.journal.manifest.layout import NO_MANIFEST


@dataclass(frozen=True, slots=True)
class SSTInfo:
    """An SST as a manifest names it. `file` is relative to the table; one that begins with `/` is a key of the whole
    bucket (a clone's parent's, which the clone never deletes) and identifies the SST within a manifest.

    `run` orders the runs of a level, the newest has the greatest. `min_key` and `max_key` are the first and
    the last key, both in it; `bytes` is the object's size, `rows` counts entries and `tombstones` the deletes
    among them. `min_expire`: Unix ms at which the first entry expires, None if none does. `max_loaded`: the
    greatest seq of an entry that a bulk load put there, -1 if none was. `clock`: that of the definition by which
    it was written, so that it has the columns of then; 0 where that isn't known, or the table was never altered.
    """

    level: int
    run: int
    number: int
    file: str
    min_key: bytes
    max_key: bytes
    rows: int
    bytes: int
    max_seq: int
    tombstones: int = 0
    min_expire: int | None = None
    max_loaded: int = -1
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """The SSTs that the commit of `manifest` took out of a table. `last_compacted` is that of the manifest before.
    The entry of a Full manifest covers all commits since the Full one before; only it has a `time_ms`, by its
    compactor's clock.
    """

    manifest: str
    last_compacted: int
    ssts: tuple[str, ...]
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state that compaction has settled: SSTs, and the L0 number up to which flushes are in them.

    `last_compacted` is -1 where none is; `last_compacted_epoch` is that of the flush's writer. `next_sst`:
    SSTs of the same epoch with lower numbers are either named or garbage. `chain` are the names of the objects
    it was read from, a Full one first, `name` last; empty for the empty manifest that a table begins with.
    `definition` is how the table was altered since its creation.
    `replaced` is what the commits of late took out, oldest first, its own last; of the first one nothing is known.
    `ssts` are in the order of runs: level ascending, run descending, then key.
    """

    name: str = NO_MANIFEST
    ssts: tuple[SSTInfo, ...] = ()
    last_compacted: int = -1
    next_sst: int = 0
    compactor_epoch: int = 0
    chain: tuple[str, ...] = ()
    last_compacted_epoch: int | None = None
    definition: Entries = field(default_factory=Entries)
    replaced: tuple[Replacement, ...] = (Replacement(NO_MANIFEST, -1, (), 0),)


@dataclass(frozen=True, slots=True)
class EpochInfo:
    """A writer's place in history: L0 numbers from `starting_sst` on are its own, until the next writer's begin.
    `claim` is random: by it a writer knows its own entry."""

    writer_epoch: int
    starting_sst: int
    claim: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """The one object that is compare-and-swapped.

    `infos`: the writers, the last one is the newest. `table_id` is random, made with the table, so a table that was
    dropped and created again is another. `first_epoch` is the epoch of its first writer and its first compactor.
    `revision` rises with each change and `nonce` is new with each, so no two versions are ever equal.
    `last_compacted_ms`: the clock of the compactor that last committed. `etag` and `modified_ms` (the store's
    clock; None where the store doesn't tell) aren't in the object: they are what the store says of it.
    """

    manifest: str
    compactor_epoch: int
    infos: tuple[EpochInfo, ...]
    table_id: str
    first_epoch: int
    revision: int
    nonce: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    last_compacted_ms: int | None = None
    etag: str = field(default="", compare=False)
    modified_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class L0File:
    """A flush: `key` is the object's whole key, `bytes` its size."""

    epoch: int
    number: int
    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class View:
    """One moment of a table: nothing in it changes any more. `l0` is newest first, numbers without a gap down to
    `manifest.last_compacted + 1`; walked flushes are final."""

    pointer: Pointer
    manifest: Manifest
    l0: tuple[L0File, ...]

    @property
    def last_l0(self) -> int:
        """The number of the newest flush in the view, compacted or not; -1 if there is none."""
        return self.l0[0].number if self.l0 else self.manifest.last_compacted

    @property
    def version(self) -> str:
        """`<manifest's name>@<last L0 number>`: equal versions of a table hold the same entries."""
        return f"{self.manifest.name}@{self.last_l0}"


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A durable snapshot, as it was when it was read.

    `id` is random and in the object's name, `name` the user's (not unique by itself). `expires_ms` (Unix ms) is None
    for one that stays until it is deleted. `version` is that of the view it keeps.
    """

    id: str
    key: str
    name: str | None
    manifest: str
    version: str
    created_ms: int
    expires_ms: int | None
    etag: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CollectReport:
    """The result of a collection: the keys that it deleted, or would delete, by kind; `bytes` counts all of them.
    The `live_` figures count the objects that pointer and snapshots name. `dangling` are snapshots with missing
    objects, which nobody can read whole."""

    l0: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    ssts: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    bytes: int = 0
    live_l0: int = 0
    live_ssts: int = 0
    live_manifests: int = 0
    live_snapshots: int = 0
    dangling: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def deleted(self) -> tuple[str, ...]:
        """All keys, in the order of the kinds above."""
        return (*self.l0, *self.fences, *self.ssts, *self.manifests, *self.snapshots)
