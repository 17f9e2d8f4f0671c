"""Transactions of record tables: how they end, rules 12 to 16, ETags, isolation, timeouts, large bodies."""

from __future__ import annotations

import pytest

from firn.errors import (
    DuplicateKeyError,
    NoSuchKeyError,
    StaleObjectError,
    StoreUnavailableError,
    TransactionClosedError,
    TransactionTimedOutError,
)
from firn.records.write.transaction import begin
from firn.testing import FAILED, LOST_ACK, Rule, Script, delayed
from record_stores import PREFIX, Database, R

OLD, NEW = {"n": 1}, {"n": 2}


@pytest.fixture(params=["pending", "applied"])
def applied(request):
    """Whether commits are in rows already, or only in the log."""
    return request.param == "applied"


@pytest.fixture(params=[False, True], ids=["free", "locked"])
def lock(request):
    return request.param


@pytest.fixture
def db(twins):
    return Database(twins=twins)


def seen(tx, id="a"):
    """The row by id, and under which values an index has it."""
    try:
        document = tx.get("t", id).document
    except NoSuchKeyError:
        document = None
    by_index = [n for n in (1, 2) if id in {row["_id"] for row in tx.find("t", n=n)}]
    assert by_index == ([] if document is None else [document["n"]])
    assert (id in {row["_id"] for row in tx.scan("t")}) == (document is not None)
    return document


def do(tx, verb):
    """The change of each matrix, and what the row is before and after."""
    if verb == "insert":
        tx.insert("t", "a", NEW)
    elif verb == "update":
        tx.update("t", "a", NEW)
    else:
        tx.delete("t", "a")


BEFORE = {"insert": None, "update": OLD, "delete": OLD}
AFTER = {"insert": NEW, "update": NEW, "delete": None}


def prepared(db, verb, applied):
    if BEFORE[verb] is not None:
        db.put(a=OLD)
    if applied:
        db.apply()


@pytest.mark.parametrize("verb", ["insert", "update", "delete"])
@pytest.mark.parametrize("how", ["rollback", "error", "crash"])
def test_rollback(db, verb, applied, lock, how):
    prepared(db, verb, applied)
    before, rival = db.begin("before"), db.begin("rival")
    tx = db.begin("own", lock=lock)
    if how == "error":
        with pytest.raises(KeyError, match="user"), tx:
            do(tx, verb)
            raise KeyError("user")
    else:
        do(tx, verb)
        if how == "rollback":
            tx.rollback()
    assert seen(before) == BEFORE[verb]
    assert seen(db.begin("after")) == BEFORE[verb]
    do(rival, verb)
    rival.commit()
    assert seen(db.begin("last")) == AFTER[verb]


# -- insert (rule 12)


def test_inserting_an_id_whose_delete_was_committed(db, applied):
    """Also from a transaction begun earlier that never read the key."""
    db.put(a=OLD)
    early = db.begin("early")
    deleter = db.begin("deleter")
    deleter.delete("t", "a")
    with pytest.raises(DuplicateKeyError):
        db.begin("hasty").insert("t", "a", NEW)
    deleter.commit()
    if applied:
        db.apply()
    began = early.snapshot
    early.insert("t", "a", NEW)
    assert early.snapshot > began
    early.commit()
    assert seen(db.begin()) == NEW


@pytest.mark.parametrize("touch", ["the id", "another row", "a predicate", "a write"])
def test_a_snapshot_does_not_move_beyond_what_it_has_seen(db, touch):
    db.put(a=OLD, b=OLD)
    tx = db.begin("early")
    if touch == "the id":
        tx.get("t", "a")
    elif touch == "another row":
        tx.get("t", "b")
    elif touch == "a predicate":
        tx.find("t", n=2)
    else:
        tx.upsert("t", "b", NEW)
    db.put(a=None, b=NEW)
    with pytest.raises(StaleObjectError):
        tx.insert("t", "a", NEW)


def test_the_whole_snapshot_moves(db):
    db.put(a=OLD, b=OLD, c=OLD)
    tx = db.begin("early")
    assert tx.get("t", "c").document == OLD
    db.put(a=None, b=NEW)
    tx.insert("t", "a", NEW)
    assert tx.get("t", "b").document == NEW
    assert tx.get("t", "c").document == OLD


def test_inserting_what_the_transaction_deleted_itself(db):
    db.put(a=OLD)
    with db.begin() as tx:
        tx.delete("t", "a")
        tx.insert("t", "a", NEW)
        with pytest.raises(DuplicateKeyError, match="written by this transaction"):
            tx.insert("t", "a", NEW)
    assert seen(db.begin()) == NEW


def test_two_inserts_of_one_id_at_once(db):
    one, other = db.begin("one"), db.begin("other")
    one.insert("t", "a", OLD)
    other.insert("t", "a", NEW)
    one.commit()
    with pytest.raises(StaleObjectError):
        other.commit()


# -- ETags


