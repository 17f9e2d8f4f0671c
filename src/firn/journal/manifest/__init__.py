"""The manifest journal: one pointer object that is compare-and-swapped, after the paper on SlateDB's manifest.

`layout` names objects, `model` and `codec` hold them, `pointer_store` (and `dynamo`) swap the pointer; `walk` is what
counts among L0 objects, `views` makes views of it. `writer`, `compactor`, `snapshots` and `collection` are the
protocol's clients, each by its numbered rules. The format page is docs/format/keyed-manifest.md. Start reading
at `journal`.
"""

from firn.journal.manifest.compactor import CompactorSession
from firn.journal.manifest.journal import ManifestJournal
from firn.journal.manifest.model import (
    CollectReport,
    EpochInfo,
    L0File,
    Manifest,
    Pointer,
    SnapshotRef,
    SSTInfo,
    View,
)
from firn.journal.manifest.pointer_store import BucketPointerStore, PointerStore
from firn.journal.manifest.writer import WriterSession

__all__ = [
    "BucketPointerStore",
    "CollectReport",
    "CompactorSession",
    "EpochInfo",
    "L0File",
    "Manifest",
    "ManifestJournal",
    "Pointer",
    "PointerStore",
    "SSTInfo",
    "SnapshotRef",
    "View",
    "WriterSession",
]
