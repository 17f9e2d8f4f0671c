"""Every expression of `expressions`: names, types and values as DuckDB gives them over a plain table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import expressions
import pyarrow as pa
import pytest

import firn
from firn.arrow.types import arrow_type
from firn.errors import FirnError, UnsupportedError
from firn.journal.typenames import canonical
from firn.names import fold
from firn.predicate.functions import FUNCTIONS

STORES = {"lake": "directory", "memory": "memory", "key": "memory", "keyed": "memory"}
OPTIONS = {"key": ", PRIMARY KEY (k))", "keyed": ", PRIMARY KEY (k)) WITH (kind = 'keyed')"}


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


class Both:
    """A table of Firn's and one of DuckDB's, with the same rows."""

    def __init__(self, kind: str, tmp_path: Path) -> None:
        self.db = firn.connect(tmp_path / "db" if STORES[kind] == "directory" else "memory://")
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self.texts = duckdb.connect()
        self.texts.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"{name} {type}" for name, type in expressions.COLUMNS.items())
        self.duck.execute(f"CREATE TABLE t ({columns})")
        self.duck.execute(f"INSERT INTO t VALUES {expressions.ROWS}")
        if kind == "keyed":  # its columns are Python's values, too
            columns = columns.replace("ns TIMESTAMP_NS, ", "")
            self.duck.execute("ALTER TABLE t DROP COLUMN ns")
        self.db.sql(f"CREATE TABLE t ({columns}{OPTIONS.get(kind, ')')}")
        rows = self.duck.sql("FROM t").to_arrow_table()
        self.db.sql("INSERT INTO t SELECT * FROM given", tables={"given": rows}, fence=True)

    def close(self) -> None:
        self.db.close()
        for connection in (self.duck, self.texts):
            connection.close()

    def check(self, query: str, said: Sequence[str] = (), *, values: bool = True) -> None:
        """That a query has the same result in both. `said`: what each column was asked as, for messages."""
        theirs, ours = self.duck.sql(query), self.db.sql(query)
        names = theirs.columns
        said = said or [query] * len(names)
        kinds = dict(zip(said, [canonical(str(kind)) for kind in theirs.types], strict=False))
        assert dict(zip(said, ours.columns.values(), strict=False)) == kinds
        alone = [fold(name) for name in names]
        for name, given in zip(names, ours.columns, strict=True):
            assert given == name or alone.count(fold(name)) > 1
        if values:
            expected, found = self._shown(theirs.to_arrow_table()), self._shown(ours.to_arrow())
            assert len(found) == len(expected), query
            for text, *both in zip(said, zip(*expected, strict=True), zip(*found, strict=True), strict=False):
                assert both[1] == both[0], text

    def failure(self, query: str) -> tuple[Exception | None, Exception | None]:
        """What DuckDB and Firn say of a query that may fail."""
        found: list[Exception | None] = [None, None]
        for number, run in enumerate((self.duck.sql, self.db.sql)):
            try:
                run(query).to_arrow_table() if number == 0 else run(query).to_arrow()
            except (duckdb.Error, FirnError) as error:
                found[number] = error
        return found[0], found[1]

    def kinds(self, every: Sequence[str]) -> dict[str, str]:
        """The types of the expressions that the table has columns for."""
        without = (
            [one for one in every if re.search(r"\bns\b", one)]
            if "ns" not in self.duck.table("t").columns
            else []
        )
        asked = [one for one in every if one not in without]
        found = self.duck.sql(f"SELECT {', '.join(asked)} FROM t").types
        return {one: canonical(str(kind)) for one, kind in zip(asked, found, strict=True)}

    def _shown(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Values as DuckDB's texts, which Python's would round or not have."""
        columns = {f"c{number}": _plain(column) for number, column in enumerate(rows.columns)}
        self.texts.register("rows", pa.table(columns))
        found: list[tuple[Any, ...]] = self.texts.execute(
            "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM rows"
        ).fetchall()
        return found


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Whole numbers of 128 bits as texts: decimals of Arrow's have too few digits for DuckDB's."""
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return column
    return pa.array([None if value is None else str(int(value)) for value in column.to_pylist()], pa.string())


def _storable(kind: str) -> bool:
    """Whether Arrow has the type."""
    try:
        arrow_type(kind)
    except UnsupportedError:
        return False
    return "UHUGEINT" not in kind  # of which Arrow has only half


@pytest.fixture(
    params=["lake", "keyed", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("memory", "key"))]
)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = Both(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    made = Both("lake", tmp_path)
    yield made
    made.close()


def test_scalars(both: Both) -> None:
    every = both.kinds(lines(expressions.SCALARS))
    known = [one for one, kind in every.items() if _storable(kind)]
    assert len(every) - 30 < len(known) and len(known) > 690
    both.check(f"SELECT {', '.join(known)} FROM t ORDER BY t.k", known)
    others = [one for one in every if one not in known]
    texts = [f"CAST({one} AS VARCHAR)" for one in others]
    both.check(f"SELECT {', '.join(texts)} FROM t ORDER BY t.k", others)


def test_aggregates_and_windows(both: Both) -> None:
    kinds = both.kinds(lines(expressions.AGGREGATES))
    known = [one for one, kind in kinds.items() if _storable(kind)]
    both.check(f"SELECT {', '.join(known)} FROM t", known)
    both.check(f"SELECT ok, {', '.join(known)} FROM t GROUP BY ok ORDER BY ok", ["ok", *known])
    windows = lines(expressions.WINDOWS)
    both.check(f"SELECT k, {', '.join(windows)} FROM t ORDER BY t.k", ["k", *windows])


def test_types_without_a_like_in_arrow(lake: Both) -> None:
    for one, kind in lake.kinds(lines(expressions.SCALARS)).items():
        if not _storable(kind) and "UHUGEINT" not in kind:
            with pytest.raises(UnsupportedError, match="which results don't have: write CAST"):
                lake.db.sql(f"SELECT {one} FROM t")


def test_values_that_change(lake: Both) -> None:
    every = lines(expressions.CHANGING)
    lake.check(f"SELECT {', '.join(every)} FROM t", every, values=False)
    lake.check(
        f"SELECT {', '.join(f'typeof({one})' for one in every if 'reservoir' not in one)} FROM t", every
    )


def test_casts(lake: Both) -> None:
    """From each type to each that DuckDB has a cast for; values that don't fit are null."""
    values, asked = [], {}
    for number, (kind, listed) in enumerate(expressions.CASTS.items()):
        values.append(f"unnest(CAST([{', '.join(listed)}] AS {kind}[])) AS c{number}")
        for wanted in expressions.CASTS:
            cast = f"TRY_CAST(c{number} AS {wanted})"
            if (kind, wanted) == ("JSON", "BIT"):  # which fails as it runs
                continue
            try:
                lake.duck.sql(f"SELECT {cast} FROM (SELECT CAST(NULL AS {kind}) AS c{number})")
            except duckdb.Error:
                continue
            storable = _storable(canonical(wanted))
            asked[f"{kind} to {wanted}"] = cast if storable else f"CAST({cast} AS VARCHAR)"
    assert len(asked) > 500
    rows = f"SELECT {', '.join(values)} FROM t WHERE k = 1"
    lake.check(f"SELECT {', '.join(asked.values())} FROM ({rows})", list(asked))


