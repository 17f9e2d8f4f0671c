"""SQL over tables on Spark: answers as DuckDB gives them, whatever is pruned; snapshots, names, errors."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import firn
from firn.errors import InvalidInputError, TableNotFoundError
from firn.journal.leaderless import LeaderlessJournal
from firn.sql import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
DAY = dt.date(2001, 1, 1)

F = [
    # one file each: pruning shows in the number of files
    [{"k": 1, "v": 10, "s": "a", "x": 1.0, "d": DAY}, {"k": None, "v": 11, "s": None, "x": None, "d": None}],
    [{"k": 2, "v": 20, "s": "b", "x": 2.0, "d": DAY}, {"k": 2, "v": None, "s": "b", "x": NAN, "d": DAY}],
    [{"k": 3, "v": 30, "s": "it's {c}", "x": 3.0, "d": dt.date(2002, 1, 1)}],
]
G = [[{"k": 1, "w": 100}], [{"k": 3, "w": 300}, {"k": 4, "w": None}]]


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> firn.Database:
    database = firn.connect(tmp_path_factory.mktemp("sql"), spark=spark)
    for name, parts in {"f": F, "g": G, "Mixed.Case": G}.items():
        table = database.create_table(name)
        for rows in parts:
            table.append(rows)
    return database


@pytest.fixture
def oracle(db: firn.Database) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("f", pa.concat_tables([db.table("f").scan().to_arrow()]))
        connection.register("g", db.table("g").scan().to_arrow())
        yield connection


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many files each table's last placeholder read."""
    counts: dict[str, int] = {}
    before = tables._pruned

    def counting(read: Any, places: Any) -> Any:
        pruned = before(read, places)
        counts[read.table] = len(pruned.files)
        return pruned

    monkeypatch.setattr(tables, "_pruned", counting)
    return counts


def rows_of(rows: Any) -> list[tuple[Any, ...]]:
    plain = [tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows]
    return sorted(plain, key=repr)


PRUNING = [
    ("SELECT * FROM f WHERE k = 2", {"f": 1}),
    ("SELECT k, count(*) FROM f WHERE k >= 2 AND s <> 'x' GROUP BY ALL", {"f": 2}),
    ("SELECT f.v, g.w FROM f JOIN g ON f.k = g.k AND g.w > 100", {"f": 3, "g": 1}),
    ("SELECT * FROM f LEFT JOIN g ON f.k = g.k WHERE g.w = 300", {"f": 3, "g": 1}),
    ("SELECT f.k, g.w FROM f FULL JOIN g ON f.k = g.k WHERE f.v = 30", {"f": 1, "g": 2}),
    ("WITH c AS (SELECT * FROM f WHERE k = 1) SELECT v FROM c", {"f": 1}),
    ("SELECT v FROM f WHERE k NOT IN (SELECT g.k FROM g WHERE g.w = 100)", {"f": 3, "g": 1}),
    ("SELECT v FROM f WHERE d >= DATE '2001-06-01'", {"f": 1}),
    ("SELECT v FROM f WHERE s LIKE 'it%{c}'", {"f": 1}),
]

# Each would give another answer if the predicate in it pruned the files of f (or g).
UNPRUNED = [
    "SELECT count(*) FROM f WHERE k IS NULL",
    "SELECT count(*) FROM f WHERE coalesce(k, 1) = 1",
    "SELECT f.k, g.w FROM f LEFT JOIN g ON f.k = g.k WHERE g.w IS NULL",
    "SELECT f.k, g.w FROM f LEFT JOIN g ON f.k = g.k WHERE coalesce(g.w, 300) = 300",
    "SELECT f.k, f.v, g.w FROM f LEFT JOIN g ON f.k = g.k AND f.v = 10",
    "SELECT f.k, g.k AS gk FROM f RIGHT JOIN g ON f.k = g.k AND g.w = 100",
    "SELECT f.k, g.k AS gk FROM f FULL JOIN g ON f.k = g.k AND f.v = 30 AND g.w = 100",
    "WITH c AS (SELECT row_number() OVER (ORDER BY v NULLS LAST) AS n, k FROM f) SELECT n FROM c WHERE k = 3",
    "SELECT n FROM (SELECT *, count(*) OVER () AS n FROM f) WHERE k = 3",
    "SELECT k FROM (SELECT * FROM f ORDER BY v LIMIT 2) q WHERE q.k = 1",
    "SELECT k, n FROM (SELECT k, sum(v) OVER (ORDER BY v NULLS LAST) AS n FROM f) WHERE k = 2",
    "SELECT count(*) FROM f WHERE x > 2.5",
    "SELECT count(*) FROM f WHERE x >= 3",
    "SELECT f.k FROM f WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.k = f.k AND f.v = 10)",
    "SELECT f.k FROM f ANTI JOIN g ON f.k = g.k AND g.w = 100",
]


