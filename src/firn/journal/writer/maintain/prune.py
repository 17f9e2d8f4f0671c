"""Pruning: shortening the history from its beginning, behind two checkpoints that were validated (rules 20 to 23).

Prune finds the objects below the floor by one LIST and deletes them one by one, so that a crash leaves a shorter
history and never a hole. Data files stay; `collect` deletes those that nothing names any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firn.bucket.base import ObjectInfo
from firn.errors import ConflictError, CorruptObjectError
from firn.journal.writer.attempts import ATTEMPTS, ChangedMeanwhile, persist
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName
from firn.journal.writer.format.state import CatalogHead, CatalogState, replay
from firn.journal.writer.history.checkpoint import write_checkpoint
from firn.journal.writer.history.forks import Node
from firn.journal.writer.history.history import History
from firn.journal.writer.history.listing import alone, list_from
from firn.journal.writer.history.objects import links_of, store_now
from firn.journal.writer.unclaimed.branches import LostBranches, lost_nodes

AT_ONCE = 256
"""Transactions held in memory while they are replayed."""


@dataclass(frozen=True)
class PruneReport:
    """The result of a prune: what it deleted, or would delete. `floor` is the oldest revision that can be read
    afterwards, 0 for the empty start; `deleted` are keys, in order; `written` those of checkpoints that prune
    itself needed."""

    floor: int = 0
    deleted: tuple[str, ...] = ()
    bytes: int = 0
    written: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    dry_run: bool = False


class _Stray(Exception):
    """The transaction below this revision isn't the one that it follows: it landed when that one was pruned."""

    def __init__(self, revision: int) -> None:
        self.revision = revision


def prune(history: History, *, older_than_ms: int, dry_run: bool = False) -> PruneReport:
    """Delete the transactions, checkpoints and claims of revisions that nobody needs to go back to. See
    `Database.prune` for arguments and errors.

    The floor is the newest revision that is `older_than_ms` old by the store's clock, and not the newest of all.
    Its checkpoint and one above it are read back and compared with a replay from an older one, or from the
    beginning; those that lack are written. Everything from the floor on stays readable.

    Cost: 2 LIST sequences, 1 PUT and 1 HEAD for the store's clock; with claims 1 LIST sequence more. Where
    anything goes: 1 GET a transaction from the oldest checkpoint to the second one, 1 GET for each of these
    checkpoints and for the hint, 1 PUT for each that has to be written, and one DELETE after the other; 1 LIST if
    there is no checkpoint above the floor.
    With `dry_run` nothing is written, but the object that tells the time. After a `StoreError` or an
    `OutcomeUnknownError` prune again; it ends what this began.
    """
    since = 0

    def one_pass() -> PruneReport:
        nonlocal since
        while True:
            try:
                return _Pruning(history, older_than_ms, dry_run, since).run()
            except _Stray as stray:
                since = stray.revision

    try:
        return persist(one_pass, (CorruptObjectError, ChangedMeanwhile))
    except ChangedMeanwhile:
        raise ConflictError(
            f"{history.where} was pruned by another process in each of {ATTEMPTS} passes. Prune it from one process."
        ) from None


