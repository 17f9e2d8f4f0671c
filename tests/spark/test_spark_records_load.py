"""Record tables loaded by Spark's tasks, and indices built by them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import firn
from firn.errors import DuplicateKeyError, InvalidInputError, UnsupportedError
from firn.journal.sequence.store import SequenceStore
from firn.records.apply.apply import settle
from firn.runner import LocalRunner
from firn.spark.session.runner import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


def numbered(spark: SparkSession, n: int, partitions: int) -> DataFrame:
    return spark.range(0, n, 1, partitions).select(
        F.concat(F.lit("r"), "id").alias("_id"), (F.col("id") % 3).alias("n"), F.col("id").alias("u")
    )


def test_a_dataframe_is_loaded_by_tasks(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", indices=["n"])
    table.insert("r1", {"n": 9})
    before = table.bucket.counters.as_dict()
    report = table.load(numbered(spark, 300, 3), batch=40)
    spent = table.bucket.counters.since(before)
    assert (report.rows, report.commits) == (300, 9), "3 tasks of 100 rows"
    assert spent["get"] >= 300 and spent["put"] >= 300 * 2 + 9, "the tasks' requests are counted"
    assert report.version == table.session.store.log.refresh().number
    assert table.count() == 300 and table.count(n=1) == 100 and table.count(n=9) == 0
    assert table.get("r1").document == {"n": 1, "u": 1}
    fresh = firn.connect(db.url).table("t", kind="records")
    assert fresh.count(n=2) == 100
    assert fresh.session.store.log.applied == report.version, "all that was loaded is applied, and told"


def test_the_driver_does_not_read_what_tasks_have_committed(
    spark: SparkSession, db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = db.create_table("t", kind="records")
    read: list[int] = []
    record = SequenceStore.record

    def counted(store: SequenceStore, number: int) -> Any:
        read.append(number)
        return record(store, number)

    monkeypatch.setattr(SequenceStore, "record", counted)
    report = table.load(numbered(spark, 200, 2), batch=10)
    assert report.commits == 20
    assert len(read) <= 3, "the last record, and those that may follow"


def test_columns_of_a_dataframe(spark: SparkSession, db: firn.Database) -> None:
    frame = spark.sql(
        "SELECT 'a' AS `the id`, DATE '2026-01-31' AS day, CAST(1.5 AS DECIMAL(5,2)) AS price, "
        "named_struct('x', 1, 'y', CAST(NULL AS STRING)) AS `p.q`, TIMESTAMP '2026-01-31 12:00:00Z' AS seen"
    )
    columns = {
        "the id": "VARCHAR",
        "day": "DATE",
        "price": "DECIMAL(5,2)",
        "p.q": "STRUCT(x INTEGER, y VARCHAR)",
        "seen": "TIMESTAMP WITH TIME ZONE",
    }
    table = db.create_table("t", kind="records", schema=columns)
    table.load(frame, id="the id")
    row = table.get("a")
    assert (row["the id"], str(row["day"]), str(row["price"])) == ("a", "2026-01-31", "1.50")
    assert (row["p.q"], row["seen"].isoformat()) == ({"x": 1, "y": None}, "2026-01-31T12:00:00+00:00")


def test_an_error_of_a_task_has_its_own_type(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", indices=[firn.Index("u", unique=True)])
    table.insert("other", {"u": 77})
    with pytest.raises(DuplicateKeyError, match="row 'other' has this value"):
        table.load(numbered(spark, 100, 2))
    with pytest.raises(InvalidInputError, match=r"has no column nothing .*it has _id, n, u"):
        table.load(numbered(spark, 100, 2), id="nothing")
    local = firn.connect("memory://").create_table("t", kind="records")
    with pytest.raises(UnsupportedError, match="lives in this process only"):
        local.load(numbered(spark, 1, 1))


def test_a_task_that_is_tried_again_changes_nothing(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    """The first try ends amid its rows, after it has committed some."""
    mark = str(tmp_path / "tried")

    def fail_once(batches: Any) -> Any:
        import os

        for number, batch in enumerate(batches):
            if number == 1 and not os.path.exists(mark):
                with open(mark, "w"):
                    pass
                raise RuntimeError("the executor is lost")
            yield batch

    table = db.create_table("t", kind="records", indices=["n"])
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    frame = numbered(spark, 20_500, 1).mapInArrow(fail_once, "_id string, n long, u long")
    small = frame.where("u % 50 = 0")
    report = table.load(small, batch=50)
    assert Path(mark).exists() and report.rows == 410
    assert table.count() == 410
    assert sorted(row["u"] for row in table.find(n=0)) == list(range(0, 20_500, 150))


def test_a_table_of_single_rows_is_loaded_by_tasks(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", isolation="row")
    report = table.load(numbered(spark, 100, 2), batch=30)
    assert (report.rows, report.commits, report.version) == (100, 0, None)
    assert table.count() == 100 and table.get("r7")["u"] == 7


# -- indices


class Dying:
    """A cluster whose task is killed amid its work, once: the other attempt ends it. Or the driver is, then."""

    distributed = True

    def __init__(self, spark: SparkSession, mark: Path, *, driver: bool = False) -> None:
        self.inner, self.mark, self.driver, self.maps = SparkRunner(spark), mark, driver, 0

    def map(
        self, fn: Any, tasks: Any, *, bucket: Any, context: Any, weights: Any, progress: Any = None
    ) -> Any:
        self.maps += 1
        if self.driver:
            self.inner.map(fn, tasks[:1], bucket=bucket, context=context, weights=weights[:1])
            raise KeyboardInterrupt
        wrapped = (fn, context, str(self.mark))
        return self.inner.map(die_once, tasks, bucket=bucket, context=wrapped, weights=weights)


def die_once(bucket: Any, context: Any, keys: Any) -> Any:
    fn, inner, mark = context
    if not os.path.exists(mark):
        fn(bucket, inner, keys[: len(keys) // 2])
        with open(mark, "w"):
            pass
        os._exit(1)
    return fn(bucket, inner, keys)


def entries(table: Any, field: str) -> int:
    listed = table.bucket.list(table.definition.layout(table.prefix).indices).objects
    return sum(f"/{field}/" in info.key or f"/{field}~" in info.key for info in listed)


@pytest.mark.parametrize("unique", [False, True])
def test_an_index_is_built_by_tasks_of_which_one_is_killed(
    spark: SparkSession, db: firn.Database, tmp_path: Path, unique: bool
) -> None:
    table = db.create_table("t", kind="records")
    table.load([{"_id": f"r{n}", "n": n % 3, "u": n} for n in range(2500)])
    table.upsert("r0", {"n": 1, "u": 9999})  # an older version, too
    dying = Dying(spark, tmp_path / "killed")
    table.create_index("u" if unique else "n", unique=unique, runner=dying)
    assert dying.mark.exists() and dying.maps == 1 + unique
    settle(table.session.store)
    assert entries(table, "u" if unique else "n") == 2501
    if unique:
        assert [row.id for row in table.find(u=9999)] == ["r0"] and table.find(u=0) == []
        with pytest.raises(DuplicateKeyError):
            table.insert("x", {"u": 77})
    else:
        assert table.count(n=1) == 834 and table.count(n=0) == 833


def test_a_build_whose_driver_was_killed_is_ended(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t", kind="records")
    table.load([{"_id": f"r{n}", "n": n % 3} for n in range(2500)])
    with pytest.raises(KeyboardInterrupt):
        table.create_index("n", runner=Dying(spark, tmp_path / "mark", driver=True))
    assert [(index.field, index.ready) for index in table.indices()] == [("n", False)]
    with pytest.raises(InvalidInputError, match="needs a field that is indexed"):
        table.find(n=1)
    table.upsert("r1", {"n": 0})
    table.create_index("n", runner=SparkRunner(spark))
    assert (table.count(n=0), table.count(n=1)) == (835, 832)


def test_tasks_find_what_can_and_cannot_be_in_an_index(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records")
    table.load([{"_id": f"r{n}", "n": n, "list": n, "tags": [n % 3, "all"]} for n in range(1500)])
    table.upsert("r9", {"n": 1200, "list": [1]})
    with pytest.raises(InvalidInputError, match=r"'r9'.*at list, which is indexed"):
        table.create_index("list", runner=SparkRunner(spark))
    with pytest.raises(DuplicateKeyError, match=r"t/n/.*'r1200' and 'r9'|t/n/.*'r9' and 'r1200'"):
        table.create_index("n", unique=True, runner=SparkRunner(spark))
    assert table.indices() == []
    table.create_index("tags", each=True, runner=SparkRunner(spark))
    assert table.count(tags=firn.Contains(2)) == 500 and table.count(tags=firn.Contains("all")) == 1499


def test_where_an_index_is_built(
    spark: SparkSession, db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tasks where there are many rows, else here."""
    asked: list[int] = []

    def runner(size: int) -> LocalRunner:
        asked.append(size)
        return LocalRunner()

    table = db.create_table("t", kind="records")
    table.load([{"_id": f"r{n}", "n": n} for n in range(20)])
    monkeypatch.setattr(db.engines, "runner", runner)
    table.create_index("n")
    assert asked == []
    monkeypatch.setattr("firn.records.maintain.indexes.TASKS_FROM", 20)
    table.create_index("m")
    assert len(asked) == 1 and asked[0] > 20 * 50


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_an_altered_table_is_loaded_and_read_by_tasks(
    spark: SparkSession, db: firn.Database, isolation: Any
) -> None:
    columns = {"n": "INTEGER", "old": "VARCHAR"}
    table = db.create_table("t", kind="records", schema=columns, isolation=isolation)
    table.insert("a", {"n": 1, "old": "x"})
    opened = firn.connect(db.url).table("t", kind="records")
    table.alter(drop=["old"], add={"new": "DECIMAL(5,2)"}, types={"n": "BIGINT"})
    frame = spark.sql("SELECT concat('r', id) AS _id, id AS n, CAST(id AS DECIMAL(5,2)) AS new FROM range(2)")
    assert table.load(frame).rows == 2
    if isolation == "snapshot":  # with isolation="row" a handle may go by what it has read for 10 s
        assert opened.load(frame).rows == 2
    found = table.to_spark().orderBy("_id")
    assert dict(found.dtypes) == {"_id": "string", "n": "bigint", "new": "decimal(5,2)"}
    assert [tuple(row) for row in found.collect()] == [("a", 1, None), ("r0", 0, 0), ("r1", 1, 1)]
