"""The leader of a group commit listed a unique index for one transaction after another, and again at each attempt."""

from __future__ import annotations

import pytest

from firn.errors import DuplicateKeyError
from firn.journal.sequence import commit
from firn.records.write.transaction import begin
from record_stores import Database


def lists(bucket):
    return bucket.counters.as_dict()["list"]


def test_the_leader_of_a_group_lists_nothing():
    """Each transaction looks for its values itself, before it waits for its turn."""
    db = Database(plain=False)
    store = db.store()
    led = []
    lead = store.group.commit

    def counted(proposal):
        before = lists(store.bucket)
        try:
            return lead(proposal)
        finally:
            led.append(lists(store.bucket) - before)

    store.group.commit = counted
    for n in range(3):
        with begin(store) as tx:
            tx.insert("t", f"r{n}", {"u": n})
    assert led == [0, 0, 0]
    assert lists(store.bucket) == 3, "one a value"


def test_an_attempt_that_was_lost_repeats_no_look():
    db = Database(plain=False)
    store = db.store()
    tx = begin(store)
    tx.upsert("t", "mine", {"u": 1})
    tables = {"t": tx._at.table("t")}
    tx._holders.look(tx._at, tables, tx._writes)
    db.put(other={"u": 2})
    before = lists(store.bucket)
    assert isinstance(commit(store.log, [tx])[tx.txid], int)
    assert lists(store.bucket) == before


def test_a_value_that_came_meanwhile_is_found_all_the_same():
    db = Database(plain=False)
    tx = begin(db.store())
    tx.upsert("t", "mine", {"u": 1})
    db.put(other={"u": 1})
    with pytest.raises(DuplicateKeyError, match="t/u/"):
        tx.commit()
    db.apply()
    late = begin(db.store())
    late.upsert("t", "mine", {"u": 1})
    with pytest.raises(DuplicateKeyError, match="'other' has this value"):
        late.commit()


def test_a_snapshot_that_moves_is_looked_at_anew():
    """An insert behind a delete moves the snapshot: who holds a value then is another question."""
    db = Database(plain=False)
    db.put(gone={"u": 5}, holder={"u": 1})
    tx = begin(db.store())
    db.put(gone=None)
    tx.upsert("t", "mine", {"u": 9})
    tx._holders.look(tx._at, {"t": tx._at.table("t")}, tx._writes)
    db.put(holder={"u": 2})
    db.put(another={"u": 9})
    with pytest.raises(DuplicateKeyError):
        tx.insert("t", "gone", {"u": 1})
        tx.commit()
