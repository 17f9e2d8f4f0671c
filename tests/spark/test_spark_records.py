"""Record tables on Spark: read at one commit, pruned, joined, followed as a stream, while others write."""

from __future__ import annotations

import threading
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.errors import InvalidInputError
from firn.records.apply.apply import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


def load(spark: SparkSession, db: firn.Database, table: str, **options: str) -> DataFrame:
    return spark.read.format("firn").options(**options).load(f"{db.url}/{table}")


def put(db: firn.Database, table: str, rows: dict[str, dict[str, Any] | None]) -> int:
    """All in one commit, which is returned; None deletes."""
    with db.begin() as tx:
        for id, document in rows.items():
            if document is None:
                tx.delete(table, id)
            else:
                tx.upsert(table, id, document)
    assert tx.committed is not None
    return tx.committed


def pairs(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


SCHEMA = {
    "n": "BIGINT", "small": "UTINYINT", "x": "DOUBLE", "ok": "BOOLEAN", "day": "DATE",
    "moment": "TIMESTAMP WITH TIME ZONE", "local": "TIMESTAMP", "price": "DECIMAL(9,2)", "raw": "BLOB",
    "tags": "VARCHAR[]",
    "at": "STRUCT(lat DOUBLE, place VARCHAR)", "more": "MAP(VARCHAR, BIGINT)",
}  # fmt: skip
ROW: dict[str, Any] = {
    "n": 2**62, "small": 255, "x": 0.1, "ok": True, "day": date(2026, 1, 31),
    "moment": datetime(2026, 1, 31, 12, 30, 0, 7, timezone.utc), "local": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "price": Decimal("-1234567.89"), "raw": b"\0\xff", "tags": ["a", None, "é"], "at": {"lat": 1.5, "place": None},
    "more": {"k": 1},
}  # fmt: skip


def test_rows_have_their_columns_types(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", schema=SCHEMA)
    table.insert("full", ROW)
    table.insert("empty", {})
    frame = load(spark, db, "t")
    assert frame.schema.simpleString() == (
        "struct<_id:string,n:bigint,small:smallint,x:double,ok:boolean,day:date,moment:timestamp,"
        "local:timestamp_ntz,price:decimal(9,2),raw:binary,tags:array<string>,"
        "at:struct<lat:double,place:string>,more:map<string,bigint>>"
    )
    rows = {row["_id"]: row.asDict(recursive=True) for row in frame.collect()}
    moment = rows["full"].pop("moment").astimezone(timezone.utc)
    assert moment == ROW["moment"]
    assert rows["full"] == {"_id": "full", **{k: v for k, v in ROW.items() if k != "moment"}}
    assert set(rows["empty"].values()) == {"empty", None}
    assert rows["full"]["n"] == table.to_spark(where="n > 5").first()["n"]


def test_tables_are_read_each_way(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", schema={"n": "INTEGER"})
    put(db, "t", {f"r{n}": {"n": n} for n in range(300)})
    settle(table.session.store)
    put(db, "t", {"r0": None, "r1": {"n": -1}, "late": {"n": 300}})
    expected = sorted([(f"r{n}", n) for n in range(2, 300)] + [("r1", -1), ("late", 300)])
    assert pairs(load(spark, db, "t")) == expected
    assert pairs(table.to_spark()) == expected
    assert pairs(db.sql("SELECT * FROM t").to_spark()) == expected
    assert db.sql("SELECT count(*) FROM t WHERE n >= 290").to_spark().first()[0] == 11
    assert pairs(load(spark, db, "t").where("_id = 'r7' AND n > 0")) == [("r7", 7)]
    assert pairs(load(spark, db, "t", where="_id IN ('late', 'r1', 'r0')", columns="n")) == [(-1,), (300,)]
    assert pairs(db.sql("SELECT n FROM t WHERE _id LIKE 'r29_' AND n <> 295").to_spark()) == [
        (n,) for n in range(290, 300) if n != 295
    ]
    load(spark, db, "t").createOrReplaceTempView("seen")
    assert spark.sql("SELECT sum(n) FROM seen").first()[0] == sum(n for _, n in expected)
    etag = load(spark, db, "t", columns="_etag", where="_id = 'late'").first()["_etag"]
    assert etag == table.get("late").etag
    with pytest.raises(InvalidInputError, match="no column 'nope'"):
        table.to_spark(columns=["nope"])


def test_documents_without_columns_are_text_or_what_a_schema_names(
    spark: SparkSession, db: firn.Database
) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t", kind="records")
    put(db, "t", {"a": {"city": "Ann Arbor", "n": 1, "tags": ["x"], "at": {"lat": 42.25}}, "b": {"n": 2.5}})
    assert pairs(load(spark, db, "t").where("document LIKE '%Arbor%'").select("_id")) == [("a",)]
    assert pairs(
        db.sql("SELECT _id, get_json_object(document, '$.city') AS city FROM t WHERE _id = 'a'").to_spark()
    ) == [("a", "Ann Arbor")]
    reader = spark.read.format("firn")
    frame = reader.schema(
        "city string, n double, tags array<string>, at struct<lat: double>, _id string"
    ).load(f"{db.url}/t")
    rows = {row["_id"]: row.asDict(recursive=True) for row in frame.collect()}
    assert rows == {
        "a": {"_id": "a", "city": "Ann Arbor", "n": 1.0, "tags": ["x"], "at": {"lat": 42.25}},
        "b": {"_id": "b", "city": None, "n": 2.5, "tags": None, "at": None},
    }
    with pytest.raises(PySparkException, match=r"t\['b'\] has a float \(2.5\) at n, which isn't BIGINT"):
        reader.schema("n bigint").load(f"{db.url}/t").collect()
    declared = db.create_table("declared", kind="records", schema={"n": "INTEGER"})
    declared.insert("a", {"n": 1})
    assert reader.schema("n int").load(f"{db.url}/declared").collect() == [(1,)]
    with pytest.raises(PySparkException, match="can't be read with a column 'z' bigint"):
        reader.schema("z bigint").load(f"{db.url}/declared").collect()


def test_a_dataframe_is_bound_to_its_commit(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records", schema={"n": "INTEGER"})
    first = put(db, "t", {"a": {"n": 1}, "b": {"n": 1}})
    lazy, source = table.to_spark(), load(spark, db, "t")
    assert source.count() == 2
    put(db, "t", {"a": {"n": 2}, "b": None, "c": {"n": 2}})
    settle(table.session.store)
    assert pairs(lazy) == pairs(source) == [("a", 1), ("b", 1)]
    assert pairs(source.alias("x").join(source.alias("y"), "_id")) == [("a", 1, 1), ("b", 1, 1)]
    assert pairs(load(spark, db, "t", at=str(first))) == [("a", 1), ("b", 1)]
    with db.begin() as tx:
        assert pairs(table.to_spark(at=tx.snapshot)) == [("a", 2), ("c", 2)]
    with pytest.raises(InvalidInputError, match="knows no times"):
        table.to_spark(at="2026-01-01")


def test_a_swept_dataframe_says_so(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("t", kind="records", schema={"n": "INTEGER"})
    put(db, "t", {"a": {"n": 1}})
    settle(table.session.store)
    old = table.to_spark()
    put(db, "t", {"a": {"n": 2}})
    settle(table.session.store)
    # What a sweep does an hour later.
    store = table.session.store
    row = store.row(store.layout("t", 0), "a")
    store.put_row(store.layout("t", 0), row.row.pruned(store.log.head().number)[0], row.etag)
    with pytest.raises(PySparkException, match=r"t can't be read at commit .* any more"):
        old.collect()
    assert pairs(table.to_spark()) == [("a", 2)]


ACCOUNTS, TELLERS = 40, 3


def test_money_is_neither_made_nor_lost_in_what_spark_sees(spark: SparkSession, db: firn.Database) -> None:
    """Transfers between two tables while DataFrames, SQL and self-joins look at both."""
    for name in ("left", "right"):
        db.create_table(name, kind="records", schema={"balance": "BIGINT"})
    with db.begin() as tx:
        for n in range(ACCOUNTS):
            tx.insert("left", f"{n}", {"balance": 100})
            tx.insert("right", f"{n}", {"balance": 100})
    stop, moved, failures = threading.Event(), [0] * TELLERS, []

    def transfer(teller: int) -> None:
        mine, n = firn.connect(db.url), teller
        try:
            while not stop.is_set():
                n = (n * 1103515245 + 12345) % 2**31
                source, target, amount = n % ACCOUNTS, (n >> 8) % ACCOUNTS, n % 7

                def move(tx: Any, source: int = source, target: int = target, amount: int = amount) -> None:
                    taken, given = tx.get("left", f"{source}"), tx.get("right", f"{target}")
                    tx.update("left", f"{source}", {"balance": taken["balance"] - amount})
                    tx.update("right", f"{target}", {"balance": given["balance"] + amount})

                mine.transact(move)
                moved[teller] += 1
        except BaseException as error:
            failures.append(error)

    tellers = [threading.Thread(target=transfer, args=(number,)) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    whole = 2 * ACCOUNTS * 100
    query = "SELECT (SELECT sum(balance) FROM left) + (SELECT sum(balance) FROM right)"
    join = "SELECT sum(a.balance - b.balance), count(*) FROM left a JOIN left b USING (_id)"
    views = set()
    try:
        for _ in range(4):
            assert db.sql(query).to_spark().first()[0] == whole
            assert tuple(db.sql(join).to_spark().first()) == (0, ACCOUNTS)
            version = db.begin().snapshot
            one, other = (db.table(name).to_spark(at=version) for name in ("left", "right"))
            views.add(one.agg({"balance": "sum"}).first()[0])
            assert one.unionAll(other).agg({"balance": "sum"}).first()[0] == whole
            frame = load(spark, db, "left").unionAll(load(spark, db, "left"))
            assert frame.groupBy("_id").count().where("count <> 2").count() == 0
    finally:
        stop.set()
        for teller in tellers:
            teller.join()
    assert not failures
    assert min(moved) > 0
    assert len(views) > 1  # else nobody wrote while Spark read
    assert db.sql(query).to_spark().first()[0] == whole


def test_record_tables_join_with_the_lake(spark: SparkSession, db: firn.Database) -> None:
    airports = db.create_table("airports", kind="records", schema={"state": "VARCHAR"})
    airports.insert("DTW", {"state": "MI"})
    airports.insert("CMH", {"state": "OH"})
    db.create_table("flights").append([{"origin": "DTW", "delay": n} for n in range(5)])
    query = "SELECT state, sum(delay) FROM flights JOIN airports a ON origin = a._id WHERE a._id <> 'x' GROUP BY 1"
    assert pairs(db.sql(query).to_spark()) == [("MI", 10)]
    # Wholly from one to the other.
    db.table("flights").append(airports.to_spark().selectExpr("_id AS origin", "-1 AS delay"))
    assert db.table("flights").scan(where="delay = -1").count() == 2


def test_rows_without_transactions(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("t", kind="records", isolation="row")
    table.insert("a", {"n": 1})
    table.insert("b", {"n": 1})
    table.delete("a")
    assert pairs(load(spark, db, "t")) == pairs(table.to_spark()) == [("b", '{"n":1}')]
    assert pairs(db.sql("SELECT _id FROM t").to_spark()) == [("b",)]
    with pytest.raises(PySparkException, match="no versions"):
        load(spark, db, "t", at="1").collect()
    with pytest.raises(PySparkException, match="isolation='row'"):
        load(spark, db, "t", changes="true").collect()


def test_memory_tables_travel_with_the_plan(spark: SparkSession) -> None:
    database = firn.connect("memory://", spark=spark)
    table = database.create_table("t", kind="records", schema={"n": "INTEGER"})
    put(database, "t", {"a": {"n": 1}, "b": {"n": 2}})
    assert pairs(table.to_spark()) == [("a", 1), ("b", 2)]
    assert pairs(database.sql("SELECT * FROM t WHERE _id = 'b'").to_spark()) == [("b", 2)]
    assert database.sql("SELECT * FROM t WHERE _id = 'nobody'").count() == 0


def test_an_empty_table(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="records")
    assert load(spark, db, "t").count() == table.to_spark().count() == db.sql("SELECT * FROM t").count() == 0
    assert load(spark, db, "t", where="_id = 'nobody'").count() == 0


def test_writes_through_the_data_source_are_refused(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    frame = spark.sql("SELECT 'a' AS _id, 1 AS n")
    for name, isolation in (("t", "snapshot"), ("r", "row")):
        table = db.create_table(name, kind="records", isolation=isolation)
        for mode in ("append", "overwrite"):
            with pytest.raises(PySparkException, match=r"record table.*load\(frame\)"):
                frame.write.format("firn").mode(mode).save(f"{db.url}/{name}")
        assert table.count() == 0


# -- changes


def follow(spark: SparkSession, db: firn.Database, tmp_path: Path, **options: Any) -> list[list[Any]]:
    """Run a stream over what is there, from where it last stood; the rows of each batch."""
    batches: list[list[Any]] = []
    query = (
        spark.readStream.format("firn")
        .options(**options)
        .load(f"{db.url}/t")
        .writeStream.foreachBatch(
            lambda frame, _: batches.append(sorted(map(tuple, frame.collect()), key=repr))
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in batches if batch]


def test_a_stream_gives_the_table_and_then_what_is_put(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    table = db.create_table("t", kind="records", schema={"n": "BIGINT"})
    put(db, "t", {"a": {"n": 1}, "b": {"n": 1}})
    settle(table.session.store)
    put(db, "t", {"a": {"n": 2}})
    assert follow(spark, db, tmp_path) == [[("a", 2), ("b", 1)]]
    assert follow(spark, db, tmp_path) == []
    put(db, "t", {"a": {"n": 3}, "b": None, "c": {"n": 3}})
    put(db, "t", {"a": {"n": 4}})
    assert follow(spark, db, tmp_path) == [[("a", 4), ("c", 3)]]
    for n in range(3):
        put(db, "t", {"a": {"n": 10 + n}})
    assert follow(spark, db, tmp_path, maxFilesPerTrigger=2) == [[("a", 11)], [("a", 12)]]
    db.drop_table("t")
    db.create_table("t", kind="records", schema={"n": "BIGINT"}).insert("a", {"n": 0})
    with pytest.raises(PySparkException, match="was dropped and made again"):
        follow(spark, db, tmp_path)


def test_a_stream_of_changes_tells_each(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    db.create_table("t", kind="records")
    first = put(db, "t", {"a": {"n": 1}})
    second = put(db, "t", {"a": {"n": 2}, "b": {"n": 2}})
    third = put(db, "t", {"a": None})
    told = follow(spark, db, tmp_path, changes="true", since=first)
    assert told == [
        [("a", '{"n":2}', "put", second), ("a", None, "delete", third), ("b", '{"n":2}', "put", second)]
    ]
    batch = load(spark, db, "t", changes="true", where="_kind = 'put'", columns="_id, _seq")
    assert pairs(batch) == [("a", first), ("a", second), ("b", second)]
    assert load(spark, db, "t", changes="true", since=str(second), at=str(third)).count() == 1


def test_a_batch_that_is_repeated_after_a_crash_is_the_same(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    """The sink fails after it has seen the rows, so Spark runs the batch again, of what was planned then."""
    db.create_table("t", kind="records", schema={"n": "BIGINT"})
    put(db, "t", {"a": {"n": 1}, "b": {"n": 1}})
    seen: list[list[Any]] = []

    def once(fail: bool) -> None:
        def sink(frame: DataFrame, _: int) -> None:
            seen.append(pairs(frame))
            if fail:
                raise RuntimeError("the sink fails")

        query = (
            spark.readStream.format("firn")
            .load(f"{db.url}/t")
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        once(fail=True)
    put(db, "t", {"a": {"n": 2}, "b": None})
    once(fail=False)
    assert seen == [[("a", 1), ("b", 1)], [("a", 1), ("b", 1)], [("a", 2)]]


def test_streams_of_rows_without_transactions_are_refused(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t", kind="records", isolation="row").insert("a", {})
    with pytest.raises(PySparkException, match="leaves no log of changes"):
        follow(spark, db, tmp_path)
    db.drop_table("t")
    db.create_table("t", kind="records")
    with pytest.raises(PySparkException, match="startingTime is for lake tables"):
        follow(spark, db, tmp_path, startingTime="2026-01-01")
