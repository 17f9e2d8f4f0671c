"""`WriterJournal`: one table over the writers' catalogs, as the lake knows a journal.

It reads all writers and changes what its own one added. Every change is a plan over the catalog as it is when
the commit is made, so that commits of one process, and of several under one id, can't undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from firn.errors import ConflictError, InvalidInputError, OutcomeUnknownError, SnapshotTooOldError
from firn.journal.entries import NAME, SEEN, Entries
from firn.journal.model import (
    Commit,
    Counted,
    Namer,
    Snapshot,
    SweepReport,
    with_clocks,
)
from firn.journal.naming import Naming
from firn.journal.writer.commit.local_writer import Author, BatchSeen, PendingCommit
from firn.journal.writer.commit.pending import Age
from firn.journal.writer.federation.definition import definition_of, seen_name
from firn.journal.writer.federation.federation import Union
from firn.journal.writer.federation.union import counted_batch, remembered, seen_batch
from firn.journal.writer.format.actions import APPENDS, Action, Add, Columns, Define, Remove, Tombstones
from firn.journal.writer.format.identity import Ticket, prefix_of
from firn.journal.writer.format.layout import ChunkNamer, StagedNamer
from firn.journal.writer.format.rows import stored
from firn.journal.writer.format.state import CatalogState, LiveFile
from firn.journal.writer.history.listing import list_from
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.stream import WriterStream
from firn.journal.writer.table import WriterTable
from firn.names import fold


class WriterJournal(WriterTable):
    """A table of a federation, read as all writers have it, and changed as far as its own writer goes."""

    soft_deletes = True
    revives = False

    @property
    def own(self) -> Author:
        """The connection's writer.

        Raises:
            InvalidInputError: the connection has none.
        """
        if self._own is None:
            raise InvalidInputError(
                f"{self.table} is kept by writers' catalogs, and this connection only reads. Open the database with "
                "firn.connect(url, writer=ID), from a shell with --writer ID; no other process may use the id."
            )
        return self._own

    def owns(self, path: str) -> bool:
        """Whether this connection may replace or remove a file: those that its own writer made or registered."""
        if self._own is None:
            return False
        layout = self.federation.layout(self._own.writer)
        if layout.owns(path) or layout.is_rows(path):
            return True
        table = self._own.state.tables.get(self.table)
        return table is not None and path in table.files

    # -- reading

    def stream(self, naming: Naming | None = None) -> WriterStream:
        """The table as a stream of all writers' appends."""
        return WriterStream(self, naming)

    def seen_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, by any writer. Free of requests where it is this one's."""
        if self._own is not None:
            mine = Union({}).with_state(self._own.state)
            if seen := seen_batch(mine, self.table, batch_id):
                return seen
        return seen_batch(self._load(), self.table, batch_id)

    def counted_batch(self, batch_id: str) -> Counted | None:
        """See `LakeJournal.counted_batch`."""
        if self._own is not None:
            mine = Union({}).with_state(self._own.state)
            if seen_batch(mine, self.table, batch_id):
                return counted_batch(mine, self.table, batch_id)
        return counted_batch(self._load(), self.table, batch_id)

    # -- writing

    def begin_append(self, namer: Namer | None = None) -> WriterAppend:
        """Start an append, or go on with the one whose files `namer` has named. Appends may overlap."""
        return WriterAppend(self, namer)

    def begin_staging(self, what: str) -> WriterStaging:
        """Start to write files that no transaction is to name."""
        return WriterStaging(self, what)

    @contextmanager
    def exclusive(self, op: str) -> Iterator[WriterMaintenance]:
        """Replace or remove own files; others of this process wait, other writers don't matter."""
        with self.own.maintenance(self.table):
            yield WriterMaintenance(self, op)

    def begin_merge(self) -> None:
        """None: a writer's part has one maintainer."""

    def publish(
        self,
        commit: Commit,
        ticket: Ticket,
        age: Age,
        *,
        expected: Mapping[str, LiveFile] | None = None,
        defined: bool = False,
    ) -> str:
        """Commit; the version.

        Args:
            age: of the commit's data files.
            expected: files that have to be live with the soft deletes that they had.
            defined: whether the own writer had the table when the commit was begun. It has to have it still: once
                a table is dropped, sweep may take all files that were begun before.

        Raises:
            BatchSeen: the own writer has committed the batch by now.
        """

        commit = self._with_rows(commit, ticket)

        def plan(state: CatalogState, clock: str) -> Sequence[Action]:
            own = Union({}).with_state(state)
            if self.table in state.tables and not self._is_in(own):
                raise self._dropped()
            self._check_batch(state, commit.batch_id)
            if defined and commit.adds and self.table not in state.tables:
                raise ConflictError(
                    f"{commit.op} of {self.table}: the writer {self.own.writer!r} dropped the table meanwhile. "
                    "Nothing of it is visible. Run it again; if no other writer has the table, create it first."
                )
            self._check_live(state, commit.op, expected or {})
            if commit.clocked:
                clock = self._above_seen(state, clock)
            return [*self._define(state, commit), *actions_of(self.table, commit, clock)]

        ids = () if commit.batch_id is None else remembered(commit.batch_id, commit.counted)
        head = self.own.commit(
            PendingCommit(
                commit.op,
                plan,
                [(self.table, id) for id in ids],
                commit.summary,
                ticket,
                commit.replaced,
                self.settings.checkpoint_every,
                (age,) if any(file.inlined is None for file in commit.adds) else (),
            )
        )
        if commit.definition is not None:
            entries = self._definition.entries.joined(commit.definition)
            self._definition = replace(self._definition, entries=entries)
        return f"{self.own.writer}={head.revision}"

    def age(self, what: str) -> Age:
        """The age of what is begun now."""
        return Age(self.clock, f"{what} {self.table}", self.settings.orphan_age_ms)

    def has_table(self) -> bool:
        """Whether the own writer has this very table, and not only others."""
        return self._is_in(Union({}).with_state(self.own.state))

    # -- upkeep

    def checkpoint(self) -> int:
        """Write a checkpoint of each writer that has the table; the transactions that readers needn't replay any
        more. Any connection may. The own writer's rows that stand in its catalog are written into files before."""
        if self._own is not None:
            self._own.fold()
        return sum(self.federation.checkpoint(self.table).values())

    def sweep(
        self,
        *,
        grace_ms: int | None = None,
        orphan_age_ms: int | None = None,
        margin: bool | None = None,
        dry_run: bool = False,
    ) -> SweepReport:
        """Delete the own writer's files of this table, and of tables that it dropped, that no retained revision
        reads, and markers of transactions that nothing needs any more (in `logs`). `Database.prune` shortens the
        history first; `grace_ms` and `margin` say nothing here. Cost and errors: see
        `firn.journal.writer.maintain.collect`.

        Raises:
            InvalidInputError: the connection has no writer.
        """
        if orphan_age_ms is None:
            self._learn(self._recent())
            orphan_age_ms = self._created_settings.lasting(self.definition, self.now_ms()).orphan_age_ms
        history = self.federation.history(self.own.writer)
        return collect(history, orphan_age_ms=orphan_age_ms, dry_run=dry_run, table=self.table).as_sweep()

    # -- inside

    def _with_rows(self, commit: Commit, ticket: Ticket) -> Commit:
        """The commit with rows that are to stand in the catalog as this keeps them. Their path is theirs whatever
        revision they get: a transaction may delete some of them before it is published."""
        if all(file.inlined is None for file in commit.adds):
            return commit
        path = self.federation.layout(self.own.writer).rows_path(self.table, ticket.revision)
        adds = [stored(file, path, self.now_ms(), self.bucket.uri(path)) for file in commit.adds]
        return replace(commit, adds=adds)

    def _define(self, state: CatalogState, commit: Commit) -> Sequence[Action]:
        """The definition, where the writer's own catalog lacks what this commit is made by, or brings. Else a writer
        that is lost would take along what another one has changed."""
        table = state.tables.get(self.table)
        own = definition_of(Union({}).with_state(state), self.table).entries
        entries = self._definition.entries.joined(own).joined(commit.definition or Entries())
        declared = {fold(name) for name in self.rules.declared}
        brought = {
            (SEEN, seen_name(name, kind)): True
            for name, kind in commit.columns.items()
            if commit.adds and fold(name) not in declared and name not in commit.aside
        }
        brought = {key: value for key, value in brought.items() if key not in entries.map}
        for name, kind in commit.columns.items() if commit.definition and not commit.adds else ():
            # Columns of an alter: each has a clock of its own, as their order is that of clocks.
            key = SEEN, seen_name(name, kind)
            if key not in entries.map:
                entries = entries.changed({key: True}, self.own.writer, clock=self.clock.now_ms())
        named = {(NAME, physical): name for physical, name in commit.names.items()}
        if named := {key: name for key, name in named.items() if key not in entries.map}:
            entries = entries.changed(named, self.own.writer)
        if brought:
            # First commits that haven't seen each other come in the order of their times.
            entries = entries.changed(brought, self.own.writer, clock=self.clock.now_ms())
        if table is not None and not brought and not named and entries.without(SEEN) == own.without(SEEN):
            return ()
        return (Define(self.table, replace(self._definition, entries=entries).encode()),)

    def _check_batch(self, state: CatalogState, batch_id: str | None) -> None:
        table = state.tables.get(self.table)
        if table is not None and batch_id is not None and batch_id in table.batches:
            raise BatchSeen(table.batches[batch_id][0])

    def _check_live(self, state: CatalogState, op: str, expected: Mapping[str, LiveFile]) -> None:
        table = state.tables.get(self.table)
        files = {} if table is None else table.files
        for path, live in expected.items():
            now = files.get(path)
            # By predicates: in a transaction the revision of a soft delete is known at its end.
            if now is None or _predicates(now) != _predicates(live):
                what = "was removed" if now is None else "had rows deleted"
                raise ConflictError(
                    f"{op} of {self.table}: {self.bucket.uri(path)} {what} by another commit of the writer "
                    f"{self.own.writer!r} meanwhile. Nothing of it is visible; run it again."
                )