def test_queries(lake: Both) -> None:
    for query in lines(expressions.QUERIES):
        lake.check(query)


def test_failures(lake: Both) -> None:
    for one in lines(expressions.FAILING):
        theirs, ours = lake.failure(f"SELECT {one} FROM t")
        assert theirs is not None and ours is not None, one


SYNTAX = {
    "!=",
    "<",
    "<=",
    "=",
    ">",
    ">=",
    "!__postfix",
    "coalesce",
    "ifnull",
    "grouping",
    "grouping_id",
    "error",
}
CLOCK = {"current_date", "current_timestamp", "localtime", "localtimestamp"}


def test_every_function_is_asked() -> None:
    """But for those that the parser makes something else of."""
    found: set[str] = set()
    with duckdb.connect() as duck:
        for text in (expressions.SCALARS, expressions.AGGREGATES, expressions.WINDOWS, expressions.CHANGING):
            for one in lines(text):
                waiting = [
                    json.loads(duck.execute("SELECT json_serialize_sql($1)", [f"SELECT {one}"]).fetchone()[0])
                ]
                while waiting:
                    node = waiting.pop()
                    if isinstance(node, dict):
                        found.add(fold(node.get("function_name") or ""))
                        waiting.extend(node.values())
                    elif isinstance(node, list):
                        waiting.extend(node)
    assert FUNCTIONS - found - {"unnest"} == SYNTAX | CLOCK
