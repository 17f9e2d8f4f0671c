"""The table of advice: queries."""

from __future__ import annotations

import firn
from advice import advises


def test_a_result_has_outputs(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}])
    result = db.sql("SELECT * FROM t")
    with advises(
        "to_spark() gives a Spark DataFrame, to_arrow(), to_pandas(), to_polars() and ", names="collect"
    ):
        result.collect()
    assert result.to_arrow().num_rows == len(result.to_pandas()) == result.to_polars().height == 1


def test_other_statements_are_listed(db: firn.Database) -> None:
    db.create_table("t").append([{"year": 2023, "n": 1}])
    with advises("as in PIVOT t ON year IN (2023, 2024) USING sum(n)", names="PIVOT t ON year"):
        db.sql("PIVOT t ON year USING sum(n)")
    assert len(db.sql("PIVOT t ON year IN (2023, 2024) USING sum(n)").columns) == 2
    with advises("SHOW TABLES is a statement of its own", names="(SHOW TABLES)"):
        db.sql("SELECT * FROM (SHOW TABLES)")
    assert db.sql("SHOW TABLES").count() == 1


def test_a_keyed_table_is_changed_by_its_writer(db: firn.Database) -> None:
    table = db.create_table("stock", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT"})
    insert = "INSERT INTO stock VALUES (1, 5)"
    with advises("Open it (open()), or say that whoever ", names="stock"):
        db.sql(insert)
    db.sql(insert, fence=True)
    with table.open() as kv:
        db.sql(insert)
        assert kv.get(1) == {"n": 5}


def test_older_versions_are_scanned(db: firn.Database) -> None:
    table = db.create_table("t")
    first = table.append([{"n": 1}]).version
    table.append([{"n": 2}])
    with advises("; scan(at=…) reads an older one", names="'t'"):
        db.sql(f"SELECT * FROM t AT (VERSION => '{first}')")
    assert table.scan(at=first).count() == 1


def test_a_query_that_lost_its_files_runs_again(db: firn.Database) -> None:
    table = db.create_table("t", properties={"tombstone_grace": "0s"})
    for _ in range(80):
        table.append({"n": list(range(50_000))})
    query = "SELECT n FROM t"
    batches = db.sql(query).to_batches()
    next(batches)
    table.merge()
    table.sweep()
    with advises("Run the query again, or keep old versions for longer, by the table's ", names=query):
        list(batches)
    assert db.sql(query).count() == 80 * 50_000


def test_statements_with_a_query_run_in_process(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}])
    insert = "INSERT INTO t SELECT n + 1 FROM t"
    with advises(
        'Run it by engine="duckdb"; or append what db.sql(query).to_spark() gives', names="INSERT INTO t"
    ):
        db.sql(insert, engine="spark")
    db.sql(insert, engine="duckdb")
    db.sql("UPDATE t SET n = n * 2", engine="spark")
    assert sorted(row["n"] for row in db.sql("FROM t")) == [2, 4]


def test_rows_at_hand_are_tables_in_process(db: firn.Database) -> None:
    given = {"s": [{"n": 1}]}
    with advises('append the rows to a table, or run it by engine="duckdb"', names="FROM s"):
        db.sql("SELECT * FROM s", tables=given, engine="spark")
    assert db.sql("SELECT * FROM s", tables=given, engine="duckdb").count() == 1
