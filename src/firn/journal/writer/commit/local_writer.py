"""The writer that a connection writes as: its handle, opened when it is needed and again when it was closed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

from firn.clock import Clock
from firn.errors import FirnError, HandleClosedError, InvalidInputError
from firn.journal.writer.attempts import persist
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.commit.pending import Age
from firn.journal.writer.federation.federation import Federation, Union
from firn.journal.writer.format.actions import Action
from firn.journal.writer.format.identity import Ticket
from firn.journal.writer.format.layout import ChunkNamer
from firn.journal.writer.format.state import CatalogHead, CatalogState, clock_at
from firn.journal.writer.history.checkpoint import is_due
from firn.journal.writer.history.history import History
from firn.journal.writer.history.loss import check_begun
from firn.journal.writer.settings import EVERY

FOLD_BYTES = 4 << 20
"""So many bytes of rows that stand in the catalog are written into files at once."""
CLOSING_PARTS, CLOSING_BYTES = 16, 1 << 20
"""So many commits with rows, or bytes of them, are written into files as the writer closes. Fewer wait for the next
process: a fold costs it more requests than an append."""

Planner = Callable[[CatalogState, str], Sequence[Action]]
"""The changes of a commit to the catalog as it is right then, with the clock of its rows; raises if it can't be
done any more."""


class BatchSeen(Exception):
    """Raised by a planner: the writer has committed this batch already, at `revision`."""

    def __init__(self, revision: int) -> None:
        self.revision = revision


def clock_of(before: CatalogState) -> str:
    """The clock of the rows that the commit after a state adds."""
    return clock_at(before.head.revision + 1, before.writer)


@dataclass(frozen=True)
class PendingCommit:
    """A commit to be made.

    `batches` are (table, batch id); `summary` is JSON-able, for the history; `ticket`, `replaced` and
    `ages` as `Handle.commit` takes them; `checkpoint_every` are transactions between checkpoints, 0 for none.
    """

    op: str
    plan: Planner
    batches: Sequence[tuple[str, str]] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    ticket: Ticket | None = None
    replaced: Collection[str] = ()
    checkpoint_every: int = 0
    ages: Sequence[Age] = ()


class Author(Protocol):
    """The committer for a table: the connection's writer, or a transaction of it."""

    writer: str

    @property
    def state(self) -> CatalogState: ...

    @property
    def reads_past(self) -> bool:
        """Whether `load` tells what was, not what is."""
        ...

    def load(self) -> Union: ...

    def newest(self) -> Union:
        """All writers as they are now, whatever `load` tells."""
        ...

    def begin(self) -> Ticket: ...

    def namer(self, table: str, ticket: Ticket) -> ChunkNamer: ...

    def commit(self, proposal: PendingCommit) -> CatalogHead: ...

    def maintenance(self, table: str) -> Turns: ...

    def fold(self) -> None:
        """Write rows that stand in the catalog into files, as far as that can be done now."""
        ...


class Transaction(Protocol):
    """A transaction of this process, as far as folds have to know of it."""

    @property
    def changing(self) -> Collection[str]:
        """The tables whose rows mustn't be folded until it ends: it has planned what becomes of them."""
        ...


