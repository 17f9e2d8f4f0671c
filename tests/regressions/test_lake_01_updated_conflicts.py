"""An update of a table with a key wrote what had been set aside, and noted it nowhere: once it was resolved, or the
column's type set, the values were null. An overwrite by the rows that a scan gave lost them at once."""

from __future__ import annotations

from typing import Any

import pytest

import firn
from moments import append_late


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize("how", ["resolve", "into", "types"])
def test_lake_01_what_an_update_set_aside_comes_back(journal: str, how: str) -> None:
    table = firn.connect("memory://", writer="w").create_table("t", journal=journal, key=["id"])
    append_late(table, [{"id": 1, "x": True, "n": 0}], {"id": "BIGINT"})
    append_late(table, [{"id": 2, "x": 0.5, "n": 0}], {"id": "BIGINT"})
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
        assert {r["id"]: (r["n"], r["x"] or str(r["x~double"])) for r in rows} == {
            1: (1, "true"),
            2: (1, "0.5"),
        }
        table.merge()


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize("options", [{}, {"where": "id > 0"}, {"partitions": "touched"}])
def test_lake_01_rows_that_were_read_can_be_written_back(journal: str, options: dict[str, Any]) -> None:
    table = firn.connect("memory://", writer="w").create_table("t", journal=journal)
    append_late(table, [{"id": 1, "x": True}], {"id": "BIGINT"})
    append_late(table, [{"id": 2, "x": 0.5}], {"id": "BIGINT"})
    rows = table.scan().to_arrow()
    table.overwrite(rows, **options)
    assert table.scan().to_arrow().sort_by("id").to_pylist() == rows.sort_by("id").to_pylist()
    table.resolve("x")
    table.merge()
    assert {r["id"]: r["x"] for r in table.scan().to_arrow().to_pylist()} == {1: "true", 2: "0.5"}


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")
@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize("resolved", [False, True])
def test_lake_01_a_restore_brings_back_what_was_set_aside(journal: str, resolved: bool) -> None:
    """Where restores write files anew, by the columns of today, it was lost if no live file had it."""
    table = firn.connect("memory://", writer="w").create_table("t", journal=journal)
    append_late(table, [{"id": 1, "x": 1}], {"id": "BIGINT"})
    append_late(table, [{"id": 2, "x": "a"}], {"id": "BIGINT"})
    version, rows = table.version, table.scan().to_arrow().sort_by("id").to_pylist()
    table.delete("\"x~varchar\" = 'a'")
    if resolved:
        table.alter(types={"x": "VARCHAR"})
    table.restore(version)
    if not resolved:
        assert table.scan().to_arrow().sort_by("id").to_pylist() == rows
        table.resolve("x")
    for _ in range(2):
        shown = table.scan().to_arrow().to_pylist()
        assert {r["id"]: r["x"] or r["x~varchar"] for r in shown} == {1: "1", 2: "a"}
        table.merge()
