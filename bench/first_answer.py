"""The first answer of a fresh process: a query over a table of 25 rows, from the start of Python to its rows.

By the library and by the shell, in a directory, and by the library on an S3 server whose every answer is held back,
if there is one. Peers: DuckDB over the very Parquet file, which is the least that any engine in
Python can take, and delta-rs with DuckDB over its table, where it is installed. Bytecode is there: each has run once
before.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.figures import FIRN, Figures, arguments, finish
from bench.slow_store import server_program, slow_store

DUCKDB, DELTA = "DuckDB", "delta-rs"
LIBRARY, SHELL = "the library: connect, query, rows", "the shell: firn sql"
DISTANT = "the library, on S3"
QUERY = "SELECT origin, avg(delay) AS d FROM {} GROUP BY 1"

ON_S3 = """
import json, sys, firn
db = firn.connect(sys.argv[1], options=json.loads(sys.argv[3]))
print(db.sql(sys.argv[2].format("flights")).to_arrow().num_rows)
"""

PROGRAMS = {
    FIRN: """
import sys, firn
print(firn.connect(sys.argv[1]).sql(sys.argv[2].format("flights")).to_arrow().num_rows)
""",
    DUCKDB: """
import sys, duckdb
print(len(duckdb.sql(sys.argv[2].format(f"read_parquet('{sys.argv[1]}')")).fetchall()))
""",
    DELTA: """
import sys, duckdb, deltalake
flights = deltalake.DeltaTable(sys.argv[1]).to_pyarrow_dataset()
print(len(duckdb.sql(sys.argv[2].format("flights")).fetchall()))
""",
}


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of each answer of the S3 server")
    options = parser.parse_args(argv)
    figures = Figures("first_answer", {k: v for k, v in vars(options).items() if k != "out"})
    with tempfile.TemporaryDirectory() as root:
        places = _tables(Path(root), options.rows, peers=not options.no_peers)
        work = {engine: _process("-c", PROGRAMS[engine], place, QUERY) for engine, place in places.items()}
        shell = "from firn.cli import main; main()"
        asked = (QUERY.format("flights"), "--db", places[FIRN], "--csv")
        runs = {LIBRARY: work, SHELL: {FIRN: _process("-c", shell, "sql", *asked)}}
        for name, engines in runs.items():
            for run in engines.values():
                run()  # once untimed: bytecode, page cache
            figures.pairs(name, engines, rounds=options.rounds)
    for name in runs:
        figures.target(
            f"{name}: seconds, on an idle machine", figures.measure(name, FIRN).median, at_most=0.3
        )
    if server_program() is None:
        figures.notes.append("S3 is left out: versitygw is missing (tests/stores/install.py).")
    else:
        _on_s3(figures, options.rows, options.rounds, options.latency)
    finish(figures, options.out)
    return figures


def _on_s3(figures: Figures, rows: int, rounds: int, latency: float) -> None:
    with slow_store(latency) as store:
        import firn

        firn.connect(store.url, options=store.firn_options).create_table("flights").append(_rows(rows))
        run = _process("-c", ON_S3, store.url, QUERY, json.dumps(store.firn_options))

        def counted() -> dict[str, Any]:
            before = store.requests.total()
            return {**run(), "requests": store.requests.total() - before}

        run()
        figures.pairs(DISTANT, {FIRN: counted}, rounds=rounds)
    figures.target(
        f"{DISTANT}: seconds, on an idle machine", figures.measure(DISTANT, FIRN).median, at_most=0.5
    )


def _rows(rows: int) -> Any:
    import pyarrow as pa

    return pa.table({"origin": ["DTW", "HNL"] * (rows // 2) + ["SFO"] * (rows % 2), "delay": range(rows)})


def _tables(root: Path, rows: int, *, peers: bool) -> dict[str, str]:
    """The same rows for each engine, and where they are."""
    import firn

    data = _rows(rows)
    db = firn.connect(root / "firn")
    table = db.create_table("flights")
    table.append(data)
    places = {FIRN: str(root / "firn")}
    if peers:
        places[DUCKDB] = table.scan().uris()[0]
        if find_spec("deltalake") is not None:
            import deltalake

            deltalake.write_deltalake(str(root / "delta"), data)
            places[DELTA] = str(root / "delta")
    return places


def _process(*words: str) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}

    return run


if __name__ == "__main__":
    main()