@pytest.mark.parametrize(("query", "files"), PRUNING)
def test_pruned_answers_are_duckdbs(
    db: firn.Database,
    oracle: duckdb.DuckDBPyConnection,
    kept: dict[str, int],
    query: str,
    files: dict[str, int],
) -> None:
    answer = rows_of(db.sql(query).to_spark().collect())
    assert answer == rows_of(oracle.execute(query).fetchall())
    every = {"f": len(F), "g": len(G)}
    assert {**every, **kept} == {**every, **files}


@pytest.mark.parametrize("query", UNPRUNED)
def test_what_must_not_prune_does_not(
    db: firn.Database, oracle: duckdb.DuckDBPyConnection, query: str
) -> None:
    assert rows_of(db.sql(query).to_spark().collect()) == rows_of(oracle.execute(query).fetchall())


def test_a_query_reads_each_table_once_and_at_one_snapshot(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    before = LeaderlessJournal.snapshot
    table = db.create_table("once")
    table.append([{"k": 1}])

    def counting(self: LeaderlessJournal, at: Any = None) -> Any:
        snapshot = before(self, at)
        if self is not table.journal:  # the query's
            looks.append("once")
            table.append([{"k": 99}])  # somebody else's commit, right after
        return snapshot

    monkeypatch.setattr(LeaderlessJournal, "snapshot", counting)
    query = "SELECT a.k, b.k, (SELECT count(*) FROM once) AS n FROM once a, once b WHERE a.k = 1"
    assert [tuple(row) for row in db.sql(query).to_spark().collect()] == [(1, 1, 1)]
    assert looks == ["once"]


def test_a_lazy_answer_stays_at_its_snapshot(db: firn.Database) -> None:
    table = db.create_table("lazy")
    table.append([{"k": 1}])
    frame = db.sql("SELECT sum(k) AS total FROM lazy").to_spark()
    table.append([{"k": 10}])
    table.merge(target_size="1MB")
    assert frame.collect()[0].total == 1
    assert db.sql("SELECT sum(k) AS total FROM lazy").to_spark().collect()[0].total == 11


def test_names_match_in_any_case_and_may_be_quoted(db: firn.Database) -> None:
    assert db.sql("SELECT count(*) AS n FROM `Mixed.Case`").to_spark().collect()[0].n == 3
    assert db.sql("SELECT count(*) AS n FROM `mixed.case` WHERE `W` = 100").to_spark().collect()[0].n == 1
    assert db.sql("SELECT F.K FROM F WHERE F.V = 30").to_spark().collect()[0].K == 3


def test_no_view_is_left_behind(db: firn.Database, spark: SparkSession) -> None:
    db.sql("SELECT * FROM f JOIN g ON f.k = g.k").to_spark().collect()
    assert [table.name for table in spark.catalog.listTables() if table.name.startswith("_pyspark")] == []


def test_a_query_without_tables(db: firn.Database) -> None:
    assert db.sql("SELECT 1 AS one, '{x}' AS braces").to_spark().collect()[0].asDict() == {
        "one": 1,
        "braces": "{x}",
    }


def test_an_unknown_table_names_those_there_are(db: firn.Database) -> None:
    with pytest.raises(TableNotFoundError, match=r"no table 'flights' in .* There are .*'f', 'g'"):
        db.sql("SELECT * FROM flights")
    for query in ("SELECT * FROM parquet.`/etc/passwd`", "SELECT * FROM firn.firn.f"):
        with pytest.raises(TableNotFoundError, match="without a schema"):
            db.sql(query)


def test_the_databases_schema_before_a_table(db: firn.Database) -> None:
    columns = list(db.sql("SELECT * FROM f").columns)
    query = f"SELECT 'é' AS x, firn.f.`{columns[0]}` FROM firn . f JOIN main.`f` AS g ON true -- firn.f"
    assert db.sql(query).count() == db.sql("SELECT 1 FROM f").count() ** 2


def test_parameters_of_a_script(db: firn.Database) -> None:
    version = db.sql("SELECT * FROM f").versions["f"]
    script = "SELECT 1 FROM f; SELECT count(*) AS n FROM f VERSION AS OF :v WHERE :n = 1"
    before = db.sql("SELECT count(*) AS n FROM f").to_arrow()
    assert db.sql(script, {"v": version, "n": 1}, script=True).to_arrow() == before
    with pytest.raises(InvalidInputError, match="no statement has"):
        db.sql(script, {"v": version, "n": 1, "more": 2}, script=True)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT FROM WHERE", "isn't SQL"),
        ("SELECT * FROM f; SELECT 1", "2 statements"),
        ("CACHE TABLE f", "isn't a SELECT"),
        ("DELETE FROM f WHERE nosuch = 1", "nosuch"),
        ("SELECT * FROM read_parquet('/etc/x')", "table function"),
        ("SELECT reflect('java.lang.System', 'exit', 1) FROM f", "outside of the tables"),
        ("SELECT nosuch FROM f", "nosuch"),
        ("SELECT k FROM f WHERE ?", "parameter|UNBOUND"),
    ],
)
def test_bad_queries_are_refused(db: firn.Database, query: str, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        db.sql(query)
