"""Everything that one lake table needs to stay small, a round at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from firn.errors import LockHeldError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.maintain.known_log import Waiting, waiting
from firn.keeping import KeepReport, never
from firn.lake.context import LakeContext
from firn.lake.keep.fold import Fold, Memory, fold, merge_large, wants_whole
from firn.lake.keep.policy import (
    CHECKPOINT_EVERY,
    LOCK_REST_S,
    ORPHANS_EVERY_S,
    oldest_due_s,
    wants_fold,
    wants_sweep,
)
from firn.lake.keep.survey import Survey, last_sweep_ms, survey
from firn.runner import in_this_process


@dataclass
class _Sweeps:
    """What a keeper knows of a table's garbage. Times are of the monotonic clock.

    Attributes:
        eligible: objects that might go when all logs were read last.
        first, died: when the oldest and the newest object died that no sweep has been over; None if none is known.
        last: when somebody swept; None if nobody has looked yet.
        orphans: when orphans were looked for, or the first sweep was.
    """

    eligible: int = 0
    first: float | None = None
    died: float | None = None
    last: float | None = None
    orphans: float | None = None

    def note(self, died: float) -> None:
        """Take note of a death."""
        self.first = died if self.first is None else min(self.first, died)
        self.died = died if self.died is None else max(self.died, died)


@dataclass
class TableKeeper:
    """Keeps one lake table on the leaderless log. Not for several threads at once.

    Args:
        alone: the process does nothing else, so that large merges are its business, too.
        chance: gives numbers from 0 to 1, for rests.
    """

    table: LakeContext
    alone: bool = False
    chance: Callable[[], float] = random.random
    memory: Memory = field(default_factory=Memory)
    rest_s: float | None = None
    """In how many seconds there may be something to do again; None if nothing waits."""
    last: Fold | None = None
    """The last fold."""
    _folds: int = 0
    _surveyed: bool = False
    _sweeps: _Sweeps = field(default_factory=_Sweeps)

    def round(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """Do what is due: at most a fold, merges of files, and a sweep. With `force` rows are folded however few, and
        a held lock is waited for until its holder is known to be dead.

        Cost: 1 LIST where there is nothing to do.
        """
        with in_this_process():
            report = self._round(force, ended)
            if force:  # nobody comes back to see whether the lock's holder is dead
                report = self._insist(report, ended)
        return report

    def _round(self, force: bool, ended: Callable[[], bool]) -> KeepReport:
        self.rest_s = None
        report = KeepReport(self.table.name)
        try:
            report += self._fold(force, ended)
            if not ended():
                report += self._sweep()
        except LockHeldError:
            least, most = LOCK_REST_S
            self.rest_s = least + (most - least) * self.chance()
            report += KeepReport(self.table.name, busy=1)
        return report

    def _insist(self, report: KeepReport, ended: Callable[[], bool]) -> KeepReport:
        """Try again while the lock is held, for as long as it takes to know that its holder is dead."""
        clock = self._journal.clock
        until = clock.monotonic() + self._journal.settings.lease_ms / 1000 + LOCK_REST_S[1]
        while report.busy and not ended() and clock.monotonic() < until:
            clock.sleep(self.rest_s or LOCK_REST_S[1])
            later = self._round(True, ended)
            report = replace(report + later, busy=later.busy)
        return report

    def learn(self, table: LakeContext) -> None:
        """Take note of alterations that another handle of the table has read. No request."""
        if table.journal is not self.table.journal:
            self._journal.learn(table.journal.definition)

    def look(self) -> Waiting:
        """See what may be there to fold. 1 LIST."""
        memory, known = self.memory, self.memory.known
        if known is not None and known.newest < memory.counted:
            known = None
        seen = waiting(self._journal.loader, memory.counted, known)
        memory.counted = max(memory.counted, seen.newest)  # the next LIST begins there
        return seen

    def _fold(self, force: bool, ended: Callable[[], bool]) -> KeepReport:
        """Fold, if that is due; then what only all logs show."""
        report, ready = KeepReport(self.table.name), False
        if force or (self.alone and not self._surveyed):
            # Nobody may come back to what a look at the end of the log doesn't show.
            found = self._survey()
            ready = wants_whole(self.table, found.snapshot, self.memory)
        if not force:
            seen = self.look()
            due = self._is_due(seen)
            if not due and self._inlines:
                self._rest(oldest_due_s(seen, self._journal.now_ms()))
            report += self._fold_once() if due else report
        if ready and not report.folds and not ended():
            report += self._fold_once(whole=True)
        return report if ended() else report + self._merge_large()

    def _fold_once(self, *, whole: bool = False) -> KeepReport:
        """A fold, and what comes with some of them: a survey of all logs, the log checkpoint."""
        done = self.last = fold(self.table, self.memory, whole=whole)
        self._folds += done.times
        if done.times:
            self._sweeps.note(self._now)
        if done.survey is not None:
            self._note(done.survey)
        if done.times and self._folds % CHECKPOINT_EVERY < done.times:
            self._journal.checkpoint()
        return KeepReport(self.table.name, done.times, done.commits, done.rows, done.merged)

    def _merge_large(self) -> KeepReport:
        """Merge files without the lock, if any wait for that."""
        if not self.memory.large:
            return KeepReport(self.table.name)
        merged = merge_large(self.table, self.memory, alone=self.alone)
        if merged:
            self._sweeps.note(self._now)
        return KeepReport(self.table.name, folds=int(merged > 0), files_merged=merged)

    def _survey(self) -> Survey:
        """Read all logs: see what a sweep may delete, and what there is to merge."""
        found = survey(self._journal)
        self._note(found)
        return found

    def _note(self, found: Survey) -> None:
        """Remember what all logs have shown."""
        self._surveyed = True
        self._sweeps.eligible = found.eligible
        if found.died_ms:
            self._sweeps.note(self._now - (self._journal.now_ms() - found.died_ms) / 1000)

    def _sweep(self) -> KeepReport:
        """Sweep, if that is due: never less than the table's grace."""
        report, sweeps, journal = KeepReport(self.table.name), self._sweeps, self._journal
        if sweeps.first is None or sweeps.died is None:
            return report
        now, lasting = self._now, journal.lasting()
        keep_s = (lasting.grace_ms + 2 * lasting.max_skew_ms) / 1000
        if not (sweeps.eligible or now - sweeps.first >= keep_s):
            self._rest(sweeps.first + keep_s - now)
            return report
        if sweeps.last is None or now - sweeps.last >= lasting.grace_ms / 1000:
            sweeps.last = now - (journal.now_ms() - last_sweep_ms(journal)) / 1000
        if not wants_sweep(sweeps.eligible, now - sweeps.last, lasting):
            self._rest(sweeps.last + lasting.grace_ms / 1000 - now)
            return report
        orphans = sweeps.orphans is not None and now - sweeps.orphans >= ORPHANS_EVERY_S
        swept = journal.sweep(once=self.memory.lock, orphans=orphans)
        sweeps.last, sweeps.eligible = now, 0
        if orphans or sweeps.orphans is None:
            sweeps.orphans = now
        if now - sweeps.died >= keep_s:
            sweeps.first = sweeps.died = None
        else:
            sweeps.first = now - keep_s
        deleted = len(swept.data_files) + len(swept.logs) + len(swept.orphans)
        return KeepReport(self.table.name, deleted=deleted)

    def _rest(self, seconds: float | None) -> None:
        """Have something to do again in so many seconds, or sooner."""
        if seconds is not None:
            self.rest_s = seconds if self.rest_s is None else min(self.rest_s, seconds)

    def _is_due(self, seen: Waiting) -> bool:
        usual = self.table.definition.fold_at
        return wants_fold(
            seen,
            self.memory.pace.fold_at(usual),
            cold=self.memory.known is None or self.memory.known.newest < self.memory.counted,
            partitions=self.memory.partitions,
            inlines=self._inlines,
            now_ms=self._journal.now_ms(),
        )

    @property
    def _now(self) -> float:
        return self._journal.clock.monotonic()

    @property
    def _inlines(self) -> bool:
        return self.table.definition.inline > 0

    @property
    def _journal(self) -> LeaderlessJournal:
        journal = self.table.journal
        assert isinstance(journal, LeaderlessJournal)
        return journal
