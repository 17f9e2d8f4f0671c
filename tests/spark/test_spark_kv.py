"""Keyed tables on Spark: read, pruned, loaded, compacted and followed as a stream."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.arrow.engine import filter_table
from firn.errors import InvalidInputError, UnsupportedError
from firn.reads import plan_read
from firn.spark.native.parquet import NATIVE_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATES = {"state": "VARCHAR", "year": "BIGINT"}
DELAYS = {"delay": "BIGINT", "mean": "DOUBLE"}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[firn.Database]:
    database = firn.connect(tmp_path / "db", spark=spark)
    for name in ("t", "stats"):  # the tables that are read have directories of a generation
        database.create_table(name, kind="keyed")
        database.drop_table(name)
    yield database
    for query in spark.streams.active:
        query.stop()


def load(spark: SparkSession, db: firn.Database, table: str, **options: str) -> DataFrame:
    return spark.read.format("firn").options(**options).load(f"{db.url}/{table}")


def pairs(frame: DataFrame) -> list[tuple[bytes, bytes]]:
    return sorted((bytes(row.key), bytes(row.value)) for row in frame.collect())


def fill(table: Any, rows: dict[Any, Any], *gone: Any) -> None:
    """Put rows and delete keys, in one flush."""
    with table.open(compaction=False) as kv:
        for key, value in rows.items():
            kv.put(key, value, durable=False)
        for key in gone:
            kv.delete(key, durable=False)


def native_files(frame: DataFrame) -> int:
    """How many of its parts Spark's own reader reads."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return int(plan.count("parquet"))


