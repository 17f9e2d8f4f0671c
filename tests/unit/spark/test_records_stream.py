"""What Spark reads of a record table's commits, without Spark: changes, and the batches of streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firn.database.kinds.records import RecordOptions
from firn.errors import InvalidInputError, SnapshotTooOldError, TableNotFoundError
from firn.records.plan.read import RecordsRead
from firn.records.table import RecordTable
from firn.spark.records import changes
from firn.spark.records.changes import RecordChangesRead, RecordFollower
from record_worlds import World, put, rows_of, spent


@pytest.fixture
def world() -> World:
    return World()


def test_changes_are_read_by_tasks(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    first = put(table, {"a": {"n": 1}, "b": {"n": 1}})
    second = put(table, {"a": None})
    read = RecordChangesRead.of(table, since=first - 1)
    assert rows_of(read) == [
        {"_id": "a", "n": 1, "_kind": "put", "_seq": first},
        {"_id": "b", "n": 1, "_kind": "put", "_seq": first},
        {"_id": "a", "n": None, "_kind": "delete", "_seq": second},
    ]
    assert rows_of(RecordChangesRead.of(table, since=first, columns=["_kind"])) == [{"_kind": "delete"}]
    assert len(rows_of(read.where("_kind = 'put' AND _id = 'b'"))) == 1
    assert spent(table.bucket, read.units) == {}
    assert rows_of(RecordChangesRead.of(table, since=second)) == []


def test_changes_are_shared_out_by_commits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    seqs = [put(table, {"a": {"n": n}, f"{n}": {"n": n}}) for n in range(7)]
    monkeypatch.setattr(changes, "UNIT_COMMITS", 3)
    read = RecordChangesRead.of(table, since=seqs[0])
    assert [(unit.work.after, unit.work.upto) for unit in read.units()] == [
        (seqs[0], seqs[3]),
        (seqs[3], seqs[6]),
    ]
    assert len(rows_of(read)) == 12


class Asked:
    starting_time = None
    since: str | None = None


def follow(follower: RecordFollower, most: int | None = None, offset: Any = None) -> tuple[Any, list[Any]]:
    """The next batch, read twice, as a stream that was restarted does."""
    begun = follower.beginning(Asked()) if offset is None else offset  # type: ignore[arg-type]
    ended = follower.advance(begun, most, None)
    if ended == begun:
        return ended, []
    read, again = follower.between(begun, ended), follower.between(begun, ended)
    rows = sorted(rows_of(read), key=lambda row: (row.get("_seq", 0), row["_id"]))
    assert sorted(rows_of(again), key=lambda row: (row.get("_seq", 0), row["_id"])) == rows
    return ended, rows


def test_a_stream_gives_all_rows_and_then_what_is_put(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    other = table.session
    put(table, {"a": {"n": 1}, "b": {"n": 1}})
    follower = RecordFollower(table, RecordsRead.of(table))
    offset, rows = follow(follower)
    assert rows == [{"_id": "a", "n": 1}, {"_id": "b", "n": 1}]
    assert follow(follower, offset=offset) == (offset, [])
    put(table, {"a": {"n": 2}, "b": None})
    put(table, {"a": {"n": 3}, "c": {"n": 3}})
    put(table, {"c": None})
    offset, rows = follow(follower, offset=offset)
    assert rows == [{"_id": "a", "n": 3}]
    assert other.store.log.head().number == int(offset["version"])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_stream_of_many_commits_is_folded_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    follower = RecordFollower(table, RecordsRead.of(table))
    offset, _ = follow(follower)
    for n in range(9):
        put(table, {f"{n % 4}": {"n": n}, "x": {"n": n}})
    monkeypatch.setattr(changes, "FOLD_COMMITS", -(-9 // parts))
    ended = follower.advance(offset, None, None)
    read = follower.between(offset, ended)
    assert read is not None
    assert len(read.units()) == parts
    found = {row["_id"]: row["n"] for row in rows_of(read)}
    assert found == {"0": 8, "1": 5, "2": 6, "3": 7, "x": 8}
    assert len(rows_of(read)) == 5


def test_a_stream_of_changes_tells_each_and_batches_are_bounded(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    plain = world.open(world.create("plain"))
    first = put(table, {"a": {"n": 1}})
    follower = RecordFollower(table, RecordChangesRead.of(table))
    offset, rows = follow(follower)
    assert [(row["_kind"], row["_seq"]) for row in rows] == [("put", first)]
    for n in range(3):
        put(table, {"a": {"n": n}})
        put(plain, {"a": {"n": n}})
        put(table, {"a": None})
    told = []
    for _ in range(3):
        offset, rows = follow(follower, most=2, offset=offset)
        told.append([row["_kind"] for row in rows])
    assert told == [["put", "delete"]] * 3
    assert follow(follower, most=2, offset=offset) == (offset, [])


def test_commits_of_other_tables_make_no_batch_until_there_are_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, plain = world.create("t"), world.create("plain")
    follower = RecordFollower(table, RecordsRead.of(table))
    offset, _ = follow(follower)
    put(plain, {"a": {}})
    assert follower.advance(offset, None, None) == offset
    # What was looked at isn't looked at again.
    assert "get" in spent(table.bucket, lambda: follower.advance(offset, None, None))
    monkeypatch.setattr(changes, "QUIET_COMMITS", 3)
    put(plain, {"a": {}})
    assert follower.advance(offset, None, None) == offset
    put(plain, {"a": {}})
    later = follower.advance(offset, None, None)
    assert int(later["version"]) == int(offset["version"]) + 3
    put(table, {"a": {}})
    assert [row["_id"] for row in follow(follower, offset=later)[1]] == ["a"]


def test_a_stream_begins_after_a_version(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    first = put(table, {"a": {"n": 1}})
    put(table, {"b": {"n": 2}})
    options = Asked()
    options.since = str(first)
    follower = RecordFollower(table, RecordsRead.of(table))
    begun = follower.beginning(options)  # type: ignore[arg-type]
    assert follow(follower, offset=begun)[1] == [{"_id": "b", "n": 2}]
    options.since = "0"
    begun = follower.beginning(options)  # type: ignore[arg-type]
    with pytest.raises(SnapshotTooOldError, match="was created by commit"):
        follower.advance(begun, None, None)
    options.since = "yesterday"
    with pytest.raises(InvalidInputError, match="number of a commit"):
        follower.beginning(options)  # type: ignore[arg-type]


def test_a_stream_of_a_table_that_was_made_again_ends(world: World) -> None:
    tables = world.tables()
    table = tables.create(tables.describe("t", RecordOptions()))
    assert isinstance(table, RecordTable)
    put(table, {"a": {}})
    follower = RecordFollower(table, RecordsRead.of(table))
    offset, _ = follow(follower)
    tables.drop(table.definition)
    with pytest.raises(TableNotFoundError):
        follower.advance(offset, None, None)
    tables.create(tables.describe("t", RecordOptions()))
    for step in (lambda: follower.advance(offset, None, None), lambda: follower.between(offset, offset)):
        with pytest.raises(SnapshotTooOldError, match=r"was dropped and made again.*new checkpoint"):
            step()


def test_a_stream_that_rests_until_the_log_is_swept_says_so(world: World) -> None:
    table = world.create("t")
    put(table, {"a": {}})
    follower = RecordFollower(table, RecordsRead.of(table))
    offset, _ = follow(follower)
    for n in range(3):
        put(table, {"a": {"n": n}})
    world.age(3600)
    put(table, {"b": {}})
    world.age(3600)
    table.sweep(older_than=60, orphans=60)
    # Packed, and still told.
    rested = RecordFollower(world.open(table), RecordsRead.of(table))
    assert [row["_id"] for row in follow(rested, offset=offset)[1]] == ["a", "b"]
    world.age(3600)
    table.sweep(older_than=60, orphans=60)
    rested = RecordFollower(world.open(table), RecordsRead.of(table))
    with pytest.raises(SnapshotTooOldError, match="can't be told any more"):
        rested.advance(offset, None, None)


@pytest.mark.parametrize("kind", [RecordsRead, RecordChangesRead])
def test_a_stream_keeps_the_columns_of_its_start(
    world: World, kind: type[RecordsRead | RecordChangesRead]
) -> None:
    table = world.create("t", schema={"n": "INTEGER", "old": "VARCHAR"})
    put(table, {"a": {"n": 1, "old": "x"}})
    started = RecordFollower(table, kind.of(table))
    table.alter(drop=["old"], add={"new": "VARCHAR"})
    put(table, {"b": {"n": 2, "new": "y"}})
    offset, rows = follow(started)
    shown = [{name: row[name] for name in row if not name.startswith("_")} for row in rows]
    assert shown == [{"n": 1, "old": "x"}, {"n": 2, "old": None}]
    put(table, {"c": {"n": 3, "new": "z"}})
    after, rows = follow(started, offset=offset)
    assert [(row["n"], row["old"]) for row in rows] == [(3, None)]
    table.alter(types={"n": "BIGINT"})
    put(table, {"d": {"n": 2**40}})
    with pytest.raises(
        InvalidInputError, match="'n' was INTEGER when this query was started, and is BIGINT by now"
    ):
        follow(started, offset=after)
    only = RecordFollower(table, replace(started.plan, names=("_id", "old")))
    assert [row["_id"] for row in follow(only, offset=after)[1]] == ["d"]
    again = RecordFollower(table, kind.of(table))
    _, rows = follow(again, offset=offset)
    assert [(row["n"], row["new"]) for row in rows] == [(3, "z"), (2**40, None)]


def test_tasks_read_a_table_as_it_was_at_a_commit(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER", "old": "VARCHAR"})
    then = put(table, {"a": {"n": 1, "old": "x"}})
    table.alter(drop=["old"], types={"n": "VARCHAR"})
    put(table, {"a": {"n": "one"}})
    assert rows_of(RecordsRead.of(table)) == [{"_id": "a", "n": "one"}]
    assert rows_of(RecordsRead.of(table, at=then)) == [{"_id": "a", "n": 1, "old": "x"}]
