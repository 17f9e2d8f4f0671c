"""Apply commits in the background: each process its own at once, those of others if nobody seems to do it."""

from __future__ import annotations

import logging
import random
import threading
import weakref
from dataclasses import dataclass
from typing import Final

from firn.concurrency.background import Background
from firn.errors import ConflictError, CorruptObjectError, FirnError
from firn.journal.sequence import Horizon
from firn.records.apply.apply import apply, apply_only, apply_own
from firn.records.objects.store import RecordStore

IDLE_S: Final = 2.0
"""After so long without commits, all are told what is applied (rule 21)."""

TELLS: Final = 256
"""After so many commits all are told, too, however busy this process is: who begins looks behind that."""

PATIENCE_S: Final = 3.0
"""How long commits of others are left to them, and as long again at most: so that one of all processes is the first
to apply what somebody left behind, and the others hear of it."""

HOT: Final = 32
"""Versions of a row that was written, from which on that took long."""

RESTS: Final = 4
"""Then it rests for so many times as long, unless many commits wait by then."""

REST_S: Final = 0.5
"""Seconds of that, at most."""

log = logging.getLogger("firn.records")


@dataclass(frozen=True)
class _Waiting:
    """Record `oldest` isn't applied, as far as is known; `upto` was the last one when that was noticed."""

    oldest: int
    upto: int
    until_s: float


class Applier:
    """A thread that applies what was committed, until its session is gone or the process ends.

    Others apply their own commits, and tell so in their next record. A process that crashed doesn't:
    so what nobody has told of for `PATIENCE_S` is applied by whoever runs.
    """

    def __init__(self, store: RecordStore, *, rng: random.Random | None = None) -> None:
        self._store = store
        self._random = rng or random.Random()
        self._mutex = threading.Lock()
        self._thread: Background | None = None
        self._told = 0
        self._begun: int | None = None  # what was applied at first, or when all were told last
        self._waiting: _Waiting | None = None
        self._damaged = ""
        self._rests_until_s = 0.0

    def poke(self) -> None:
        """Something was committed."""
        with self._mutex:
            if self._thread is None:
                me = weakref.ref(self)
                self._thread = Background("firn-applier", lambda: _work(me), _failed, first=0.0)
                weakref.finalize(self, self._thread.stop, 0.0)
        self._thread.poke()

    def work(self) -> float | None:
        """Apply what there is, and when there has been nothing for a while, say so; until when to wait. As
        `apply_own`; 1 GET, 1 PUT to say it; every few seconds while commits of others seem to wait: as `refresh`,
        1 GET, and as `apply`."""
        try:
            if self._begun is None:
                self._begun = self._store.log.applied
            resting_s = self._rests_until_s - self._store.clock.monotonic()
            if resting_s > 0 and self._store.log.lag < self._store.max_lag // 2:
                return min(resting_s, REST_S)
            busy = self._apply_own()
            left_s = self._left_s()
            if left_s is not None and left_s <= 0:
                self._apply_others()
                left_s = self._left_s()
            elif not busy or self._store.log.applied - self._begun >= TELLS:
                self._tell()
        except ConflictError as error:
            log.info("commits are applied later: %s", error)
            return IDLE_S
        except CorruptObjectError as error:
            if str(error) != self._damaged:
                log.error("commits can't be applied, readers lay them over rows: %s", error)
            self._damaged = str(error)
            return 2 * PATIENCE_S
        if busy:
            return IDLE_S if left_s is None else min(IDLE_S, left_s)
        return left_s

    def _apply_own(self) -> bool:
        """Whether there was anything to apply. A row that changes all the time has many versions, and is written with
        all of them: so that is done more rarely, for more commits at once."""
        began_s, self._store.widest = self._store.clock.monotonic(), 0
        busy = apply_own(self._store) > 0
        ended_s = self._store.clock.monotonic()
        if self._store.widest >= HOT:
            self._rests_until_s = ended_s + min(RESTS * (ended_s - began_s), REST_S)
        return busy

    def finish(self, seconds: float) -> None:
        """The process ends: apply what is left, unless that takes too long. Nothing is lost, anyone may do it."""
        if self._thread is None:
            return
        self._thread.stop(seconds)
        try:
            if not self._thread.running:
                apply(self._store)
                self._tell()
        except FirnError as error:
            log.info("commits are left for others to apply: %s", error)

    def _left_s(self) -> float | None:
        """How long others have yet to tell that they applied the oldest record that waits; None if none does."""
        pending = self._store.log.pending()
        now_s = self._store.clock.monotonic()
        if not pending:
            self._waiting = None
            return None
        oldest = pending[0].number
        if self._waiting is None or self._waiting.oldest != oldest:
            patience_s = PATIENCE_S * (1 + self._random.random())
            self._waiting = _Waiting(oldest, pending[-1].number, now_s + patience_s)
        return self._waiting.until_s - now_s

    def _apply_others(self) -> None:
        """Apply what has waited for too long, if nobody has told yet that it is applied."""
        waiting, sequence = self._waiting, self._store.log
        assert waiting is not None
        self._told = sequence.learn(sequence.store.horizon()).applied
        sequence.refresh()
        apply_only(self._store, range(waiting.oldest, waiting.upto + 1))
        self._tell()

    def _tell(self) -> None:
        applied = self._begun = self._store.log.applied
        if applied > self._told:
            self._store.log.learn(self._store.log.store.raise_horizon(Horizon(applied=applied)))
            self._told = applied


def _work(ref: weakref.ref[Applier]) -> float | None:
    applier = ref()
    return None if applier is None else applier.work()


def _failed(error: BaseException) -> None:
    log.error("commits aren't applied any more in the background, readers lay them over rows: %s", error)
