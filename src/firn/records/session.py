"""A process's share in a database of record tables: one view of its log for all threads, and what applies commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.concurrency.aio import Threads
from firn.concurrency.at_exit import unclosed
from firn.errors import DatabaseClosedError
from firn.records.apply.commit_applier import Applier
from firn.records.definition.definition import RecordDefinition
from firn.records.definition.settings import ATTEMPTS
from firn.records.objects.store import RecordStore
from firn.records.write.retry import transact
from firn.records.write.transaction import TIMEOUT_S, Transaction, begin
from firn.units import Duration, parse_duration

T = TypeVar("T")

_AT_EXIT_S: Final = 5.0

CALLS: Final = 128
"""Calls of asyncio that are under way at once: as many commits as go into one record, and some reads."""


class RecordSession:
    """Makes transactions. Safe to share between threads; a forked child begins its own view of the log.

    Making one costs no request and starts no thread. The first commit starts the one that brings commits into rows
    and indices, which readers would else lay over what they read; what is left at the end of the process is
    applied then, or by whoever comes next.

    Args:
        bucket: where the database is.
        prefix: its key prefix, without a trailing slash; "" for the bucket's root.
        clock: time; simulations turn their own.
        background: whether commits are applied by a thread.
        owner: whose end is the session's, too.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        clock: Clock | None = None,
        background: bool = True,
        owner: object = None,
    ) -> None:
        self.owner, self._closed = owner, False
        self._bucket, self._prefix = bucket, prefix
        self._clock: Clock = clock or SystemClock()
        self._background = background
        self._mutex = threading.Lock()
        self._store: RecordStore | None = None
        self._applier: Applier | None = None
        self.threads = Threads(CALLS, owner=owner)
        """Those in which asyncio's calls of this database wait."""

    @property
    def store(self) -> RecordStore:
        """The database as the process knows it. No request."""
        with self._mutex:
            if self._closed:
                raise DatabaseClosedError(
                    f"the connection to {self._bucket.uri(self._prefix)} is closed: connect again."
                )
            if self._store is None:
                self._store = RecordStore(self._bucket, self._prefix, clock=self._clock)
                if self._background:
                    self._applier = Applier(self._store)
                    self._store.committed = self._applier.poke
                unclosed.add(self)
            return self._store

    def definition(self, created: RecordDefinition) -> RecordDefinition:
        """A table's definition as it was altered, as far as the process knows. No request."""
        store = self._store
        head = None if store is None else store.log.known
        state = None if head is None else head.catalog.get(created.name)
        if store is None or state is None or state.generation != created.generation:
            return created
        return store.definition_in(created, state)

    def begin(
        self,
        *,
        serializable: bool = False,
        timeout: Duration = TIMEOUT_S,
        lock: bool = False,
        new: Callable[..., Transaction] = Transaction,
    ) -> Transaction:
        """See `Database.begin`. `new` makes the transaction."""
        seconds = parse_duration(timeout)
        return begin(self.store, serializable=serializable, lock=lock, timeout_s=seconds, new=new)

    def transact(
        self,
        work: Callable[[Any], T],
        *,
        serializable: bool = False,
        timeout: Duration = TIMEOUT_S,
        lock: bool = False,
        attempts: int = ATTEMPTS,
        new: Callable[..., Transaction] = Transaction,
    ) -> T:
        """See `Database.transact`. `new` makes the transactions."""
        seconds = parse_duration(timeout)
        return transact(
            self.store,
            work,
            serializable=serializable,
            lock=lock,
            timeout_s=seconds,
            attempts=attempts,
            new=new,
        )

    def close(self) -> None:
        """Apply what is left of own commits, and begin no transaction any more."""
        self._closed = True
        if self._store is not None:
            self._store.closed = True
        unclosed.discard(self)
        self._close_at_exit()

    def _close_at_exit(self) -> None:
        if self._applier is not None:
            self._applier.finish(_AT_EXIT_S)

    def _orphaned(self) -> None:
        """In a forked child: the parent's threads aren't there, and a lock of theirs may never be free."""
        self._mutex = threading.Lock()
        self._store = self._applier = None
