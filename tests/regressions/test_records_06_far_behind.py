"""A process that was far behind while its commit waited opened the log anew, and threw away what it had read."""

from __future__ import annotations

from collections import Counter

from firn.records.write.transaction import begin
from record_stores import Database


def test_a_commit_that_is_far_behind_reads_each_record_once():
    db = Database(plain=False)
    store = db.store()
    store.log.far = 4
    tx = begin(store)
    tx.upsert("t", "mine", {"n": 1})
    for n in range(20):
        db.put(**{f"r{n}": {"n": n}})
    asked: Counter[str] = Counter()
    get = store.bucket.get
    store.bucket.get = lambda key: asked.update([key]) or get(key)
    before = store.bucket.counters.as_dict()
    assert tx.commit() == 22
    spent = store.bucket.counters.since(before)
    records = {key: count for key, count in asked.items() if "_commits" in key and count > 1}
    assert spent["list"] == 0
    assert not records, f"asked for again: {records}"


def test_a_process_that_begins_far_behind_needs_only_what_is_not_applied():
    db = Database(plain=False)
    store = db.store()
    store.log.far = 4
    store.log.refresh()
    for n in range(40):
        db.put(**{f"r{n % 3}": {"n": n}})
    db.apply()
    before = store.bucket.counters.as_dict()
    assert begin(store).snapshot == 41
    assert store.bucket.counters.since(before)["get"] <= 4 + 5
