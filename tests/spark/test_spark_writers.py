"""Tables of writers' catalogs on Spark: the verbs and the data source as on any table, streams over all writers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.errors import InvalidInputError
from firn.lake.plan.read import LakeRead
from firn.lake.table import LakeTable
from firn.spark.lake.scan import plan_files
from firn.spark.native.parquet import NATIVE_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[firn.Database]:
    yield firn.connect(tmp_path / "db", spark=spark, writer="a")
    for query in spark.streams.active:
        query.stop()


def other(db: firn.Database, writer: str | None = None) -> firn.Database:
    return firn.connect(db.url, writer=writer)


def load(spark: SparkSession, db: firn.Database, **options: str) -> DataFrame:
    return spark.read.format("firn").options(**options).load(f"{db.url}/t")


def save(frame: DataFrame, db: firn.Database, writer: str, mode: str = "append", **options: str) -> None:
    frame.write.format("firn").mode(mode).options(writer=writer, **options).save(f"{db.url}/t")


def ids(rows: DataFrame | LakeTable) -> list[int]:
    if isinstance(rows, LakeTable):
        return sorted(rows.scan(columns=["id"]).to_arrow()["id"].to_pylist())
    return sorted(row["id"] for row in rows.collect())


def numbers(spark: SparkSession, *values: int) -> DataFrame:
    rows = [(value, f"g{value % 2}") for value in values]
    return spark.createDataFrame(rows, "id long, g string").coalesce(1)


def test_processes_of_one_writer_and_of_two(spark: SparkSession, db: firn.Database) -> None:
    """The data source commits in a process of its own, under the id of one that is at it all along."""
    table = db.create_table("t", journal="writer", partition_by=["g"])
    table.append([{"id": 1, "g": "g1"}])
    save(numbers(spark, 2, 3), db, "a")
    third = table.append([{"id": 4, "g": "g0"}]).version
    save(numbers(spark, 10, 11), db, "b")
    assert table.append(numbers(spark, 5, 6)).rows == 2
    assert ids(table) == ids(other(db).table("t")) == [1, 2, 3, 4, 5, 6, 10, 11]
    written = db.bucket.list(f"{db.prefix}/a/db/markers/" if db.prefix else "a/db/markers/").objects
    assert len(written) == 3, "the definition, the columns, and an append in process that was overtaken"
    assert third == "a=4" and table.snapshot().version == "a=5,b=1"
    save(numbers(spark, 7), db, "a")
    merged = table.merge()
    assert merged.files_removed > 2 and merged.files_removed > merged.files_added
    save(numbers(spark, 8, 12), db, "a")
    deleted = table.delete("id IN (1, 8, 10)")
    assert (deleted.files_marked, deleted.foreign_files) == (2, 1), "the 10 is the other writer's"
    expected = [2, 3, 4, 5, 6, 7, 10, 11, 12]
    assert ids(table) == ids(load(spark, db)) == expected
    scan = table.scan(where="id > 2")
    assert plan_files(LakeRead.of(scan), scan.files(), spark).native
    assert ids(scan.to_spark()) == expected[1:]
    spark.conf.set(NATIVE_CONF, "never")
    try:
        assert ids(scan.to_spark()) == expected[1:]
    finally:
        spark.conf.unset(NATIVE_CONF)
    assert [line.op for line in table.history() if line.version.startswith("b")] == ["append"]
    save(numbers(spark, 20), db, "a", "overwrite")
    assert ids(table) == [10, 11, 20]


def test_versions_are_vectors(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", journal="writer")
    table.append([{"id": 1}])
    table.append([{"id": 2}])
    other(db, "b").table("t").append([{"id": 3}])
    assert ids(load(spark, db, at="a=2,b=1")) == [1, 3]
    assert ids(load(spark, db, at="b=1")) == [3]
    assert ids(load(spark, db, at=table.history()[1].time.isoformat())) == [1]
    pinned = load(spark, db)
    table.append([{"id": 4}])
    assert ids(pinned) == [1, 2, 3] and ids(load(spark, db, strict="true")) == [1, 2, 3, 4]


def test_a_write_needs_a_writer(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r'add \.option\("writer", ID\)'):
        numbers(spark, 1).write.format("firn").mode("append").option("journal", "writer").save(f"{db.url}/t")
    save(numbers(spark, 1), db, "b", journal="writer", partitionBy="g")
    found = db.table("t")
    assert found.context.definition.journal == "writer" and ids(found) == [1]
    assert found.partitions()[0].values == {"g": "g1"}
    with pytest.raises(PySparkException, match=r'add \.option\("writer", ID\)'):
        numbers(spark, 2).write.format("firn").mode("append").save(f"{db.url}/t")
    with pytest.raises(PySparkException, match="strict is 'perhaps'"):
        load(spark, db, strict="perhaps")
    with pytest.raises(InvalidInputError, match=r"firn\.connect\(url, writer=ID\)"):
        firn.connect(db.url, spark=spark).table("t").append(numbers(spark, 2))
    assert ids(found) == [1]


def test_sql_joins_tables_of_either_journal(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", journal="writer")
    table.append([{"id": 1, "n": 10}, {"id": 2, "n": 20}])
    other(db, "b").table("t").append([{"id": 3, "n": 30}])
    table.delete("id = 2")
    db.create_table("names").append([{"id": id, "name": f"n{id}"} for id in range(4)])
    found = (
        db.sql("SELECT name, n FROM t JOIN names USING (id) WHERE n >= 10 ORDER BY name").to_spark().collect()
    )
    assert [tuple(row) for row in found] == [("n1", 10), ("n3", 30)]


# -- streams


def drain(frame: DataFrame, db: firn.Database, target: str, checkpoint: Path, **options: str) -> int:
    """Run a query over what is there; how many batches it took."""
    query = (
        frame.writeStream.format("firn")
        .options(writer="sink", journal="writer", **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(f"{db.url}/{target}")
    )
    query.awaitTermination()
    return sum(1 for progress in query.recentProgress if progress.numInputRows)


def stream(spark: SparkSession, db: firn.Database, **options: Any) -> DataFrame:
    return spark.readStream.format("firn").options(**options).load(f"{db.url}/t")


def test_a_copy_follows_all_writers(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    table = db.create_table("t", journal="writer")
    table.append([{"id": 1}])
    second = other(db, "b").table("t")
    second.append([{"id": 2}, {"id": 3}])
    second.delete("id = 3")
    frame = stream(spark, db, columns="id", maxFilesPerTrigger=2)
    assert drain(frame, db, "copy", tmp_path / "ck") == 1
    copy = db.table("copy")
    assert copy.context.definition.journal == "writer" and ids(copy) == [1, 2]
    table.append([{"id": 4}, {"id": 5}])
    table.append([{"id": 6, "late": "x"}, {"id": 7, "late": "y"}])
    table.delete("late = 'y' OR id = 4")
    table.merge()
    other(db, "new").table("t").append([{"id": 8}])
    assert drain(frame, db, "copy", tmp_path / "ck") == 2
    assert ids(copy) == [1, 2, 5, 6, 8]
    assert [line.version for line in copy.history()] == ["sink=1", "sink=2", "sink=3", "sink=4"]


def test_a_batch_that_spark_repeats_changes_nothing(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t", journal="writer")
    table.append([{"id": 1}, {"id": 2}])
    drain(stream(spark, db), db, "copy", tmp_path / "ck")
    # As if the process had died after the table's commit and before Spark's.
    for mark in (tmp_path / "ck" / "commits").iterdir():
        mark.unlink()
    table.append([{"id": 3}])
    drain(stream(spark, db), db, "copy", tmp_path / "ck")
    assert ids(db.table("copy")) == [1, 2, 3]
    assert [line.op for line in db.table("copy").history()] == ["create", "append", "append"]


def test_a_running_stream_knows_columns_by_which_rows_were_deleted(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    """The reader's columns are those of the query's start."""
    table = db.create_table("t", journal="writer", schema={"id": "BIGINT"})
    query = (
        stream(spark, db, columns="id")
        .writeStream.format("firn")
        .options(writer="sink", journal="writer", checkpointLocation=str(tmp_path / "ck"))
        .trigger(processingTime="200 milliseconds")
        .start(f"{db.url}/copy")
    )
    query.processAllAvailable()
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 1, "late": "x"}, {"id": 2, "late": "y"}])
        tx.delete("t", "late = 'y'")
    query.processAllAvailable()
    query.stop()
    assert ids(table) == ids(db.table("copy")) == [1]


def test_tasks_read_the_footers_of_a_lost_catalog(db: firn.Database) -> None:
    """Executors do, and their requests and bytes are counted where the driver's are."""
    table = db.create_table("t", journal="writer", partition_by=["g"])
    for start in (0, 10, 20):
        table.append([{"id": start + n, "g": f"g{n % 2}"} for n in range(4)])
    table.delete("id >= 20 and id < 22")
    table.append([{"id": 30, "g": "g0"}])  # proves the commit before it
    before = table.snapshot()
    gone = [
        i.key for i in db.bucket.list("a/db/").objects if "/transactions/" in i.key or "/claims/" in i.key
    ]
    db.bucket.delete_many(gone)
    requests = db.bucket.counters.as_dict()
    report = db.rebuild()
    assert (
        report.footers_read == 7 + 3
    )  # data files; the markers of the definition, the columns and the delete
    assert db.bucket.counters.since(requests)["get"] >= report.footers_read and report.bytes_read > 0
    found = other(db).table("t")
    assert {(f.path, f.deletes) for f in found.snapshot().files} == {
        (f.path, f.deletes) for f in before.files
    }
    assert ids(found) == [0, 1, 2, 3, 10, 11, 12, 13, 22, 23, 30]
