"""Reading the writers' catalogs as a stream of appends, each delivered exactly once.

An offset is a vector: how far each writer's history is delivered, as a revision and its uuid. A writer that comes
later is read from its beginning. Files that a transaction appended are new; files that it wrote in the place of
others aren't. Transactions also name files that were removed since, and no collector deletes a file that a retained
transaction adds. So a merge between two offsets hides nothing and doubles nothing.

One writer that can't be read doesn't hold up the others: its place in the vector stays until it can. But where
the stream has delivered what doesn't count any more, the other side of a fork for one, it stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from firn.bucket.keys import key_below
from firn.degraded import warn_degraded
from firn.errors import CorruptObjectError, ForkError, NotFoundError, SnapshotTooOldError
from firn.journal.model import (
    ColumnTypes,
    DataFile,
    Delivered,
    Delivery,
    Snapshot,
    StreamStart,
    with_deletes,
)
from firn.journal.naming import Naming
from firn.journal.writer.federation.federation import DEGRADES, Union
from firn.journal.writer.federation.union import Loader, snapshot_of, streamed
from firn.journal.writer.format.actions import APPENDS, IN_PLACE, Add, CatalogTransaction, Remove, Tombstones
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.state import CatalogHead
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.rebuild.recovery import OP_LOST

if TYPE_CHECKING:
    from firn.journal.writer.table import WriterTable

RENEW_MS = 60_000
"""An idle stream passes over commits that are older: else they would be pruned before it has."""


class Reached(NamedTuple):
    """How far a writer's history is delivered. `prefix` is the uuid's first digits, '' for the empty start."""

    revision: int = 0
    prefix: str = ""

    @staticmethod
    def of(head: CatalogHead) -> Reached:
        return Reached(head.revision, prefix_of(head.uuid or ""))


BEGINNING = Reached()


@dataclass(frozen=True)
class VectorOffset:
    """Where a stream stands. `since_ms`: of a writer that isn't in `reached` yet, only what it committed at that
    time or later is new."""

    reached: Mapping[str, Reached] = field(default_factory=dict)
    since_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"reached": {w: list(r) for w, r in sorted(self.reached.items())}}
        return raw if self.since_ms is None else {**raw, "since": self.since_ms}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> VectorOffset:
        try:
            reached = {str(w): Reached(int(r), str(p)) for w, (r, p) in raw["reached"].items()}
            since = raw.get("since")
            return VectorOffset(reached, None if since is None else int(since))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(
                f"not an offset of a stream over writers' catalogs: {dict(raw)!r}. Start the stream anew, with a new "
                "checkpoint."
            ) from error


class StreamStep(NamedTuple):
    """The changes of one revision to the table, as far as streams care. `time_ms` never falls along a history."""

    reached: Reached
    previous: str
    time_ms: int
    adds: tuple[Add, ...]
    tombstones: tuple[Tombstones, ...]
    is_lost: bool

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(add.file for add in self.adds)

    @property
    def schemas(self) -> tuple[ColumnTypes, ...]:
        return tuple({add.columns: dict(add.columns) for add in self.adds}.values())


class WriterStream:
    """One table over the writers' catalogs as streams know a journal; see `firn.journal.model.JournalStream`.

    Cost of a poll: `Federation.load`, and 1 GET a transaction that wasn't read before.
    """

    def __init__(self, table: WriterTable, naming: Naming | None = None) -> None:
        self._table = table
        self._rules = replace(table.rules, naming=naming)
        self._steps: dict[str, list[StreamStep]] = {}
        self._union: Union | None = None

    @property
    def name(self) -> str:
        return self._table.table

    def parse(self, raw: Mapping[str, Any]) -> VectorOffset:
        return VectorOffset.from_json(raw)

    def since(self, time_ms: int) -> VectorOffset:
        return VectorOffset(since_ms=time_ms)

    def target(self) -> dict[str, int]:
        """The writers' newest revisions."""
        union = self._table.federation.load()
        return {writer: version.head.revision for writer, version in union.versions.items()}

    def start(self) -> StreamStart[VectorOffset]:
        union = self._table.federation.load()
        snapshot = self._snapshot_of(union)
        reached = {writer: Reached.of(version.head) for writer, version in union.versions.items()}
        return StreamStart(snapshot.version, snapshot.files, VectorOffset(reached), snapshot.in_files)

    def restart(self, version: str, offset: VectorOffset) -> Delivered:
        """Raises, beside `SnapshotTooOldError`, what `poll` does for a writer's history that has changed."""
        if not offset.reached:
            return Delivered(())
        vector = ",".join(f"{writer}={reached.revision}" for writer, reached in offset.reached.items())
        try:
            union = self._table.federation.at(vector)
        except SnapshotTooOldError as error:
            raise SnapshotTooOldError(
                f"the snapshot {version} of {self.name} that this stream began with was pruned ({error}) Start the "
                "stream anew, with a new checkpoint."
            ) from error
        except NotFoundError as error:
            raise self._lost(str(error)) from error
        for writer, reached in offset.reached.items():
            if writer not in union.versions:
                raise union.broken[writer]
            self._check_kept(writer, reached, Reached.of(union.versions[writer].head).prefix)
        snapshot = self._snapshot_of(union)
        return Delivered(snapshot.files, (snapshot.in_files,))

    def _snapshot_of(self, union: Union) -> Snapshot:
        if self._rules.naming is None:
            return self._table.snapshot_of(union)
        self._table.check(union)
        return snapshot_of(union, self.name, self._rules)

    def poll(
        self, offset: VectorOffset, *, limit: int | None = None, among: Mapping[str, int] | None = None
    ) -> Delivery[VectorOffset]:
        """Raises:
        SnapshotTooOldError: transactions after the offset were pruned.
        ForkError: the offset is on a side of a fork that isn't decided, or was decided against.
        CorruptObjectError: a writer's history doesn't reach up to the offset any more.
        TableNotFoundError: the table was dropped.
        """
        union = self._union = self._table.federation.load()
        self._table.check(union)
        begun: dict[str, Reached] = {}
        found: dict[str, list[StreamStep]] = {}
        for writer in sorted({*union.versions, *offset.reached}):
            readable = self._readable(union, writer)
            if readable is None:
                continue
            history, version = readable
            begun[writer] = self._begun(offset, writer, history)
            self._check_reaches(writer, begun[writer], version)
            self._forget(writer, begun[writer].revision)
            steps = self._read(history, version, begun[writer])
            upto = version.head.revision if among is None else among.get(writer, 0)
            found[writer] = [step for step in steps if step.reached.revision <= upto]
        return self._delivery(VectorOffset({**offset.reached, **begun}, offset.since_ms), found, limit)

    def between(self, begin: VectorOffset, end: VectorOffset) -> Delivered:
        """Soft deletes are those of `end`. Raises as `poll` does, and where a writer can't be read."""
        found: list[StreamStep] = []
        for writer, reached in sorted(end.reached.items()):
            history = self._table.federation.history(writer)
            first = self._begun(begin, writer, history)
            if reached.revision <= first.revision:
                continue
            if self._known(writer, first, reached) is None:
                history, version = self._history(writer)
                self._check_reaches(writer, reached, version)
                self._read(history, version, first)
            steps = self._known(writer, first, reached)
            if steps is None:
                raise self._decided_against(writer, reached)
            found += steps
        schemas = tuple(columns for step in found for columns in step.schemas)
        return Delivered(self._as_read(found, schemas), schemas)

    def _as_read(self, steps: Sequence[StreamStep], schemas: Iterable[ColumnTypes]) -> tuple[DataFile, ...]:
        """The steps' new files as readers need them, with the soft deletes that they have after the last one: values
        that don't fit the table's columns are set aside. Cost: `Federation.load` where nothing was polled yet."""
        if not any(step.adds for step in steps):
            return ()
        if self._union is None:
            self._union = self._table.federation.load()
        agreed = streamed(self._union, self.name, self._rules, schemas)
        where = self._table.bucket.uri(key_below(self._table.federation.prefix, self.name))
        for conflict in agreed.conflicts:
            warn_degraded(where, str(conflict))
        loaders = {a.columns: Loader(a.columns, agreed) for step in steps for a in step.adds}
        files = {a.file.path: loaders[a.columns].noted(a.file) for step in steps for a in step.adds}
        deletes: dict[str, list[str]] = {}
        for step in steps:
            for tombstone in step.tombstones:
                for path in tombstone.files:
                    deletes.setdefault(path, []).append(tombstone.predicate)
        return tuple(with_deletes(f, *deletes[p]) if p in deletes else f for p, f in files.items())

    # -- a writer's history

    def _readable(self, union: Union, writer: str) -> tuple[History, CatalogVersion] | None:
        """A writer's history and newest version; None where it can't be read for now."""
        federation = self._table.federation
        if writer in union.versions:
            return federation.history(writer), union.versions[writer]
        try:
            return self._history(writer)
        except DEGRADES:
            return None

    def _history(self, writer: str) -> tuple[History, CatalogVersion]:
        """Read anew if need be: a contradiction to this process's memory is no reason to stop, one to delivered
        rows is."""
        federation = self._table.federation
        history = federation.history(writer)
        try:
            return history, history.load()
        except (ForkError, CorruptObjectError):
            fresh = History(federation.bucket, federation.layout(writer))
            return fresh, fresh.load()

    def _begun(self, offset: VectorOffset, writer: str, history: History) -> Reached:
        """How far a writer is delivered; of one that comes later, where it begins to count."""
        found = offset.reached.get(writer)
        if found is None and offset.since_ms is not None:
            return Reached.of(history.at_time(offset.since_ms - 1).head)
        return found or BEGINNING

    def _check_reaches(self, writer: str, reached: Reached, version: CatalogVersion) -> None:
        head = Reached.of(version.head)
        if reached.revision == head.revision:
            self._check_kept(writer, reached, head.prefix)
        if reached.revision <= head.revision:
            return
        if version.fork is None:
            raise self._lost(
                f"the writer {writer} has no revision {reached.revision} any more; its newest is {head.revision}"
            )
        raise ForkError(
            f"the stream over {self.name} has delivered revision {reached.revision} of the writer {writer}, which "
            f"has {version.fork}. Stop all but one of the processes under that id and choose a side with "
            "`firn repair --keep UUID`; if it is the other one, start the stream anew, with a new checkpoint."
        )

    def _check_kept(self, writer: str, reached: Reached, prefix: str) -> None:
        if reached.prefix != prefix:
            raise self._decided_against(writer, reached)

    def _decided_against(self, writer: str, reached: Reached) -> ForkError:
        return ForkError(
            f"the stream over {self.name} has delivered revision {reached.revision} of the writer {writer} under the "
            f"uuid {reached.prefix}, and the history has gone on from another one: a fork was decided, or the "
            "catalog rebuilt. Start the stream anew, with a new checkpoint."
        )

    def _lost(self, what: str) -> CorruptObjectError:
        return CorruptObjectError(
            f"the stream over {self.name} can't go on: {what}. Copy the missing transactions back, or rebuild the "
            "catalog with `firn rebuild --writer ID --force`; where that doesn't help, start the stream anew, with a "
            "new checkpoint."
        )

    # -- steps

    def _read(self, history: History, version: CatalogVersion, after: Reached) -> list[StreamStep]:
        """The steps above `after`; those read before cost nothing, as long as they lead to the newest version."""
        writer, head = history.layout.writer, Reached.of(version.head)
        if head.revision == after.revision:
            return []
        known = self._steps.get(writer, [])
        if not known or known[0].reached.revision > after.revision + 1:
            known = []
        steps = self._longer(history, known, after, head)
        if known and not _linked(steps, head):
            steps = self._longer(history, [], after, head)
        self._steps[writer] = steps
        found = [step for step in steps if step.reached.revision > after.revision]
        if found[0].previous != after.prefix:
            raise self._decided_against(writer, after)
        lost = next((step for step in found if step.is_lost), None)
        if lost is not None and self.name in version.state.tables:
            raise SnapshotTooOldError(
                f"the stream over {self.name} can't go on: revision {lost.reached.revision} of the writer {writer} "
                "was lost, and no rebuild can tell what it appended. Start the stream anew, with a new checkpoint."
            )
        return found

    def _longer(
        self, history: History, known: Sequence[StreamStep], after: Reached, head: Reached
    ) -> list[StreamStep]:
        steps = list(known)
        last, time_ms = (steps[-1].reached.revision, steps[-1].time_ms) if steps else (after.revision, 0)
        for transaction in history.transactions(last) if last < head.revision else ():
            if last == head.revision or transaction.revision != last + 1:
                break
            last, time_ms = transaction.revision, max(time_ms, transaction.commit.time_ms)
            steps.append(_step(transaction, self._table.table, time_ms))
        if last < head.revision:
            raise SnapshotTooOldError(
                f"the stream over {self.name} has delivered the writer {history.layout.writer} up to revision "
                f"{after.revision}, and revision {last + 1} was pruned since. Start the stream anew, with a new "
                "checkpoint, and keep history for longer than a stream may rest."
            )
        return steps

    def _known(self, writer: str, first: Reached, last: Reached) -> list[StreamStep] | None:
        """The steps between, if all have been read and lead to `last`."""
        steps = self._steps.get(writer, [])
        found = [s for s in steps if first.revision < s.reached.revision <= last.revision]
        whole = len(found) == last.revision - first.revision and found[-1].reached == last
        return found if whole and found[0].previous == first.prefix else None

    def _forget(self, writer: str, delivered: int) -> None:
        steps = self._steps.get(writer, [])
        self._steps[writer] = [step for step in steps if step.reached.revision > delivered]

    def _delivery(
        self, begun: VectorOffset, found: Mapping[str, Sequence[StreamStep]], limit: int | None
    ) -> Delivery[VectorOffset]:
        """The oldest appends of any writers, and the vector after them."""
        ordered = sorted(
            ((step.time_ms, writer, step) for writer, steps in found.items() for step in steps),
            key=lambda one: (one[0], one[1], one[2].reached.revision),
        )
        reached = dict(begun.reached)
        appends: list[tuple[DataFile, ...]] = []
        waiting: set[str] = set()
        for _, writer, step in ordered:
            if writer in waiting:
                continue
            if step.files and limit is not None and len(appends) >= limit:
                waiting.add(writer)
                continue
            if step.files:
                appends.append(step.files)
            reached[writer] = step.reached
        oldest = min((time_ms for time_ms, _, _ in ordered), default=None)
        renew = oldest is not None and self._table.clock.now_ms() - oldest > RENEW_MS
        return Delivery(tuple(appends), VectorOffset(reached, begun.since_ms), renew)


