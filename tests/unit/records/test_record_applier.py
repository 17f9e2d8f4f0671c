"""Who applies what: each process its own commits, and what others leave behind when they don't come to it."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from firn.errors import CorruptObjectError, StoreUnavailableError
from firn.records.apply.apply import apply, apply_only, apply_own
from firn.records.apply.commit_applier import IDLE_S, PATIENCE_S, Applier
from firn.records.objects import row as row_module
from firn.records.read.snapshot import RecordSnapshot
from firn.records.write.transaction import begin
from firn.testing import FAILED, LOST_ACK
from record_stores import Before


class Process:
    """One that commits, and its thread."""

    def __init__(self, db, *befores):
        self.store = db.store("process", *befores)
        self.applier = Applier(self.store, rng=random.Random(1))

    def put(self, id, n):
        with begin(self.store) as tx:
            tx.upsert("t", id, {"n": n})
        return tx.committed

    def works(self):
        """What it waits for then, and the requests that it took."""
        before = self.store.bucket.counters.as_dict()
        left_s = self.applier.work()
        spent = self.store.bucket.counters.since(before)
        return left_s, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}


def pending(process):
    return [record.number for record in process.store.log.pending()]


APPLIED = {"get": 1, "put": 1 + 2}
"""A row and its two entries."""

TOLD = {"get": 1, "put": 1}


def test_own_commits_are_applied_at_once_and_those_of_others_left_to_them(db):
    one, other = Process(db), Process(db)
    db.apply()
    first, second = one.put("a", 1), other.put("b", 1)
    assert other.works()[1] == APPLIED
    assert pending(other) == [first]
    assert one.works()[1] == APPLIED
    assert pending(one) == []
    # The next record tells what was done, and so does the answer.
    third = one.put("c", 1)
    other.store.log.refresh()
    assert pending(other) == [third]
    assert pending(one) == [second, third], "what is done above what it knew of is told by the next record"
    other.put("d", 1)
    one.store.log.refresh()
    assert second not in pending(one)


def test_a_row_that_others_wrote_before_gets_their_versions_too(db):
    one, other = Process(db), Process(db)
    one.put("a", 1)
    other.put("a", 2)
    other.works()
    (row,) = db.store().rows([other.store.layout("t", 0).row("a")])
    assert [version.entries[0][:6] for version in row.versions] == ["n/!n/!"] * 2
    assert {row["_id"] for row in db.begin().find("t", n=2)} == {"a"}
    assert len(db.paths("t/indices/n/")) == 2


def test_what_a_crashed_process_left_is_applied_by_another(db):
    crashed, alive = Process(db), Process(db)
    db.apply()
    left = crashed.put("a", 1)
    alive.put("b", 1)
    waited_s, spent = alive.works()
    assert waited_s == IDLE_S and spent == APPLIED
    alive.store.clock.sleep(waited_s)
    waited_s, spent = alive.works()
    assert 0 < waited_s <= 2 * PATIENCE_S - IDLE_S
    assert pending(alive) == [left]
    alive.store.clock.sleep(waited_s)
    # The horizon, the log's end, the row, and all are told.
    assert alive.works() == (None, {"get": 1 + 1 + 1 + 1, "put": 1 + 2 + 1})
    assert pending(alive) == [] and db.store().log.store.horizon().applied == left + 1
    assert alive.works() == (None, {})


def test_others_commits_wait_for_twice_the_patience_at_most(db):
    for seed in range(20):
        db.put(**{f"r{seed}": {"n": seed}})
        store = db.store()
        store.log.refresh()
        waited_s = Applier(store, rng=random.Random(seed)).work()
        assert PATIENCE_S <= waited_s <= 2 * PATIENCE_S


def test_what_was_told_meanwhile_is_not_applied_again(db):
    one, other = Process(db), Process(db)
    one.put("a", 1)
    other.put("b", 1)
    other.works()
    db.apply()
    other.store.clock.sleep(2 * PATIENCE_S)
    assert other.works() == (None, {"get": 2}), "the horizon, and the log's end"


def test_a_busy_process_applies_what_was_left_too(db):
    crashed, busy = Process(db), Process(db)
    left = crashed.put("a", 1)
    for n in range(10):
        busy.put("b", n)
        busy.works()
        busy.store.clock.sleep(1)
    assert pending(busy) == []
    assert db.store().row(busy.store.layout("t", 0), "a").row.newest == left


def test_all_are_told_when_there_is_nothing_to_do(db):
    one = Process(db)
    db.apply()
    number = one.put("a", 1)
    assert one.works() == (IDLE_S, APPLIED)
    assert one.works() == (None, TOLD)
    assert db.store().log.store.horizon().applied == number
    assert one.works() == (None, {})


def test_many_processes_apply_each_row_once(db):
    """The work of all doesn't grow with their number."""
    processes = [Process(db) for _ in range(8)]
    db.apply()
    spent = {"get": 0, "put": 0}
    for n in range(5):
        for i, process in enumerate(processes):
            process.put(f"p{i}", n)
            for verb, count in process.works()[1].items():
                spent[verb] += count
    assert spent == {verb: 40 * count for verb, count in APPLIED.items()}


