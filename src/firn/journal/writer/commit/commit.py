"""Committing: a handle on one writer's catalog, and the discipline of PUT and LIST (rules 4 to 10).

Every process of a writer PUTs its transaction before it LISTs. If two race for a revision, at least one sees the
other, and only one that sees nothing foreign is acknowledged. No process takes a transaction back: another that saw
it alone may have built on it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from firn.clock import Clock, SystemClock
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    FirnError,
    ForkError,
    HandleClosedError,
    InvalidInputError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from firn.journal.writer.attempts import ATTEMPTS, persist
from firn.journal.writer.commit.claims import Claims, check_claims_can_be
from firn.journal.writer.commit.pending import NOTHING_SENT, Age, Pending, Settled
from firn.journal.writer.format import marker
from firn.journal.writer.format.actions import (
    Action,
    Add,
    CatalogTransaction,
    CommitRecord,
    Remove,
    Upgrade,
)
from firn.journal.writer.format.identity import Ticket, new_uuid, prefix_of
from firn.journal.writer.format.messages import encode_transaction
from firn.journal.writer.format.state import (
    FIRST_FORMAT,
    ROWS_FORMAT,
    CatalogHead,
    CatalogState,
    Refused,
    follow,
)
from firn.journal.writer.history.checkpoint import write_checkpoint
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.history.listing import Names, list_from
from firn.journal.writer.history.objects import Reader


class Discipline(Protocol):
    """How a pending transaction becomes the next revision."""

    def publish(self, pending: Pending, *, again: bool) -> Settled:
        """`again`: it was sent before, and no answer came.

        Raises:
            ConflictError: it isn't the next revision.
            OutcomeUnknownError: nobody can tell yet.
            StoreError: nothing was sent.
        """
        ...


class Handle:
    """The right of this process to commit, as long as nobody else uses the writer's id. Safe for threads.

    Opening costs what `History.load` does. Any error that leaves doubt closes it: open another one.
    """

    def __init__(
        self, history: History, *, clock: Clock | None = None, version: CatalogVersion | None = None
    ) -> None:
        """`version`: as it was just loaded, if it was. Raises `ForkError` where the history has a fork that nobody
        has decided (rule 4)."""
        version = version or history.load()
        if version.fork is not None:
            raise ForkError(
                f"{history.where} has {version.fork}: two processes wrote under the writer id "
                f"{history.layout.writer!r}. Stop all but one of them and choose a side with "
                "`firn repair --keep UUID`."
            )
        self.history = history
        self.clock = clock or SystemClock()
        self._state = version.state
        self._discipline = self._chosen_discipline()
        self._mutex = threading.Lock()
        self._pending: Pending | None = None
        self._closed: FirnError | None = None

    @property
    def state(self) -> CatalogState:
        """The catalog at this handle's head."""
        return self._state

    @property
    def head(self) -> CatalogHead:
        return self._state.head

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def begin(self) -> Ticket:
        """The next transaction's revision and uuid. Free of requests."""
        self._check_open()
        # Never the same one twice: files of a commit that failed must not count as those of another.
        return Ticket(self.head.revision + 1, new_uuid(), self.head.uuid)

    def commit(
        self,
        actions: Sequence[Action],
        *,
        op: str,
        batches: Sequence[tuple[str, str]] = (),
        summary: Mapping[str, Any] | None = None,
        ticket: Ticket | None = None,
        replaced: Collection[str] = (),
        ages: Sequence[Age] = (),
    ) -> CatalogHead:
        """Make `actions` the next revision; its data files are in the bucket already. All or nothing.

        Cost: 1 PUT and 2 LISTs from the head on; with claims 2 PUTs and 1 GET. 1 PUT more, of a marker, unless it
        only adds files that were begun with `ticket`, or with claims rows that stand in the catalog, and removes
        files that these replace.

        Args:
            actions: in order; each is checked against the ones before.
            op: what was done, for the history: "append", "merge", …
            batches: (table, batch id) of what this commit makes a no-op from now on.
            summary: JSON-able, for the history.
            ticket: from `begin`, where data files name the transaction. Any number may be under way: one that
                was overtaken commits all the same, as the next revision there is.
            replaced: the paths that the files which this ticket named say that they replace.
            ages: of the data files.

        Raises:
            AppendExpiredError: sweep may have deleted data files by now. Nothing of this is visible.
            InvalidInputError: the actions can't follow this state. Nothing was sent.
            HandleClosedError: another process committed first. Nothing of this is visible.
            ForkError: another process commits at the same time. Not acknowledged.
            OutcomeUnknownError: it was sent and no answer came; `settle` sends it again.
            StoreError: nothing was sent; the handle can be used again.
        """
        with self._mutex:
            self._check_open()
            chosen = self.begin() if ticket is None or self._is_overtaken(ticket) else ticket
            pending = replace(self._prepared(actions, op, batches, summary or {}, chosen), ages=ages)
            self._check_replaced(pending, replaced)
            if marker.is_due(self.history.layout, pending.transaction, () if chosen != ticket else replaced):
                self._mark(pending.transaction)
            for age in ages:
                age.check()
            self._pending = pending
            return self._published(pending, again=False)

    def settle(self) -> CatalogHead:
        """Look after a commit whose outcome is unknown: send the same bytes again under the same name.

        Cost and errors as `commit`. Without such a commit it returns the head. If its data files may have been
        swept meanwhile, nothing is sent and the handle is closed: earlier requests have landed by now, or never
        will.
        """
        with self._mutex:
            if self._pending is None:
                self._check_open()
                return self.head
            if any(age.is_over for age in self._pending.ages):
                raise self._given_up(self._pending)
            return self._published(self._pending, again=True)

    def finish_claimed(self) -> bool:
        """Put the next transaction for a process that died after it had claimed it; if there is one, open another
        handle. 1 GET by claims."""
        return isinstance(self._discipline, Claims) and self._discipline.finish_next(self.head)

    def checkpoint(self) -> bool:
        """Write a checkpoint of the head; False where its revision isn't decided. 1 LIST + 2 PUTs."""
        with self._mutex:
            self._check_open()
            return write_checkpoint(self.history, self._state)

    # -- inside

    def _chosen_discipline(self) -> Discipline:
        """A history is kept by one discipline from its first transaction on: they don't see each other."""
        bucket, head = self.history.bucket, self.head
        if head.claimed:
            check_claims_can_be(bucket, self.history.layout, "Open")
        claimed = bucket.capabilities.conditional_put if head.uuid is None else head.claimed
        self._claimed = claimed
        return Claims(self.history.reader) if claimed else PutAndList(self.history.reader)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed
        if self._pending is not None:
            raise OutcomeUnknownError(
                f"{self._name_of(self._pending)} was sent and no answer came, so nothing can be committed after it "
                "with this handle. Call settle(), which sends it again."
            )

    def _name_of(self, pending: Pending) -> str:
        return self.history.bucket.uri(pending.key)

    def _prepared(
        self,
        actions: Sequence[Action],
        op: str,
        batches: Sequence[tuple[str, str]],
        summary: Mapping[str, Any],
        ticket: Ticket,
    ) -> Pending:
        head = self.head
        time_ms = max(self.clock.now_ms(), head.time_ms)
        layout = self.history.layout
        actions, version = self._upgraded(actions)
        record = CommitRecord(
            ticket.uuid, head.uuid, time_ms, op, tuple(batches), dict(summary), self._claimed
        )
        transaction = CatalogTransaction(
            layout.writer, layout.database, ticket.revision, tuple(actions), record, version
        )
        try:
            state = follow(self._state, transaction)
            body = encode_transaction(transaction)
        except Refused as refused:
            raise InvalidInputError(
                f"{op} can't be committed to {self.history.where} as revision {ticket.revision}: it {refused}."
            ) from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{op} can't be written to {self.history.where}: {error}.") from error
        return Pending(
            layout.transaction_key(ticket.revision, ticket.uuid), transaction, body, self.head, state
        )

    def _upgraded(self, actions: Sequence[Action]) -> tuple[Sequence[Action], int]:
        """The actions, behind the upgrades that they need, and the catalog's format after them. Older Firns can't
        read a catalog of a newer format: so only the first rows that stand in it upgrade it."""
        version, upgrades = self._state.format, []
        if self.head.revision == 0:
            upgrades.append(Upgrade(FIRST_FORMAT))
        if version < ROWS_FORMAT and any(isinstance(a, Add) and a.file.inlined is not None for a in actions):
            version = ROWS_FORMAT
            upgrades.append(Upgrade(version))
        return (*upgrades, *actions), version

    def _is_overtaken(self, ticket: Ticket) -> bool:
        return (ticket.revision, ticket.previous) != (self.head.revision + 1, self.head.uuid)

    def _check_replaced(self, pending: Pending, replaced: Collection[str]) -> None:
        """A commit must remove the files that its own files say they replace: rebuild and collect believe them."""
        removed = {action.path for action in pending.transaction.actions if isinstance(action, Remove)}
        for path in replaced:
            if path not in removed:
                raise InvalidInputError(
                    f"{pending.transaction.commit.op} can't be committed to {self.history.where}: a file of it "
                    f"replaces {path}, which it doesn't remove."
                )

    def _mark(self, transaction: CatalogTransaction) -> None:
        """Write what its files can't tell. Nothing was committed if that fails."""
        layout, bucket = self.history.layout, self.history.bucket
        key = layout.marker_key(transaction.revision, transaction.uuid)
        body = marker.encode_marker(layout, transaction)
        try:
            persist(lambda: bucket.put(key, body), OutcomeUnknownError)
        except OutcomeUnknownError as error:
            raise StoreUnavailableError(
                f"{bucket.uri(key)} was sent and no answer came. Nothing was committed: try again."
            ) from error

    def _given_up(self, pending: Pending) -> HandleClosedError:
        self._pending = None
        self._closed = HandleClosedError(
            f"{self._name_of(pending)} was sent long ago, no answer came, and its data files may have been swept "
            "since, so it isn't sent again. Look with `firn log` whether it landed, and open the catalog again."
        )
        return self._closed

    def _published(self, pending: Pending, *, again: bool) -> CatalogHead:
        try:
            settled = self._discipline.publish(pending, again=again)
        except OutcomeUnknownError as error:
            error.sent = pending.revision, pending.uuid
            raise
        except (ConflictError, CorruptObjectError) as error:
            self._closed = error
            self._pending = None
            raise
        except NOTHING_SENT:
            if not again:
                self._pending = None
            raise
        self._state = pending.state
        self._pending = None
        self.history.advance(pending.before, pending.state)
        if settled is Settled.THEN_CLOSE:
            self._closed = HandleClosedError(
                f"{self.history.where}: another process has committed after revision {self.head.revision} under the "
                f"writer id {self.history.layout.writer!r}. Stop one of them, or open the catalog again."
            )
        return self.head


