"""Rows that come one by one: how many a second go in, in how many commits and requests, and what a query takes then.

Firn's appender gathers the rows of a second, or 10,000, and appends them; beside it Firn commits each ten. The peers
have nothing that gathers. DuckLake commits each ten, which it inlines, and then, gathered by the program, each 10,000
rows; delta-rs commits each ten. What commits each ten goes on for some seconds only. All write to a directory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish
from bench.lake_engines import DUCKLAKE, ducklake, installed
from bench.small_appends import DELTA

TENS, GATHERED = "Firn, by tens", "DuckLake, gathered"
TEN, MANY = 10, 10_000
SQL = "SELECT name, count(*) AS n, sum(value) AS v FROM {} GROUP BY name"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

Row = dict[str, Any]
Insert = Callable[[list[Row]], object]
Counts = Callable[[], list[int]]
"""Runs the query: the rows of each group."""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--seconds", type=float, default=20, help="of what commits each ten")
    options = parser.parse_args(argv)
    figures = Figures("streaming", {k: v for k, v in vars(options).items() if k != "out"})
    peers = [] if options.no_peers else installed()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        run = _Run(figures, options.rows, options.seconds)
        run.firn(root / "firn")
        run.firn_by_tens(root / "tens")
        if DUCKLAKE in peers:
            run.ducklake(root / "ducklake", DUCKLAKE, TEN, options.seconds)
            run.ducklake(root / "gathered", GATHERED, min(MANY, options.rows), float("inf"))
        if DELTA in peers:
            run.delta(root / "delta")
    gathered, tens = (figures.measure(run.name, engine).detail["rows_a_s"] for engine in (FIRN, TENS))
    figures.target("Firn's rows a second by an appender over those by tens", gathered / tens, at_least=10)
    if DUCKLAKE in peers:
        lake = figures.ratio(run.name, GATHERED)
        figures.target("DuckLake's time over Firn's, both gathered", lake, at_least=1)
    if not options.no_peers:
        lacking = ", ".join(name for name in (DUCKLAKE, DELTA) if name not in peers)
        figures.notes += [f"Not installed here: {lacking}."] if lacking else []
    figures.notes.append(
        "Rows that an appender gathers aren't durable before their commit. Firn syncs what it writes to disk."
    )
    finish(figures, options.out)
    return figures


def rows(count: int) -> Iterator[Row]:
    for i in range(count):
        yield {
            "id": i,
            "name": f"device-{i % 97}",
            "value": i * 0.25,
            "time": START + timedelta(milliseconds=i),
        }


class _Run:
    """What each engine does with the same rows."""

    def __init__(self, figures: Figures, count: int, seconds: float) -> None:
        self.figures, self.count, self.seconds = figures, count, seconds
        self.name = f"{count:,} rows, one by one"

    def firn(self, place: Path) -> None:
        db, table = _firn(place)
        facts: dict[str, Any] = {}
        began = time.perf_counter()
        with counted(table.bucket, facts), table.appender(seconds=1) as out:
            for row in rows(self.count):
                out.add(row)
        spent = time.perf_counter() - began
        self._note(FIRN, self.count, spent, _of_firn(db), commits=out.stats.commits, **_kept(facts))

    def firn_by_tens(self, place: Path) -> None:
        db, table = _firn(place)
        facts: dict[str, Any] = {}
        with counted(table.bucket, facts):
            done, spent = self._insert(table.append, TEN, self.seconds)
        self._note(TENS, done, spent, _of_firn(db), commits=done // TEN, **_kept(facts))

    def ducklake(self, place: Path, engine: str, size: int, seconds: float) -> None:
        lake = ducklake(place)
        lake.execute("CREATE TABLE lake.t (id BIGINT, name VARCHAR, value DOUBLE, time TIMESTAMPTZ)")

        def insert(batch: list[Row]) -> None:
            lake.register("these", pa.Table.from_pylist(batch))
            lake.execute("INSERT INTO lake.t FROM these")

        done, spent = self._insert(insert, size, seconds)
        self._note(engine, done, spent, _of_duckdb(lake, "lake.t"), commits=done // size)

    def delta(self, place: Path) -> None:
        import duckdb
        from deltalake import DeltaTable, write_deltalake

        def insert(batch: list[Row]) -> None:
            write_deltalake(str(place), pa.Table.from_pylist(batch), mode="append")

        done, spent = self._insert(insert, TEN, self.seconds)
        duck = duckdb.connect()
        duck.register("t", DeltaTable(str(place)).to_pyarrow_dataset())
        self._note(DELTA, done, spent, _of_duckdb(duck, "t"), commits=done // TEN)

    def _insert(self, insert: Insert, size: int, seconds: float) -> tuple[int, float]:
        """Insert batches of so many rows, for so long: the rows, and the seconds."""
        done, waiting = 0, list[Row]()
        began = time.perf_counter()
        for row in rows(self.count):
            waiting.append(row)
            if len(waiting) == size:
                insert(waiting)
                done, waiting = done + size, []
                if time.perf_counter() - began > seconds:
                    break
        return done, time.perf_counter() - began

    def _note(self, engine: str, done: int, spent: float, counts: Counts, **facts: Any) -> None:
        """What an engine took; its time counts if it took all rows."""
        whole = done == self.count
        self.figures.record(
            self.name, engine, spent if whole else None, rows=done, rows_a_s=round(done / spent), **facts
        )
        taken = []
        for _ in range(2):
            began = time.perf_counter()
            assert sum(counts()) == done, f"{engine} lacks rows"
            taken.append(time.perf_counter() - began)
        self.figures.record(
            f"group all {self.count:,} rows by name",
            engine,
            taken[1] if whole else None,
            rows=done,
            first_s=round(taken[0], 3),
            again_s=round(taken[1], 3),
        )


def _firn(place: Path) -> tuple[Any, Any]:
    import firn

    db = firn.connect(place)
    db.create_table("warm").append(list(rows(TEN)))  # whatever is only loaded once
    list(db.sql(SQL.format("warm")))
    return db, db.create_table("t", properties={"inline": "64KB"})


def _of_firn(db: Any) -> Counts:
    return lambda: [int(row["n"]) for row in db.sql(SQL.format("t"))]


def _of_duckdb(duck: Any, table: str) -> Counts:
    return lambda: [int(row[1]) for row in duck.execute(SQL.format(table)).fetchall()]


def _kept(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("requests", "put", "mb_out")}


if __name__ == "__main__":
    main()