class Turns:
    """Lets one thread at a time replace files of a table in this process; within its turn it may enter again."""

    def __init__(self) -> None:
        self._lock, self._entered = threading.RLock(), 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._entered += 1

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        self._lock.release()

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Take a turn, unless some thread has one, this one included: whether it was taken."""
        taken = self._lock.acquire(blocking=False)
        try:
            yield taken and not self._entered
        finally:
            if taken:
                self._lock.release()


class OwnWriter(Author):
    """The right to commit under one writer's id. Safe to share between threads: commits take turns.

    Nothing is read before the first use. Other processes under the same id make a commit start over (where
    nothing of it is visible) or fail; each should have an id of its own.
    """

    def __init__(
        self, federation: Federation, writer: str, clock: Clock, fold: Callable[[], None] | None = None
    ) -> None:
        """`fold` writes the rows that stand in the catalog into files, by commits of this writer."""
        self.federation, self.writer, self.clock = federation, writer, clock
        self._handle: Handle | None = None
        self._mutex = threading.RLock()
        self._maintenance: dict[str, Turns] = defaultdict(Turns)
        self._fold, self._keeping, self._rests_until = fold, threading.Lock(), 0
        self._transactions: WeakSet[Transaction] = WeakSet()

    @property
    def history(self) -> History:
        return self.federation.history(self.writer)

    @property
    def state(self) -> CatalogState:
        """The catalog at the handle's head: what this process read or committed last."""
        return self._opened().state

    reads_past = False

    def newest(self) -> Union:
        return self.load()

    def load(self) -> Union:
        """All writers as they are now; see `Federation.load`. Where another process has committed under this
        writer's id, commits go on from there."""
        union = self.federation.load()
        version = union.versions.get(self.writer)
        with self._mutex:
            handle = self._handle
            if handle is not None and version is not None and version.head.revision > handle.head.revision:
                if not handle.closed:
                    with suppress(HandleClosedError):
                        handle.settle()
                self._handle = None
        return union

    def begin(self) -> Ticket:
        """A transaction to come. Free of requests once the handle is open."""
        return self._opened().begin()

    def namer(self, table: str, ticket: Ticket) -> ChunkNamer:
        """Names files of a transaction to come."""
        return self.history.layout.namer(table, ticket)

    def commit(self, proposal: PendingCommit) -> CatalogHead:
        """Make what the proposal plans the next revision.

        Cost and errors: see `Handle.commit`. A checkpoint costs 1 LIST + 2 PUTs more, and before it rows that stand
        in the catalog are written into files. A failure of these is no error: the next commit tries again.
        """
        with self._mutex:
            # Made anew after another process of the same writer has committed first.
            handle, head = persist(lambda: self._committed(proposal), HandleClosedError)
        self._keep(handle, proposal.checkpoint_every)
        return head

    def maintenance(self, table: str) -> Turns:
        """The turns in which threads replace files of a table in this process."""
        with self._mutex:
            return self._maintenance[table]

    def opened(self, transaction: Transaction) -> None:
        """Take note of a transaction, as long as it is there."""
        with self._mutex:
            self._transactions.add(transaction)

    @property
    def changing(self) -> set[str]:
        """The tables whose files open transactions replace or remove."""
        with self._mutex:
            return {name for each in self._transactions for name in each.changing}

    def fold(self) -> None:
        with self._keeping:
            self._folded()

    def close(self) -> None:
        """Write the rows that stand in the catalog into files, if this process has opened it, and they are many,
        whoever has appended them. A failure is no error: nothing is lost by it."""
        if (handle := self._handle) is not None and (
            _inlined(handle.state) >= CLOSING_BYTES or _parts(handle.state) >= CLOSING_PARTS
        ):
            self.fold()

    # -- inside

    def _keep(self, handle: Handle, every: int) -> None:
        """Keep the catalog short, out of turn: a fold waits for no thread, and none for it."""
        if not self._keeping.acquire(blocking=False):
            return  # by another thread, or this is a commit of a fold
        try:
            due = bool(every) and is_due(self.history, handle.head.revision, every=every)
            if due or (_inlined(handle.state) >= FOLD_BYTES and handle.head.revision >= self._rests_until):
                self._folded()
            if due:
                with suppress(FirnError):  # optional, and the commit is acknowledged
                    handle.checkpoint()
        finally:
            self._keeping.release()

    def _folded(self) -> None:
        handle = self._handle
        if self._fold is None or handle is None or not _inlined(handle.state):
            return
        self._rests_until = handle.head.revision + EVERY  # unless all goes well
        with suppress(Exception):  # the commit is acknowledged: nothing must say otherwise
            self._fold()
            if _inlined(self.state) < FOLD_BYTES:  # else a table was left out, and others had a fold a commit
                self._rests_until = 0

    def _committed(self, proposal: PendingCommit) -> tuple[Handle, CatalogHead]:
        handle = self._opened()
        return handle, handle.commit(
            proposal.plan(handle.state, clock_of(handle.state)),
            op=proposal.op,
            batches=proposal.batches,
            summary=proposal.summary,
            ticket=proposal.ticket,
            replaced=proposal.replaced,
            ages=proposal.ages,
        )

    def _opened(self) -> Handle:
        with self._mutex:
            if self._handle is not None and not self._handle.closed:
                # Without a commit in doubt it is free; with one, nothing else can be committed before.
                with suppress(HandleClosedError):
                    self._handle.settle()
            if self._handle is None or self._handle.closed:
                self._handle = self._open()
            return self._handle

    def _open(self) -> Handle:
        history = self.history
        version = history.load()
        if version.head.revision == 0:
            if self.federation.is_table(self.writer):
                raise InvalidInputError(
                    f"{self.writer!r} is a table of {history.bucket.uri(self.federation.prefix)}, and tables and "
                    "writers share one name space. Choose another writer id."
                )
            version = check_begun(history, version)
        if version.head.revision == 0 or self.federation.told is not None:
            self.federation.record_name()
        # Another process, under another URL, may have named the database meanwhile: then this is another history.
        known = version if self.history is history else None
        handle = Handle(self.history, clock=self.clock, version=known)
        # Else what is planned now would meet changes of a process that died.
        while handle.finish_claimed():
            handle = Handle(self.history, clock=self.clock)
        return handle


def _parts(state: CatalogState) -> int:
    """How many commits left rows that stand in a catalog."""
    return sum(
        live.file.inlined is not None
        for table in state.tables.values()
        if table.inlined
        for live in table.files.values()
    )


def _inlined(state: CatalogState) -> int:
    """The size of the rows that stand in a catalog."""
    return sum(table.inlined for table in state.tables.values())
