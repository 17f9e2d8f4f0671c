"""Advisory locks of rows (rule 25): they make conflicts early, and keep nobody from committing."""

from __future__ import annotations

import pytest

from firn.errors import ObjectLockedError, StaleObjectError, TransactionTimedOutError
from firn.records.write.transaction import begin
from record_stores import Database

OLD, NEW = {"n": 1}, {"n": 2}


@pytest.fixture
def db(twins):
    return Database(twins=twins)


def test_locks_make_conflicts_early(db):
    db.put(a=OLD)
    one, other = db.begin("one", lock=True), db.begin("other", lock=True)
    one.update("t", "a", NEW)
    with pytest.raises(ObjectLockedError, match="another transaction has the lock of row 'a' of 't'"):
        other.update("t", "a", NEW)
    one.update("t", "a", OLD)
    one.commit()
    with pytest.raises(StaleObjectError):
        other.update("t", "a", NEW)
    with db.begin("third", lock=True) as tx:
        tx.update("t", "a", NEW)


def test_a_lock_ends_by_the_stores_time(db):
    """Whatever clocks say."""
    db.put(a=OLD)
    dead = db.begin("dead", lock=True, timeout_s=60)
    dead.update("t", "a", NEW)
    db.age(59)
    for skew_ms in (-3_600_000, 3_600_000):
        with pytest.raises(ObjectLockedError):
            begin(db.store("hasty", skew_ms=skew_ms), lock=True).update("t", "a", NEW)
    db.age(2)
    with db.begin("heir", lock=True) as tx:
        tx.update("t", "a", {"n": 3})
    with pytest.raises(TransactionTimedOutError):
        dead.commit()


def test_a_lock_does_not_keep_others_from_committing(db):
    db.put(a=OLD)
    holder = db.begin("holder", lock=True)
    holder.update("t", "a", NEW)
    with db.begin("free") as tx:
        tx.update("t", "a", {"n": 3})
    with pytest.raises(StaleObjectError):
        holder.commit()
