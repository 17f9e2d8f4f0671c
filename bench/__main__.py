"""Run the benchmarks, all or by name: `python -m bench [--quick] [NAME …]`.

Programs whose peers have no release for the Spark, or the DuckDB, that Firn is developed on run in an environment of
their own, `.venv-bench`. It is made when it is missing or lacks something.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import RESULTS, ROOT

VENV = ROOT / ".venv-bench"


@dataclass(frozen=True)
class Program:
    name: str
    own_venv: bool
    quick: tuple[str, ...]
    """Options for a run of a minute or two, to see that everything works."""
    runs: tuple[tuple[str, ...], ...] = ((),)
    """The options of each run with peers, where a program runs several times."""


PROGRAMS = (
    Program("log_amplification", False, ("--appends", "50")),
    Program("open_table", False, ("--logs", "1000", "--slow-logs", "200", "--rounds", "2")),
    Program("first_answer", False, ("--rounds", "3")),
    Program("merge_into", False, ("--rows", "60000", "--changes", "10000", "--rounds", "1")),
    Program("merge_spark", True, ("--rows", "60000", "--changes", "10000", "--rounds", "1")),
    Program(
        "evolving",
        True,
        ("--logs", "300", "--files", "300", "--rows", "20000", "--rounds", "2", "--seconds", "1.5"),
    ),
    Program("sql_objects", False, ("--rows", "200000", "--small", "40", "--rounds", "1")),
    Program("sql_suites", False, ("--scale", "0.1", "--rounds", "1")),
    Program("sql_spill", False, ("--gb", "0.1")),
    Program("many_files", False, ("--files", "100", "--rounds", "1")),
    Program(
        "small_appends",
        False,
        ("--commits", "50", "--rounds", "2", "--long", "500", "--step", "100", "--each", "10"),
    ),
    Program("streaming", True, ("--rows", "20000", "--seconds", "2")),
    Program("inlined", True, ("--commits", "50", "--more", "100", "--many", "300", "--rounds", "2")),
    Program("keeping", False, ("--writers", "2", "--commits", "60", "--pause", "0.02", "--rounds", "1")),
    Program("bloom_pruning", False, ("--files", "40", "--rows", "500", "--lookups", "20", "--rounds", "1")),
    Program("keyed_lake", False, ("--rows", "50000", "--batches", "5", "--rounds", "2")),
    Program("keyed", False, ("--keys", "20000", "--samples", "500", "--rounds", "1")),
    Program("keyed_speed", False, ("--seconds", "5", "--sizes", "small", "--runs", "1", "8", "--mb", "32")),
    Program(
        "records",
        False,
        (
            *("--rows", "1", "10", "--indices", "0", "2", "--latencies", "0", "20", "--clients", "1", "4"),
            *(
                "--conflicts",
                "0",
                "10",
                "--seconds",
                "0.3",
                "--commits",
                "1000",
                "10000",
                "--entries",
                "50000",
                "--scanned",
                "10000",
                "--load-rows",
                "2000",
            ),
        ),
    ),
    Program("keyed_spark", False, ("--keys", "50000", "--rounds", "2")),
    Program(
        "writer_catalog",
        False,
        ("--transactions", "2000", "--writers", "40", "--each", "50", "--appends", "10", "--rounds", "2"),
    ),
    Program("rebuild", False, ("--files", "200", "--commits", "10", "--large", "5")),
    Program("memory", False, ("--scale", "0.05", "--markers", "10000")),
    Program(
        "spark_lineitem",
        True,
        ("--scale", "0.05", "--rounds", "1", "--query-rounds", "3"),
        runs=(("--peers=parquet", "--only=abef"), ("--peers=delta,iceberg",)),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    names = [program.name for program in PROGRAMS]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(names)}; all of them by default"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that everything works")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--no-peers", action="store_true", help="run Firn alone")
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no {sorted(unknown)[0]!r}; there are: {', '.join(names)}")
    failed = []
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        python = peers_python() if program.own_venv and not options.no_peers else Path(sys.executable)
        command = [str(python), "-m", f"bench.{program.name}", "--out", str(options.out)]
        command += ["--no-peers"] * options.no_peers + list(program.quick) * options.quick
        runs = ((),) if options.no_peers else program.runs
        codes = [
            subprocess.run([*command, *r], cwd=ROOT, env=environment(), check=False).returncode for r in runs
        ]
        if any(codes):
            failed.append(program.name)
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return bool(failed)


def environment() -> dict[str, str]:
    """This checkout's Firn, whatever is installed."""
    path = [str(ROOT / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def peers_python() -> Path:
    """The interpreter of the environment with the peers' Spark and DuckDB, made on first use."""
    from bench.lake_engines import REQUIREMENTS
    from bench.spark_engines import SPARK

    python, made = VENV / "bin" / "python", VENV / ".firn-packages"
    requirements = [".[spark,bench]", f"pyspark[connect]=={SPARK}", *REQUIREMENTS]
    wanted = "\n".join(requirements)
    if not made.exists() or made.read_text() != wanted:
        subprocess.run([ROOT / "scripts" / "make-venv", VENV, *requirements], check=True)
        made.write_text(wanted)
    return python


if __name__ == "__main__":
    sys.exit(main())
