"""`Database.keep` over tables of every kind, and of none."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firn
from firn import keeping
from firn.database.keep import KeptTables
from firn.database.kinds.records import KEPT as RECORDS
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.leaderless.maintain import work_note
from firn.keeping import Keeping, KeepReport, Turns, keep_on, parse_interval
from firn.keyed.maintain import keep as keyed
from firn.lake.keep import keeper as keepers
from firn.records.maintain import keep as records
from firn.testing import SimStore


def test_tables_of_every_kind(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "COLLECT_FROM", 1)
    lake = db.create_table("lake", properties={"inline": "64KB"})
    for n in range(3):
        lake.append([{"n": n}])
    keyed_table = db.create_table("keyed", kind="keyed")
    with keyed_table.open(compaction=False) as kv:
        for n in range(30):
            kv.put(b"%d" % n, b"")
    db.create_table("people", kind="records").insert("ada", {"born": 1815})
    db.create_table("single", kind="records", isolation="row").insert("ada", {"born": 1815})
    told: list[KeepReport] = []
    found = db.keep(once=True, tell=told.append)
    assert found.keys() == {"lake", "keyed", RECORDS}
    assert (found["lake"].commits, found["lake"].rows) == (3, 3)
    assert found["keyed"].files_merged == 30
    assert sorted(report.table for report in told) == ["keyed", "lake"]
    assert not any(report.worked or report.error for report in db.keep(once=True).values())
    assert lake.scan().count() == 3 and not [f for f in lake.snapshot().files if f.inlined]
    assert db.table("keyed", kind="keyed").reader().get(b"7") == b""
    assert db.table("people", kind="records").get("ada")["born"] == 1815


def test_a_shared_table_is_kept_where_it_is_named(db: firn.Database) -> None:
    shared = db.create_table("shared", properties={"shared": "icedb"})
    shared.append([{"n": 1}])
    assert db.keep(once=True) == {}
    assert db.keep("shared", once=True).keys() == {"shared"}
    with pytest.raises(firn.TableNotFoundError, match="nope"):
        db.keep(["nope"], once=True)


def test_a_writer_keeps_its_own_part(connect: Callable[..., firn.Database]) -> None:
    mine, theirs = connect("a"), connect("b")
    table = mine.create_table("cpu", journal="writer")
    other = theirs.table("cpu", kind="lake")
    for n in range(8):
        table.append([{"n": n}])
        other.append([{"n": n}])
    assert connect().keep(once=True) == {}
    with pytest.raises(firn.InvalidInputError, match="cpu: of a table of writers' catalogs"):
        connect().keep("cpu", once=True)
    assert mine.keep(once=True)["cpu"].files_merged == 8
    assert len(table.snapshot().files) == 9 and table.scan().count() == 16


def test_one_damaged_table_does_not_hold_up_the_others(
    db: firn.Database, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "whole"):
        table = db.create_table(name, properties={"inline": "64KB"})
        for n in range(3):
            table.append([{"n": n}])
    log = db.bucket.list("broken/_log/").objects[0]
    db.bucket.put(log.key, b"{")
    fresh = KeptTables(db._tables)
    keeping = Keeping(once=True)
    found = keeping.run(fresh.turns)
    assert found["whole"].commits == 3
    error = found["broken"].error
    assert error is not None and log.key in error and "isn't kept any more" in caplog.text
    assert keeping.run(fresh.turns)["broken"].error is None  # it has no more turns
    with pytest.raises(CorruptObjectError):
        db.table("broken").snapshot()


def test_a_table_that_comes_later_is_found(db: firn.Database) -> None:
    now = [0.0]
    kept = KeptTables(db._tables, monotonic=lambda: now[0])
    assert list(kept.turns()) == []
    db.create_table("t")
    assert list(kept.turns()) == []
    now[0] = 300.0
    assert [turn.name for turn in kept.turns()] == ["t"]
    db.drop_table("t")
    now[0] = 600.0
    assert list(kept.turns()) == []


@pytest.mark.parametrize("names", [None, ["t"]])
def test_a_table_that_was_created_anew_is_kept(db: firn.Database, names: list[str] | None) -> None:
    now = [0.0]
    kept = KeptTables(db._tables, names, monotonic=lambda: now[0])

    def commits() -> list[int]:
        now[0] += 300.0
        return [turns.take(force=True).commits for turns in kept.turns()]

    for _ in range(2):
        db.create_table("t", properties={"inline": "64KB"}).append([{"n": 1}])
        assert commits() == [1]
        db.drop_table("t")
        if names is None:
            assert commits() == []
        else:
            assert commits() == [0] and commits() == []


def test_an_error_while_it_looks_for_tables_ends_nothing(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unavailable(*given: Any) -> Any:
        raise firn.StoreUnavailableError("slow down")

    now = [0.0]
    db.create_table("t")
    kept = KeptTables(db._tables, monotonic=lambda: now[0])
    with monkeypatch.context() as patched:
        patched.setattr(type(db._tables), "names", unavailable)
        with pytest.raises(firn.StoreUnavailableError):
            kept.turns()
    assert [turns.name for turns in kept.turns()] == ["t"]
    with monkeypatch.context() as patched:
        patched.setattr(type(db._tables), "names", unavailable)
        now[0] = 300.0
        assert [turns.name for turns in kept.turns()] == ["t"] and "trying again in 60 s" in caplog.text
    db.create_table("u")
    now[0] = 360.0
    assert [turns.name for turns in kept.turns()] == ["t", "u"]


def test_it_goes_on_until_it_is_stopped(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(stop: threading.Event, seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 3:
            table.append([{"n": 1}])
        if len(rests) == 10:
            stop.set()

    monkeypatch.setattr(keeping, "pause", pause)
    rests: list[float] = []
    table = db.create_table("t", properties={"inline": "64KB", "fold_at": 8})
    for n in range(20):
        table.append([{"n": n}])
    assert db.keep(stop=threading.Event())["t"].commits == 20
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    rests.clear()
    assert table.keep(interval="2s").commits == 1  # what was left
    assert rests == [2] * 10


class SignalledLock:
    """A lock. A signal comes just when it was taken."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def acquire(self, *args: Any) -> bool:
        assert self.lock.acquire(blocking=False), "the handler waits for the thread that it has interrupted"
        signal.raise_signal(signal.SIGTERM)
        return True

    def release(self) -> None:
        self.lock.release()

    def _is_owned(self) -> bool:
        return self.lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def test_a_signal_handler_may_set_what_a_keeper_rests_by(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, lock = threading.Event(), SignalledLock()
    stop._cond = threading.Condition(lock)  # type: ignore[attr-defined, arg-type]
    monkeypatch.setattr(keeping.time, "sleep", lambda s: signal.raise_signal(signal.SIGTERM))

    def end(number: int, frame: object) -> None:
        monkeypatch.setattr(signal, "raise_signal", lambda number: None)  # it comes once
        stop.set()

    before = signal.signal(signal.SIGTERM, end)
    try:
        keep_on(lambda: False, stop)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stop.is_set()


def test_a_round_begins_nothing_after_its_budget(db: firn.Database) -> None:
    for name in ("a", "b", "c"):
        db.create_table(name, properties={"inline": "64KB"}).append([{"n": 1}])
    assert db.keep(once=True, budget=0) == {}
    ticks = iter(range(100))
    keeping = Keeping(once=True, budget_s=2, monotonic=lambda: next(ticks))
    kept = KeptTables(db._tables)
    assert len(keeping.run(kept.turns)) == 1


@pytest.mark.parametrize("interval", ["5..1", "0s", "1s..", "often", ("2s", "1s")])
def test_intervals_that_cannot_be(db: firn.Database, interval: Any) -> None:
    with pytest.raises(InvalidInputError):
        db.keep(interval=interval)


def test_intervals() -> None:
    assert parse_interval(("1s", "2m")) == (1, 120) and parse_interval(5) == (5, 5)


def test_keepers_of_a_keyed_table_compact_when_nobody_has_for_a_minute() -> None:
    from firn.keyed.context import KeyedContext
    from firn.keyed.definition.definition import KeyedDefinition

    db = firn.connect("memory://")
    table = db.create_table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        for n in range(30):
            kv.put(b"%d" % n, b"")
    assert isinstance(table, KeyedContext) and isinstance(table.created, KeyedDefinition)
    clock = SimStore().bucket().clock
    kept = KeyedContext(table.bucket, table.prefix, table.created, table.engines, clock=clock)
    keeper = keyed.KeyedKeeper(kept)
    assert not keeper.round().files_merged
    clock.sleep(59)
    assert not keeper.round().files_merged
    clock.sleep(1)
    layout = kept.journal.layout
    note = layout.compact_note_key
    with work_note.take(db.bucket, note, clock_key=layout.clock_key, seconds=600):
        assert keeper.round().busy == 1
    assert keeper.round().files_merged == 30
    assert table.reader().get(b"3") == b"" and not db.bucket.list(note).objects


def test_turns_rest_after_errors() -> None:
    class Failing:
        def round(self, **options: Any) -> KeepReport:
            raise firn.StoreUnavailableError("slow down")

    now = [100.0]
    turns = Turns("t", Failing(), lambda: now[0])
    assert turns.take().error == "slow down" and turns.take().error is None
    now[0] += 60
    assert turns.take().error == "slow down"


def test_what_a_process_cannot_do_it_does_not_try_again(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def round(self, **options: Any) -> KeepReport:
            raise firn.UnsupportedError("no lock")

    now = [100.0]
    turns = Turns("t", Failing(), lambda: now[0])
    assert turns.take().error == "no lock"
    now[0] += 3600
    assert turns.take().error is None
    assert caplog.messages == ["t isn't kept: this process can't. no lock"]


def test_an_error_that_nobody_foresaw_is_of_one_table(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def round(self, **options: Any) -> KeepReport:
            raise ZeroDivisionError("a bug")

    turns = Turns("t", Failing())
    assert turns.take().error == "ZeroDivisionError('a bug')" and "keeping t failed" in caplog.text
    assert turns.take().error is None


def test_a_forked_child_has_a_keeper_once_it_appends(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", properties={"inline": "64KB", "maintain": "auto"})
    table.append([{"n": 1}])
    assert len(keepers._keepers) == 1
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        found = [len(keepers._keepers)]
        table.append([{"n": 2}])
        found.append(len(keepers._keepers))
        os.write(write, repr(found).encode())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 100) == b"[0, 1]"
    assert table.scan().count() == 2
    db.close()
