"""Rebuild: a catalog that is lost, in part or in whole, from what its objects, markers and data files tell.

Planned first, from everything that is left (`surviving_objects`, `lineage`, `recovery`); then written so that
nobody can open the catalog before it is whole: the lowest of the lost transactions comes last. After a crash the same
plan is made again, to the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError
from firn.journal.writer.commit.claims import check_claims_can_be
from firn.journal.writer.format.actions import Add, CatalogTransaction, CommitRecord, Upgrade
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import LARGEST_REVISION, MarkerName, ObjectName, WriterLayout
from firn.journal.writer.format.marker import encode_marker
from firn.journal.writer.format.messages import encode_checkpoint, encode_transaction
from firn.journal.writer.format.state import (
    FIRST_FORMAT,
    CatalogHead,
    CatalogState,
    Refused,
    assemble,
    replay,
)
from firn.journal.writer.history.forks import Node
from firn.journal.writer.history.objects import Reader
from firn.journal.writer.rebuild.lineage import Lineage, trace
from firn.journal.writer.rebuild.recovery import (
    OP_LOST,
    OP_REBUILD,
    Base,
    PlannedRevision,
    Recovery,
    choose_base,
    dated,
    on_chain,
)
from firn.journal.writer.rebuild.surviving_objects import REBUILT, Footers, Objects, candidates, is_rebuilt


@dataclass(frozen=True)
class RebuildReport:
    """The result of a rebuild: what it found and wrote, or would write.

    `damage` says what was wrong; empty, and nothing was written, where the catalog is whole. `revision` is the
    head afterwards, `first` the first revision that can be read as of. `salvaged` transactions were sound,
    `rebuilt` are the revisions that were written, and of those nothing told what the `empty` ones did.

    Everything else is names, to be looked at: `files` are the data files that came back; of the `unproven` nobody
    can tell whether they were committed (files came back all the same, removals that a marker tells of did not);
    `orphans` weren't, and were left out; `missing` are named, and gone; `unreadable` maps what couldn't be read to
    why; `undefined` are tables whose definition is lost; `unknown` are objects that no Firn writes. None of
    these objects is touched.
    """

    writer: str
    database: str
    damage: tuple[str, ...] = ()
    revision: int = 0
    first: int = 0
    salvaged: int = 0
    rebuilt: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    claims: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    unreadable: Mapping[str, str] | None = None
    unknown: tuple[str, ...] = ()
    footers_read: int = 0
    bytes_read: int = 0
    dry_run: bool = False

    @property
    def healthy(self) -> bool:
        """Whether there was nothing to do."""
        return not self.damage


@dataclass(frozen=True)
class Plan:
    """Objects to write, in order: claims, transactions, the marker of the last one, `closing`, and the states of
    checkpoints; the last one's is in the marker, too. `forked`: some revision has other uuids too, which didn't
    win."""

    claims: tuple[CatalogTransaction, ...]
    transactions: tuple[CatalogTransaction, ...]
    checkpoints: tuple[CatalogState, ...]
    report: RebuildReport
    closing: CatalogTransaction | None = None
    forked: bool = False


FORCED = "it was asked for"


@dataclass(frozen=True)
class Survey:
    """The surviving objects, whose history they were, and which of them are damaged. Free of requests, as all of
    planning."""

    bucket: Bucket
    layout: WriterLayout
    objects: Objects
    footers: Footers
    lineage: Lineage
    claimed: bool
    damage: tuple[str, ...]


def survey(
    bucket: Bucket, layout: WriterLayout, objects: Objects, footers: Footers, *, keep: Collection[str] = ()
) -> Survey:
    """`keep` are beginnings of uuids that count where nothing else decides between two."""
    found = candidates(objects, footers, lambda revision, prefix: _made_up(layout, revision, prefix))
    lineage = trace(found, where=bucket.uri(layout.root), keep=keep)
    claimed = _is_claimed(objects, footers)
    damage = find_damage(bucket, layout, objects, lineage, claimed=claimed)
    return Survey(bucket, layout, objects, footers, lineage, claimed, tuple(damage))


def plan_rebuild(
    found: Survey, *, now_ms: int, force: bool = False, definitions: Mapping[str, bytes] | None = None
) -> Plan:
    """The objects to write.

    Args:
        force: even where nothing says that something is lost; files that no transaction names come back.
        definitions: of tables whose definition is lost, as `Define` has them.

    Raises:
        ForkError: two transactions of one revision, and nothing tells which one counted.
        CorruptObjectError: sound transactions contradict one another.
    """
    layout, objects, footers, lineage = found.layout, found.objects, found.footers, found.lineage
    report = RebuildReport(
        layout.writer,
        layout.database,
        damage=found.damage or ((FORCED,) if force and lineage.chosen else ()),
        revision=objects.names.tip,
        salvaged=sum(1 for c in lineage.chosen.values() if c.transaction is not None and not c.is_rebuilt),
        unreadable={**objects.damaged, **footers.damaged},
        unknown=(*objects.unknown, *footers.foreign),
        footers_read=len(footers.files) + len(footers.markers) + len(footers.damaged) + len(footers.foreign),
        bytes_read=footers.bytes_read,
    )
    if report.healthy:
        _refuse_forks(lineage, min(objects.names.transactions, default=1), objects.names.tip)
        return _nothing_to_do(layout, objects, lineage, report)
    top = _highest_seen(layout, objects, lineage)
    if top >= LARGEST_REVISION:
        raise CorruptObjectError(
            f"{found.bucket.uri(layout.root)} has an object of revision {top}, and there is none above it. If no "
            "Firn wrote that object, delete it and rebuild again."
        )
    base = choose_base(objects, lineage, top)
    _refuse_forks(lineage, base.revision, top)
    recovery = Recovery(layout, objects, footers, lineage, base, top, definitions or {})
    recovery.run()
    dated(recovery.steps)
    return _Author(found, base, now_ms).plan(recovery, report)


def _refuse_forks(lineage: Lineage, first: int, last: int) -> None:
    for revision, error in sorted(lineage.undecided.items()):
        if first <= revision <= last:
            raise error


def _made_up(layout: WriterLayout, revision: int, prefix: str = "") -> str:
    """A uuid where it isn't known; always the same, for a rebuild that a crash cut short is planned again."""
    digest = hashlib.sha256(f"{layout.writer}/{layout.database}/{revision}".encode()).hexdigest()
    return (prefix + digest)[:32]


