"""Scans as DataFrames: Spark's reader and tasks give the same rows, and each file goes to who can read it."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.errors import InvalidInputError, UnsupportedError
from firn.lake.plan.read import LakeRead
from firn.spark.lake.scan import plan_files
from firn.spark.native.agreement import engines_agree
from firn.spark.native.parquet import NATIVE_CONF, escape_glob
from firn.spark.session.types import natively_readable, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")
NOON = dt.datetime(2020, 1, 1, 12, 0, 0, 123456)

EVERYTHING = pa.table(
    {
        "boolean": [True, None],
        "i8": pa.array([-1, None], pa.int8()),
        "i16": pa.array([-300, None], pa.int16()),
        "i32": pa.array([-70_000, None], pa.int32()),
        "i64": pa.array([-(2**40), None]),
        "u8": pa.array([200, None], pa.uint8()),
        "u16": pa.array([60_000, None], pa.uint16()),
        "u32": pa.array([2**32 - 1, None], pa.uint32()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f32": pa.array([1.5, NAN], pa.float32()),
        "f64": [0.1, None],
        "text": ["é", None],
        "blob": [b"\x00\xff", None],
        "day": [dt.date(2001, 1, 1), None],
        "local": pa.array([NOON, None], pa.timestamp("us")),
        "instant": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "dec": pa.array([decimal.Decimal("-1.25"), None], pa.decimal128(10, 2)),
        "big": pa.array([decimal.Decimal(10**37), None], pa.decimal128(38, 0)),
        "list": [[1, None], None],
        "fixed": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        "struct": [{"a": 1, "b": {"c": 0.5}}, None],
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "uuid": pa.array([b"0123456789abcdef", None], pa.uuid()),
        "a b.c `d`": [1, 2],
    }
)

SPARK_TYPES = (
    "boolean:boolean,i8:tinyint,i16:smallint,i32:int,i64:bigint,u8:smallint,u16:int,u32:bigint,"
    "u64:decimal(20,0),f32:float,f64:double,text:string,blob:binary,day:date,local:timestamp_ntz,"
    "instant:timestamp,dec:decimal(10,2),big:decimal(38,0),list:array<bigint>,fixed:array<bigint>,"
    "struct:struct<a:bigint,b:struct<c:double>>,map:map<string,bigint>,uuid:string,a b.c `d`:bigint"
)


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> firn.Database:
    return firn.connect(tmp_path / "a[1]{x}*?", spark=spark)


@pytest.fixture
def never(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(NATIVE_CONF, "never")
    yield
    spark.conf.unset(NATIVE_CONF)


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


def both_ways(spark: SparkSession, scan: Any) -> tuple[DataFrame, DataFrame]:
    """The scan as Spark reads it, and through tasks alone."""
    native = scan.to_spark()
    spark.conf.set(NATIVE_CONF, "never")
    try:
        assert plan_files(LakeRead.of(scan), scan.files(), spark).native == ()
        return native, scan.to_spark()
    finally:
        spark.conf.unset(NATIVE_CONF)


def test_every_type_reads_alike_both_ways(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("everything")
    table.append(EVERYTHING)
    scan = table.scan()
    native, tasks = both_ways(spark, scan)
    assert len(plan_files(LakeRead.of(scan), scan.files(), spark).native) == 1
    assert native.schema.simpleString() == tasks.schema.simpleString() == f"struct<{SPARK_TYPES}>"
    assert rows(native) == rows(tasks)
    row = native.where("i8 = -1").collect()[0]
    assert (row.u64, row.uuid) == (2**64 - 1, "30313233-3435-3637-3839-616263646566")
    assert row.struct.b.c == 0.5
    assert row.local == NOON


def test_types_that_spark_lacks_go_through_tasks(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("lacking")
    table.append(
        pa.table(
            {
                "k": [1],
                "nanos": pa.array([1_000_001_999], pa.timestamp("ns")),
                "clock": pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")),
            }
        )
    )
    scan = table.scan()
    assert plan_files(LakeRead.of(scan), scan.files(), spark).native == ()
    assert scan.to_spark().collect() == [
        (1, dt.datetime(1970, 1, 1, 0, 0, 1, 1), "01:02:03.000004"),
    ]
    some = table.scan(columns=["k"])
    assert len(plan_files(LakeRead.of(some), some.files(), spark).native) == 1
    with pytest.raises(UnsupportedError, match="column 'i': Spark has no type for INTERVAL"):
        spark_schema({"i": "INTERVAL"})


def test_a_column_that_was_widened_since(spark: SparkSession, db: firn.Database) -> None:
    """A file keeps its type when the table's is widened: some widenings Spark reads itself, others it fails on."""
    table = db.create_table("widened")
    table.append(pa.table({"a": pa.array([1], pa.int32()), "b": [10]}))
    table.append(pa.table({"a": pa.array([2]), "b": [20]}))
    scan = table.scan()
    assert len(plan_files(LakeRead.of(scan), scan.files(), spark).native) == 2
    table.append(pa.table({"a": pa.array([3]), "b": pa.array([30], pa.decimal128(25, 2))}))
    scan = table.scan()
    plan = plan_files(LakeRead.of(scan), scan.files(), spark)
    assert (len(plan.native), len(plan.tasks)) == (1, 2)
    assert sorted(scan.to_spark().collect()) == [(n, decimal.Decimal(10 * n)) for n in (1, 2, 3)]
    table.merge()
    merged = table.scan()
    assert len(plan_files(LakeRead.of(merged), merged.files(), spark).native) == 1
    assert sorted(merged.to_spark().collect()) == sorted(scan.to_spark().collect())


