"""Commits of ten rows that stand in their logs, against commits that write a file each: how long an append takes, and
what it takes to open and read 300 of them, and to aggregate 10,000 that nobody has merged, by a fresh process.

The peers are Firn without `inline`, and DuckLake, which inlines too, delta-rs and PyIceberg where they are installed.
All write to a directory.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import FIRN, Figures, arguments, finish
from bench.lake_engines import FILES, fill, installed, read
from bench.small_appends import ROWS

FRESH = """
import json, sys, time
import firn
query = "SELECT name, count(*) AS n, sum(value) AS v FROM t GROUP BY name"
firn.connect(sys.argv[2]).sql(query).to_arrow()  # what is imported by need
db = firn.connect(sys.argv[1])
began, cpu = time.perf_counter(), time.process_time()
found = db.sql(query).to_arrow()
taken = {"after_imports_s": time.perf_counter() - began, "after_imports_cpu_s": time.process_time() - cpu}
print(json.dumps({"rows": sum(found["n"].to_pylist()), **taken}))
"""

IMPORTING = 20
"""Commits of the table that a fresh process reads first, to have imported what reading takes."""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--more", type=int, default=1000, help="commits that all engines read, too")
    parser.add_argument("--many", type=int, default=10_000, help="commits that a fresh process aggregates")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    figures = Figures("inlined", {k: v for k, v in vars(options).items() if k != "out"})
    engines = [FIRN, FILES, *([] if options.no_peers else installed())]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        appends(figures, root, engines, options.commits, options.rounds)
        reads(figures, root, engines, (options.commits, options.more), options.rounds)
        many(figures, root, options.many, options.rounds)
    figures.notes.append(
        "Firn syncs every object and its directory to disk before an append returns; DuckLake and PyIceberg sync "
        "their catalog's file alone, delta-rs nothing."
    )
    finish(figures, options.out)
    return figures


def appends(figures: Figures, root: Path, engines: Sequence[str], commits: int, rounds: int) -> None:
    name = f"{commits} appends of {ROWS} rows"
    for engine in engines:  # whatever is only loaded once
        fill(engine, root / f"warm {engine}", range(1))

    def work(engine: str) -> dict[str, Any]:
        place = root / "appends"
        took = sorted(fill(engine, place, range(commits)))
        shutil.rmtree(place)
        return {
            "p50_ms": round(1000 * took[commits // 2], 2),
            "p99_ms": round(1000 * took[commits * 99 // 100], 2),
        }

    figures.pairs(name, {engine: partial(work, engine) for engine in engines}, rounds=rounds)
    figures.target(
        f"{name}: Firn's time over that of a file a commit",
        figures.ratio(name, FIRN, over=FILES),
        at_most=0.7,
    )


def reads(figures: Figures, root: Path, engines: Sequence[str], sizes: Sequence[int], rounds: int) -> None:
    """By a process that has read before, which opens the table anew each time."""
    there = 0
    for commits in sizes:
        name = f"open a table of {commits} commits, and read it"
        for engine in engines:
            fill(engine, root / engine, range(there, commits))
        there = commits

        def work(engine: str, commits: int = commits) -> None:
            assert read(engine, root / engine) == commits * ROWS

        for engine in engines:
            work(engine)
        figures.pairs(name, {engine: partial(work, engine) for engine in engines}, rounds=rounds)
        if commits == sizes[0]:
            figures.target(f"{name}: seconds", figures.measure(name, FIRN).median, at_most=0.05)


def many(figures: Figures, root: Path, commits: int, rounds: int) -> None:
    """Of a table with a log checkpoint, and of one without."""
    import firn

    for place, count in (("many", commits), ("few", IMPORTING)):
        fill(FIRN, root / place, range(count))
    for kind in ("without", "with"):
        name = f"aggregate {commits:,} commits in a fresh process, {kind} a log checkpoint"
        if kind == "with":
            firn.connect(root / "many").table("t").checkpoint()
        said = []
        for _ in range(rounds):
            began = time.perf_counter()
            command = [sys.executable, "-c", FRESH, str(root / "many"), str(root / "few")]
            said.append(
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            )
            figures.record(name, FIRN, time.perf_counter() - began)
            assert said[-1]["rows"] == commits * ROWS
        medians = {
            key: round(statistics.median(one[key] for one in said), 3) for key in said[0] if key != "rows"
        }
        figures.record(name, FIRN, **medians)
        figures.target(f"{name}: seconds after imports", medians["after_imports_s"], at_most=0.5)


if __name__ == "__main__":
    main()
