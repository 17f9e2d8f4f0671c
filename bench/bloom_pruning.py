"""Look single values of a high-cardinality column up in a few hundred files: which are opened, with and without
Bloom filters, what that costs, and what the filters take in the log.

The values are spread over all files, so that minimum and maximum rule none out. Afterwards the table is merged
into large files, whose filters are inside of them, and the same values are looked up by row group.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish

PLAIN = "no filters"
ENGINES = {FIRN: "id, account", PLAIN: None}


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument(
        "--rows", type=int, default=2_000, help="of each file; the filters of 6,000 fit the log"
    )
    parser.add_argument(
        "--lookups", type=int, default=100, help="of values that are there, and of as many that aren't"
    )
    parser.add_argument("--group-rows", type=int, default=20_000, help="of the row groups of merged files")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    settings = {k: v for k, v in vars(options).items() if k != "out"}
    figures = Figures("bloom_pruning", settings)
    with tempfile.TemporaryDirectory() as root:
        run(figures, Path(root), options)
    figures.notes.append("The target of false positives is 1 % a filter; up to 2 % are admitted to the log.")
    finish(figures, options.out)
    return figures


def rows(number: int, count: int) -> pa.Table:
    """The rows of one file, the same for every engine."""
    rng = random.Random(number)
    return pa.table(
        {
            "id": [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(count)],
            "account": pa.array([rng.getrandbits(62) for _ in range(count)], pa.int64()),
            "pad": [f"{rng.getrandbits(256):x}" for _ in range(count)],
        }
    )


def run(figures: Figures, root: Path, options: Any) -> None:
    import firn

    tables = {}
    for engine, columns in ENGINES.items():
        properties = {"row_group_rows": options.group_rows, "bloom_filters": columns}
        db = firn.connect(root / engine.replace(" ", "-"))
        tables[engine] = db.create_table("t", properties=properties)

    def append(engine: str) -> dict[str, Any]:
        for number in range(options.files):
            tables[engine].append(rows(number, options.rows))
        return marker_bytes(tables[engine])

    name = f"{options.files} appends of {options.rows:,} rows"
    for engine in tables:
        figures.timed(name, engine, partial(append, engine))
    rng = random.Random(-1)
    numbers = [rng.randrange(options.files) for _ in range(options.lookups)]
    there = {
        "id": [f"'{rows(n, 1)['id'][0]}'" for n in numbers],
        "account": [f"{rows(n, options.rows)['account'][-1]}" for n in numbers],
    }
    absent = {
        "id": [f"'{uuid.UUID(int=rng.getrandbits(128))}'" for _ in numbers],
        "account": [str(rng.getrandbits(62)) for _ in numbers],
    }
    for column in there:
        plan(figures, tables, column, there[column], matching=1, rounds=options.rounds)
        plan(figures, tables, column, absent[column], matching=0, rounds=options.rounds)
    look_up(figures, tables, f"read {options.files} files", there["id"][:20], options.rounds)
    for table in tables.values():
        table.merge()
    look_up(figures, tables, "read them merged, by row group", there["id"][:20], options.rounds)


def marker_bytes(table: Any) -> dict[str, Any]:
    """What the log's markers take a file, with what of it are filters."""
    extras = [file.extra or {} for file in table.snapshot().files]
    filters = [len(orjson.dumps(extra["bloom"])) if "bloom" in extra else 0 for extra in extras]
    return {
        "marker_bytes_a_file": round(statistics.mean(len(orjson.dumps(extra)) for extra in extras)),
        "of_which_filters": round(statistics.mean(filters)),
        "file_bytes": round(statistics.mean(file.size for file in table.snapshot().files)),
    }


def plan(
    figures: Figures, tables: dict[str, Any], column: str, values: list[str], *, matching: int, rounds: int
) -> None:
    """Which files are left to open for each value; `matching` of them hold it."""
    name = f"plan {len(values)} lookups by {column}, {'there' if matching else 'absent'}"

    def planning(table: Any) -> dict[str, Any]:
        snapshot = table.snapshot()
        opened = 0
        for value in values:
            scan = table.scan(where=f"{column} = {value}")
            assert scan.snapshot.version == snapshot.version
            opened += len(scan.files())
        wrong = opened - matching * len(values)
        return {
            "files_opened_a_lookup": round(opened / len(values), 3),
            "files_that_match": matching,
            "false_positives": round(wrong / (len(values) * (len(snapshot.files) - matching)), 5),
        }

    figures.pairs(name, {engine: partial(planning, table) for engine, table in tables.items()}, rounds=rounds)
    rate = figures.measure(name, FIRN).detail["false_positives"]
    figures.target(f"{name}: false positives", rate, at_most=0.02)


def look_up(figures: Figures, tables: dict[str, Any], name: str, values: list[str], rounds: int) -> None:
    """Read the rows of single values: requests and bytes of all of them together."""

    def reading(table: Any) -> Callable[[], dict[str, Any]]:
        def work() -> dict[str, Any]:
            facts: dict[str, Any] = {}
            found = 0
            with counted(table.bucket, facts):
                for value in values:
                    found += table.scan(where=f"id = {value}").to_arrow().num_rows
            assert found == len(values), f"{found} rows, not {len(values)}"
            return facts

        return work

    full = f"{name}: {len(values)} lookups"
    figures.pairs(full, {engine: reading(table) for engine, table in tables.items()}, rounds=rounds)
    mine, plain = (figures.measure(full, engine).detail["mb_in"] for engine in (FIRN, PLAIN))
    figures.target(f"{full}: bytes, over those without filters", mine / max(plain, 1e-9), at_most=0.5)


if __name__ == "__main__":
    main()
