"""Part `load` of `bench.records`: many rows into a new table, in process and by Spark, beside plain puts of the same
objects: what a load can't be faster than."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from bench.figures import FIRN, Figures
from bench.record_places import Place
from firn.records.table import RecordTable

PLAIN, ON_SPARK = "plain puts", "firn on Spark"
BATCH = 1000
TABLE = "t"


def load(
    figures: Figures, place: Place, *, rows: int, indices: Sequence[int], spark: bool, peers: bool
) -> None:
    """A table of `rows` rows with so many indices. Each engine has a database of its own."""

    def put(table: RecordTable) -> float:
        objects = list(_objects(table))
        return _timed(figures, name, PLAIN, table.bucket, rows, lambda: _put(table.bucket, objects))

    for k in indices:
        name = f"{place.name}: {rows:,} rows, {k} indices"
        table = _table(place, k)
        done = _timed(figures, name, FIRN, table.bucket, rows, lambda table=table: table.load(_rows(rows)))
        if spark:
            other = _table(place, k)
            with _frame(rows) as frame:
                _timed(figures, name, ON_SPARK, other.bucket, rows, lambda other=other: other.load(frame))
        if peers:
            figures.notes.append(f"{name}: a load takes {done / put(table):.1f} times as long as plain puts.")


def _timed(
    figures: Figures, name: str, engine: str, bucket: Any, rows: int, work: Callable[[], object]
) -> float:
    before = bucket.counters.as_dict()
    start = perf_counter()
    work()
    seconds = perf_counter() - start
    spent = {k: v for k, v in bucket.counters.since(before).items() if v and not k.startswith("bytes")}
    each = {f"{verb}s_a_row": round(count / rows, 3) for verb, count in spent.items()}
    figures.record(name, engine, seconds, rows_per_s=round(rows / seconds), **each)
    return seconds


def _table(place: Place, k: int) -> RecordTable:
    found = place.connect(place.new()).create_table(
        TABLE, kind="records", indices=[f"f{i}" for i in range(k)]
    )
    assert isinstance(found, RecordTable)
    return found


def _rows(rows: int) -> Iterator[dict[str, Any]]:
    for n in range(rows):
        yield {"_id": f"r{n:07}", **{f"f{i}": n * (7 + i) % 1000 for i in range(5)}, "text": "x" * 100}


@contextmanager
def _frame(rows: int) -> Iterator[Any]:
    """The same rows as a DataFrame that is there already."""
    from firn.spark.session.session import active_or_start

    spark = active_or_start()
    fields = ", ".join(f"id * {7 + i} % 1000 AS f{i}" for i in range(5))
    query = (
        f"SELECT concat('r', lpad(id, 7, '0')) AS _id, {fields}, repeat('x', 100) AS text FROM range({rows})"
    )
    frame = spark.sql(query).cache()
    frame.count()
    try:
        yield frame
    finally:
        frame.unpersist()


def _objects(table: RecordTable) -> Iterator[tuple[str, bytes]]:
    """What a load left in the table, under other names."""
    layout, bucket = table.definition.layout(table.prefix), table.bucket
    keys = [info.key for info in bucket.list(layout.rows).objects]
    for start in range(0, len(keys), BATCH):
        for blob in bucket.get_many(keys[start : start + BATCH]):
            assert blob is not None
            yield f"{table.prefix}/plain/{blob.info.key}", bytes(blob.data)
    for info in bucket.list(layout.indices).objects:
        yield f"{table.prefix}/plain/{info.key}", b""


def _put(bucket: Any, objects: Sequence[tuple[str, bytes]]) -> None:
    for start in range(0, len(objects), BATCH):
        bucket.put_many(objects[start : start + BATCH])
