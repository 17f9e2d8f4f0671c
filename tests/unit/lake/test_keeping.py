"""Lake tables that keep themselves: what is folded when, by whom, and what it costs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.concurrency import at_exit
from firn.concurrency.at_exit import close_of
from firn.errors import (
    AccessDeniedError,
    CorruptObjectError,
    InvalidInputError,
    LockLostError,
    StoreUnavailableError,
)
from firn.inspect.report.report import render_report
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.maintain import session as sessions
from firn.journal.leaderless.maintain import work_note
from firn.journal.leaderless.maintain.known_log import KnownLog, Waiting
from firn.journal.model import DataFile
from firn.lake.definition.definition import LakeDefinition
from firn.lake.keep import fold as folds
from firn.lake.keep import keeper as keepers
from firn.lake.keep import policy
from firn.lake.keep.fold import Memory, fold
from firn.lake.keep.keeper import Keeper
from firn.lake.keep.policy import Pace, wants_fold, wants_sweep, wants_whole_view
from firn.lake.keep.table_keeper import TableKeeper
from firn.lake.maintain.plan import MergeGroup
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import GatedBucket, SimStore

FOLDED = {"inline": "64KB", "fold_at": 8}
KEPT = {**FOLDED, "maintain": "auto"}


def never_by_chance() -> float:
    return 0.99


def rows(table: LakeTable) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def parts(table: LakeTable) -> int:
    return sum(file.inlined is not None for file in table.snapshot().files)


def append(table: LakeTable, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        table.append([{"n": n}])


def sim_table(bucket: GatedBucket, by: str = "", **properties: Any) -> LakeTable:
    """A process's table over a simulated store, whose clock is turned by hand."""
    properties = {"inline": "64KB", "fold_at": 8, **properties}
    journal = LeaderlessJournal(
        bucket,
        "db/t",
        clock=bucket.clock,
        settings=LeaderlessSettings.from_properties(
            {k: v for k, v in properties.items() if k not in ("inline", "fold_at")}
        ),
        renew_in_background=False,
        windowed=True,
    )
    spec = PartitionSpec.parse([by] if by else [], {})
    definition = LakeDefinition("t", partition=spec, properties=properties)
    return LakeTable(bucket, "db/t", definition, journal, InProcess(LocalRunner(threads=1)))


