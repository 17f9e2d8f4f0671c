"""Statements whose queries are Spark's: the rows come from Spark, conditions and assignments stay DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import firn
from firn.errors import CardinalityError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

CREATE = {
    "lake": "CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER)",
    "key": "CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER, PRIMARY KEY (id))",
    "keyed": "CREATE TABLE t (id BIGINT PRIMARY KEY, city VARCHAR, n INTEGER) WITH (kind = 'keyed')",
    "records": "CREATE TABLE t (_id VARCHAR, city VARCHAR, n INTEGER) WITH (kind = 'records')",
}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> firn.Database:
    return firn.connect(tmp_path / "db", spark=spark)


def rows(db: firn.Database, table: str = "t") -> list[tuple[Any, ...]]:
    found = db.sql(f"FROM {table}", engine="duckdb")
    return sorted((int(row[0]), *row[1:]) for row in map(tuple, map(dict.values, found)))


def changed(result: firn.Result) -> tuple[int, int, int]:
    outcome = result.outcome
    assert outcome is not None
    return (outcome.rows_inserted or 0, outcome.rows_updated or 0, outcome.rows_deleted or 0)


@pytest.mark.parametrize("kind", CREATE)
def test_each_kind_takes_the_rows_of_a_query(db: firn.Database, kind: str) -> None:
    def sql(text: str, *args: Any, **options: Any) -> firn.Result:
        if kind == "records":
            for before, after in ((" id", " _id"), (".id", "._id"), ("(id", "(_id")):
                text = text.replace(before, after)
        return db.sql(text, *args, fence=True, **options)

    sql(CREATE[kind])
    cast = "CAST(x AS STRING)" if kind == "records" else "x"
    # "DTW" is a text in Spark's SQL, and `x y` a name.
    sql(
        f'INSERT INTO t SELECT {cast} AS id, "DTW" AS city, x * 10L FROM (SELECT explode(sequence(1, 3)) AS x)'
    )
    assert rows(db) == [(1, "DTW", 10), (2, "DTW", 20), (3, "DTW", 30)]
    source = f'(SELECT {cast} AS id, "it\'s (\\"" AS `a b`, :most AS m FROM VALUES (2), (4) AS v(x))'
    merged = sql(
        f"MERGE INTO t USING {source} AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = t.n + s.m, \"city\" = '$1' "
        'WHEN NOT MATCHED THEN INSERT (id, city, n) VALUES (s.id, s."a b", s.m + $less)',
        {"most": 7, "less": -1},
    )
    assert changed(merged) == (1, 1, 0)
    assert rows(db) == [(1, "DTW", 10), (2, "$1", 27), (3, "DTW", 30), (4, "it's (\"", 6)]
    assert changed(sql("DELETE FROM t USING (SELECT id FROM t WHERE n > 26) AS s WHERE t.id = s.id")) == (
        0,
        0,
        2,
    )
    assert changed(
        sql("UPDATE t SET n = s.n FROM tables s WHERE t.id = s.id", tables={"tables": given(kind)})
    ) == (
        0,
        1,
        0,
    )
    assert rows(db) == [(1, "DTW", 5), (4, "it's (\"", 6)]
    with pytest.raises(CardinalityError):
        sql(
            f"MERGE INTO t USING (SELECT {cast} AS id FROM VALUES (1), (1) AS v(x)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = 0"
        )
    assert rows(db)[0] == (1, "DTW", 5)


def given(kind: str) -> pa.Table:
    return pa.table({"_id" if kind == "records" else "id": ["1"] if kind == "records" else [1], "n": [5]})


def test_tables_of_queries_and_dataframes(db: firn.Database, spark: SparkSession) -> None:
    done = db.sql(
        "CREATE TABLE t AS SELECT id, 'DTW' AS city, CAST(id AS INT) AS n FROM (SELECT explode(sequence(1, 3)) AS id)"
    )
    assert changed(done) == (3, 0, 0)
    frame = spark.range(3, 6)
    for engine in ("spark", "duckdb"):
        counted = db.sql(
            "SELECT count(*) AS n FROM t JOIN f ON t.id = f.id", tables={"f": frame}, engine=engine
        )
        assert list(counted) == [{"n": 1}]
    db.sql("INSERT INTO t BY NAME SELECT id, 1 AS n FROM f WHERE id > 4", tables={"f": frame})
    assert rows(db)[-1] == (5, None, 1)
    db.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id = 5")
    assert rows(db) == [(5, None, 1)]


def test_versions_in_sparks_words(db: firn.Database) -> None:
    first = db.create_table("t").append([{"n": 1}]).version
    db.table("t").append([{"n": 2}])
    then = db.table("t").history()[0].time
    for place in (
        f"t VERSION AS OF '{first}'",
        f"t FOR VERSION AS OF '{first}' AS x",
        f"`t` TIMESTAMP AS OF '{then.isoformat()}' x",
        f"t TIMESTAMP AS OF (TIMESTAMP '{then.isoformat()}' + INTERVAL 0 DAYS)",
        f"t AT (VERSION => '{first}')",
    ):
        assert list(db.sql(f"SELECT n, 'VERSION AS OF 1' AS s FROM {place}")) == [
            {"n": 1, "s": "VERSION AS OF 1"}
        ]
    about = db.sql("SELECT * FROM t WHERE n = 2").explain()
    assert about.startswith("engine spark: the connection's session\nt at ")
    assert ": 1 of 2 files, " in about and "Physical Plan" in about
    query = "SELECT count(*) AS n FROM t VERSION AS OF :v old FULL JOIN t USING (n) WHERE n < :n"
    assert list(db.sql(query, {"v": first, "n": 5})) == [{"n": 2}]
    times = [then, then.replace(tzinfo=None), then.isoformat()]  # one without a zone is UTC
    for time in times:
        assert list(db.sql("SELECT * FROM t TIMESTAMP AS OF :at", {"at": time})) == [{"n": 1}]
    query = "SELECT * FROM t TIMESTAMP AS OF (:at + INTERVAL 0 DAYS)"
    assert list(db.sql(query, {"at": then})) == [{"n": 1}]
    for wrong, given, says in [
        ("FROM t VERSION AS OF :v", {"w": first}, "no value for its parameter :v"),
        ("FROM t VERSION AS OF :v", None, "no value for its parameter :v"),
        ("FROM t VERSION AS OF ?", [first], "by name"),
        ("FROM t VERSION AS OF :v", {"v": None}, "can't be"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            db.sql(f"SELECT * {wrong}", given)
    db.sql("INSERT INTO t SELECT n + :more FROM t VERSION AS OF :v", {"v": first, "more": 8})
    db.sql("DELETE FROM t WHERE n = 9")
    db.sql(
        f"MERGE INTO t USING (SELECT * FROM t VERSION AS OF '{first}') s ON t.n = s.n WHEN MATCHED THEN DELETE"
    )
    assert list(db.sql("SELECT * FROM t")) == [{"n": 2}]


def test_what_statements_on_spark_refuse(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT)")
    with pytest.raises(UnsupportedError, match="by name"):
        db.sql("INSERT INTO t SELECT ?", [1])
    with pytest.raises(InvalidInputError, match="no_such"):
        db.sql("INSERT INTO t SELECT no_such FROM VALUES (1)")
    assert list(db.sql("SELECT * FROM t")) == []


def test_views_of_all_tables(db: firn.Database, spark: SparkSession) -> None:
    db.create_table("Flights.Old").append([{"n": 1}])
    db.create_table("people", kind="records", schema={"city": "VARCHAR"}).insert("ada", {"city": "London"})
    counts = db.create_table("counts", kind="keyed", key={"k": "VARCHAR"}, schema={"n": "BIGINT"})
    with counts.open() as kv:
        kv.put("a", {"n": 3})
    db.create_table("empty")
    notes = db.create_table("notes", kind="records", indices=["n", "home.zip"])
    notes.insert("a", {"n": 5, "home": {"zip": "007"}})
    versions = db.views(spark)
    assert sorted(versions) == ["Flights.Old", "counts", "notes", "people"]
    query = "SELECT n + 1, `home.zip`, document LIKE '%007%' FROM notes WHERE n = 5"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(6, "007", True)]
    assert db.sql(query).to_spark().collect() == spark.sql(query).collect()
    db.table("Flights.Old").append([{"n": 2}])
    query = "SELECT f.n, c.n, city FROM `flights.old` f, counts c, people"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(1, 3, "London")]
    assert db.views()["Flights.Old"] != versions["Flights.Old"]
    assert spark.sql("SELECT count(*) FROM `Flights.Old`").collect()[0][0] == 2
    db.create_table("PEOPLE").append([{"n": 1}])
    with pytest.warns(UserWarning, match="'PEOPLE' and 'people'"):
        db.views(spark)


def test_columns_of_nothing_but_nulls(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER)")
    db.sql("INSERT INTO t VALUES (1, 'DTW', 5)")
    assert list(db.sql("VALUES (1), (2)")) == [{"col1": 1}, {"col1": 2}]
    given = {"s": [{"id": 1, "city": None, "l": [None]}, {"id": 2, "city": None, "l": [None]}]}
    for engine in ("spark", "duckdb"):
        found = db.sql("SELECT * FROM s ORDER BY id", tables=given, engine=engine)  # type: ignore[arg-type]
        assert found.columns == {"id": "BIGINT", "city": '"NULL"', "l": '"NULL"[]'}
        assert found.to_arrow().to_pylist() == given["s"] and found.count() == 2
        assert db.sql("SELECT id FROM s WHERE city IS NULL", tables=given, engine=engine).count() == 2  # type: ignore[arg-type]
    db.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET city = s.city", tables=given)
    assert rows(db) == [(1, None, 5)]
    db.sql("INSERT INTO t BY NAME SELECT id + 1 AS id, city FROM s", tables=given)
    assert rows(db) == [(1, None, 5), (2, None, None), (3, None, None)]
    with pytest.raises(InvalidInputError, match="type"):
        db.sql("CREATE TABLE made AS SELECT id, city FROM s", tables=given)
