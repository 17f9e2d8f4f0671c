"""Rows that stand in logs and in writers' catalogs, read, streamed and merged by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_spark_streaming import drain, numbers, read

import firn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INLINE = {"inline": "64KB"}


@pytest.fixture(params=["leaderless", "writer"])
def journal(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, journal: str) -> Iterator[firn.Database]:
    """A connection that writes tables of both journals."""
    yield firn.connect(tmp_path / "db", spark=spark, writer="w")
    for query in spark.streams.active:
        query.stop()


def test_spark_reads_rows_of_files_and_of_logs(spark: SparkSession, db: firn.Database, journal: str) -> None:
    table = db.create_table("t", partition_by=["k"], properties=INLINE, journal=journal)
    table.append([{"k": n % 2, "n": n} for n in range(4)])
    table.merge()
    for n in range(4, 7):
        table.append([{"k": n % 2, "n": n, "more": {"a": [n]}}])
    table.alter(rename={"n": "m"}, add={"d": ("BIGINT", 5)})
    frame = table.scan().to_spark()
    assert sorted(row.m for row in frame.collect()) == list(range(7))
    assert [tuple(row) for row in frame.where("m = 6").select("k", "d", "more.a").collect()] == [(0, 5, [6])]
    assert sorted(row.m for row in table.scan(where="m > 2 AND k = 1").to_spark().collect()) == [3, 5]
    if journal == "writer":
        table.delete("m = 5")
        assert sorted(row.m for row in table.scan().to_spark().collect()) == [0, 1, 2, 3, 4, 6]
        table.append([{"k": 0, "m": 5}])
    assert db.sql("SELECT count(*) AS c FROM t", engine="spark").to_arrow()["c"].to_pylist() == [7]
    keyed = db.create_table("keyed", key=["id"], properties=INLINE, journal=journal)
    keyed.append([{"id": 1, "v": "old"}, {"id": 2, "v": "b"}])
    keyed.append([{"id": 1, "v": "new"}])
    assert sorted(tuple(row) for row in keyed.scan().to_spark().collect()) == [(1, "new"), (2, "b")]


def test_spark_writes_beside_rows_of_logs(spark: SparkSession, db: firn.Database, journal: str) -> None:
    table = db.create_table("t", properties=INLINE, journal=journal)
    table.append([{"n": 1}, {"n": 2}])
    assert table.append(spark.createDataFrame([(3,)], "n BIGINT")).files == 1, "a DataFrame's rows make files"
    done = db.sql("DELETE FROM t WHERE n = 2", engine="spark")
    assert done.outcome is not None and done.outcome.rows_deleted == (1 if journal == "leaderless" else None)
    assert sorted(row.n for row in table.scan().to_spark().collect()) == [1, 3]
    table.append([{"n": 4}])
    table.overwrite(spark.createDataFrame([(9,)], "n BIGINT"))
    assert [row.n for row in table.scan().to_spark().collect()] == [9]


def test_a_stream_delivers_rows_of_logs_once(
    spark: SparkSession, db: firn.Database, tmp_path: Path, journal: str
) -> None:
    table = db.create_table("t", properties=INLINE, journal=journal)
    table.append([{"n": 1}])
    table.merge(only="inlined")
    table.append([{"n": 2}, {"n": 3}])

    drain(read(spark, db, "t"), db, "copy", tmp_path / "ck")
    assert numbers(db.table("copy"), "n") == [1, 2, 3]
    table.append([{"n": 4}])
    table.merge()
    drain(read(spark, db, "t"), db, "copy", tmp_path / "ck")
    assert numbers(db.table("copy"), "n") == [1, 2, 3, 4], "also what was folded meanwhile"