def _is_claimed(objects: Objects, footers: Footers) -> bool:
    """Whether the history is kept by claims; all that is left of it says so."""
    transactions = [*objects.transactions.values(), *(m.transaction for m in footers.markers)]
    said = [(t.revision, t.commit.claimed) for t in transactions]
    said += [(state.head.revision, state.head.claimed) for state in objects.checkpoints.values()]
    return max(said)[1] if said else bool(objects.claims)


def _highest_seen(layout: WriterLayout, objects: Objects, lineage: Lineage) -> int:
    """Names count too, whatever is in the objects: no revision is given out twice."""
    markers = (layout.parse_marker(info.key) for info in objects.markers)
    marked = max((name.revision for name in markers if isinstance(name, MarkerName)), default=0)
    others = max((c.revision for c in lineage.others), default=0)
    return max(lineage.top, objects.names.tip, max(objects.claims, default=0), marked, others)


def find_damage(
    bucket: Bucket, layout: WriterLayout, objects: Objects, lineage: Lineage, *, claimed: bool
) -> list[str]:
    """The losses of a catalog, in sentences; nothing if it is whole.

    Files and markers of the revision after the head say nothing: every commit writes them first.
    """
    names, chosen = objects.names, lineage.chosen
    oldest = min((*names.transactions, *names.checkpoints), default=None)
    if oldest is None:
        telling = any(c.tells for c in chosen.values())
        return ["there is no transaction left"] if telling else []
    # Claims without transaction count, too: the owner is gone, and the next committer would put the transaction.
    known = [r for r, c in chosen.items() if c.proven or c.exists]
    sound = on_chain(objects, lineage)
    found = []
    # Below a checkpoint that history begins at, nothing is missed.
    base = choose_base(objects, lineage, max((names.tip, *known)))
    before = max(oldest - 1, 0 if base.state is None else base.revision)
    if _begins_with_claims(base, oldest, objects, lineage, layout):
        before = 0
    found += [
        f"the transaction of revision {revision}, {prefix}, is damaged"
        for revision, prefix in _damaged_up_to(before, objects, lineage)
    ]
    for revision in sorted({*names.transactions, *names.checkpoints, *known}):
        if revision <= before:
            continue
        if revision > before + 1:
            found.append(f"nothing is left of revisions {before + 1} to {revision - 1}")
        one = chosen.get(revision)
        if one is None or (revision, prefix_of(one.uuid)) not in objects.transactions:
            name = "" if one is None else f", {prefix_of(one.uuid)},"
            found.append(f"the transaction of revision {revision}{name} is missing or damaged")
        before = revision
    if oldest > 1 and not sound:
        found.append(f"there is no checkpoint that can be read, and nothing below revision {oldest}")
    if claimed and not found:
        found += _damaged_claims(bucket, layout, objects, lineage)
    head = chosen.get(names.tip)
    if not found and head is not None and is_closing(head.transaction):
        ends = []
        if names.tip not in sound:
            ends.append("checkpoint")
        if layout.marker_key(names.tip, head.uuid) not in {info.key for info in objects.markers}:
            ends.append("marker")
        if ends:
            what = " and the ".join(ends)
            found.append(f"the {what} that the rebuild of revision {names.tip} ends with is missing")
    return found


