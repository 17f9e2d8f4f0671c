"""Tables with a key over each journal, beside what tables without one have: soft deletes, files that can't be
revived, Bloom filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.model import Commit, SoftDelete
from firn.lake.definition.keys import HIDDEN
from firn.lake.table import LakeTable
from lake_journals import LAKES, Lake, WriterLake

COLUMNS = {"id": "BIGINT", "n": "BIGINT", "s": "VARCHAR"}

Make = Callable[..., LakeTable]


@pytest.fixture(params=LAKES)
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a table of each journal."""
    return lambda columns=COLUMNS, **properties: keyed(LAKES[request.param](), columns, **properties)


def keyed(lake: Lake, columns: Mapping[str, str] = COLUMNS, **properties: Any) -> LakeTable:
    return lake.create("t", schema=columns, key=["id"], properties=properties)


def content(table: LakeTable, **scan: Any) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["n"]) for row in table.scan(**scan).to_arrow().to_pylist())


# -- soft deletes


def test_a_delete_brings_no_older_version_back_whether_soft_deletes_are_the_default(make: Make) -> None:
    table = make()
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    table.upsert([{"id": 1, "n": 5}])
    result = table.delete("n = 5")
    assert (result.rows_deleted, result.files_marked) == (1, 0)
    assert content(table) == [(2, 1)]
    assert all(not file.deletes for file in table.snapshot().files)
    table.merge()
    assert content(table) == [(2, 1)]


@pytest.mark.parametrize("soft", [True, False])
def test_how_rows_are_deleted_cant_be_chosen(make: Make, soft: bool) -> None:
    table = make()
    table.upsert([{"id": 1, "n": 1}])
    with pytest.raises(UnsupportedError, match=f"t has a key.*Leave soft={soft} out"):
        table.delete("n = 1", soft=soft)
    assert content(table) == [(1, 1)]


def test_a_soft_delete_from_elsewhere_is_said_to_be_corrupt() -> None:
    table = keyed(WriterLake())
    for n in (1, 2):
        table.upsert([{"id": 1, "n": n}])
    then = table.snapshot().version
    paths = tuple(file.path for file in table.snapshot().files)
    with table.journal.exclusive("delete") as session:
        session.publish(Commit("delete", soft_deletes=[SoftDelete("n = 2", paths[1:])]))
    for read in (table.scan().to_arrow, table.scan().count, table.merge):
        with pytest.raises(CorruptObjectError, match=rf"{paths[1]} has a soft delete.*Restore an older"):
            read()
    table.restore(then)
    assert content(table) == [(1, 2)]


# -- files that can be revived, or can't


def test_restore_brings_back_versions_and_deletions(make: Make) -> None:
    table = make()
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 1}])
    table.delete_keys([{"id": 3}])
    table.upsert([{"id": 1, "n": 2}])
    then = table.snapshot()
    table.merge()
    table.overwrite([{"id": 9, "n": 9}])
    table.restore(then.version)
    restored = table.snapshot().files
    assert content(table) == [(1, 2), (2, 1)]
    assert {file.clocks for file in restored} == {file.clocks for file in then.files}
    shared = {file.path for file in restored} & {file.path for file in then.files}
    assert len(shared) == (3 if table.journal.revives else 0), (
        "no path is ever added twice to a writer's catalog"
    )
    table.merge()
    assert content(table) == [(1, 2), (2, 1)]


# -- Bloom filters


@pytest.mark.parametrize("merged", [False, True])
def test_bloom_filters_never_hide_a_newer_version(make: Make, merged: bool) -> None:
    table = make(bloom_filters=["s", "id"], row_group_rows=100)
    table.upsert([{"id": n, "n": 1, "s": f"s{n}"} for n in range(1000)])
    table.upsert([{"id": n, "n": 2, "s": f"new {n}"} for n in range(0, 1000, 2)])
    table.delete_keys([{"id": 1}])
    if merged:
        table.merge()
    for n, there in ((0, []), (1, []), (3, [(3, 1)]), (500, [])):
        assert content(table, where=f"s = 's{n}'") == there
        assert table.scan(where=f"s = 's{n}'").count() == len(there)
    assert content(table, where="s = 'new 500'") == [(500, 2)]
    assert content(table, where="id = 500") == [(500, 2)]


def test_hidden_columns_have_no_bloom_filters(make: Make) -> None:
    table = make(bloom_filters="auto")
    for start in range(0, 60, 2):  # so many commits that clocks are mostly distinct
        table.upsert([{"id": start, "n": start, "s": f"{start}"}])
    table.delete_keys([{"id": n} for n in range(20)])
    table.merge()
    for file in table.snapshot().files:
        extra = file.extra or {}
        assert HIDDEN.keys().isdisjoint(extra.get("bloom", {}))
        assert HIDDEN.keys().isdisjoint(extra["stats"])
        assert "id" in extra["bloom"]


def test_a_lookup_by_key_opens_only_files_that_may_hold_it(make: Make) -> None:
    table = make({"id": "VARCHAR", "n": "BIGINT"}, bloom_filters=["id"])
    for start in range(10):
        table.upsert([{"id": f"{n}-{start}", "n": n} for n in range(200)])  # of one range all of them
    assert len(table.scan(where="id = '42-7'").files()) < 4
    assert content(table, where="id = '42-7'") == [("42-7", 42)]
