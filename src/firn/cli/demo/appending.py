"""Several processes that append to one table at the same time and know nothing of one another."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any

from firn.cli.demo.processes import interrupts_held_back
from firn.errors import FirnError, OutcomeUnknownError

WRITERS = 4
BATCHES = 50


@dataclass(frozen=True)
class Share:
    """What one process appends, in so many batches: every n-th flight, or those that leave from an airport; and as
    which writer, where the table needs one."""

    batches: int
    first: int = 0
    step: int = 1
    origin: str | None = None
    writer: str | None = None

    def pick(self, flights: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = flights[self.first :: self.step]
        return found if self.origin is None else [f for f in found if f["origin"] == self.origin]


@dataclass(frozen=True)
class Appended:
    """What all processes did together. `seconds` runs from when they are all ready."""

    rows: int
    files: int
    seconds: float
    requests: Mapping[str, int]


def every_nth() -> list[Share]:
    """All flights: each process takes every fourth, in 50 batches."""
    return [Share(BATCHES, first=n, step=WRITERS) for n in range(WRITERS)]


def append_from_processes(
    url: str, options: Mapping[str, Any], table: str, shares: Sequence[Share]
) -> Appended:
    """Append flights, each share from a process of its own, all at the same time.

    Raises:
        FirnError: that of a process; the others are stopped.
    """
    context = multiprocessing.get_context("spawn")
    ready, outcomes = context.Barrier(len(shares) + 1), context.Queue()
    processes = [
        context.Process(target=_writer, args=(url, dict(options), table, share, ready, outcomes), daemon=True)
        for share in shares
    ]
    try:
        with interrupts_held_back():
            for process in processes:
                process.start()
        ready.wait(timeout=120)
        started = time.monotonic()
        done = [_next_outcome(outcomes, processes) for _ in processes]
        seconds = time.monotonic() - started
        for process in processes:
            process.join()
    finally:
        running = [process for process in processes if process.pid is not None]
        for process in running:
            process.terminate()
        for process in running:
            process.join()
    total: dict[str, int] = {}
    for _, _, counters in done:
        for name, count in counters.items():
            total[name] = total.get(name, 0) + count
    return Appended(sum(d[0] for d in done), sum(d[1] for d in done), seconds, total)


def _next_outcome(outcomes: Any, processes: list[Any]) -> tuple[int, int, dict[str, int]]:
    while True:
        try:
            outcome = outcomes.get(timeout=0.5)
        except Empty:
            if any(p.exitcode not in (None, 0) for p in processes):
                raise OutcomeUnknownError("a process that appended was ended from outside.") from None
            continue
        if isinstance(outcome, Exception):
            raise outcome
        found: tuple[int, int, dict[str, int]] = outcome
        return found


def _writer(url: str, options: dict[str, Any], table: str, share: Share, ready: Any, outcomes: Any) -> None:
    """One process: open the table, wait for the others, append."""
    try:
        from firn.cli.demo.data import read_flights
        from firn.database.database import connect

        mine = share.pick(read_flights())
        size = -(-len(mine) // share.batches)
        db = connect(url, options=options, writer=share.writer)
        flights = db.table(table, kind="lake")
        ready.wait()
        results = [flights.append(mine[i : i + size]) for i in range(0, len(mine), size)]
        counters = db.bucket.counters.as_dict()
        outcomes.put((sum(r.rows for r in results), sum(r.files for r in results), counters))
    except Exception as error:
        ready.abort()
        outcomes.put(error if isinstance(error, FirnError) else FirnError(f"{type(error).__name__}: {error}"))
