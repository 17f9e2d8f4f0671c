"""The demo's processes that work on record tables: pilots fly aircraft between airports, a counter counts them.

A flight is one transaction over two tables: its aircraft leaves one row of `stands` and arrives in another, and the
flight is written into `flown`, where it can be only once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from firn.database.database import Database, connect
from firn.errors import DuplicateKeyError
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


def fly(tx: Transaction, flight: DemoFlight) -> None:
    """The changes of one flight."""
    for airport, more in ((flight.origin, -1), (flight.destination, +1)):
        row = tx.get(STANDS, airport)
        tx.update(STANDS, airport, {**row, "aircraft": row["aircraft"] + more})
    tx.insert(FLOWN, str(flight.number), {"origin": flight.origin, "destination": flight.destination})


def pilot(pipe: Connection, url: str, options: dict[str, Any]) -> None:
    """Say "ready"; then, again and again, hear flights, say the number of each that is flown, and the `Logbook`."""
    db = connect(url, options=options)
    pipe.send("ready")
    while True:
        flights = pipe.recv()
        before, started, book = db.bucket.counters.as_dict(), time.monotonic(), Logbook()
        for flight in flights:
            _fly_once(db, flight, book)
            pipe.send(flight.number)
        book.seconds = time.monotonic() - started
        book.requests = db.bucket.counters.since(before)
        pipe.send(book)


def _fly_once(db: Database, flight: DemoFlight, book: Logbook) -> None:
    """Until it is committed, by this process or by one before it."""

    def work(tx: Transaction) -> None:
        book.attempts += 1
        fly(tx, flight)

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
