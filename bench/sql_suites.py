"""TPC-H's 22 and TPC-DS's 99 queries through `db.sql`, beside the engine alone over plain Parquet.

In process the peers are DuckDB over plain Parquet and DuckDB over Firn's own files: the first has another layout, the
second tells what Firn's part costs. On Spark the texts are sqlglot's, from DuckDB's SQL, the same for both sides; the
ones that Spark refuses over plain Parquet are told. Every answer is compared: names, types and rows.
"""

from __future__ import annotations

import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import FIRN, RESULTS, Figures, arguments, finish, rotated
from bench.tpc_data import SUITES, Suite, suite_of

DUCKDB, SAME_FILES, SPARK = "DuckDB", "DuckDB, Firn's files", "Spark"
FILE_ROWS = 2_000_000
"""Rows of a file: larger tables have several."""

Answer = tuple[dict[str, str], list[tuple[Any, ...]]]
"""Columns and their types, and rows."""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--suite", choices=SUITES, default="tpch")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    parser.add_argument("--queries", type=_numbers, default=(), help="numbers, as 1,5,9; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=RESULTS / "tpc", help="where generated data stays")
    options = parser.parse_args(argv)
    figures = Figures("sql_suites", {k: v for k, v in vars(options).items() if k not in ("out", "cache")})
    suite = suite_of(options.suite, options.scale, options.cache)
    texts = {n: text for n, text in suite.queries.items() if not options.queries or n in options.queries}
    with tempfile.TemporaryDirectory() as root:
        db = load(Path(root), suite)
        run = on_spark if options.engine == "spark" else in_process
        try:
            run(figures, db, suite, texts, rounds=options.rounds, peers=not options.no_peers)
        finally:  # an interrupted run shows what it has
            finish(figures, options.out)
    return figures


def load(root: Path, suite: Suite) -> Any:
    """A database with the suite's tables, large ones in several files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import firn

    db = firn.connect(root / "db")
    for name, path in suite.tables.items():
        table, file = db.create_table(name), pq.ParquetFile(path)
        parts: list[pa.RecordBatch] = []
        for batch in file.iter_batches(1 << 17):
            parts.append(batch)
            if sum(part.num_rows for part in parts) >= FILE_ROWS:
                table.append(pa.Table.from_batches(parts))
                parts = []
        if parts or not file.metadata.num_rows:
            table.append(pa.Table.from_batches(parts, file.schema_arrow))
    return db


def in_process(
    figures: Figures, db: Any, suite: Suite, texts: Mapping[int, str], *, rounds: int, peers: bool
) -> None:
    ways: dict[str, Callable[[str], Any]] = {FIRN: lambda text: db.sql(text).to_arrow()}
    answers: dict[str, Callable[[str], Answer]] = {FIRN: lambda text: _firn_answer(db.sql(text))}
    if peers:
        plain = _raw({name: [str(path)] for name, path in suite.tables.items()})
        same = _raw({name: db.table(name).scan().uris() for name in suite.tables})
        ways |= {
            DUCKDB: lambda text: plain.sql(text).to_arrow_table(),
            SAME_FILES: lambda text: same.sql(text).to_arrow_table(),
        }
        answers[DUCKDB] = lambda text: _duckdb_answer(plain.sql(text))
    for number, text in texts.items():
        _compare(figures, number, text, answers)
        for turn in range(rounds):
            for way in rotated(list(ways), turn):
                _timed(figures, f"{suite.name} {number}", way, ways[way], text)
    _totals(figures, list(ways))
    if peers:
        same_files = _mean(figures, SAME_FILES)
        figures.target(
            f"{suite.name}: geometric mean, over DuckDB on the same files", same_files, at_most=1.15
        )


def on_spark(
    figures: Figures, db: Any, suite: Suite, texts: Mapping[int, str], *, rounds: int, peers: bool
) -> None:
    import sqlglot

    from firn.spark.session.session import active_or_start

    spark = active_or_start(
        master="local[2]", app_name="firn-bench", config={"spark.sql.shuffle.partitions": "4"}
    )
    spark.sparkContext.setLogLevel("ERROR")
    for name, path in suite.tables.items():
        spark.read.parquet(str(path)).createOrReplaceTempView(name)

    def through(text: str) -> Any:
        return db.sql(text, engine="spark").to_spark()

    ways = {FIRN: lambda text: through(text).toArrow()}
    answers = {FIRN: lambda text: _spark_answer(through(text))}
    if peers:
        ways[SPARK] = lambda text: spark.sql(text).toArrow()
        answers[SPARK] = lambda text: _spark_answer(spark.sql(text))
    for number, written in texts.items():
        try:
            text = sqlglot.transpile(written, read="duckdb", write="spark")[0]
            _ = spark.sql(text).schema  # what Spark says of the text
        except Exception as error:
            figures.notes.append(f"{number}: Spark refuses the text: {str(error).splitlines()[0][:160]}")
            continue
        _compare(figures, number, text, answers)
        for turn in range(rounds):
            for way in rotated(list(ways), turn):
                _timed(figures, f"{suite.name} {number}", way, ways[way], text)
    _totals(figures, list(ways))


# -- answers


def _compare(
    figures: Figures, number: int, text: str, answers: Mapping[str, Callable[[str], Answer]]
) -> None:
    """Note an answer that differs or fails. Rows that a LIMIT cuts among equals are compared without it."""
    try:
        found = [answer(text) for answer in answers.values()]
        difference = differs(*found) if len(found) > 1 else None
        if difference and (whole := without_limit(text)) != text:
            difference = differs(*(answer(whole) for answer in answers.values()))
    except Exception as error:
        difference = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    key = "differ" if difference else "agree"
    figures.settings[key] = [*figures.settings.get(key, []), number]
    if difference:
        figures.notes.append(f"{number} DIFFERS: {difference}")


def differs(mine: Answer, theirs: Answer) -> str | None:
    """What is different in two answers, in any order of rows: floats are equal to a billionth."""
    (types, rows), (other_types, other_rows) = mine, theirs
    if list(types.items()) != list(other_types.items()):
        return f"columns {types} for {other_types}"
    if len(rows) != len(other_rows):
        return f"{len(rows)} rows for {len(other_rows)}"
    for one, other in zip(sorted(rows, key=_order), sorted(other_rows, key=_order), strict=True):
        if not all(map(_same, one, other)):
            return f"{one} for {other}"
    return None


def without_limit(text: str) -> str:
    """A query without the LIMIT at its end.

    >>> without_limit("SELECT a FROM t ORDER BY a LIMIT 100;")
    'SELECT a FROM t ORDER BY a'
    """
    return re.sub(r"\s*\bLIMIT\s+\d+\s*;?\s*$", "", text, flags=re.IGNORECASE)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Exact values first: floats that are nearly equal mustn't change the order."""
    exact = [value for value in row if not isinstance(value, float)]
    floats = [round(value, 6) for value in row if isinstance(value, float)]
    return tuple((value is None, str(value)) for value in exact), tuple(floats)


