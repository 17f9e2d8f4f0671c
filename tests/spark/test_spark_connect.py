"""The same verbs over Spark Connect, whose client has no SparkContext. A process of its own: one can't have both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROGRAM = r"""
import sys

import firn
from fake_bucket import FakeBucket
from firn.errors import SchemaConflictError
from firn.runner import LocalRunner
from pyspark.sql import SparkSession

loopback = ("spark.connect.grpc.binding.address", "127.0.0.1")
spark = SparkSession.builder.config(*loopback).remote("local[2]").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")

from firn.spark import active, active_or_start
from firn.spark.session import runner as runners
from firn.lake.plan.read import LakeRead
from firn.spark.lake.scan import plan_files
from firn.spark.session.session import is_connect, slots

assert is_connect(spark) and active() is not None and slots(spark) == 2
assert is_connect(active_or_start())

# tasks: order, several messages, errors with their type, counters, progress
def double(bucket, context, task):
    bucket.counters.add(get=1)
    if task == b"no":
        raise SchemaConflictError("refused")
    return len(task) * 2

runner = runners.SparkRunner(spark)
ticks = []
tasks = [b"x" * (n * 100_000) for n in range(12)]
runners.MESSAGE_BYTES = 3_000_000
bucket = FakeBucket()
weights = [1 << 28] * 12
done = runner.map(double, tasks, bucket=bucket, context=None, weights=weights, progress=lambda *t: ticks.append(t))
assert done == [200_000 * n for n in range(12)], done
assert bucket.counters.get == 12 and ticks[-1] == (12, 12) and ticks == sorted(ticks)
try:
    runner.map(double, [b"a", b"no"], bucket=bucket, context=None, weights=[0, 0])
except SchemaConflictError as error:
    assert str(error) == "refused"
else:
    raise AssertionError("no error")

# tables: append, scan both ways, SQL, maintenance, the data source
db = firn.connect(sys.argv[1], spark=spark)
table = db.create_table("t", partition_by=["g"])
result = table.append(spark.range(0, 100, 1, 4).selectExpr("id", "id % 3 AS g", "id / 4 AS x"))
assert (result.rows, len(table.history())) == (100, 1), result
scan = table.scan(where="id < 10", columns=["id"])
assert len(plan_files(LakeRead.of(scan), scan.files(), spark).native) > 0
assert sorted(row.id for row in scan.to_spark().collect()) == list(range(10))
spark.conf.set("spark.firn.nativeScan", "never")
assert sorted(row.id for row in scan.to_spark().collect()) == list(range(10))
spark.conf.unset("spark.firn.nativeScan")
answer = db.sql(
    "WITH big AS (SELECT * FROM t WHERE id >= 50) SELECT g, count(*) AS n FROM big GROUP BY g", engine="spark"
).to_spark()
assert sorted(map(tuple, answer.collect())) == [(0, 17), (1, 16), (2, 17)]
try:
    db.sql("SELECT nosuch FROM t", engine="spark")
except firn.InvalidInputError as error:
    assert "nosuch" in str(error)
else:
    raise AssertionError("no error")
assert table.delete("id >= 90").rows_deleted is not None
assert table.merge().files_added == 3
read = spark.read.format("firn").load(sys.argv[1] + "/t")
assert (read.count(), read.where("g = 1").count()) == (90, 30)
read.limit(5).write.format("firn").mode("overwrite").save(sys.argv[1] + "/t")
assert table.scan().count() == 5

# a table of two writers' catalogs, and a stream from it into another
fleet = firn.connect(sys.argv[1], spark=spark, writer="a")
own = fleet.create_table("w", journal="writer")
assert own.append(spark.range(0, 20, 1, 2)).rows == 20
spark.range(20, 25).write.format("firn").mode("append").option("writer", "b").save(sys.argv[1] + "/w")
assert own.delete("id < 5").files_marked == 1
assert own.scan(where="id > 3").to_spark().count() == 20
query = (
    spark.readStream.format("firn").load(sys.argv[1] + "/w")
    .writeStream.format("firn").option("writer", "b").option("journal", "writer")
    .option("checkpointLocation", sys.argv[1] + "-checkpoint").trigger(availableNow=True)
    .start(sys.argv[1] + "/copy")
)
query.awaitTermination()
assert own.merge().files_added == 1
assert list(fleet.sql("SELECT count(*) AS n FROM w JOIN copy USING (id)")) == [{"n": 20}]

