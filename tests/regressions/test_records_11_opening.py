"""To open a database, a process listed its whole log."""

from __future__ import annotations

import random

import pytest

from firn.journal.sequence.store import SequenceStore
from firn.records.apply.commit_applier import TELLS, Applier
from firn.records.write.transaction import begin
from record_stores import Database, spent


def grown(commits):
    db = Database(plain=False, page_size=10)
    store = db.store()
    for n in range(commits):
        with begin(store) as tx:
            tx.upsert("t", f"r{n % 5}", {"n": n})
    db.apply()
    return db


@pytest.mark.parametrize("commits", [1, 30, 90])
def test_opening_costs_the_same_however_long_the_log_is(commits):
    db = grown(commits)
    store = db.store()
    assert spent(store, store.log.refresh) == {"get": 5}, "the horizon, none of two behind A, A, the horizon"
    assert store.log.head().number == commits + 1


def test_what_is_not_applied_is_listed_from_there_on():
    db = grown(90)
    for n in range(5):
        db.put(**{f"new{n}": {"n": n}})
    store = db.store()
    cost = spent(store, store.log.refresh)
    assert cost["list"] == 1
    assert cost["get"] == 2 + 5 + 1
    assert [record.number for record in store.log.pending()] == [92, 93, 94, 95, 96]


def test_a_process_that_is_never_idle_tells_what_is_applied():
    db = Database(plain=False)
    store = db.store()
    applier = Applier(store, rng=random.Random(1))
    for n in range(TELLS + 1):
        with begin(store) as tx:
            tx.upsert("t", "a", {"n": n})
        if n % 50 == 0 or n == TELLS:
            db.simulated.time.advance(1000)
            applier.work()
    assert SequenceStore(store.bucket, store.log.store.layout, store.clock).horizon().applied >= TELLS
