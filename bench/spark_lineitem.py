"""TPC-H lineitem on Spark: appends large and small, compaction, deletes and two queries, beside three peers.

Every round makes each engine's tables anew, the engines in turn, on one session with two cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bench.figures import FIRN, RESULTS, Figures, arguments, counted, finish
from bench.lineitem import Lineitem, lineitem
from bench.memory_watch import MemoryWatch, processor_seconds
from bench.spark_engines import DELTA, ENGINES, ICEBERG, MAINTAINED, PARQUET, Engine, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
       count(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""
Q6 = """
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""
COUNT = "SELECT count(*) AS n FROM lineitem"
TENTH = "l_orderkey % 10 = 3"
PEERS = (PARQUET, DELTA, ICEBERG)

EngineT = TypeVar("EngineT", bound=Engine)


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor; 1 is 6 million rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--query-rounds", type=int, default=15)
    parser.add_argument("--only", default="abcdef", help="which of the parts to run, like 'ac'")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated")
    parser.add_argument("--directory", help="where the tables go; a temporary directory by default")
    options = parser.parse_args(argv)
    peers = [] if options.no_peers else options.peers.split(",")
    engines = [FIRN, *peers]
    figures = Figures(
        "-".join(["spark_lineitem", *peers]),
        {"scale": options.scale, "rounds": options.rounds, "engines": engines, "cores": 2},
    )
    data = lineitem(options.scale, RESULTS / "data")
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        spark = session(peers=bool(peers), warehouse=Path(root, "ice"))
        try:
            figures.settings["spark"] = spark.version
            _Program(figures, data, spark, Path(root), engines).run(
                options.only, options.rounds, options.query_rounds
            )
        finally:
            spark.stop()
    finish(figures, options.out)
    return figures


