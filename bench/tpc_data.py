"""Data and queries of TPC-H and TPC-DS, by DuckDB's extensions: another DuckDB than Firn's generates a Parquet file a
table, and the texts of the queries.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.duckdb_extensions import DUCKDB, LOAD, python_with

SUITES = ("tpch", "tpcds")

_GENERATE = (
    f"""
import json, os, sys
import duckdb
{LOAD}
"""
    + """
suite, scale, root = sys.argv[1:]
duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
load(duck, suite)
duck.execute(f"CALL {'dbgen' if suite == 'tpch' else 'dsdgen'}(sf = {scale})")
for (table,) in duck.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    duck.execute(f"COPY {table} TO '{root}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
texts = dict(duck.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall())
with open(f"{root}/queries.json", "w") as file:
    json.dump(texts, file)
"""
)


@dataclass(frozen=True)
class Suite:
    """One suite's tables and queries at one scale."""

    name: str
    scale: float
    tables: dict[str, Path]
    queries: dict[int, str]


def suite_of(name: str, scale: float, cache: Path) -> Suite:
    """The suite, generated on first use."""
    root = cache / f"{name}-{scale:g}"
    texts = root / "queries.json"
    if not texts.exists():
        root.mkdir(parents=True, exist_ok=True)
        python = python_with(cache / f"venv-{DUCKDB}", SUITES)
        subprocess.run([python, "-c", _GENERATE, name, f"{scale:g}", root], check=True)
    queries = {int(number): text for number, text in json.loads(texts.read_text()).items()}
    tables = {path.stem: path for path in sorted(root.glob("*.parquet"))}
    return Suite(name, scale, tables, dict(sorted(queries.items())))
