"""The demo's lake tables: appends by many processes, changes, erasure with its proof, and a rebuilt catalog."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any

from firn.cli.demo.data import AIRPORTS, BIRDSTRIKES, data_file, read_flights
from firn.cli.demo.processes import Worker
from firn.cli.demo.stage import Stage, check
from firn.cli.ingest import read_frame
from firn.cli.terminal import waiting
from firn.cli.terminal.output import plural, size
from firn.database.database import connect
from firn.errors import DegradedReadWarning, FirnError, SnapshotTooOldError
from firn.journal.writer.federation.federation import Federation
from firn.lake.table import LakeTable

PROCESSES, BATCHES = 4, 50
ERASED = "DTW"
"""Detroit's airport: 458 flights leave from it."""
MONTH = (datetime(2001, 1, 1), datetime(2001, 2, 1))
KEPT = f"origin <> '{ERASED}' AND destination <> '{ERASED}'"
WRITERS: Mapping[str, str] = {"ATL": "atlanta", "DFW": "dallas", "ORD": "chicago"}

BY_STATE = """SELECT a.state, count(*) AS flights, round(avg(f.delay), 2) AS delay
FROM flights f JOIN airports a ON f.origin = a.iata
GROUP BY a.state ORDER BY flights DESC, a.state LIMIT 5"""

BIRDS = """SELECT `Wildlife Species` AS species, count(*) AS strikes,
       sum(`Cost Total $`) AS dollars
FROM birdstrikes WHERE `Phase of flight` = 'Approach'
GROUP BY 1 ORDER BY dollars DESC, species LIMIT 3"""

DEPARTURES = "SELECT origin, count(*) AS flights FROM departures GROUP BY origin"