def _step(transaction: CatalogTransaction, table: str, time_ms: int) -> StreamStep:
    paths = {file.path for file in new_files(transaction, table)}
    adds = tuple(a for a in transaction.actions if isinstance(a, Add) and a.file.path in paths)
    return StreamStep(
        Reached(transaction.revision, prefix_of(transaction.uuid)),
        prefix_of(transaction.commit.previous or ""),
        time_ms,
        adds,
        tuple(a for a in transaction.actions if isinstance(a, Tombstones) and a.table == table),
        transaction.commit.op == OP_LOST,
    )


def new_files(transaction: CatalogTransaction, table: str) -> list[DataFile]:
    """The files of a table that hold rows which it didn't have before the transaction."""
    commit = transaction.commit
    added = [a.file for a in transaction.actions if isinstance(a, Add) and a.table == table]
    if commit.op in APPENDS:
        return added
    if commit.op != "transaction":
        return []
    in_place = {path for op in commit.summary.get("ops", ()) for path in op.get(IN_PLACE, ())}
    new = [file for file in added if file.path not in in_place]
    if len(new) < len(added):
        return new  # rows of those that went again may be among those in their place
    removed = {a.path for a in transaction.actions if isinstance(a, Remove)}
    return [file for file in new if file.path not in removed]


def _linked(steps: Sequence[StreamStep], head: Reached) -> bool:
    """Whether each step follows from the one before it, and the last one is the head."""
    links = all(b.previous == a.reached.prefix for a, b in pairwise(steps))
    return links and steps[-1].reached == head