def _damaged_up_to(last: int, objects: Objects, lineage: Lineage) -> list[Node]:
    """Transactions of which no state is made any more, and that are in the way of whoever reads the history, or
    collects: objects up to where history begins that can't be read."""
    nodes = {node for node in objects.lost if node[0] <= last}
    chosen = {(revision, prefix_of(one.uuid)) for revision, one in lineage.chosen.items()}
    return sorted(nodes & chosen)


def _begins_with_claims(
    base: Base, oldest: int, objects: Objects, lineage: Lineage, layout: WriterLayout
) -> bool:
    """Whether claims hold all below the oldest object, with all files: that wasn't pruned, or not to its end."""
    if base.revision or base.state is not None or _keeps_claims(objects, oldest):
        return False
    told = [lineage.chosen.get(revision) for revision in range(1, oldest)]
    transactions = [one.transaction for one in told if one is not None and one.transaction is not None]
    if len(transactions) < len(told):
        return False
    paths = (a.file.path for t in transactions for a in t.actions if isinstance(a, Add))
    return all(path in objects.data or not layout.owns(path) for path in paths)


def _keeps_claims(objects: Objects, oldest: int) -> bool:
    """Whether a prune has left claims below the oldest object, for rows that stand in the catalog still."""
    tables = (table for state in objects.checkpoints.values() for table in state.tables.values())
    live = (live for table in tables if table.inlined for live in table.files.values())
    return any(each.revision < oldest for each in live if each.file.inlined is not None)


def is_closing(transaction: CatalogTransaction | None) -> bool:
    """Whether this is the transaction that ends a rebuild."""
    return transaction is not None and transaction.commit.op == OP_REBUILD and is_rebuilt(transaction)


def _damaged_claims(bucket: Bucket, layout: WriterLayout, objects: Objects, lineage: Lineage) -> list[str]:
    """Without the head's claim, or with one above that can't follow, nobody could commit any more."""
    tip = objects.names.tip
    head = lineage.chosen[tip].uuid
    found = []
    for revision, claim in sorted(objects.claims.items()):
        if revision < tip:
            continue
        follows = claim is not None and (
            claim.uuid == head if revision == tip else claim.commit.previous == head
        )
        if not follows:
            found.append(
                f"{bucket.uri(layout.claim_key(revision))} is not a claim that can follow revision {tip}"
            )
    if tip not in objects.claims:
        found.append(f"the claim {bucket.uri(layout.claim_key(tip))} is missing")
    return found


def _nothing_to_do(layout: WriterLayout, objects: Objects, lineage: Lineage, report: RebuildReport) -> Plan:
    """Only name what is left over."""
    referenced = objects.told() | objects.kept()
    loose: set[str] = set()
    for one in (*lineage.chosen.values(), *lineage.others):
        loose.update(f.file.path for f in one.files if f.file.path not in referenced)
        if one.marker is not None and one.transaction is None and one.revision > objects.names.tip:
            loose.add(layout.marker_key(one.revision, one.uuid))
    return Plan((), (), (), replace(report, unproven=tuple(sorted(loose))))


