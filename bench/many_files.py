"""Queries in process over one table of thousands of small files: all of its rows, and one key or value.

The peer is DuckDB over the same files, by their names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, finish

DUCKDB = "DuckDB"
QUERIES = {
    "all rows": ("SELECT count(*) AS n, sum(x) AS x FROM t", 0.5),
    "one key": ("SELECT * FROM t WHERE k = 4711", 0.2),
}


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--rows", type=int, default=100, help="rows of a file")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    figures = Figures("many_files", {k: v for k, v in vars(options).items() if k != "out"})
    with tempfile.TemporaryDirectory() as root:
        _measure(figures, _filled(Path(root), options.files, options.rows), options)
    finish(figures, options.out)
    return figures


def _filled(root: Path, files: int, rows: int) -> Any:
    """A database with the table `t`, and a checkpoint."""
    import firn

    db = firn.connect(root / "db")
    table = db.create_table("t")
    for number in range(files):
        keys = range(number * rows, (number + 1) * rows)
        table.append(pa.table({"k": keys, "x": [key % 97 for key in keys], "s": [f"row {k}" for k in keys]}))
    table.checkpoint()
    return db


def _measure(figures: Figures, db: Any, options: Any) -> None:
    import duckdb

    files = [uri.removeprefix("file://") for uri in db.table("t").scan().uris()]
    duck = duckdb.connect()
    duck.execute(f"CREATE VIEW t AS FROM read_parquet({files})")

    def run(query: Callable[[], pa.Table]) -> Callable[[], dict[str, Any]]:
        return lambda: {"rows": query().num_rows, "files": len(files)}

    for name, (text, bound) in QUERIES.items():
        work = {FIRN: run(lambda text=text: db.sql(text).to_arrow())}  # type: ignore[misc]
        if not options.no_peers:
            work[DUCKDB] = run(lambda text=text: duck.sql(text).to_arrow_table())  # type: ignore[misc]
            assert db.sql(text).to_arrow().to_pylist() == duck.sql(text).to_arrow_table().to_pylist()
        for each in work.values():
            each()
        figures.pairs(name, work, rounds=options.rounds)
        figures.target(f"{name}: seconds", figures.measure(name, FIRN).median, at_most=bound)


if __name__ == "__main__":
    main()
