"""The demo's steps, in order. Each does what a user would do, measures it, and checks that it is true."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from firn.cli.demo.airports import AIRPORT_WRITERS, FEDERATED, Airports
from firn.cli.demo.appending import BATCHES, WRITERS, append_from_processes, every_nth
from firn.cli.demo.data import AIRPORTS, BIRDSTRIKES, data_file
from firn.cli.demo.delays import BATCH, JOINED, Delays
from firn.cli.demo.flying import STANDS
from firn.cli.demo.proof import search_everything
from firn.cli.demo.stage import Stage, check
from firn.cli.demo.stands import Stands
from firn.cli.ingest import read_frame
from firn.cli.terminal import waiting
from firn.cli.terminal.output import plural, size
from firn.database.database import Database, connect
from firn.errors import FirnError, SnapshotTooOldError
from firn.inspect.report.report import write_report

if TYPE_CHECKING:
    from firn.lake.table import LakeTable

T = TypeVar("T")

ERASED = "DTW"
"""Detroit's airport: 458 flights leave from it."""
MONTH = (datetime(2001, 1, 1), datetime(2001, 2, 1))

QUESTION = """SELECT a.state, count(*) AS flights, round(avg(f.delay), 2) AS delay
FROM flights f JOIN airports a ON f.origin = a.iata
GROUP BY a.state ORDER BY flights DESC, a.state LIMIT 5"""

BIRDS = """SELECT "Wildlife Species" AS species, count(*) AS strikes, sum("Cost Total $") AS dollars
FROM birdstrikes WHERE "Phase of flight" = 'Approach'
GROUP BY 1 ORDER BY dollars DESC, species LIMIT 3"""


