"""What a table needs beside folds: a look at all of its log, without the lock. Whoever acts on it looks again."""

from __future__ import annotations

from dataclasses import dataclass

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.maintain.cleanup import plan_cleanup
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.journal.leaderless.replay.loader import Loaded, Scope
from firn.journal.leaderless.replay.replay import ReplayedState
from firn.journal.model import Snapshot


@dataclass(frozen=True)
class Survey:
    """The table now; how many objects a sweep may delete, and when the newest died that it may delete now or later, 0
    if none has."""

    snapshot: Snapshot
    eligible: int
    died_ms: int


def survey(journal: LeaderlessJournal) -> Survey:
    """1 LIST sequence + 1 GET a log that isn't known."""
    loaded = journal.loader.load(scope=Scope.MAINTENANCE)
    journal.check_there(loaded.listed)
    return surveyed(journal, journal.fold(loaded.logs), loaded)


def surveyed(journal: LeaderlessJournal, state: ReplayedState, loaded: Loaded) -> Survey:
    """What a view of all logs shows. No request."""
    lasting = journal.lasting()
    before_ms = journal.now_ms() - lasting.grace_ms - 2 * lasting.max_skew_ms
    plan = plan_cleanup(state, loaded.listed, before_ms=before_ms)
    data = sum(journal.layout.owns(path) for path in plan.data)
    died_ms = max((log.t for log in state.logs if log.tombstones or log.dead), default=0)
    return Survey(state.snapshot(), data + len(plan.logs), died_ms)


def last_sweep_ms(journal: LeaderlessJournal) -> int:
    """When anybody swept last, 0 if nobody has. 1 GET."""
    sweeps = read_horizon(journal.log_bucket, journal.layout).sweeps
    return max((int(each["t"]) for each in sweeps), default=0)
