"""Writers' catalogs: what a commit costs, how long opening takes, the union of many; and the leaderless log beside.

Opening and the union are measured on catalogs without data, whose objects are as Firn writes them; the union also on
an S3 server whose every answer is held back.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish, rotated
from bench.lake_engines import FILES
from bench.slow_store import server_program, slow_store
from bench.writer_histories import TABLE, write_checkpoint, write_history
from firn.concurrency.parallel import MAX_IN_FLIGHT
from firn.journal.writer.format.layout import WriterLayout

SMALL = 10
LEADERLESS, WRITER = "leaderless log", "writer's catalog"


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--transactions", type=int, default=100_000, help="behind the checkpoint")
    parser.add_argument("--newer", type=int, default=10, help="transactions after the checkpoint")
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--each", type=int, default=1_000, help="transactions of each of them")
    parser.add_argument(
        "--latency", type=float, default=0.02, help="seconds of each of the slow store's answers"
    )
    parser.add_argument("--appends", type=int, default=100, help="that are merged and scanned")
    parser.add_argument("--rows", type=int, default=20_000, help="of each append")
    parser.add_argument("--small", type=int, default=300, help="appends of ten rows")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    figures = Figures("writer_catalog", {k: v for k, v in vars(options).items() if k != "out"})
    program = _Program(figures, options)
    with tempfile.TemporaryDirectory() as root:
        program.commit(Path(root, "commit"))
        program.small(Path(root, "small"))
        program.open(Path(root, "open"))
        program.lake(Path(root, "lake"))
    if server_program() is None:
        figures.notes.append("The union was left out: versitygw is missing (tests/stores/install.py).")
    else:
        with slow_store(options.latency) as store:
            program.union(store)
    finish(figures, options.out)
    return figures


class _Program:
    def __init__(self, figures: Figures, options: Any) -> None:
        self.figures, self.options = figures, options

    def commit(self, root: Path) -> None:
        """An append of two files by each discipline; the third of a row, so that nothing is opened any more."""
        import firn

        for name, conditional in (("PUT and LIST", "disabled"), ("claims", None)):
            db = firn.connect(
                root / name, writer="w", options={"conditional_put": conditional} if conditional else {}
            )
            table = db.create_table(TABLE, journal="writer", partition_by=["k"])
            for _ in range(3):
                facts: dict[str, Any] = {}
                with counted(db.bucket, facts):
                    assert table.append([{"k": 1}, {"k": 2}]).files == 2
            self.figures.record(f"append 2 files by {name}", FIRN, **facts)
            puts, lists, gets = (3, 2, 0) if conditional else (4, 0, 1)
            self.figures.target(f"{name}: PUTs of 2 files", facts["put"], at_most=puts)
            self.figures.target(f"{name}: LISTs", facts["list"], at_most=lists)
            self.figures.target(f"{name}: GETs", facts["get"], at_most=gets)

    def small(self, root: Path) -> None:
        """Appends of ten rows by claims, which stand in the catalog or are a file each; with all folds, checkpoints
        and the close."""
        import firn

        options = self.options
        commits = options.small
        name = f"{commits} appends of {SMALL} rows by claims"

        def work(inline: int | str) -> dict[str, Any]:
            db = firn.connect(root / "db", writer="w")
            properties = {"inline": inline}
            table = db.create_table(TABLE, journal="writer", properties=properties)
            table.append(_rows(0, SMALL))
            took, facts = [], dict[str, Any]()
            with counted(db.bucket, facts):
                for number in range(1, commits + 1):
                    rows = _rows(number, SMALL)
                    began = time.perf_counter()
                    table.append(rows)
                    took.append(time.perf_counter() - began)
                db.close()
            again = firn.connect(root / "db", writer="w")
            assert again.table(TABLE).scan().count() == SMALL * (commits + 1)
            again.close()
            shutil.rmtree(root)
            spent = {f"{verb}_an_append": round(facts[verb] / commits, 2) for verb in ("put", "get", "list")}
            return {"p50_ms": round(1000 * statistics.median(took), 2), **spent}

        for inline in ("64KB", 0):
            work(inline)
        engines: dict[str, int | str] = {FIRN: "64KB", FILES: 0}
        p50: list[float] = []
        for number in range(options.rounds):
            for engine in rotated(list(engines), number):
                self.figures.timed(name, engine, partial(work, engines[engine]))
            mine, theirs = (self.figures.measure(name, engine).detail["p50_ms"] for engine in engines)
            p50.append(mine / theirs)
        ratio = round(statistics.median(p50), 2)
        self.figures.record(name, FIRN, p50_over_files=ratio)
        self.figures.target(f"{name}: the median append over that of a file", ratio, at_most=0.8)
        put = self.figures.measure(name, FIRN).detail["put_an_append"]
        self.figures.target(f"{name}: PUTs an append", put, at_most=2.1)

    def open(self, root: Path) -> None:
        import firn

        options = self.options
        bucket = firn.connect(root).bucket
        layout = WriterLayout(firn.connect(root).prefix, "w", root.name)
        state = write_history(bucket, layout, options.transactions)
        name = f"open, {options.transactions:,} transactions"
        if options.transactions <= 10_000:
            self.figures.timed(name, FIRN, lambda: self._opened(root, options.transactions))
        write_checkpoint(bucket, layout, state)
        write_history(bucket, layout, options.newer, after=state)
        files = options.transactions + options.newer
        name = f"{name}, checkpoint + {options.newer}"
        self._opened(root, files)
        self.figures.pairs(name, {FIRN: lambda: self._opened(root, files)}, rounds=options.rounds)
        detail = self.figures.measure(name, FIRN).detail
        # the database's name, the table's own definition in vain, the hint, the checkpoint, the tail
        self.figures.target(f"{name}: GETs", detail.get("get"), at_most=4 + options.newer)
        # the database's writers twice, what they are once, two of the history, each twice: a directory's LIST isn't
        # of one moment
        self.figures.target(f"{name}: LISTs", detail.get("list"), at_most=10)

    def union(self, store: Any) -> None:
        import firn

        options = self.options
        seconds = {}
        for writers in sorted({1, MAX_IN_FLIGHT, min(options.writers, 2 * MAX_IN_FLIGHT), options.writers}):
            url = f"{store.url}/union-{writers}"
            place = firn.connect(store.place.parent).bucket
            for number in range(writers):
                layout = WriterLayout(
                    f"{store.place.name}/union-{writers}", f"w{number:03}", f"union-{writers}"
                )
                state = write_history(place, layout, options.each - 10)
                write_checkpoint(place, layout, state)
                write_history(place, layout, 10, after=state)

            def run(url: str = url, writers: int = writers) -> dict[str, Any]:
                facts: dict[str, Any] = {}
                with store.counted(facts):
                    db = firn.connect(url, options=store.firn_options)
                    found = len(db.table(TABLE).snapshot().files)
                assert found == writers * options.each, f"{found} files"
                return facts

            name = f"union of {writers} writers × {options.each:,}"
            run()
            self.figures.pairs(name, {FIRN: run}, rounds=options.rounds)
            seconds[writers] = self.figures.measure(name, FIRN).median or 0.0
        turns = {n: -(-n // MAX_IN_FLIGHT) for n in seconds}
        first, last = MAX_IN_FLIGHT, options.writers
        if first in seconds and last in seconds and last > first:
            flat = (seconds[last] / turns[last]) / (seconds[first] / turns[first])
            self.figures.target(
                f"time a turn of {MAX_IN_FLIGHT} histories, {last} writers over {first}", flat, at_most=1.25
            )

    def lake(self, root: Path) -> None:
        """The same appends, merge and scans over both journals."""
        import firn

        options = self.options
        rounds = [root / f"{n}" for n in range(options.rounds)]
        journals = {WRITER: "writer", LEADERLESS: "leaderless"}

        def table(place: Path, engine: str) -> Any:
            db = firn.connect(place / journals[engine], writer="w")
            names = db.tables()
            return db.table(TABLE) if TABLE in names else db.create_table(TABLE, journal=journals[engine])

        def appended(place: Path, engine: str) -> Callable[[], dict[str, Any]]:
            def run() -> dict[str, Any]:
                made, facts = table(place, engine), {}
                with counted(made.bucket, facts):
                    for number in range(options.appends):
                        made.append(_rows(number, options.rows))
                return facts

            return run

        def scanned(place: Path, engine: str) -> Callable[[], dict[str, Any]]:
            def run() -> dict[str, Any]:
                found = table(place, engine).scan(where="v >= 0.25").to_arrow().num_rows
                assert found > 0
                return {}

            return run

        def merged(place: Path, engine: str) -> Callable[[], dict[str, Any]]:
            def run() -> dict[str, Any]:
                assert table(place, engine).merge().files_removed == options.appends
                return {}

            return run

        steps = (
            ("append", appended),
            ("scan before the merge", scanned),
            ("merge", merged),
            ("scan", scanned),
        )
        for number, place in enumerate(rounds):
            for step, work in steps:
                engines = list(journals) if number % 2 else list(journals)[::-1]
                for engine in engines:
                    self.figures.timed(
                        f"{options.appends} × {options.rows:,} rows: {step}", engine, work(place, engine)
                    )
        for step, _ in steps[1:]:
            name = f"{options.appends} × {options.rows:,} rows: {step}"
            ratio = self.figures.ratio(name, WRITER, over=LEADERLESS)
            self.figures.target(f"{name}, over the leaderless log", ratio, at_most=1.05)

    def _opened(self, root: Path, files: int) -> dict[str, Any]:
        import firn

        db = firn.connect(root)
        facts: dict[str, Any] = {}
        with counted(db.bucket, facts):
            found = len(db.table(TABLE).snapshot().files)
        assert found == files, f"{found} files, not {files}"
        return facts


def _rows(number: int, rows: int) -> pa.Table:
    ids = pa.array(range(number * rows, (number + 1) * rows))
    names = pa.array([f"name-{i % 97}" for i in range(rows)])
    values = pa.array([(i * 7919 % 1000) / 1000 for i in range(rows)])
    return pa.table({"id": ids, "name": names, "v": values})


if __name__ == "__main__":
    main()
