"""Merges of many bytes, which take the table's lock only to publish: what others do meanwhile, and what then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.journal.leaderless.maintain.lease import Lease
from firn.journal.leaderless.maintain.unlocked import PublishingSession
from firn.journal.model import LACKING, Commit
from firn.lake.maintain import merge as merging
from firn.lake.maintain import unlocked
from firn.lake.table import LakeTable


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """Every merge is large, and calls these, one a task, when it has written the task's files."""
    monkeypatch.setattr(merging, "UNLOCKED_BYTES", 0)
    calls: list[Callable[[], object]] = []
    real = unlocked.merge_task

    def merge_task(*given: Any) -> Any:
        done = real(*given)
        if calls:
            calls.pop(0)()
        return done

    monkeypatch.setattr(unlocked, "merge_task", merge_task)
    yield calls
    assert calls == [], "nothing was merged without the lock"


def filled(url: str, **options: Any) -> LakeTable:
    """Three appends of two partitions each."""
    table = firn.connect(url).create_table("t", partition_by=["p"], **options)
    for n in range(3):
        table.append([{"p": "a", "n": n}, {"p": "b", "n": 10 + n}])
    return table


def again(url: str) -> LakeTable:
    table = firn.connect(url).table("t")
    assert isinstance(table, LakeTable)
    return table


def values(table: LakeTable, at: str | None = None) -> list[int]:
    return sorted(table.scan(at=at).to_arrow()["n"].to_pylist())


EVERY = [0, 1, 2, 10, 11, 12]


