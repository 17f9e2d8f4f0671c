"""Files of other writers: no change touches them, and each says how many match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firn.lake.results import ChangeResult
from firn.lake.table import LakeTable
from lake_journals import WriterLake

COLUMNS = {"k": "BIGINT", "p": "VARCHAR"}


def make(**definition: Any) -> tuple[LakeTable, LakeTable]:
    """A table as its owner sees it, and as another writer does."""
    lake = WriterLake()
    mine = lake.create("t", schema=COLUMNS, **definition)
    return mine, lake.connect("other").table("t")


def paths_of(table: LakeTable) -> set[str]:
    """The files that a connection's writer has."""
    return {file.path for file in table.snapshot().files if table.journal.owns(file.path)}


def rows(table: LakeTable) -> list[tuple[int, str]]:
    return sorted((row["k"], row["p"]) for row in table.scan().to_arrow().to_pylist())


@pytest.fixture
def both() -> tuple[LakeTable, LakeTable]:
    """Two files of another writer, of partitions a and b, and two of one's own in a."""
    mine, other = make(partition_by=["p"])
    other.append([{"k": 1, "p": "a"}, {"k": 2, "p": "b"}])
    mine.append([{"k": 1, "p": "a"}, {"k": 3, "p": "a"}])
    mine.append([{"k": 4, "p": "a"}])
    return mine, other


@pytest.fixture
def table(both: tuple[LakeTable, LakeTable]) -> LakeTable:
    return both[0]


@pytest.fixture
def other(both: tuple[LakeTable, LakeTable]) -> LakeTable:
    return both[1]


CHANGES: dict[str, tuple[Callable[[LakeTable], ChangeResult], int, list[tuple[int, str]]]] = {
    "soft delete": (lambda t: t.delete("k = 1"), 1, [(1, "a"), (2, "b"), (3, "a"), (4, "a")]),
    "soft delete of whole files": (
        lambda t: t.delete("p = 'a'"),
        1,
        [(1, "a"), (2, "b")],
    ),
    "delete": (lambda t: t.delete("k = 1", soft=False), 1, [(1, "a"), (2, "b"), (3, "a"), (4, "a")]),
    "merge": (lambda t: t.merge(), 2, [(1, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "a")]),
    "merge of a partition": (
        lambda t: t.merge(partitions=[{"p": "a"}]),
        1,
        [(1, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "a")],
    ),
    "rewrite": (lambda t: t.rewrite("k > 1"), 1, [(1, "a"), (2, "b"), (3, "a"), (4, "a")]),
    "rewrite by a query": (
        lambda t: t.rewrite("SELECT k + 10 AS k, p FROM _rows"),
        2,
        [(1, "a"), (2, "b"), (11, "a"), (13, "a"), (14, "a")],
    ),
    "remove": (lambda t: t.remove_partitions("p = 'a'"), 1, [(1, "a"), (2, "b")]),
    "overwrite": (lambda t: t.overwrite([{"k": 9, "p": "c"}]), 2, [(1, "a"), (2, "b"), (9, "c")]),
    "overwrite of what is touched": (
        lambda t: t.overwrite([{"k": 9, "p": "a"}], partitions="touched"),
        1,
        [(1, "a"), (2, "b"), (9, "a")],
    ),
    "overwrite by a predicate": (
        lambda t: t.overwrite([{"k": 1, "p": "a"}], where="k = 1"),
        1,
        [(1, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "a")],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_leaves_them_and_counts_those_that_match(
    table: LakeTable, other: LakeTable, change: str
) -> None:
    run, foreign, left = CHANGES[change]
    theirs = paths_of(other)
    result = run(table)
    assert result.foreign_files == foreign and result.version is not None
    assert rows(table) == rows(other) == left
    assert paths_of(other) == theirs and len(theirs) == 2
    assert all(not file.deletes for file in table.snapshot().files if file.path in theirs)


def test_a_dry_run_counts_the_same(table: LakeTable, other: LakeTable) -> None:
    assert table.delete("k = 1", dry_run=True).foreign_files == 1
    assert table.delete("k = 1", soft=False, dry_run=True).foreign_files == 1
    assert table.merge(dry_run=True).foreign_files == 2
    assert table.rewrite("k <> 1", dry_run=True).foreign_files == 1
    assert table.remove_partitions("p = 'b'", dry_run=True).foreign_files == 1
    assert not paths_of(other).intersection(table.merge(dry_run=True).files)


def test_they_are_counted_where_there_is_nothing_to_do(table: LakeTable) -> None:
    for result in (
        table.delete("p = 'b'"),
        table.delete("p = 'b'", soft=False),
        table.rewrite("p <> 'b'"),
        table.remove_partitions("p = 'b'"),
    ):
        assert (result.version, result.foreign_files) == (None, 1)


def test_restore_leaves_what_others_did_since(table: LakeTable, other: LakeTable) -> None:
    then = table.snapshot().version
    table.overwrite([{"k": 9, "p": "c"}])
    assert other.delete("k = 1").files_removed == 1
    assert other.delete("k + 0 = 2").files_marked == 1
    result = table.restore(then)
    assert result.foreign_files == 2
    assert rows(table) == rows(other) == [(1, "a"), (3, "a"), (4, "a")]


def test_a_merge_remembers_deleted_keys_while_others_have_files_in_the_partition() -> None:
    table, other = make(key=["k"], properties={"delete_retention": "0s"})
    other.upsert([{"k": 1, "p": "a"}])
    table.delete("k = 1")
    table.upsert([{"k": 2, "p": "a"}])
    assert table.merge().foreign_files == 1
    assert rows(table) == rows(other) == [(2, "a")]


def test_where_others_rows_stand_is_no_matter_to_what_is_touched() -> None:
    mine, other = make(partition_by=["p"])
    mine.append([{"k": 1, "p": "a"}])
    other.append([{"k": 1, "p": "b"}])
    mine.alter(partition_by=["k"])
    mine.merge(respec=True)
    mine.overwrite([{"k": 1, "p": "c"}], partitions="touched")
    assert rows(mine) == [(1, "b"), (1, "c")]
