"""The worlds that the suite runs through, by name."""

from __future__ import annotations

from simulation.leaderless_table import HOUR
from simulation.leaderless_world import Shape

SHAPES: dict[str, Shape] = {
    # Everybody at once.
    "mixed": Shape(),
    "appenders": Shape(appenders=10, mergers=2, restorers=2, streams=0, rounds=3),
    "upkeep": Shape(appenders=3, mergers=3, removers=2, restorers=0, cleaners=2, streams=0, checkpointers=0,
                    readers=1, rounds=5, stalls=3),
    "restorers": Shape(appenders=3, mergers=1, removers=2, restorers=3, cleaners=3, streams=0, checkpointers=0,
                       readers=1, rounds=5, stalls=3),
    # Retries of one batch by several processes.
    "twins": Shape(appenders=6, removers=0, restorers=0, cleaners=2, sweepers=0, streams=0, checkpointers=0,
                   readers=1, rounds=5, stalls=2),
    "streams": Shape(appenders=5, removers=1, cleaners=2, sweepers=1, streams=2, stream_limit=None, readers=0,
                     stalls=2),
    # Long-lived readers and checkpoints while cleanups change logs in place.
    "caches": Shape(appenders=5, removers=1, restorers=0, cleaners=3, sweepers=0, streams=0, checkpointers=2,
                    readers=4, rounds=6, page_size=1, stalls=2),
    "whole-lists": Shape(appenders=5, removers=1, restorers=0, cleaners=4, sweepers=0, streams=0,
                         checkpointers=0, readers=5, rounds=6, page_size=1000, stalls=2),
    # Appends that take longer than orphans live.
    "orphans": Shape(appenders=8, mergers=1, removers=0, restorers=0, cleaners=0, sweepers=6, streams=0,
                     checkpointers=0, readers=1, rounds=5, stalls=4, orphan_age_ms=HOUR // 4),
    "sweepers": Shape(appenders=3, mergers=4, removers=0, restorers=0, cleaners=0, sweepers=6, streams=0,
                      checkpointers=0, readers=1, rounds=6, stalls=5),
    "cleaners": Shape(removers=0, restorers=0, cleaners=8, sweepers=0, streams=0, checkpointers=0, readers=0,
                      rounds=7),
    # No faults, but no LIST of two keys shows one moment.
    "calm": Shape(faults=0, page_size=1),
    # Rows that stand in their logs.
    "inlined": Shape(appenders=6, mergers=2, removers=2, restorers=1, cleaners=2, rounds=5, inline=0.7),
    # Merges that hold the lock only to publish, two at once, beside all else.
    "unlocked": Shape(appenders=5, mergers=1, removers=2, cleaners=1, sweepers=2, rounds=5, inline=0.3, unlocked=2,
                      stalls=2),
    # Such merges that take longer than orphans live.
    "slow-unlocked": Shape(appenders=4, mergers=0, removers=1, restorers=0, cleaners=0, sweepers=6, streams=0,
                           checkpointers=0, readers=1, rounds=5, unlocked=3, stalls=4, orphan_age_ms=HOUR),
    # Views that build on earlier ones, and on checkpoints.
    "windows": Shape(appenders=6, mergers=2, removers=2, restorers=1, cleaners=3, sweepers=1, readers=4, streams=1,
                     checkpointers=3, rounds=6, stalls=2, inline=0.3, unlocked=2, windowed=True),
    "hasty": Shape(appenders=5, mergers=3, removers=1, restorers=1, cleaners=1, sweepers=4, readers=5, streams=0,
                   checkpointers=3, rounds=6, inline=0.3, windowed=True, hasty=True),
    # Keepers, that fold by what is new in the log.
    "keepers": Shape(appenders=6, mergers=1, removers=1, restorers=1, cleaners=2, rounds=6, inline=0.9, folders=3,
                     pace=0.3, windowed=True),
    # Appenders that gather rows, beside those who merge and sweep what they have just sent.
    "gatherers": Shape(appenders=1, gatherers=5, mergers=4, removers=1, restorers=0, cleaners=0, sweepers=6,
                       streams=0, checkpointers=1, rounds=6, stalls=2, pace=0.5, windowed=True, hasty=True),
    # Clocks that are an hour off: such appenders are refused, and nothing is lost.
    "wrong-clocks": Shape(appenders_off_ms=HOUR),
    # A store without conditional puts, under a lock from outside: safe as long as nobody stalls.
    "outside-lock": Shape(conditional=False, stalls=0, cleaners=0),
}  # fmt: skip