def _firn_answer(result: Any) -> Answer:
    return dict(result.columns), [tuple(row.values()) for row in result]


def _duckdb_answer(relation: Any) -> Answer:
    """Columns whose name another has get numbers, as Firn's do."""
    types: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for name, kind in zip(relation.columns, relation.types, strict=True):
        folded = name.lower()
        types[f"{name}_{seen[folded]}" if seen[folded] else name] = str(kind)
        seen[folded] += 1
    return types, relation.fetchall()


def _spark_answer(frame: Any) -> Answer:
    types = {f"{at} {field.name}": field.dataType.simpleString() for at, field in enumerate(frame.schema)}
    return types, [tuple(row) for row in frame.collect()]


# -- times


def _timed(figures: Figures, name: str, engine: str, way: Callable[[str], Any], text: str) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    try:
        way(text)
    except Exception:  # `_compare` told it
        return
    figures.record(name, engine, time.perf_counter() - began, cpu_s=time.process_time() - cpu)


def _totals(figures: Figures, engines: Sequence[str]) -> None:
    """Sums of each query's fastest round, and the geometric means of the ratios to each peer."""
    for engine in engines:
        of = [m for m in figures.measures.values() if m.engine == engine and m.seconds]
        if of:
            cpu = sum(min(m.cpu_seconds) for m in of)
            total = sum(min(m.seconds) for m in of)
            figures.notes.append(
                f"{engine}: {len(of)} queries, {total:.2f} s together, {cpu:.2f} s of processors"
            )
        if engine != FIRN and of:
            wall, work = _mean(figures, engine), _mean(figures, engine, cpu=True)
            figures.notes.append(
                f"firn over {engine}, geometric mean: {wall:.3f} of wall, {work:.3f} of processors"
            )


def _mean(figures: Figures, peer: str, *, cpu: bool = False) -> float | None:
    """How many times as long as the peer Firn takes."""
    ratios = []
    for (name, engine), theirs in figures.measures.items():
        mine = figures.measures.get((name, FIRN))
        if engine == peer and mine is not None and mine.seconds and theirs.seconds:
            pair = (mine.cpu_seconds, theirs.cpu_seconds) if cpu else (mine.seconds, theirs.seconds)
            ratios.append(min(pair[0]) / max(min(pair[1]), 1e-6))
    return round(statistics.geometric_mean(ratios), 3) if ratios else None


def _raw(files: Mapping[str, Sequence[str]]) -> Any:
    """DuckDB with a view of each table, with as many threads as Firn gives it."""
    import duckdb

    from firn.sql.limits import threads

    duck = duckdb.connect()
    duck.execute(f"SET threads = {threads()}")
    for name, paths in files.items():
        listed = ", ".join("'{}'".format(path.removeprefix("file://")) for path in paths)
        duck.execute(f"CREATE VIEW {name} AS FROM read_parquet([{listed}])")
    return duck


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    main()
