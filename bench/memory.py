"""Memory of Spark's Python workers while Firn appends, merges and deletes; time and memory of planning.

Each case has a process of its own: a worker keeps what an earlier case made it allocate.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import FIRN, RESULTS, ROOT, Figures, arguments, counted, finish
from bench.lineitem import lineitem

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.lake.table import LakeTable

SPARK_CASES = (
    "append to 7 partitions",
    "append to 1,000 partitions",
    "delete of 10 %",
    "20 appends",
    "merge",
)
SPECS = {"append to 7 partitions": ["l_shipmode"], "append to 1,000 partitions": ["bucket(1000, l_partkey)"]}
WORKER_MB = 600
PLAN_MB = 500


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor; 1 is 6 million rows")
    parser.add_argument("--markers", type=int, default=100_000, help="live files to plan a scan over")
    parser.add_argument("--per-log", type=int, default=100, help="of them in one log")
    parser.add_argument("--no-spark", action="store_true", help="only the planning")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.case:
        facts = (
            plan(options.place)
            if options.case == "plan"
            else on_spark(options.case, options.place, options.scale)
        )
        print(json.dumps(facts))
        return Figures("memory", {})
    settings = {k: v for k, v in vars(options).items() if k not in ("out", "case", "place")}
    figures = Figures("memory", settings)
    with tempfile.TemporaryDirectory() as root:
        if not options.no_spark:
            lineitem(options.scale, RESULTS / "data")
            for case in SPARK_CASES:
                facts = _in_process(case, Path(root, "db"), options.scale)
                figures.record(case, FIRN, **facts)
                figures.target(f"{case}: MB of the largest worker", facts["worker_mb"], at_most=WORKER_MB)
        planning(figures, Path(root, "plan"), options.markers, options.per_log)
    finish(figures, options.out)
    return figures


def _in_process(case: str, place: Path, scale: float) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "bench.memory",
        "--case",
        case,
        "--place",
        str(place),
        "--scale",
        str(scale),
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def on_spark(case: str, place: Path, scale: float) -> dict[str, Any]:
    """One case on a session of its own; what it used."""
    import firn
    from bench.memory_watch import MemoryWatch
    from firn.spark.session.session import active_or_start

    data = lineitem(scale, RESULTS / "data")
    spark = active_or_start(master="local[2]")
    db = firn.connect(place, spark=spark)
    facts: dict[str, Any] = {}
    table = _table(db, case)
    with MemoryWatch() as watch, counted(db.bucket, facts):
        began = time.perf_counter()
        if case in SPECS:
            table.append(spark.read.parquet(str(data.whole)))
        elif case == "20 appends":
            for part in data.parts:
                table.append(spark.read.parquet(str(part)))
        elif case == "merge":
            table.merge()
        else:
            table.delete("l_orderkey % 10 = 3")
        facts["seconds"] = time.perf_counter() - began
    facts["worker_mb"] = watch.peak_mb
    facts["workers_together_mb"] = watch.together_mb
    facts["driver_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    facts["live_files"] = len(table.snapshot().files)
    spark.stop()
    return facts


def _table(db: Database, case: str) -> LakeTable:
    """`delete` works on what the first case left, `merge` on what the 20 appends left."""
    if case in SPECS:
        return db.create_table(f"t{len(db.tables())}", partition_by=SPECS[case])
    if case == "20 appends":
        return db.create_table("often", partition_by=["l_shipmode"])
    return db.table("often" if case == "merge" else "t0")


def planning(figures: Figures, place: Path, markers: int, per_log: int) -> None:
    """Plan a scan over many live files in a fresh process: from their logs, and from a checkpoint."""
    import firn
    from bench.long_logs import firn_log

    table = firn.connect(place).create_table("t")
    firn_log(table, max(1, markers // per_log), files=per_log)
    for name in (f"plan a scan over {markers:,} files", f"plan a scan over {markers:,} files, checkpoint"):
        if name.endswith("checkpoint"):
            firn.connect(place).table("t").checkpoint()
        for _ in range(3):
            facts = _in_process("plan", place, 0)
            figures.record(name, FIRN, facts.pop("wall_s"), **facts)
        figures.target(f"{name}: s", figures.measure(name, FIRN).median, at_most=1)
        figures.target(f"{name}: MB", figures.measure(name, FIRN).detail["peak_mb"], at_most=PLAN_MB)


def plan(place: Path) -> dict[str, Any]:
    """In a fresh process: which files a selective predicate leaves to be read."""
    import pyarrow  # noqa: F401

    import firn

    table = firn.connect(place).table("t")
    began, cpu = time.perf_counter(), time.process_time()
    files = table.scan(where="id BETWEEN 1000 AND 1999").files()
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "files_left": len(files),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


if __name__ == "__main__":
    main()
