"""A sweep put up to 1,000 records into one pack, however large they were."""

from __future__ import annotations

import pytest

from firn.journal.sequence import Horizon, history, truncate
from firn.journal.sequence.store import SequenceStore
from firn.records.maintain import collection
from firn.records.write.transaction import begin
from record_stores import Database, spent


@pytest.fixture
def db():
    """40 commits of 1 kB each, all applied, behind that of the table."""
    db = Database(plain=False)
    store = db.store()
    for n in range(40):
        with begin(store) as tx:
            tx.upsert("t", f"r{n:02}", {"text": "x" * 1000})
    db.apply()
    store.log.store.raise_horizon(Horizon(horizon=40))
    return db


def sizes(db):
    return [len(db.simulated.fetch(key).data) for key in db.simulated.keys("db/_firn/packs/")]


def test_a_pack_ends_where_it_gets_large(db):
    truncate(db.store().log, largest_bytes=10_000)
    found = sizes(db)
    assert len(found) in (4, 5, 6)
    assert max(found) < 15_000
    assert [r.number for r in db.store().log.records(0, 40)] == list(range(1, 41))


def test_a_record_that_is_larger_than_a_pack_has_one_of_its_own(db):
    truncate(db.store().log, largest_bytes=10)
    assert len(sizes(db)) >= 39


def test_few_records_are_in_memory_at_a_time(db, monkeypatch):
    """As many are asked for at once as the ones before let expect."""
    log = db.store().log
    log.refresh()
    widths = watched(log, monkeypatch)
    truncate(log, largest_bytes=10_000)
    assert max(widths) <= 10


def test_what_a_sweep_reads_of_the_log_is_read_in_parts(db, monkeypatch):
    monkeypatch.setattr(history, "CHUNK", 10)
    db.age(3600)
    db.put(last={"n": 1})
    store = db.store(pack_bytes=10_000)
    store.log.refresh()
    widths = watched(store.log, monkeypatch)
    collection.collect(store, retention_s=0)
    collection.sweep(store, orphan_age_s=0)
    assert max(widths) <= 10


def watched(log, monkeypatch):
    """How many records this process asks for at once, from now on."""
    widths, sound = [], SequenceStore.records

    def records(self, numbers):
        widths.append(len(numbers) if self is log.store else 0)
        return sound(self, numbers)

    monkeypatch.setattr(SequenceStore, "records", records)
    return widths


def test_who_reads_many_packs_lists_them_once(db):
    truncate(db.store().log, largest_bytes=10_000)
    store = db.store()
    store.log.refresh()
    packs = len(sizes(db))
    cost = spent(store, lambda: list(history.history(store.log, 0, 40)))
    assert cost == {"list": 1, "get": 1 + packs}
