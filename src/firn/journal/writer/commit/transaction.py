"""A transaction gathers commits of several tables into one."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.writer.commit.local_writer import (
    Author,
    BatchSeen,
    OwnWriter,
    PendingCommit,
    Turns,
    clock_of,
)
from firn.journal.writer.federation.federation import Union
from firn.journal.writer.format.actions import APPENDS, IN_PLACE, Action, Add
from firn.journal.writer.format.identity import Ticket
from firn.journal.writer.format.layout import ChunkNamer
from firn.journal.writer.format.state import CatalogHead, CatalogState, extend


class Gathering(Author):
    """Stands for the connection's writer while a transaction lasts: takes commits and publishes none of them.

    All of the transaction reads one union of the writers, with what it has done itself so far.
    """

    def __init__(self, own: OwnWriter) -> None:
        self.own, self.writer = own, own.writer
        own.begin()  # what a dead process has claimed is finished, and read then
        self._union = own.load()
        self._ticket = own.begin()
        self._draft = _Draft(own.state, self._ticket)
        self._proposals: list[PendingCommit] = []
        self._ops: list[dict[str, Any]] = []
        self._ended = False
        self._changing: set[str] = set()
        self._mutex = threading.RLock()
        own.opened(self)

    @property
    def changing(self) -> Collection[str]:
        """The tables of which it replaces files, or removes some, until it ends."""
        return () if self._ended else tuple(self._changing)

    @property
    def state(self) -> CatalogState:
        return self._draft.state

    reads_past = True

    def newest(self) -> Union:
        return self.own.load()

    def load(self) -> Union:
        """The union that the transaction began with, and what it has done."""
        return self._union.with_state(self.state)

    def begin(self) -> Ticket:
        self._check()
        return self._ticket

    def namer(self, table: str, ticket: Ticket) -> ChunkNamer:
        return self.own.namer(table, ticket)

    def maintenance(self, table: str) -> Turns:
        self._changing.add(table)
        return self.own.maintenance(table)

    def fold(self) -> None:
        """Nothing: what a transaction reads stays as it is."""

    def commit(self, proposal: PendingCommit) -> CatalogHead:
        """Take note of a commit. Nothing is written."""
        with self._mutex:
            self._check()
            actions = self._draft.add(len(self._proposals), proposal)
            self._proposals.append(proposal)
            added = [action.file.path for action in actions if isinstance(action, Add)]
            in_place = {IN_PLACE: added} if added and proposal.op not in APPENDS else {}
            self._ops.append({"op": proposal.op, **proposal.summary, **in_place})
            return self.state.head

    def publish(self, *, plain: bool = False) -> CatalogHead | None:
        """Commit all of it as one revision; None where there is nothing. It can't be used any more. If
        it is `plain`, a single commit stays what it is, and is no transaction.

        Cost and errors: see `OwnWriter.commit`.
        """
        with self._mutex:
            self._check()
            self._ended = True
            if not self._proposals:
                return None
            if plain and len(self._proposals) == 1:
                return self.own.commit(self._proposals[0])
            return self.own.commit(
                PendingCommit(
                    "transaction",
                    lambda state, _: self._redone(state),
                    batches=[batch for each in self._proposals for batch in each.batches],
                    summary={"ops": self._ops},
                    ticket=self._ticket,
                    replaced=[path for each in self._proposals for path in each.replaced],
                    ages=[age for each in self._proposals for age in each.ages],
                    checkpoint_every=min(
                        (each.checkpoint_every for each in self._proposals if each.checkpoint_every),
                        default=0,
                    ),
                )
            )

    def abandon(self) -> None:
        """End it without a commit; files that it wrote are orphans."""
        self._ended = True

    def _check(self) -> None:
        if self._ended:
            raise InvalidInputError(
                "this transaction has ended, and nothing can be added to it. Begin another one with "
                "db.writer_transaction()."
            )

    def _redone(self, base: CatalogState) -> list[Action]:
        """All of it over the catalog as it is by now. A batch that was committed since is left out."""
        draft = _Draft(base, self._ticket)
        for number, proposal in enumerate(self._proposals):
            with suppress(BatchSeen):
                draft.add(number, proposal)
        return draft.actions


class _Draft:
    """The changes of several commits, one after another, each on top of those before it."""

    def __init__(self, base: CatalogState, ticket: Ticket) -> None:
        self.state = self._base = base
        self.actions: list[Action] = []
        self._ticket = ticket

    def add(self, number: int, proposal: PendingCommit) -> Sequence[Action]:
        """The proposal's changes; raises what its plan raises."""
        base = self._base.head
        # "!" is in no writer's name; a later commit's rows are newer
        found = proposal.plan(self.state, f"{clock_of(self._base)}!{number:06d}")
        head = CatalogHead(base.revision + 1, self._ticket.uuid, base.time_ms, base.claimed)
        self.state = extend(self.state, head.revision, found, proposal.batches, head)
        self.actions.extend(found)
        return found
