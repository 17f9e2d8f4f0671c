"""Run a function in a transaction, again when others were faster, and find out what became of a commit."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    FirnError,
    InvalidInputError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StaleObjectError,
    TransactionClosedError,
    TransactionTimedOutError,
)
from firn.journal import sequence
from firn.journal.sequence import Moment
from firn.journal.sequence.proposal import find
from firn.records.definition.settings import ATTEMPTS
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import TIMEOUT_S, Transaction, begin

T = TypeVar("T")


def transact(
    store: RecordStore,
    work: Callable[[Any], T],
    *,
    serializable: bool = False,
    lock: bool = False,
    timeout_s: float = TIMEOUT_S,
    attempts: int = ATTEMPTS,
    new: Callable[..., Transaction] | None = None,
) -> T:
    """See `Database.transact`. An outcome that isn't known is found out before anything is done again, so `work`
    counts once."""
    tries = Attempts(store, attempts)
    while True:
        tx = begin(store, serializable=serializable, lock=lock, timeout_s=timeout_s, new=new)
        done: list[T] = []
        try:
            with tx:
                done.append(work(tx))
            return done[0]
        except MAY_PASS as error:
            pause = tries.after(tx, error, worked=bool(done))
            if pause is None:
                return done[0]
        store.clock.sleep(pause)


MAY_PASS: Final = (OutcomeUnknownError, ConflictError, SnapshotTooOldError, DuplicateKeyError)
"""Errors of an attempt after which there may be another."""


class Attempts:
    """The attempts at one transaction: what comes after one that failed. Callers that wait in a thread and
    those that await ask here alike."""

    def __init__(self, store: RecordStore, most: int) -> None:
        if most < 1:
            raise InvalidInputError(f"attempts={most}: give at least 1.")
        self._store, self._left = store, most
        self._backoff = store.backoff()
        self._duplicates = 0

    def after(self, tx: Transaction, error: FirnError, *, worked: bool) -> float | None:
        """The seconds to wait before all is begun anew; None if the transaction is committed all the same.

        `worked`: whether the work had come to its end. Raises what is to be told, `error` for the most part. As
        `settle` where the outcome isn't known, else no request.
        """
        self._left -= 1
        if isinstance(error, OutcomeUnknownError):
            if not tx.in_doubt:
                raise error
            number = settle(self._store, tx)
            if number is not None and worked:
                tx.landed(number)
                return None
            if number is not None or not self._left:
                raise error
        else:
            self._duplicates += isinstance(error, DuplicateKeyError)
            # A row that appeared meanwhile is seen at the second attempt; if it is in the way then, it stays so.
            over = tx.committed is not None or not self._left or self._duplicates > 1
            if over or not _may_pass(self._store, tx, error):
                raise error
        pause = self._backoff.next_pause()
        if pause is None:
            raise ConflictError("others changed the same rows at each attempt; retry later")
        return pause


def settle(store: RecordStore, tx: Transaction) -> int | None:
    """The outcome of a commit, where it wasn't known: its number, or None if it isn't in the log and never will
    be. As `refresh`, 1 PUT and 1 GET a record since.

    An empty commit takes the next number, so that whatever is still under way comes too late.

    Raises:
        OutcomeUnknownError: it can't be told now.
    """
    try:
        upto = store.group.commit(_Nothing(store.log.refresh().number))
        return find(tx.txid, store.log.records(tx.snapshot, upto))
    except OutcomeUnknownError:
        raise
    except FirnError as error:
        raise OutcomeUnknownError(
            f"transaction {tx.txid} may or may not be committed, and finding out failed: {error}"
        ) from error


def _may_pass(store: RecordStore, tx: Transaction, error: FirnError) -> bool:
    """Whether another attempt may go better."""
    if isinstance(error, TransactionClosedError | TransactionTimedOutError):
        return False
    if isinstance(error, StaleObjectError):
        return not error.lasting
    if isinstance(error, DuplicateKeyError):
        return store.log.head().number > tx.snapshot
    return True


@dataclass(frozen=True)
class _Nothing:
    """A transaction without writes, which goes into the log all the same."""

    snapshot: int
    txid: str = field(default_factory=lambda: secrets.token_hex(16))

    def admit(self, moment: Moment) -> sequence.LogTransaction:
        return sequence.LogTransaction(self.txid, self.snapshot)
