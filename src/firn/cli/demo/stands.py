"""The demo's record tables: aircraft that stand at airports, moved by transactions that bear a SIGKILL anywhere."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import orjson

from firn.cli.demo.data import AIRPORTS, data_file, read_flights
from firn.cli.demo.flying import FLOWN, STANDS, Flight, Halt, Logbook, counter, pilot
from firn.cli.demo.processes import Worker
from firn.cli.demo.stage import Stage, check
from firn.cli.terminal import waiting
from firn.cli.terminal.output import plural
from firn.database.database import Database, connect
from firn.errors import StaleObjectError

if TYPE_CHECKING:
    from firn.records.table import RecordTable
    from firn.records.write.transaction import Transaction

PILOTS = 4
"""Two fly at a time; two others wait until these are killed."""
SHARE = 60
"""Flights of a pilot."""
STATE = "NV"
"""Nevada, whose airports are Las Vegas and Reno."""


class Stands:
    """The tables `stands`, a row for each airport, and `flown`, one for each flight; and the steps about them."""

    def __init__(self, url: str, options: Mapping[str, Any], stage: Stage) -> None:
        self.url, self._options, self.stage = url, dict(options), stage
        self.db: Database = connect(url, options=options)
        self.flights = [
            Flight(number, flight["origin"], flight["destination"])
            for number, flight in enumerate(read_flights(), 1)
        ]
        leaving = Counter(flight.origin for flight in self.flights)
        used = {place for flight in self.flights for place in (flight.origin, flight.destination)}
        with data_file(AIRPORTS).open(newline="") as lines:
            self.rows = {
                row["iata"]: {
                    "city": row["city"],
                    "state": row["state"],
                    "aircraft": leaving[row["iata"]],
                    "open": True,
                }
                for row in csv.DictReader(lines)
                if row["iata"] in used
            }
        self.aircraft = len(self.flights)

    def tell(self) -> None:
        """All steps. All processes start here; one counts from the first transaction of others to their last."""
        with ExitStack() as running:
            self.counting, *self.pilots = [
                running.enter_context(Worker(work, self.url, self._options))
                for work in (counter, *[pilot] * PILOTS)
            ]
            self.fly()
            self.kill()
        self.find()

    # -- the steps

    def fly(self) -> None:
        """Flights of two processes, and what they took."""
        stage, flying = self.stage, self.pilots[:2]
        with stage.step(
            "Record tables: two processes fly aircraft in transactions, and a third counts all the time"
        ):
            with waiting.spinner("creating the tables"):
                meter = waiting.Meter(self.db.bucket)
                self.load()
            stage.say(
                f"two tables, and {len(self.rows)} airports with {self.aircraft:,} aircraft in one transaction:"
            )
            stage.measured("load records", meter.seconds, meter.requests, rows=len(self.rows))
            stage.say("Each flight is one, over two tables:")
            for line in QUOTED.splitlines():
                stage.quote(line)
            with waiting.spinner(f"{len(flying)} processes fly {SHARE} flights each"):
                for worker in (self.counting, *self.pilots):
                    worker.hear()
                self.counting.tell("go")
                first = self.flights[: 2 * SHARE]
                started = time.monotonic()
                for n, worker in enumerate(flying):
                    worker.tell((first[n::2], None))
                books: list[Logbook] = [worker.hear() for worker in flying]
                seconds = time.monotonic() - started
            self.check_flown(first, "every flight has changed its two airports, once")
            done = sum(len(book.commits) for book in books)
            met = sum(book.attempts for book in books) - done
            requests = {name: sum(book.requests[name] for book in books) for name in books[0].requests}
            detail = f"{done / seconds:.0f} commits a second; {met} met another, and began again"
            stage.measured(f"{done} flights", seconds, requests, detail, flights=done, met=met)

    def kill(self) -> None:
        """Two processes killed where it hurts, one that takes over each time, and one that flies all the while."""
        stage, (first, other, second, third) = self.stage, self.pilots
        rest = self.flights[2 * SHARE : 4 * SHARE]
        mine, others = rest[::2], rest[1::2]
        between, written = mine[SHARE // 4], mine[SHARE // 2]
        with stage.step(
            "SIGKILL for one between its writes, and for one whose commit is written but not answered"
        ):
            with waiting.spinner("flying on, and killing"):
                other.tell((others, None))
                self.die(first, mine, Halt(between.number, "between"))
                check(not self.is_flown(between), "of a transaction that was killed nothing is there")
                stage.say(f"✓ {between}: killed between its writes, and nothing of it is there")
                left = mine[mine.index(between) :]
                self.die(second, left, Halt(written.number, "written"))
                check(self.is_flown(written), "a commit that was written is there, whoever died of it")
                stage.say(f"✓ {written}: killed after the PUT of its commit, and all of it is there")
                left = left[left.index(written) :]
                third.tell((left, None))
                book: Logbook = third.hear()
                check(
                    set(book.flown_before) == {written.number} and len(book.commits) == len(left) - 1,
                    "a client that goes on can tell what was committed",
                )
                beside: Logbook = other.hear()
            stage.say(
                f"✓ another process goes on at once with the {len(left)} that are left, and is told of the first:"
            )
            stage.quote(book.flown_before[written.number])
            self.check_flown(self.flights[: 4 * SHARE], "every flight has changed its two airports, once")
            check(len(beside.commits) == len(others), "the process beside them has flown all of its flights")
            stage.say(f"✓ the process beside them flew {len(others)} meanwhile, and waited for nobody:")
            stage.measured(f"{len(others)} flights beside SIGKILL", beside.seconds, beside.requests)
            self.counting.tell("stop")
            counts, sums = self.counting.hear()
            check(sums == [self.aircraft], "the sum is the same in every snapshot")
            stage.say(
                f"✓ {counts:,} counts in all, each at a snapshot of its own: always {sums[0]:,} aircraft"
            )
            commits = self.replay()
            stage.say(
                f"✓ commits 1 to {commits:,} without a gap, and {sums[0]:,} aircraft after each of them"
            )
            stage.facts[-1] |= {"counts": counts, "commits": commits}

    def find(self) -> None:
        stage = self.stage
        with stage.step("Rows are found through an index; and a rule over several rows takes serializable"):
            stands = self.table()
            stage.quote(f'stands.find(state="{STATE}")')
            meter = waiting.Meter(self.db.bucket)
            found = stands.find(state=STATE)
            stage.table(
                ["airport", "city", "aircraft"],
                [(row.id, row["city"], f"{row['aircraft']:,}") for row in found],
            )
            wanted = {id for id, row in self.rows.items() if row["state"] == STATE}
            check({row.id for row in found} == wanted, "the index finds what is there")
            detail = f"{len(found)} of {plural(len(self.rows), 'row')} are read"
            stage.measured("find through an index", meter.seconds, meter.requests, detail)
            stage.say(
                f"One airport of {STATE} is to stay open. Two transactions see both open, and each closes one:"
            )
            for serializable in (False, True):
                refused = self.close_two([row.id for row in found], serializable=serializable)
                still = len(stands.find(state=STATE, open=True))
                check((still == 0) == (not serializable), "serializable keeps the rule")
                check(bool(refused) == serializable, "serializable refuses the second one")
                name = "serializable" if serializable else "snapshot"
                end = "both commit, and none is open" if not refused else "one commits, the other is told:"
                stage.say(f"✓ {name}: {end}")
            stage.quote(refused)

    def ask(self, query: Callable[[str], list[tuple[Any, ...]]]) -> None:
        """Spark's part."""
        stage = self.stage
        with stage.step("Spark SQL joins record tables, as they are after one commit, with lake tables"):
            for line in JOINED.splitlines():
                stage.quote(line)
            answers = query(JOINED)
            stage.table(
                ["state", "airports", "aircraft"], [(state, n, f"{sum:,}") for state, n, sum in answers]
            )
            states: dict[str, list[int]] = {}
            for row in self.table().scan():
                states.setdefault(row["state"], []).append(row["aircraft"])
            expected = sorted((-sum(found), state, len(found)) for state, found in states.items())
            check(
                [tuple(answer) for answer in answers]
                == [(state, n, -total) for total, state, n in expected[:5]],
                "Spark reads what transactions have left",
            )
            stage.say("✓ the same as a scan says")

    # -- how

    def load(self) -> None:
        self.db.create_table(STANDS, kind="records", indices=["state"], schema=SCHEMA)
        self.db.create_table(FLOWN, kind="records")
        with self.db.begin() as tx:
            for airport, row in self.rows.items():
                tx.upsert(STANDS, airport, row)

    def die(self, worker: Worker, flights: Sequence[Flight], halt: Halt) -> None:
        """Let a process fly until it says that it is where it is to die."""
        worker.tell((flights, halt))
        check(worker.hear() == halt, "a process dies where it was to die")
        worker.kill()

    def table(self) -> RecordTable:
        """As a new process opens it."""
        from firn.records.table import RecordTable

        found = self.db.table(STANDS, kind="records")
        assert isinstance(found, RecordTable)
        return found

    def is_flown(self, flight: Flight) -> bool:
        """Whether a flight is there, after a look at every row that it has to do with."""
        with self.db.begin() as tx:
            ids = {row.id for row in tx.scan(FLOWN)}
            self.must_fit(tx, [other for other in self.flights if str(other.number) in ids])
        return str(flight.number) in ids

    def check_flown(self, flights: Sequence[Flight], claim: str) -> None:
        with self.db.begin() as tx:
            check({row.id for row in tx.scan(FLOWN)} == {str(flight.number) for flight in flights}, claim)
            self.must_fit(tx, flights)

    def must_fit(self, tx: Transaction, flights: Sequence[Flight]) -> None:
        """Every airport has the aircraft that it had, without those that left, and with those that came."""
        expected = Counter({airport: row["aircraft"] for airport, row in self.rows.items()})
        for flight in flights:
            expected[flight.origin] -= 1
            expected[flight.destination] += 1
        check(
            {row.id: row["aircraft"] for row in tx.scan(STANDS)} == dict(expected),
            "each airport has the aircraft that flights have left there",
        )

    def replay(self) -> int:
        """Take up all commits of the log from the first one, and look at the sum after each; how many these are."""
        store = self.db.table(STANDS, kind="records").session.store
        head = store.log.refresh()
        records = store.log.records(0, head.number)
        check([r.number for r in records] == list(range(1, head.number + 1)), "no commit is missing")
        rows: dict[str, int] = {}
        for record in records:
            writes = [write for member in record.group for write in member.writes if write.table == STANDS]
            rows.update((write.id, orjson.loads(store.body(write))["aircraft"]) for write in writes)
            check(not rows or sum(rows.values()) == self.aircraft, "every commit leaves all aircraft there")
        with self.db.begin() as tx:
            there = {row.id: row["aircraft"] for row in tx.scan(STANDS)}
        check(rows == there, "the commits, one after another, make what is there")
        return head.number

    def close_two(self, airports: Sequence[str], *, serializable: bool) -> str:
        """Two transactions close one each of two airports that are open; what the second one is told."""
        for airport in airports:
            self.table().update(airport, {**self.table().get(airport), "open": True})
        closing = [self.db.begin(serializable=serializable) for _ in airports]
        for tx, airport in zip(closing, airports, strict=True):
            check(len(tx.find(STANDS, state=STATE, open=True)) == len(airports), "each sees all of them open")
            tx.update(STANDS, airport, {**tx.get(STANDS, airport), "open": False})
        closing[0].commit()
        try:
            closing[1].commit()
        except StaleObjectError as error:
            return str(error)
        return ""


SCHEMA = {"city": "VARCHAR", "state": "VARCHAR", "aircraft": "BIGINT", "open": "BOOLEAN"}

JOINED = f"""SELECT a.state, count(*) AS airports, sum(s.aircraft) AS aircraft
FROM {STANDS} s JOIN airports a ON s._id = a.iata
GROUP BY a.state ORDER BY aircraft DESC, a.state LIMIT 5"""

QUOTED = """with db.begin() as tx:
    for airport, more in (("DTW", -1), ("LAS", +1)):
        row = tx.get("stands", airport)
        tx.update("stands", airport, {**row, "aircraft": row["aircraft"] + more})
    tx.insert("flown", "1", {"origin": "DTW", "destination": "LAS"})"""