class _Program:
    def __init__(
        self, figures: Figures, data: Lineitem, spark: SparkSession, root: Path, engines: Sequence[str]
    ) -> None:
        self.figures, self.data, self.spark, self.root, self.engines = figures, data, spark, root, engines
        self.tables: dict[tuple[str, str], Engine] = {}
        self.rows = f"{data.rows:,} rows"

    def run(self, only: str, rounds: int, query_rounds: int) -> None:
        self._warm()
        for number in range(rounds):
            if set(only) & set("aed"):
                self._append_once(number)
            if "e" in only and number == rounds - 1:
                self._queries(query_rounds)
            if "d" in only:
                self._delete(number)
            self._drop("once")
            if set(only) & set("bc"):
                self._append_often(number)
            if "c" in only:
                self._compact(number)
            self._drop("often")
            if "f" in only:
                self._append_few(number)
            self._drop("few")
        self._targets()

    def _table(self, engine: str, use: str) -> Any:
        key = engine, use
        if key not in self.tables:
            self.tables[key] = ENGINES[engine](self.spark, self.root / f"{engine}-{use}")
        return self.tables[key]

    def _drop(self, use: str) -> None:
        for engine in self.engines:
            table = self.tables.pop((engine, use), None)
            if table is not None:
                table.drop()

    def _each(
        self,
        name: str,
        use: str,
        number: int,
        work: Callable[[EngineT], object],
        among: Mapping[str, Callable[..., EngineT]],
    ) -> None:
        """One round of the engines in turn, with what Firn asked of its bucket and its workers' memory."""

        def run(engine: str) -> Mapping[str, Any]:
            table = self._table(engine, use)
            facts: dict[str, Any] = {}
            began = processor_seconds()
            if engine == FIRN:
                with MemoryWatch() as watch, counted(table.db.bucket, facts):
                    work(table)
                facts["worker_mb"] = watch.peak_mb
            else:
                work(table)
            return {"cpu_s": round(processor_seconds() - began, 2), **facts}

        chosen = [engine for engine in self.engines if engine in among]
        for engine in chosen[number % len(chosen) :] + chosen[: number % len(chosen)]:
            self.figures.timed(name, engine, partial(run, engine))
        for engine in chosen:
            self.figures.record(name, engine, **self._table(engine, use).facts())

    def _read(self, path: Path) -> DataFrame:
        return self.spark.read.parquet(str(path))

    def _warm(self) -> None:
        """Everything once, at full size: the JVM compiles, and code that has run for a second is not yet fast."""
        for engine in self.engines:
            table = self._table(engine, "warm")
            for part in self.data.small[:6]:
                table.append(self._read(part))
            table.append(self._read(self.data.whole))
            table.query(Q1)
            if engine in MAINTAINED:
                table.compact()
                table.delete(TENTH)
        self._drop("warm")

    def _append_once(self, number: int) -> None:
        name = f"(a) one append of {self.rows}"
        self._each(name, "once", number, lambda t: t.append(self._read(self.data.whole)), ENGINES)
        self._check("once", self.data.rows)

    def _append_often(self, number: int) -> None:
        name = f"(b) {len(self.data.parts)} appends of {self.data.rows // len(self.data.parts):,} rows"

        def work(table: Engine) -> None:
            for part in self.data.parts:
                table.append(self._read(part))

        self._each(name, "often", number, work, ENGINES)
        self._check("often", self.data.rows)

    def _compact(self, number: int) -> None:
        self._each("(c) compaction of those", "often", number, lambda t: t.compact(), MAINTAINED)
        self._check("often", self.data.rows)

    def _delete(self, number: int) -> None:
        self._each("(d) delete of 10 % everywhere", "once", number, lambda t: t.delete(TENTH), MAINTAINED)
        counts = {e: self._table(e, "once").query(COUNT)[0]["n"] for e in self.engines if e in MAINTAINED}
        if len(set(counts.values())) != 1 or set(counts.values()) == {self.data.rows}:
            raise AssertionError(f"the engines disagree on what is left: {counts}")

    def _append_few(self, number: int) -> None:
        def work(table: Engine) -> None:
            for part in self.data.small:
                table.append(self._read(part))

        self._each(f"(f) {len(self.data.small)} appends of 10 rows", "few", number, work, ENGINES)
        self._check("few", 10 * len(self.data.small))

    def _queries(self, rounds: int) -> None:
        for name, sql in (("(e) Q1", Q1), ("(e) Q6", Q6)):
            answers = {engine: self._table(engine, "once").query(sql) for engine in self.engines}
            if len({str(answer) for answer in answers.values()}) != 1:
                raise AssertionError(f"the engines disagree on {name}: {answers}")
            for number in range(rounds):
                self._each(name, "once", number, methodcaller("query", sql), ENGINES)

    def _check(self, use: str, rows: int) -> None:
        """Nobody is fast by leaving rows out."""
        for engine in self.engines:
            found = self._table(engine, use).query(COUNT)[0]["n"]
            if found != rows:
                raise AssertionError(f"{engine} has {found:,} rows after {use}, not {rows:,}")

    def _targets(self) -> None:
        figures, names = self.figures, {m.name[:3]: m.name for m in self.figures.measures.values()}

        def ratio(name: str, *engines: str) -> float | None:
            return figures.fastest(names.get(name, name), engines)

        def inverse(name: str, engine: str) -> float | None:
            found = ratio(name, engine)
            return None if found is None else 1 / found

        targets: list[tuple[str, float | None, dict[str, float]]] = [
            ("(a) Firn's time over plain Parquet's", inverse("(a)", PARQUET), {"at_most": 0.9}),
            ("(a) Delta's time over Firn's", ratio("(a)", DELTA), {"at_least": 1.3}),
            ("(a) Iceberg's time over Firn's", ratio("(a)", ICEBERG), {"at_least": 1.3}),
            ("(b) the fastest peer's time over Firn's", ratio("(b)", *PEERS), {"at_least": 1}),
            ("(c) the faster peer's time over Firn's", ratio("(c)", DELTA, ICEBERG), {"at_least": 2}),
            ("(d) the faster peer's time over Firn's", ratio("(d)", DELTA, ICEBERG), {"at_least": 2}),
            ("(e) Q1: Firn's time over plain Parquet's", inverse("(e) Q1", PARQUET), {"at_most": 1.05}),
            ("(e) Q6: Firn's time over plain Parquet's", inverse("(e) Q6", PARQUET), {"at_most": 1.05}),
            ("(f) the fastest peer's time over Firn's", ratio("(f)", *PEERS), {"at_least": 1}),
        ]
        for name, value, bound in targets:
            if value is not None:  # of the parts that ran, and the peers that took part
                figures.target(name, value, **bound)


if __name__ == "__main__":
    main()
