"""Part `spark` of `bench.records`: all rows of a table, read by one process and by Spark's tasks, beside plain GETs.

Plain GETs are `get_many` of the same objects in as many processes, by keys that are known, without a look at what
comes: the store's own throughput, which no reader of single objects exceeds. Firn LISTs the rows first, which takes
`list_s` of its time. Rows are put as the format has them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import FIRN, Figures, counted
from bench.record_places import DIRECTORY, MEMORY, Place
from firn.records.objects.row import Row, Version, encode_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

GETS = "plain GETs"

COLUMNS = {"city": "VARCHAR", "n": "BIGINT", "x": "DOUBLE", "day": "DATE", "note": "VARCHAR"}

PUT_AT_ONCE = 5000

FEWER = 20
"""A store that answers slowly has so many times fewer rows."""


def scans(figures: Figures, place: Place, *, rows: int, rounds: int, spark: bool) -> None:
    """Read a table of so many rows: in this process, and with `spark` by tasks where they can reach the store."""
    from firn.reads import plan_read

    rows = rows // FEWER if place.latency_s else rows
    table = filled(place, rows)
    work = f"{place.name}: read {rows:,} rows"
    read = plan_read(table)
    keys = [info.key for info in read.source.listed()]  # type: ignore[attr-defined]

    def here() -> dict[str, Any]:
        facts: dict[str, Any] = {}
        with counted(table.bucket, facts):
            began = time.perf_counter()
            works = [unit.work for unit in read.units()]
            facts["list_s"] = round(time.perf_counter() - began, 2)
            found = sum(piece.num_rows for piece in read.for_tasks().rows(works))
        assert found == rows, found
        return facts

    def plain_here() -> None:
        for start in range(0, len(keys), PUT_AT_ONCE):
            assert None not in table.bucket.get_many(keys[start : start + PUT_AT_ONCE])

    _compared(figures, f"{work} in one process", {FIRN: here, GETS: plain_here}, rows, rounds)
    if not spark or place.name == MEMORY:
        return
    from bench.spark_engines import session

    with tempfile.TemporaryDirectory() as unused:
        running = session(peers=False, warehouse=Path(unused))
        figures.settings["spark"] = running.version
        engines = {
            FIRN: lambda: _count(table, running, rows),
            GETS: lambda: _gets(table, keys, running),
        }
        for engine in engines.values():  # workers that are warm
            engine()
        _compared(figures, f"{work} on Spark", engines, rows, rounds)


def filled(place: Place, rows: int) -> Any:
    """A table of so many rows, all of one commit and applied."""
    from firn.records.apply.apply import settle

    db = place.connect(place.new(), fill=True)
    table = db.create_table("t", kind="records", schema=COLUMNS)
    last = f"row-{rows - 1:08}"
    table.insert(last, {"n": rows - 1})
    settle(table.session.store)
    seq, layout = table.session.store.log.head().number, table.definition.layout(table.prefix)

    def objects() -> Iterator[tuple[str, bytes]]:
        for n in range(rows - 1):
            document = {"city": f"city {n % 1000}", "n": n, "x": n / 7, "note": "x" * 200}
            id = f"row-{n:08}"
            version = Version(seq, table.definition.documents.encode(id, document))
            yield layout.row(id), encode_row(Row(id, (version,)))

    each = objects()
    while piece := list(islice(each, PUT_AT_ONCE)):
        table.bucket.put_many(piece)
    return place.connect(db.url).table("t")


def _count(table: Any, spark: SparkSession, rows: int) -> None:
    """Every column goes to Spark, which adds some up."""
    from firn.reads import plan_read

    found = plan_read(table).frame(spark)
    first = found.selectExpr("count(*)", "sum(n)", "max(length(note))").first()
    assert (first[0], first[1]) == (rows, rows * (rows - 1) // 2), first


def _gets(table: Any, keys: Sequence[str], spark: SparkSession) -> None:
    """As many tasks as a scan has, each with its share of the keys."""
    from firn.spark.session.session import slots

    bucket, count = table.bucket, 4 * slots(spark)
    shares = [keys[at::count] for at in range(count)]

    def get(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                mine, found = shares[number], 0
                for start in range(0, len(mine), PUT_AT_ONCE):
                    found += sum(
                        blob is not None for blob in bucket.get_many(mine[start : start + PUT_AT_ONCE])
                    )
                yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], names=["found"])

    rows = spark.range(0, count, 1, count).mapInArrow(get, "found long").collect()
    assert sum(row.found for row in rows) == len(keys)


def _compared(
    figures: Figures, work: str, engines: dict[str, Callable[[], Any]], rows: int, rounds: int
) -> None:
    figures.pairs(work, engines, rounds=rounds)
    for engine in engines:
        median = figures.measure(work, engine).median
        if median:
            figures.record(work, engine, rows_a_s=round(rows / median))
    if not work.startswith((MEMORY, DIRECTORY)):  # a GET of those takes less than checking and decoding a row
        figures.target(f"{work}: {GETS}' time × Firn's", figures.ratio(work, GETS), at_least=0.7)
