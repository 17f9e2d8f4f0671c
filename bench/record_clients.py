"""Parts `clients` and `readers` of `bench.records`: threads that change rows, and that read while others do."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import FIRN, Figures
from bench.record_engines import APART, SQLITE, Client, Work, firn_work, sqlite_work
from bench.record_places import DIRECTORY, Place

OWN = 8
"""Rows that a client has for itself."""

HOT = "hot"
"""The row that all change."""

LEAST = 30
"""Answers of a slow store that a run waits for one after the other at least."""


@dataclass
class Laps:
    """What one thread did until it was told to stop."""

    seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    given_up: int = 0


def drive(jobs: Sequence[Callable[[], int]], seconds: float) -> tuple[list[Laps], float]:
    """Run each job again and again in a thread of its own; what each did, and how long it took them all."""
    laps = [Laps() for _ in jobs]
    errors: list[BaseException] = []
    begin = threading.Barrier(len(jobs) + 1)
    ends: list[float] = []

    def run(job: Callable[[], int], mine: Laps) -> None:
        begin.wait()
        try:
            while not mine.seconds or time.perf_counter() < ends[0]:
                began = time.perf_counter()
                attempts = job()
                mine.seconds.append(time.perf_counter() - began)
                mine.attempts += attempts
                mine.given_up += attempts == 0
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(jobs, laps, strict=True)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    ends.append(began + seconds)
    begin.wait()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return laps, time.perf_counter() - began


def summary(laps: Sequence[Laps], elapsed: float, what: str) -> dict[str, Any]:
    """Rate and latencies of all of them together."""
    seconds = sorted(second for lap in laps for second in lap.seconds)
    return {
        f"{what}_a_s": round(len(seconds) / elapsed, 1),
        "p50_ms": round(percentile(seconds, 0.5) * 1000, 3),
        "p99_ms": round(percentile(seconds, 0.99) * 1000, 3),
        "max_ms": round(seconds[-1] * 1000, 3),
        "done": len(seconds),
    }


def percentile(ascending: Sequence[float], share: float) -> float:
    """The least value that this share of them doesn't exceed.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([1, 2, 3, 4], 0.99)
    (2, 4)
    """
    return ascending[math.ceil(len(ascending) * share) - 1]


# -- clients that change rows


def clients(
    figures: Figures,
    place: Place,
    *,
    numbers: Sequence[int],
    conflicts: Sequence[float],
    seconds: float,
    peers: bool,
) -> None:
    """Each client reads a row, changes it and commits: one of its own, or for this share of them the one that all
    change."""
    seconds = max(seconds, LEAST * place.latency_s)
    for number in numbers:
        for share in conflicts if number > 1 else [0.0]:
            name = f"{place.name}, {number} at once, {share:.0%} of changes to one row"
            for engine, opened in _works(place, _ids(number), number, peers):
                with opened as work:
                    _changes(figures, name, engine, work, share, seconds)


def _changes(figures: Figures, name: str, engine: str, work: Work, share: float, seconds: float) -> None:
    warm = sum(client.change(f"{n}.0") > 0 for n, client in enumerate(work.clients))
    before = work.spent()
    laps, elapsed = drive([changing(client, n, share) for n, client in enumerate(work.clients)], seconds)
    spent = {verb: count - before[verb] for verb, count in work.spent().items() if count != before[verb]}
    found = summary(laps, elapsed, "changes")
    done, given_up = found["done"], sum(lap.given_up for lap in laps)
    total = work.total()
    assert total == warm + done - given_up, f"{total} changes are there, not {warm + done - given_up}"
    again = sum(lap.attempts for lap in laps) - (done - given_up)
    requests = {f"{verb}s_each": round(count / done, 2) for verb, count in spent.items()}
    facts = {**found, "again_share": round(again / done, 3), "given_up": given_up, **requests}
    figures.record(name, engine, found["p50_ms"] / 1000, **facts)


def changing(client: Client, number: int, share: float) -> Callable[[], int]:
    """The same choice of rows for each engine."""
    rng = random.Random(number)

    def change() -> int:
        return client.change(HOT if rng.random() < share else f"{number}.{rng.randrange(OWN)}")

    return change


# -- readers beside writers


def readers(figures: Figures, place: Place, *, number: int, seconds: float, peers: bool) -> None:
    """Readers in processes of their own, as far as Firn is concerned: alone, then while as many threads of one
    process write. They pay for what they see: a GET a new commit. A PUT would be one that they waited for others
    with."""
    seconds = max(seconds, LEAST * place.latency_s)
    ids = _ids(number)
    engines = {FIRN: lambda: _both(place, ids, number)}
    if peers and place.name == DIRECTORY:
        engines[SQLITE] = lambda: _both_sqlite(place, ids, number)
    for engine, opened in engines.items():
        with opened() as (work, writers):
            for client in work.clients:
                client.read(HOT)
            worst: list[float] = []
            for writing in (0, number):
                name = f"{place.name}, {number} readers, {writing} writers"
                before = work.spent()
                jobs = [reading(client, n) for n, client in enumerate(work.clients)]
                jobs += [changing(client, n, 0.0) for n, client in enumerate(writers[:writing])]
                laps, elapsed = drive(jobs, seconds)
                spent = {verb: count - before[verb] for verb, count in work.spent().items()}
                found = summary(laps[:number], elapsed, "reads")
                facts = {f"{verb}s_each": round(n / found["done"], 2) for verb, n in spent.items() if n}
                if writing:
                    facts["changes_a_s"] = summary(laps[number:], elapsed, "changes")["changes_a_s"]
                    facts["p99_over_alone"] = round(found["p99_ms"] / worst[0], 2)
                worst.append(found["p99_ms"])
                figures.record(name, engine, found["p50_ms"] / 1000, **found, **facts)
                if writing and engine == FIRN:
                    figures.target(f"{name}: PUTs of readers", spent["put"], at_most=0)


def reading(client: Client, number: int) -> Callable[[], int]:
    rng = random.Random(number)
    return lambda: client.read(f"{number}.{rng.randrange(OWN)}")


@contextlib.contextmanager
def _both(place: Place, ids: Sequence[str], number: int) -> Iterator[tuple[Work, Sequence[Client]]]:
    with firn_work(place, ids, number, shared=False) as work:
        yield work, work.beside(number)


@contextlib.contextmanager
def _both_sqlite(place: Place, ids: Sequence[str], number: int) -> Iterator[tuple[Work, Sequence[Client]]]:
    with sqlite_work(place, ids, 2 * number) as work:
        writers, work.clients = work.clients[number:], work.clients[:number]
        yield work, writers


def _works(
    place: Place, ids: Sequence[str], number: int, peers: bool
) -> Iterator[tuple[str, contextlib.AbstractContextManager[Any]]]:
    """Each engine's work, made when its turn comes."""
    yield FIRN, firn_work(place, ids, number, shared=True)
    if number > 1:
        yield APART, firn_work(place, ids, number, shared=False)
    if peers and place.name == DIRECTORY:
        yield SQLITE, sqlite_work(place, ids, number)


def _ids(clients: int) -> list[str]:
    return [HOT, *(f"{client}.{n}" for client in range(clients) for n in range(OWN))]
