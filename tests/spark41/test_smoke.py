"""Batch features and sinks on whatever pyspark is installed: `make smoke-4.1` runs it on the oldest one.

Streams that read a table need a later one; that they say so is tested here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.lake.plan.read import LakeRead
from firn.spark.lake.scan import plan_files
from firn.spark.native.parquet import NATIVE_CONF
from firn.spark.session.runner import SparkRunner
from firn.spark.session.session import active, active_or_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark 4.1 leaves the sockets that it collects through to the garbage collector.
    pytest.mark.filterwarnings(r"ignore:unclosed <socket\.socket .*127\.0\.0\.1:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    before = active()
    session = active_or_start(master="local[2,4]")
    yield session
    if before is None:
        session.stop()


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> firn.Database:
    return firn.connect(tmp_path / "db", spark=spark)


def test_tasks(spark: SparkSession, db: firn.Database) -> None:
    def square(bucket: Any, context: None, task: int) -> int:
        return task**2

    runner = SparkRunner(spark)
    squares = runner.map(square, range(10), bucket=db.bucket, context=None, weights=[0] * 10)
    assert squares == [n**2 for n in range(10)]


def test_a_tables_life(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", partition_by=["month(d)"])
    frame = spark.range(0, 90, 1, 3).selectExpr(
        "id",
        "date_add(DATE'2001-01-01', cast(id AS int)) AS d",
        "TIMESTAMP_NTZ'2020-01-01 10:00:00' AS local",
    )
    assert table.append(frame).rows == 90
    scan = table.scan(where="d >= '2001-02-01'")
    assert len(plan_files(LakeRead.of(scan), scan.files(), spark).native) > 0
    assert scan.to_spark().count() == 59
    spark.conf.set(NATIVE_CONF, "never")
    assert scan.to_spark().count() == 59
    spark.conf.unset(NATIVE_CONF)
    query = "SELECT month(a.d) AS m, count(*) AS n FROM t a JOIN t b USING (id) WHERE a.id < 40 GROUP BY 1"
    assert sorted(map(tuple, db.sql(query).to_spark().collect())) == [(1, 31), (2, 9)]
    assert table.merge().files_added == 2
    table.delete("id >= 80")
    assert table.scan().count() == 80


def test_the_data_source(spark: SparkSession, db: firn.Database) -> None:
    frame = spark.range(20).selectExpr("id", "current_timestamp() AS t", "array(id) AS l")
    frame.write.format("firn").mode("append").save(f"{db.url}/t")
    read = spark.read.format("firn").load(f"{db.url}/t")
    assert read.schema.simpleString() == "struct<id:bigint,t:timestamp,l:array<bigint>>"
    assert (read.where("id < 5").count(), read.count()) == (5, 20)
    read.limit(3).write.format("firn").mode("overwrite").save(f"{db.url}/t")
    assert spark.read.format("firn").option("columns", "id").load(f"{db.url}/t").count() == 3


def test_a_keyed_table(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT", "s": "VARCHAR"})
    assert table.load(spark.range(0, 300, 1, 3).selectExpr("id", "id * 2 AS n", "'old' AS s")).rows == 300
    with table.open(compaction=False) as kv:
        kv.put(7, {"n": 0, "s": "new"}, durable=False)
        kv.delete(8, durable=False)
    query = "SELECT count(*) AS c, sum(n) AS n, count(CASE WHEN s = 'new' THEN 1 END) AS news FROM t WHERE id >= 5"
    expected = [(294, sum(2 * n for n in range(5, 300)) - 14 - 16, 1)]
    assert db.sql(query).to_spark().collect() == expected
    read = spark.read.format("firn").load(f"{db.url}/t")
    assert read.schema.simpleString() == "struct<id:bigint,n:bigint,s:string>"
    assert (read.count(), read.where("id BETWEEN 6 AND 9").count()) == (299, 3)
    assert table.compact(full=True, runner=SparkRunner(spark)).rows_out == 299
    assert db.sql(query).to_spark().collect() == expected
    spark.conf.set(NATIVE_CONF, "never")
    assert db.sql(query).to_spark().collect() == expected
    spark.conf.unset(NATIVE_CONF)


def test_record_tables(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", schema={"n": "BIGINT"})
    db.create_table("loose", kind="records").insert("a", {"n": 1, "city": "Ann Arbor"})
    with db.begin() as tx:
        for n in range(100):
            tx.insert("t", f"{n:03}", {"n": n})
    assert db.sql("SELECT count(*), sum(a.n - b.n) FROM t a JOIN t b USING (_id)").to_spark().collect() == [
        (100, 0)
    ]
    assert table.to_spark(where="_id LIKE '09%'").count() == 10
    read = spark.read.format("firn")
    assert (read.load(f"{db.url}/t").where("n > 97").count(), read.load(f"{db.url}/t").count()) == (2, 100)
    assert read.schema("city string, n int").load(f"{db.url}/loose").collect() == [("Ann Arbor", 1)]
    table.delete("007")
    told = spark.read.format("firn").option("changes", "true").load(f"{db.url}/t")
    assert told.where("_kind = 'delete'").count() == 1


def test_a_sink(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"a": 1}\n{"a": 2}\n')
    for _ in range(2):
        query = (
            spark.readStream.schema("a long")
            .json(str(tmp_path / "in"))
            .writeStream.format("firn")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", f"{db.url}/sink")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sorted(db.table("sink").scan().to_arrow()["a"].to_pylist()) == [1, 2]


def test_a_source_says_which_version_it_needs(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t").append([{"a": 1}])
    stream = spark.readStream.format("firn").load(f"{db.url}/t").writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    if tuple(map(int, spark.version.split(".")[:2])) >= (4, 3):
        stream.start().awaitTermination()
    else:
        with pytest.raises(PySparkException, match=r"need pyspark 4\.3"):
            stream.start().awaitTermination()
