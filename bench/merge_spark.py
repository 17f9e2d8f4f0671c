"""MERGE INTO on Spark: rows of a source, half of them new, into a table without a key, beside Delta Lake and Iceberg.

All engines read the same Parquet files as the source, in one JVM on one version of Spark. Firn runs twice: its tasks
on Spark, and DuckDB in this process. Each round merges into a table of its own.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import FIRN, Figures, finish, rotated
from bench.memory_watch import processor_seconds
from bench.merge_into import MERGE, loads, sizes, source
from bench.spark_engines import DELTA, ICEBERG, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_PROCESS = "firn, in process"
NAME = "merge, half updates and half inserts"

Work = tuple[Callable[[], object], Callable[[], int]]
"""The merge, and how many rows the table has."""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = sizes(__doc__)
    options = parser.parse_args(argv)
    figures = Figures("merge_spark", {k: v for k, v in vars(options).items() if k != "out"})
    engines = [FIRN, IN_PROCESS] + ([] if options.no_peers else [DELTA, ICEBERG])
    with tempfile.TemporaryDirectory() as root:
        spark = session(peers=not options.no_peers, warehouse=Path(root, "ice"))
        try:
            figures.settings["spark"] = spark.version
            _run(figures, spark, Path(root), engines, options)
        finally:
            spark.stop()
    for engine in engines[2:]:
        ratio = figures.ratio(NAME, FIRN, over=engine)
        figures.target(f"against {engine}", None if ratio is None else round(ratio, 3), at_most=1.0)
    finish(figures, options.out)
    return figures


def _run(
    figures: Figures, spark: SparkSession, root: Path, engines: Sequence[str], options: Namespace
) -> None:
    for number, rows in enumerate(loads(options)):
        (root / "base").mkdir(exist_ok=True)
        pq.write_table(rows, root / "base" / f"{number}.parquet")
    (root / "changes").mkdir()
    pq.write_table(source(options.rows, options.changes), root / "changes" / "0.parquet")
    counts = set()
    for number in range(-1, options.rounds):  # the first isn't counted: it compiles
        for engine in rotated(engines, number):
            merge, count = _ENGINES[engine](
                spark, root, f"{engine.split(',')[0]}_{engines.index(engine)}_{number + 1}"
            )
            began, cpu = time.perf_counter(), processor_seconds()
            merge()
            took, cpu = time.perf_counter() - began, processor_seconds() - cpu
            counts.add(count())
            if number >= 0:
                figures.record(NAME, engine, took, cpu_s=cpu)
    assert len(counts) == 1, f"the engines don't agree: {counts}"


def _firn(spark: SparkSession, root: Path, name: str) -> Work:
    import firn

    db = firn.connect(root / name, spark=spark)
    table = db.create_table("t")
    table.append(spark.read.parquet(str(root / "base")))

    def merge() -> object:
        return db.sql(MERGE, tables={"s": spark.read.parquet(str(root / "changes"))})

    return merge, lambda: table.scan().count()


def _in_process(spark: SparkSession, root: Path, name: str) -> Work:
    import firn

    db = firn.connect(root / name)
    table = db.create_table("t")
    for part in sorted((root / "base").glob("*.parquet")):
        table.append(pq.read_table(part))

    def merge() -> object:
        changes: pa.Table = pq.read_table(root / "changes")
        return db.sql(MERGE, tables={"s": changes})

    return merge, lambda: table.scan().count()


def _delta(spark: SparkSession, root: Path, name: str) -> Work:
    table = f"delta.`{root / name}`"
    spark.read.parquet(str(root / "base")).write.format("delta").save(str(root / name))
    return _by_sql(spark, root, table)


def _iceberg(spark: SparkSession, root: Path, name: str) -> Work:
    table = f"ice.bench.{name}"
    spark.read.parquet(str(root / "base")).writeTo(table).using("iceberg").create()
    return _by_sql(spark, root, table)


def _by_sql(spark: SparkSession, root: Path, table: str) -> Work:
    def merge() -> object:
        spark.read.parquet(str(root / "changes")).createOrReplaceTempView("s")
        return spark.sql(MERGE.replace("INTO t ", f"INTO {table} AS t ")).collect()

    def count() -> int:
        rows: Any = spark.sql(f"SELECT count(*) FROM {table}").collect()
        return int(rows[0][0])

    return merge, count


_ENGINES = {FIRN: _firn, IN_PROCESS: _in_process, DELTA: _delta, ICEBERG: _iceberg}


if __name__ == "__main__":
    main()
