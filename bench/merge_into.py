"""MERGE INTO: rows of a source, half of them new, into a table of TPC-H's shape, by random keys.

Once into a table without a key, whose files are replaced, and once into one with a key, where the merge is an upsert
that reads nothing. The peer is delta-rs (PyPI deltalake). Each round merges into a table of its own. Then the same
beside threads that append ten rows at a time until the merge has ended, and how many of these appends failed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.appenders import Append, appending
from bench.figures import FIRN, Figures, arguments, finish

DELTA, KEY = "delta-rs", "firn, with a key"
NAME = "merge, half updates and half inserts"
MERGE = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def sizes(doc: str | None) -> argparse.ArgumentParser:
    """The arguments that say how large a merge is."""
    parser = arguments(doc)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=6, help="appends that load the table")
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = sizes(__doc__)
    parser.add_argument("--appenders", type=int, default=8)
    options = parser.parse_args(argv)
    figures = Figures("merge_into", {k: v for k, v in vars(options).items() if k != "out"})
    changes = source(options.rows, options.changes)
    engines = [FIRN, KEY] + ([] if options.no_peers else [DELTA])
    for number in range(options.rounds):
        for at in range(len(engines)):
            engine = engines[(at + number) % len(engines)]
            with tempfile.TemporaryDirectory() as root:
                work = (delta if engine == DELTA else firn_table)(Path(root), options, key=engine == KEY)
                began, cpu = time.perf_counter(), time.process_time()
                rows = work(changes)
                took = time.perf_counter() - began
                figures.record(NAME, engine, took, cpu_s=time.process_time() - cpu, rows=rows())
    counts = {measure.detail["rows"] for measure in figures.measures.values()}
    assert len(counts) == 1, f"the engines don't agree: {counts}"
    for engine in engines if options.appenders else ():
        with tempfile.TemporaryDirectory() as root:
            _beside_appenders(figures, engine, Path(root), options, changes)
    figures.target("with a key, against delta-rs", _share(figures, KEY), at_most=0.2)
    figures.target("without a key, against delta-rs", _share(figures, FIRN), at_most=1.0)
    figures.notes.append(
        "Firn writes zstd and syncs each file to disk; delta-rs writes snappy and syncs nothing."
    )
    finish(figures, options.out)
    return figures


def _share(figures: Figures, engine: str) -> float | None:
    ratio = figures.ratio(NAME, engine, over=DELTA)
    return None if ratio is None else round(ratio, 3)


def _beside_appenders(figures: Figures, engine: str, root: Path, options: Any, changes: pa.Table) -> None:
    work = (delta if engine == DELTA else firn_table)(root, options, key=engine == KEY)
    append = (_delta_append if engine == DELTA else _firn_append)(root)

    def appends(number: int) -> Iterator[Append]:
        for at in count(10 * options.rows * (number + 1), 10):
            yield lambda at=at: append(rows_of(range(at, at + 10), 3))  # type: ignore[misc]

    lost = 0
    with appending([appends(number) for number in range(options.appenders)]) as counts:
        began = time.perf_counter()
        try:
            work(changes)
        except Exception:
            lost = 1
        took = time.perf_counter() - began
    detail = {"appends": counts["appends"], "failed": counts["failed"], "merges_failed": lost}
    figures.record(f"the same beside {options.appenders} appenders", engine, took, **detail)


def _firn_append(root: Path) -> Callable[[pa.Table], object]:
    import firn

    return firn.connect(root / "db").table("t", kind="lake").append


def _delta_append(root: Path) -> Callable[[pa.Table], object]:
    import deltalake

    return lambda rows: deltalake.write_deltalake(str(root / "t"), rows, mode="append")


def rows_of(ids: Sequence[int], quantity: int) -> pa.Table:
    """Rows of the shape of lineitem: numbers, a date, two flags and a text."""
    rng = random.Random(len(ids))
    count = len(ids)
    texts = ["carefully final deposits sleep", "ironic requests haggle", "even packages nod furiously"]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "quantity": pa.array([quantity] * count, pa.int32()),
            "price": pa.array([rng.random() * 1e5 for _ in range(count)]),
            "discount": pa.array([n % 11 / 100 for n in range(count)]),
            "shipped": pa.array([8035 + n % 2500 for n in range(count)], pa.int32()).cast(pa.date32()),
            "flag": pa.array([("A", "N", "R")[n % 3] for n in range(count)]),
            "comment": pa.array([texts[n % 3] for n in range(count)]),
        }
    )


def source(rows: int, changes: int) -> pa.Table:
    rng = random.Random(1)
    there = rng.sample(range(rows), changes // 2)
    return rows_of([*there, *range(rows, rows + changes - len(there))], 2)


def loads(options: Any) -> list[pa.Table]:
    ids = list(range(options.rows))
    random.Random(2).shuffle(ids)
    each = -(-options.rows // options.files)
    return [rows_of(ids[first : first + each], 1) for first in range(0, options.rows, each)]


def firn_table(root: Path, options: Any, *, key: bool) -> Any:
    import firn

    db = firn.connect(root / "db")
    table = db.create_table("t", key=["id"] if key else [])
    for rows in loads(options):
        table.append(rows)

    def work(changes: pa.Table) -> Any:
        db.sql(MERGE, tables={"s": changes})
        return lambda: table.scan().count()

    return work


def delta(root: Path, options: Any, *, key: bool) -> Any:
    import deltalake

    for rows in loads(options):
        deltalake.write_deltalake(str(root / "t"), rows, mode="append")
    table = deltalake.DeltaTable(str(root / "t"))

    def work(changes: pa.Table) -> Any:
        merge = table.merge(changes, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return lambda: table.to_pyarrow_dataset().count_rows()

    return work


if __name__ == "__main__":
    main()
