"""A plan of the transactions to write: the changes of lost revisions, as far as there is evidence. Pure.

Sound transactions stay as they are, and the transactions written between them must let them follow. The plan walks
up with the set of live files, and puts changes that a sound transaction or a checkpoint needs into the nearest lost
revision below. An unproven transaction adds its files and removes none, to keep data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from firn.errors import CorruptObjectError
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import (
    Action,
    Add,
    CatalogTransaction,
    Define,
    Drop,
    Remove,
    Resolve,
    Tombstones,
    Upgrade,
)
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.state import FIRST_FORMAT, ROWS_FORMAT, CatalogState, clock_at
from firn.journal.writer.rebuild.lineage import Lineage
from firn.journal.writer.rebuild.surviving_objects import Candidate, Footers, FoundFile, Objects

MOST_HOLES = 100
"""Revisions of which nothing tells are written as empty ones up to so many; with more, history begins above them."""

OP_REBUILD = "rebuild"
OP_LOST = "lost"


@dataclass
class PlannedRevision:
    """One revision of the plan. `transaction` is a sound one; else `actions` are what it will do."""

    revision: int
    candidate: Candidate | None
    transaction: CatalogTransaction | None = None
    actions: list[Action] = field(default_factory=list)
    batches: list[tuple[str, str]] = field(default_factory=list)
    op: str = OP_LOST
    time_ms: int | None = None

    @property
    def does(self) -> list[Action]:
        return self.actions if self.transaction is None else list(self.transaction.actions)

    @property
    def does_batches(self) -> Sequence[tuple[str, str]]:
        return self.batches if self.transaction is None else self.transaction.commit.batches


@dataclass
class RebuildFindings:
    """Findings of a rebuild that a person has to know, under their names in `RebuildReport`."""

    unproven: set[str] = field(default_factory=set)
    orphans: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Base:
    """Where the history begins: the empty start, a sound checkpoint, or one that has to be written."""

    revision: int
    state: CatalogState | None
    is_new: bool = False


def choose_base(objects: Objects, lineage: Lineage, top: int) -> Base:
    """As far down as it can be brought back without many revisions of which nothing tells.

    Nothing below the oldest object is brought back unless all of it can be: it was pruned.
    """
    sound = on_chain(objects, lineage)
    telling = {r for r, c in lineage.chosen.items() if c.tells and not _is_filler(c)} | sound.keys()
    oldest = min((*objects.names.transactions, *objects.names.checkpoints), default=1)
    ascending = sorted(telling)

    def holes(base: int) -> int:
        return top - base - (len(ascending) - bisect_right(ascending, base))

    if holes(0) <= (MOST_HOLES if oldest == 1 else 0):
        return Base(0, None)
    for revision in sorted(sound):
        if revision >= oldest and holes(revision) <= MOST_HOLES:
            return Base(revision, sound[revision])
    lowest = next((r for r in ascending if holes(r) <= MOST_HOLES), top)
    return Base(lowest, None, is_new=True)


def on_chain(objects: Objects, lineage: Lineage) -> dict[int, CatalogState]:
    """The sound checkpoints of chosen transactions, by revision."""
    return {
        revision: state
        for (revision, _), state in objects.checkpoints.items()
        if revision in lineage.chosen and lineage.chosen[revision].uuid == state.head.uuid
    }


def _marked(lineage: Lineage) -> dict[int, CatalogState]:
    """The states that earlier rebuilds left, by revision: as true as a checkpoint."""
    markers = ((revision, one.marker) for revision, one in lineage.chosen.items())
    return {revision: m.state for revision, m in markers if m is not None and m.state is not None}


def _is_filler(candidate: Candidate) -> bool:
    return (
        candidate.is_rebuilt
        and not any(c for c in (candidate.marker, candidate.files))
        and (candidate.transaction is not None and candidate.transaction.commit.op == OP_LOST)
    )


class Recovery:
    """Walks a lineage up from its base and fills in what is lost."""

    def __init__(
        self,
        layout: WriterLayout,
        objects: Objects,
        footers: Footers,
        lineage: Lineage,
        base: Base,
        top: int,
        definitions: Mapping[str, bytes],
    ) -> None:
        self.layout, self.objects, self.lineage = layout, objects, lineage
        self.base, self.top = base, top
        self.findings = RebuildFindings()
        self.files = {found.file.path: found for found in footers.files}
        self.checkpoints = {**_marked(lineage), **on_chain(objects, lineage)}
        self.specs: dict[str, bytes] = dict(definitions)
        self.live: dict[str, str] = {}
        self.added: dict[str, int] = {}
        self.tables: set[str] = set()
        self.format = FIRST_FORMAT
        self.steps: list[PlannedRevision] = []
        self._gap: PlannedRevision | None = None
        self._learn()

    # -- what is known beforehand

    def _learn(self) -> None:
        """Which revision each described file belongs to, and what checkpoints tell of lost revisions."""
        self.home: dict[str, int] = {}
        self.described: dict[str, Add] = {}
        for revision, one in sorted(self.lineage.chosen.items()):
            said = one.transaction or (None if one.marker is None else one.marker.transaction)
            own = one.marker.own if one.transaction is None and one.marker is not None else frozenset()
            for action in () if said is None else said.actions:
                if isinstance(action, Add):
                    self.home[action.file.path] = revision
                    if action.file.path not in own:
                        self.described[action.file.path] = action
                elif isinstance(action, Define):
                    self.specs.setdefault(action.table, action.spec)
        self.kept_adds: dict[int, list[Add]] = defaultdict(list)
        self.kept_deletes: dict[int, dict[tuple[str, str], list[str]]] = defaultdict(dict)
        self.kept_batches: dict[int, list[tuple[str, str]]] = defaultdict(list)
        self.kept_times: dict[int, int] = {}
        for _, state in sorted(self.checkpoints.items()):
            self.kept_times[state.head.revision] = state.head.time_ms
            for name, table in state.tables.items():
                self.specs.setdefault(name, table.spec)
                for path, live in table.files.items():
                    add = Add(name, live.file, live.columns)
                    if path not in self.described:
                        self.kept_adds[live.revision].append(add)
                    self.described[path] = add
                    self.home[path] = live.revision
                    for delete in live.deletes:
                        paths = self.kept_deletes[delete.revision].setdefault((name, delete.predicate), [])
                        if path not in paths:
                            paths.append(path)
                for batch, (revision, time_ms) in table.batches.items():
                    self.kept_times[revision] = time_ms
                    if (name, batch) not in self.kept_batches[revision]:
                        self.kept_batches[revision].append((name, batch))

    # -- walking up

    def run(self) -> None:
        """Fill `steps`, ascending: all revisions from the base on, and below a new base those that tell."""
        if self.base.state is not None:
            self.format = self.base.state.format
            for name, table in self.base.state.tables.items():
                self.tables.add(name)
                self.live.update(dict.fromkeys(table.files, name))
                self.added.update(dict.fromkeys(table.files, self.base.revision))
        for revision in self._revisions():
            self._step(revision)
            if revision in self.checkpoints:
                self._reconcile(revision, self.checkpoints[revision])
        for other in self.lineage.others:
            self.findings.orphans.update(f.file.path for f in other.files if f.file.path not in self.home)
            if other.marker is not None:
                self.findings.orphans.add(self.layout.marker_key(other.revision, other.uuid))
        self.findings.missing.update(
            path for path in self.live if self.layout.owns(path) and path not in self.objects.data
        )

    def _revisions(self) -> Iterator[int]:
        if self.base.is_new:
            yield from sorted(r for r in self.lineage.chosen if r < self.base.revision)
            yield self.base.revision
        yield from range(self.base.revision + 1, self.top + 1)

    def _step(self, revision: int) -> None:
        one = self.lineage.chosen.get(revision)
        if one is not None and one.transaction is not None:
            step = PlannedRevision(revision, one, one.transaction, time_ms=one.transaction.commit.time_ms)
            self._require_format(_format_before(one.transaction), revision)
            for action in one.transaction.actions:
                self._require(action, revision)
                self._simulate(action, revision)
        else:
            step = PlannedRevision(revision, one)
            self._gap = step
            self._fill(step)
            if self.format < ROWS_FORMAT and any(map(_is_rows, step.actions)):
                self._upgrade(step, ROWS_FORMAT)
        self.steps.append(step)

    def _simulate(self, action: Action, revision: int) -> None:
        if isinstance(action, Add):
            self.live[action.file.path] = action.table
            self.added[action.file.path] = revision
        elif isinstance(action, Remove):
            self.live.pop(action.path, None)
            self.findings.missing.discard(action.path)
        elif isinstance(action, Upgrade):
            self.format = max(self.format, action.format)
        elif isinstance(action, Define):
            self.tables.add(action.table)
        elif isinstance(action, Drop):
            self.tables.discard(action.table)
            self.live = {path: table for path, table in self.live.items() if table != action.table}

    # -- what sound transactions and checkpoints need

    def _require(self, action: Action, revision: int) -> None:
        if isinstance(action, Remove):
            self._require_file(action.path, None, revision)
        elif isinstance(action, Tombstones):
            self._require_table(action.table, revision)
            for path in action.files:
                self._require_file(path, action.table, revision)
        elif isinstance(action, Add | Drop):
            self._require_table(action.table, revision)

    def _require_format(self, version: int, revision: int) -> None:
        if version > self.format and self._gap is not None:
            self._upgrade(self._gap, version)

    def _upgrade(self, step: PlannedRevision, version: int) -> None:
        """Before all else but the upgrades that it begins with."""
        at = next((n for n, a in enumerate(step.actions) if not isinstance(a, Upgrade)), len(step.actions))
        step.actions.insert(at, Upgrade(version))
        self.format = version

    def _require_table(self, table: str, revision: int) -> None:
        if table not in self.tables:
            self._insert(Define(table, self._spec(table)), revision)

    def _require_file(self, path: str, table: str | None, revision: int) -> None:
        if path in self.live:
            return
        add = self.described.get(path)
        if add is None and (found := self.files.get(path)) is not None:
            add = Add(found.record.table, found.file, found.record.columns)
        if add is None:
            name = self.layout.table_of(path)
            guess = table or name or next(iter(sorted(self.tables)), "unknown")
            add = Add(guess, DataFile(path, 0, 0))
            self.findings.missing.add(path)
        self._require_table(add.table, revision)
        self._insert(add, revision)

    def _insert(self, action: Action, needed_at: int) -> None:
        """Into the nearest lost revision below."""
        if self._gap is None:
            raise CorruptObjectError(
                f"revision {needed_at} of the writer {self.layout.writer!r} can't follow what is before it, "
                f"and no revision between is lost: it needs {action}. Look at it with `firn dump OBJECT`; delete its "
                "object to have it rebuilt from its data files, and rebuild again."
            )
        if _is_rows(action):
            self._require_format(ROWS_FORMAT, needed_at)
        self._gap.actions.append(action)
        self._simulate(action, self._gap.revision)

    def _reconcile(self, revision: int, state: CatalogState) -> None:
        """A checkpoint is the truth: files that it no longer holds were removed in a lost revision."""
        if self._gap is None:
            return
        self._require_format(state.format, revision)
        for name in state.tables:
            if name not in self.tables:
                self._insert(Define(name, self._spec(name)), revision)
        there = {path for table in state.tables.values() for path in table.files}
        for path in [p for p in self.live if p not in there]:
            if self.added.get(path, revision) <= self._gap.revision:
                self._insert(Remove(path), revision)
        for name in [t for t in self.tables if t not in state.tables]:
            if name not in self.live.values():
                self._insert(Drop(name), revision)
        self._gap = None

    def _spec(self, table: str) -> bytes:
        if table not in self.specs:
            self.findings.undefined.add(table)
        return self.specs.get(table, b"")

    # -- what a lost revision did

    def _fill(self, step: PlannedRevision) -> None:
        one, revision = step.candidate, step.revision
        proven = one is not None and (one.proven or one.exists)
        if revision == 1:
            step.actions.append(Upgrade(FIRST_FORMAT))
        if one is not None and one.marker is not None:
            self._fill_by_marker(step, one, proven=proven)
        elif one is not None and one.files:
            self._fill_by_files(step, one, proven=proven)
        for add in self.kept_adds.get(revision, ()):
            if add.file.path not in self.live:
                self._add(step, add)
        done = {(a.table, a.predicate) for a in step.actions if isinstance(a, Tombstones)}
        for (table, predicate), paths in self.kept_deletes.get(revision, {}).items():
            files = tuple(path for path in paths if path in self.live)
            if (table, predicate) not in done and files:
                self._do(step, Tombstones(table, predicate, files))
        for batch in self.kept_batches.get(revision, ()):
            if batch not in step.batches:
                step.batches.append(batch)
        step.batches = [batch for batch in step.batches if batch[0] in self.tables]
        step.time_ms = self.kept_times.get(revision, step.time_ms)

    def _fill_by_marker(self, step: PlannedRevision, one: Candidate, *, proven: bool) -> None:
        assert one.marker is not None
        commit = one.marker.transaction.commit
        step.op, step.time_ms, step.batches = commit.op, commit.time_ms, list(commit.batches)
        withheld = False
        for action in one.marker.transaction.actions:
            if isinstance(action, Upgrade):
                if action.format > self.format:
                    self._upgrade(step, action.format)
                continue
            if isinstance(action, Add):
                self._add_described(step, action, own=action.file.path in one.marker.own, proven=proven)
            elif isinstance(action, Define):
                self._do(step, action)
            elif not proven:
                withheld = True
            elif isinstance(action, Remove):
                self._remove(step, action.path)
            elif isinstance(action, Tombstones):
                files = tuple(path for path in action.files if self.live.get(path) == action.table)
                if files:
                    self._do(step, replace(action, files=files))
            elif not isinstance(action, Drop) or action.table in self.tables:
                self._do(step, action)
        if withheld:
            self.findings.unproven.add(self.layout.marker_key(one.revision, one.uuid))
        told = {a.file.path for a in one.marker.transaction.actions if isinstance(a, Add)}
        self.findings.orphans.update(
            f.file.path for f in one.files if f.file.path not in told and f.file.path not in self.home
        )

    def _add_described(self, step: PlannedRevision, action: Add, *, own: bool, proven: bool) -> None:
        """An `Add` of a marker: own files describe themselves."""
        path = action.file.path
        if self.home.get(path, step.revision) != step.revision or path in self.live:
            return
        if own and path not in self.described:
            found = self.files.get(path)
            if found is None:
                self.findings.missing.add(path)
                return
            sources = found.record.replaces
            if not proven and sources and all(source in self.live for source in sources):
                self.findings.unproven.add(path)  # as in `_fill_by_files`: its rows are there
                return
            extra = {**(found.file.extra or {}), **(action.file.extra or {})}
            action = Add(action.table, found.file._replace(extra=extra), found.record.columns)
        elif own:
            action = self.described[path]
        elif self.layout.owns(path) and path not in self.objects.data:
            self.findings.missing.add(path)
            return
        if proven or not self._is_stale(step, path):
            self._add(step, action)
            if not proven:
                self.findings.unproven.add(path)

    def _fill_by_files(self, step: PlannedRevision, one: Candidate, *, proven: bool) -> None:
        replaced: dict[str, None] = {}
        added: set[str] = set()
        in_vain = set() if proven else self._in_vain(one.files)
        for found in sorted(one.files, key=lambda f: (f.number, f.file.path)):
            path = found.file.path
            if self.home.get(path, step.revision) != step.revision or path in self.live:
                continue
            if not proven and self._is_stale(step, path):
                continue
            sources = found.record.replaces
            if path in in_vain:
                self.findings.unproven.add(path)
                continue
            file = found.file
            if found.clocked:
                clock = f"{clock_at(step.revision, self.layout.writer)}#{len(added):06d}"
                file = file._replace(extra={**(file.extra or {}), "clock": clock})
            if self._add(
                step, self.described.get(path) or Add(found.record.table, file, found.record.columns)
            ):
                added.add(path)
                replaced.update(dict.fromkeys(sources))
                if not proven:
                    self.findings.unproven.add(path)
        for path in replaced:
            self._remove(step, path)
        step.op = "rewrite" if replaced else "append"
        times = [f.file.created_ms for f in one.files if f.file.path in added]
        step.time_ms = max(times, default=None)

    def _in_vain(self, files: Sequence[FoundFile]) -> set[str]:
        """The files that hold no row that isn't in those whose place they were to take. Rows of one append may be in
        several files of a fold, which count together: where one is needed, what it replaces goes from all."""
        replaced = [set(found.record.replaces) for found in files]
        gone = {path for sources in replaced for path in sources if path not in self.live}
        while True:
            shared = [sources for sources in replaced if not sources.isdisjoint(gone) and not sources <= gone]
            if not shared:
                break
            gone.update(*shared)
        return {
            found.file.path
            for found, sources in zip(files, replaced, strict=True)
            if sources and sources.isdisjoint(gone)
        }

    def _is_stale(self, step: PlannedRevision, path: str) -> bool:
        """An unproven file that the next checkpoint doesn't hold: removed since, or never committed."""
        above = min((r for r in self.checkpoints if r >= step.revision), default=None)
        if above is None or any(path in t.files for t in self.checkpoints[above].tables.values()):
            return False
        self.findings.orphans.add(path)
        return True

    def _add(self, step: PlannedRevision, action: Add) -> bool:
        if action.table not in self.tables:
            if action.table not in self.specs:
                self.findings.undefined.add(action.table)
                self.findings.orphans.add(action.file.path)
                return False
            self._do(step, Define(action.table, self.specs[action.table]))
        self._do(step, action)
        self.findings.files.add(action.file.path)
        return True

    def _remove(self, step: PlannedRevision, path: str) -> None:
        if path in self.live:
            self._do(step, Remove(path))
        else:
            self.findings.missing.discard(path)

    def _do(self, step: PlannedRevision, action: Action) -> None:
        if isinstance(action, Resolve) and not 1 <= action.revision < step.revision:
            return
        step.actions.append(action)
        self._simulate(action, step.revision)


# -- from steps to transactions


def _is_rows(action: Action) -> bool:
    """Whether it adds rows that stand in the catalog."""
    return isinstance(action, Add) and action.file.inlined is not None


def _format_before(transaction: CatalogTransaction) -> int:
    """The format that a catalog has to have for a sound transaction to follow it."""
    upgrades = any(isinstance(action, Upgrade) for action in transaction.actions)
    return FIRST_FORMAT if upgrades else transaction.format


def dated(steps: list[PlannedRevision]) -> None:
    """Give every step a time, so that times never fall: a lost one isn't later than the next that is known."""
    latest: int | None = None
    for step in reversed(steps):
        if step.transaction is not None and step.time_ms is not None:
            latest = step.time_ms if latest is None else min(latest, step.time_ms)
        elif step.time_ms is not None and latest is not None:
            step.time_ms = min(step.time_ms, latest)
    before = 0
    for step in steps:
        if step.time_ms is None or step.transaction is None:
            step.time_ms = max(before, step.time_ms or 0)
        before = max(before, step.time_ms)
