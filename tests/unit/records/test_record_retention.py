"""What a collection leaves: by age, by the store's clock, for at least R, and for who reads in the same process."""

from __future__ import annotations

import pytest

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import SnapshotTooOldError
from firn.records.apply.apply import settle
from firn.records.maintain.collection import collect, sweep
from firn.records.write.transaction import begin
from firn.testing import SimStore
from record_stores import Database, R

OLD, NEW, NEWER = {"n": 1}, {"n": 2}, {"n": 3}


@pytest.fixture(params=[-3_600_000, 0, 3_600_000], ids=["an hour slow", "right", "an hour fast"])
def skew_ms(request):
    """Of the collector's clock, which decides nothing."""
    return request.param


def collected(db, retention_s, skew_ms):
    store = db.store("collector", skew_ms=skew_ms)
    settle(store)
    return collect(store, retention_s=retention_s).horizon


def seen(tx):
    return tx.get("t", "a").document, [row.id for row in tx.find("t", n=1)]


def test_snapshots_of_the_retention_stay(db, skew_ms):
    db.put(a=OLD)
    db.apply()
    old, too_old = db.begin("old", timeout_s=1e6), db.begin("too old", timeout_s=1e6)
    db.put(a=NEW)
    db.age(R + 2)
    db.put(b=NEW)
    assert collected(db, 3_600, skew_ms) == 0
    assert seen(old) == (OLD, ["a"])
    db.age(3_600 - R)
    db.put(b=NEWER)
    assert collected(db, 3_600, skew_ms) == old.snapshot
    assert seen(old) == (OLD, ["a"])
    db.age(R + 4)
    assert collected(db, 3_600, skew_ms) == old.snapshot + 1
    for look in (lambda: too_old.get("t", "a"), lambda: too_old.find("t", n=1)):
        with pytest.raises(SnapshotTooOldError):
            look()


def test_without_retention_what_was_replaced_within_r_stays(db, skew_ms):
    """A find within R of its beginning asks nobody what is gone."""
    db.put(a=OLD)
    db.apply()
    old = db.begin("old")
    db.put(a=NEW)
    db.age(R - 2)
    db.put(b=NEW)
    assert collected(db, 0, skew_ms) < old.snapshot
    assert seen(old) == (OLD, ["a"])
    db.age(4)
    assert collected(db, 0, skew_ms) == old.snapshot
    assert seen(old) == (OLD, ["a"])


def test_staged_documents_and_packs_stay_as_long_as_orphans_do(skew_ms):
    """A document is put before its commit, and a pack is for those who stalled."""
    db = Database(properties={"inline": "20B"})
    db.put(a={"text": "x" * 100})
    db.age(R + 2)
    db.put(b=OLD)
    db.age(R + 2)
    db.put(b=NEW)
    assert collected(db, 0, skew_ms) > 0
    tx = begin(db.store("slow"), timeout_s=1e6)
    tx.upsert("t", "late", {"text": "y" * 100})
    put = tx._store.group.commit

    def commit(proposal):
        db.age(900)
        assert sweep(db.store("sweeper", skew_ms=skew_ms), orphan_age_s=1_000).bodies == 0
        return put(proposal)

    tx._store.group.commit = commit
    tx.commit()
    assert db.begin().get("t", "late")["text"] == "y" * 100
    assert len(db.paths("_firn/packs/")) == 1
    db.age(1_000)
    swept = sweep(db.store("sweeper", skew_ms=skew_ms), orphan_age_s=1_000)
    assert (swept.bodies, swept.packs) == (0, 1)
    assert {row.id for row in db.begin().scan("t")} == {"a", "b", "late"}


def test_tables_of_single_rows_are_in_no_sweeps_way():
    """They have neither entries nor staged documents, and rows of another form."""
    bucket = SimStore().bucket()
    tables = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    tables.create(tables.describe("single", RecordOptions(isolation="row"))).insert("a", OLD)
    table = tables.create(tables.describe("t", RecordOptions(indices=["n"], properties={"inline": "20B"})))
    table.insert("a", {"text": "x" * 100})
    bucket.put("db/_firn/bodies/left.0.00000000", b"{}")
    bucket.clock.sleep(60)
    table.update("a", NEW)
    bucket.clock.sleep(60)
    table.update("a", NEWER)
    assert table.sweep("0s", "0s").left_over == 1
    assert [row.id for row in table.find(n=3)] == ["a"]
