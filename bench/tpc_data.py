"""Data and queries of TPC-H and TPC-DS, by DuckDB's extensions, in a virtual environment of their own.

Registries have the extensions as packages, each for one version of DuckDB, which isn't the one that Firn runs on. So
another DuckDB generates: a Parquet file a table, and the texts of the queries.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DUCKDB = "1.5.5"
SUITES = ("tpch", "tpcds")

_GENERATE = """
import importlib.util, json, os, sys
import duckdb

suite, scale, root = sys.argv[1:]
package = importlib.util.find_spec(f"duckdb_extension_{suite}").submodule_search_locations[0]
duck = duckdb.connect(config={"allow_unsigned_extensions": "true"})
duck.execute(f"LOAD '{package}/extensions/v{duckdb.__version__}/{suite}.duckdb_extension'")
duck.execute(f"CALL {'dbgen' if suite == 'tpch' else 'dsdgen'}(sf = {scale})")
for (table,) in duck.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    duck.execute(f"COPY {table} TO '{root}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
texts = dict(duck.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall())
with open(f"{root}/queries.json", "w") as file:
    json.dump(texts, file)
"""


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
        subprocess.run([_python(cache), "-c", _GENERATE, name, f"{scale:g}", root], check=True)
    queries = {int(number): text for number, text in json.loads(texts.read_text()).items()}
    tables = {path.stem: path for path in sorted(root.glob("*.parquet"))}
    return Suite(name, scale, tables, dict(sorted(queries.items())))


def _python(cache: Path) -> Path:
    """The interpreter of the environment that generates, made on first use."""
    root = cache / f"venv-{DUCKDB}"
    python, made = root / "bin" / "python", root / ".made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", root], check=True)
        packages = [f"duckdb-extension-{name}=={DUCKDB}" for name in SUITES]
        subprocess.run([python, "-m", "pip", "install", "-q", f"duckdb=={DUCKDB}", *packages], check=True)
        made.touch()
    return python
