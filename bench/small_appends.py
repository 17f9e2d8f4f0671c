"""Ten rows at a time, without Spark: how fast, how flat over many commits, and what eight writers at once lose; and
what it takes to read many such files.

The peer is delta-rs (PyPI deltalake). Both keep a handle of the table open, and write to a directory.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import FIRN, Figures, arguments, counted, finish

DELTA = "delta-rs"
PARQUET = "plain Parquet"
ROWS = 10


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--commits", type=int, default=200, help="of the paired runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=10_000, help="commits to look at flatness over")
    parser.add_argument("--step", type=int, default=1_000, help="commits a figure of these")
    parser.add_argument("--peer-seconds", type=float, default=240, help="the peer's time for the long run")
    parser.add_argument("--writers", type=int, default=8, help="processes at once")
    parser.add_argument("--each", type=int, default=50, help="appends of each of them")
    parser.add_argument("--files", type=int, default=300, help="small files to read at once")
    parser.add_argument("--directory", help="where the tables go; a temporary directory by default")
    options = parser.parse_args(argv)
    settings = {k: v for k, v in vars(options).items() if k not in ("out", "directory")}
    figures = Figures("small_appends", {**settings, "rows_an_append": ROWS})
    engines = [FIRN] if options.no_peers else [FIRN, DELTA]
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        paired(figures, Path(root), engines, options.commits, options.rounds)
        flat(figures, Path(root), engines, options.long, options.step, options.peer_seconds)
        if options.writers:
            together(figures, Path(root), engines, options.writers, options.each)
        if options.files:
            small_files(figures, Path(root), options.files, options.rounds)
    figures.notes.append(
        "Firn syncs every object and its directory to disk before an append returns; delta-rs syncs nothing."
    )
    finish(figures, options.out)
    return figures


def rows(number: int) -> pa.Table:
    """The rows of one append."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"device-{i % 97}" for i in ids]),
            "value": pa.array([i * 0.25 for i in ids]),
            "at": pa.array([1_700_000_000_000_000 + i for i in ids], pa.timestamp("us", "UTC")),
        }
    )


def appender(engine: str, root: Path) -> Callable[[int], Any]:
    """A function that appends the rows of a number to the engine's table at `root`."""
    if engine == FIRN:
        import firn

        db = firn.connect(root)
        table = db.table("t") if "t" in db.tables() else db.create_table("t")
        return lambda number: table.append(rows(number))
    from deltalake import DeltaTable, write_deltalake

    if not DeltaTable.is_deltatable(str(root)):
        write_deltalake(str(root), rows(0).slice(0, 0))
    handle = DeltaTable(str(root))
    return lambda number: write_deltalake(handle, rows(number), mode="append")


def count(engine: str, root: Path) -> int:
    if engine == FIRN:
        import firn

        return int(firn.connect(root).table("t").scan().count())
    from deltalake import DeltaTable

    return int(DeltaTable(str(root)).to_pyarrow_dataset().count_rows())


def paired(figures: Figures, root: Path, engines: Sequence[str], commits: int, rounds: int) -> None:
    name = f"{commits} appends of {ROWS} rows"
    for engine in engines:  # whatever is only loaded once
        appender(engine, root / f"warm-{engine}")(0)

    def work(engine: str) -> dict[str, Any]:
        place = root / f"paired-{engine}"
        append = appender(engine, place)
        for number in range(commits):
            append(number)
        facts = on_disk(place)
        shutil.rmtree(place)
        return facts

    figures.pairs(name, {engine: partial(work, engine) for engine in engines}, rounds=rounds)
    figures.record(name, FIRN, **firn_requests(root / "counted", min(commits, 50)))
    for engine in engines:
        median = figures.measure(name, engine).median
        figures.record(name, engine, appends_a_s=round(commits / median, 1) if median else None)
    figures.target(f"{name}: delta-rs's time over Firn's", figures.ratio(name, DELTA), at_least=2)


