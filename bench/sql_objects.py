"""Queries of this process over objects in a bucket: read by DuckDB itself, and by Firn, which hands the rows over.

On an S3 server whose every answer is held back. Two large files and many small ones; the requests and megabytes of
each way are counted. The other way is Firn's own reader, which reads all that DuckDB can't.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, finish
from bench.slow_store import SlowStore, server_program, slow_store

STREAMED = "Firn's reader"

SMALL = "all small files"

QUERIES = {
    "aggregates of most rows (as Q1)": """
        SELECT flag, status, sum(quantity) AS q, avg(price) AS p, avg(discount) AS d, count(*) AS n
        FROM items WHERE shipped <= DATE '1998-09-02' GROUP BY ALL ORDER BY ALL""",
    "a sum of few rows (as Q6)": """
        SELECT sum(price * discount) AS revenue FROM items
        WHERE shipped BETWEEN DATE '1994-01-01' AND DATE '1994-03-31' AND quantity < 24""",
    "one key": "SELECT * FROM items WHERE id = 4711",
    SMALL: "SELECT count(*) AS n, sum(v) AS v FROM small",
}


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--small", type=int, default=300, help="files of 100 rows")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    figures = Figures("sql_objects", {k: v for k, v in vars(options).items() if k != "out"})
    if server_program() is None:
        figures.notes.append("Left out: versitygw is missing (tests/stores/install.py).")
    else:
        with slow_store(options.latency) as store:
            _fill(store, options.rows, options.small)
            _measure(figures, store, options.rounds)
    finish(figures, options.out)
    return figures


def _fill(store: SlowStore, rows: int, small: int) -> None:
    """Rows by day of shipping, as a sorted table has them. Without the proxy, which would wait."""
    import firn

    db = firn.connect(f"{store.url}/db", options={**store.firn_options, "endpoint": store.direct})
    items = db.create_table("items", sort_by=["shipped"])
    rng = random.Random(1)
    for part in range(2):
        count = rows // 2
        days = sorted(rng.randrange(2500) for _ in range(count))
        begin = date(1992, 1, 1)
        items.append(
            pa.table(
                {
                    "id": range(part * count, (part + 1) * count),
                    "quantity": [rng.randrange(1, 51) for _ in range(count)],
                    "price": [rng.random() * 1e5 for _ in range(count)],
                    "discount": [rng.randrange(11) / 100 for _ in range(count)],
                    "flag": rng.choices("ANR", k=count),
                    "status": rng.choices("OF", k=count),
                    "shipped": [begin + timedelta(day) for day in days],
                    "comment": [f"{rng.getrandbits(96):x}" for _ in range(count)],
                }
            )
        )
    many = db.create_table("small")
    for n in range(small):
        many.append(pa.table({"k": range(100), "v": [n] * 100}))
    many.checkpoint()


def _measure(figures: Figures, store: SlowStore, rounds: int) -> None:
    import firn

    def run(query: str, way: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
        def once() -> dict[str, Any]:
            facts: dict[str, Any] = {}
            db = firn.connect(f"{store.url}/db", options=store.firn_options)
            with way(), store.counted(facts):
                facts["rows"] = db.sql(query).to_arrow().num_rows
            return facts

        return once

    for name, query in QUERIES.items():
        work = {FIRN: run(query, _nothing), STREAMED: run(query, _streamed)}
        for each in work.values():
            each()  # once untimed: imports, connections
        figures.pairs(name, work, rounds=rounds)
        if name != SMALL:  # which Firn reads either way
            figures.target(f"{name}: {STREAMED} over DuckDB's", figures.ratio(name, STREAMED), at_least=1)
    sizes = [figures.measure(next(iter(QUERIES)), engine).detail["mb_in"] for engine in (FIRN, STREAMED)]
    figures.target("megabytes of Q1 over those of Firn's reader", sizes[0] / sizes[1], at_most=1)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _streamed() -> Iterator[None]:
    """No object has a path for DuckDB."""
    with patch("firn.sql.relation._path", lambda *_: None):
        yield


if __name__ == "__main__":
    main()
