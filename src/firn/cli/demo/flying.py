"""The demo's processes that work on record tables: pilots fly aircraft between airports, a counter counts them.

A flight is one transaction over two tables: its aircraft leaves one row of `stands` and arrives in another, and the
flight is written into `flown`, where it can be only once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, cast

from firn.database.database import Database, connect
from firn.errors import DuplicateKeyError
from firn.journal.sequence.layout import SequenceLayout
from firn.records.write.transaction import Transaction

STANDS, FLOWN = "stands", "flown"


class DemoFlight(NamedTuple):
    """One of the data's: its number in there, and where from and to."""

    number: int
    origin: str
    destination: str


@dataclass
class Logbook:
    """The work of a pilot. `attempts` counts those that met others, too; `refused` has what others had committed."""

    flown: int = 0
    attempts: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def fly(tx: Transaction, flight: DemoFlight, between: Callable[[], object] = bool) -> None:
    """The changes of one flight."""
    origin = tx.get(STANDS, flight.origin)
    tx.update(STANDS, flight.origin, {**origin, "aircraft": origin["aircraft"] - 1})
    between()
    destination = tx.get(STANDS, flight.destination)
    tx.update(STANDS, flight.destination, {**destination, "aircraft": destination["aircraft"] + 1})
    tx.insert(FLOWN, str(flight.number), {"origin": flight.origin, "destination": flight.destination})


def pilot(pipe: Connection, url: str, options: dict[str, Any]) -> None:
    """Say "ready"; then, again and again, hear flights and a fate, fly them, and say the `Logbook`. The fate is None,
    or a flight's number and where in it SIGKILL comes: "between" its two writes, or with its commit "written"."""
    db = connect(url, options=options)
    commits, put = SequenceLayout(db.prefix).records_prefix, db.bucket.put_if_absent
    doomed = False

    def put_and_die(key: str, data: Any, **options: Any) -> str:
        """With the next commit, when it is written and nobody is told yet."""
        etag = put(key, data, **options)
        if doomed and key.startswith(commits):
            die()
        return etag

    cast("Any", db.bucket).put_if_absent = put_and_die
    pipe.send("ready")
    while True:
        flights, fate = pipe.recv()
        before, started, book = db.bucket.counters.as_dict(), time.monotonic(), Logbook()
        for flight in flights:
            doomed = fate == (flight.number, "written")
            _fly_once(db, flight, book, die if fate == (flight.number, "between") else bool)
        book.seconds = time.monotonic() - started
        book.requests = db.bucket.counters.since(before)
        pipe.send(book)


def die() -> None:
    """By SIGKILL, which no process can do anything about."""
    os.kill(os.getpid(), signal.SIGKILL)


def _fly_once(db: Database, flight: DemoFlight, book: Logbook, between: Callable[[], object]) -> None:
    """Until it is committed, by this process or by one before it."""

    def work(tx: Transaction) -> None:
        book.attempts += 1
        fly(tx, flight, between)

    try:
        db.transact(work)
        book.flown += 1
    except DuplicateKeyError as error:
        book.refused[flight.number] = str(error)


def counter(pipe: Connection, url: str, options: dict[str, Any]) -> None:
    """Say "ready", and when told so, count all aircraft, again and again, each time at one snapshot; when told to
    stop say how often, and all different sums."""
    db = connect(url, options=options)
    sums: list[int] = []
    pipe.send("ready")
    pipe.recv()
    while not (sums and pipe.poll()):
        with db.begin() as tx:
            sums.append(sum(row["aircraft"] for row in tx.scan(STANDS)))
    pipe.send((len(sums), sorted(set(sums))))
