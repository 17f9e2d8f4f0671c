"""Tables that change while others append: what an alter costs, what reading by a changed definition costs, and
appends that fail beside one, with Delta Lake and Iceberg on the same session.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.appenders import Append, appending
from bench.figures import FIRN, Figures, arguments, finish
from bench.long_logs import firn_log
from bench.spark_engines import DELTA, ICEBERG, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLD, READ = "fold of the log", "the same from the logs' bytes"
RENAME, SCAN = "rename of a column", "7 aggregations on Spark"
BESIDE = "rename, add with default, and drop beside appenders"
UNALTERED, ALTERED = "unaltered", "altered"
SCHEMA = {"id": "BIGINT", "delay": "BIGINT", "distance": "DOUBLE", "tail": "VARCHAR"}
AGGREGATIONS = ("avg", "sum", "min", "max", "count", "stddev", "var_pop")

Run = Callable[[], None]


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--appenders", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long they go on after the changes")
    options = parser.parse_args(argv)
    figures = Figures("evolving", {k: v for k, v in vars(options).items() if k != "out"})
    _fold(figures, options)
    with tempfile.TemporaryDirectory() as root:
        _rename(figures, Path(root, "renamed"), options)
        spark = session(peers=not options.no_peers, warehouse=Path(root, "ice"))
        _scan(figures, spark, Path(root, "scanned"), options)
        for engine, make in _APPENDERS.items():
            if engine == FIRN or not options.no_peers:
                _beside(figures, engine, *make(spark, Path(root, engine)), options)
    figures.target(
        "logs read by a changed definition", figures.ratio(READ, ALTERED, over=UNALTERED), at_most=1.1
    )
    figures.target("fold by a changed definition", figures.ratio(FOLD, ALTERED, over=UNALTERED), at_most=1.1)
    figures.target("native scan under aliases", figures.ratio(SCAN, ALTERED, over=UNALTERED), at_most=1.03)
    took = figures.measure(RENAME, FIRN).median
    figures.target(f"rename on {options.files:,} files: seconds", took, at_most=1.0)
    finish(figures, options.out)
    return figures


def _fold(figures: Figures, options: Any) -> None:
    """Logs in memory: one file each, with the table's columns."""
    from firn.journal.entries import NAME, Entries
    from firn.journal.leaderless.format.codec import DEFINITION, Log, decode, encode
    from firn.journal.leaderless.replay.replay import fold
    from firn.journal.model import DataFile

    columns = {f"c{n}": "BIGINT" for n in range(options.columns)}
    stats = {name: [0, 9, 0] for name in list(columns)[:32]}
    logs = [
        Log(
            f"{n:013}_w",
            n,
            dict(columns),
            [DataFile(f"t/_data/{n}.parquet", 1, n, {"rows": 10, "stats": stats})],
        )
        for n in range(1, options.logs + 1)
    ]
    changed = Entries().changed({(NAME, "c7"): "seven"})
    notes = {"op": "alter", "complete": True, "definition": changed.to_json()}
    alter = Log(f"{options.logs + 1:013}_m_w", options.logs + 1, columns, notes=notes, need=(DEFINITION,))

    def folded(logs: list[Log]) -> None:
        fold(logs).snapshot()

    runs = {UNALTERED: lambda: folded(logs), ALTERED: lambda: folded([*logs, alter])}
    figures.pairs(FOLD, runs, rounds=options.rounds)
    bodies = [(log.name, encode(log)) for log in [*logs, alter]]

    def read(bodies: list[tuple[str, bytes]]) -> None:
        folded([decode(name, body, where=name) for name, body in bodies])

    runs = {UNALTERED: lambda: read(bodies[:-1]), ALTERED: lambda: read(bodies)}
    figures.pairs(READ, runs, rounds=options.rounds)