def _predicates(live: LiveFile) -> list[str]:
    return [delete.predicate for delete in live.deletes]


def actions_of(table: str, commit: Commit, clock: str) -> list[Action]:
    """A commit of the lake as a transaction's actions. `clock`: of the rows of a table with a key."""
    columns: Columns = tuple(
        (name, kind) for name, kind in commit.columns.items() if name not in commit.aside
    )
    actions: list[Action] = [Remove(path) for path in commit.removes]
    actions += [Tombstones(table, soft.predicate, soft.paths) for soft in commit.soft_deletes]
    for file in with_clocks(commit, clock):
        rows = file.inlined
        actions.append(Add(table, file, columns if rows is None else tuple(rows.columns.items())))
    return actions


class WriterAppend:
    """An append under way. Made before its first data PUT: its age is the age of its files."""

    def __init__(self, journal: WriterJournal, namer: Namer | None) -> None:
        self._journal = journal
        self._age = journal.age("append to")
        self._ticket = namer.ticket if isinstance(namer, ChunkNamer) else journal.own.begin()
        self._defined = journal.has_table()
        if not self._defined:  # the commit brings the definition, which must not bring a dropped table back
            journal.known(since=journal.moment())
            self._defined = journal.has_table()
        self.namer: Namer = journal.own.namer(journal.table, self._ticket)
        self.duplicate = False
        self._sent: tuple[int, str] | None = None

    @property
    def lasting(self) -> bool:
        return not self._journal.own.reads_past

    def backdate(self, seconds: float) -> None:
        self._age.backdate(seconds)

    def check_age(self) -> None:
        self._age.check()

    def commit(self, commit: Commit) -> str:
        """See `AppendTicket.commit` and `Handle.commit`."""
        assert commit.op in APPENDS, commit.op  # else streams wouldn't deliver it
        self.check_age()
        if commit.batch_id is not None and (seen := self._journal.seen_batch(commit.batch_id)) is not None:
            self.duplicate = True
            return seen
        try:
            return self._journal.publish(commit, self._ticket, self._age, defined=self._defined)
        except BatchSeen as seen:
            self.duplicate = True
            return f"{self._journal.own.writer}={seen.revision}"
        except OutcomeUnknownError as error:
            self._sent = error.sent
            raise

    def settle(self, wait: Callable[[float], object]) -> str | None:
        """See `AppendTicket.settle`. Whoever begins a commit next settles the one in doubt: this does. Cost: that of
        the commit again, and 1 LIST.

        Raises:
            SnapshotTooOldError: the history was pruned up to there meanwhile, so that nobody can tell.
        """
        if self._sent is None:
            return None
        own, (revision, uuid) = self._journal.own, self._sent
        own.begin()
        history = self._journal.federation.history(own.writer)
        there = list_from(history.bucket, history.layout, revision)[0].at(revision)
        if prefix_of(uuid) in there:
            return f"{own.writer}={revision}"
        if there or revision > own.state.head.revision:
            return None
        raise SnapshotTooOldError(
            f"{history.where} was pruned up to revision {revision} while nobody knew whether an append to "
            f"{self._journal.table} had become it. `firn log` tells; look there before you append the rows again."
        )