def small_files(figures: Figures, root: Path, files: int, rounds: int) -> None:
    """Read a table of many small files, against one thread that reads the same files with plain Parquet. The ratio
    is of user CPU time, in which other work of the machine counts little."""
    import firn

    for place, url in (("memory", "memory://"), ("a directory", str(root / "small"))):
        name = f"read {files} files of {ROWS} rows in {place}"
        table = firn.connect(url).create_table("t")
        for number in range(files):
            table.append(rows(number))
        paths = [file.path for file in table.snapshot().files]

        def ours(table: Any = table) -> int:
            return int(table.scan().to_arrow().num_rows)

        def plain(table: Any = table, paths: Sequence[str] = paths) -> int:
            parts = []
            for path in paths:
                there = table.bucket.local_path(path)
                source = there or pa.BufferReader(table.bucket.get(path).data)
                with pq.ParquetFile(source) as file:
                    parts.append(file.read())
            return int(pa.concat_tables(parts).num_rows)

        works = {FIRN: ours, PARQUET: plain}
        spent: dict[str, list[float]] = {engine: [] for engine in works}
        for number in range(rounds * 5 + 1):
            for engine, work in works.items():
                began = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()
                if work() != files * ROWS:
                    raise AssertionError(f"{engine} lacks rows of {name}")
                if number:  # the first loads what is only loaded once
                    figures.record(name, engine, time.perf_counter() - began[1])
                    spent[engine].append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - began[0])
        medians = {engine: statistics.median(times) for engine, times in spent.items()}
        for engine, median in medians.items():
            figures.record(name, engine, user_cpu_ms=round(median * 1000))
        figures.target(
            f"{name}: Firn's user CPU over plain Parquet's", medians[FIRN] / medians[PARQUET], at_most=1.5
        )


def firn_requests(root: Path, commits: int) -> dict[str, Any]:
    import firn

    table = firn.connect(root).create_table("t")
    facts: dict[str, Any] = {}
    with counted(table.bucket, facts):
        for number in range(commits):
            table.append(rows(number))
    return {"requests_an_append": round(facts["requests"] / commits, 2)}


def on_disk(place: Path) -> dict[str, Any]:
    files = [p for p in place.rglob("*") if p.is_file()]
    return {"objects": len(files), "mb_left": round(sum(p.stat().st_size for p in files) / 2**20, 2)}


def flat(
    figures: Figures, root: Path, engines: Sequence[str], commits: int, step: int, peer_seconds: float
) -> None:
    """Rates a step of commits, both engines in turn step by step."""
    appends = {engine: appender(engine, root / f"long-{engine}") for engine in engines}
    spent = dict.fromkeys(engines, 0.0)
    for start in range(0, commits, step):
        name = f"appends {start:,}–{min(start + step, commits):,}"
        for engine in engines:
            if engine != FIRN and spent[engine] > peer_seconds:
                continue
            began = time.perf_counter()
            for number in range(start, min(start + step, commits)):
                appends[engine](number)
            seconds = time.perf_counter() - began
            spent[engine] += seconds
            rate = (min(start + step, commits) - start) / seconds
            figures.record(name, engine, seconds, appends_a_s=round(rate, 1))
    rates = [
        m.detail["appends_a_s"]
        for m in figures.measures.values()
        if m.engine == FIRN and m.name.startswith("appends ")
    ]
    if len(rates) > 1:
        figures.target(
            f"Firn's rate at {commits:,} commits over its rate at first", rates[-1] / rates[0], at_least=0.8
        )


def together(figures: Figures, root: Path, engines: Sequence[str], writers: int, each: int) -> None:
    name = f"{writers} processes, {each} appends each"
    for engine in engines:
        place = root / f"together-{engine}"
        appender(engine, place)(0)
        command = [sys.executable, "-m", "bench.small_appends_writer", engine, str(place), str(each)]
        with tempfile.TemporaryDirectory() as start:
            go = Path(start, "go")
            processes = [
                subprocess.Popen(
                    [*command, str(number), str(go)], stdout=subprocess.PIPE, text=True, cwd=_home()
                )
                for number in range(1, writers + 1)
            ]
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()  # "ready"
            began = time.perf_counter()
            go.touch()
            answers = [json.loads(process.communicate()[0]) for process in processes]
            seconds = time.perf_counter() - began
        failed = sum(answer["failed"] for answer in answers)
        expected = ROWS * (1 + writers * each - failed)
        found = count(engine, place)
        figures.record(
            name,
            engine,
            seconds,
            failed=failed,
            rows_missing=expected - found,
            appends_a_s=round((writers * each - failed) / seconds, 1),
            errors="; ".join(sorted({e for answer in answers for e in answer["errors"]}))[:200],
        )
    lost = figures.measure(name, FIRN).detail
    figures.target(
        f"{name}: appends that failed or lost rows", lost["failed"] + lost["rows_missing"], at_most=0
    )


def _home() -> Path:
    from bench.figures import ROOT

    return ROOT


if __name__ == "__main__":
    main()
