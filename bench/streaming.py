"""Rows that come one by one: how many a second go in, in how many commits and requests, and how long a query takes
then.

Firn's appender gathers the rows of a second, or 10,000, and appends them; beside it Firn commits each ten. The peers
have nothing that gathers. DuckLake commits each ten, which it inlines, and then, gathered by the program, each 10,000
rows; delta-rs commits each ten. What commits each ten goes on for some seconds only. All write to a directory.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.duckdb_extensions import DUCKDB, LOAD, python_with
from bench.figures import FIRN, RESULTS, Figures, arguments, counted, finish

TENS, DUCKLAKE, GATHERED, DELTA = (
    "firn, by tens",
    "DuckLake, by tens",
    "DuckLake, gathered",
    "delta-rs, by tens",
)
TEN = 10
STREAM, QUERY = "{:,} rows, one by one", "group all {:,} rows by name"
SQL = "SELECT name, count(*) AS n, sum(value) AS v FROM {} GROUP BY name"

ROWS = """
from datetime import datetime, timedelta, timezone

def rows(count):
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for i in range(count):
        yield {"id": i, "name": f"device-{i % 97}", "value": i * 0.25, "time": start + timedelta(milliseconds=i)}
"""

PEER = (
    f"""
import json, sys, time
import duckdb
import pyarrow as pa
{ROWS}
{LOAD}
"""
    + """
place, size, count, seconds, sql = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
load(duck, "ducklake")
duck.execute(f"ATTACH 'ducklake:{place}.ducklake' AS lake (DATA_PATH '{place}', DATA_INLINING_ROW_LIMIT 100)")
duck.execute("CREATE TABLE lake.t (id BIGINT, name VARCHAR, value DOUBLE, time TIMESTAMPTZ)")

def insert(waiting):
    batch = pa.Table.from_pylist(waiting)
    duck.execute("INSERT INTO lake.t SELECT * FROM batch")

done, commits, waiting = 0, 0, []
began = time.perf_counter()
for row in rows(count):
    waiting.append(row)
    if len(waiting) == size:
        insert(waiting)
        done, commits, waiting = done + size, commits + 1, []
        if time.perf_counter() - began > seconds:
            break
