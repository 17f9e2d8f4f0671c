"""What a process does that works on record tables until it is killed: `main`.

Its transactions are those of the simulation's clients. Of each it says what it saw and is about to commit, and then
what became of it, as lines of base64; what it was committing when it died is of unknown outcome.
"""

from __future__ import annotations

import base64
import json
import pickle
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.errors import ConflictError, DuplicateKeyError, FirnError, OutcomeUnknownError, SnapshotTooOldError
from firn.records.maintain.collection import collect
from firn.records.objects.store import RecordStore
from firn.records.session import Applier
from firn.records.write.transaction import begin
from firn.testing import Observed as Recorded
from firn.testing.history import RecordedHistory, Recording
from simulation.records_clients import Clients, Habits, Session
from simulation.records_model import Model, Observed, Status

MIX = {"bank": 3, "lists": 4, "doctors": 3, "users": 4, "moves": 2}
SERIALIZABLE = {"lists", "doctors"}
FRESHNESS_S = 1.0
"""R: short, so that the log is truncated while others use it."""
COLLECT_EVERY = 25
BEATEN = (ConflictError, DuplicateKeyError, SnapshotTooOldError)


@dataclass(frozen=True)
class Said:
    """A transaction as its client saw it until now. Times are of the machine's monotonic clock."""

    name: str
    workload: str
    seen: Observed
    recorded: Recorded | None
    start_ns: int
    end_ns: int | None


def open_store(bucket: Bucket, prefix: str) -> RecordStore:
    return RecordStore(bucket, prefix, clock=SystemClock(), freshness_s=FRESHNESS_S)


def line(said: Said) -> str:
    return base64.b64encode(pickle.dumps(said)).decode()


def parsed(text: str) -> Said:
    found: Said = pickle.loads(base64.b64decode(text))
    return found


class Worker:
    """The transactions of one process."""

    def __init__(
        self, store: RecordStore, name: str, say: Callable[[Said], object], *, collects: bool = False
    ) -> None:
        self.store, self.name, self.say, self.collects = store, name, say, collects
        self.random = random.Random(name)
        self.model = Model()
        self.model.elements = self.random.getrandbits(48) << 12  # nobody else's
        self.history = RecordedHistory(clock=time.monotonic_ns)
        self.client: Any = SimpleNamespace(
            random=self.random, clock=SimpleNamespace(sleep=lambda seconds: None)
        )
        self.clients = Clients(self.model, Habits(MIX, rounds=0), open_store)

    def work(self, number: int) -> Iterator[None]:
        """One transaction, and at times a collection. It rests before it reads, and before it commits."""
        (workload,) = self.random.choices(list(MIX), list(MIX.values()))
        name, start = f"{self.name}-{number}", time.monotonic_ns()
        recording = self.history.begin(name) if workload == "lists" else None
        tx = begin(self.store, serializable=workload in SERIALIZABLE)
        session = Session(self.clients, self.client, tx, 0, recording)
        outcome: Status = "aborted"
        yield
        try:
            getattr(session, workload)()
            session.observed.snapshot = tx.snapshot
            self.say(Said(name, workload, session.observed, _unknown(name, recording), start, None))
            yield
            session.end()
            outcome = "committed"
        except OutcomeUnknownError:
            return
        except BEATEN:
            session.observed.snapshot = tx.snapshot
        session.observed.status = outcome
        recorded = None
        if recording is not None:
            getattr(recording, outcome)()
            recorded = self.history.transactions[-1]
        self.say(Said(name, workload, session.observed, recorded, start, time.monotonic_ns()))
        if self.collects and number % COLLECT_EVERY == COLLECT_EVERY - 1:
            with suppress(ConflictError, SnapshotTooOldError):
                collect(self.store, retention_s=0)


def _unknown(name: str, recording: Recording | None) -> Recorded | None:
    if recording is None:
        return None
    return Recorded(name, tuple(recording._operations), recording._start, None, "unknown")


def main(url: str, options: str, name: str) -> None:
    root, prefix = split_url(url)
    store = open_store(open_bucket(root, options=json.loads(options)), prefix)
    applier = Applier(store)
    store.committed = applier.poke
    worker = Worker(store, name, lambda said: print(line(said), flush=True), collects=True)
    for number in range(1_000_000):
        try:
            for _ in worker.work(number):
                pass
        except FirnError as error:  # to be seen on the other side
            print(f"! {error.kind}: {error}", flush=True)
