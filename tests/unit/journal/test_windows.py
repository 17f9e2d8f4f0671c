"""Views of a log that build on earlier ones, and on log checkpoints: what they request, and when they list all."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import orjson
import pytest

import firn
from firn.bucket.base import ObjectInfo
from firn.errors import CorruptObjectError, TableNotFoundError, UnsupportedError
from firn.inspect.fsck.fsck import check
from firn.journal.entries import PROPERTY, Entries, time_entry
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format import codec
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.leaderless.replay import checkpoint, checkpoint_writer
from firn.journal.leaderless.replay.checkpoint import Basis
from firn.journal.leaderless.replay.checkpoint_writer import write_if_behind
from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import Before, append, journal_on, merge, pass_time, rows, sweep
from simulation.leaderless_table import PREFIX, SETTINGS, inlined_rows, journal_of

LAYOUT = TableLayout(PREFIX, PREFIX)
EXPECTED = [*range(160), 1000]


@pytest.fixture
def store() -> SimStore:
    """A table that got 20 appends and a merge eight times in 40 minutes, one append more, and a checkpoint."""
    store = SimStore(page_size=10)
    journal = journal_on(store, "keeper", windowed=True)
    for n in range(8):
        for i in range(20):
            append(journal, [n * 20 + i])
        merge(journal)
        pass_time(journal, 300)
    append(journal, [1000])
    journal.checkpoint()
    return store


def read(journal: LeaderlessJournal) -> tuple[int, int]:
    """The GETs and pages of a snapshot, whose rows must be right."""
    before = journal.bucket.counters.as_dict()
    journal.snapshot()
    after = journal.bucket.counters.as_dict()
    assert rows(journal) == EXPECTED
    return after["get"] - before["get"], after["list"] - before["list"]


def test_a_new_process_needs_the_checkpoint_and_what_may_have_landed_since(store: SimStore) -> None:
    fresh = journal_on(store, "fresh", windowed=True)
    assert read(fresh) == (1, 6)
    assert read(fresh) == (0, 3)  # it builds on its own view, which is younger
    assert read(journal_on(store, "older"))[1] == 17


def test_after_a_rest_the_newest_log_alone_is_listed(store: SimStore) -> None:
    fresh = journal_on(store, "fresh", windowed=True)
    pass_time(fresh, 1200)
    assert read(fresh) == (1, 6)
    assert read(fresh) == (0, 1)


def test_a_checkpoint_counts_for_a_time(store: SimStore) -> None:
    fresh = journal_on(store, "fresh", windowed=True)
    pass_time(fresh, 49 * 60 + 1)
    assert read(fresh) == (1, 34)  # its bodies count for what is listed, which is looked at twice


def test_a_view_of_a_clock_that_was_set_back_does_not_count(store: SimStore) -> None:
    fresh = journal_on(store, "fresh", windowed=True)
    read(fresh)
    fresh.clock.skew_ms = -300_000  # type: ignore[attr-defined]
    assert read(fresh)[1] == 17


def test_a_view_ends_with_the_least_grace_since_though_that_was_raised() -> None:
    store = SimStore()
    settings = replace(SETTINGS, grace_ms=600_000)

    def journal(name: str) -> LeaderlessJournal:
        bucket = store.bucket(name)
        return journal_of(bucket, bucket.clock, settings, windowed=True)

    keeper, reader = journal("keeper"), journal("reader")
    for i in range(3):
        append(keeper, [i])
    pass_time(keeper, 600)
    assert rows(reader) == [0, 1, 2]
    merge(keeper)
    pass_time(keeper, 1200)
    sweep(keeper)  # nothing says any more that the logs were replaced
    raised = Entries().changed(
        {(PROPERTY, "tombstone_grace"): "2h", time_entry("tombstone_grace", keeper.now_ms()): 7_200_000}
    )
    pass_time(keeper, 1200)
    reader.learn(raised)  # as from a log that it reads for an earlier version
    assert rows(reader) == [0, 1, 2]


def test_a_view_that_counts_a_log_that_is_gone_is_given_up(store: SimStore) -> None:
    reader = journal_on(store, "reader", windowed=True)
    first = append(journal_on(store, "keeper"), [1001])
    pass_time(reader, 600)
    append(journal_on(store, "keeper"), [1002])
    assert rows(reader) == [*EXPECTED, 1001, 1002]
    (gone,) = (log for log in reader.loader.load().logs if any(f.path == first.path for f in log.files))
    reader.log_bucket.delete(LAYOUT.log_key(gone.name))
    reader.snapshot(reader.snapshot().version)  # which lists everything
    assert rows(reader) == [*EXPECTED, 1002]


def test_a_checkpoint_of_another_window_lends_its_bodies_alone(store: SimStore) -> None:
    bucket = store.bucket("fresh")
    settings = replace(SETTINGS, landing_delay_ms=SETTINGS.landing_delay_ms + 1)
    fresh = journal_of(bucket, bucket.clock, settings, windowed=True)
    assert read(fresh) == (1, 34)


def test_bytes_and_every_flipped_bit() -> None:
    info = ObjectInfo(LAYOUT.log_key("1767258000755_a.jsonl"), 4, "e", 7)
    basis = Basis(
        1767259000000, 540_000, {"1767258000755_a.jsonl": info}, frozenset({"1767258900000_b.jsonl"})
    )
    data = checkpoint.encode(basis, [b"body"], log_prefix=LAYOUT.log_prefix)
    assert data[:8] == b"FIRNCKP2"
    found = checkpoint.decode(data, where="x", log_prefix=LAYOUT.log_prefix)
    assert (found.basis, dict(found.bodies)) == (basis, {("1767258000755_a.jsonl", "e"): b"body"})
    assert (
        basis.start == "1767258000755_a.jsonl"
    )  # the newest that counts is listed as long as there is a table
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(CorruptObjectError):
                checkpoint.decode(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], where="x")


def test_names_that_do_not_sort_by_time_are_no_basis() -> None:
    listed = {name: ObjectInfo(name, 1, "e", 1) for name in ("1767258000755_a.jsonl", "2dFkLm.jsonl")}
    assert Basis.of(1, 1, listed, listed) is None


def test_a_poll_lists_what_it_may_deliver(store: SimStore) -> None:
    journal = journal_on(store, "stream", windowed=True)
    stream = journal.stream()
    offset = stream.start().offset
    append(journal_on(store, "keeper"), [1001])
    before = journal.bucket.counters.as_dict()["list"]
    delivery = stream.poll(offset)
    assert len(delivery.appends) == 1
    assert journal.bucket.counters.as_dict()["list"] - before == 6


def test_a_stream_gets_each_log_once(store: SimStore) -> None:
    journal, keeper = journal_on(store, "stream", windowed=True), journal_on(store, "keeper")
    stream = journal.stream()
    offset = behind = stream.start().offset
    gets = []
    for i in range(6):
        for n in range(10):
            append(keeper, [2000 + 10 * i + n])
        pass_time(journal, 600)
        before = journal.bucket.counters.as_dict()["get"]
        offset = stream.poll(offset).offset
        behind = stream.poll(behind, limit=1).offset
        gets.append(journal.bucket.counters.as_dict()["get"] - before)
    # Beside the new logs, each poll looks for the record of sweeps, and after a rest for the log checkpoint.
    assert gets == [10 + 2 + 1] * 6


def test_appenders_write_it_where_nobody_else_does() -> None:
    store = SimStore()
    journal, other = journal_on(store, "appender", windowed=True), journal_on(store, "other", windowed=True)
    append(other, [0])
    journal.known()
    for i in range(1, 99):
        append(other, [i])
    pass_time(journal, 11)
    journal.known()
    assert write_if_behind(journal) == (False, 1)
    append(other, [99])
    before = journal.bucket.counters.as_dict()
    assert write_if_behind(journal) == (True, 100)
    spent = journal.bucket.counters.since(before)
    assert (spent["get"], spent["list"], spent["put"]) == (102, 3, 1)
    before = other.bucket.counters.as_dict()
    assert write_if_behind(other) == (False, 100)
    assert other.bucket.counters.since(before)["get"] == 1
    held = checkpoint.read(journal.log_bucket, LAYOUT).basis
    assert held is not None
    assert len(held.logs) == 100
    for i in range(120):
        append(other, [200 + i])
    pass_time(journal, 11)
    written = threading.Event()
    put = journal.log_bucket.put_if_match
    journal.log_bucket.put_if_match = lambda *args, **more: (put(*args, **more), written.set())[0]  # type: ignore[method-assign]
    journal.known()
    assert written.wait(60)
    held = checkpoint.read(journal.log_bucket, LAYOUT).basis
    assert held is not None
    assert len(held.logs) == 220


def test_the_checkpoint_of_another_table_is_none(store: SimStore) -> None:
    fresh = journal_on(store, "fresh", windowed=True)
    held = checkpoint.read(fresh.log_bucket, LAYOUT)
    assert held.basis is not None
    other = checkpoint.encode(held.basis, held.bodies.values(), log_prefix="db/u/_log/")
    fresh.log_bucket.put(LAYOUT.checkpoint_key, other)
    found = checkpoint.read(fresh.log_bucket, LAYOUT)
    assert (found.basis, found.bodies) == (None, {})
    assert read(fresh)[1] == 17
    assert checkpoint.decode(other, where="x").bodies == held.bodies  # to be shown


# -- the feature


@pytest.fixture
def db() -> firn.Database:
    return firn.connect("memory://")


def test_the_definition_names_the_feature(db: firn.Database) -> None:
    db.create_table("t", properties={"inline": "64KB"})
    raw = orjson.loads(db.bucket.get("t/_firn/table.json").data)
    assert (raw["firn"], raw["features"]) == (5, ["window"])
    db.create_table("old")
    assert orjson.loads(db.bucket.get("old/_firn/table.json").data)["firn"] == 1


def test_alter_turns_it_on(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    table = db.create_table("t")
    table.append([{"n": 1}])
    assert not journal_of_table(table).windowed
    table.alter(set_properties={"inline": "64KB"})
    assert journal_of_table(table).windowed
    other = db.table("t")
    assert isinstance(other, firn.LakeTable)
    other.append([{"n": 2}])
    other.checkpoint()
    assert db.bucket.get("t/_firn/checkpoint.bin").data[:8] == b"FIRNCKP2"
    other.merge()
    monkeypatch.setattr(codec, "KNOWN_FEATURES", codec.KNOWN_FEATURES - {codec.WINDOW})
    with pytest.raises(UnsupportedError, match="needs the feature 'window'"):
        db.table("t").snapshot()


def journal_of_table(table: firn.LakeTable) -> LeaderlessJournal:
    assert isinstance(table.journal, LeaderlessJournal)
    return table.journal


def test_a_table_that_is_dropped_has_no_rows_left(db: firn.Database) -> None:
    table = db.create_table("t", properties={"inline": "64KB"})
    table.append([{"n": 1}])
    assert table.scan().count() == 1
    db.drop_table("t")
    with pytest.raises(TableNotFoundError):
        table.scan().count()


# -- maintenance


def test_an_early_sweep_keeps_what_says_that_logs_are_dead(db: firn.Database) -> None:
    table = db.create_table("t", properties={"inline": "1KB"})
    table.append([{"who": f"person {n}", "n": n} for n in range(100)])  # a file
    table.append([{"who": "somebody", "n": 1}])
    table.delete("n = 1")
    reader = db.table("t")
    assert isinstance(reader, firn.LakeTable)
    done = table.sweep(older_than="0s", orphans="0s")
    assert (len(done.data_files), len(done.logs)) == (1, 2)
    (info,) = db.bucket.list("t/_log/").objects
    log = codec.decode(info.key.rpartition("/")[2], db.bucket.get(info.key).data, where="")
    assert len(log.tombstones) == 2
    (dead,) = (file for file in log.files if file.path in log.dead)
    assert dead.extra is None  # it said which values were in the file
    again = table.sweep(older_than="0s", orphans="0s")
    assert (again.data_files, again.logs, again.bytes) == ((), (), 0)
    assert table.scan().count() == 99
    table.append([{"who": "x", "n": 5}])
    table.merge()
    table.sweep(older_than="0s")
    assert table.scan().count() == 100
    assert not check(db, "t").findings


@pytest.mark.parametrize(
    ("first", "windowed", "conditional"),
    [
        (True, True, True),
        (False, True, True),
        (True, False, True),
        (False, False, True),
        (False, True, False),
    ],
)
def test_a_sweep_leaves_no_row_in_a_checkpoint_that_is_being_written(
    first: bool, windowed: bool, conditional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SimStore()
    swept = journal_on(store, "swept", windowed=windowed)
    inlined = swept.begin_append()
    inlined.commit(Commit("append", [inlined_rows([7_654_321], {"id": "BIGINT"})], columns={"id": "BIGINT"}))
    append(swept, [1])
    if not first:
        swept.checkpoint()

    def erase() -> None:
        with swept.exclusive("remove") as session:
            gone = [file.path for file in session.snapshot.files if file.inlined is not None]
            session.publish(Commit("remove", [], gone))
        swept.sweep(grace_ms=0, orphan_age_ms=None, margin=False, dry_run=False)

    plan = Before(lambda call: call.verb.startswith("put") and "checkpoint" in call.key, erase)
    writer = journal_on(store, "writer", plan=plan, windowed=windowed)
    can = replace(writer.log_bucket.capabilities, conditional_put=conditional)
    monkeypatch.setattr(writer.log_bucket, "_capabilities", can)
    writer.checkpoint()
    assert plan.done
    for body in checkpoint.read(swept.log_bucket, LAYOUT).bodies.values():
        assert b"7654321" not in body
    assert rows(journal_on(store, "fresh", windowed=windowed)) == [1]


@pytest.mark.parametrize("inline", ["64KB", 0])
def test_a_first_checkpoint_that_lands_after_a_drop_goes_again(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch, inline: str | int
) -> None:
    table = db.create_table("t", properties={"inline": inline, "maintain": "none"})
    table.append([{"n": 7_654_321}])
    stored = checkpoint_writer._stored

    def late(*given: Any) -> bool:
        db.drop_table("t")
        return stored(*given)

    monkeypatch.setattr(checkpoint_writer, "_stored", late)
    with pytest.raises(firn.TableNotFoundError):
        table.checkpoint()
    assert [info.key for info in db.bucket.list("t/").objects] == ["t/_firn/table.json"]


def test_a_view_gathers_what_is_replaced_once_however_many_logs_there_are(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = db.create_table("t")
    for n in range(30):
        table.append([{"n": n}])
    table.merge()
    gathered: list[int] = []

    def counted(logs: Any) -> set[str]:
        gathered.append(1)
        return codec.replaced_names(logs)

    monkeypatch.setattr("firn.journal.leaderless.replay.loader.replaced_names", counted)
    assert db.table("t").scan().count() == 30
    assert len(gathered) <= 5


def test_fsck_finds_a_checkpoint_that_passes_over_a_log(db: firn.Database) -> None:
    table = db.create_table("t", properties={"inline": "64KB"})
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    table.checkpoint()
    held = checkpoint.read(db.bucket, journal_of_table(table).layout)
    assert held.basis is not None
    (first, *rest) = held.basis.logs
    basis = replace(held.basis, logs={n: held.basis.logs[n] for n in rest}, replaced=frozenset({first}))
    bodies = [held.bodies[name, info.etag] for name, info in basis.logs.items()]
    db.bucket.put("t/_firn/checkpoint.bin", checkpoint.encode(basis, bodies, log_prefix="t/_log/"))
    (told,) = check(db, "t").findings
    assert "passes over the log" in told.what
