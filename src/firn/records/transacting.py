"""Run a function in a transaction, again when others were faster, and find out what became of a commit."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

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
from firn.journal.sequence.committing import find
from firn.records.store import RecordStore
from firn.records.transaction import TIMEOUT_S, Transaction, begin

T = TypeVar("T")

ATTEMPTS: Final = 30
"""With the waits between them, some half a minute of conflicts."""


def transact(
    store: RecordStore,
    work: Callable[[Transaction], T],
    *,
    serializable: bool = False,
    lock: bool = False,
    timeout_s: float = TIMEOUT_S,
    attempts: int = ATTEMPTS,
) -> T:
    """What `work` returns, when the transaction that it was given has committed; begun anew after a conflict, with
    waits that grow. As `begin` and `Transaction.commit` each time.

    An outcome that isn't known is found out before anything is done again, so `work` counts once.

    Raises:
        ConflictError: others were faster each time; nothing is visible.
        OutcomeUnknownError: it may be committed, and that can't be found out now.
        Exception: whatever `work` raises; nothing is visible, unless it has committed itself.
    """
    if attempts < 1:
        raise InvalidInputError(f"attempts={attempts}: give at least 1.")
    backoff, duplicates = store.backoff(), 0
    for left in reversed(range(attempts)):
        tx = begin(store, serializable=serializable, lock=lock, timeout_s=timeout_s)
        done: list[T] = []
        try:
            with tx:
                done.append(work(tx))
            return done[0]
        except OutcomeUnknownError:
            if not tx.in_doubt:
                raise
            number = settle(store, tx)
            if number is not None and done:
                tx.landed(number)
                return done[0]
            if number is not None or not left:
                raise
        except (ConflictError, SnapshotTooOldError, DuplicateKeyError) as error:
            duplicates += isinstance(error, DuplicateKeyError)
            # A row that appeared meanwhile is seen at the second attempt; if it is in the way then, it stays so.
            if tx.committed is not None or not left or duplicates > 1 or not _may_pass(store, tx, error):
                raise
        if not backoff.wait():
            raise ConflictError("others changed the same rows at each attempt; retry later")
    raise AssertionError("the last attempt returns or raises")


def settle(store: RecordStore, tx: Transaction) -> int | None:
    """What became of a commit whose outcome wasn't known: its number, or None if it isn't in the log and never will
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

    def admit(self, moment: Moment) -> sequence.Transaction:
        return sequence.Transaction(self.txid, self.snapshot)