def tell_of_flights(stage: Stage) -> list[tuple[Any, ...]]:
    """The table `flights`, from its first rows to the proof that some are gone; what Spark says of delays."""
    import pyarrow.compute as pc

    flights, table = (
        read_flights(),
        stage.db.create_table("flights", partition_by=["month(date)"], sort_by=["date"]),
    )

    def live() -> dict[str, int]:
        files = table.snapshot().files
        rows = sum(f.rows or 0 for f in files)
        return {"rows": rows, "files": len(files), "size": sum(f.size for f in files)}

    def stored() -> dict[str, int]:
        found = table.bucket.list(f"{table.prefix}/").objects
        return {"objects": len(found), "size": sum(info.size for info in found)}

    def sums(at: str | None = None) -> tuple[int, int]:
        """Rows, and their minutes of delay."""
        delays = table.scan(columns=["delay"], at=at).to_arrow()["delay"]
        return len(delays), pc.sum(delays).as_py()

    def requests_to_open() -> int:
        fresh = stage.connect()
        fresh.table("flights", kind="lake").snapshot()
        return fresh.bucket.counters.requests

    stage.step("Four processes append to one table at the same time, uncoordinated")
    before = live()
    append_at_once(stage, "flights", [(None, flights[n::PROCESSES]) for n in range(PROCESSES)])
    stage.change(before, live())
    check(sums()[0] == len(flights), "all flights that were appended are there")

    stage.step("Spark reads two CSV files into tables, and joins one with the flights")
    spark = waiting.start_spark(brief=True)
    for name, partition_by in ((AIRPORTS, []), (BIRDSTRIKES, ['year("Flight Date")'])):
        new = name.removesuffix(".csv")
        with stage.work(f"ingest {new}"):
            frame = read_frame(spark, [str(data_file(name))], "csv")
            stage.db.create_table(new, partition_by=partition_by).append(frame)
    answers = stage.ask(BY_STATE, "state", "flights", "mean delay")
    stage.say('Columns may have any name, like "Cost Total $":')
    stage.ask(BIRDS, "species", "strikes", "dollars")

    stage.step("Merge: many small files become few, and so do the logs")
    slow, unmerged, rows = requests_to_open(), table.snapshot().version, sums()
    with stage.work("merge", look=live):
        table.merge()
    stage.say(f"to open the table took {plural(slow, 'request')}, and takes {requests_to_open()}")
    check(stage.ask(BY_STATE) == answers, "the query's answer is the same after the merge")
    stage.say("✓ the query's answer is the same as before")

    stage.step("Time travel: the table as it was before the merge")
    stage.quote(f'flights.scan(at="{unmerged}")')
    with stage.work("read the older version"):
        check(sums(unmerged) == rows, "an older version holds the same rows")
    stage.say(f"✓ the same {rows[0]:,} rows, with {rows[1]:,} minutes of delay in all")

    stage.step("A mistake, and its undoing: delete all late flights, then restore")
    version = table.snapshot().version
    with stage.work("delete", look=live):
        table.delete("delay > 0")
    check(sums() < rows, "delete deleted rows")
    with stage.work("restore"):
        table.restore(version)
    check(sums() == rows, "the rows are the same after the restore")
    stage.say(f"✓ the same {rows[0]:,} rows as before")

    stage.step(f"An erasure request: no flight from or to {ERASED} may remain")
    stage.quote(f'flights.rewrite("{KEPT}")')
    with stage.work("rewrite", look=live):
        table.rewrite(KEPT)

    stage.step("January is no longer wanted: one object removes it, no data is read")
    with stage.work("remove a partition", look=live):
        table.remove_partitions(f"date_month = '{MONTH[0]:%Y-%m}'")

    stage.step("Sweep: what no version needs is deleted, for good")
    with stage.work("sweep", look=stored):
        table.sweep(older_than="0s", orphans="0s")
    with suppress(SnapshotTooOldError):
        table.snapshot(unmerged)
        check(False, "the version before the merge can't be read after the sweep")
    stage.say("✓ the version before the merge can't be read any more")
    found = search_everything(table, word=ERASED, since=MONTH[0], until=MONTH[1])
    check(found.rows == sums()[0], "every row that is stored is one that is read")
    stage.facts[-1]["searched"] = vars(found)
    objects = f"all {found.objects} objects that are left, with {plural(found.rows, 'row')}"
    stage.say(f"✓ searched {objects}: no {ERASED}, no {MONTH[0]:%B}")
    return answers


def tell_of_writers(stage: Stage) -> None:
    """Three airports keep their departures, each in a catalog of its own, of which one is lost."""
    stage.step("Three airports keep their departures, each a writer that shares nothing")
    flights = read_flights()
    expected = {airport: sum(f["origin"] == airport for f in flights) for airport in WRITERS}
    # Rows in files, which can be read without the catalog that is lost below.
    stage.connect("atlanta").create_table(
        "departures", journal="writer", partition_by=["month(date)"], properties={"inline": 0}
    )
    shares = [(writer, [f for f in flights if f["origin"] == a]) for a, writer in WRITERS.items()]
    append_at_once(stage, "departures", shares)
    answers = stage.ask(DEPARTURES, "origin", "flights")
    check(dict(answers) == expected, "the query sees every writer's flights, once")

    def table() -> LakeTable:
        return stage.connect().table("departures", kind="lake")

    def count() -> dict[str, int]:
        return dict(Counter(table().scan(columns=["origin"]).to_arrow()["origin"].to_pylist()))

    stage.say(f"✓ one snapshot of all: {table().snapshot().version}")

    stage.step("A disaster: the whole catalog of atlanta is deleted, and rebuilt")
    layout = Federation(stage.db.bucket, stage.db.prefix, default_name="db").layout("atlanta")
    prefixes = layout.transactions_prefix, layout.claims_prefix
    gone = [info.key for prefix in prefixes for info in stage.db.bucket.list(prefix).objects]
    stage.db.bucket.delete_many(gone)
    logging.disable(logging.WARNING)  # what readers are warned of is quoted below
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedReadWarning)
        check("ATL" not in count(), "without its catalog a writer's flights can't be seen")
        told = "; ".join(table().snapshot().warnings)
    logging.disable(logging.NOTSET)
    stage.say(f"{plural(len(gone), 'object')} deleted; the others can be read, and a warning says:")
    stage.quote(told)
    with stage.work("rebuild") as facts:
        report = stage.db.rebuild(writer="atlanta")
        footers = plural(report.footers_read, "footer")
        facts["detail"] = f"{footers} of Parquet files read, {size(report.bytes_read)}"
    check(count() == expected, "rebuild brought every flight back")
    stage.say(f"✓ all {expected['ATL']:,} flights are back, in the same commits as before")


