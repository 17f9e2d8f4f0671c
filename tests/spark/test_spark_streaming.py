"""Streams in and out of tables, with real queries and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


def numbers(table: firn.LakeTable, column: str = "a") -> list[Any]:
    return sorted(table.scan(columns=[column]).to_arrow()[column].to_pylist())


def read(spark: SparkSession, db: firn.Database, table: str, **options: Any) -> DataFrame:
    return spark.readStream.format("firn").options(**options).load(f"{db.url}/{table}")


def drain(frame: DataFrame, db: firn.Database, table: str, checkpoint: Path, mode: str = "append") -> int:
    """Run a query over what is there; how many batches it took."""
    query = (
        frame.writeStream.format("firn")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .option("path", f"{db.url}/{table}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(1 for progress in query.recentProgress if progress.numInputRows)


def test_a_copy_follows_its_table(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    table = db.create_table("t")
    for number in range(3):
        table.append([{"a": number}])
    stream = read(spark, db, "t", maxFilesPerTrigger=2)
    assert drain(stream, db, "copy", tmp_path / "ck") == 2
    copy = db.table("copy")
    assert numbers(copy) == [0, 1, 2]
    assert [commit.op for commit in copy.history()] == ["append", "append"]
    for number in range(3, 6):
        table.append([{"a": number}])
    table.merge()
    table.append([{"a": 6}])
    table.delete("a = 0")
    assert drain(stream, db, "copy", tmp_path / "ck") == 2
    assert numbers(copy) == [0, 1, 2, 3, 4, 5, 6]
    assert drain(stream, db, "copy", tmp_path / "ck") == 0


def test_a_batch_that_spark_repeats_changes_nothing(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t")
    table.append([{"a": 1}, {"a": 2}])
    stream = read(spark, db, "t")
    drain(stream, db, "copy", tmp_path / "ck")
    # As if the process had died after the table's commit and before Spark's.
    for mark in (tmp_path / "ck" / "commits").iterdir():
        mark.unlink()
    table.append([{"a": 3}])
    drain(stream, db, "copy", tmp_path / "ck")
    assert numbers(db.table("copy")) == [1, 2, 3]
    assert len(db.table("copy").history()) == 2


def test_complete_mode_replaces_the_tables_rows(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t")
    table.append([{"a": 1}, {"a": 1}, {"a": 2}])
    counts = read(spark, db, "t").groupBy("a").count()
    drain(counts, db, "counts", tmp_path / "ck", "complete")
    table.append([{"a": 2}])
    drain(counts, db, "counts", tmp_path / "ck", "complete")
    rows = db.table("counts").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["a"]) == [{"a": 1, "count": 2}, {"a": 2, "count": 2}]


def test_a_stream_from_a_time_has_no_snapshot(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    table = db.create_table("t")
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    second = table.history()[-1].time
    stream = read(spark, db, "t", startingTime=second.isoformat(), columns="a", where="a < 9")
    assert drain(stream, db, "copy", tmp_path / "ck") == 1
    assert numbers(db.table("copy")) == [2]
    table.append([{"a": 3}, {"a": 9}])
    assert drain(stream, db, "copy", tmp_path / "ck") == 1
    assert numbers(db.table("copy")) == [2, 3]


def test_other_sources_stream_into_a_partitioned_table(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"a": {number}, "g": "g{number % 2}"}}\n')
    rows = (
        spark.readStream.schema("a long, g string").option("maxFilesPerTrigger", 2).json(str(tmp_path / "in"))
    )
    db.create_table("t", schema={"a": "BIGINT", "g": "VARCHAR"}, partition_by=["g"])
    assert drain(rows, db, "t", tmp_path / "ck") == 2
    assert numbers(db.table("t")) == [0, 1, 2]
    assert len(db.table("t").partitions()) == 2


def test_a_query_keeps_its_names_until_it_is_started_again(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t")
    table.append([{"a": 1, "b": "x"}])
    running = (
        read(spark, db, "t")
        .writeStream.format("firn")
        .option("checkpointLocation", str(tmp_path / "ck"))
        .option("path", f"{db.url}/copy")
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        running.processAllAvailable()
        table.alter(rename={"a": "n"}, drop=["b"])
        table.append([{"n": 2}])
        running.processAllAvailable()
    finally:
        running.stop()
    assert numbers(db.table("copy")) == [1, 2]
    table.append([{"n": 3}])
    drain(read(spark, db, "t").withColumnRenamed("n", "a"), db, "copy", tmp_path / "ck")
    assert numbers(db.table("copy")) == [1, 2, 3]
