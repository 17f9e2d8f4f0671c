"""Run on a standalone cluster of two workers: each job loses an executor while it works, and no row.

    python cluster_program.py MASTER DATABASE OPTIONS SCRATCH

Prints, as one line of JSON, what each table holds afterwards and how many executors were killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import firn
from firn.spark.session.runner import SparkRunner

ROWS = 20_000


def killing(frame: Any, marker: Path) -> Any:
    """The same rows, but the first task that has handed over some of them kills its executor."""
    path = str(marker)

    def hand_over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from cluster_program import kill_executor_once

        for batch in batches:
            yield batch
            kill_executor_once(path)

    return frame.mapInArrow(hand_over, frame.schema)


def kill_executor_once(marker: str) -> None:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    import psutil

    for parent in psutil.Process().parents():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            parent.send_signal(signal.SIGKILL)
            return
    raise AssertionError("this task runs in no executor")


class KillingRunner:
    """Spark's runner, whose first task kills its executor."""

    def __init__(self, runner: Any, marker: Path) -> None:
        self.runner = runner
        self.marker = str(marker)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)

    def map(self, function: Any, tasks: Any, **options: Any) -> Any:
        marker = self.marker

        def deadly(*given: Any) -> Any:
            from cluster_program import kill_executor_once

            result = function(*given)  # what the task has written is there, and its executor is not
            kill_executor_once(marker)
            return result

        return self.runner.map(deadly, tasks, **options)


def main(master: str, url: str, options: str, scratch: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
        .getOrCreate()
    )
    given, marks = json.loads(options), Path(scratch)
    db = firn.connect(url, options=given, spark=spark)
    rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 AS g", "md5(string(id)) AS s")

    lake = db.create_table("lake", partition_by=["g"])
    lake.append(killing(rows, marks / "append"))
    store = {f"store.{name}": str(value) for name, value in given.items()}
    source = killing(rows.selectExpr("id + 100000 AS id", "g", "s"), marks / "write")
    source.write.format("firn").options(**store).mode("append").save(f"{url}/lake")
    keyed = db.create_table("keyed", kind="keyed")
    pairs = rows.selectExpr("string(id) AS k", "s").selectExpr("binary(k) AS key", "binary(s) AS value")
    keyed.load(killing(pairs, marks / "load"))
    keyed.load(pairs.where("length(key) < 5"))

    deadly = firn.connect(url, options=given, runner=KillingRunner(SparkRunner(spark), marks / "merge"))
    merged = deadly.table("lake").merge()
    deadly = firn.connect(url, options=given, runner=KillingRunner(SparkRunner(spark), marks / "compact"))
    deadly.table("keyed").compact(full=True)

    ids = db.table("lake").scan(columns=["id"]).to_arrow()["id"].to_pylist()
    with keyed.reader() as reader:
        keys = [key for key, _ in reader.scan()]
    print(
        json.dumps(
            {
                "rows": len(ids),
                "distinct": len(set(ids)),
                "merged": merged.files_removed > 0,
                "keys": len(keys),
                "distinct_keys": len(set(keys)),
                "killed": sorted(path.name for path in marks.iterdir()),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