@pytest.fixture
def own_keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    """The process's keeper, whose steps the test takes; it looks after each append."""
    keeper = Keeper(chance=lambda: 0.0, threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    return keeper


# -- the policy


@pytest.mark.parametrize(
    ("seen", "more", "wanted"),
    [
        (Waiting(), {}, False),
        (Waiting(63, 0, 0), {"now_ms": 0}, False),
        (Waiting(64, 0, 0), {"now_ms": 0}, True),
        (Waiting(79, 0, 0), {"now_ms": 0, "cold": True}, False),
        (Waiting(80, 0, 0), {"now_ms": 0, "cold": True}, True),
        (Waiting(1, 4 << 20, 0), {"now_ms": 0, "cold": True}, True),
        (Waiting(1, 0, 1), {"now_ms": 60_000}, False),
        (Waiting(1, 0, 1), {"now_ms": 60_001}, True),
        (Waiting(319, 0, 0), {"now_ms": 90_000, "partitions": 40}, False),
        (Waiting(320, 0, 0), {"now_ms": 0, "partitions": 40}, True),
        (Waiting(63, 1 << 30, 0), {"now_ms": 90_000, "inlines": False}, False),
        (Waiting(64, 0, 0), {"now_ms": 0, "inlines": False}, True),
    ],
)
def test_what_is_worth_a_fold(seen: Waiting, more: dict[str, Any], wanted: bool) -> None:
    given = {"cold": False, "partitions": 1, "inlines": True, "now_ms": 0, **more}
    assert wants_fold(seen, 64, **given) == wanted


def test_a_crowded_log_is_folded_sooner_until_two_folds_find_few() -> None:
    pace = Pace()
    for expected in (32, 16, 16):
        pace = pace.found(129, 64)
        assert pace.fold_at(64) == expected
    assert pace.found(128, 64).fold_at(64) == 16
    assert pace.found(128, 64).found(129, 64).found(20, 64).fold_at(64) == 16
    assert pace.found(128, 64).found(20, 64).fold_at(64) == 64
    assert Pace().found(200, 8).fold_at(8) == 8


def test_when_all_logs_are_read_anew() -> None:
    settings = LeaderlessSettings()  # a window of 9 minutes
    assert not wants_whole_view(539, 7, settings)
    assert wants_whole_view(540, 0, settings)
    assert wants_whole_view(0, 8, settings)
    assert wants_whole_view(300, 0, replace(settings, grace_ms=600_000))


def test_when_a_sweep_is_due() -> None:
    settings = LeaderlessSettings()
    assert not wants_sweep(255, 3599, settings)
    assert wants_sweep(256, 0, settings)
    assert wants_sweep(0, 3600, settings)


# -- folds


def test_folds_by_what_is_new_read_each_log_once(db: firn.Database) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    assert fold(table.context, memory).commits == 8
    for number in range(1, 4):
        append(table, 8, 8 * number)
        before = table.bucket.counters.as_dict()
        done = fold(table.context, memory)
        taken = table.bucket.counters.since(before)
        assert (done.commits, done.rows, done.files, done.survey) == (8, 8, 1, None)
        # The lock, and 8 logs; what is new, and once more after it was published; the lock twice, a file, the log.
        assert (taken["get"], taken["list"], taken["put"]) == (9, 2, 6)
    assert rows(table) == list(range(32)) and parts(table) == 0
    assert [commit.op for commit in table.history()].count("fold") == 4


def test_a_process_that_forgets_its_own_folds_reads_more(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what it has published itself, only the name."""
    known = sessions.after_publishing

    def forgetful(*given: Any) -> KnownLog:
        found = known(*given)
        listed = {**found.listed, found.newest: replace(found.listed[found.newest], etag="unread")}
        return replace(found, listed=listed)

    monkeypatch.setattr(sessions, "after_publishing", forgetful)
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    fold(table.context, memory)
    append(table, 8, 8)
    before = table.bucket.counters.as_dict()
    fold(table.context, memory)
    assert table.bucket.counters.since(before)["get"] == 10
    assert rows(table) == list(range(16))


def test_what_others_folded_meanwhile_is_not_folded_again(db: firn.Database) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    fold(table.context, memory)
    append(table, 8, 8)
    other = db.table("t")
    assert fold(other.context, Memory()).commits == 8
    append(table, 2, 16)
    assert fold(table.context, memory).commits == 2
    other.merge()
    append(table, 1, 18)
    done = fold(table.context, memory)
    assert (done.commits, done.survey) == (1, None)
    assert rows(table) == list(range(19)) and parts(table) == 0


def test_appends_that_come_late_wait_for_a_view_of_all_logs() -> None:
    store = SimStore()
    table, late = sim_table(store.bucket()), sim_table(store.bucket(skew_ms=-50_000))
    memory = Memory()
    append(table, 8)
    fold(table.context, memory)
    late.append([{"n": 100}])
    table.bucket.clock.sleep(1)  # type: ignore[attr-defined]
    append(table, 8, 8)
    assert fold(table.context, memory).commits == 8
    assert rows(table) == [*range(16), 100] and parts(table) == 1
    table.bucket.clock.sleep(600)  # type: ignore[attr-defined]
    append(table, 1, 16)
    done = fold(table.context, memory)
    assert (done.commits, done.survey is not None, parts(table)) == (2, True, 0)


def test_a_table_that_was_dropped_is_not_folded(db: firn.Database) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    fold(table.context, memory)
    db.drop_table("t")
    append(db.create_table("t", properties=FOLDED), 8)
    with pytest.raises(firn.TableNotFoundError):
        fold(table.context, memory)
    assert parts(db.table("t")) == 8


def test_a_table_that_is_dropped_during_a_fold_is_told(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    published = sessions.MaintenanceSession.publish

    def late(*given: Any) -> str:
        db.drop_table("t")
        return published(*given)

    monkeypatch.setattr(sessions.MaintenanceSession, "publish", late)
    with pytest.raises(LockLostError, match="is gone, as when a table is dropped"):
        fold(table.context, memory)


def test_a_fold_whose_newest_log_is_gone_reads_all_of_them(db: firn.Database) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    append(table, 8)
    fold(table.context, memory)
    other = db.table("t")
    append(other, 1, 8)
    other.merge()
    other.sweep(older_than="0s", orphans="0s")
    append(table, 8, 9)
    assert fold(table.context, memory).survey
    assert rows(table) == list(range(17)) and parts(table) == 0


def test_rows_with_a_key_and_of_renamed_columns_are_folded_as_they_are(db: firn.Database) -> None:
    table = db.create_table("t", key=["id"], properties=FOLDED)
    keeper = TableKeeper(table.context)
    for n in range(8):
        table.append([{"id": n % 3, "n": n}])
    assert keeper.round(force=True).commits == 8
    table.alter(rename={"n": "m"}, add={"extra": ("BIGINT", 7)})
    for n in range(8, 16):
        table.append([{"id": n % 3, "m": n}])
    report = keeper.round(force=True)
    assert (report.commits, parts(table)) == (8, 0)
    found = {row["id"]: (row["m"], row["extra"]) for row in table.scan().to_arrow().to_pylist()}
    assert found == {0: (15, 7), 1: (13, 7), 2: (14, 7)}


def test_files_are_merged_by_eights_of_a_size(db: firn.Database) -> None:
    table, memory = db.create_table("t", properties=FOLDED), Memory()
    most = written = 0
    for number in range(70):
        append(table, 8, 8 * number)
        done = fold(table.context, memory)
        written += done.bytes
        snapshot = table.snapshot()
        most = max(most, len(snapshot.files))
        assert sum(1 for _ in table.journal.loader.load().logs) < 20  # type: ignore[attr-defined]
    assert rows(table) == list(range(560)) and parts(table) == 0
    assert most <= 15
    assert [commit.op for commit in table.history()].count("fold") == 70


def test_large_files_are_merged_without_the_lock(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "AT_ONCE", 1000)
    table = db.create_table("t", partition_by=["p"], properties=FOLDED)
    keeper = TableKeeper(table.context)
    merged = 0
    for number in range(16):
        for p in range(2):
            table.append([{"p": p, "n": number}])
        merged += keeper.round(force=True).files_merged
    assert merged == 18 and len(table.snapshot().files) == 16
    assert {file.path.rpartition("/")[2][:7] for file in table.snapshot().files} == {"part-w-", "part-m-"}
    assert not table.bucket.list("t/_firn/work/").objects
    assert rows(table) == sorted([*range(16)] * 2)


def test_one_fold_merges_no_more_than_it_may_hold_the_lock_for() -> None:
    def group(size: int, rows: bool = False) -> MergeGroup:
        return MergeGroup("", (DataFile("x", size, 0, {"inlined": 1} if rows else None),))

    groups = [group(50), group(200), group(60), group(500, rows=True), group(40)]
    assert folds._bounded(groups, 100, 100) == [groups[0], groups[3], groups[4]]


def test_what_somebody_else_merges_is_left_alone(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "AT_ONCE", 1000)
    table = db.create_table("t", properties=FOLDED)
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    layout = journal.layout
    with work_note.take(db.bucket, layout.work_key(""), clock_key=layout.clock_key, seconds=600):  # type: ignore[union-attr]
        keeper = TableKeeper(table.context)
        for n in range(10):
            table.append([{"n": n}])
            assert not keeper.round(force=True).files_merged
    assert keeper.round(force=True).files_merged == 10


def test_partitions_that_get_nothing_any_more_are_merged_to_the_end() -> None:
    table = sim_table(SimStore().bucket(), by="day")
    keeper = TableKeeper(table.context)
    for day in range(3):
        for n in range(20):
            table.append([{"day": day, "n": n}])
            keeper.round(force=True)
    counts = [partition.files for partition in table.partitions()]
    assert counts[0] == 1 and counts[1] <= 7


# -- a table's keeper


def test_a_keeper_at_rest_costs_a_list(db: firn.Database) -> None:
    table = db.create_table("t", properties=FOLDED)
    append(table, 20)
    keeper = TableKeeper(table.context, alone=True)
    assert keeper.round().commits == 20
    for _ in range(3):
        before = table.bucket.counters.as_dict()
        assert not keeper.round().worked
        taken = table.bucket.counters.since(before)
        assert (taken["list"], sum(taken[verb] for verb in ("get", "put", "head", "delete"))) == (1, 0)


def test_a_keeper_looks_behind_what_others_have_folded(db: firn.Database) -> None:
    table = db.create_table("t", properties=FOLDED)
    append(table, 8)
    others = Memory()
    fold(db.table("t").context, others)
    append(table, 2, 8)
    keeper = TableKeeper(table.context)
    assert keeper.look().logs == 2
    assert others.known is not None and keeper.memory.counted == others.known.newest
    assert keeper.look().logs == 2


def test_old_rows_are_folded_however_few() -> None:
    table = sim_table(SimStore().bucket())
    clock = table.bucket.clock  # type: ignore[attr-defined]
    keeper = TableKeeper(table.context)
    append(table, 2)
    assert not keeper.round().worked
    assert keeper.rest_s is not None and 55 < keeper.rest_s <= 60
    clock.sleep(keeper.rest_s)
    assert keeper.round().commits == 2


def test_other_verbs_do_not_hide_rows_from_a_keeper(db: firn.Database) -> None:
    table = db.create_table("t", properties=FOLDED)
    keeper = TableKeeper(db.table("t").context)  # type: ignore[arg-type]
    for n in range(40):
        append(table, 1, n)
        if n % 4 == 3:
            table.delete(f"n = {n}")
        keeper.round()
        assert parts(table) <= 10
    assert rows(table) == [n for n in range(40) if n % 4 != 3]


def test_a_look_reads_what_others_maintained_once(db: firn.Database) -> None:
    table, other = db.create_table("t", properties=FOLDED), TableKeeper(db.table("t").context)  # type: ignore[arg-type]
    append(table, 12)
    TableKeeper(table.context).round()
    gets = []
    for _ in range(2):
        before = table.bucket.counters.as_dict()
        assert other.look().logs == 0
        gets.append(table.bucket.counters.since(before)["get"])
    assert gets == [1, 0]


def test_nobody_waits_for_a_lock_and_a_dead_holder_is_taken_over() -> None:
    store = SimStore()
    table, other = sim_table(store.bucket()), sim_table(store.bucket())
    clock = table.bucket.clock  # type: ignore[attr-defined]
    keeper = TableKeeper(table.context, chance=lambda: 0.5)
    append(table, 20)
    with other.journal.exclusive("merge"):
        began = clock.monotonic()
        assert keeper.round().busy == 1
        assert clock.monotonic() - began < 1 and keeper.rest_s == 0.5
        clock.sleep(20)
        assert keeper.round().busy == 1
        clock.sleep(11)  # it gave no sign for a lease
        assert keeper.round().commits == 20
    assert rows(table) == list(range(20))


def test_a_verb_waits_hardly_longer_than_a_keeper_holds_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SimStore()
    table, other = sim_table(store.bucket()), sim_table(store.bucket())
    append(table, 2)
    clock, rests = table.bucket.clock, []  # type: ignore[attr-defined]
    with other.journal.exclusive("fold") as held:

        def sleep(seconds: float) -> None:
            rests.append(seconds)
            if len(rests) == 5:
                held.lease.release()

        monkeypatch.setattr(clock, "sleep", sleep)
        table.delete("n = 0")
    assert rests == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert rows(table) == [1]


def test_a_single_round_waits_until_the_holder_is_known_to_be_dead() -> None:
    store = SimStore()
    table, other = sim_table(store.bucket()), sim_table(store.bucket())
    append(table, 2)
    with other.journal.exclusive("merge"):
        report = table.keep(once=True)
    assert (report.commits, report.busy) == (2, 0)


def test_a_sweep_takes_what_was_folded_longer_ago_than_the_grace() -> None:
    table = sim_table(SimStore().bucket())
    clock = table.bucket.clock  # type: ignore[attr-defined]
    keeper = TableKeeper(table.context)
    append(table, 10)
    keeper.round(force=True)
    assert len(table.bucket.list("db/t/_log/").objects) == 11
    clock.sleep(3600)
    assert not keeper.round().deleted  # within the margin for clocks
    clock.sleep(180)
    assert keeper.round().deleted == 10
    assert rows(table) == list(range(10))
    clock.sleep(7200)
    assert not keeper.round().worked and keeper.rest_s is None


# -- the keeper of a process


def test_appends_of_a_process_trigger_folds(db: firn.Database, own_keeper: Keeper) -> None:
    table = db.create_table("t", properties=KEPT)
    for n in range(40):
        table.append([{"n": n}])
        own_keeper.step()
        assert parts(table) <= 10
    assert rows(table) == list(range(40))
    db.create_table("quiet", properties={"inline": "64KB"}).append([{"n": 1}])
    assert len(own_keeper._tables) == 1
    db.close()
    assert not own_keeper._tables and not own_keeper._connections
    table.append([{"n": 40}])  # by a connection that was closed: nobody keeps it
    assert not own_keeper._tables


def test_appenders_have_their_table_kept(db: firn.Database, own_keeper: Keeper) -> None:
    table = db.create_table("t", properties=KEPT)
    with table.appender(rows=1) as out:
        for n in range(20):
            out.add({"n": n})
            out.flush()
    own_keeper.step()
    assert rows(table) == list(range(20)) and parts(table) == 0


def test_a_thread_of_the_process_folds(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(chance=lambda: 0.0)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    folded, round_ = threading.Event(), TableKeeper.round

    def watched(self: TableKeeper, **options: Any) -> Any:
        report = round_(self, **options)
        if report.folds:
            folded.set()
        return report

    monkeypatch.setattr(TableKeeper, "round", watched)
    table = db.create_table("t", properties=KEPT)
    append(table, 12)
    assert folded.wait(60)
    db.close()
    assert keeper._thread is not None
    keeper._thread.stop()
    assert not keeper._thread.running
    assert rows(table) == list(range(12)) and parts(table) < 12


def test_two_keepers_of_one_table_double_nothing(db: firn.Database) -> None:
    table = db.create_table("t", properties=FOLDED)
    stop, reports = threading.Event(), []

    def keep() -> None:
        keeper = TableKeeper(db.table("t").context)
        while not stop.is_set():
            reports.append(keeper.round())

    threads = [threading.Thread(target=keep) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(150):
        table.append([{"n": n}])
    stop.set()
    for thread in threads:
        thread.join()
    TableKeeper(table.context).round(force=True)
    assert rows(table) == list(range(150)) and parts(table) == 0
    assert sum(report.commits for report in reports) <= 150


@pytest.mark.parametrize(
    ("error", "rest_s", "level"),
    [
        (StoreUnavailableError("slow down"), 60.0, logging.WARNING),
        (CorruptObjectError("t/_log/x is damaged"), None, logging.ERROR),
        (AccessDeniedError("no"), None, logging.WARNING),
        (ZeroDivisionError("a bug"), None, logging.ERROR),
    ],
)
def test_errors_are_logged_and_end_at_most_the_keeping_of_one_table(
    error: Exception,
    rest_s: float | None,
    level: int,
    db: firn.Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, numbers = [1000.0], cycle([0.0])
    keeper = Keeper(chance=lambda: next(numbers), monotonic=lambda: now[0], threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])

    def failing(*given: Any, **options: Any) -> Any:
        raise error

    table, other = db.create_table("t", properties=KEPT), db.create_table("other", properties=KEPT)
    with monkeypatch.context() as patched:
        patched.setattr("firn.lake.keep.table_keeper.fold", failing)
        append(table, 10)
        assert keeper.step() == (rest_s or keepers.FORGET_S)
    assert [record.levelno for record in caplog.records] == [level]
    append(other, 10)
    keeper.step()
    assert parts(other) == 0
    append(table, 1, 10)
    now[0] += 61
    keeper.step()
    assert (parts(table) == 0) == (rest_s is not None)


def test_a_table_without_appends_is_forgotten(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    keeper = Keeper(chance=never_by_chance, monotonic=lambda: now[0], threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    table = db.create_table("t", properties={"maintain": "auto"})
    append(table, 1)
    now[0] = keepers.FORGET_S
    keeper.step()
    assert not keeper._tables and not keeper._connections


def test_a_table_has_one_keeper_however_many_connections_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(chance=never_by_chance, threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    first = firn.connect(tmp_path)
    append(first.create_table("t", properties=KEPT), 1)
    for _ in range(3):
        table = firn.connect(tmp_path).table("t")
        assert isinstance(table, firn.LakeTable)
        append(table, 1)
    assert (len(keeper._tables), len(keeper._connections)) == (1, 1)
    first.close()  # the last of the others goes on
    assert [(kept.owner, kept.due is None) for kept in keeper._tables.values()] == [
        (table.context.engines, False)
    ]
    close_of(table.context.engines)
    assert (len(keeper._tables), len(keeper._connections)) == (0, 0)
    append(table, 1)
    assert (len(keeper._tables), len(keeper._connections)) == (1, 1)


def test_connections_without_the_right_to_keep_a_table_say_so_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def denied(*given: Any, **options: Any) -> Any:
        raise AccessDeniedError("403")

    now = [0.0]
    keeper = Keeper(chance=lambda: 0.0, monotonic=lambda: now[0], threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    monkeypatch.setattr(TableKeeper, "round", denied)
    firn.connect(tmp_path).create_table("t", properties=KEPT)
    connections = [firn.connect(tmp_path) for _ in range(2)]
    for each in 3 * connections:
        each.table("t").append([{"n": 1}])
        keeper.step()
    assert len(caplog.records) == 2
    now[0] += keepers.FORGET_S + 1
    keeper.step()
    assert not keeper._tables and not keeper._connections


def test_nothing_is_kept_that_is_appended_as_the_process_ends(
    db: firn.Database, own_keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a thread that nobody waits for: the process would end with the table's lock held."""
    monkeypatch.setattr("firn.concurrency.at_exit.unclosed", set())
    monkeypatch.setattr("firn.concurrency.at_exit._ending", [])
    at_exit._close_all()
    append(db.create_table("t", properties=KEPT), 20)
    assert not own_keeper._tables


def test_what_one_handle_has_read_of_alterations_holds_for_all(tmp_path: Path, own_keeper: Keeper) -> None:
    first, second = firn.connect(tmp_path), firn.connect(tmp_path)
    one = first.create_table("t", properties=KEPT)
    append(one, 20)
    other = second.table("t")
    assert isinstance(other, LakeTable)
    other.alter(set_properties={"maintain": "none"})
    assert rows(one) == list(range(20))  # now it knows
    other.alter(set_properties={"maintain": "auto"})
    own_keeper.step()
    assert parts(one) == 20
    append(other, 1, 20)
    own_keeper.step()
    assert parts(other) == 0


def test_rows_of_few_appends_are_looked_at_when_they_are_old(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    keeper = Keeper(chance=never_by_chance, monotonic=lambda: now[0], threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    table = db.create_table("t", properties=KEPT)
    append(table, 1)
    assert 60 <= (keeper.step() or 0) <= 75


def test_what_waits_for_long_does_not_hold_up_later_appends(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, chance = [0.0], [0.0]
    keeper = Keeper(chance=lambda: chance[0], monotonic=lambda: now[0], threaded=False)
    monkeypatch.setattr(keepers, "_keepers", [keeper])
    table = db.create_table("t", properties=KEPT)
    append(table, 10)
    assert (keeper.step() or 0) > 3600 and parts(table) == 0  # the sweep of what was folded
    chance[0] = 0.99
    append(table, 1)
    assert 60 <= (keeper.step() or 0) <= 75


def test_appends_do_not_shorten_the_rest_after_an_error(
    db: firn.Database, own_keeper: Keeper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*given: Any, **options: Any) -> Any:
        raise StoreUnavailableError("slow down")

    now = [0.0]
    monkeypatch.setattr(own_keeper, "_monotonic", lambda: now[0])
    monkeypatch.setattr("firn.lake.keep.table_keeper.fold", failing)
    table = db.create_table("t", properties=KEPT)
    append(table, 10)
    for n in range(5):
        now[0] += 1
        own_keeper.step()
        append(table, 1, n)
    assert len(caplog.records) == 1
    now[0] += 60
    own_keeper.step()
    assert len(caplog.records) == 2


def test_an_alteration_ends_keeping_and_begins_it(db: firn.Database, own_keeper: Keeper) -> None:
    table = db.create_table("t", properties=KEPT)
    append(table, 20)
    table.alter(set_properties={"maintain": "none"})
    own_keeper.step()
    assert parts(table) == 20
    table.alter(set_properties={"maintain": "auto"})
    append(table, 1, 20)
    own_keeper.step()
    assert parts(table) == 0


def test_closing_waits_for_the_round_under_way(db: firn.Database, own_keeper: Keeper) -> None:
    table = db.create_table("t", properties=KEPT)
    append(table, 10)
    begun, seen = threading.Event(), []
    round_: Callable[..., Any] = TableKeeper.round

    class Slow(TableKeeper):
        def round(self, *, ended: Callable[[], bool] = lambda: False, **options: Any) -> Any:
            begun.set()
            while not ended():
                pass
            seen.append(round_(self, ended=ended, **options).commits)

    kept = next(iter(own_keeper._tables.values()))
    kept.keeper = Slow(table.context)
    thread = threading.Thread(target=own_keeper.step)
    thread.start()
    assert begun.wait(60)
    close_of(db.engines)
    assert seen == [10]
    thread.join()


def test_a_report_tells_of_keepers_and_of_damage_that_ends_their_work(db: firn.Database) -> None:
    table = db.create_table("t", properties={**KEPT, "fold_at": 1000})
    assert "none yet" in str(render_report(db))
    append(table, 10)
    TableKeeper(table.context).round(force=True)
    shown = str(render_report(db))
    assert "last fold by a keeper" in shown and "none yet" not in shown
    append(table, 1, 10)
    log = db.bucket.list("t/_log/").objects[-1].key
    db.bucket.put(log, b"{")
    assert log.rpartition("/")[2] in str(render_report(db))


# -- properties


def test_properties_that_cannot_be(db: firn.Database) -> None:
    for properties, text in [
        ({"fold_at": 7}, "8 or more"),
        ({"fold_at": "many"}, "8 or more"),
        ({"maintain": "yes"}, "'none' or 'auto'"),
        ({"maintain": "auto", "shared": "icedb"}, "another program may"),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            db.create_table("t", properties=properties)
    with pytest.raises(InvalidInputError, match="unknown table property"):
        firn.connect("memory://", writer="w").create_table("t", journal="writer", properties={"fold_at": 8})
    table = db.create_table("t")
    assert not table.context.definition.keeps_itself
    table.alter(set_properties={"maintain": "auto", "fold_at": "16"})
    assert table.context.definition.keeps_itself and table.context.definition.fold_at == 16
    table.alter(set_properties={"maintain": None})
    assert not table.context.definition.keeps_itself


def test_a_table_needs_conditional_puts_to_keep_itself(tmp_path: Any) -> None:
    db = firn.connect(
        "memory://", options={"conditional_put": "disabled"}, lock=firn.FileLock(tmp_path / "locks")
    )
    with pytest.raises(InvalidInputError, match="conditional puts"):
        db.create_table("t", properties={"maintain": "auto"})
    table = db.create_table("t", properties={"inline": "64KB"})
    with pytest.raises(InvalidInputError, match="conditional puts"):
        table.alter(set_properties={"maintain": "auto"})
    append(table, 10)
    assert table.keep(once=True).commits == 10  # what the message advises
    assert rows(table) == list(range(10))


def test_limits_are_those_of_the_design() -> None:
    assert (policy.LOOK_CHANCE, policy.COLD, policy.FOLD_BYTES, policy.CROWDED) == (
        1 / 16,
        1.25,
        4 << 20,
        128,
    )


def test_two_keepers_cost_what_one_does() -> None:
    def requests(count: int) -> int:
        url = f"memory://kept-by-{count}"
        table = firn.connect(url).create_table("t", properties=FOLDED)
        databases = [firn.connect(url) for _ in range(count)]
        turns = cycle([(db.table("t", kind="lake").context, Memory()) for db in databases])
        for _ in range(20):  # each views all logs twice
            append(table, 8)
            assert fold(*next(turns)).commits == 8
        assert table.scan().count() == 160
        counted = [db.bucket.counters for db in databases]
        return sum(each.get + each.put + each.list for each in counted)

    one, two = requests(1), requests(2)
    assert two <= 1.1 * one
