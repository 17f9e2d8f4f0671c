"""When a keeper does what. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.leaderless.maintain.known_log import Waiting

LOOK_CHANCE = 1 / 16
"""With which probability a process looks after an append whether there is anything to do."""
COLD = 1.25
"""A process that hasn't folded waits for so many times as many commits: it would read the whole log first."""
FOLD_BYTES = 4 << 20
"""Bytes of logs at which they are folded, however few."""
OLDEST_MS = 60_000
"""The age of rows in logs at which they are folded, however few."""
CROWDED, LEAST = 128, 16
"""A fold that finds more logs than the first has the next ones begin at half as many, but not below the second."""
MANY_PARTITIONS, COMMITS_A_PARTITION = 32, 8
"""A table of more partitions waits for so many commits of each: a fold writes a file into every one."""
WHOLE_EVERY = 8
"""So many folds after a view of all logs there is one again."""
LOCK_REST_S = 0.2, 0.8
"""How long a keeper rests that has met a held lock, at random between these."""
CHECKPOINT_EVERY = 16
"""So many folds lie between log checkpoints."""
SWEEP_FROM = 256
"""Objects that may go at which a keeper sweeps before a grace has passed."""
ORPHANS_EVERY_S = 86_400.0
AT_ONCE = 8 << 20
"""Bytes up to which files are merged while the lock is held."""
LARGE_MERGE = 256 << 20
"""Bytes from which on a merge isn't for a process that appends."""
NOTE_S = 600.0
"""For how long a keeper keeps others from a merge that takes long."""


@dataclass(frozen=True)
class Pace:
    """At how many waiting commits this process folds: fewer than the table says, while folds find too many."""

    lowered: int | None = None
    calm: int = 0

    def fold_at(self, usual: int) -> int:
        return usual if self.lowered is None else min(self.lowered, usual)

    def found(self, logs: int, usual: int) -> Pace:
        """After a fold that found so many.

        >>> pace = Pace().found(200, 64)
        >>> pace.fold_at(64), pace.found(10, 64).fold_at(64), pace.found(10, 64).found(10, 64).fold_at(64)
        (32, 32, 64)
        """
        if logs > CROWDED:
            return Pace(max(min(LEAST, usual), self.fold_at(usual) // 2))
        return self if self.lowered is None else Pace() if self.calm else Pace(self.lowered, 1)


def wants_fold(
    waiting: Waiting, fold_at: int, *, cold: bool, partitions: int, inlines: bool, now_ms: int
) -> bool:
    """Whether what a LIST shows is worth a fold.

    Args:
        cold: this process hasn't folded the table yet.
        partitions: into how many the last fold wrote.
        inlines: whether appends leave rows in their logs; else only many files are worth anything.
    """
    if not waiting.logs:
        return False
    if not inlines:
        return waiting.logs >= fold_at
    if waiting.bytes >= FOLD_BYTES:
        return True
    if partitions > MANY_PARTITIONS:
        return waiting.logs >= max(fold_at, COMMITS_A_PARTITION * partitions)
    return waiting.logs >= fold_at * (COLD if cold else 1) or now_ms - waiting.oldest_ms >= OLDEST_MS


def oldest_due_s(waiting: Waiting, now_ms: int) -> float | None:
    """In how many seconds the oldest rows that wait are old enough; None if none wait."""
    return max(1.0, (OLDEST_MS - (now_ms - waiting.oldest_ms)) / 1000) if waiting.logs else None


def wants_whole_view(age_s: float, folds: int, settings: LeaderlessSettings) -> bool:
    """Whether all logs have to be read, and not only what is new: what is known may be so old that a cleanup has been
    over it, or appends have come late below it.

    Args:
        age_s: how long ago all logs were read last.
        folds: how many folds were done since, by this process.
    """
    longest_ms = min(settings.landing_ms, settings.grace_ms / 2)
    return folds >= WHOLE_EVERY or age_s * 1000 >= longest_ms


def wants_sweep(eligible: int, age_s: float, settings: LeaderlessSettings) -> bool:
    """Whether to sweep, where something is dead, so many objects may go, and the last sweep was so long ago."""
    return eligible >= SWEEP_FROM or age_s * 1000 >= settings.grace_ms
