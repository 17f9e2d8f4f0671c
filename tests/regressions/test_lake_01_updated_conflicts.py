"""An update of a table with a key wrote what had been set aside, and noted it nowhere: once it was resolved, or the
column's type set, the values were null."""

from __future__ import annotations

import pytest

import firn
from firn.lake.table import LakeTable


def unseen(table: LakeTable, rows: list[dict[str, object]]) -> None:
    """Append as a process that has seen no columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.journal, "columns", lambda **_: {"id": "BIGINT"})
        table.append(rows)


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize("how", ["resolve", "into", "types"])
def test_lake_01_what_an_update_set_aside_comes_back(journal: str, how: str) -> None:
    table = firn.connect("memory://", writer="w").create_table("t", journal=journal, key=["id"])
    unseen(table, [{"id": 1, "x": True, "n": 0}])
    unseen(table, [{"id": 2, "x": 0.5, "n": 0}])
    table.update("true", {"n": "n + 1"})
    assert [c.aside for c in table.conflicts()] == ["x~double"]
    if how == "resolve":
        table.resolve("x")
    elif how == "into":
        table.resolve("x~double", into="x", to="VARCHAR")
    else:
        table.alter(types={"x": "VARCHAR"})
    for _ in range(2):
        rows = table.scan().to_arrow().to_pylist()
        assert {r["id"]: (r["n"], r["x"] or str(r["x~double"])) for r in rows} == {1: (1, "true"), 2: (1, "0.5")}
        table.merge()
