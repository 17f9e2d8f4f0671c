"""A row that changes all the time was written with all of its versions each time, also those that nobody reads."""

from __future__ import annotations

from firn.journal.sequence import Horizon
from firn.records.apply.apply import apply
from firn.records.apply.commit_applier import HOT, Applier
from firn.records.objects.store import DROPS
from firn.records.write.transaction import begin
from record_stores import Database


def updated(db, store, times):
    for n in range(times):
        with begin(store) as tx:
            tx.upsert("t", "hot", {"n": n})
        apply(store)


def versions(store):
    layout = store.layout("t", 0)
    return len(store.row(layout, "hot").row.versions)


def test_an_applier_drops_what_nobody_reads_any_more():
    db = Database(plain=False)
    store = db.store()
    updated(db, store, 50)
    assert versions(store) == 50
    store.log.learn(
        store.log.store.raise_horizon(Horizon(horizon=store.log.applied, applied=store.log.applied))
    )
    updated(db, store, 2)
    assert versions(store) == 3
    entries = db.simulated.keys("db/t/indices/n/")
    assert len(entries) == 3, "their entries go with them"
    assert begin(db.store()).count("t", n=1) == 1


def test_few_versions_are_left_to_a_collection():
    """Each deletes entries: that costs less in one go."""
    db = Database(plain=False)
    store = db.store()
    updated(db, store, DROPS)
    store.log.learn(
        store.log.store.raise_horizon(Horizon(horizon=store.log.applied, applied=store.log.applied))
    )
    updated(db, store, 1)
    assert versions(store) == DROPS + 1


def test_a_reader_at_the_horizon_keeps_its_version():
    db = Database(plain=False)
    store = db.store()
    updated(db, store, 30)
    reader = begin(db.store())
    store.log.learn(
        store.log.store.raise_horizon(Horizon(horizon=reader.snapshot, applied=store.log.applied))
    )
    updated(db, store, 30)
    assert reader.get("t", "hot")["n"] == 29
    assert [row["n"] for row in reader.find("t", n=29)] == [29]


def test_a_row_with_many_versions_is_written_for_many_commits_at_once():
    """Each update cost more than the one before: the row was written with all of its versions for each."""
    db = Database(plain=False)
    store = db.store()
    applier = Applier(store)
    written = []
    for n in range(300):
        with begin(store) as tx:
            tx.upsert("t", "hot", {"n": n})
        before = store.bucket.counters.as_dict()
        applier.work()
        if store.bucket.counters.since(before)["put"]:
            written.append(n)
    assert written[:HOT] == list(range(HOT)), "a row with few versions is brought up to date at once"
    assert len(written) < HOT + 300 / 4
    assert store.log.lag <= store.max_lag // 2
    db.simulated.time.advance(1000)
    applier.work()
    assert store.log.lag == 0 and versions(store) == 300
