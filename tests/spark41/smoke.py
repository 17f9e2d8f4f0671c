"""Batch features on whatever pyspark is installed: for the oldest that Firn supports, 4.1.

    PYTHONPATH=src python tests/spark41/smoke.py

Streams that read a table need later versions; that they say so is checked here, too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import firn
from firn.spark.runner import SparkRunner
from firn.spark.scan import NATIVE_CONF
from firn.spark.session import active_or_start


def check(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {found!r} instead of {expected!r}")


def main(root: str) -> None:
    spark = active_or_start(master="local[2,4]")
    from pyspark.errors import PySparkException

    print(f"pyspark {spark.version}", flush=True)
    squares = SparkRunner(spark).map(
        lambda bucket, context, task: task**2,
        range(10),
        bucket=firn.connect(root).bucket,
        context=None,
        weights=[0] * 10,
    )
    check("tasks", squares, [n**2 for n in range(10)])

    db = firn.connect(root, spark=spark)
    table = db.create_table("t", partition_by=["month(d)"])
    frame = spark.range(0, 90, 1, 3).selectExpr(
        "id",
        "date_add(DATE'2001-01-01', cast(id AS int)) AS d",
        "TIMESTAMP_NTZ'2020-01-01 10:00:00' AS local",
    )
    check("append", table.append(frame).rows, 90)
    for mode in ("auto", "never"):
        spark.conf.set(NATIVE_CONF, mode)
        check(f"scan, {mode}", table.scan(where="d >= '2001-02-01'").to_spark().count(), 59)
    spark.conf.unset(NATIVE_CONF)
    answer = db.sql(
        "SELECT month(a.d) AS m, count(*) AS n FROM t a JOIN t b USING (id) WHERE a.id < 40 GROUP BY 1"
    )
    check("sql", sorted(map(tuple, answer.collect())), [(1, 31), (2, 9)])
    check("merge", table.merge().files_added, 2)
    check("delete", table.delete("id >= 80").rows_removed is not None, True)

    read = spark.read.format("firn").option("columns", "id").load(f"{root}/t")
    check("data source", (read.where("id < 5").count(), read.count()), (5, 80))
    read.limit(3).write.format("firn").mode("overwrite").save(f"{root}/copy")
    read.limit(2).write.format("firn").mode("append").save(f"{root}/copy")
    check("data source, written", db.table("copy").scan().count(), 5)

    Path(root, "in").mkdir()
    Path(root, "in", "a.json").write_text('{"a": 1}\n{"a": 2}\n')
    for _ in range(2):
        query = (
            spark.readStream.schema("a long")
            .json(f"{root}/in")
            .writeStream.format("firn")
            .option("checkpointLocation", f"{root}/checkpoint")
            .option("path", f"{root}/sink")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    check("sink", db.table("sink").scan().count(), 2)

    from pyspark.sql import datasource
    from pyspark.sql.streaming import datasource as streaming

    if not hasattr(streaming, "ReadMaxFiles"):
        stream = spark.readStream.format("firn").load(f"{root}/t")
        try:
            stream.writeStream.format("noop").option(
                "checkpointLocation", f"{root}/refused"
            ).start().awaitTermination()
        except PySparkException as error:
            check("streams refused", "need pyspark 4.3" in str(error), True)
        else:
            raise SystemExit("a stream was read that can't be")
    check("a data source", issubclass(datasource.DataSource, object), True)
    spark.stop()
    print("all of it", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(directory)
