"""The data source `firn`, for batches."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import firn
from firn.errors import AppendExpiredError, InvalidInputError
from firn.journal.model import DataFile
from firn.spark.batch import WrittenFiles, commit_files
from firn.spark.session.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, db: firn.Database, table: str, **options: str) -> DataFrame:
    reader = spark.read.format("firn")
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load(f"{db.url}/{table}")


def save(frame: DataFrame, db: firn.Database, table: str, mode: str = "append", **options: str) -> None:
    frame.write.format("firn").mode(mode).options(**options).save(f"{db.url}/{table}")


def test_written_and_read_back(spark: SparkSession, db: firn.Database) -> None:
    frame = spark.range(0, 60, 1, 2).selectExpr("id", "date_add(DATE'2001-01-01', cast(id AS int)) AS d")
    save(frame, db, "t", partitionBy="month(d)", sortBy="d desc")
    table = db.table("t")
    assert [part.values for part in table.partitions()] == [
        {"d_month": "2001-01"},
        {"d_month": "2001-02"},
        {"d_month": "2001-03"},
    ]
    assert len(table.history()) == 1
    assert table.context.definition.sort_by == ("d desc",)
    read = load(spark, db, "t")
    assert read.schema.simpleString() == "struct<id:bigint,d:date>"
    assert sorted(read.collect()) == sorted(frame.collect())
    some = load(spark, db, "t", columns="d", where="id = 3", store__conditional_put="etag")
    assert some.collect() == [(dt.date(2001, 1, 4),)]


def test_every_type_reads_as_in_a_scan(spark: SparkSession, db: firn.Database) -> None:
    from test_spark_scan import EVERYTHING, SPARK_TYPES

    table = db.create_table("everything")
    table.append(EVERYTHING)
    read = load(spark, db, "everything")
    assert read.schema.simpleString() == f"struct<{SPARK_TYPES}>"
    assert sorted(map(repr, read.collect())) == sorted(map(repr, table.scan().to_spark().collect()))


def test_a_read_is_pinned_when_it_is_made(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("pinned")
    version = table.append([{"a": 1}]).version
    read = load(spark, db, "pinned")
    table.overwrite([{"a": 2}, {"a": 3}])
    assert read.collect() == [(1,)]
    assert read.count() == 1
    assert load(spark, db, "pinned").count() == 2
    assert load(spark, db, "pinned", at=version).collect() == [(1,)]


def test_overwrite_and_insert_by_sql(spark: SparkSession, db: firn.Database) -> None:
    save(spark.range(4), db, "t")
    save(spark.range(2), db, "t", "overwrite")
    assert db.table("t").scan().count() == 2
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW firn_view USING firn OPTIONS (path '{db.url}/t')")
    try:
        spark.sql("INSERT INTO firn_view SELECT id + 10 FROM firn_view")
        assert sorted(db.table("t").scan().to_arrow()["id"].to_pylist()) == [0, 1, 10, 11]
        spark.sql("INSERT OVERWRITE firn_view SELECT id FROM firn_view WHERE id > 0")
        # The view reads the snapshot that it was made from.
        assert db.table("t").scan().to_arrow()["id"].to_pylist() == [1]
    finally:
        spark.catalog.dropTempView("firn_view")
    assert [commit.op for commit in db.table("t").history()] == ["append", "overwrite", "append", "overwrite"]


def test_filters_of_one_use_dont_leak_into_another(spark: SparkSession, db: firn.Database) -> None:
    """Spark 4.3 keeps what a filter pruned for every later use of the same DataFrame."""
    table = db.create_table("leak")
    for k in range(3):
        table.append([{"k": k, "s": "a"}])
    read = load(spark, db, "leak")
    assert read.where("k = 1").count() == 1
    assert read.count() == 3
    assert read.where("k >= 1").count() == 2


def test_a_conflict_is_refused_and_named(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("conflict")
    table.append([{"a": 1}])
    with pytest.raises(PySparkException, match="column 'a' is BIGINT in the table and VARCHAR in the data"):
        save(spark.sql("SELECT 'x' AS a"), db, "conflict")
    assert len(list(Path(db.url).rglob("*.parquet"))) == 1


def test_an_error_of_a_task_arrives_once_and_commits_nothing(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("misfit", schema={"k": "UTINYINT"})
    with pytest.raises(PySparkException, match="column 'k' is UTINYINT, and the value 300"):
        save(spark.sql("SELECT cast(id * 100 AS smallint) AS k FROM range(0, 4, 1, 2)"), db, "misfit")
    assert table.scan().count() == 0
    # The task whose rows were fine wrote its file; abort left it to sweep.
    assert len(list(Path(db.url).rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"wher": "a = 1"}, "no option 'wher'; there are: path, url, table, columns"),
        ({"where": "nosuch = 1"}, "nosuch"),
        ({"columns": "nosuch"}, "has no column 'nosuch'"),
        ({"strict": "maybe"}, "true or false"),
        ({"pushFilters": "true"}, "no option 'pushfilters'"),
        ({"store__bogus": "x"}, "bogus"),
    ],
)
def test_options_that_cannot_be_are_named(
    spark: SparkSession, db: firn.Database, options: dict[str, str], says: str
) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t").append([{"a": 1}])
    with pytest.raises(PySparkException, match=says):
        load(spark, db, "t", **options)


def test_a_missing_table_is_named(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    db.create_table("flights")
    with pytest.raises(PySparkException, match="there is no table 'flight'"):
        load(spark, db, "flight")


def test_a_schema_of_ones_own_picks_columns(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t").append([{"a": 1, "b": "x", "c": True}])
    path = f"{db.url}/t"
    assert spark.read.format("firn").schema("c boolean, a bigint").load(path).collect() == [(True, 1)]
    with pytest.raises(PySparkException, match="can't be read with a column 'a' int; it has: a bigint"):
        spark.read.format("firn").schema("a int").load(path).collect()


def test_an_empty_table_reads_as_one(spark: SparkSession, db: firn.Database) -> None:
    db.create_table("empty", schema={"a": "BIGINT"})
    assert load(spark, db, "empty").collect() == []
    save(spark.range(0).selectExpr("id AS a"), db, "empty")
    assert db.table("empty").history() == []


def test_files_older_than_sweep_spares_are_not_published(db: firn.Database) -> None:
    table = db.create_table("slow", properties={"orphan_age": "1h"})
    written = WrittenFiles((DataFile("slow/_data/part-a-x.parquet", 1, 0),), {"a": "BIGINT"}, None, 0)
    for overwrite in (False, True):
        with pytest.raises(AppendExpiredError):
            commit_files(table, written, overwrite=overwrite, batch_id=None)
    assert table.snapshot().files == ()


def test_looking_for_data_sources_imports_no_firn() -> None:
    """Spark imports every `pyspark_*` package to look for data sources; one that fails breaks all."""
    program = "import sys, pyspark_firn; print([m for m in sys.modules if m.split('.')[0] == 'firn'])"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"PYTHONPATH": str(Path(firn.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == "[]", ran.stderr


def split(url: str) -> tuple[str, str]:
    base, _, name = url.rpartition("/")
    return base, name


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("a, b ,c", ("a", "b", "c")),
        ('["a, b", "c"]', ("a, b", "c")),
        ("month(d),bucket(16, id)", ("month(d)", "bucket(16, id)")),
        ('`a,b`, "c,d"', ("`a,b`", '"c,d"')),
        ("", ()),
    ],
)
def test_lists_of_names(given: str, names: tuple[str, ...]) -> None:
    assert SourceOptions.parse({"path": "x/t", "partitionBy": given}, split).partition_by == names


@pytest.mark.parametrize("given", ["[1]", "[", "a(b", '["a"'])
def test_lists_that_arent(given: str) -> None:
    with pytest.raises(InvalidInputError, match="list of names"):
        SourceOptions.parse({"path": "x/t", "columns": given}, split)


def test_where_the_table_is() -> None:
    parsed = SourceOptions.parse({"url": "s3://b/p", "TABLE": "t", "store.Allow_HTTP": "true"}, split)
    assert (parsed.url, parsed.table, parsed.store) == ("s3://b/p", "t", {"allow_http": True})
    assert SourceOptions.parse({"path": "s3://b/p/t"}, split).url == "s3://b/p"
    for options in ({}, {"url": "x"}, {"table": "t"}):
        with pytest.raises(InvalidInputError, match="name the table"):
            SourceOptions.parse(options, split)
    with pytest.raises(InvalidInputError, match="at least 1"):
        SourceOptions.parse({"path": "x/t", "maxFilesPerTrigger": "0"}, split)


def test_a_reader_pickles_without_the_files(spark: SparkSession, db: firn.Database) -> None:
    import pickle

    from firn.spark.batch import TableReader
    from firn.spark.source import TableSource

    table = db.create_table("big")
    table.append(pa.table({"a": [1]}))
    source = TableSource(SourceOptions(db.url, "big"), firn.connect)
    reader = TableReader.__new__(TableReader)
    source.schema()
    assert source.pinned is not None
    reader.plan, reader.schema = source.pinned, pa.schema([])
    assert pickle.loads(pickle.dumps(reader)).plan.files == ()
    assert len(pickle.loads(pickle.dumps(source)).pinned.files) == 1
