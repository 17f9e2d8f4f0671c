"""Lake tables of Firn and its peers in process, without Spark: appending ten rows at a time, and reading all of them.

DuckLake's catalog is a DuckDB file and Iceberg's a SQLite file beside the data: what each has for one machine.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.figures import FIRN
from bench.small_appends import DELTA, rows

FILES = "Firn, a file a commit"
DUCKLAKE = "DuckLake, inlined"
ICEBERG = "PyIceberg"

DUCKDB = "1.5.5"
REQUIREMENTS = (f"duckdb=={DUCKDB}", f"duckdb-extension-ducklake=={DUCKDB}", "pyiceberg[sql-sqlite]>=0.11")
"""Of the environment of peers. The extension is for one version of DuckDB, the newest that has it as a package."""

_NEEDS = {DELTA: "deltalake", DUCKLAKE: "duckdb_extension_ducklake", ICEBERG: "pyiceberg"}


def installed() -> list[str]:
    """The peers that this environment has."""
    return [engine for engine, package in _NEEDS.items() if find_spec(package) is not None]


def appender(engine: str, place: Path) -> Callable[[int], Any]:
    """A function that appends the rows of a number to the table at `place`, by a handle that stays open. DuckLake's
    can't be read in this process until it is gone."""
    if engine == DELTA:
        from bench.small_appends import appender as of_delta

        return of_delta(engine, place)
    if engine == DUCKLAKE:
        lake = ducklake(place)
        lake.register("these", rows(0))
        lake.execute("CREATE TABLE IF NOT EXISTS lake.t AS FROM these LIMIT 0")

        def insert(number: int) -> None:
            lake.register("these", rows(number))
            lake.execute("INSERT INTO lake.t FROM these")

        return insert
    if engine == ICEBERG:
        catalog = _iceberg(place)
        catalog.create_namespace_if_not_exists("n")
        iceberg = catalog.create_table_if_not_exists("n.t", schema=rows(0).schema)
        return lambda number: iceberg.append(rows(number))
    import firn

    properties = {"inline": "64KB" if engine == FIRN else "0"}
    db = firn.connect(place)
    table = db.table("t") if "t" in db.tables() else db.create_table("t", properties=properties)
    return lambda number: table.append(rows(number))


def fill(engine: str, place: Path, numbers: Iterable[int]) -> list[float]:
    """Append the rows of these numbers; how many seconds each took."""
    append = appender(engine, place)
    took = []
    for number in numbers:
        began = time.perf_counter()
        append(number)
        took.append(time.perf_counter() - began)
    return took


def read(engine: str, place: Path) -> int:
    """Open the table anew and read all of its rows as Arrow: how many there are."""
    if engine == DELTA:
        from deltalake import DeltaTable

        return int(DeltaTable(str(place)).to_pyarrow_table().num_rows)
    if engine == DUCKLAKE:
        lake = _attached(_reader(), place)
        found = lake.execute("FROM lake.t").to_arrow_table().num_rows
        lake.execute("DETACH lake")
        return int(found)
    if engine == ICEBERG:
        return int(_iceberg(place).load_table("n.t").scan().to_arrow().num_rows)
    import firn

    return int(firn.connect(place).table("t").scan().to_arrow().num_rows)


def ducklake(place: Path) -> Any:
    """A connection to DuckDB in which `lake` is a DuckLake that inlines."""
    return _attached(_duckdb(), place)


def _duckdb() -> Any:
    import duckdb

    package = importlib.import_module("duckdb_extension_ducklake")
    (extension,) = Path(str(package.__file__)).parent.glob("extensions/*/ducklake.duckdb_extension")
    lake = duckdb.connect()
    lake.execute(f"LOAD '{extension}'")
    return lake


_reader = cache(_duckdb)
"""Loading the extension takes longer than reading."""


def _attached(lake: Any, place: Path) -> Any:
    place.mkdir(parents=True, exist_ok=True)
    options = f"DATA_PATH '{place}/data', DATA_INLINING_ROW_LIMIT 100"
    lake.execute(f"ATTACH 'ducklake:{place}/lake.db' AS lake ({options})")
    return lake


def _iceberg(place: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    place.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
