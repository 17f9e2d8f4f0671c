"""Group commit: the threads of a process share a record (rule 15).

The first thread leads: it commits alone. Threads that come while its request is in flight wait, and the first of
them commits for all of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

from firn.errors import InvalidInputError, OutcomeUnknownError
from firn.journal.sequence.log import SequenceLog
from firn.journal.sequence.proposal import Outcome, Proposal, commit

LARGEST: Final = 100
"""Transactions in one record at most."""


class Turn(Protocol):
    """The event that wakes a waiting thread: a `threading.Event`."""

    def set(self) -> None: ...

    def wait(self) -> object: ...


class _Waiting:
    """A thread's transaction. `turn` is set when it has an outcome, or is to lead."""

    def __init__(self, proposal: Proposal, turn: Turn) -> None:
        self.proposal = proposal
        self.turn = turn
        self.leads = False
        self.outcome: Outcome | None = None


class GroupCommit:
    """The way of all transactions of a process into one log. Safe to use from several threads.

    `new_turn`: how a thread waits, which simulated ones do by their clock.
    """

    def __init__(self, log: SequenceLog, *, new_turn: Callable[[], Turn] = threading.Event) -> None:
        self.log = log
        self._new_turn = new_turn
        self._mutex = threading.Lock()
        self._queue: list[_Waiting] = []
        self._led = False
        self._pid = os.getpid()

    def commit(self, proposal: Proposal) -> int:
        """The number of the record that it is in. 1 PUT for all that wait; see `proposal.commit`.

        Raises:
            FirnError: it isn't in the log.
            OutcomeUnknownError: it may be in the log.
            InvalidInputError: this process was forked from the one that the transaction is of.
        """
        if os.getpid() != self._pid:
            # The leading thread, and the thread that holds the lock, may not be here.
            raise InvalidInputError(
                f"transaction {proposal.txid} belongs to the process that this one was forked from. Connect "
                "here, and begin another."
            )
        mine = _Waiting(proposal, self._new_turn())
        try:
            with self._mutex:
                self._queue.append(mine)
                mine.leads, self._led = not self._led, True
            if not mine.leads:
                mine.turn.wait()
            if mine.outcome is None:
                self._lead()
        except BaseException:
            self._leave(mine)
            raise
        assert mine.outcome is not None
        if isinstance(mine.outcome, Exception):
            raise mine.outcome
        return mine.outcome

    def _lead(self) -> None:
        """Commit those who wait, and let the next one lead. The caller is the first of them."""
        with self._mutex:
            group, self._queue = self._queue[:LARGEST], self._queue[LARGEST:]
        outcomes: dict[str, Outcome] = {}
        try:
            outcomes = commit(self.log, [waiting.proposal for waiting in group])
        finally:
            for waiting in group:
                waiting.outcome = outcomes.get(waiting.proposal.txid) or OutcomeUnknownError(
                    f"transaction {waiting.proposal.txid}: the thread that was committing it was interrupted; it "
                    "may or may not be committed, look before retrying"
                )
                waiting.turn.set()
            with self._mutex:
                self._pass_on_locked()

    def _pass_on_locked(self) -> None:
        """Let the next one lead."""
        self._led = bool(self._queue)
        if self._queue:
            self._queue[0].leads = True
            self._queue[0].turn.set()

    def _leave(self, interrupted: _Waiting) -> None:
        """Let nobody wait for one who won't come back to lead."""
        with self._mutex:
            if interrupted in self._queue:
                self._queue.remove(interrupted)
                if interrupted.leads:
                    self._pass_on_locked()