def append_at_once(
    stage: Stage, table: str, shares: Sequence[tuple[str | None, list[dict[str, Any]]]]
) -> None:
    """Append (writer, rows), each share from a process of its own, all at the same time and in 50 batches."""
    with ExitStack() as running, waiting.spinner(f"{len(shares)} processes append"):
        workers = []
        for writer, rows in shares:
            worker = running.enter_context(Worker(appender, stage.url, stage.options, table, writer))
            workers.append(worker)
            step = -(-len(rows) // BATCHES)
            worker.tell([rows[i : i + step] for i in range(0, len(rows), step)])
        for worker in workers:
            worker.hear()
        started = time.monotonic()
        for worker in workers:
            worker.tell("go")
        done: Counter[str] = Counter()
        for worker in workers:
            done.update(worker.hear())
        seconds = time.monotonic() - started
    facts = {name: done.pop(name) for name in ("commits", "rows", "files")}
    detail = f"{facts['commits'] / seconds:.0f} commits a second, none of which waited for another"
    stage.measured(f"{len(shares)} × {BATCHES} appends", seconds, done, detail, **facts)


def appender(pipe: Connection, url: str, options: dict[str, Any], table: str, writer: str | None) -> None:
    """Hear batches, say "ready", and when told so append them; say what that took."""
    batches = pipe.recv()
    db = connect(url, options=options, writer=writer)
    found = db.table(table, kind="lake")
    pipe.send("ready")
    pipe.recv()
    results = [found.append(batch) for batch in batches]
    made = {
        "commits": len(results),
        "rows": sum(r.rows for r in results),
        "files": sum(r.files for r in results),
    }
    pipe.send({**db.bucket.counters.as_dict(), **made})


@dataclass
class Searched:
    """The objects that were looked through."""

    objects: int = 0
    parquet_files: int = 0
    rows: int = 0


def search_everything(table: LakeTable, *, word: str, since: datetime, until: datetime) -> Searched:
    """Look in every object below the table for a word, and for times from `since` to before `until`.

    Parquet files are read whole: every value, and the statistics in their footers. All other objects, which
    are text, are searched as it stands, for the month as well; but for the names of deleted files, which the log
    keeps for the grace.

    Raises:
        FirnError: something was found; the message names the object.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = Searched()
    keys = [info.key for info in table.bucket.list(f"{table.prefix}/").objects]
    for key, blob in zip(keys, table.bucket.get_many(keys), strict=True):
        assert blob is not None
        found.objects += 1
        lines = blob.data.decode(errors="replace").split("\n")
        values: list[Any] = [line for line in lines if not line.startswith('{"p":') or '"tmb":' not in line]
        if key.endswith(".parquet"):
            file = pq.ParquetFile(pa.BufferReader(blob.data))
            values = [v for column in file.read().columns for v in column.to_pylist()]
            values += _statistics(file.metadata)
            found.parquet_files += 1
            found.rows += file.metadata.num_rows
        for value in values:
            text = isinstance(value, str) and (word in value or f"{since:%Y-%m}" in value)
            if text or (isinstance(value, datetime) and since <= value < until):
                raise FirnError(f"{word} or {since:%B %Y} is still in {table.bucket.uri(key)}.")
    return found


def _statistics(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield from (statistics.min, statistics.max)