def test_the_newest_live_rows_whatever_they_lie_in(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed")
    fill(table, {b"%03d" % n: b"old" for n in range(100)})
    fill(table, {b"%03d" % n: b"new" for n in range(50, 60)}, b"000", b"055")
    expected = [(b"%03d" % n, b"new" if 50 <= n < 60 else b"old") for n in range(1, 100) if n != 55]

    assert pairs(load(spark, db, "t")) == expected
    assert pairs(db.sql("SELECT * FROM t").to_spark()) == expected
    assert native_files(table.to_spark()) == 0
    table.compact(full=True)
    assert native_files(table.to_spark()) == 1
    assert pairs(table.to_spark()) == expected
    assert pairs(load(spark, db, "t")) == expected
    fill(table, {b"010": b"newer"}, b"099")
    expected = [(k, b"newer" if k == b"010" else v) for k, v in expected if k != b"099"]
    assert pairs(table.to_spark()) == expected
    table.compact(full=True)
    spark.conf.set(NATIVE_CONF, "never")
    assert native_files(table.to_spark()) == 0
    assert pairs(table.to_spark()) == expected


def test_files_that_share_no_key_with_others_are_read_natively(
    spark: SparkSession, db: firn.Database
) -> None:
    table = db.create_table("t", kind="keyed")
    fill(table, {b"b%d" % n: b"1" for n in range(5)}, b"b9")
    table.compact()
    fill(table, {b"a": b"2"})
    table.compact()
    fill(table, {b"c%d" % n: b"3" for n in range(5)})
    frame = table.to_spark()
    assert native_files(frame) >= 1
    assert pairs(frame) == sorted(
        [(b"b%d" % n, b"1") for n in range(5)] + [(b"a", b"2")] + [(b"c%d" % n, b"3") for n in range(5)]
    )


def test_what_expires_is_gone_from_native_files_too(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        kv.put(b"soon", b"1", ttl=1.5, durable=False)
        kv.put(b"late", b"2", ttl="1d", durable=False)
        kv.put(b"never", b"3", durable=False)
        ends = time.time() + 1.6
    table.compact(full=True)
    before = table.to_spark()
    assert native_files(before) == 1
    while time.time() < ends:
        time.sleep(0.05)
    assert [key for key, _ in pairs(table.to_spark())] == [b"late", b"never"]
    # A DataFrame is bound to the moment at which it was made, as it is to its version.
    assert [key for key, _ in pairs(before)] == [b"late", b"never", b"soon"]


def test_operands_are_merged(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed", merge_operator="add")
    with table.open(compaction=False) as kv:
        for n in range(1, 4):
            kv.merge(b"a", b"%d" % n)
            kv.put(b"b", b"7")
    assert pairs(table.to_spark()) == [(b"a", b"6"), (b"b", b"7")]
    table.compact(full=True)
    assert native_files(table.to_spark()) == 1
    assert pairs(table.to_spark()) == [(b"a", b"6"), (b"b", b"7")]


def test_typed_tables_join_with_the_lake(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("stats", kind="keyed", key=STATES, schema=DELAYS)
    fill(
        table, {(s, y): {"delay": y % 7, "mean": 0.5} for s in ("MI", "OH", "TX") for y in range(2000, 2010)}
    )
    names = db.create_table("names")
    names.append([{"state": "MI", "name": "Michigan"}, {"state": "OH", "name": "Ohio"}])
    query = (
        "SELECT name, sum(delay) AS d FROM stats s JOIN names n ON s.state = n.state "
        "WHERE s.state >= 'N' AND year BETWEEN 2001 AND 2003 GROUP BY name"
    )
    expected = [("Ohio", sum(y % 7 for y in (2001, 2002, 2003)))]
    assert db.sql(query).to_spark().collect() == expected
    table.compact(full=True)
    assert db.sql(query).to_spark().collect() == expected
    frame = load(spark, db, "stats")
    assert frame.schema.simpleString() == "struct<state:string,year:bigint,delay:bigint,mean:double>"
    assert load(
        spark, db, "stats", columns="delay, state", where="year = 2003 AND state = 'MI'"
    ).collect() == [(1, "MI")]
    assert table.to_spark(columns=["mean"], where="delay = 1 AND state = 'TX'").count() == 1
    # Spark's own functions decode a key; where they can't, a query that names no column of it still decodes none.
    for chosen, kinds in (
        (table, STATES),
        (db.create_table("f", kind="keyed", key={"x": "DOUBLE"}), {"x": 0}),
    ):
        if chosen is not table:
            fill(chosen, {1.5: b"v"})
            chosen.compact(full=True)
        plan = chosen.to_spark().select(*kinds)._jdf.queryExecution().optimizedPlan().toString()
        assert ("decode(" in plan) == (chosen is not table)
        rest = [name for name in chosen.to_spark().columns if name not in kinds]
        assert (
            "decode(" not in chosen.to_spark().select(*rest)._jdf.queryExecution().optimizedPlan().toString()
        )


def test_a_flipped_bit_is_seen_by_sparks_own_reader_too(spark: SparkSession, db: firn.Database) -> None:
    from py4j.protocol import Py4JJavaError

    table = db.create_table("t", kind="keyed", schema=DELAYS, properties={"compression": "none"})
    table.load([{"key": b"%04d" % n, "delay": n, "mean": n / 2} for n in range(2000)])
    (file,) = plan_read(table).files
    path = Path(db.url, file.key)
    data = path.read_bytes()
    assert native_files(table.to_spark()) == 1
    found = data.index((1234).to_bytes(8, "little"))  # a value, as it is stored where nothing is compressed
    path.write_bytes(data[:found] + bytes([data[found] ^ 1]) + data[found + 1 :])
    with pytest.raises(Py4JJavaError, match=path.name):
        table.to_spark().collect()
    path.write_bytes(data)
    assert table.to_spark(where="delay = 1234").collect() == [(bytearray(b"1234"), 1234, 617.0)]


def test_a_range_of_keys_reads_no_other_files(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed", key=STATES, schema=DELAYS)
    for state in ("MI", "OH", "TX"):
        table.load([{"state": state, "year": y, "delay": y} for y in range(10)])
    # A file that would fail the read shows which files a plan has.
    for file in plan_read(table).files:
        if b"OH" not in file.min_key:
            Path(db.url, file.key).unlink()
    wanted = [(3,)]
    assert table.to_spark(columns=["delay"], where="state = 'OH' AND year = 3").collect() == wanted
    assert (
        db.sql("SELECT delay FROM t WHERE state LIKE 'O%' AND year IN (3, 77)").to_spark().collect() == wanted
    )
    assert load(spark, db, "t", columns="delay", where="year = 3 AND state = 'OH'").collect() == wanted


def test_keys_of_bytes_are_pruned_by_text_and_by_bytes(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed")
    for first in (b"A", b"B", b"\xff"):
        table.load([{"key": first + b"%d" % n, "value": b"v"} for n in range(3)])
    for file in plan_read(table).files:
        if not file.min_key.startswith(b"B"):
            Path(db.url, file.key).unlink()
    assert pairs(db.sql("SELECT * FROM t WHERE key = 'B1'").to_spark()) == [(b"B1", b"v")]
    assert db.sql("SELECT key FROM t WHERE key > 'B1' AND key < 'C'").count() == 1
    assert pairs(load(spark, db, "t", where="key BETWEEN 'B0' AND 'B1'")) == [(b"B0", b"v"), (b"B1", b"v")]


def test_large_groups_are_cut_by_key(
    spark: SparkSession, db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firn.keyed.plan import units as keyed_plan

    monkeypatch.setattr(keyed_plan, "SHARE_BYTES", 4096)
    table = db.create_table("t", kind="keyed", properties={"block_size": "1KB", "compression": "none"})
    for value in (b"old", b"new"):
        fill(table, {b"%04d" % n: value * 10 for n in range(1000)})
    units = plan_read(table).units()
    assert len(units) > 5
    assert sum(unit.weight for unit in units) <= sum(file.size for file in plan_read(table).files)
    assert pairs(table.to_spark()) == [(b"%04d" % n, b"new" * 10) for n in range(1000)]


def test_a_read_is_pinned_and_a_checkpoint_is_read(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed")
    fill(table, {b"a": b"1"})
    table.checkpoint("before", "1d")
    read = load(spark, db, "t")
    fill(table, {b"b": b"2"}, b"a")
    assert pairs(read) == [(b"a", b"1")]
    assert pairs(load(spark, db, "t")) == [(b"b", b"2")]
    assert pairs(load(spark, db, "t", at="before")) == [(b"a", b"1")]
    assert pairs(table.to_spark(at="before")) == [(b"a", b"1")]


def test_a_dataframe_is_loaded(spark: SparkSession, db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed", key=STATES, schema=DELAYS)
    fill(table, {("MI", 1): {"delay": -1}, ("ZZ", 1): {"delay": -2}})
    frame = spark.range(0, 5000, 1, 3).selectExpr(
        "concat('S', cast(id % 10 AS string)) AS STATE", "cast(id AS int) AS year", "id AS delay"
    )
    extra = spark.createDataFrame([("MI", 1, 7)], "state string, year int, delay bigint")
    report = table.load(frame.union(extra))
    assert report.rows == 5001
    rows = {(r.state, r.year): (r.delay, r.mean) for r in table.to_spark().collect()}
    assert len(rows) == 5002
    assert rows[("MI", 1)] == (7, None) and rows[("ZZ", 1)] == (-2, None)
    assert rows[("S7", 17)] == (17, None)
    assert table.reader().get(("S7", 17)) == {"delay": 17, "mean": None}
    with table.open() as kv:
        kv.put(("S7", 17), {"delay": 0, "mean": 1.0})
    assert table.to_spark(where="state = 'S7' AND year = 17").collect() == [("S7", 17, 0, 1.0)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("SELECT 'a' AS key, cast('b' AS binary) AS value, 1 AS more", "no column 'more'"),
        ("SELECT cast('b' AS binary) AS value", "no column 'key'"),
        ("SELECT cast(NULL AS binary) AS key, cast('b' AS binary) AS value", "null"),
    ],
)
def test_a_load_that_cannot_be_leaves_the_table_alone(
    spark: SparkSession, db: firn.Database, rows: str, says: str
) -> None:
    table = db.create_table("t", kind="keyed")
    fill(table, {b"a": b"1"})
    with pytest.raises(InvalidInputError, match=says):
        table.load(spark.sql(rows))
    assert pairs(table.to_spark()) == [(b"a", b"1")]


WRITER = """
import select, sys
import firn

with firn.connect(sys.argv[1]).table("t").open(compaction=False) as kv:
    n = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        kv.put(b"w%06d" % n, b"durable")
        print(n, flush=True)
        n += 1
"""


def test_compaction_runs_on_spark_while_another_process_writes(
    spark: SparkSession, db: firn.Database, child_environment: dict[str, str]
) -> None:
    from firn.spark.session.runner import SparkRunner

    table = db.create_table(
        "t", kind="keyed", properties={"sst_size": "64KB", "block_size": "4KB", "flush_ms": 5}
    )
    for n in range(3):
        fill(table, {b"%05d" % k: b"%d" % n * 20 for k in range(2000)})
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, db.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment,
    )
    assert writer.stdout is not None
    before = int(writer.stdout.readline())
    report = table.compact(runner=SparkRunner(spark))
    assert writer.poll() is None, "it isn't fenced, and goes on"
    said, _ = writer.communicate("enough")
    written = 1 + int(said.splitlines()[-1])
    assert writer.returncode == 0 and written > before + 1
    assert report.rows_in >= 6000 and 2000 <= report.rows_out < 2000 + written
    assert table.to_spark(where="key < 'w'").count() == 2000
    assert table.to_spark(where="key >= 'w'").count() == written
    assert table.reader().get(b"00000") == b"2" * 20


def test_an_altered_table_is_read_and_loaded_by_its_present_columns(
    spark: SparkSession, db: firn.Database
) -> None:
    columns = {"a": "INTEGER", "b": "VARCHAR", "c": "DOUBLE"}
    table = db.create_table("t", kind="keyed", key={"id": "BIGINT"}, schema=columns)
    fill(table, {n: {"a": n, "b": f"N{n}", "c": n / 2} for n in range(4)})
    table.compact(full=True)
    table.alter(rename={"a": "b", "b": "a"}, drop=["c"], add={"c": "VARCHAR"}, fence=True)
    before = table.to_spark()
    expected = [(n, n, f"N{n}", None) for n in range(4)]
    assert native_files(before) == 1 and before.columns == ["id", "b", "a", "c"]
    assert sorted(map(tuple, before.collect())) == expected
    assert [tuple(row) for row in table.to_spark(columns=["a"], where="b = 2").collect()] == [("N2",)]
    assert [tuple(row) for row in before.where("b > 2 AND c IS NULL").select("a").collect()] == [("N3",)]

    table.alter(types={"b": "BIGINT"}, add={"gate": ("VARCHAR", "A1")}, rename={"a": "tail"}, fence=True)
    assert sorted(map(tuple, before.collect())) == expected, "a DataFrame keeps the names of its snapshot"
    assert (native_files(table.to_spark()), native_files(table.to_spark(columns=["id", "tail"]))) == (0, 1)
    table.load(spark.sql("SELECT 4L AS id, 'N4' AS tail, CAST(99 AS BIGINT) AS b"))
    now = load(spark, db, "t")
    assert now.columns == ["id", "b", "tail", "c", "gate"] == table.to_spark().columns
    rows = [(n, n, f"N{n}", None, "A1") for n in range(4)] + [(4, 99, "N4", None, "A1")]
    assert sorted(map(tuple, now.collect())) == sorted(map(tuple, table.to_spark().collect())) == rows
    assert now.where("gate = 'A1' AND b >= 3").count() == 2
    assert table.compact(full=True).ssts_out == 1
    assert native_files(table.to_spark()) == 1, "all files have all columns as they are now"
    assert sorted(map(tuple, table.to_spark().collect())) == rows
    assert sorted(map(tuple, load(spark, db, "t").collect())) == rows
    assert load(spark, db, "t", changes="true").columns[:5] == now.columns


def test_memory_tables_travel_with_the_plan(spark: SparkSession) -> None:
    database = firn.connect("memory://", spark=spark)
    table = database.create_table("t", kind="keyed")
    fill(table, {b"a": b"1", b"b": b"2"})
    assert pairs(table.to_spark()) == [(b"a", b"1"), (b"b", b"2")]
    assert pairs(database.sql("SELECT * FROM t WHERE key = 'a'").to_spark()) == [(b"a", b"1")]
    with pytest.raises(UnsupportedError, match="in this process only"):
        table.load(spark.sql("SELECT cast('a' AS binary) AS key, cast('b' AS binary) AS value"))


def test_writes_through_the_data_source_are_refused(spark: SparkSession, db: firn.Database) -> None:
    from pyspark.errors import PySparkException

    db.create_table("t", kind="keyed")
    frame = spark.sql("SELECT cast('a' AS binary) AS key, cast('b' AS binary) AS value")
    with pytest.raises(PySparkException, match=r"load\(frame\)"):
        frame.write.format("firn").mode("append").save(f"{db.url}/t")


# -- changes


def follow(spark: SparkSession, db: firn.Database, tmp_path: Path, **options: Any) -> list[list[Any]]:
    """Run a stream over what is there, from where it last stood; the rows of each batch."""
    batches: list[list[Any]] = []
    query = (
        spark.readStream.format("firn")
        .options(**options)
        .load(f"{db.url}/t")
        .writeStream.foreachBatch(lambda frame, _: batches.append(frame.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in batches if batch]


def test_a_stream_gives_the_table_and_then_what_is_put(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    table = db.create_table("t", kind="keyed", key={"k": "VARCHAR"}, schema={"v": "BIGINT"})
    fill(table, {"a": {"v": 1}, "b": {"v": 1}, "c": {"v": 1}})
    fill(table, {"a": {"v": 2}}, "c")
    assert [sorted(batch) for batch in follow(spark, db, tmp_path)] == [[("a", 2), ("b", 1)]]
    fill(table, {"a": {"v": 3}, "d": {"v": 3}})
    fill(table, {"a": {"v": 4}}, "b")
    table.compact()
    table.load([{"k": "e", "v": 5}])
    assert [sorted(batch) for batch in follow(spark, db, tmp_path)] == [[("a", 4), ("d", 3), ("e", 5)]]
    for n in range(3):
        fill(table, {"a": {"v": 10 + n}})
    assert follow(spark, db, tmp_path, maxFilesPerTrigger=2) == [[("a", 11)], [("a", 12)]]


def test_a_stream_of_changes_tells_each(spark: SparkSession, db: firn.Database, tmp_path: Path) -> None:
    table = db.create_table("t", kind="keyed", merge_operator="add")
    with table.open(compaction=False) as kv:
        kv.merge(b"a", b"1")
        version = table.changes().version
        kv.merge(b"a", b"2")
        kv.put(b"b", b"7")
        kv.delete(b"b")
    rows = [row for batch in follow(spark, db, tmp_path, changes="true", since=version) for row in batch]
    told = [
        (bytes(r.key), r.value and bytes(r.value), r["_kind"]) for r in sorted(rows, key=lambda r: r["_seq"])
    ]
    assert told == [(b"a", b"2", "merge"), (b"b", b"7", "put"), (b"b", None, "delete")]
    batch = load(
        spark, db, "t", changes="true", since=version, where="_kind = 'put'", columns="key, _expire_at"
    )
    assert batch.collect() == [(bytearray(b"b"), None)]
    assert load(spark, db, "t", changes="true").count() == 4


def test_a_stream_of_operands_has_to_be_asked_for(
    spark: SparkSession, db: firn.Database, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    fill(db.create_table("t", kind="keyed", merge_operator="add"), {b"a": b"1"})
    with pytest.raises(PySparkException, match="changes"):
        follow(spark, db, tmp_path)
    db.create_table("lake").append([{"a": 1}])
    with pytest.raises(PySparkException, match="changes are told of keyed and record tables"):
        load(spark, db, "lake", changes="true").collect()


MOMENT = dt.datetime(2001, 2, 3, 4, 5, 6, 7, dt.timezone.utc)


def as_collected(moment: dt.datetime) -> dt.datetime:
    """As Spark gives it to Python: without a zone, in the machine's."""
    return (moment if moment.tzinfo is None else moment.astimezone()).replace(tzinfo=None)


CELLS: dict[str, list[Any]] = {
    "VARCHAR": ["", "MI", "é\0", "\0\0", "a\0b\U0001f600", "\x7f" * 300],
    "BLOB": [b"", b"\0", b"\0\xff\0\0", b"\xff\x00", b"\x01"],
    "BIGINT": [0, -1, 2**63 - 1, -(2**63), 12_345_678_901],
    "SMALLINT": [0, -(2**15), 2**15 - 1],
    "UBIGINT": [0, 2**63, 2**64 - 1],
    "UTINYINT": [0, 255],
    "BOOLEAN": [True, False],
    "DATE": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "TIMESTAMP WITH TIME ZONE": [MOMENT, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.timezone.utc)],
}


@pytest.mark.parametrize(
    "kinds",
    [
        ("VARCHAR", "BIGINT"),
        ("BLOB", "VARCHAR", "SMALLINT", "VARCHAR"),
        ("UBIGINT", "DATE", "BOOLEAN", "UTINYINT"),
        ("TIMESTAMP WITH TIME ZONE", "BLOB"),
    ],
    ids="-".join,
)
def test_keys_are_decoded_by_sparks_own_functions(spark: SparkSession, kinds: tuple[str, ...]) -> None:
    from firn.keyed.encoding.keys import Keys
    from firn.spark.keyed.key_sql import key_expressions
    from firn.spark.session.types import spark_schema

    columns = {f"c{n}": kind for n, kind in enumerate(kinds)}
    keys = Keys(columns)
    schema = spark_schema(columns)
    cells = [[None, *CELLS[kind]] for kind in kinds]
    tuples = [
        tuple(values[(row * (1 + n) + n * turn) % len(values)] for n, values in enumerate(cells))
        for row in range(max(map(len, cells)))
        for turn in range(4)
    ]
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    found = key_expressions("key", columns, types, list(columns))
    assert found is not None
    frame = spark.createDataFrame([(keys.encode(key),) for key in tuples], "key binary").selectExpr(
        *(f"{text} AS {name}" for name, text in found.items())
    )
    assert [field.dataType for field in frame.schema.fields] == [field.dataType for field in schema.fields]
    naive = [tuple(as_collected(c) if isinstance(c, dt.datetime) else c for c in key) for key in tuples]
    assert [
        tuple(bytes(c) if isinstance(c, bytearray) else c for c in row) for row in frame.collect()
    ] == naive


def test_types_of_keys_and_values_reach_spark(spark: SparkSession, db: firn.Database) -> None:
    kinds = {
        "b": "BOOLEAN",
        "i": "INTEGER",
        "u": "UBIGINT",
        "d": "DATE",
        "t": "TIMESTAMP",
        "z": "TIMESTAMP WITH TIME ZONE",
        "s": "VARCHAR",
        "x": "BLOB",
        "f": "DOUBLE",
        "p": "DECIMAL(38,3)",
        "g": "UUID",
    }
    table = db.create_table("t", kind="keyed", key=kinds, schema={"l": "VARCHAR[]", "n": "DECIMAL(10,2)"})
    moment = dt.datetime(2001, 2, 3, 4, 5, 6, 7)
    key = (
        True,
        -5,
        2**64 - 1,
        dt.date(2001, 2, 3),
        moment,
        moment.replace(tzinfo=dt.timezone.utc),
        "é\0",
        b"\0\xff",
        -0.5,
        Decimal("-12345678901234567890.125"),
        "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38",
    )
    empty = (None,) * len(kinds)
    fill(table, {key: {"l": ["a", None], "n": Decimal("1.25")}, empty: {}})
    for _ in range(2):
        found = sorted(table.to_spark().collect(), key=lambda row: row.i is not None)
        assert found[0][: len(kinds)] == empty
        assert found[1].u == 2**64 - 1 and found[1].s == "é\0" and bytes(found[1].x) == b"\0\xff"
        assert found[1].t == moment and found[1].z == as_collected(MOMENT) and found[1].l == ["a", None]
        assert (found[1].p, found[1].g) == key[-2:]
        table.compact(full=True)
    assert native_files(table.to_spark()) == 1


def test_keys_of_decimals_and_uuids(spark: SparkSession, db: firn.Database) -> None:
    """Loaded, found by predicates of both engines, and told as changes. UUIDs come in any case."""
    kinds = {"p": "DECIMAL(12,2)", "g": "UUID"}
    table = db.create_table("t", kind="keyed", key=kinds, schema={"n": "BIGINT"})
    ids = [str(uuid.UUID(int=n << 120)) for n in (0, 0x0A, 0x1B, 0xA0, 0xFF)]
    prices = [Decimal("-7.25"), Decimal("0.00"), Decimal("7.25")]
    keys = [(price, id) for price in prices for id in ids]
    rows = [(price, id.upper() if n % 2 else id, n) for n, (price, id) in enumerate(keys)]
    table.load(spark.createDataFrame(rows[::-1], "p decimal(9,2), g string, n bigint").repartition(3))
    assert [key for key, _ in table.reader().scan()] == keys
    for _ in range(2):
        expected = [(*key, n) for n, key in enumerate(keys)]
        assert sorted(map(tuple, table.to_spark().collect())) == expected
        for where in (
            "p < 0",
            "p >= -7.25 AND p < 7.250",
            "p IN (0, 7.25, 1.234)",
            f"p = 7.25 AND g = '{ids[3]}'",
        ):
            found = sorted(map(tuple, table.to_spark(where=where).collect()))
            assert found == sorted(map(tuple, db.sql(f"SELECT * FROM t WHERE {where}").to_spark().collect()))
            kept = filter_table(table.reader().scan().to_arrow(), where).to_pylist()
            assert found == [tuple(row.values()) for row in kept]
        with table.open(compaction=False) as kv:
            kv.put(keys[0], {"n": 0})
    told = load(spark, db, "t", changes="true").where("_kind = 'put'").select("p", "g").distinct().collect()
    assert sorted(map(tuple, told)) == keys