class PutAndList:
    """Rules 5 to 10, for stores without conditional puts."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def publish(self, pending: Pending, *, again: bool) -> Settled:
        sent = again
        if not again:
            self._check_head(pending.before)
        elif (found := self._look(pending)) is not None:
            return found
        for _ in range(ATTEMPTS):
            try:
                self.reader.bucket.put(pending.key, pending.body)
                sent = True
            except OutcomeUnknownError:
                sent = True
            except NOTHING_SENT:
                if not sent:
                    raise
            if (found := self._look(pending)) is not None:
                return found
        raise self._unknown(pending)

    def _check_head(self, head: CatalogHead) -> None:
        """Rule 5. This doesn't judge a rival at the head: a writer that saw the head alone may go on (rule 9)."""
        names, _ = list_from(self.reader.bucket, self.reader.layout, head.revision)
        where = self.reader.bucket.uri(self.reader.layout.root)
        if above := names.above(head.revision):
            raise HandleClosedError(
                f"{self.reader.where(above[0])} was written by another process under the same writer id. Nothing of "
                "this commit is visible: stop one of them, or open the catalog again."
            )
        if head.uuid is None:
            return
        prefix = prefix_of(head.uuid)
        if foreign := names.foreign(head.revision, prefix, checkpoints_only=True):
            raise ForkError(
                f"{self.reader.where(foreign[0])} is a checkpoint of another transaction than this handle's head "
                f"{prefix}: another process has decided against it. Look with `firn log` what counts, and open the "
                "catalog again."
            )
        if prefix not in names.at(head.revision):
            raise HandleClosedError(
                f"{where} has lost revision {head.revision}, which this handle had committed or read. Open the "
                f"catalog again; `firn rebuild --writer {self.reader.layout.writer}` brings back what the data files "
                "tell."
            )

    def _look(self, pending: Pending) -> Settled | None:
        """Rules 7 and 8, by a LIST that begins after the PUT; None where it isn't there and nothing is in its way."""
        try:
            names, _ = list_from(self.reader.bucket, self.reader.layout, pending.revision)
            return self._judged(pending, names)
        except StoreError as error:
            raise self._unknown(pending) from error

    def _judged(self, pending: Pending, names: Names) -> Settled | None:
        prefix = prefix_of(pending.uuid)
        here = prefix in names.transactions.get(pending.revision, ())
        rivals, above = names.foreign(pending.revision, prefix), names.above(pending.revision)
        if not rivals and not above:
            return Settled.DONE if here else None
        if here and not rivals and self._are_children(pending, names):
            return Settled.THEN_CLOSE
        first = (rivals or above)[0]
        raise ForkError(
            f"{self.reader.where(first)} was written by another process at the same time as "
            f"{self.reader.bucket.uri(pending.key)}, under the same writer id. This commit isn't acknowledged: stop "
            "one of the processes; if the fork stays, choose a side with `firn repair --keep UUID`."
        )

    def _are_children(self, pending: Pending, names: Names) -> bool:
        """Whether every transaction right above names this one as the one before it. 1 GET each."""
        nodes = names.nodes(pending.revision + 1, pending.revision + 1)
        found = self.reader.transactions(nodes).values()
        return bool(nodes) and all(
            isinstance(t, CatalogTransaction) and t.commit.previous == pending.uuid for t in found
        )

    def _unknown(self, pending: Pending) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self.reader.bucket.uri(pending.key)} was sent and no answer came: this commit may be visible, now or "
            "later. Don't repeat it on this connection, whose next commit sends the same bytes again first, but for "
            "an append with a batch_id. `firn log` shows what has landed."
        )
