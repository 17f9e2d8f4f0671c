"""Test programs that share a bucket: a store that fails on purpose, and a scheduler driven by a seed.

`World` interleaves clients at every request, `simulate` runs many seeds of one, `explore` every schedule;
`crash_points` stops an operation at each of its requests; `FaultBucket` breaks any real bucket; `RecordedHistory`
tells from what clients saw which isolation their transactions had.
Modules here know nothing of tables: stores, faults, schedules. The room needs `firn[testing]`.
Start reading at `world`, then `faults` for what can go wrong and `gated` for how it happens.
"""

from firn.testing.client import Call, Client, Crashed, SimClock, Solo, Timeline
from firn.testing.crash import CrashMode, CrashPoint, crash_points
from firn.testing.dependencies import ListAppend, Observed, Read
from firn.testing.entropy import seeded_entropy
from firn.testing.explore import Exploration, MakeWorld, Simulation, explore, simulate
from firn.testing.faults import (
    CRASH_AFTER,
    CRASH_BEFORE,
    FAILED,
    LOST,
    LOST_ACK,
    TRUNCATED,
    Fault,
    FaultPlan,
    RandomFaults,
    Rule,
    Script,
    delayed,
    duplicated,
    retried,
    slow,
    stalled,
)
from firn.testing.gated import GatedBucket
from firn.testing.history import Anomaly, RecordedHistory, Recording, Verdict
from firn.testing.schedule import Replay, Seed
from firn.testing.store import SimBucket, SimStore
from firn.testing.world import SimClient, SimulationFailure, World
from firn.testing.wrapped import FaultBucket, InterleavedBucket

__all__ = [
    "CRASH_AFTER",
    "CRASH_BEFORE",
    "FAILED",
    "LOST",
    "LOST_ACK",
    "TRUNCATED",
    "Anomaly",
    "Call",
    "Client",
    "CrashMode",
    "CrashPoint",
    "Crashed",
    "Exploration",
    "Fault",
    "FaultBucket",
    "FaultPlan",
    "GatedBucket",
    "InterleavedBucket",
    "ListAppend",
    "MakeWorld",
    "Observed",
    "RandomFaults",
    "Read",
    "RecordedHistory",
    "Recording",
    "Replay",
    "Rule",
    "Script",
    "Seed",
    "SimBucket",
    "SimClient",
    "SimClock",
    "SimStore",
    "Simulation",
    "SimulationFailure",
    "Solo",
    "Timeline",
    "Verdict",
    "World",
    "crash_points",
    "delayed",
    "duplicated",
    "explore",
    "retried",
    "seeded_entropy",
    "simulate",
    "slow",
    "stalled",
]
