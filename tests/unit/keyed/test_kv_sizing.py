"""The table of sizes: the paper's figures where it is right, and what it should say where it isn't."""

from __future__ import annotations

import pytest

import firn
from firn.keyed.definition.sizing import Workload, sizing


def values(workload: Workload | None = None) -> dict[str, float]:
    return {row.id: row.value for row in sizing(workload)}


PAPER = {
    "A": 32,
    "B": 50,
    "C": 1600,
    "D": 10,
    "E": 10248,
    "F": 10,
    "G": 6000,
    "I": 60,
    "J": 1000,
    "K": 100,
    "M": 60,
    "Q": 86400,
    "R": 0.065,
}
ROUNDED = {"H": 16, "L": 6.3, "N": 2.5, "O": 80.6, "S": 0.56}


def test_the_papers_example_gives_the_papers_values() -> None:
    found = values()
    assert {row: found[row] for row in PAPER} == PAPER
    for row, value in ROUNDED.items():
        assert found[row] == pytest.approx(value, rel=0.025), row
    assert found["P"] == pytest.approx(806, abs=1)  # the paper rounds to 800


def test_the_rows_that_are_printed_wrong_are_mended() -> None:
    # Q: by the compaction's period, not by the writes a second. S: the price is for 10,000.
    assert values(Workload(writes_per_second=500))["Q"] == 86400
    assert values(Workload(compaction_s=120))["Q"] == 43200
    found = values(Workload(dollars_per_10k_writes=1))
    assert found["S"] == pytest.approx(8.64)


def test_the_puts_of_level_0_are_the_largest_cost() -> None:
    found = values()
    assert found["T"] == 259_200_000
    assert found["U"] == pytest.approx(1684.8)
    assert found["V"] == pytest.approx(found["S"] + found["U"])
    assert found["U"] > 1000 * found["S"]
    assert values(Workload(flush_ms=100))["T"] == 25_920_000


def test_there_are_no_more_flushes_than_writes() -> None:
    found = values(Workload(writes_per_second=2))
    assert found["G"] == 120
    assert found["T"] == 2 * 30 * 24 * 3600
    assert values(Workload(writes_per_second=0))["V"] == pytest.approx(found["S"])


def test_each_row_is_what_its_expression_says() -> None:
    rows = sizing(
        Workload(flush_ms=50, db_gb=7, key_kb=0.5, value_kb=2, writes_per_second=30, compaction_s=45)
    )
    known: dict[str, float] = {row.id: row.value for row in rows}
    for row in rows:
        text = row.expression.replace("²", "**2").replace("10,000", "10000")
        assert eval(text, {"min": min}, known) == pytest.approx(row.value), row


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_mb": 0},
        {"flush_ms": 0},
        {"compaction_s": 0},
        {"db_gb": -1},
        {"key_kb": float("nan")},
        {"value_kb": float("inf")},
        {"updates_percent": 101},
        {"writes_per_second": "many"},
        {"writes_per_second": True},
    ],
)
def test_what_cant_be_is_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(firn.errors.InvalidInputError, match=name):
        Workload(**wrong)
