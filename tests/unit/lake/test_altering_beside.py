"""Alters beside verbs of others that know an older definition, and beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from firn.lake.maintain import alteration
from firn.lake.table import LakeTable

Pair = tuple[LakeTable, LakeTable]

STALE = {"schema_refresh": "1h"}


@pytest.fixture(params=["leaderless", "writer"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    """Two connections' handles, which both know the table as it was created."""
    one, other = (firn.connect(tmp_path, writer=name) for name in ("a", "b"))
    schema = {"id": "BIGINT", "x": "BIGINT"}
    table = one.create_table("t", journal=request.param, schema=schema, properties=STALE)
    table.append([{"id": 1, "x": 1}])
    stale = other.table("t", kind="lake")
    stale.append([{"id": 2, "x": 2}])
    return table, stale


def _rows(table: LakeTable) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_an_overwrite_writes_by_the_definition_that_it_replaces_rows_of(pair: Pair) -> None:
    table, stale = pair
    table.alter(rename={"x": "z"}, add={"n": ("BIGINT", -1)})
    table.alter(add={"x": ("BIGINT", -2)})
    stale.overwrite([{"id": 2, "x": 20, "z": 21, "n": 22}], where="id = 2")
    assert _rows(table)[1] == {"id": 2, "x": 20, "z": 21, "n": 22}
    stale.merge()
    assert _rows(table)[1] == {"id": 2, "x": 20, "z": 21, "n": 22}


def test_an_overwrite_by_an_older_name_brings_no_second_column(pair: Pair) -> None:
    table, stale = pair
    table.alter(rename={"x": "z"})
    stale.overwrite([{"id": 2, "z": 20}], where="id = 2")
    assert list(table.scan().columns) == ["id", "z"] and _rows(table)[1] == {"id": 2, "z": 20}


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_rows_that_a_merge_into_inserts_go_by_the_names_of_its_snapshot(journal: str, tmp_path: Path) -> None:
    one, other = (firn.connect(tmp_path, writer=name) for name in ("a", "b"))
    schema = {"id": "BIGINT", "x": "BIGINT", "y": "BIGINT"}
    table = one.create_table("t", journal=journal, schema=schema, key=["id"], properties=STALE)
    table.append([{"id": 1, "x": 1, "y": 10}])
    stale = other.table("t", kind="lake")
    stale.append([{"id": 2, "x": 2, "y": 20}])
    table.alter(rename={"x": "y", "y": "x"})
    source = [{"id": 2, "x": 200}, {"id": 3, "x": 300}]
    stale.merge_into(
        source, on="t.id = s.id", when_matched={"x": "s.x"}, when_not_matched={"id": "s.id", "x": "s.x"}
    )
    assert [(row["x"], row["y"]) for row in _rows(table)] == [(10, 1), (200, 2), (300, None)]


def test_a_check_on_a_column_that_was_renamed_doesnt_fail_an_append_that_brings_one(pair: Pair) -> None:
    table, stale = pair
    table.alter(checks={"sane": "x > 0"})
    table.alter(rename={"x": "z"})
    stale.append([{"id": 3, "new": 5}])
    with pytest.raises(firn.CheckFailedError):
        stale.append([{"id": 3, "z": -1, "newer": 5}])


def test_values_are_taken_for_the_column_that_has_the_name_now(pair: Pair) -> None:
    table, stale = pair
    table.alter(types={"x": "DOUBLE"})
    stale.append([{"id": 3, "new": 1}])
    table.alter(rename={"x": "z"}, add={"x": "BIGINT"})
    stale.append([{"id": 4, "x": 4, "newer": 1}])
    assert _rows(table)[-1] == {"id": 4, "x": 4, "z": None, "new": None, "newer": 1}


def test_who_alters_knows_of_it_at_once(pair: Pair) -> None:
    table, _ = pair
    table.alter(types={"x": "DOUBLE"})
    table.append([{"id": 3, "x": 3}])
    table.alter(rename={"x": "z"})
    table.append([{"id": 4, "x": 4}])
    assert _rows(table)[-1] == {"id": 4, "z": None, "x": 4}


USES: dict[str, dict[str, Any]] = {
    "check": {"checks": {"sane": "x > 0"}},
    "order": {"sort_by": ["x"]},
    "filters": {"set_properties": {"bloom_filters": ["x"]}},
    "partition": {"partition_by": ["x"]},
    "bucket": {"partition_by": ["bucket(4, x)"]},
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("drops_last", [False, True])
def test_a_drop_beside_a_use_of_the_column_stops_no_append(
    use: str, drops_last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (firn.connect(tmp_path, writer=name) for name in ("a", "b"))
    schema = {"id": "BIGINT", "x": "BIGINT"}
    table = one.create_table("t", journal="writer", schema=schema, properties={"schema_refresh": "0s"})
    table.append([{"id": 1, "x": 1}])
    beside = other.table("t", kind="lake")
    alters: list[dict[str, Any]] = [USES[use], {"drop": ["x"]}]
    first, second = alters if drops_last else alters[::-1]
    plan, pending = alteration.Planner.plan, [first]

    def planned(self: alteration.Planner) -> Any:
        found = plan(self)
        if pending:
            table.alter(**pending.pop())
        return found

    monkeypatch.setattr(alteration.Planner, "plan", planned)
    beside.alter(**second)
    table.append([{"id": 2}])
    beside.append([{"id": 3, "x": -3}])  # where the column is gone, another one: its check is none of its
    assert [row["id"] for row in _rows(table)] == [1, 2, 3]
    assert table.scan(where="x = -3").count() == 1
    table.alter(sort_by=[], partition_by=[], set_properties={"bloom_filters": None})
    assert table.scan(where="x = -3").count() == 1


@pytest.mark.parametrize("use", USES)
def test_a_restore_to_before_a_column_that_is_used_stops_no_append(use: str, pair: Pair) -> None:
    table = pair[0]
    before = table.version
    table.alter(add={"w": ("BIGINT", 7)})
    table.alter(**{
        name: {key: text.replace("x", "w") for key, text in value.items()}
        if name == "checks"
        else {"bloom_filters": ["w"]}
        if name == "set_properties"
        else [text.replace("x", "w") for text in value]
        for name, value in USES[use].items()
    })  # fmt: skip
    table.append([{"id": 3, "w": 3}])
    table.restore(before)
    table.append([{"id": 4}])
    table.append([{"id": 5, "w": 5}])
    assert table.scan(where="w = 5").to_arrow()["id"].to_pylist() == [5]
    table.alter(partition_by=[], sort_by=[])
    assert table.scan(where="w = 5").to_arrow()["id"].to_pylist() == [5]
