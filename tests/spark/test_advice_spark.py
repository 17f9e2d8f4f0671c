"""The table of advice: what only Spark says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import firn
from advice import advises
from firn.records.apply.apply import settle
from firn.spark.native.parquet import NATIVE_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> firn.Database:
    return firn.connect(str(tmp_path / "prod"), spark=spark)


def test_a_dataframe_of_swept_files_is_made_again(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    spark.conf.set(NATIVE_CONF, "never")
    for options in ({}, {"properties": {"tombstone_grace": "30d"}}):
        table = db.create_table("flights", **options)
        table.append([{"a": 1}])
        table.append([{"a": 2}])
        frame = table.scan().to_spark()
        table.merge()
        if options:  # as the message says: kept for longer
            table.sweep()
            assert frame.count() == 2
        else:
            table.sweep(older_than="0s")
            with advises(
                "the table was swept since this DataFrame was made. Make ",
                names="flights",
                kind=PySparkException,
            ):
                frame.collect()
            assert table.scan().to_spark().count() == 2
        db.drop_table("flights")


def test_a_dataframe_of_swept_rows_is_made_again(db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("stock", kind="records", schema={"n": "INTEGER"})
    table.insert("a", {"n": 1})
    settle(table.session.store)
    old = table.to_spark()
    table.upsert("a", {"n": 2})
    settle(table.session.store)
    store = table.session.store  # what a sweep does an hour later
    row = store.row(store.layout("stock", 0), "a")
    store.put_row(store.layout("stock", 0), row.row.pruned(store.log.head().number)[0], row.etag)
    with advises("Make it again, or keep old versions for longer, by", names="stock", kind=PySparkException):
        old.collect()
    assert [r.n for r in table.to_spark().collect()] == [2]


def test_the_table_is_named(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    db.create_table("flights").append([{"a": 1}])
    with advises("name the table: load(", names='option("table"', kind=PySparkException):
        spark.read.format("firn").load().count()
    assert spark.read.format("firn").load(f"{db.url}/flights").count() == 1
    named = spark.read.format("firn").option("url", db.url).option("table", "flights")
    assert named.load().count() == 1


def test_keyed_and_record_tables_are_loaded(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    db.create_table("kv", kind="keyed")
    frame = spark.sql("SELECT cast('a' AS binary) AS key, cast('b' AS binary) AS value")
    with advises(
        "is a keyed table, whose files are sorted by key", names="kv", kind=PySparkException
    ) as advice:
        frame.write.format("firn").mode("append").save(f"{db.url}/kv")
    assert "db.table(name).load(frame)" in advice.text
    db.table("kv").load(frame)
    assert db.table("kv").reader().get(b"a") == b"b"
    db.create_table("stock", kind="records", schema={"n": "BIGINT"})
    rows = spark.sql("SELECT 'a' AS _id, 1L AS n")
    with advises(
        "is a record table, whose rows change in transactions", names="stock", kind=PySparkException
    ) as advice:
        rows.write.format("firn").mode("append").save(f"{db.url}/stock")
    assert "of a stream, each batch so, by foreachBatch" in advice.text
    db.create_table("source").append([{"_id": "b", "n": 2}])
    db.table("stock").load(rows)
    (
        spark.readStream.format("firn")
        .load(f"{db.url}/source")
        .writeStream.foreachBatch(lambda batch, _: db.table("stock").load(batch))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    assert [row.id for row in db.table("stock").scan()] == ["a", "b"]


def test_sql_selects_and_verbs_change(db: firn.Database) -> None:
    table = db.create_table("flights")
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    with advises("nor another statement of sql(): docs/howto/sql.md lists them", names="CACHE TABLE flights"):
        db.sql("CACHE TABLE flights")
    assert (db.tables(), table.snapshot().columns) == (["flights"], {"a": "BIGINT"})
    db.sql("DELETE FROM flights WHERE a = 1")
    result = db.sql("SELECT * FROM flights")
    result.explain()
    assert [row.a for row in result.to_spark().collect()] == [2]
    first = table.history()[0].version
    assert db.sql(f"SELECT * FROM flights VERSION AS OF '{first}'").count() == 1


def test_columns_get_names_that_sql_tells_apart(spark: SparkSession, db: firn.Database) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    table = db.create_table("flights")
    with advises("which SQL can't tell apart: rename one", names=["'a'", "'A'"]):
        table.append(spark.sql("SELECT 1 AS a, 2 AS A"))
    table.append(spark.sql("SELECT 1 AS a, 2 AS A").toDF("a", "b"))
    assert table.snapshot().columns == {"a": "INTEGER", "b": "INTEGER"}
