"""Facts of a keyed table for a report: collected once, from one view, the checkpoints and one listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firn.bucket.base import ObjectInfo
from firn.inspect.dump.keyed import shown_key
from firn.inspect.report.facts import Weights, weights
from firn.journal.manifest.model import SnapshotRef, View
from firn.keyed.read.runs import Run, runs_of
from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class RunFacts:
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

    table: KeyedTable
    view: View
    runs: Sequence[RunFacts]
    checkpoints: Sequence[SnapshotRef]
    stored: Weights

    @property
    def url(self) -> str:
        return self.table.bucket.uri(self.table.prefix)

    @property
    def flushes(self) -> int:
        return len(self.view.l0)

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.runs)

    @property
    def files(self) -> int:
        return sum(run.files for run in self.runs)

    @property
    def entries(self) -> int | None:
        """The sum of all runs; None while there are flushes, which the manifest says nothing of."""
        known = [run.entries for run in self.runs]
        return None if None in known else sum(n for n in known if n is not None)

    @property
    def sorted_runs(self) -> int:
        """Those that a get may have to ask."""
        return self.flushes + sum(1 for run in self.runs if run.entries is not None)


def keyed_facts(table: KeyedTable) -> KeyedFacts:
    """Collect a keyed table's facts. Cost: that of opening a reader, 2 LIST sequences, and 1 GET a checkpoint."""
    view = table.journal.read()
    table = table.as_in(view)
    live = {f.key for f in view.l0} | {table.journal.layout.sst_key(s.file) for s in view.manifest.ssts}
    checkpoints = tuple(table.journal.snapshots())
    return KeyedFacts(table, view, _runs(view), checkpoints, _stored(table, live))


def _runs(view: View) -> list[RunFacts]:
    """A view's runs, the newest first."""
    found = []
    if view.l0:
        found.append(RunFacts("flushes", len(view.l0), None, None, sum(f.bytes for f in view.l0)))
    return [*found, *map(_run, runs_of(view.manifest.ssts))]


def _run(ssts: Run) -> RunFacts:
    return RunFacts(
        f"level {ssts[0].level}, run {ssts[0].run}",
        len(ssts),
        sum(s.rows for s in ssts),
        sum(s.tombstones for s in ssts),
        sum(s.bytes for s in ssts),
        shown_key(ssts[0].min_key),
        shown_key(max(s.max_key for s in ssts)),
    )


def _stored(table: KeyedTable, live: set[str]) -> Weights:
    """1 LIST sequence."""
    layout = table.journal.layout
    kinds = ("live files", "compacted files, fences", "manifests, checkpoints", "definition")
    found: dict[str, list[ObjectInfo]] = {kind: [] for kind in kinds}
    for info in table.bucket.list(f"{table.prefix}/").objects:
        if info.key in live:
            kind = "live files"
        elif info.key.startswith((layout.l0_prefix, layout.ssts_prefix)):
            kind = "compacted files, fences"
        elif info.key.startswith((layout.manifests_prefix, layout.snapshots_prefix, layout.pointer_key)):
            kind = "manifests, checkpoints"
        else:
            kind = "definition"
        found[kind].append(info)
    return weights(found)
