"""Tables with a key on Spark: each key once, whoever reads it, and whatever is pruned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import firn
from firn.errors import InvalidInputError
from firn.lake.table import LakeTable
from firn.spark.native.parquet import NATIVE_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


@pytest.fixture(params=["unmerged", "merged", "half"])
def stock(request: pytest.FixtureRequest, db: firn.Database) -> LakeTable:
    """Ids 0 to 9 but 4, `n` from 1 to 3; as they are, merged, or merged with newer rows since."""
    table = db.create_table("stock", key=["id"], partition_by=["bucket(3, id)"])
    table.upsert([{"id": id, "n": 1, "s": "x"} for id in range(10)])
    table.delete("id = 4")
    if request.param != "unmerged":
        table.merge()
    table.upsert([{"id": id, "n": 2, "s": "y"} for id in (1, 2, 5)])
    table.update("id = 2", {"n": "n + 1"})
    if request.param == "merged":
        table.merge()
    return table


EXPECTED = {0: 1, 1: 2, 2: 3, 3: 1, 5: 2, 6: 1, 7: 1, 8: 1, 9: 1}


def content(frame: DataFrame) -> dict[Any, Any]:
    rows = frame.collect()
    found = {row["id"]: row["n"] for row in rows}
    assert len(found) == len(rows), "each key once"
    return found


def test_to_spark(stock: LakeTable) -> None:
    frame = stock.scan().to_spark()
    assert frame.columns == ["id", "n", "s"]
    assert content(frame) == EXPECTED
    assert content(frame.where("n = 1")) == {id: n for id, n in EXPECTED.items() if n == 1}
    assert content(stock.scan(where="n = 1 AND id < 6").to_spark()) == {0: 1, 3: 1}
    assert content(stock.scan(where="s = 'x' OR n = 3", columns=["n", "id"]).to_spark()) == {
        id: n for id, n in EXPECTED.items() if n != 2
    }
    assert stock.scan(where="id = 4").to_spark().count() == 0
    first = stock.history()[0].version
    assert content(stock.scan(at=first).to_spark()) == dict.fromkeys(range(10), 1)


def test_sql_prunes_by_the_key_and_never_hides_a_newer_version(db: firn.Database, stock: LakeTable) -> None:
    def asked(query: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in db.sql(query).to_spark().collect())

    assert asked("SELECT id, n FROM stock WHERE n = 1 AND id < 6") == [(0, 1), (3, 1)]
    assert asked("SELECT id FROM stock WHERE n = 1 AND id = 1") == []
    assert asked("SELECT count(*), sum(n) FROM stock") == [(9, sum(EXPECTED.values()))]
    # Two conjuncts on one table: each reference is right for itself.
    joined = "SELECT a.id, b.n FROM stock a JOIN stock b ON a.id = b.id WHERE a.n = 1 AND b.id IN (1, 3)"
    assert asked(joined) == [(3, 1)]
    assert asked("SELECT id FROM stock WHERE n = 2 UNION ALL SELECT id FROM stock WHERE id = 2") == [
        (1,),
        (2,),
        (5,),
    ]


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_the_data_source(spark: SparkSession, db: firn.Database, stock: LakeTable, pushdown: str) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, pushdown)
    reader = spark.read.format("firn")
    frame = reader.load(f"{db.url}/stock")
    assert content(frame) == EXPECTED
    assert content(frame.where("n = 1 AND id < 6")) == {0: 1, 3: 1}
    assert content(frame.where("id = 1 AND n = 1")) == {}
    assert frame.where("id = 77").count() == 0
    assert content(reader.option("where", "n > 1").load(f"{db.url}/stock")) == {1: 2, 2: 3, 5: 2}


def test_what_is_merged_is_read_by_sparks_own_reader(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], partition_by=["bucket(2, id)"])
    for n in range(2):
        table.upsert([{"id": id, "n": n} for id in range(50)])
    table.merge()
    spark.conf.set(NATIVE_CONF, "always")
    frame = table.scan(where="id >= 10").to_spark()
    assert content(frame) == dict.fromkeys(range(10, 50), 1)
    plan = frame._jdf.queryExecution().toString()
    assert "parquet" in plan.lower() and "MapInArrow" not in plan
    table.upsert([{"id": 10, "n": 2}])
    frame = table.scan(where="id >= 10").to_spark()
    plan = frame._jdf.queryExecution().toString()
    assert "parquet" in plan.lower() and "MapInArrow" in plan, "only what isn't merged goes through tasks"
    assert content(frame) == {**dict.fromkeys(range(10, 50), 1), 10: 2}


def test_dataframes_are_upserted(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], version_by="v", partition_by=["bucket(2, id)"])
    frame = spark.range(0, 200, 1, 4).selectExpr("id % 20 AS id", "id AS v", "id AS n")
    table.upsert(frame)
    assert table.scan().count() == 20
    assert content(table.scan().to_spark()) == {id: 180 + id for id in range(20)}
    with pytest.raises(InvalidInputError, match="null in 'id'"):
        table.upsert(spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 1L AS v, 1L AS n"))
    later = spark.range(0, 3).selectExpr("id", "1000L AS v", "0L AS n")
    later.write.format("firn").mode("append").save(f"{db.url}/t")
    assert content(table.scan(where="id < 4").to_spark()) == {0: 0, 1: 0, 2: 0, 3: 183}
    later.write.format("firn").mode("overwrite").save(f"{db.url}/t")
    assert content(table.scan().to_spark()) == {0: 0, 1: 0, 2: 0}


def test_a_table_in_memory_travels_with_the_plan(spark: SparkSession) -> None:
    table = firn.connect("memory://", spark=spark).create_table("t", key=["id"])
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    table.upsert([{"id": 1, "n": 2}])
    assert content(table.scan().to_spark()) == {1: 2, 2: 1}
    assert content(table.scan(where="n = 1").to_spark()) == {2: 1}


def test_streams_write_keys_and_do_not_read_them(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    source = db.create_table("source")
    source.append(pa.table({"id": [1, 2, 1], "n": [1, 1, 2]}))
    target = db.create_table("target", key=["id"])
    query = (
        spark.readStream.format("firn")
        .load(f"{db.url}/source")
        .writeStream.format("firn")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(f"{db.url}/target")
    )
    query.awaitTermination()
    assert sorted(row["id"] for row in target.scan().to_arrow().to_pylist()) == [1, 2]
    reading = (
        spark.readStream.format("firn")
        .load(f"{db.url}/target")
        .writeStream.format("memory")
        .queryName("nothing")
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="would miss updates and deletes"):
        reading.awaitTermination()