WIDENINGS = [
    (pa.int8(), "SMALLINT", 7),
    (pa.int8(), "DOUBLE", 7),
    (pa.int16(), "BIGINT", 7),
    (pa.int32(), "BIGINT", 7),
    (pa.int32(), "DOUBLE", 7),
    (pa.int32(), "DECIMAL(12,2)", 7),
    (pa.uint8(), "SMALLINT", 200),
    (pa.uint8(), "BIGINT", 200),
    (pa.uint16(), "UINTEGER", 60_000),
    (pa.uint32(), "BIGINT", 2**32 - 1),
    (pa.float32(), "DOUBLE", 0.5),
    (pa.decimal128(5, 2), "DECIMAL(20,4)", decimal.Decimal("1.25")),
    (pa.list_(pa.int32()), "BIGINT[]", [1]),
    (pa.struct({"a": pa.int32()}), "STRUCT(a BIGINT, b VARCHAR)", {"a": 1}),
]


@pytest.mark.parametrize(("stored", "wanted", "value"), WIDENINGS, ids=lambda v: str(v)[:30])
def test_spark_reads_the_widenings_that_are_called_native(
    spark: SparkSession, tmp_path: Path, stored: pa.DataType, wanted: str, value: Any
) -> None:
    from firn.arrow.types import duckdb_name

    assert natively_readable(duckdb_name(stored), wanted, ours=True)
    pq.write_table(pa.table({"x": pa.array([value, None], stored)}), tmp_path / "x.parquet")
    frame = spark.read.schema(spark_schema({"x": wanted})).parquet(str(tmp_path / "x.parquet"))
    found = frame.collect()[0].x
    expected = {"a": 1, "b": None} if isinstance(value, dict) else value
    assert (found.asDict() if hasattr(found, "asDict") else found) == expected


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("BIGINT", "DOUBLE"),
        ("BIGINT", "INTEGER"),
        ("BIGINT", "DECIMAL(20,0)"),
        ("INTEGER", "DECIMAL(7,2)"),
        ("UTINYINT", "DECIMAL(12,2)"),
        ("DECIMAL(10,2)", "DECIMAL(10,4)"),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
        ("TIMESTAMP_NS", "TIMESTAMP"),
        ("TIMESTAMP_MS", "TIMESTAMP"),
        ("TIME", "TIME"),
        ("STRUCT(b VARCHAR)", "STRUCT(a BIGINT)"),
        ("HUGEINT[]", "DECIMAL(38,0)[]"),
    ],
)
def test_what_isnt_called_native(stored: str, wanted: str) -> None:
    assert not natively_readable(stored, wanted, ours=True)