@dataclass
class Story:
    """What the steps share."""

    url: str
    options: dict[str, Any]
    report: str
    stage: Stage

    def __post_init__(self) -> None:
        self.db: Database = connect(self.url, options=self.options)
        self.flights: LakeTable = self.db.create_table(
            "flights", partition_by=["month(date)"], sort_by=["date"]
        )
        self.full_version = ""
        self.answers: list[tuple[Any, ...]] = []

    def tell(self) -> list[str]:
        """All of it; the commands to try next."""
        for step in (
            self.append,
            self.ingest,
            self.ask,
            self.merge,
            self.rewind,
            self.undo,
            self.erase,
            self.remove,
            self.sweep,
            self.federate,
            self.lose_a_catalog,
            self.count_delays,
            self.take_over,
            self.join_delays,
            self.fly_aircraft,
        ):
            step()
        self.write_report()
        return self.what_next()

    # -- the steps

    def append(self) -> None:
        stage = self.stage
        with stage.step("Four processes append to one table at the same time, with no coordination"):
            before = self.counts()
            with waiting.spinner(f"{WRITERS} processes append {BATCHES} batches each"):
                done = append_from_processes(self.url, self.options, "flights", every_nth())
            check(
                done.rows == 20_000 == self.flights.scan().count(), "all flights that were appended are there"
            )
            stage.change(before, self.counts())
            detail = (
                f"{WRITERS * BATCHES / done.seconds:.0f} commits a second, none of which waited for another"
            )
            title = f"{WRITERS} × {BATCHES} appends"
            stage.measured(title, done.seconds, done.requests, detail, rows=done.rows, files=done.files)

    def ingest(self) -> None:
        stage = self.stage
        with stage.step("Spark reads two CSV files into tables"):
            started = time.monotonic()
            spark = waiting.start_spark(brief=True)
            stage.say(f"Spark {spark.version} started in {time.monotonic() - started:.1f} s")
            for name, partition_by in ((AIRPORTS, []), (BIRDSTRIKES, ['year("Flight Date")'])):
                table_name = name.removesuffix(".csv")

                def read(name: str = name, table_name: str = table_name, by: list[str] = partition_by) -> Any:
                    frame = read_frame(spark, [str(data_file(name))], "csv")
                    return self.db.create_table(table_name, partition_by=by).append(frame)

                with waiting.spinner(f"ingesting {table_name}"):
                    result, meter = self.measure(read)
                columns = len(self.db.table(table_name, kind="lake").snapshot().columns)
                stage.say(
                    f"{table_name}: {plural(result.rows, 'row')} with {columns} columns in "
                    f"{plural(result.files, 'file')}, {size(result.bytes)}"
                )
                stage.measured(f"ingest {table_name}", meter.seconds, meter.requests, rows=result.rows)

    def ask(self) -> None:
        stage = self.stage
        with stage.step("Spark SQL joins them"):
            for line in QUESTION.splitlines():
                stage.quote(line)
            self.answers = self.query(QUESTION)
            rows = [(state, f"{flights:,}", f"{delay:.2f}") for state, flights, delay in self.answers]
            stage.table(["state", "flights", "mean delay"], rows)
            birds = self.query(BIRDS)
            stage.say('Columns may have any name, like "Cost Total $":')
            rows = [(species, f"{strikes:,}", f"{dollars:,}") for species, strikes, dollars in birds]
            stage.table(["species", "strikes", "dollars"], rows)

    def merge(self) -> None:
        stage = self.stage
        with stage.step("Merge: many small files become few, and so do the logs"):
            self.full_version = self.flights.snapshot().version
            slow, _ = self.reading()
            before = self.counts()
            with waiting.progress(self.db, "merging flights"):
                _, meter = self.measure(self.flights.merge)
            stage.change(before, self.counts())
            stage.measured("merge", meter.seconds, meter.requests)
            fast, answers = self.reading()
            stage.table(
                ["", "before", "after"],
                [
                    ["files that the query reads", before["files"], self.counts()["files"]],
                    ["requests to open the table", slow[0], fast[0]],
                    ["seconds of the query", f"{slow[1]:.2f}", f"{fast[1]:.2f}"],
                ],
            )
            check(answers == self.answers, "the query's answer is the same after the merge")
            stage.say("✓ the query's answer is the same as before")

    def rewind(self) -> None:
        stage = self.stage
        with stage.step("Time travel: the table as it was before the merge"):
            now = _fingerprint(self.flights, None)
            then, meter = self.measure(lambda: _fingerprint(self.flights, self.full_version))
            files = len(self.flights.snapshot(self.full_version).files)
            check(now == then, "an older version holds the same rows")
            stage.say(f"at {self.full_version}: {plural(files, 'file')}, {plural(then[0], 'row')}")
            stage.say(f"✓ the same {then[0]:,} rows, with {then[1]:,} minutes of delay in all")
            stage.measured("read the older version", meter.seconds, meter.requests)

    def undo(self) -> None:
        stage = self.stage
        with stage.step("A mistake, and its undoing: delete all late flights, then restore"):
            version = self.flights.snapshot().version
            before, rows = self.counts(), _fingerprint(self.flights, None)
            _, meter = self.measure(lambda: self.flights.delete("delay > 0"))
            stage.change(before, self.counts())
            stage.measured("delete", meter.seconds, meter.requests)
            check(self.counts()["rows"] < before["rows"], "delete deleted rows")
            _, meter = self.measure(lambda: self.flights.restore(version))
            check(_fingerprint(self.flights, None) == rows, "the rows are the same after the restore")
            stage.say(f"✓ restored: the same {rows[0]:,} rows as before")
            stage.measured("restore", meter.seconds, meter.requests)

    def erase(self) -> None:
        stage = self.stage
        with stage.step(f"An erasure request: no flight from or to {ERASED} may remain"):
            before = self.counts()
            keep = f"origin <> '{ERASED}' AND destination <> '{ERASED}'"
            stage.quote(f'flights.rewrite("{keep}")')
            with waiting.progress(self.db, "rewriting flights"):
                _, meter = self.measure(lambda: self.flights.rewrite(keep))
            stage.change(before, self.counts())
            stage.measured("rewrite", meter.seconds, meter.requests)

    def remove(self) -> None:
        stage = self.stage
        with stage.step("January is no longer wanted: one object removes the partition, no data is read"):
            before = self.counts()
            _, meter = self.measure(
                lambda: self.flights.remove_partitions(f"date_month = '{MONTH[0]:%Y-%m}'")
            )
            stage.change(before, self.counts())
            stage.measured("remove a partition", meter.seconds, meter.requests)

    def sweep(self) -> None:
        stage = self.stage
        with stage.step("Sweep: what no version needs is deleted, for good"):
            objects = self.objects()
            with waiting.progress(self.db, "sweeping flights"):
                _, meter = self.measure(lambda: self.flights.sweep(older_than="0s", orphans="0s"))
            stage.change(objects, self.objects())
            stage.measured("sweep", meter.seconds, meter.requests)
            try:
                self.flights.snapshot(self.full_version)
            except SnapshotTooOldError:
                stage.say("✓ the version before the merge can't be read any more")
            else:
                raise FirnError("the version before the merge can still be read after the sweep.")
            found = search_everything(self.flights, word=ERASED, since=MONTH[0], until=MONTH[1])
            check(found.rows == self.counts()["rows"], "every row that is stored is one that is read")
            self.stage.facts[-1]["searched"] = vars(found)
            stage.say(
                f"✓ searched all {found.objects} objects that are left, with {plural(found.rows, 'row')} "
                f"in {plural(found.parquet_files, 'Parquet file')}: no {ERASED}, no {MONTH[0]:%B}"
            )

    def federate(self) -> None:
        """See `firn.cli.demo.airports`."""
        self.airports = Airports(self.url, self.options)
        stage = self.stage
        with stage.step(
            f"{len(AIRPORT_WRITERS)} airports keep their departures, each a writer that shares nothing"
        ):
            with waiting.spinner(f"{len(AIRPORT_WRITERS)} processes append as writers of their own"):
                done = self.airports.append()
            stage.say(f"one table, {len(AIRPORT_WRITERS)} catalogs: {', '.join(AIRPORT_WRITERS.values())}")
            detail = "no lock, no conflict, no object that two of them write"
            stage.measured("append as writers", done.seconds, done.requests, detail, rows=done.rows)
            stage.quote(FEDERATED)
            answers = self.query(FEDERATED)
            check(dict(answers) == self.airports.expected, "the query sees every writer's flights, once")
            stage.table(["origin", "flights"], [(origin, f"{flights:,}") for origin, flights in answers])
            stage.say(f"✓ one snapshot of all: {self.airports.version()}")

    def lose_a_catalog(self) -> None:
        stage, lost = self.stage, next(iter(AIRPORT_WRITERS))
        writer = AIRPORT_WRITERS[lost]
        with stage.step(
            f"A disaster: the whole catalog of {writer} is deleted, and rebuilt from its Parquet files"
        ):
            gone = self.airports.delete_catalog(writer)
            left = self.airports.counts_without()
            check(lost not in left, "without its catalog a writer's flights can't be seen")
            stage.say(f"{plural(gone, 'object')} deleted; the others can still be read, and a warning says:")
            stage.quote(self.airports.warning())
            with waiting.spinner("reading the footers of its data files"):
                detail, meter = self.airports.rebuild(writer)
            check(self.airports.counts() == self.airports.expected, "rebuild brought every flight back")
            stage.measured("rebuild", meter.seconds, meter.requests, detail)
            stage.say(
                f"✓ all {self.airports.expected[lost]:,} flights are back, in the same commits as before"
            )

    def count_delays(self) -> None:
        """See `firn.cli.demo.delays`."""
        self.delays = Delays(self.url, self.options)
        stage = self.stage
        with stage.step("A keyed table counts each airport's delays while the flights arrive"):
            stage.quote('kv.merge("DTW", {"flights": 1, "minutes": 66, "worst": 66})')
            with waiting.spinner("the first writer counts"):
                self.half = self.delays.begin()
            detail = f"durable after every {BATCH}, and nothing was read for it"
            title = f"{self.half.flights:,} merges"
            stage.measured(title, self.half.seconds, self.half.requests, detail, flights=self.half.flights)

    def take_over(self) -> None:
        stage = self.stage
        with stage.step("A second writer takes over; the first one goes on, and is fenced"):
            with waiting.spinner("the second writer counts"):
                done, fenced = self.delays.take_over(self.half.left)
            check(bool(fenced), "a writer that goes on after another one has opened is fenced")
            stage.say("✓ the first writer is told:")
            stage.quote(fenced)
            check(self.delays.found() == self.delays.expected(), "every flight is counted once")
            total = sum(flights for flights, _, _ in self.delays.expected().values())
            stage.say(f"✓ every one of {total:,} flights is counted, and none twice")
            stage.measured(f"{done.flights:,} merges", done.seconds, done.requests, flights=done.flights)
            row, seconds = self.delays.lookups(ERASED)
            stage.say(
                f"get({ERASED!r}) says {row['flights']} flights, {row['worst']} minutes late at worst, in "
                f"{seconds * 1e6:,.0f} µs"
            )

    def join_delays(self) -> None:
        stage = self.stage
        with stage.step("Spark compacts the keyed table, and joins it with the lake"):
            table = self.delays.table()
            meter = waiting.Meter(table.bucket)
            with waiting.progress(self.db, "compacting delays"):
                report = table.compact(full=True)
            stage.say(
                f"{plural(report.l0_files + report.ssts_in, 'sorted run')} became one: {report.rows_in:,} entries, "
                f"{report.rows_out:,} keys"
            )
            stage.measured("compact", meter.seconds, meter.requests)
            for line in JOINED.splitlines():
                stage.quote(line)
            answers = self.query(JOINED)
            check(answers == self.answers, "counts that were kept give what 20,000 rows gave")
            rows = [(state, f"{flights:,}", f"{delay:.2f}") for state, flights, delay in answers]
            stage.table(["state", "flights", "mean delay"], rows)
            stage.say(f"✓ the same as over all flights, from {report.rows_out:,} keys")

    def fly_aircraft(self) -> None:
        """See `firn.cli.demo.stands`."""
        stands = Stands(self.url, self.options, self.stage)
        stands.tell()
        stands.ask(self.query)

    def write_report(self) -> None:
        with self.stage.step("A report of all this"):
            with waiting.spinner("writing the report"):
                write_report(self.db, self.report, steps=self.stage.steps)
            self.stage.say(f"{self.report} (open it in a browser)")

    def what_next(self) -> list[str]:
        """Commands for the user to go on with; the tests run them."""
        url = shlex.quote(self.url)
        flights, delays, stands = (
            shlex.quote(f"{self.url.rstrip('/')}/{name}") for name in ("flights", "delays", STANDS)
        )
        row = (
            '{"date": "2001-04-01T12:00", "delay": 7, "distance": 236, "origin": "SFO", "destination": "SNA"}'
        )
        return [
            f"firn tables {url}",
            f"firn writers {url}",
            f'firn scan {flights} --where "delay > 400" --columns date,origin,destination,delay',
            f"firn log {flights} --limit 10",
            f"echo '{row}' | firn append {flights}",
            f"firn merge {flights} --dry-run",
            f"firn keyed scan {delays} --start A --end C",
            f"firn keyed manifest {delays}",
            f"firn records find {stands} state=HI --order-by 'aircraft desc'",
            f"firn records get {stands} HNL",
            f"firn log {stands} --limit 5",
            f"firn dump {flights}/",
            f'firn sql "SELECT origin, count(*) AS n FROM flights GROUP BY 1 ORDER BY 2 DESC LIMIT 5" --db {url}',
        ]

    # -- measuring

    def measure(self, work: Callable[[], T]) -> tuple[T, Measured]:
        meter = waiting.Meter(self.db.bucket)
        result = work()
        return result, Measured(meter.seconds, meter.requests)

    def counts(self) -> dict[str, int]:
        """Rows, live files and bytes of `flights`."""
        snapshot = self.flights.snapshot()
        return {
            "rows": sum(f.rows or 0 for f in snapshot.files),
            "files": len(snapshot.files),
            "size": sum(f.size for f in snapshot.files),
        }

    def objects(self) -> dict[str, int]:
        """Objects of `flights` of all kinds, live or not."""
        found = self.db.bucket.list(f"{self.flights.prefix}/").objects
        return {"objects": len(found), "size": sum(o.size for o in found)}

    def reading(self) -> tuple[tuple[int, float], list[tuple[Any, ...]]]:
        """Requests to open the table in a new process and seconds of the query; the query's answer."""
        fresh = connect(self.url, options=self.options)
        fresh.table("flights", kind="lake").snapshot()
        started = time.monotonic()
        answers = self.query(QUESTION)
        return (fresh.bucket.counters.requests, time.monotonic() - started), answers

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with waiting.spinner("Spark runs the query"):
            return [tuple(row) for row in self.db.sql(text).collect()]


@dataclass(frozen=True)
class Measured:
    """Seconds, and requests by verb."""

    seconds: float
    requests: dict[str, int]


def _fingerprint(table: LakeTable, at: str | None) -> tuple[int, int, int]:
    """Rows and sums over a version."""
    import pyarrow.compute as pc

    rows = table.scan(columns=["delay", "distance"], at=at).to_arrow()
    return rows.num_rows, pc.sum(rows["delay"]).as_py(), pc.sum(rows["distance"]).as_py()


def default_report(url: str) -> str:
    """Where the report goes: into the demo's directory, or here for a bucket."""
    from firn.bucket.urls import parse_url

    address = parse_url(url)
    name = "firn-report.html"
    return os.path.join(url, name) if address.kind == "directory" and "://" not in url else name
