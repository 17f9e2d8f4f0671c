"""In a directory, a put that had lost before it was sent wrote and synced its body all the same."""

from __future__ import annotations

import pytest

from firn.bucket import open_bucket
from firn.bucket.staging import Staging
from firn.errors import ObjectExistsError
from firn.journal.sequence.proposal import LONGEST_S, PATIENT, WIDEST
from firn.records.write.transaction import begin
from record_stores import Database


def test_a_put_of_what_is_there_writes_nothing(tmp_path, monkeypatch):
    bucket = open_bucket(str(tmp_path))
    bucket.put_if_absent("a/1", b"first")
    written = []
    write = Staging.write
    monkeypatch.setattr(Staging, "write", lambda self, data: written.append(data) or write(self, data))
    with pytest.raises(ObjectExistsError, match="exists already"):
        bucket.put_if_absent("a/1", b"second")
    assert written == []
    assert bucket.get("a/1").data == b"first"
    bucket.put_if_absent("a/2", b"third")
    assert written == [b"third"]


def test_whoever_loses_races_waits_before_the_next_one(monkeypatch):
    """16 processes that commit as often as they can lost nine puts of records for one that counted. The first race
    that is lost costs no wait, and neither do those of a transaction that has lost many: it isn't always the last."""
    db = Database(plain=False)
    store = db.store()
    with begin(store) as tx:
        tx.upsert("t", "a", {"n": 0})
    store.log.put_s = 0.1
    bucket, clock, others = store.bucket, store.clock, iter(range(12))
    put, waits = bucket.put_if_absent, []

    def beaten(key, data, **options):
        if "/_commits/" in key and next(others, None) is not None:
            waits.append([])
            db.put(b={"n": len(waits)})
        return put(key, data, **options)

    monkeypatch.setattr(bucket, "put_if_absent", beaten)
    monkeypatch.setattr(clock, "sleep", lambda seconds: waits[-1].append(seconds))
    with begin(store) as tx:
        tx.upsert("t", "a", {"n": 1})
    assert [len(each) for each in waits] == [0, *[1] * (PATIENT - 1), *[0] * (12 - PATIENT)]
    most = [min(2**n, WIDEST) * 0.1 for n in range(1, PATIENT)]
    assert all(0 < each[0] <= min(at, LONGEST_S) for each, at in zip(waits[1:], most, strict=False))
    assert store.log.put_s < 0.1  # it is measured again
