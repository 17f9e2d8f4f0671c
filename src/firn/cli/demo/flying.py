"""What the demo's processes do with record tables: pilots fly aircraft between airports, a counter counts them.

A flight is one transaction over two tables: its aircraft leaves one row of `stands` and arrives in another, and the
flight is written into `flown`, where it can be only once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal, cast

from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.database.database import connect
from firn.errors import DuplicateKeyError
from firn.journal.sequence.layout import SequenceLayout
from firn.records.session import Session
from firn.records.write.transaction import Transaction

STANDS, FLOWN = "stands", "flown"


@dataclass(frozen=True)
class Flight:
    """One of the data's: its number in there, and where from and to."""

    number: int
    origin: str
    destination: str

    def __str__(self) -> str:
        return f"flight {self.number} from {self.origin} to {self.destination}"


@dataclass(frozen=True)
class Halt:
    """Where a pilot stops for good, and says so: at this flight, between its two writes or after its commit's PUT."""

    flight: int
    where: Literal["between", "written"]


@dataclass
class Logbook:
    """What a pilot did. `attempts` counts those that met others, too; `commits` has each flight's commit."""

    commits: dict[int, int] = field(default_factory=dict)
    attempts: int = 0
    flown_before: dict[int, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def fly(tx: Transaction, flight: Flight, between: Callable[[], object]) -> None:
    """The changes of one flight."""
    origin = tx.get(STANDS, flight.origin)
    tx.update(STANDS, flight.origin, {**origin, "aircraft": origin["aircraft"] - 1})
    between()
    destination = tx.get(STANDS, flight.destination)
    tx.update(STANDS, flight.destination, {**destination, "aircraft": destination["aircraft"] + 1})
    tx.insert(FLOWN, str(flight.number), {"origin": flight.origin, "destination": flight.destination})


def pilot(pipe: Connection, url: str, options: dict[str, Any]) -> None:
    """Say "ready"; then, again and again, hear flights and a `Halt` or None, fly them, and say the `Logbook`. At the
    halt say that it is reached, and stay there."""

    def stay() -> None:
        pipe.send(halt)
        pipe.recv()  # nobody ever says anything

    db = connect(url, options=options)
    commits = SequenceLayout(db.prefix).records_prefix
    bucket = _Halting(db.bucket, lambda key: key.startswith(commits), stay)
    session = Session(cast("Bucket", bucket), db.prefix, clock=SystemClock())
    pipe.send("ready")
    while True:
        flights, halt = pipe.recv()
        before, started, book = db.bucket.counters.as_dict(), time.monotonic(), Logbook()
        for flight in flights:
            where = halt.where if halt is not None and halt.flight == flight.number else ""
            bucket.armed = where == "written"
            _fly_once(session, flight, book, stay if where == "between" else _go_on)
        book.seconds = time.monotonic() - started
        book.requests = db.bucket.counters.since(before)
        pipe.send(book)


def _fly_once(session: Session, flight: Flight, book: Logbook, between: Callable[[], object]) -> None:
    """Until it is committed, by this process or by one before it."""

    def work(tx: Transaction) -> Transaction:
        book.attempts += 1
        fly(tx, flight, between)
        return tx

    try:
        commit = session.transact(work).committed
        assert commit is not None
        book.commits[flight.number] = commit
    except DuplicateKeyError as error:
        book.flown_before[flight.number] = str(error)


def counter(pipe: Connection, url: str, options: dict[str, Any]) -> None:
    """Say "ready", and when told so, count all aircraft, again and again, each time at one snapshot; when told to
    stop say how often, and all different sums."""
    db = connect(url, options=options)
    sums: set[int] = set()
    counts = 0
    pipe.send("ready")
    pipe.recv()
    while not (counts and pipe.poll()):
        with db.begin() as tx:
            sums.add(sum(row["aircraft"] for row in tx.scan(STANDS)))
        counts += 1
    pipe.send((counts, sorted(sums)))


def _go_on() -> None:
    pass


class _Halting:
    """A bucket that calls `halt` when the next commit is written, before anybody is told that it is."""

    def __init__(self, bucket: Bucket, is_commit: Callable[[str], bool], halt: Callable[[], None]) -> None:
        self._bucket, self._is_commit, self._halt = bucket, is_commit, halt
        self.armed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def put_if_absent(self, key: str, data: Any, *, retry_for: float | None = None) -> str:
        etag = self._bucket.put_if_absent(key, data, retry_for=retry_for)
        if self.armed and self._is_commit(key):
            self._halt()
        return etag
