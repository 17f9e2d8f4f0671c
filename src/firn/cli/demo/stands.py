"""The demo's record tables: aircraft that stand at airports, moved by transactions that bear a SIGKILL anywhere."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from firn.cli.demo.data import AIRPORTS, data_file, read_flights
from firn.cli.demo.flying import FLOWN, STANDS, DemoFlight, Logbook, counter, pilot
from firn.cli.demo.processes import Worker
from firn.cli.demo.stage import Stage, check
from firn.cli.terminal import waiting
from firn.cli.terminal.output import plural

SHARE = 60
"""Flights of a pilot."""
STATE = "NV"
"""Nevada, whose airports are Las Vegas and Reno."""

SCHEMA = {"city": "VARCHAR", "state": "VARCHAR", "aircraft": "BIGINT"}

JOINED = f"""SELECT a.state, count(*) AS airports, sum(s.aircraft) AS aircraft
FROM {STANDS} s JOIN airports a ON s._id = a.iata
GROUP BY a.state ORDER BY aircraft DESC, a.state LIMIT 5"""

QUOTED = """with db.begin() as tx:
    for airport, more in (("DTW", -1), ("LAS", +1)):
        row = tx.get("stands", airport)
        row["aircraft"] += more
        tx.update("stands", airport, row)
    tx.insert("flown", "1", {"origin": "DTW", "destination": "LAS"})"""


class Stands:
    """The tables `stands`, a row for each airport, and `flown`, one for each flight; and the steps about them."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.db = stage, stage.connect()
        self.flights = [
            DemoFlight(number, flight["origin"], flight["destination"])
            for number, flight in enumerate(read_flights(), 1)
        ]
        leaving = Counter(flight.origin for flight in self.flights)
        used = {place for flight in self.flights for place in flight[1:]}
        with data_file(AIRPORTS).open(newline="") as lines:
            airports = {row["iata"]: row for row in csv.DictReader(lines) if row["iata"] in used}
        self.rows: dict[str, dict[str, Any]] = {
            id: {"city": row["city"], "state": row["state"], "aircraft": leaving[id]}
            for id, row in airports.items()
        }

    def tell(self) -> None:
        """All steps. The counter counts from the first transaction of others to their last."""
        with ExitStack() as running:
            counting, *pilots = [
                running.enter_context(Worker(work, self.stage.url, self.stage.options))
                for work in (counter, pilot, pilot, pilot)
            ]
            self.fly(counting, pilots)
            self.kill(*pilots)
            counting.tell("stop")
            counts, sums = counting.hear()
        check(sums == [len(self.flights)], "the sum is the same in every snapshot")
        self.stage.say(f"✓ {counts:,} counts, each at a snapshot of its own: always {sums[0]:,} aircraft")
        self.stage.facts[-1]["counts"] = counts
        self.find()
        self.ask()

    # -- the steps

    def fly(self, counting: Worker, pilots: Sequence[Worker]) -> None:
        """Flights of two processes, and what they took."""
        stage = self.stage
        stage.step("Record tables: two processes fly aircraft in transactions, a third counts")
        with stage.work("load records", self.db, rows=len(self.rows), detail="in one transaction"):
            self.load()
        stage.say("Each flight is one, over two tables:")
        stage.quote(QUOTED)
        with waiting.spinner("two processes fly"):
            for worker in (counting, *pilots):
                worker.hear()
            counting.tell("go")
            first, started = self.flights[: 2 * SHARE], time.monotonic()
            for n, worker in enumerate(pilots[:2]):
                worker.tell(first[n::2])
            books = [logbook(worker) for worker in pilots[:2]]
            seconds = time.monotonic() - started
        self.check_flown(first, "every flight has changed its two airports, once")
        requests: Counter[str] = Counter()
        for book in books:
            requests.update(book.requests)
        met = sum(book.attempts - book.flown for book in books)
        detail = f"{len(first) / seconds:.0f} commits a second; {met} met another, and began again"
        stage.measured(f"{len(first)} flights", seconds, requests, detail, flights=len(first), met=met)

    def kill(self, first: Worker, other: Worker, third: Worker) -> None:
        """A process is killed amid its flights, another takes them over, and one flies all the while."""
        stage = self.stage
        rest = self.flights[2 * SHARE : 4 * SHARE]
        left, others = rest[::2], rest[1::2]
        stage.step("SIGKILL: a process dies amid its flights, and another one takes them over")
        with waiting.spinner("flying on, and killing"):
            for worker, flights in ((first, left), (other, others)):
                worker.tell(flights)
            for _ in left[: SHARE // 4]:
                first.hear()
            first.process.kill()
            first.process.join()
            there = self.flown() & {flight.number for flight in left}
            third.tell(left)
            book = logbook(third)
            check(there <= book.refused.keys(), "a client that goes on can tell what was committed")
            beside = logbook(other)
        check(beside.flown == len(others), "the process beside them has flown all of its flights")
        self.check_flown(self.flights[: 4 * SHARE], "every flight has changed its two airports, once")
        stage.say(
            f"✓ {len(there)} of its {len(left)} flights are there, each whole, and nothing of the others"
        )
        stage.say("✓ another process flies all of them again, and is told of each that is there:")
        stage.quote(book.refused[min(there)])
        stage.say(f"✓ the process beside them flew {len(others)} meanwhile, and waited for nobody:")
        stage.measured(f"{len(others)} flights beside SIGKILL", beside.seconds, beside.requests)

    def find(self) -> None:
        stage, stands = self.stage, self.db.table(STANDS, kind="records")
        stage.step("Rows are found through an index")
        stage.quote(f'stands.find(state="{STATE}")')
        with stage.work("find", self.db, detail=f"of {plural(len(self.rows), 'row')}"):
            found = stands.find(state=STATE)
        stage.table(["airport", "city", "aircraft"], [(r.id, r["city"], r["aircraft"]) for r in found])
        wanted = {id for id, row in self.rows.items() if row["state"] == STATE}
        check({row.id for row in found} == wanted, "the index finds what is there")

    def ask(self) -> None:
        self.stage.step("Spark SQL joins record tables, as after one commit, with lake tables")
        answers = self.stage.ask(JOINED, "state", "airports", "aircraft")
        totals: Counter[str] = Counter()
        for airport, aircraft in self.aircraft()[1].items():
            totals[self.rows[airport]["state"]] += aircraft
        found = {state: aircraft for state, _, aircraft in answers}
        check(found == dict(totals.most_common(5)), "Spark reads what transactions have left")
        self.stage.say("✓ the same as a scan says")

    # -- how

    def load(self) -> None:
        self.db.create_table(STANDS, kind="records", indices=["state"], schema=SCHEMA)
        self.db.create_table(FLOWN, kind="records")
        with self.db.begin() as tx:
            for airport, row in self.rows.items():
                tx.upsert(STANDS, airport, row)

    def aircraft(self) -> tuple[set[str], dict[str, int]]:
        """The flights that are there, and the aircraft of each airport, in one snapshot."""
        with self.db.begin() as tx:
            return {row.id for row in tx.scan(FLOWN)}, {row.id: row["aircraft"] for row in tx.scan(STANDS)}

    def flown(self) -> set[int]:
        """The numbers of the flights that are there, which every row must fit."""
        there, aircraft = self.aircraft()
        numbers = set(map(int, there))
        self.must_fit(aircraft, [flight for flight in self.flights if flight.number in numbers])
        return numbers

    def check_flown(self, flights: Sequence[DemoFlight], claim: str) -> None:
        check(self.flown() == {flight.number for flight in flights}, claim)

    def must_fit(self, aircraft: dict[str, int], flights: Sequence[DemoFlight]) -> None:
        """Every airport has the aircraft that it had, without those that left, and with those that came."""
        expected = Counter({airport: row["aircraft"] for airport, row in self.rows.items()})
        expected.subtract(flight.origin for flight in flights)
        expected.update(flight.destination for flight in flights)
        check(aircraft == dict(expected), "each airport has the aircraft that flights have left there")


def logbook(worker: Worker) -> Logbook:
    """Wait until a pilot has flown all."""
    said = worker.hear()
    while not isinstance(said, Logbook):
        said = worker.hear()
    return said