class _Author:
    """Turns steps into transactions."""

    def __init__(self, found: Survey, base: Base, now_ms: int) -> None:
        self.bucket, self.layout, self.objects = found.bucket, found.layout, found.objects
        self.lineage, self.claimed = found.lineage, found.claimed
        self.base, self.now_ms = base, now_ms

    def plan(self, recovery: Recovery, report: RebuildReport) -> Plan:
        steps = [s for s in recovery.steps if s.revision >= self.base.revision]
        formats = _formats(recovery.steps, self.base.state)
        history = [self._transaction(step, formats[step.revision]) for step in steps]
        base = self._base_state(recovery, history)
        if not history:
            history = [self._closing(base.head, recovery, base.format)]
        elif not is_closing(last := history[-1]):
            head = CatalogHead(last.revision, last.uuid, last.commit.time_ms)
            history.append(self._closing(head, recovery, last.format))
        state, mended = self._replayed(base, history)
        there = self.objects.transactions
        below = self._below(base)
        history = [*below, *history]
        writes = tuple(t for t in history if (t.revision, prefix_of(t.uuid)) not in there)
        claims = tuple(t for t in history if self._needs_claim(t)) if self.claimed else ()
        findings: dict[str, Any] = {
            name: tuple(sorted(keys)) for name, keys in vars(recovery.findings).items()
        }
        written = {t.revision for t in writes}
        lost = [s for s in steps if s.revision in written and s.transaction is None]
        empty = [t.revision for t in below if t.commit.op == OP_LOST]
        empty += [s.revision for s in lost if not s.actions and not s.batches]
        return Plan(
            claims,
            self._in_order(writes),
            (*((base,) if self.base.is_new else ()), *mended, state),
            replace(
                report,
                revision=state.head.revision,
                first=base.head.revision,
                rebuilt=tuple(sorted(written)),
                empty=tuple(empty),
                claims=tuple(t.revision for t in claims),
                **findings,
            ),
            closing=history[-1],
            forked=any(
                prefix != prefix_of(self._uuid(revision) or "")
                for revision in {*self.objects.names.transactions, *self.objects.names.checkpoints}
                for prefix in self.objects.names.at(revision)
            ),
        )

    def _replayed(
        self, base: CatalogState, history: list[CatalogTransaction]
    ) -> tuple[CatalogState, list[CatalogState]]:
        """The state at the end, and those of sound checkpoints that say the same in other words: when files were
        made, in which order they and schemas appeared. They are written anew, for prune and fsck compare them."""
        sound = on_chain(self.objects, self.lineage)
        state, mended, waiting = base, [], []
        for transaction in history:
            if transaction.revision <= base.head.revision:
                continue
            waiting.append((transaction, self._where(transaction)))
            checkpoint = sound.get(transaction.revision)
            if checkpoint is not None or transaction is history[-1]:
                state, waiting = replay(state, waiting), []
            if checkpoint is not None and _is_reworded(checkpoint, state):
                mended.append(state)
        return state, mended

    def _below(self, base: CatalogState) -> list[CatalogTransaction]:
        """Those up to the checkpoint that history begins at that can't be read: by their claims, or empty."""
        if self.base.state is None:
            return []
        found = []
        for revision, _ in _damaged_up_to(base.head.revision, self.objects, self.lineage):
            one = self.lineage.chosen[revision]
            # By its neighbours; times never fall.
            later = [t.commit.time_ms for (r, _), t in self.objects.transactions.items() if r > revision]
            time_ms = min([base.head.time_ms, *later])
            step = PlannedRevision(revision, one, one.transaction, time_ms=time_ms)
            earlier = (t.format for (r, _), t in self.objects.transactions.items() if r < revision)
            found.append(self._transaction(step, max(earlier, default=FIRST_FORMAT)))
        return found

    def _where(self, transaction: CatalogTransaction) -> str:
        return self.bucket.uri(self.layout.transaction_key(transaction.revision, transaction.uuid))

    def _uuid(self, revision: int) -> str | None:
        if revision == 0:
            return None
        one = self.lineage.chosen.get(revision)
        return _made_up(self.layout, revision) if one is None else one.uuid

    def _transaction(self, step: PlannedRevision, version: int) -> CatalogTransaction:
        if step.transaction is not None:
            return step.transaction
        previous = None if step.candidate is None else step.candidate.previous
        marker = None if step.candidate is None else step.candidate.marker
        summary = {} if marker is None else dict(marker.transaction.commit.summary)
        return CatalogTransaction(
            self.layout.writer,
            self.layout.database,
            step.revision,
            tuple(step.actions),
            CommitRecord(
                self._uuid(step.revision) or "",
                previous or self._uuid(step.revision - 1),
                step.time_ms or 0,
                step.op,
                tuple(step.batches),
                {**summary, REBUILT: True},
                self.claimed,
            ),
            version,
        )

    def _closing(self, last: CatalogHead, recovery: Recovery, version: int) -> CatalogTransaction:
        """The rebuild's own: it proves the one before, and is above every revision that was ever seen."""
        findings = recovery.findings
        summary = {REBUILT: True, "files": len(findings.files), "unproven": len(findings.unproven)}
        record = CommitRecord(
            _made_up(self.layout, last.revision + 1, prefix_of(last.uuid or "")),
            last.uuid,
            max(self.now_ms, last.time_ms),
            OP_REBUILD,
            summary=summary,
            claimed=self.claimed,
        )
        return CatalogTransaction(
            self.layout.writer, self.layout.database, last.revision + 1, (), record, version
        )

    def _base_state(self, recovery: Recovery, history: list[CatalogTransaction]) -> CatalogState:
        empty = CatalogState(self.layout.writer, self.layout.database)
        if self.base.state is not None:
            return self.base.state
        if not self.base.is_new:
            return empty
        first = history[0]
        steps = [s for s in recovery.steps if s.revision <= self.base.revision]
        head = CatalogHead(first.revision, first.uuid, first.commit.time_ms, self.claimed)
        try:
            return assemble(
                empty,
                ((s.revision, s.does, s.does_batches, s.time_ms or 0) for s in steps),
                head,
            )
        except Refused as refused:
            raise CorruptObjectError(
                f"{self._where(first)} can't be rebuilt from what is below it: it {refused}. Look at the "
                "transactions below with `firn dump OBJECT`; delete the wrong one to have it rebuilt from its data "
                "files, and rebuild again."
            ) from None

    def _in_order(self, writes: tuple[CatalogTransaction, ...]) -> tuple[CatalogTransaction, ...]:
        """The lowest above the newest checkpoint last: until it is there, nobody can open the catalog, and a
        rebuild knows that something is lost. The others follow, the lowest first: a missing beginning looks like
        one that was pruned."""
        newest = max(on_chain(self.objects, self.lineage), default=0)
        last = next((t for t in writes if t.revision > newest), None)
        return (*(t for t in writes if t is not last), *(() if last is None else (last,)))

    def _needs_claim(self, transaction: CatalogTransaction) -> bool:
        found = self.objects.claims.get(transaction.revision)
        return found is None or found.uuid != transaction.uuid