def test_etags(db, applied):
    db.put(a=OLD)
    if applied:
        db.apply()
    tx = db.begin()
    row = tx.get("t", "a")
    assert tx.find("t", n=1)[0].etag == row.etag
    with pytest.raises(
        StaleObjectError, match=r"row 'a' of 't' is at '.*', not at 'other' any more"
    ) as failure:
        tx.update("t", "a", NEW, etag="other")
    assert failure.value.current == row
    own = tx.update("t", "a", {**row, "n": 2}, etag=row.etag)
    assert tx.get("t", "a").etag == own != row.etag
    with pytest.raises(StaleObjectError):
        tx.update("t", "a", NEW, etag=row.etag)
    tx.update("t", "a", NEW, etag=own)
    tx.commit()
    later = db.begin()
    assert later.get("t", "a").etag not in (row.etag, own)
    with pytest.raises(StaleObjectError):
        later.delete("t", "a", etag=row.etag)
    later.delete("t", "a", etag=later.get("t", "a").etag)
    with pytest.raises(StaleObjectError, match="was deleted") as failure:
        later.update("t", "a", NEW, etag=row.etag)
    assert failure.value.current is None


def test_an_empty_etag_is_for_whatever_is_there(db):
    with db.begin() as tx:
        tx.update("t", "a", NEW, etag="")
        tx.delete("t", "b", etag="")
        tx.upsert("t", "c", OLD)
    assert seen(db.begin()) == NEW
    with db.begin() as tx:
        tx.delete("t", "a", etag="")
    assert seen(db.begin()) is None
    with pytest.raises(StaleObjectError):
        db.begin().upsert("t", "c", NEW, etag="other")


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_what_is_not_there_can_not_be_changed(db, verb):
    with pytest.raises(NoSuchKeyError, match="'t' has no row 'a'"):
        do(db.begin(), verb)


# -- isolation


def test_write_skew_is_allowed_unless_serializable_is_asked_for(db):
    """The doctors on call."""
    for serializable in (False, True):
        db.put(x={"n": 1}, y={"n": 1})
        one, other = db.begin("one", serializable=serializable), db.begin("other", serializable=serializable)
        for tx, id in ((one, "x"), (other, "y")):
            assert len(tx.find("t", n=1)) == 2
            tx.update("t", id, {"n": 0})
        one.commit()
        if serializable:
            with pytest.raises(StaleObjectError, match="read by this transaction"):
                other.commit()
        else:
            other.commit()


@pytest.mark.parametrize("look", ["miss", "find", "scan"])
def test_serializable_notices_what_was_not_there(db, look):
    one, other = db.begin("one", serializable=True), db.begin("other", serializable=True)
    for tx, mine, theirs in ((one, "x", "y"), (other, "y", "x")):
        if look == "miss":
            with pytest.raises(NoSuchKeyError):
                tx.get("t", theirs)
        else:
            assert not (tx.find("t", n=1) if look == "find" else tx.scan("t"))
        tx.insert("t", mine, OLD)
    one.commit()
    with pytest.raises(StaleObjectError):
        other.commit()


def test_serializable_does_not_mind_what_it_did_not_look_for(db):
    one, other = db.begin("one", serializable=True), db.begin("other", serializable=True)
    one.find("t", n=1)
    other.upsert("t", "x", {"n": 2})
    other.commit()
    one.upsert("t", "y", {"n": 2})
    one.commit()


# -- ends


def test_a_transaction_ends_once(db):
    tx = db.begin()
    tx.upsert("t", "a", OLD)
    assert tx.commit() == 3
    for again in (tx.commit, tx.rollback, lambda: tx.get("t", "a"), lambda: tx.upsert("t", "a", OLD)):
        with pytest.raises(TransactionClosedError, match="is already committed; begin another"):
            again()
    tx = db.begin()
    tx.rollback()
    with pytest.raises(TransactionClosedError, match="is already rolled back"):
        tx.commit()


def test_a_transaction_that_takes_too_long(db):
    tx = db.begin(timeout_s=60)
    tx.upsert("t", "a", OLD)
    db.age(60)
    with pytest.raises(TransactionTimedOutError, match="took longer than 60 s and was rolled back"):
        tx.commit()
    assert seen(db.begin()) is None


def test_what_was_only_read_commits_for_nothing(db):
    db.put(a=OLD)
    tx = db.begin()
    tx.get("t", "a")
    store = tx._store.bucket
    before = store.counters.requests
    assert tx.commit() == tx.snapshot
    assert store.counters.requests == before


# -- large bodies


def test_large_documents_are_staged(applied):
    db = Database(properties={"inline": "20B"})
    large = {"n": 1, "text": "x" * 100}
    db.put(a=large, b={"n": 1})
    assert len(db.paths("_firn/bodies/")) == 1
    assert len(db.simulated.fetch(f"{PREFIX}/_commits/{3:020}").data) < 1500
    if applied:
        db.apply()
    tx = db.begin()
    assert tx.get("t", "a").document == large
    assert {row["_id"] for row in tx.find("t", n=1)} == {"a", "b"}
    db.put(a=OLD)
    db.put(b=OLD)
    db.age(R + 2)
    db.put(c=OLD)
    db.collect()
    assert db.paths("_firn/bodies/") == []


@pytest.mark.parametrize("fault", [FAILED, LOST_ACK, delayed(5)])
def test_a_body_that_can_not_be_staged_is_not_committed(fault):
    db = Database(properties={"inline": "20B"})
    plan = Script(Rule(fault, verb="put", key="*/bodies/*"))
    bucket = db.simulated.bucket(plan=plan)
    tx = begin(db.on(bucket))
    tx.upsert("t", "a", {"n": 1, "text": "x" * 100})
    with pytest.raises(StoreUnavailableError):
        tx.commit()
    assert seen(db.begin()) is None
