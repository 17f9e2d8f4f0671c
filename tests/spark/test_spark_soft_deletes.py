"""Soft deletes in Spark: its own reader, tasks, the data source and SQL leave out the same rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import firn
from firn.errors import CorruptObjectError
from firn.journal.model import with_deletes
from firn.lake.plan.read import LakeRead
from firn.lake.read.scan import Scan
from firn.lake.table import LakeTable
from firn.reads import plan_read
from firn.spark.batch import TableReader
from firn.spark.lake.scan import MAX_GROUPS, plan_files
from firn.spark.native.parquet import NATIVE_CONF
from firn.spark.session.types import spark_schema
from firn.sql.on_spark import SparkQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> LakeTable:
    db = firn.connect(tmp_path / "a[1]{x}*?", writer="w", spark=spark)
    return db.create_table("t", journal="writer")


def bag(found: Sequence[Any]) -> list[str]:
    return sorted(repr(tuple(0.0 if value == 0 else value for value in row)) for row in found)


def all_ways(spark: SparkSession, scan: Scan) -> Iterator[DataFrame]:
    """The scan by Spark's own reader, as far as it goes, and through tasks alone."""
    yield scan.to_spark()
    spark.conf.set(NATIVE_CONF, "never")
    try:
        assert plan_files(LakeRead.of(scan), scan.files(), spark).native == ()
        yield scan.to_spark()
    finally:
        spark.conf.unset(NATIVE_CONF)


def fill(table: LakeTable, truth: duckdb.DuckDBPyConnection, dice: random.Random) -> None:
    kinds = {
        "f": pa.int32(),
        "k": pa.int64(),
        "s": pa.string(),
        "x": pa.float64(),
        "d": pa.date32(),
        "z": pa.timestamp("us", "UTC"),
    }
    truth.execute(
        "CREATE TABLE t (f INTEGER, k BIGINT, s VARCHAR, x DOUBLE, d DATE, z TIMESTAMP WITH TIME ZONE)"
    )
    for number in range(5):
        made = [
            {
                "f": number,
                "k": dice.choice([None, *range(9)]),
                "s": dice.choice(["a", "b", "", None]),
                "x": dice.choice([0.0, -1.5, 7.0, NAN, None]),
                "d": dice.choice([dt.date(2001, 1, day) for day in (1, 2, 3)]),
                "z": dt.datetime(2001, 1, 1, dice.randrange(24), tzinfo=dt.timezone.utc),
            }
            for _ in range(30)
        ]
        data = pa.Table.from_pylist(made, pa.schema(list(kinds.items())))
        data = data.drop_columns(["x"]) if number == 2 else data
        table.append(data)
        truth.register("fresh", data)
        truth.execute("INSERT INTO t BY NAME SELECT * FROM fresh")


PREDICATES = (
    "k = {}",
    "k < {} AND s = 'a'",
    "x > {} AND f < 3",
    "x IS NULL AND k <> {}",
    "NOT (s = 'b') AND k IN ({}, 2)",
    "d = DATE '2001-01-02' AND k > {}",
    "s LIKE 'a%' AND k % 5 = {}",
    "z > TIMESTAMPTZ '2001-01-01 1{}:00:00+00' AND f = 4",
    "f = 1 OR x BETWEEN 6 AND {}",
)


def test_all_ways_agree_with_duckdb(spark: SparkSession, table: LakeTable) -> None:
    dice = random.Random(3)
    truth = duckdb.connect()
    truth.execute("SET TimeZone = 'UTC'")
    fill(table, truth, dice)
    natives = 0
    for where in PREDICATES:
        where = where.format(dice.randrange(9))
        table.delete(where)
        truth.execute(f"DELETE FROM t WHERE {where}")
        for asked in (None, dice.choice(PREDICATES).format(dice.randrange(9))):
            scan = table.scan(columns=["k", "x", "s", "f"], where=asked)
            expected = bag(truth.execute(f"SELECT k, x, s, f FROM t WHERE {asked or 'true'}").fetchall())
            plan = plan_files(LakeRead.of(scan), scan.files(), spark)
            natives += sum(bool(group.deletes) for group in plan.groups)
            for frame in all_ways(spark, scan):
                assert bag([tuple(row) for row in frame.collect()]) == expected, (where, asked)
    assert natives > 3


def test_files_with_the_same_soft_deletes_are_read_together(spark: SparkSession, table: LakeTable) -> None:
    for number in range(6):
        table.append([{"k": k, "s": str(number), "big": "x" * 100} for k in range(5)])
    table.delete("k = 1")
    table.append([{"k": 1, "s": "later", "big": ""}])
    table.delete("k = 2 AND s >= '4'")
    scan = table.scan(columns=["s"])
    plan = plan_files(LakeRead.of(scan), scan.files(), spark)
    sizes = sorted((len(group.paths), len(group.deletes)) for group in plan.groups)
    assert sizes == [(1, 0), (2, 2), (4, 1)] and plan.tasks == ()
    assert table.scan().to_spark().count() == table.scan().count() == 4 * 4 + 2 * 3 + 1
    assert scan.to_spark().columns == ["s"]


