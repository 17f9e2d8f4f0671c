"""Keep one row for each key: upserts in small batches, and what readers pay before and after a merge.

A table is loaded, then batches come, half of keys that are there and half of new ones. The peer is delta-rs (PyPI
deltalake), which merges each batch into the files that it touches. Firn's own table without a key, to which the same
rows are appended, shows what the key costs; after the last merge it holds what the table with a key holds.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish

PLAIN = "no key"
DELTA = "delta-rs"
BUCKETS = 4


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="loaded before the batches")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-rows", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5, help="of the reads")
    options = parser.parse_args(argv)
    settings = {k: v for k, v in vars(options).items() if k != "out"}
    figures = Figures("keyed_lake", {**settings, "buckets": BUCKETS})
    with tempfile.TemporaryDirectory() as root:
        tables: dict[str, Any] = {
            FIRN: FirnTable(Path(root) / "firn", key=["id"]),
            PLAIN: FirnTable(Path(root) / "plain", key=[]),
        }
        if not options.no_peers:
            tables[DELTA] = DeltaRs(Path(root) / "delta")
        run(figures, tables, options)
    figures.notes.append(
        "Firn syncs every object and its directory to disk before an upsert returns; delta-rs syncs nothing. The "
        "table without a key holds each row as often as it came, until everything is merged."
    )
    finish(figures, options.out)
    return figures


class Keyed(Protocol):
    """A table under test. Each verb tells what is known of its cost."""

    def upsert(self, rows: pa.Table) -> dict[str, Any]: ...

    def compact(self) -> dict[str, Any]: ...

    def read(self, where: str | None = None) -> dict[str, Any]: ...


class FirnTable:
    def __init__(self, root: Path, key: Sequence[str]) -> None:
        import firn

        db = firn.connect(root)
        # The same partitions and order with and without a key.
        partition, order = [f"bucket({BUCKETS}, id)"], ["id"]
        self.table = db.create_table("t", key=key, partition_by=partition, sort_by=order)

    def upsert(self, rows: pa.Table) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        with counted(self.table.bucket, facts):
            self.table.append(rows)
        return facts

    def compact(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        with counted(self.table.bucket, facts):
            self.table.merge()
        return facts

    def read(self, where: str | None = None) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        with counted(self.table.bucket, facts):
            facts["rows"] = self.table.scan(where=where).to_arrow().num_rows
        return facts

    def content(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def replace(self, rows: pa.Table) -> None:
        self.table.overwrite(rows)


class DeltaRs:
    def __init__(self, root: Path) -> None:
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(str(root), batch(0, []))
        self.table = DeltaTable(str(root))

    def upsert(self, rows: pa.Table) -> dict[str, Any]:
        merge = self.table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return {}

    def compact(self) -> dict[str, Any]:
        self.table.optimize.compact()
        return {}

    def read(self, where: str | None = None) -> dict[str, Any]:
        import pyarrow.compute as pc

        found = None if where is None else pc.field("id") == int(where.split()[-1])
        return {"rows": self.table.to_pyarrow_dataset().to_table(filter=found).num_rows}


def batch(number: int, ids: Sequence[int]) -> pa.Table:
    """The versions that one batch brings of some rows, the same for every engine."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "batch": pa.array([number] * len(ids), pa.int64()),
            "place": pa.array([f"place-{i % 97}" for i in ids], pa.string()),
            "value": pa.array([(i * 2_654_435_761 + number) % 2**31 / 7 for i in ids], pa.float64()),
        }
    )


def batches(options: Any) -> list[pa.Table]:
    """After the load: half of the rows of each are new versions, half have new keys."""
    rng = random.Random(7)
    half = options.batch_rows // 2
    made = []
    for number in range(1, options.batches + 1):
        first = options.rows + (number - 1) * half
        ids = [*rng.sample(range(options.rows), half), *range(first, first + half)]
        made.append(batch(number, ids))
    return made


def run(figures: Figures, tables: dict[str, Any], options: Any) -> None:
    load = batch(0, range(options.rows))
    name = f"load {options.rows:,} rows"
    figures.pairs(name, {engine: partial(table.upsert, load) for engine, table in tables.items()})
    name = f"upsert {options.batch_rows:,} rows"
    for rows in batches(options):
        figures.pairs(name, {engine: partial(table.upsert, rows) for engine, table in tables.items()})
    figures.target(f"{name}: seconds, over delta-rs's merge", _over(figures, name, DELTA), at_most=1.0)
    figures.target(f"{name}: seconds, over an append without a key", _over(figures, name, PLAIN), at_most=1.5)
    half = options.batch_rows // 2
    keys = options.rows + options.batches * half
    read_all(figures, tables, f"read all, {options.batches} batches unmerged", options.rounds, keys=keys)
    figures.pairs("merge of the batches", {engine: table.compact for engine, table in tables.items()})
    read_all(figures, tables, "read all, the batches merged", options.rounds, keys=keys)
    large = batch(options.batches + 1, range(0, options.rows, 3))
    for table in tables.values():  # so much that a merge takes the files of the load too
        table.upsert(large)
    figures.pairs("merge of everything", {engine: table.compact for engine, table in tables.items()})
    same = tables[FIRN].content()
    tables[PLAIN].replace(same)
    name = "read all, everything merged"
    read_all(figures, tables, name, options.rounds, keys=keys)
    figures.target(
        f"{name}: seconds, over the table without a key", _over(figures, name, PLAIN), at_most=1.05
    )
    ids = random.Random(1).sample(range(keys), 10)
    look_up(figures, tables, "look 10 keys up, everything merged", ids, options.rounds)
    for table in tables.values():
        table.upsert(batches(options)[0])
    look_up(figures, tables, "look 10 keys up, one batch unmerged", ids, options.rounds)


def read_all(figures: Figures, tables: dict[str, Keyed], name: str, rounds: int, *, keys: int) -> None:
    figures.pairs(name, {engine: table.read for engine, table in tables.items()}, rounds=rounds)
    for engine in tables:
        found = figures.measure(name, engine).detail["rows"]
        assert found == keys or engine == PLAIN, f"{engine} has {found} rows, not {keys}"


def look_up(figures: Figures, tables: dict[str, Keyed], name: str, ids: Sequence[int], rounds: int) -> None:
    def looking(table: Keyed) -> Callable[[], dict[str, Any]]:
        def work() -> dict[str, Any]:
            total: dict[str, Any] = {}
            for number in ids:
                for fact, value in table.read(f"id = {number}").items():
                    total[fact] = round(total.get(fact, 0) + value, 3)
            assert total["rows"] >= len(ids), f"{total['rows']} rows of {len(ids)} keys"
            return total

        return work

    figures.pairs(name, {engine: looking(table) for engine, table in tables.items()}, rounds=rounds)


def _over(figures: Figures, name: str, engine: str) -> float | None:
    """Firn's time over an engine's."""
    theirs = figures.ratio(name, engine)
    return None if theirs is None else 1 / theirs


if __name__ == "__main__":
    main()
