"""What a report says of a keyed table: collected once, from one view, the checkpoints and one listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn.inspect.dump.keyed import shown_key
from firn.journal.manifest.model import EpochInfo, SnapshotRef

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class Run:
    """One sorted run: the flushes that no compaction has taken up are one each, and are shown as one row."""

    title: str
    files: int
    entries: int | None
    deletes: int | None
    bytes: int
    first: str = ""
    last: str = ""


@dataclass(frozen=True)
class KeyedFacts:
    """All that a report shows of one keyed table. `stored`: objects by what they are, as (count, bytes)."""

    name: str
    url: str
    version: str
    runs: tuple[Run, ...]
    flushes: int
    writers: tuple[EpochInfo, ...]
    compactor_epoch: int
    last_compacted_ms: int | None
    checkpoints: tuple[SnapshotRef, ...]
    key: Mapping[str, str]
    columns: Mapping[str, str]
    merge: str | Mapping[str, str] | None
    ttl_ms: int | None
    properties: Mapping[str, Any]
    stored: Mapping[str, tuple[int, int]]

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.runs)

    @property
    def files(self) -> int:
        return sum(run.files for run in self.runs)

    @property
    def entries(self) -> int | None:
        """Of all runs; None while there are flushes, which the manifest says nothing of."""
        known = [run.entries for run in self.runs]
        return None if None in known else sum(n for n in known if n is not None)

    @property
    def sorted_runs(self) -> int:
        """Those that a get may have to ask."""
        return self.flushes + sum(1 for run in self.runs if run.entries is not None)


def keyed_facts(table: KeyedTable) -> KeyedFacts:
    """Collect a keyed table's facts. What opening a reader costs, 2 LIST sequences, and 1 GET a checkpoint."""
    view = table.journal.read()
    d = table.definition
    live = {f.key for f in view.l0} | {table.journal.layout.sst_key(s.file) for s in view.manifest.ssts}
    return KeyedFacts(
        name=table.name,
        url=table.bucket.uri(table.prefix),
        version=view.version,
        runs=tuple(runs_of(view)),
        flushes=len(view.l0),
        writers=view.pointer.infos,
        compactor_epoch=view.pointer.compactor_epoch,
        last_compacted_ms=view.pointer.last_compacted_ms,
        checkpoints=tuple(table.journal.snapshots()),
        key=dict(d.key or {"key": "BLOB"}),
        columns=dict(d.columns or {"value": "BLOB"}),
        merge=d.merge,
        ttl_ms=d.ttl_ms,
        properties=dict(d.properties),
        stored=_stored(table, live),
    )


def runs_of(view: Any) -> list[Run]:
    """A view's runs, the newest first."""
    found = []
    if view.l0:
        found.append(Run("flushes", len(view.l0), None, None, sum(f.bytes for f in view.l0)))
    groups: dict[tuple[int, int], list[Any]] = {}
    for sst in view.manifest.ssts:
        groups.setdefault((sst.level, sst.run), []).append(sst)
    for (level, run), ssts in groups.items():
        found.append(
            Run(
                f"level {level}, run {run}",
                len(ssts),
                sum(s.rows for s in ssts),
                sum(s.tombstones for s in ssts),
                sum(s.bytes for s in ssts),
                shown_key(min(s.min_key for s in ssts)),
                shown_key(max(s.max_key for s in ssts)),
            )
        )
    return found


def _stored(table: KeyedTable, live: set[str]) -> dict[str, tuple[int, int]]:
    """1 LIST sequence."""
    layout = table.journal.layout
    counts = {
        "live files": (0, 0),
        "compacted files, fences": (0, 0),
        "manifests, checkpoints": (0, 0),
        "definition": (0, 0),
    }
    for info in table.bucket.list(f"{table.prefix}/").objects:
        if info.key in live:
            kind = "live files"
        elif info.key.startswith((layout.l0_prefix, layout.ssts_prefix)):
            kind = "compacted files, fences"
        elif info.key.startswith((layout.manifests_prefix, layout.snapshots_prefix, layout.pointer_key)):
            kind = "manifests, checkpoints"
        else:
            kind = "definition"
        count, size = counts[kind]
        counts[kind] = (count + 1, size + info.size)
    return counts