def test_only_these(db):
    numbers = [db.put(**{id: {"n": 1}}) for id in "abc"]
    store = db.store()
    store.log.refresh()
    assert apply_only(store, {numbers[0], numbers[2]}) == 2
    assert [record.number for record in store.log.pending()][-1:] == [numbers[1]]
    assert apply_own(store) == 0


def test_a_commit_whose_answer_was_lost_is_ones_own(db):
    """It is found in the log by its txid."""
    store = db.store("unlucky", Before("put_if_absent", "/_commits/00000000000000000003", LOST_ACK))
    with begin(store) as tx:
        tx.upsert("t", "a", {"n": 1})
    assert tx.committed == 3
    assert apply_own(store) == 1


def test_the_end_of_a_process_leaves_nothing(db):
    one, other = Process(db), Process(db)
    one.put("a", 1)
    other.put("b", 1)
    other.applier.poke()
    other.applier.finish(30)
    assert pending(other) == []
    assert db.store().log.store.horizon().applied == other.store.log.applied


def test_a_store_that_fails_is_asked_again(db):
    failing = Process(db, Before("get", "/data/a.json", FAILED))
    failing.put("a", 1)
    with pytest.raises(StoreUnavailableError):
        failing.applier.work()
    assert failing.works()[0] == IDLE_S
    assert IDLE_S < PATIENCE_S, "all are told before somebody looks"


# -- damaged rows, and threads


def damage(db, id):
    """Flip a bit in a row's object."""
    bucket, key = db.bucket(), db.store().layout("t", 0).row(id)
    data = bytearray(bucket.get(key).data)
    data[len(data) // 2] ^= 1
    bucket.put(key, bytes(data))


def test_a_damaged_row_is_in_nobodys_way(db, caplog):
    db.put(a={"n": 1})
    db.apply()
    damage(db, "a")
    one = Process(db)
    with begin(one.store) as tx:
        for id in ("a", "b", "c"):
            tx.upsert("t", id, {"n": 7})
    with pytest.raises(CorruptObjectError, match=r"db/t/data/a\.json"):
        RecordSnapshot(one.store, replace(one.store.log.head(), number=tx.committed - 1)).get(
            one.store.table("t", one.store.log.head().catalog), "a"
        )
    one.works()
    assert pending(one) == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "db/t/data/a.json" in caplog.text
    assert {row["_id"] for row in begin(db.store()).find("t", n=7)} == {"a", "b", "c"}


def test_one_thread_of_a_process_applies_at_a_time(db):
    """The second finds nothing left to do."""
    store = db.store()
    with begin(store) as tx:
        tx.upsert("t", "a", {"n": 1})
    applied: list[int] = []
    inside, go_on, fetch = threading.Event(), threading.Event(), store.row

    def row(layout, id):
        inside.set()
        assert go_on.wait(30)
        return fetch(layout, id)

    store.row = row
    threads = [threading.Thread(target=lambda: applied.append(apply(store))) for _ in range(2)]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert sorted(applied) == [0, 3], "the two tables' creation, and the row"
    assert store.bucket.counters.put == 1 + APPLIED["put"]


def test_of_a_row_with_many_versions_those_that_are_read_are_made(db, monkeypatch):
    """A row that changes often has them all until a collection; who reads it, or adds one, needs the newest."""
    one = Process(db)
    for n in range(20):
        one.put("a", n)
        one.works()
    db.apply()
    made, make = [], row_module._version
    monkeypatch.setattr(row_module, "_version", lambda raw: made.append(raw["seq"]) or make(raw))
    reader = db.begin()
    assert reader.get("t", "a")["n"] == 19
    assert made == [reader.snapshot]
    one.put("a", 20)
    one.works()
    assert made == [reader.snapshot] * 2
    (row,) = db.store().rows([one.store.layout("t", 0).row("a")])
    assert [version.seq for version in row.versions] == list(range(reader.snapshot + 1, 2, -1))
    assert len({version.entries for version in row.versions}) == 21