spent = time.perf_counter() - began
began = time.perf_counter()
assert sum(row[1] for row in duck.execute(sql.format("lake.t")).fetchall()) == done
first, began = time.perf_counter() - began, time.perf_counter()
duck.execute(sql.format("lake.t")).fetchall()
query = time.perf_counter() - began
print(json.dumps({"rows": done, "commits": commits, "seconds": spent, "first": first, "query": query}))
"""
)


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--seconds", type=float, default=20, help="of what commits each ten")
    parser.add_argument(
        "--cache", type=Path, default=RESULTS / "ducklake", help="where the peer's packages stay"
    )
    options = parser.parse_args(argv)
    figures = Figures("streaming", {k: v for k, v in vars(options).items() if k not in ("out", "cache")})
    name, asked = STREAM.format(options.rows), QUERY.format(options.rows)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for engine in (FIRN, TENS):
            note(
                figures,
                name,
                asked,
                engine,
                **firn_stream(root / engine, engine, options.rows, options.seconds),
            )
        if not options.no_peers:
            peers(figures, name, asked, root, options)
    gathered, tens = (figures.measure(name, engine).detail["rows_a_s"] for engine in (FIRN, TENS))
    figures.target("Firn's rows a second by an appender over those by tens", gathered / tens, at_least=10)
    if not options.no_peers:
        lake = figures.ratio(name, GATHERED)
        figures.target("DuckLake's time over Firn's, both gathered", lake, at_least=1)
    figures.notes.append(
        "Rows that an appender gathers are not durable yet. Firn syncs what it writes to disk."
    )
    finish(figures, options.out)
    return figures


def note(
    figures: Figures, name: str, asked: str, engine: str, *, rows: int, seconds: float, **more: Any
) -> None:
    """What an engine took. Its time counts where it took all rows."""
    first, query = more.pop("first"), more.pop("query")
    whole = f"{rows:,}" == name.partition(" ")[0]
    figures.record(
        name, engine, seconds if whole else None, rows=rows, rows_a_s=round(rows / seconds), **more
    )
    figures.record(
        asked, engine, query if whole else None, rows=rows, first_s=round(first, 3), again_s=round(query, 3)
    )


def rows(count: int) -> Iterator[dict[str, Any]]:
    made: dict[str, Any] = {}
    exec(ROWS, made)
    found: Iterator[dict[str, Any]] = made["rows"](count)
    return found


def firn_stream(place: Path, engine: str, count: int, seconds: float) -> dict[str, Any]:
    import firn

    db = firn.connect(place)
    db.create_table("warm").append(list(rows(TEN)))  # whatever is only loaded once
    list(db.sql(SQL.format("warm")))
    table = db.create_table("t", properties={"inline": "64KB"})
    facts: dict[str, Any] = {}
    added = 0
    began = time.perf_counter()
    with counted(table.bucket, facts):
        if engine == FIRN:
            with table.appender(seconds=1) as out:
                for row in rows(count):
                    out.add(row)
            added = out.stats.rows
        else:
            waiting = []
            for row in rows(count):
                waiting.append(row)
                if len(waiting) == TEN:
                    table.append(waiting)
                    added, waiting = added + TEN, []
                    if time.perf_counter() - began > seconds:
                        break
    spent = time.perf_counter() - began
    began = time.perf_counter()
    found = db.sql(SQL.format("t")).to_arrow()
    assert sum(found["n"].to_pylist()) == added
    first, began = time.perf_counter() - began, time.perf_counter()
    db.sql(SQL.format("t")).to_arrow()
    query = time.perf_counter() - began
    commits = len(table.history())
    kept = {name: facts[name] for name in ("requests", "put", "mb_out")}
    return {"rows": added, "seconds": spent, "first": first, "query": query, "commits": commits, **kept}


def peers(figures: Figures, name: str, asked: str, root: Path, options: Any) -> None:
    try:
        python = python_with(options.cache / f"venv-{DUCKDB}", ["ducklake"], ["pyarrow"])
    except subprocess.CalledProcessError as error:
        figures.notes.append(f"DuckLake's extension can't be had here: {error}")
    else:
        for engine, size, seconds in ((DUCKLAKE, TEN, options.seconds), (GATHERED, 10_000, 1e9)):
            arguments = [
                str(root / engine.replace(" ", "-")),
                str(min(size, options.rows)),
                str(options.rows),
            ]
            command: list[Any] = [python, "-c", PEER, *arguments, str(seconds), SQL]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                figures.notes.append(f"{engine} failed: {done.stderr.strip().splitlines()[-1]}")
            else:
                note(figures, name, asked, engine, **json.loads(done.stdout))
    if find_spec("deltalake") is None:
        figures.notes.append("delta-rs isn't installed here: pip install deltalake.")
    else:
        note(figures, name, asked, DELTA, **delta_stream(root / "delta", options.rows, options.seconds))


def delta_stream(place: Path, count: int, seconds: float) -> dict[str, Any]:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    added = commits = 0
    waiting: list[dict[str, Any]] = []
    began = time.perf_counter()
    for row in rows(count):
        waiting.append(row)
        if len(waiting) == TEN:
            write_deltalake(str(place), pa.Table.from_pylist(waiting), mode="append")
            added, commits, waiting = added + TEN, commits + 1, []
            if time.perf_counter() - began > seconds:
                break
    spent = time.perf_counter() - began
    began = time.perf_counter()
    duck, table = duckdb.connect(), DeltaTable(str(place))
    duck.register("lake", table.to_pyarrow_dataset())
    assert sum(row[1] for row in duck.execute(SQL.format("lake")).fetchall()) == added
    first, began = time.perf_counter() - began, time.perf_counter()
    duck.execute(SQL.format("lake")).fetchall()
    query = time.perf_counter() - began
    return {"rows": added, "seconds": spent, "first": first, "query": query, "commits": commits}


if __name__ == "__main__":
    main()
