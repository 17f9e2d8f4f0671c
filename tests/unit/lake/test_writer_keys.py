"""Tables with a key over writers' catalogs: whoever has seen a row replaces it, however few its own commits are."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import firn
from firn.journal.model import DataFile
from firn.journal.writer.format.state import clock_above, clock_at, greatest_clock
from firn.lake.table import LakeTable
from seeds import seeds

NOW = {"schema_refresh": "0s"}  # appenders look at the others each time


def stock(root: Path, writer: str) -> LakeTable:
    """The table as another process opens it."""
    db = firn.connect(root / "prod", writer=writer)
    if "stock" in db.tables():
        return db.table("stock")
    return db.create_table(
        "stock", journal="writer", key=["id"], partition_by=["bucket(2, id)"], properties=NOW
    )


def content(table: LakeTable) -> dict[int, int]:
    found = table.scan().to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["n"] for row in found}


def markers(root: Path, writer: str) -> int:
    return len(list((root / "prod" / writer / "prod" / "markers").glob("*")))


def test_a_writer_of_few_commits_replaces_what_it_has_seen(tmp_path: Path) -> None:
    many = stock(tmp_path, "many")
    for n in range(5):
        many.upsert([{"id": i, "n": n} for i in range(4)])
    few = stock(tmp_path, "few")
    few.upsert([{"id": 0, "n": 100}])
    assert few.update("id = 1", {"n": "n + 100"}).rows_updated == 1
    assert few.delete("id = 2").rows_deleted == 1
    few.delete_keys([{"id": 3}])
    assert content(few) == content(stock(tmp_path, "third")) == {0: 100, 1: 104}
    many.upsert([{"id": 0, "n": 200}, {"id": 3, "n": 200}])
    assert content(few) == {0: 200, 1: 104, 3: 200}


def test_who_hasnt_seen_a_row_is_ordered_by_number_then_writer(tmp_path: Path) -> None:
    first = stock(tmp_path, "a")
    tables = [first, *(stock(tmp_path, name) for name in ("b", "c"))]
    for n, table in enumerate(tables):  # one after the other, and each sees those before
        table.upsert([{"id": 1, "n": n}])
    assert content(first) == {1: 2}
    clocks = sorted(clocks[0] for file in first.snapshot().files if (clocks := file.clocks) is not None)
    assert [clock[:22] for clock in clocks] == [clock_at(n, w) for n, w in ((2, "a"), (3, "b"), (4, "c"))]


def test_a_transactions_later_steps_win(tmp_path: Path) -> None:
    many = stock(tmp_path, "many")
    for n in range(4):
        many.upsert([{"id": 1, "n": n}, {"id": 2, "n": n}])
    db = firn.connect(tmp_path / "prod", writer="few")
    with db.writer_transaction() as tx:
        tx.append("stock", [{"id": 1, "n": 10}, {"id": 3, "n": 10}])
        tx.append("stock", [{"id": 1, "n": 11}])
        tx.delete("stock", "id >= 2")
    assert content(many) == {1: 11}


@pytest.mark.parametrize("seed", seeds(6, short=2))
def test_any_writers_in_turn_keep_a_dict(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    tables = [stock(tmp_path, name) for name in ("a", "b", "c")]
    truth: dict[int, int] = {}
    for step in range(25):
        table = rng.choice(tables)
        ids = rng.sample(range(8), rng.randint(1, 3))
        verb = rng.choice(["upsert", "upsert", "update", "delete", "delete_keys", "merge"])
        named = f"id IN ({', '.join(map(str, ids))})"
        if verb == "upsert":
            table.upsert([{"id": i, "n": step} for i in ids])
            truth.update(dict.fromkeys(ids, step))
        elif not truth and verb != "merge":
            continue
        elif verb == "update":
            table.update(named, {"n": "n + 1000"})
            truth.update({i: truth[i] + 1000 for i in ids if i in truth})
        elif verb == "merge":
            table.merge()
        else:
            _ = table.delete(named) if verb == "delete" else table.delete_keys([{"id": i} for i in ids])
            truth = {i: n for i, n in truth.items() if i not in ids}
        assert content(rng.choice(tables)) == truth, (step, verb)


def test_a_marker_tells_a_clock_that_the_revision_doesnt(tmp_path: Path) -> None:
    many = stock(tmp_path, "many")
    many.upsert([{"id": 1, "n": 0}])  # brings the columns, and says so
    defined = markers(tmp_path, "many")
    for n in range(3):
        many.upsert([{"id": 1, "n": n}])
    assert markers(tmp_path, "many") == defined
    few = stock(tmp_path, "few")
    for n in (10, 11):
        few.upsert([{"id": 1, "n": n}])
    assert markers(tmp_path, "few") == 2
    clocks = [file.clocks for file in few.snapshot().files]
    shutil.rmtree(tmp_path / "prod" / "few" / "prod" / "transactions")
    firn.connect(tmp_path / "prod", writer="few").rebuild()
    again = stock(tmp_path, "few")
    assert [file.clocks for file in again.snapshot().files] == clocks
    assert content(again) == {1: 11}


def test_numbers_of_clocks() -> None:
    assert clock_above(clock_at(7, "w"), 3) == clock_at(7, "w")
    assert clock_above(clock_at(7, "w"), 7) == clock_at(8, "w")
    files = [
        DataFile("x", 1, 0, {"clocks": [clock_at(2, "b"), clock_at(n, "a") + "#000000"]}) for n in (9, 4)
    ]
    assert greatest_clock(files) == 9
    assert greatest_clock([DataFile("x", 1, 0, {"rows": 2})]) == 0