class WriterStaging:
    """Files that a statement needs until it ends. Made before their first PUT."""

    def __init__(self, journal: WriterJournal, what: str) -> None:
        self._age = journal.age(what)
        chunks = journal.own.namer(journal.table, journal.own.begin())
        self.namer: Namer = StagedNamer(chunks.layout, chunks.table, chunks.ticket)

    def check_age(self) -> None:
        self._age.check()


class WriterMaintenance:
    """Replacing and removing files of the connection's own writer."""

    log_length = 1
    """A reader replays from the newest checkpoint, however many transactions a merge has seen."""

    def __init__(self, journal: WriterJournal, op: str) -> None:
        self._journal = journal
        self._op = op
        journal.own.begin()  # what a dead process has claimed is finished, and read then
        self._union = journal.own.load()
        self._age = journal.age(f"{op} of")
        self._ticket = journal.own.begin()
        self.snapshot = journal.snapshot_of(self._union)

    @property
    def writer(self) -> str:
        return self._journal.own.writer

    @property
    def namer(self) -> Namer:
        return self._journal.own.namer(self._journal.table, self._ticket)

    def revivable(self, at: str | int | datetime) -> Snapshot:
        """The snapshot at `at`. Retained transactions keep the own writer's files."""
        own = self._journal.own.writer
        union = self._journal.union_at(at)
        if own not in union.versions:
            raise InvalidInputError(
                f"{at!r} names no revision of {own!r}, the writer of this connection, which can bring back only its "
                "own files."
            )
        return self._journal.snapshot_of(union)

    def check(self) -> None:
        """Nobody can take over: there is no lock outside of this process. `AppendExpiredError` where files that the
        change has written may have been swept."""
        self._age.check()

    def publish(self, commit: Commit) -> str:
        """Commit; the version. Cost: see `Handle.commit`.

        Raises:
            ConflictError: another process of the same writer removed one of the files, or deleted rows of it.
            ForkError, OutcomeUnknownError: see `Handle.commit`.
        """
        version = self._union.versions.get(self._journal.own.writer)
        table = None if version is None else version.state.tables.get(self._journal.table)
        files = {} if table is None else table.files
        named = [*commit.removes, *(path for soft in commit.soft_deletes for path in soft.paths)]
        expected = {path: files[path] for path in named}
        seen = self.snapshot
        beside = frozenset(map(seen.naming.physical, seen.aside))
        if not commit.columns:  # what takes others' places has all columns that the table has
            commit = replace(commit, columns=seen.naming.in_files(seen.columns))
        commit = replace(commit, aside=beside | commit.aside)
        published = self._journal.publish(
            commit, self._ticket, self._age, expected=expected, defined=table is not None
        )
        self._ticket = self._journal.own.begin()
        self._age = self._journal.age(f"{self._op} of")
        return published
