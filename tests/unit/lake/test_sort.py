"""Sorting in memory and by merging runs from disk."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.errors import InvalidInputError, UnsupportedError
from firn.lake.write.sort import sort_keys, sorted_batches, sorted_slices

COLUMNS = {"id": "BIGINT", "Flight Date": "DATE", "top desc": "BIGINT"}


def test_keys_of_a_sort_order() -> None:
    assert sort_keys(("Flight Date", "ID DESC", "top desc"), COLUMNS) == [
        ("Flight Date", "ascending"),
        ("id", "descending"),
        ("top desc", "ascending"),
    ]
    assert sort_keys(("top desc desc", "id asc"), COLUMNS) == [
        ("top desc", "descending"),
        ("id", "ascending"),
    ]


def test_columns_that_are_not_there_do_not_sort() -> None:
    assert sort_keys(("gone desc", "id", "desc"), COLUMNS) == [("id", "ascending")]


def test_a_column_sorts_once() -> None:
    with pytest.raises(InvalidInputError, match="'id' twice"):
        sort_keys(("id", "id desc"), COLUMNS)


VALUES: dict[str, Any] = {
    "int": lambda r: r.randrange(50),
    "text": lambda r: r.choice(["", "a", "B", "é", "\U0001f9ca", "\uffff"]) + str(r.randrange(20)),
    "float": lambda r: r.choice([r.random(), -0.0, math.inf, -math.inf]),
    "decimal": lambda r: Decimal(r.randrange(-500, 500)).scaleb(-2),
    "bool": lambda r: r.random() < 0.5,
    "blob": lambda r: r.randbytes(2),
}


def random_table(seed: int, rows: int) -> pa.Table:
    chance = random.Random(seed)
    columns = {
        name: [None if chance.random() < 0.1 else make(chance) for _ in range(rows)]
        for name, make in VALUES.items()
    }
    return pa.table({**columns, "row": range(rows)})


def as_keys(table: pa.Table, keys: list[tuple[str, str]]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name, _ in keys), strict=True))


@pytest.fixture
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [5_000, 20_000, 10**9])
def test_runs_merge_to_what_one_sort_gives(spills: Path, seed: int, budget: int) -> None:
    table = random_table(seed, 600)
    chance = random.Random(seed)
    names = chance.sample(sorted(VALUES), 1 + seed % 3)
    keys = [(name, chance.choice(["ascending", "descending"])) for name in names]
    batches = [pa.Table.from_batches([b]) for b in table.to_batches(max_chunksize=37)]
    parts = list(sorted_batches(batches, keys, budget=budget, rows=50))
    found = pa.concat_tables(parts)
    assert max(part.num_rows for part in parts) <= 50
    assert min(part.num_rows for part in parts) > 0
    assert as_keys(found, keys) == as_keys(table.sort_by(keys), keys)
    assert found.sort_by("row").equals(table)
    assert list(spills.iterdir()) == []


def test_nulls_come_last_in_both_directions(spills: Path) -> None:
    table = pa.table({"x": [None, 2, None, 1]})
    for order, expected in (("ascending", [1, 2, None, None]), ("descending", [2, 1, None, None])):
        for budget in (1, 10**9):
            batches = [table.slice(0, 2), table.slice(2, 2)]
            found = pa.concat_tables(sorted_batches(batches, [("x", order)], budget=budget, rows=10))
            assert found["x"].to_pylist() == expected


def test_memory_of_a_merge_of_runs_is_bounded(spills: Path) -> None:
    def batches() -> Iterator[pa.Table]:
        chance = random.Random(1)
        for _ in range(40):
            yield pa.table({"x": [chance.randrange(2**60) for _ in range(5000)], "y": ["z" * 50] * 5000})

    before = pa.total_allocated_bytes()
    peak = 0
    last = -1
    for part in sorted_batches(batches(), [("x", "ascending")], budget=2 << 20, rows=5000):
        peak = max(peak, pa.total_allocated_bytes() - before)
        first, end = part["x"][0].as_py(), part["x"][part.num_rows - 1].as_py()
        assert last <= first <= end
        last = end
    assert peak < 6 << 20  # of 13 MB in all


def test_sorted_rows_are_not_copied() -> None:
    table = pa.table({"x": [1, 2, 2, 5]})
    (part,) = sorted_slices(table, [("x", "ascending")], 10)
    assert part["x"].chunk(0).buffers()[1].address == table["x"].chunk(0).buffers()[1].address


def test_no_rows(spills: Path) -> None:
    empty = pa.table({"x": pa.array([], pa.int64())})
    assert list(sorted_batches([], [("x", "ascending")], budget=10, rows=10)) == []
    assert list(sorted_batches([empty], [("x", "ascending")], budget=10, rows=10)) == []


def test_what_has_no_order_is_refused() -> None:
    table = pa.table({"x": [[2], [1]]})
    with pytest.raises(UnsupportedError, match=r"x \(list"):
        list(sorted_slices(table, [("x", "ascending")], 10))


def test_an_error_on_the_way_leaves_no_files_behind(spills: Path) -> None:
    def batches() -> Iterator[pa.Table]:
        yield pa.table({"x": [2, 1]})
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        list(sorted_batches(batches(), [("x", "ascending")], budget=1, rows=10))
    assert list(spills.iterdir()) == []
