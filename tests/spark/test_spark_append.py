"""DataFrames into tables: types, checks before any task, retries, distribution, one commit."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.errors import InvalidInputError, SchemaConflictError, UnsupportedError
from firn.lake.partition.transforms import encode
from firn.spark.lake.append import batch_limits, bucket_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ARROW_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def data_files(db: firn.Database) -> list[Path]:
    return sorted(Path(db.url).rglob("*.parquet"))


def test_every_type_arrives_as_what_it_is(spark: SparkSession, db: firn.Database) -> None:
    frame = spark.sql(
        """
        SELECT true AS bool, 1Y AS i8, 2S AS i16, 3 AS i32, 4L AS i64, float(0.5) AS f32, 0.25D AS f64,
               1.25BD AS dec, 'é' AS text, X'00FF' AS blob, DATE'2001-01-02' AS day,
               TIMESTAMP_NTZ'2020-01-01 12:00:00.123456' AS local, TIMESTAMP'2020-01-01 12:00:00Z' AS instant,
               array(1, null) AS list, named_struct('a', 1, 'b', 'x') AS struct, map('k', 1L) AS map,
               cast(null AS int) AS none, null AS void, 5 AS `a b.c`
        """
    )
    table = db.create_table("everything")
    result = table.append(frame)
    assert (result.files, result.rows) == (1, 1)
    assert dict(table.snapshot().columns) == {
        "bool": "BOOLEAN",
        "i8": "TINYINT",
        "i16": "SMALLINT",
        "i32": "INTEGER",
        "i64": "BIGINT",
        "f32": "FLOAT",
        "f64": "DOUBLE",
        "dec": "DECIMAL(3,2)",
        "text": "VARCHAR",
        "blob": "BLOB",
        "day": "DATE",
        "local": "TIMESTAMP",
        "instant": "TIMESTAMP WITH TIME ZONE",
        "list": "INTEGER[]",
        "struct": "STRUCT(a INTEGER, b VARCHAR)",
        "map": "MAP(VARCHAR, BIGINT)",
        "none": "INTEGER",
        "a b.c": "INTEGER",
    }
    row = table.scan().to_arrow().to_pylist()[0]
    assert row["local"] == dt.datetime(2020, 1, 1, 12, 0, 0, 123456)
    assert row["instant"] == dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone.utc)
    assert (row["dec"], row["blob"], row["list"]) == (decimal.Decimal("1.25"), b"\x00\xff", [1, None])
    assert (row["struct"], row["map"], row["none"], row["a b.c"]) == ({"a": 1, "b": "x"}, [("k", 1)], None, 5)


def test_instants_dont_depend_on_the_sessions_zone(spark: SparkSession, db: firn.Database) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    db.create_table("tz").append(spark.sql("SELECT TIMESTAMP'2020-01-01 09:00:00' AS t"))
    moment = db.table("tz").scan().to_arrow().to_pylist()[0]["t"]
    assert moment == dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT INTERVAL '1' DAY AS i", "column 'i' of the DataFrame is interval day"),
        ("SELECT INTERVAL '1' YEAR AS i", "column 'i' of the DataFrame is interval year"),
        ("SELECT parse_json('{}') AS v", "column 'v' of the DataFrame is variant"),
        ("SELECT array(named_struct('x', parse_json('{}'))) AS v", r"column 'v\[\]\.x'"),
    ],
)
def test_types_that_no_file_holds_are_refused(
    spark: SparkSession, db: firn.Database, query: str, says: str
) -> None:
    with pytest.raises(UnsupportedError, match=says):
        db.create_table("refused").append(spark.sql(query))
    assert data_files(db) == []


def test_user_defined_types_are_refused(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.sql.types import StructField, StructType
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    schema = StructType([StructField("p", ExamplePointUDT())])
    frame = spark.createDataFrame([(ExamplePoint(1.0, 2.0),)], schema)
    with pytest.raises(UnsupportedError, match="column 'p'"):
        db.create_table("udt").append(frame)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT 1 AS a, 2 AS A", "can't tell apart"),
        ("SELECT named_struct('x', 1, 'X', 2) AS s", "only by case"),
        ("SELECT null AS a", "no column with a type"),
    ],
)
def test_columns_that_cannot_be_are_refused(
    spark: SparkSession, db: firn.Database, query: str, says: str
) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    with pytest.raises(InvalidInputError, match=says):
        db.create_table("bad").append(spark.sql(query))


def test_a_conflict_is_found_before_any_task_writes(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("conflict")
    table.append([{"a": 1}])
    before = data_files(db)
    with pytest.raises(
        SchemaConflictError, match="column 'a' is BIGINT in the table and VARCHAR in the data"
    ):
        table.append(spark.sql("SELECT 'x' AS a FROM range(10)"))
    assert data_files(db) == before


def test_an_error_of_a_task_has_its_own_type_and_nothing_is_visible(
    spark: SparkSession, db: firn.Database
) -> None:
    table = db.create_table("misfit", schema={"k": "UTINYINT"})
    with pytest.raises(InvalidInputError, match="column 'k' is UTINYINT, and the value 300"):
        table.append(spark.sql("SELECT cast(id * 100 AS smallint) AS k FROM range(4)"))
    assert table.scan().count() == 0


def test_rows_go_back_into_the_table_they_were_read_from(spark: SparkSession, db: firn.Database) -> None:
    import pyarrow as pa

    table = db.create_table("self")
    table.append(pa.table({"u": pa.array([1, 2], pa.uint8()), "big": pa.array([1, 2], pa.uint64())}))
    columns = dict(table.snapshot().columns)
    for _ in range(2):
        table.append(table.scan().to_spark())
    assert table.scan().count() == 8
    assert dict(table.snapshot().columns) == columns == {"u": "UTINYINT", "big": "UBIGINT"}


def test_all_partitions_make_one_commit(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("once", partition_by=["g"])
    result = table.append(spark.range(0, 100, 1, 5).selectExpr("id", "id % 2 AS g"))
    assert (result.rows, result.files) == (100, 10)
    assert len(table.history()) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(100))


def test_a_batch_id_makes_a_repeat_a_no_op(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("batches")
    frame = spark.range(3)
    first = table.append(frame, batch_id="q/1")
    again = table.append(frame, batch_id="q/1")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert first.version == again.version
    assert table.scan().count() == 3


def test_an_empty_dataframe_adds_nothing(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("empty")
    result = table.append(spark.range(0))
    assert (result.files, result.rows) == (0, 0)
    assert data_files(db) == []


def test_what_a_failed_attempt_wrote_is_not_committed(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    marker = str(tmp_path / "failed")

    def fail_at_the_end_once(batches: Any) -> Any:
        import os

        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            with open(marker, "w"):
                pass
            os._exit(1)

    frame = spark.range(0, 40, 1, 2).mapInArrow(fail_at_the_end_once, "id long")
    table = db.create_table("retried", properties={"target_size": "1KB"})
    result = table.append(frame)
    assert Path(marker).exists()
    assert result.rows == 40
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(40))


@pytest.mark.parametrize(("how", "files"), [("none", 3 * 70), ("hash", 70), ("auto", 70)])
def test_rows_of_many_partitions_are_brought_together(
    spark: SparkSession, db: firn.Database, how: str, files: int
) -> None:
    table = db.create_table("many", partition_by=["g"], properties={"write_distribution": how})
    if how == "auto":  # tells by the partitions that are there
        table.append([{"id": 0, "g": g} for g in range(70)])
    result = table.append(spark.range(0, 630, 1, 3).selectExpr("id", "id % 70 AS g"))
    assert result.files == files


def test_distribution_follows_the_transform(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table(
        "transformed",
        schema={"d": "DATE", "s": "VARCHAR", "n": "BIGINT"},
        partition_by=["month(d)", "truncate(1, s)", "truncate(10, n)", "bucket(2, n)"],
        properties={"write_distribution": "hash"},
    )
    frame = spark.range(0, 60, 1, 3).selectExpr(
        "date_add(DATE'2001-01-01', cast(id AS int)) AS d", "concat('ab', id) AS s", "id - 5 AS n"
    )
    result = table.append(frame)
    # 7 tens of n; two months, of which one begins within a ten and one ends there; two buckets each
    assert result.files == len(table.partitions())
    assert result.rows == 60


def test_buckets_are_the_same_in_sparks_sql(spark: SparkSession) -> None:
    values = "-9223372036854775808, -34, -1, 0, 1, 34, 2017, 9223372036854775807"
    frame = spark.sql(f"SELECT explode(array({values})) AS n")
    frame = frame.selectExpr(
        "n",
        "cast(n % 100 AS tinyint) AS small",
        "date_add(DATE'1970-01-01', cast(n % 30000 AS int)) AS day",
        "timestamp_micros(n % 1000000000000000) AS at",
    )
    kinds = dict(frame.dtypes)
    rows = frame.toArrow()
    for name in frame.columns:
        codes, texts = encode("bucket", 1000, rows[name])
        number = bucket_number(frame[name], kinds[name], 1000)
        assert number is not None
        assert [row[0] for row in frame.select(number).collect()] == [int(texts[code]) for code in codes]
    assert bucket_number(frame["n"], "string", 1000) is None


def test_many_buckets_are_brought_together_from_the_first_append_on(
    spark: SparkSession, db: firn.Database
) -> None:
    table = db.create_table("bucketed", partition_by=["bucket(100, id)"])
    result = table.append(spark.range(0, 3000, 1, 3).selectExpr("id", "id % 7 AS v"))
    assert result.files == len(table.partitions()) == 100


def test_writing_reports_its_tasks(spark: SparkSession, db: firn.Database) -> None:
    seen: list[tuple[int, int]] = []
    db.engines.on_progress = lambda done, total: seen.append((done, total))  # type: ignore[attr-defined]
    db.create_table("watched").append(spark.range(0, 4000, 1, 12).selectExpr("id", "uuid() AS text"))
    assert seen == sorted(seen) and seen[-1] == (12, 12)
    assert all(0 < done <= total == 12 for done, total in seen)


def test_overwrite_takes_a_dataframe(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("replaced")
    table.append([{"a": 1}, {"a": 2}])
    table.overwrite(spark.sql("SELECT 3L AS a"))
    assert table.scan().to_arrow().to_pylist() == [{"a": 3}]


BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def test_rows_known_to_be_narrow_are_handed_over_unweighed(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("narrow")
    narrow = spark.range(3).selectExpr("id", "cast(id AS STRING) AS text")
    unweighed = batch_limits(narrow, table.snapshot())
    assert unweighed == {ARROW_BATCH: "16384", BATCH_BYTES: "2147483647"}
    assert batch_limits(narrow.selectExpr("cast(text AS BINARY) AS b"), table.snapshot()).keys() == {
        ARROW_BATCH
    }
    assert batch_limits(narrow.selectExpr("array(id) AS ids"), table.snapshot()).keys() == {ARROW_BATCH}
    table.append([{"id": n, "text": random.Random(n).randbytes(4096).hex()} for n in range(50)])
    assert batch_limits(narrow, table.snapshot()).keys() == {ARROW_BATCH}, "its files say how wide rows are"


def test_a_limit_of_bytes_that_a_user_set_stays(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("limited")
    spark.conf.set(BATCH_BYTES, "1000000")
    assert batch_limits(spark.range(3).toDF("id"), table.snapshot()).keys() == {ARROW_BATCH}
    table.append(spark.range(20))
    assert spark.conf.get(BATCH_BYTES) == "1000000"


def test_the_sessions_batch_size_is_put_back(spark: SparkSession, db: firn.Database) -> None:
    weighed = spark.conf.get(BATCH_BYTES)
    spark.conf.set(ARROW_BATCH, "7")
    db.create_table("size").append(spark.range(20))
    assert spark.conf.get(ARROW_BATCH) == "7" and spark.conf.get(BATCH_BYTES) == weighed


def test_a_store_in_memory_is_out_of_reach(spark: SparkSession) -> None:
    table = firn.connect("memory://", spark=spark).create_table("m")
    with pytest.raises(UnsupportedError, match="Use a directory"):
        table.append(spark.range(3))


def test_tasks_write_bloom_filters_that_spark_reads_too(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("filtered", properties={"bloom_filters": "id, n"})
    table.append(
        spark.range(0, 1000, numPartitions=4).selectExpr("uuid() AS id", "id * 3 AS n", "id AS plain")
    )
    files = table.snapshot().files
    assert len(files) > 1
    assert all((file.extra or {})["bloom"].keys() == {"id", "n"} for file in files)
    row = table.scan(where="n = 999").to_arrow().to_pylist()[0]
    scan = table.scan(where=f"id = '{row['id']}'")
    assert 1 <= len(scan.files()) < len(files)
    assert [found.asDict() for found in scan.to_spark().collect()] == [row]
    with_parquets_own = spark.read.parquet(*[table.bucket.uri(file.path) for file in files])
    assert with_parquets_own.where(f"id = '{row['id']}' AND n = 999").count() == 1
    assert with_parquets_own.where("n = 1000").count() == 0


def test_texts_become_what_the_column_is(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", schema={"id": "UUID", "note": "JSON"})
    told = "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38"
    frame = spark.createDataFrame([(told.upper(), "1")], "id string, note string")
    table.append(frame)
    table.append(frame, query="SELECT id FROM _rows")
    frame.write.format("firn").mode("append").save(f"{db.url}/t")
    assert dict(table.snapshot().columns) == {"id": "UUID", "note": "JSON"}
    assert db.sql("SELECT count(*) AS n FROM t WHERE id = ?", [told], engine="duckdb").to_arrow()[
        "n"
    ].to_pylist() == [3]
    wrong = spark.createDataFrame([("no",)], "id string")
    with pytest.raises(InvalidInputError, match="'id' is UUID, and the value 'no'"):
        table.append(wrong)
    with pytest.raises(Exception, match="'id' is UUID, and the value 'no'"):
        wrong.write.format("firn").mode("append").save(f"{db.url}/t")
    assert table.scan().count() == 3