def test_nans_survive_sparks_row_group_filters(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("nans")
    nested = [{"y": 2.0}, {"y": NAN}]
    table.append(pa.table({"x": [2.0, NAN], "s": nested, "k": [1, 2]}))
    scan = table.scan()
    assert plan_files(LakeRead.of(scan), scan.files(), spark).groups[0].guarded == {"x", "s"}
    frame = scan.to_spark()
    assert frame.where("x > 2.5").count() == 1
    assert frame.where("s.y >= 3").count() == 1
    assert table.scan(where="x > 2.5").to_spark().count() == table.scan(where="x > 2.5").count() == 1
    plain = db.create_table("numbers")
    plain.append(pa.table({"x": [2.0, 3.0]}))
    assert plan_files(LakeRead.of(plain.scan()), plain.scan().files(), spark).groups[0].guarded == frozenset()


def test_predicates_select_the_same_rows_both_ways(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("filtered", partition_by=["month(day)"])
    table.append(EVERYTHING)
    table.append(
        pa.table(
            {"day": [dt.date(2001, 2, n + 1) for n in range(20)], "i64": range(20), "text": list("abcde" * 4)}
        )
    )
    for where in (
        "i64 > 5 AND text <> 'a'",
        "day >= '2001-02-03' AND NOT i64 IN (3, 4)",
        "day BETWEEN DATE '2001-02-03' AND DATE '2001-02-05' OR i8 IS NOT NULL",
        "i64 // 3 = 2",
        "upper(text) = 'B' AND year(day) = 2001",
        "f32 = 1.5",
        "instant > '2020-01-01'",
        "boolean",
    ):
        scan = table.scan(columns=["day", "i64"], where=where)
        native, tasks = both_ways(spark, scan)
        expected = sorted(repr((row["day"], row["i64"])) for row in scan.to_arrow().to_pylist())
        assert sorted(repr(tuple(row)) for row in native.collect()) == expected, where
        assert sorted(repr(tuple(row)) for row in tasks.collect()) == expected, where


@pytest.mark.parametrize(
    ("where", "agree"),
    [
        ("k = 1 AND s IN ('a', 'b') OR NOT (d < DATE '2001-01-01')", True),
        ("d = '2001-01-01' AND t <= '2001-01-01 10:00:00.5'", True),
        ("b AND k IS NULL", True),
        ("k = 1.5", True),
        ("k + 1 = 2", False),
        ("lower(s) = 'a'", False),
        ("s LIKE 'a%'", False),
        ("f = 0.1", False),
        ("d = '2001/01/01'", False),
        ("k = '1'", False),
        ("st.a = 1", False),
        ("k = j", False),
        ("CAST(s AS BIGINT) = 1", False),
    ],
)
def test_which_predicates_spark_evaluates(where: str, agree: bool) -> None:
    from firn.predicate.predicate import Predicate

    columns = {
        "k": "BIGINT",
        "j": "BIGINT",
        "s": "VARCHAR",
        "d": "DATE",
        "t": "TIMESTAMP",
        "b": "BOOLEAN",
        "f": "FLOAT",
        "st": "STRUCT(a BIGINT)",
    }
    assert engines_agree(Predicate.parse(where, columns).ast, columns) is agree


def test_instants_compare_in_utc_whatever_the_session(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("zoned")
    table.append(pa.table({"t": pa.array([dt.datetime(2020, 1, 1, 2)], pa.timestamp("us", "UTC"))}))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert table.scan(where="t > '2020-01-01 01:00:00'").to_spark().count() == 1
    assert table.scan(where="t > '2020-01-01 03:00:00'").to_spark().count() == 0


def test_registered_files_go_to_spark_only_where_their_statistics_vouch_for_them(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    root = Path(db.url)
    (root / "lake").mkdir(parents=True)

    def write(name: str, **columns: Any) -> str:
        pq.write_table(pa.table(columns), root / "lake" / name)
        return f"lake/{name}"

    table = db.create_table("registered")
    good = write("good.parquet", k=[1], s=["a"])
    hidden = [write("_hidden.parquet", k=[2], s=["b"]), write(".dot.parquet", k=[3], s=["c"])]
    half = write("half.parquet", k=[4], s=["d"], h=pa.array([0.5], pa.float16()))
    nulls = write("nulls.parquet", k=[5], s=pa.nulls(1))
    table.register([good, *hidden, half, nulls])
    scan = table.scan(columns=["k", "s"])
    plan = plan_files(LakeRead.of(scan), scan.files(), spark)
    assert {Path(file.path).name for file in plan.tasks} >= {
        "_hidden.parquet",
        ".dot.parquet",
        "nulls.parquet",
    }
    assert escape_glob(str(root / "lake/good.parquet")) in plan.native
    assert sorted(scan.to_spark().collect(), key=lambda row: row.k) == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
        (5, None),
    ]
    assert table.scan(columns=["h"], where="k = 4").to_spark().collect() == [(0.5,)]


def test_columns_come_in_the_order_asked_for(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("ordered")
    table.append([{"a": 1, "b": "x", "c": True}])
    scan = table.scan(columns=["c", "A"], where="b = 'x'")
    native, tasks = both_ways(spark, scan)
    assert native.columns == tasks.columns == ["c", "a"]
    assert native.collect() == tasks.collect() == [(True, 1)]


def test_an_empty_table_is_an_empty_dataframe(spark: SparkSession, db: firn.Database) -> None:
    declared = db.create_table("declared", schema={"a": "BIGINT", "b": "VARCHAR"})
    assert declared.scan().to_spark().schema.simpleString() == "struct<a:bigint,b:string>"
    assert declared.scan().to_spark().count() == 0
    assert db.create_table("bare").scan().to_spark().columns == []
    declared.append([{"a": 1, "b": "x"}])
    assert declared.scan(where="a = 2").to_spark().collect() == []


def test_a_dataframe_stays_at_its_snapshot(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("pinned")
    first = table.append([{"a": 1}])
    table.append([{"a": 2}])
    native, tasks = both_ways(spark, table.scan())
    table.append([{"a": 3}])
    table.merge()
    table.delete("a = 1")
    assert rows(native) == rows(tasks) == ["Row(a=1)", "Row(a=2)"]
    assert table.scan(at=first.version).to_spark().collect() == [(1,)]
    assert table.scan().to_spark().count() == 2


def test_many_files_go_through_few_tasks(spark: SparkSession, db: firn.Database, never: None) -> None:
    table = db.create_table("many")
    for part in range(12):
        table.append([{"a": part}])
    frame = table.scan().to_spark()
    assert sorted(row.a for row in frame.collect()) == list(range(12))
    assert frame.rdd.getNumPartitions() == 2


def test_a_swept_file_fails_with_words_that_help(spark: SparkSession, db: firn.Database, never: None) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("swept")
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    frame = table.scan().to_spark()
    table.merge()
    table.sweep(older_than="0s")
    with pytest.raises(PySparkException, match="the table was swept since this DataFrame was made"):
        frame.collect()


def test_a_missing_file_is_never_taken_for_an_empty_one(spark: SparkSession, db: firn.Database) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    table = db.create_table("missing")
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    frame = table.scan().to_spark()
    Path(db.url, table.snapshot().files[0].path).unlink()
    with pytest.raises((PySparkException, Py4JJavaError), match=r"FILE_NOT_EXIST|does not exist"):
        frame.collect()


def test_days_long_ago_are_those_that_were_written(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("old")
    table.append([{"d": dt.date(1000, 1, 1), "t": dt.datetime(1000, 1, 1, 2, 3, 4)}])
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    native, tasks = both_ways(spark, table.scan())
    text = "cast(d AS string) AS d", "cast(t AS string) AS t"
    assert native.selectExpr(*text).collect() == tasks.selectExpr(*text).collect()
    assert native.selectExpr(*text).collect() == [("1000-01-01", "1000-01-01 02:03:04")]


def test_a_table_in_memory_travels_with_the_plan(spark: SparkSession) -> None:
    table = firn.connect("memory://", spark=spark).create_table("m")
    table.append(EVERYTHING)
    frame = table.scan(where="i8 = -1").to_spark()
    assert frame.schema.simpleString() == f"struct<{SPARK_TYPES}>"
    assert frame.collect()[0].u32 == 2**32 - 1


def test_a_wrong_setting_is_named(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("setting")
    table.append([{"a": 1}])
    spark.conf.set(NATIVE_CONF, "sometimes")
    with pytest.raises(InvalidInputError, match="it can be auto, always or never"):
        table.scan().to_spark()


def test_planning_leaves_the_sessions_settings_alone(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("polite")
    table.append([{"a": 1}])
    name = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    spark.conf.set(name, "17")
    assert table.scan().to_spark().count() == 1
    assert spark.conf.get(name) == "17"


def test_the_directory_really_has_glob_characters(db: firn.Database) -> None:
    assert set("[]{}*?") <= set(os.path.basename(db.url))