def _formats(steps: Sequence[PlannedRevision], base: CatalogState | None) -> dict[int, int]:
    """The catalog's format after each revision."""
    version = FIRST_FORMAT if base is None else base.format
    found = {}
    for step in steps:
        upgrades = (action.format for action in step.does if isinstance(action, Upgrade))
        version = found[step.revision] = max(version, *upgrades, 0)
    return found


def _is_reworded(checkpoint: CatalogState, state: CatalogState) -> bool:
    """Whether readers see the same in both, though their bytes differ."""
    return _substance(checkpoint) == _substance(state) and encode_checkpoint(checkpoint) != encode_checkpoint(
        state
    )


def _substance(state: CatalogState) -> object:
    """The part of a state that readers see."""
    return {
        name: (
            table.spec,
            {
                p: (live.file._replace(created_ms=0), live.revision, live.deletes)
                for p, live in table.files.items()
            },
            table.batches.keys(),
        )
        for name, table in state.tables.items()
    }


def write_rebuild(bucket: Bucket, layout: WriterLayout, plan: Plan) -> None:
    """Write what was planned, so that the catalog can't be opened before it is whole.

    Cost: 1 PUT a claim, a transaction and a checkpoint, 1 for a marker, and 1 for the hint.

    Raises:
        UnsupportedError: the history is kept by claims, and this connection can't make any.
    """
    if plan.claims:
        check_claims_can_be(bucket, layout, "Rebuild")
    bucket.put_many([(layout.claim_key(t.revision), encode_transaction(t)) for t in plan.claims])
    bodies = [(layout.transaction_key(t.revision, t.uuid), encode_transaction(t)) for t in plan.transactions]
    for part in (bodies[:1], bodies[1:-1], bodies[1:][-1:]):
        bucket.put_many(part)
    if plan.closing is not None:
        key = layout.marker_key(plan.closing.revision, plan.closing.uuid)
        bucket.put(key, encode_marker(layout, plan.closing, plan.checkpoints[-1]))
    for state in plan.checkpoints:
        bucket.put(
            layout.checkpoint_key(state.head.revision, state.head.uuid or ""), encode_checkpoint(state)
        )
    if plan.forked:  # a hint must hide no fork
        bucket.delete(layout.hint_key)
    elif plan.checkpoints:
        head = plan.checkpoints[-1].head
        name = ObjectName(head.revision, prefix_of(head.uuid or ""), "checkpoint")
        Reader(bucket, layout).write_hint(name)