def test_what_spark_would_answer_otherwise_goes_through_tasks(spark: SparkSession, table: LakeTable) -> None:
    table.append([{"k": 1, "s": "a"}, {"k": 7, "s": "b"}])
    table.append([{"k": 100, "s": "c"}])
    table.delete("k // 2 = 3")
    scan = table.scan()
    plan = plan_files(LakeRead.of(scan), scan.files(), spark)
    assert (len(plan.native), len(plan.tasks)) == (0, 2)
    table.merge()
    table.append([{"k": 5, "s": "d"}])
    table.delete("k = 5")  # all of a file: none is marked
    assert len(plan_files(LakeRead.of(table.scan()), table.scan().files(), spark).native) == 1
    assert sorted(row.k for row in table.scan().to_spark().collect()) == [1, 100]


def test_rare_sets_of_soft_deletes_go_through_tasks(spark: SparkSession, table: LakeTable) -> None:
    for _ in range(MAX_GROUPS + 3):
        table.append([{"k": k} for k in range(20)])
    files = table.snapshot().files
    marked = [with_deletes(file, f"k = {number}") for number, file in enumerate(files)]
    plan = plan_files(LakeRead.of(table.scan()), marked, spark)
    assert (len(plan.groups), len(plan.tasks)) == (MAX_GROUPS, 3)


def test_nans_and_widened_columns(spark: SparkSession, table: LakeTable) -> None:
    """Spark skips row groups by statistics that don't know NaNs, and 0.1 as a float is another number."""
    table.append(
        pa.table({"x": pa.array([0.1, NAN, 2.0], pa.float32()), "n": pa.array([1, 2, 3], pa.int32())})
    )
    table.delete("x = 0.1")
    table.append(pa.table({"x": [0.1, NAN], "n": [4, 2**40]}))
    table.delete("x > 5")
    for frame in all_ways(spark, table.scan()):
        assert sorted(row.n for row in frame.collect()) == [3, 4]
        assert frame.where("x > 1").count() == 1


def test_an_undecodable_predicate_names_its_file(spark: SparkSession, table: LakeTable) -> None:
    table.append([{"k": 1}])
    (file,) = table.snapshot().files
    bad = with_deletes(file, "k >")
    with pytest.raises(CorruptObjectError, match=r"parquet has a soft delete that can't be evaluated"):
        plan_files(LakeRead.of(table.scan()), [bad], spark)


def test_sql_sees_live_rows_and_prunes(spark: SparkSession, table: LakeTable) -> None:
    class Tables:
        def table(self, name: str) -> LakeTable:
            return table

        def tables(self) -> list[str]:
            return ["t"]

    def asked(query: str) -> list[Any]:
        return SparkQuery(Tables(), query, spark).frame(lambda: spark).collect()

    table.append([{"k": k, "s": "a"} for k in range(10)])
    table.append([{"k": k, "s": "b"} for k in range(5, 100)])
    table.delete("k % 2 = 0")
    table.delete("k = 7")
    query = "SELECT count(*) AS n, min(k) AS low FROM t WHERE s = 'a' AND k > 0"
    assert asked(query) == [(4, 1)]
    joined = "SELECT count(*) FROM t AS l JOIN t AS r ON l.k = r.k WHERE l.s = 'a' AND r.s = 'b'"
    assert asked(joined) == [(2,)]
    assert asked("SELECT count(*) FROM t") == [(51,)]


def test_the_data_source_leaves_deleted_rows_out(spark: SparkSession, table: LakeTable) -> None:
    from pyspark.sql.datasource import DataSource

    table.append([{"k": k, "s": "a"} for k in range(10)])
    table.append([{"k": k} for k in range(20, 30)])
    table.delete("k < 5 OR k % 10 = 5")
    plan = plan_read(table, where="k <> 8")
    schema = spark_schema(plan.columns)
    expected = [k for k in (*range(5, 10), *range(20, 30)) if k not in (5, 8, 25)]

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "soft_deletes"

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> Any:
            return TableReader(plan, schema)

    spark.dataSource.register(Source)
    found = spark.read.format("soft_deletes").load().collect()
    assert sorted(row.k for row in found) == expected


def test_maintenance_by_sparks_tasks_folds_them(spark: SparkSession, table: LakeTable) -> None:
    from firn.spark.session.runner import SparkRunner

    table.append([{"k": k, "s": "a"} for k in range(10)])
    table.append([{"k": k, "s": "b"} for k in range(10)])
    table.delete("k < 3")

    class OnSpark:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def runner(self, input_bytes: int) -> Any:
            return SparkRunner(spark)

    table.context = replace(table.context, engines=OnSpark(table.context.engines))
    result = table.delete("k = 9 AND s = 'a'", soft=False)
    assert result.files_added == result.files_removed == 1
    assert table.merge().rows_deleted == 0
    assert table.scan().count() == 13
    assert not any(file.deletes for file in table.snapshot().files)
    assert table.scan().to_spark().count() == 13
