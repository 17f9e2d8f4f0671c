"""Merges into lake tables whose tasks run on Spark: the brute-force oracle, and sources that are DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import firn
from firn.errors import CardinalityError
from firn.lake.maintain.matching.source import StagedSource
from merge_oracle import check, left_over, noted_sources, stored
from seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows, "id BIGINT, g STRING, n INT").repartition(2)


@pytest.mark.parametrize("seed", seeds(40, short=2))
@pytest.mark.parametrize("kind", ["plain", "placed", "key"])
def test_random_merges(db: firn.Database, spark: SparkSession, kind: str, seed: int) -> None:
    if seed % 2:
        check(kind, seed, db)
    else:
        check(kind, seed, db, lambda rows: frame_of(spark, rows))


def test_a_dataframe_never_comes_to_the_driver(
    db: firn.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = noted_sources(monkeypatch)
    monkeypatch.setattr(type(spark.range(1)), "toArrow", lambda self: pytest.fail("the driver has all rows"))
    table = db.create_table("t", schema={"id": "BIGINT", "r": "DOUBLE", "again": "DOUBLE"})
    table.append([{"id": n} for n in range(100)])
    moving = (
        spark.range(50, 150).selectExpr("id", "rand() AS r", "CAST(NULL AS VOID) AS nothing").repartition(3)
    )
    clauses = [
        firn.MergeClause("matched", "update", "s.r < 2", {"r": "s.r", "again": "s.r"}),
        firn.MergeClause("not matched", "insert", "s.r >= 0", {"id": "s.id", "r": "s.r", "again": "s.r"}),
    ]
    done = table.merge_into(moving, on=["id"], clauses=clauses)
    assert (done.rows_updated, done.rows_inserted) == (50, 50)
    assert isinstance(kept[0], StagedSource) and len(kept[0].files) == 3 and not left_over(table)
    rows = table.scan(where="id >= 50").to_arrow().to_pylist()
    assert len({row["r"] for row in rows}) == 100 and all(row["r"] == row["again"] for row in rows)
    upserted = db.create_table("k", key=["id"])
    upserted.append([{"id": 1, "n": 1}])
    numbers = spark.range(3).selectExpr("id", "id * 10 AS n")
    result = db.sql("SELECT * FROM numbers", tables={"numbers": numbers}, engine="spark")
    upserted.merge_into(result, on=["id"], when_matched="update", when_not_matched="insert")
    assert sorted(row["n"] for row in upserted.scan().to_arrow().to_pylist()) == [0, 10, 20]
    with pytest.raises(CardinalityError, match="have the key"):
        upserted.merge_into(
            numbers.union(numbers), on=["id"], when_matched="update", when_not_matched="insert"
        )
    assert not left_over(upserted)
    assert [commit.op for commit in upserted.history()] == ["append", "append"]


def test_a_database_in_memory_takes_a_dataframe(spark: SparkSession) -> None:
    db = firn.connect("memory://", spark=spark)
    check("plain", 4, db, lambda rows: frame_of(spark, rows))
    table = db.create_table("t", schema={"id": "BIGINT", "g": "VARCHAR", "n": "INTEGER"})
    table.append([{"id": 1, "n": 1}])
    table.merge_into(spark.range(3), on=["id"], when_matched="delete")
    assert not stored(table)
