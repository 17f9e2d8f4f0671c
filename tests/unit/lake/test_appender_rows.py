"""Rows of appenders: what they are once they were added, whichever others share their batch."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import firn
from firn.lake.table import LakeTable

IDLE = {"seconds": 3600}
"""No commit begins by time: all rows of a block share one."""


@pytest.fixture
def table() -> LakeTable:
    return firn.connect("memory://").create_table("t", properties={"inline": "64KB"})


def test_what_a_row_holds_is_what_it_was_too(table: LakeTable) -> None:
    row: dict[str, Any] = {"n": 0, "tags": [], "at": {"x": 0}, "raw": bytearray(b"0")}
    with table.appender() as out:
        for n in range(3):
            row["n"] = n
            row["tags"].append(n)
            row["at"]["x"] = n
            row["raw"][0] = n
            out.add(row)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["n"]) == [
        {"n": n, "tags": list(range(n + 1)), "at": {"x": n}, "raw": bytes([n])} for n in range(3)
    ]


def test_a_row_that_is_nested_too_deeply_is_refused_at_once(table: LakeTable) -> None:
    deep: list[Any] = []
    deep.append(deep)
    with table.appender() as out:
        with pytest.raises(firn.InvalidInputError, match="nested too deeply"):
            out.add({"n": deep})
        out.add({"n": 1})
    assert table.scan().count() == 1


TOGETHER = [
    {"d": 1.5, "u": "00000000-0000-0000-0000-000000000001", "s": {"a": 1}, "z": datetime(2026, 1, 1)},
    {"d": Decimal("2.5"), "u": UUID(int=2), "s": {"A": 2}, "z": datetime(2026, 1, 1, tzinfo=timezone.utc)},
]
"""Rows of which each fits, but whose values make no list of one type."""


@pytest.mark.parametrize("on_reject", [None, lambda rows, error: None], ids=["failing", "rejecting"])
def test_rows_that_fit_alone_fit_together(table: LakeTable, on_reject: Any) -> None:
    columns = {"d": "DECIMAL(5,2)", "u": "UUID", "s": "STRUCT(a BIGINT)", "z": "TIMESTAMPTZ"}
    table.alter(add=columns)
    with table.appender(on_reject=on_reject, **IDLE) as out:
        for row in TOGETHER:
            out.add(row)
    assert out.stats.commits == 1 and out.stats.rejected == 0
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(row["u"]))
    assert [row["s"]["a"] for row in rows] == [1, 2] and [row["d"] for row in rows] == [
        Decimal("1.5"),
        Decimal("2.5"),
    ]


def test_others_dont_take_the_default_from_a_row(table: LakeTable) -> None:
    table.append([{"n": 0}])
    table.alter(add={"c": ("BIGINT", 7)})
    with table.appender(**IDLE) as out:
        for row in ({"n": 1}, {"n": 2, "c": 5}, {"n": 3, "c": None}):
            out.add(row)
    assert dict(table.scan().to_arrow().select(["n", "c"]).to_pydict()) == {
        "n": [0, 1, 2, 3],
        "c": [7, 7, 5, None],
    }


def test_a_row_of_nothing_but_unknown_nulls_is_a_row(table: LakeTable) -> None:
    table.append([{"n": 0}])
    with table.appender(**IDLE) as out:
        out.add({"m": None})
    assert table.scan().to_arrow().column("n").to_pylist() == [0, None]


class Unreadable:
    """A value whose `repr` fails."""

    def __repr__(self) -> str:
        raise RuntimeError("unreadable")


def test_whatever_a_value_raises_is_a_reason_to_reject_its_row(table: LakeTable) -> None:
    rejected: list[Exception] = []
    with table.appender(on_reject=lambda rows, error: rejected.append(error)) as out:
        for row in ({"n": 1}, {"n": Unreadable()}, {"n": 2}):
            out.add(row)
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == [1, 2]
    assert [type(error) for error in rejected] == [firn.InvalidInputError]
