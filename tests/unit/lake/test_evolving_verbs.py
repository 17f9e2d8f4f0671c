"""Tables whose columns are renamed, dropped and added: what each verb makes of it, on both journals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.lake.table import LakeTable

Create = Callable[..., LakeTable]


@pytest.fixture(params=["leaderless", "writer"])
def create(request: pytest.FixtureRequest) -> Create:
    """Creates a table of each journal, with what `create_table` takes."""
    db = firn.connect(f"memory://{uuid4().hex}", writer="w")
    return lambda **options: db.create_table("t", journal=request.param, **options)


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("partition_by", [[], ["a"]])
def test_a_dropped_name_comes_back_as_another_column(create: Create, partition_by: list[str]) -> None:
    table = create(partition_by=partition_by)
    table.append([{"id": 1, "a": 1, "b": 5}])
    table.alter(drop="b")
    table.append([{"id": 2, "a": 1, "b": "new"}])
    assert rows(table) == [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": 1, "b": "new"}]
    assert [column.physical for column in table.definition().columns] == ["id", "a", "b~1"]


@pytest.mark.parametrize("key", [[], ["id"]])
def test_rows_that_are_changed_beside_new_ones_keep_their_columns(create: Create, key: list[str]) -> None:
    table = create(key=key)
    table.append([{"id": 1, "a": 1}])
    table.alter(add={"b": ("VARCHAR", "default")})
    table.append([{"id": 2, "a": 2, "b": "own"}])
    table.merge_into(
        [{"n": 2}, {"n": 3}],
        on="t.id = s.n",
        when_matched={"a": "s.n + 7"},
        when_not_matched={"id": "s.n", "a": "s.n"},
    )
    assert rows(table) == [
        {"id": 1, "a": 1, "b": "default"},
        {"id": 2, "a": 9, "b": "own"},
        {"id": 3, "a": 3, "b": "default"},
    ]


def test_rows_that_an_overwrite_leaves_keep_their_columns(create: Create) -> None:
    table = create()
    table.append([{"id": 1, "a": 1}])
    table.alter(add={"b": ("VARCHAR", "default")})
    table.append([{"id": n, "a": n, "b": "own"} for n in (2, 3)])
    table.overwrite([{"id": 3, "a": 30}], where="id = 3")
    assert rows(table) == [
        {"id": 1, "a": 1, "b": "default"},
        {"id": 2, "a": 2, "b": "own"},
        {"id": 3, "a": 30, "b": "default"},
    ]
