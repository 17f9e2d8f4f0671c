"""The demo's keyed table: each airport's delays, counted by a merge operator while the flights arrive."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import Any

from firn.cli.demo.data import read_flights
from firn.cli.demo.stage import Stage, check
from firn.cli.terminal.output import plural
from firn.errors import FencedError
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.writer import KeyedWriter

BATCH, GETS = 500, 2_000

JOINED = """SELECT a.state, sum(d.flights) AS flights,
       round(sum(d.minutes) / sum(d.flights), 2) AS delay
FROM delays d JOIN airports a ON d.airport = a.iata
GROUP BY a.state ORDER BY flights DESC, a.state LIMIT 5"""


def tell_of_delays(stage: Stage, answers: list[tuple[Any, ...]]) -> None:
    """Two writers, one after the other; then Spark, which must say the same of states as over all flights."""
    stage.step("A keyed table counts each airport's delays while the flights arrive")
    stage.quote('kv.merge("DTW", {"flights": 1, "minutes": 66, "worst": 66})')
    stage.db.create_table(
        "delays",
        kind="keyed",
        key={"airport": "VARCHAR"},
        schema={"flights": "BIGINT", "minutes": "BIGINT", "worst": "BIGINT"},
        merge_operator={"flights": "add", "minutes": "add", "worst": "max"},
    )
    one, other, flights = stage.connect(), stage.connect(), read_flights()
    half = len(flights) // 2
    detail = f"durable after every {BATCH}, and nothing was read for it"
    with stage.work(f"{half:,} merges", one, flights=half, detail=detail):
        old = one.table("delays", kind="keyed").open()
        count(old, flights[:half])

    stage.step("A second writer takes over; the first one goes on, and is fenced")
    table, told = other.table("delays", kind="keyed"), ""
    with stage.work(f"{half:,} merges more", other, flights=len(flights) - half), table.open() as new:
        try:
            count(old, flights[half : half + BATCH])
        except FencedError as error:
            told = str(error)
        count(new, flights[half:])
    with suppress(FencedError):
        old.close()
    check(bool(told), "a writer that goes on after another one has opened is fenced")
    stage.say("✓ the first writer is told:")
    stage.quote(told)
    with table.reader() as reader:
        found = {airport: row["flights"] for airport, row in reader.scan()}
        began = time.perf_counter()
        for _ in range(GETS):
            row = reader.get("DTW")
        mean = (time.perf_counter() - began) / GETS * 1e6
    check(found == Counter(flight["origin"] for flight in flights), "every flight is counted once")
    stage.say(f"✓ every one of {len(flights):,} flights is counted, and none twice")
    stage.say(
        f"get('DTW') says {row['flights']} flights, {row['worst']} minutes late at worst, in {mean:,.0f} µs"
    )

    stage.step("Spark compacts the keyed table, and joins it with the lake")
    with stage.work("compact", other) as facts:
        report = table.compact(full=True)
        runs = plural(report.l0_files + report.ssts_in, "sorted run")
        facts["detail"] = f"{runs} became one: {report.rows_in:,} entries, {report.rows_out:,} keys"
    check(
        stage.ask(JOINED, "state", "flights", "mean delay") == answers,
        "counts that were kept give what 20,000 rows gave",
    )
    stage.say(f"✓ the same as over all flights, from {report.rows_out:,} keys")


def count(kv: KeyedWriter, flights: list[dict[str, Any]]) -> None:
    """One operand for each flight, in durable batches: nobody reads what is there before."""
    for start in range(0, len(flights), BATCH):
        batch = WriteBatch()
        for flight in flights[start : start + BATCH]:
            delay = flight["delay"]
            batch.merge(flight["origin"], {"flights": 1, "minutes": delay, "worst": delay})
        kv.write(batch)