def _rename(figures: Figures, root: Path, options: Any) -> None:
    import firn

    db = firn.connect(root)
    table = db.create_table("t")
    firn_log(table, 100, files=options.files // 100)
    names = ["name", "label"]
    for _ in range(options.rounds):
        fresh = firn.connect(root).table("t")
        began = time.perf_counter()
        fresh.alter(rename={names[0]: names[1]})
        figures.record(RENAME, FIRN, time.perf_counter() - began, files=options.files)
        names.reverse()


def _scan(figures: Figures, spark: SparkSession, root: Path, options: Any) -> None:
    import firn

    db = firn.connect(root, spark=spark)
    rows = spark.range(options.rows).selectExpr(
        "id", "id % 100 AS delay", "id / 7.0D AS distance", "'N1' AS tail"
    )
    tables = {name: db.create_table(name, schema=SCHEMA) for name in (UNALTERED, ALTERED)}
    for table in tables.values():
        table.append(rows)
    tables[ALTERED].alter(rename={"delay": "minutes", "distance": "miles"})
    names = {UNALTERED: ("delay", "distance"), ALTERED: ("minutes", "miles")}

    def aggregated(table: Any, delay: str, distance: str) -> None:
        frame = table.scan(where=f"{delay} > 10").to_spark()
        frame.selectExpr(*[f"{each}({distance})" for each in AGGREGATIONS]).collect()

    runs: dict[str, Run] = {
        name: lambda name=name: aggregated(tables[name], *names[name])
        for name in tables  # type: ignore[misc]
    }
    for run in runs.values():
        run()  # once untimed: the JVM compiles
    figures.pairs(SCAN, runs, rounds=options.rounds)


Change = Callable[[], object]
Parts = tuple[Callable[[], Callable[[int], object]], Sequence[Change], Callable[[], int]]
"""What makes an appender of a row's id, the changes in order, and how many rows the table has."""


def _firn(spark: SparkSession, root: Path) -> Parts:
    import firn

    table = firn.connect(root).create_table("t", schema=SCHEMA)

    def appender() -> Callable[[int], object]:
        mine = firn.connect(root).table("t", kind="lake")
        return lambda id: mine.append([{"id": id}])

    changes: list[Change] = [
        lambda: table.alter(rename={"delay": "minutes"}),
        lambda: table.alter(add={"cancelled": ("BOOLEAN", False)}),
        lambda: table.alter(drop=["tail"]),
    ]
    return appender, changes, lambda: table.scan().count()


def _on_spark(spark: SparkSession, name: str, append: Callable[[Any], object], properties: str) -> Parts:
    columns = ", ".join(f"{c} {t.replace('VARCHAR', 'STRING')}" for c, t in SCHEMA.items())
    spark.sql(f"CREATE TABLE {name} ({columns}) {properties}")

    def appender() -> Callable[[int], object]:
        return lambda id: append(spark.range(id, id + 1))

    changes: list[Change] = [
        lambda: spark.sql(f"ALTER TABLE {name} RENAME COLUMN delay TO minutes"),
        lambda: spark.sql(f"ALTER TABLE {name} ADD COLUMN cancelled BOOLEAN"),
        lambda: spark.sql(f"ALTER TABLE {name} DROP COLUMN tail"),
    ]
    return appender, changes, lambda: int(spark.sql(f"SELECT count(*) FROM {name}").collect()[0][0])


def _delta(spark: SparkSession, root: Path) -> Parts:
    def append(rows: Any) -> None:
        rows.write.format("delta").mode("append").option("mergeSchema", "true").save(str(root))

    mapped = "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    return _on_spark(spark, f"delta.`{root}`", append, mapped)


def _iceberg(spark: SparkSession, _: Path) -> Parts:
    def append(rows: Any) -> None:
        rows.writeTo("ice.bench.evolving").option("merge-schema", "true").append()

    accepting = "USING iceberg TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')"
    return _on_spark(spark, "ice.bench.evolving", append, accepting)


_APPENDERS: dict[str, Callable[[SparkSession, Path], Parts]] = {
    FIRN: _firn,
    DELTA: _delta,
    ICEBERG: _iceberg,
}


def _beside(
    figures: Figures,
    engine: str,
    appender: Callable[[], Callable[[int], object]],
    changes: Sequence[Change],
    rows: Callable[[], int],
    options: Any,
) -> None:

    def appends(number: int) -> Iterator[Append]:
        append = appender()
        for id in count(number, options.appenders):
            yield lambda id=id: append(id)  # type: ignore[misc]

    with appending([appends(number) for number in range(options.appenders)]) as counts:
        time.sleep(options.seconds / 3)
        began = time.perf_counter()
        for change in changes:
            try:
                change()
            except Exception:
                counts["changes_failed"] += 1
            time.sleep(options.seconds / 3)
        took = time.perf_counter() - began - len(changes) * options.seconds / 3
    lost = counts["appends"] - rows()
    detail = {"appends": counts["appends"], "appends failed": counts["failed"], "rows lost": lost}
    figures.record(BESIDE, engine, took, **detail, changes_failed=counts["changes_failed"])


if __name__ == "__main__":
    main()
