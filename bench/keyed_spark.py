"""A keyed table on Spark beside plain Parquet: bulk load, and scans before and after a compaction.

The rows are those of `bench.keyed`, keys of 16 bytes and values of 100, with a column of numbers. Plain Parquet holds
each key once, sorted; the keyed table holds some of them twice until it is compacted.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import FIRN, Figures, arguments, counted, finish
from bench.spark_engines import PARQUET, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES = 100
QUERIES = {
    "count": "SELECT count(*) FROM t",
    "sum of a column": "SELECT sum(n) FROM t",
    "all columns": "SELECT sum(n), sum(length(value)), max(key) FROM t",
    "a range of keys": "SELECT count(*), sum(n) FROM t WHERE key >= '{low}' AND key < '{high}'",
}


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--updates", type=float, default=0.2, help="part of the keys that are put again")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    figures = Figures("keyed_spark", {k: v for k, v in vars(options).items() if k != "out"})
    with tempfile.TemporaryDirectory() as root:
        spark = session(peers=False, warehouse=Path(root, "unused"))
        try:
            figures.settings["spark"] = spark.version
            run(figures, spark, Path(root), options.keys, options.updates, options.rounds)
        finally:
            spark.stop()
    figures.notes.append(
        "Before the compaction a fifth of the keys have two versions, in eight flushes above the loaded run."
    )
    finish(figures, options.out)
    return figures


def run(figures: Figures, spark: SparkSession, root: Path, keys: int, updates: float, rounds: int) -> None:
    import firn

    db = firn.connect(root / "db", spark=spark)
    plain = str(root / "plain")
    made = rows(spark, keys).persist()
    made.count()
    table: Any = None

    def load() -> Mapping[str, Any]:
        nonlocal table
        table = db.create_table(
            "t", kind="keyed", key={"key": "VARCHAR"}, schema={"value": "BLOB", "n": "BIGINT"},
            properties={"flush_ms": 60_000},
        )  # fmt: skip
        facts: dict[str, Any] = {}
        with counted(table.bucket, facts):
            table.load(made)
        return facts

    def write() -> Mapping[str, Any]:
        made.sort("key").write.parquet(plain)
        return {}

    figures.pairs(f"load {keys:,} rows", {FIRN: load, PARQUET: write})
    made.unpersist()
    asked(figures, spark, db, plain, keys, rounds, "one run")
    update(table, keys, updates)
    asked(figures, spark, db, plain, keys, rounds, "with updates")

    def compact() -> Mapping[str, Any]:
        facts: dict[str, Any] = {}
        with counted(table.bucket, facts):
            report = table.compact(full=True)
        return {**facts, "amplification": round(report.write_amplification, 2)}

    figures.timed("compaction on Spark", FIRN, compact)
    asked(figures, spark, db, plain, keys, rounds, "compacted")
    for state in ("one run", "compacted"):
        for query in QUERIES:
            name = f"{query}, {state}"
            figures.target(
                f"{name}: plain Parquet's time × Firn's", figures.ratio(name, PARQUET), at_least=0.7
            )


def rows(spark: SparkSession, keys: int) -> DataFrame:
    """In no order."""
    return spark.sql(
        f"SELECT lpad(CAST(7 * id AS STRING), 16, '0') AS key, "
        f"CAST(rpad(sha2(CAST(id AS STRING), 512), {VALUE_BYTES}, 'x') AS BINARY) AS value, id AS n "
        f"FROM range({keys}) ORDER BY rand(1)"
    )


def update(table: Any, keys: int, part: float) -> None:
    """Put some keys again with what they have, in eight flushes."""
    from firn.keyed.write.batch import WriteBatch

    chosen = random.Random(1).sample(range(keys), int(keys * part))
    with table.open(compaction=False) as kv:
        share = max(1, -(-len(chosen) // 8))
        for start in range(0, len(chosen), share):
            batch = WriteBatch()
            for n in chosen[start : start + share]:
                batch.put(f"{7 * n:016}", {"value": b"y" * VALUE_BYTES, "n": n})
            kv.write(batch)


def asked(
    figures: Figures, spark: SparkSession, db: Any, plain: str, keys: int, rounds: int, state: str
) -> None:
    """Every query of both, in turn; the answers must be the same but for the values that were put again."""
    low, high = f"{7 * (keys // 2):016}", f"{7 * (keys // 2 + keys // 20):016}"
    for name, text in QUERIES.items():
        query = text.format(low=low, high=high)
        found: dict[str, list[Any]] = {}

        def firn_query(query: str = query, found: dict[str, list[Any]] = found) -> None:
            found[FIRN] = [tuple(row) for row in db.sql(query).to_spark().collect()]

        def spark_query(query: str = query, found: dict[str, list[Any]] = found) -> None:
            # Each query finds out what there is, as one of a table does.
            spark.read.parquet(plain).createOrReplaceTempView("t")
            found[PARQUET] = [tuple(row) for row in spark.sql(query).collect()]

        work: dict[str, Callable[[], None]] = {FIRN: firn_query, PARQUET: spark_query}
        for run_once in work.values():  # warm code and files
            run_once()
        figures.pairs(f"{name}, {state}", work, rounds=rounds)
        assert found[FIRN] == found[PARQUET], (name, state, found)


if __name__ == "__main__":
    main()