class _Pruning:
    """One pass."""

    def __init__(self, history: History, older_than_ms: int, dry_run: bool, since: int) -> None:
        self.history, self.dry_run = history, dry_run
        self.bucket, self.layout = history.bucket, history.layout
        before = store_now(self.bucket, self.layout) - older_than_ms
        names, listing = list_from(self.bucket, self.layout, 0)
        self.claimed = history.decided("which transactions may go", "prune").head.claimed
        self.chain = {r: p for r, p in history.counting(names) if r >= since}
        lost = lost_nodes(self.chain, names)
        self.lost = LostBranches(lost, links_of(history.reader.transactions(sorted(lost))))
        self.listed: list[tuple[ObjectName, ObjectInfo]] = []
        for info in listing.objects:
            name = self.layout.parse(info.key)
            if isinstance(name, ObjectName):
                self.listed.append((name, info))
        self.old = {n.revision for n, i in self.listed if n.kind == "transaction" and i.modified_ms <= before}
        self.checkpoints = sorted(r for r, p in self.chain.items() if p in names.checkpoints.get(r, ()))
        self.read: dict[int, CatalogState | None] = {}
        self.warnings: list[str] = []
        self.written: list[str] = []

    def run(self) -> PruneReport:
        base = self._base()
        if base is None:
            return PruneReport(warnings=tuple(self.warnings), dry_run=self.dry_run)
        for floor in self._floors(base):
            doomed, claims = self._doomed(floor), self._claims(floor)
            if not doomed and not claims:
                break
            second = self._second(floor)
            if second is None:
                continue
            needed = _oldest_rows(self._validate(base, floor, second))
            doomed += [info for revision, info in claims if revision < needed]
            report = PruneReport(
                floor,
                tuple(info.key for info in doomed),
                sum(info.size for info in doomed),
                tuple(self.written),
                tuple(self.warnings),
                self.dry_run,
            )
            if not self.dry_run:
                self._mend_hint(floor, second)
                for key in report.deleted:
                    self.bucket.delete(key)
            return report
        return PruneReport(base.head.revision, warnings=tuple(self.warnings), dry_run=self.dry_run)

    # -- what to begin the replay with

    def _base(self) -> CatalogState | None:
        """The oldest state that everything after it can be compared with."""
        lowest = min(self.chain, default=0)
        if lowest <= 1:
            return CatalogState(self.layout.writer, self.layout.database) if lowest else None
        for revision in self.checkpoints:
            state = self._read(revision)
            if state is not None:
                return state
        return None

    def _read(self, revision: int) -> CatalogState | None:
        """None for a checkpoint that is damaged, with a warning. 1 GET, once."""
        if revision not in self.read:
            self.read[revision] = self._get(revision)
        return self.read[revision]

    def _get(self, revision: int) -> CatalogState | None:
        name = ObjectName(revision, self.chain[revision], "checkpoint")
        try:
            state = self.history.reader.checkpoint(name)
        except CorruptObjectError as error:
            self.warnings.append(str(error))
            return None
        if state is None:
            raise ChangedMeanwhile
        return state

    # -- floor and second

    def _floors(self, base: CatalogState) -> list[int]:
        """Revisions that may become the floor, the best first."""
        newest, lowest = max(self.chain), base.head.revision
        if lowest and not self._is_remainder(lowest):
            lowest += 1
        return [
            r
            for r in reversed(self.chain)
            if lowest <= r < newest and r in self.old and not self.lost.span(r)
        ][:2]

    def _is_remainder(self, revision: int) -> bool:
        """Whether the oldest checkpoint is this one, and below it only consecutive transactions that end there: an
        earlier prune has left them. It was validated then."""
        below = {name.revision for name, _ in self.listed if name.revision <= revision}
        return revision == self.checkpoints[0] and len(below) == revision - min(below) + 1

    def _second(self, floor: int) -> int | None:
        """A revision above the floor that has a checkpoint, or may have one written now (rule 18)."""
        for revision in (r for r in self.checkpoints if r > floor):
            if self._read(revision) is not None:
                return revision
        newest = max(self.chain)
        if alone(self.bucket, self.layout, newest, self.chain[newest]):
            return newest
        return newest - 1 if newest - 1 > floor else None

    def _validate(self, base: CatalogState, floor: int, second: int) -> CatalogState:
        """Their checkpoints are what the transactions say (rule 20); those that lack are written. The state at the
        floor."""
        below = self._replayed(base, floor)
        lacking: list[CatalogState] = []
        for state in (below, self._replayed(below, second)):
            revision = state.head.revision
            found = self._read(revision) if revision in self.checkpoints else None
            if found is None:
                lacking.append(state)
            elif found != state:
                raise self._mismatch(state.head, base.head)
        for state in lacking:
            if self._written(state) != state:
                raise self._mismatch(state.head, base.head)
        return below

    def _written(self, state: CatalogState) -> CatalogState | None:
        """Write a checkpoint of a decided revision, and read it back."""
        key = self.layout.checkpoint_key(state.head.revision, state.head.uuid or "")
        self.written.append(key)
        if self.dry_run:
            return state
        write_checkpoint(self.history, state, decided=True)
        return self._get(state.head.revision)

    # -- replay

    def _replayed(self, state: CatalogState, revision: int) -> CatalogState:
        start = state.head.revision
        nodes = [node for node in self.chain.items() if start < node[0] <= revision]
        return replay(state, self._transactions(nodes))

    def _transactions(self, nodes: Sequence[Node]) -> Iterator[tuple[CatalogTransaction, str]]:
        reader = self.history.reader
        for start in range(0, len(nodes), AT_ONCE):
            some = nodes[start : start + AT_ONCE]
            found = reader.transactions(some)
            for node in some:
                transaction = found.get(node)
                if transaction is None:
                    raise ChangedMeanwhile
                if isinstance(transaction, CorruptObjectError):
                    raise transaction
                before = self.chain.get(node[0] - 1)
                if before is not None and before != prefix_of(transaction.commit.previous or ""):
                    raise _Stray(node[0])
                yield transaction, reader.where(ObjectName(*node, "transaction"))

    def _mismatch(self, head: CatalogHead, base: CatalogHead) -> CorruptObjectError:
        name = ObjectName(head.revision, self.chain[head.revision], "checkpoint")
        since = f"the checkpoint of revision {base.revision}" if base.revision else "the beginning"
        return CorruptObjectError(
            f"{self.history.reader.where(name)} isn't what the transactions since {since} say: nothing was pruned. "
            "Look at it with `firn dump OBJECT`, delete it, and prune again."
        )

    # -- what goes

    def _doomed(self, floor: int) -> list[ObjectInfo]:
        """All below the floor. Branches that lost go first, from their tips down: without what decided against
        them, or what they stand on, they would look as if they counted. The rest goes in order."""

        def place(entry: tuple[ObjectName, ObjectInfo]) -> tuple[bool, int, str]:
            lost = self.lost.hold(entry[0])
            return not lost, -entry[0].revision if lost else 0, entry[1].key

        return [info for name, info in sorted(self.listed, key=place) if name.revision < floor]

    def _claims(self, floor: int) -> list[tuple[int, ObjectInfo]]:
        """Ascending, so that a process that wins a pruned number finds the one before it pruned too (rule 16)."""
        if not self.claimed:
            return []
        listed = self.bucket.list(self.layout.claims_prefix).objects
        found = [(self.layout.parse_claim(info.key) or 0, info) for info in listed]
        return sorted([entry for entry in found if 0 < entry[0] < floor], key=lambda entry: entry[0])

    def _mend_hint(self, floor: int, second: int) -> None:
        """A hint that names what is gone costs every reader a LIST of everything. None goes above a fork."""
        hint = self.history.reader.hint()
        if (hint is None or hint.revision < floor) and not self.lost.reach(floor):
            self.history.reader.write_hint(ObjectName(second, self.chain[second], "checkpoint"))


def _oldest_rows(state: CatalogState) -> int:
    """The first revision that added rows which stand in the catalog; one above the state's for none. Its claim is the
    rows' second copy, from which a rebuild has them."""
    live = (live for table in state.tables.values() if table.inlined for live in table.files.values())
    return min(
        (each.revision for each in live if each.file.inlined is not None), default=state.head.revision + 1
    )