def test_others_append_fold_and_delete_meanwhile(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table = filled(url, properties={"inline": "64KB"})
    table.merge(only="inlined")
    for n in (3, 4):
        table.append([{"p": "a", "n": n}])
        table.merge(only="inlined")
    other = again(url)

    def busy() -> None:
        other.append([{"p": "b", "n": 20}])
        other.merge(only="inlined")
        other.delete("n = 12")
        other.append([{"p": "b", "n": 21}])

    meanwhile.append(busy)
    done = table.merge()
    assert values(table) == [0, 1, 2, 3, 4, 10, 11, 20, 21]
    assert done.version == table.snapshot().version and done.files_removed == 3 and done.rows_deleted == 0
    # The row that came last is written into a file by the commit of the merge.
    assert all(file.inlined is None for file in table.snapshot().files)


def test_rows_that_were_deleted_meanwhile_stay_deleted(
    url: str, meanwhile: list[Callable[[], object]]
) -> None:
    table, other = filled(url), again(url)
    meanwhile += [lambda: other.delete("n = 1"), lambda: None, lambda: None]
    done = table.merge()
    assert values(table) == [0, 2, 10, 11, 12]
    # Partition b at once, and a in a second commit.
    assert (done.files_added, done.files_removed) == (2, 5)
    assert [line.op for line in table.history()][-3:] == ["delete", "merge", "merge"]
    assert len(table.snapshot().files) == 2


def test_a_partition_that_was_removed_meanwhile_stays_so(
    url: str, meanwhile: list[Callable[[], object]]
) -> None:
    table, other = filled(url), again(url)
    meanwhile.append(lambda: other.remove_partitions("p = 'a'"))
    table.merge(partitions=[{"p": "a"}])
    assert values(table) == [10, 11, 12]


def test_merges_of_two_partitions_at_once(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table, other = filled(url), again(url)
    meanwhile += [lambda: other.merge(partitions=[{"p": "b"}]), lambda: None]
    assert table.merge(partitions=[{"p": "a"}]).files_removed == 3
    assert values(table) == EVERY and len(table.snapshot().files) == 2
    assert [line.op for line in table.history()][-2:] == ["merge", "merge"]


def test_of_two_merges_of_one_partition_one_counts(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table, other = filled(url), again(url)
    meanwhile += [lambda: other.merge(), lambda: None]
    assert table.merge().version is None
    assert values(table) == EVERY and len(table.snapshot().files) == 2


def test_it_ends_however_often_it_is_overtaken(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table, other = filled(url), again(url)

    def spoil() -> None:
        other.append([{"p": "a", "n": 50}])
        other.delete("n = 50")
        other.rewrite("n <> 100 AND n >= 0")
        other.overwrite([{"p": "a", "n": 1}, {"p": "b", "n": 10}])
        other.append([{"p": "a", "n": 2}])

    meanwhile += [spoil] * merging.UNLOCKED_ROUNDS
    table.merge(partitions=[{"p": "a"}])
    assert values(table) == [1, 2, 10] and len(table.snapshot().files) == 2


def test_a_column_that_was_dropped_and_came_back_keeps_its_values(
    url: str, meanwhile: list[Callable[[], object]]
) -> None:
    table = firn.connect(url).create_table("t")
    for n in range(2):
        table.append([{"n": n, "note": f"kept {n}"}])
    before = table.snapshot().version
    table.alter(drop=["note"])
    other = again(url)
    meanwhile += [lambda: other.restore(before), lambda: None]
    table.merge()
    assert [row["note"] for row in table.scan().to_arrow().sort_by("n").to_pylist()] == ["kept 0", "kept 1"]


def test_columns_that_came_and_widened_meanwhile(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table = firn.connect(url).create_table("t", schema={"n": "INTEGER"})
    for n in range(2):
        table.append([{"n": n}])
    other = again(url)

    def change() -> None:
        other.append([{"n": 2**40}])
        other.alter(add={"kind": ("VARCHAR", "old")})
        other.append([{"n": 5, "kind": "new"}])

    meanwhile.append(change)
    assert table.merge().files_removed == 2
    found = table.scan().to_arrow().sort_by("n").to_pylist()
    assert [(row["n"], row["kind"]) for row in found] == [
        (0, "old"), (1, "old"), (5, "new"), (2**40, "old")
    ]  # fmt: skip
    # Engines that read Parquet by themselves neither widen nor know defaults: the marker tells.
    merged = next(file for file in table.snapshot().files if "part-w-" in file.path)
    assert merged.types == {"n": "INTEGER", "kind": LACKING}


def test_deletions_by_key_outlast_what_a_restore_brings_back(
    url: str, meanwhile: list[Callable[[], object]]
) -> None:
    table = firn.connect(url).create_table(
        "t", key=["id"], schema={"id": "BIGINT", "n": "BIGINT"}, properties={"delete_retention": "0s"}
    )
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.delete_keys([{"id": 1}])
    table.upsert([{"id": 3, "n": 3}])
    version = table.snapshot().version
    other = again(url)
    first = min(table.snapshot().files, key=lambda file: file.clocks or ("", ""))
    with table.journal.exclusive("remove") as session:
        session.publish(Commit("remove", [], [first.path]))
    meanwhile += [lambda: other.restore(version), lambda: None]
    table.merge()
    assert values(table) == [2, 3]


def test_the_lock_is_held_only_to_look_and_to_publish(
    url: str, meanwhile: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(url)
    state = "free"
    acquire, release = Lease.__init__, Lease.release

    def taken(self: Lease, *given: Any) -> None:
        nonlocal state
        acquire(self, *given)
        state = "held"

    def given_back(self: Lease) -> None:
        nonlocal state
        release(self)
        state = "free"

    monkeypatch.setattr(Lease, "__init__", taken)
    monkeypatch.setattr(Lease, "release", given_back)
    seen: list[str] = []
    meanwhile += [lambda: seen.append(state)] * 2
    before = table.bucket.counters.as_dict()
    table.merge()
    after = table.bucket.counters.as_dict()
    assert seen == ["free", "free"]
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "head")}
    # Of a merge under the lock 9 PUTs: 2 files, 5 for lock and log; here the lock is taken twice.
    assert spent == {"get": spent["get"], "put": 2 + 2 + 5, "list": 3, "head": 0}
    names = [file.path.rpartition("/")[2] for file in table.snapshot().files]
    assert all(name.startswith("part-w-") for name in names)


def test_a_small_merge_holds_the_lock_throughout(url: str) -> None:
    table = filled(url)
    table.merge()
    names = [file.path.rpartition("/")[2] for file in table.snapshot().files]
    assert all(name.startswith("part-m-") for name in names)


@pytest.mark.parametrize("options", [{"query": "SELECT * FROM source_files"}, {"only": "inlined"}])
def test_queries_and_folds_hold_the_lock(url: str, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "UNLOCKED_BYTES", 0)
    table = filled(url, properties={"inline": "64KB"})
    table.merge(**options)
    assert all("part-w-" not in file.path for file in table.snapshot().files)
    assert values(table) == EVERY


def test_under_a_lock_from_outside_it_is_held(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(merging, "UNLOCKED_BYTES", 0)
    filled(url)
    lock = firn.FileLock(str(tmp_path / "locks"))
    table = firn.connect(url, options={"conditional_put": "disabled"}, lock=lock).table("t")
    assert isinstance(table, LakeTable)
    table.merge()
    assert all("part-m-" in file.path for file in table.snapshot().files)


def test_parts_are_no_orphans_until_appends_are(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table, other = filled(url), again(url)
    meanwhile += [lambda: None, lambda: other.sweep(older_than="0s")]
    assert table.merge().files_added == 2
    assert values(table) == EVERY


def test_what_others_erased_meanwhile_is_in_no_object(
    url: str, meanwhile: list[Callable[[], object]]
) -> None:
    table, other = filled(url), again(url)

    def erase() -> None:
        other.delete("p = 'b'")
        other.sweep(older_than="0s")

    meanwhile += [lambda: None, erase]
    assert table.merge().files_added == 1
    assert values(table) == EVERY[:3]
    assert not table.bucket.list("t/_data/p=b/").objects


@pytest.mark.parametrize("error", [firn.LockHeldError("busy"), firn.OutcomeUnknownError("no answer")])
def test_a_merge_in_vain_leaves_no_files(
    error: firn.FirnError, url: str, meanwhile: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(url)

    def failing(self: PublishingSession, commit: Commit) -> str:
        raise error

    monkeypatch.setattr(PublishingSession, "publish", failing)
    meanwhile += [lambda: None] * 2
    with pytest.raises(type(error)):
        table.merge()
    left = [info.key for info in table.bucket.list("t/_data/").objects if "part-w-" in info.key]
    assert bool(left) == isinstance(error, firn.OutcomeUnknownError)


def test_a_sweep_of_all_orphans_is_noticed(url: str, meanwhile: list[Callable[[], object]]) -> None:
    table, other = filled(url), again(url)
    meanwhile += [lambda: None, lambda: other.sweep(orphans="0s")]
    with pytest.raises(firn.ConflictError, match=r"sweep by a shorter age.*run it again"):
        table.merge()
    assert values(table) == EVERY
    table.merge()
    assert values(table) == EVERY and len(table.snapshot().files) == 2


def test_one_that_took_too_long_is_refused(
    url: str, meanwhile: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(url)
    clock = table.journal.clock  # type: ignore[attr-defined]
    now, week = clock.monotonic, 7 * 24 * 3600
    holds = PublishingSession.holds

    def sleep(self: PublishingSession, paths: Iterable[str]) -> bool:
        clock.monotonic = lambda: now() + week
        return holds(self, paths)

    monkeypatch.setattr(PublishingSession, "holds", sleep)
    meanwhile += [lambda: None] * 2
    with pytest.raises(firn.AppendExpiredError, match="merge of"):
        table.merge()
    assert values(again(url)) == EVERY
