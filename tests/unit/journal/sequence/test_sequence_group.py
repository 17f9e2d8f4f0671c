"""Group commit: the threads of a process share records, and none waits for one that is gone (rule 15)."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest

from firn.errors import (
    InvalidInputError,
    StaleObjectError,
)
from firn.journal.sequence import (
    GroupCommit,
    SequenceLog,
)
from firn.journal.sequence import group as group_commit
from firn.testing import SimStore
from sequence_logs import PREFIX, Put, txids


@pytest.mark.parametrize(("largest", "records"), [(8, [8]), (3, [3, 3, 2])])
def test_threads_share_records(monkeypatch, largest, records):
    """While the first one's PUT is in flight, the others gather: as many as may be in a record."""
    monkeypatch.setattr(group_commit, "LARGEST", largest)
    store, gate, first = SimStore(), threading.Event(), threading.Event()
    bucket = store.bucket()
    log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
    log.refresh()
    real = bucket.put_if_absent

    def put(key, data, **options):
        if not first.is_set():
            first.set()
            assert gate.wait(10)
        return real(key, data, **options)

    bucket.put_if_absent = put
    group = GroupCommit(log)
    numbers: dict[str, int] = {}

    def run(txid):
        numbers[txid] = group.commit(Put(txid, 0, (txid,)))

    threads = [threading.Thread(target=run, args=("t0",))]
    threads[0].start()
    assert first.wait(10)
    threads += [threading.Thread(target=run, args=(f"t{n}",)) for n in range(1, 9)]
    for thread in threads[1:]:
        thread.start()
    while len(group._queue) < 8:
        pass
    gate.set()
    for thread in threads:
        thread.join(10)
    assert numbers.pop("t0") == 1
    assert [list(numbers.values()).count(n + 2) for n in range(len(records))] == records
    assert bucket.counters.put == 1 + len(records)


def test_each_thread_gets_its_own_outcome(db):
    group = GroupCommit(db.log())
    assert group.commit(Put("a", 0)) == 1
    with pytest.raises(StaleObjectError):
        group.commit(Put("b", 0))
    assert group.commit(Put("c", 1)) == 2


def test_an_interrupted_leader_leaves_nobody_waiting(db):
    class Interrupted(Put):
        def admit(self, moment):
            raise KeyboardInterrupt

    group = GroupCommit(db.log())
    with pytest.raises(KeyboardInterrupt):
        group.commit(Interrupted("a", 0))
    assert group.commit(Put("b", 0)) == 1


class Turn(threading.Event):
    """The second of those who wait is interrupted, as by Ctrl-C, before or after it was chosen to lead."""

    def __init__(self, interrupted, chosen_first):
        super().__init__()
        self.interrupted, self.chosen_first = interrupted, chosen_first
        self.waits = threading.Event()
        self.leaves = threading.Event()

    def wait(self, timeout=None):
        self.waits.set()
        if self.interrupted:
            assert not self.chosen_first or super().wait(10)
            self.leaves.set()
            raise KeyboardInterrupt
        assert super().wait(10), "nobody leads"
        return True


@pytest.mark.parametrize("chosen_first", [False, True])
def test_who_waits_and_is_interrupted_leaves_nobody_waiting(db, chosen_first):
    turns = []

    def new_turn():
        turns.append(Turn(len(turns) == 1, chosen_first))
        return turns[-1]

    held, sent = threading.Event(), threading.Event()
    bucket = db.bucket()
    real = bucket.put_if_absent

    def put(key, data, **options):
        sent.set()
        assert held.wait(10)
        return real(key, data, **options)

    bucket.put_if_absent = put
    group = GroupCommit(SequenceLog(bucket, PREFIX, clock=bucket.clock), new_turn=new_turn)
    numbers: dict[str, int] = {}

    def run(txid):
        with contextlib.suppress(KeyboardInterrupt):
            numbers[txid] = group.commit(Put(txid, 0, (txid,)))

    threads = []
    for txid in "abc":
        threads.append(threading.Thread(target=run, args=(txid,), daemon=True))
        threads[-1].start()
        if txid == "a":
            assert sent.wait(10)
        else:
            while len(turns) < 2 + (txid == "c"):
                pass
            assert turns[-1].waits.wait(10)
    if not chosen_first:
        assert turns[1].leaves.wait(10)
        threads[1].join(10)
    held.set()
    for thread in threads:
        thread.join(10)
    assert numbers == {"a": 1, "c": 2}


def test_a_forked_child_does_not_commit_for_its_parent(db, monkeypatch):
    group = GroupCommit(db.log())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidInputError, match="Connect here"):
        group.commit(Put("a", 0))
    assert txids(db) == []