# a keyed table: loaded, read over flushes that haven't been compacted, compacted, read natively, followed as a stream
kept = db.create_table("kept", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT"})
assert kept.load(spark.range(0, 100, 1, 4).selectExpr("id", "id * 2 AS n")).rows == 100
since = kept.changes().version
with kept.open(compaction=False) as kv:
    kv.put(7, {"n": 0}, durable=False)
    kv.delete(8, durable=False)
question = "SELECT count(*) AS c, sum(n) AS n FROM kept WHERE id BETWEEN 5 AND 50"
for _ in range(2):
    assert [tuple(row) for row in db.sql(question).to_spark().collect()] == [(45, sum(range(10, 101, 2)) - 14 - 16)]
    assert spark.read.format("firn").load(sys.argv[1] + "/kept").where("id > 95").count() == 4
    kept.compact(full=True, runner=runners.SparkRunner(spark))
assert kept.reader().get(7) == {"n": 0}
told = spark.read.format("firn").option("changes", "true").option("since", since).load(sys.argv[1] + "/kept")
assert sorted(row.id for row in told.collect()) == [7, 8]
query = (
    spark.readStream.format("firn").load(sys.argv[1] + "/kept")
    .writeStream.format("firn").option("checkpointLocation", sys.argv[1] + "-kept").trigger(availableNow=True)
    .start(sys.argv[1] + "/followed")
)
query.awaitTermination()
assert db.table("followed").scan().count() == 99
print("all of it", flush=True)
"""


RECORDS = r"""
import sys

import firn
from pyspark.sql import SparkSession

loopback = ("spark.connect.grpc.binding.address", "127.0.0.1")
spark = SparkSession.builder.config(*loopback).remote("local[2]").getOrCreate()
db = firn.connect(sys.argv[1], spark=spark)

# record tables: both at one commit, rows that the log alone has, a stream
for name in ("left", "right"):
    db.create_table(name, kind="records", schema={"n": "BIGINT"})
with db.begin() as tx:
    for n in range(200):
        tx.insert("left", f"{n:03}", {"n": n})
        tx.insert("right", f"{n:03}", {"n": -n})
db.transact(lambda tx: tx.delete("left", "007"))
left = db.table("left")
join = "SELECT count(*) AS c, sum(a.n + b.n) AS n FROM left a JOIN right b USING (_id)"
joined = db.sql(join, engine="spark").to_spark()
assert [tuple(row) for row in joined.collect()] == [(199, 0)]
assert left.to_spark(where="_id < '010'").count() == 9
assert spark.read.format("firn").load(sys.argv[1] + "/left").where("n > 190").count() == 9
query = (
    spark.readStream.format("firn").option("changes", "true").load(sys.argv[1] + "/left")
    .writeStream.format("firn").option("checkpointLocation", sys.argv[1] + "-left").trigger(availableNow=True)
    .start(sys.argv[1] + "/told")
)
query.awaitTermination()
assert db.table("told").scan(where="_kind = 'delete'").count() == 1
assert db.table("told").scan().count() == 201
print("all of it", flush=True)
"""


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("text", [PROGRAM, RECORDS], ids=["all but", "record tables"])
def test_everything_over_spark_connect(tmp_path: Path, child_environment: dict[str, str], text: str) -> None:
    program = tmp_path / "connect.py"
    program.write_text(text)
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "db")],
        # Spark's own tests listen on a free port by this; else the server is on 15002, and there can be but one.
        env={**child_environment, "SPARK_TESTING": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.strip().endswith("all of it")
