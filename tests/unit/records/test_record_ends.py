"""How transactions end that are large, that took long, that were interrupted, or whose tables went."""

from __future__ import annotations

import pytest

from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    StaleObjectError,
    TableNotFoundError,
    TransactionClosedError,
    TransactionTimedOutError,
)
from firn.journal.sequence import Ddl
from firn.records.maintain.ddl import define
from firn.records.objects.staged import STAGED_S
from firn.records.write import retry, writes
from firn.records.write.retry import transact
from firn.records.write.transaction import begin
from firn.testing import delayed
from record_stores import PREFIX, Database

OLD, NEW = {"n": 1}, {"n": 2}


# -- large ones


def test_thousands_of_rows_in_a_transaction(db):
    rows = {f"r{n:05}": {"n": n % 3} for n in range(3_000)}
    store = db.store()
    tx = begin(store)
    for id, document in rows.items():
        tx.upsert("t", id, document)
    before = store.bucket.counters.requests
    number = tx.commit()
    assert store.bucket.counters.requests == before + 1
    late = db.begin()
    assert (late.snapshot, late.count("t")) == (number, 3_000)
    db.apply()
    assert {row["_id"]: row.document for row in db.begin().scan("t")} == rows
    assert db.begin().count("t", n=2) == 1_000


def test_what_makes_a_record_too_large_is_staged_the_largest_first(db, monkeypatch):
    monkeypatch.setattr(writes, "LARGEST_BYTES", 20_000)
    sizes = {"a": 9_000, "b": 6_000, "c": 5_500, "d": 5_000, "e": 4_500, "f": 4_100}
    documents = {id: {"n": 1, "text": "x" * size} for id, size in sizes.items()}
    number = db.put(**documents)
    assert len(db.paths("_firn/bodies/")) == 2  # a and b: what is left has 19,100 bytes and a little
    assert 19_000 < len(db.simulated.fetch(f"{PREFIX}/_commits/{number:020}").data) < 22_000
    assert {row["_id"]: row.document for row in db.begin().find("t", n=1)} == documents


def test_small_documents_are_not_staged_but_there_is_an_end_to_them(db, monkeypatch):
    monkeypatch.setattr(writes, "LARGEST_BYTES", 1_000)
    monkeypatch.setattr(writes, "LARGEST", 10_000)
    db.put(**{f"r{n}": {"text": "x" * 900} for n in range(10)})
    assert db.paths("_firn/bodies/") == []
    tx = db.begin()
    for n in range(20):
        tx.upsert("t", f"s{n}", {"text": "x" * 900})
    with pytest.raises(InvalidInputError, match="writes 18,220 bytes of small documents; at most 10,000 fit"):
        tx.commit()
    assert db.begin().count("t") == 10


def test_a_staged_document_that_was_damaged_is_named():
    db = Database(properties={"inline": "20B"})
    db.put(a={"n": 1, "text": "x" * 100})
    [path] = db.paths("_firn/bodies/")
    db.bucket().put(f"{PREFIX}/{path}", db.simulated.fetch(f"{PREFIX}/{path}").data.replace(b"xx", b"xy", 1))
    for look in (lambda: db.begin().get("t", "a"), lambda: db.begin().find("t", n=1)):
        with pytest.raises(CorruptObjectError, match=f"{path} isn't the document that was put there"):
            look()


def test_who_slept_with_staged_documents_does_not_commit_what_was_swept():
    db = Database(properties={"inline": "20B"})
    tx = db.begin("asleep", timeout_s=30 * 86_400)
    tx.upsert("t", "a", {"n": 1, "text": "x" * 100})
    commit = tx._store.group.commit
    tx._store.group.commit = lambda proposal: (db.age(STAGED_S + 1), commit(proposal))[1]
    with pytest.raises(TransactionTimedOutError, match="staged its large rows days ago"):
        tx.commit()
    assert db.begin().count("t") == 0


def test_who_slept_with_small_documents_commits():
    db = Database()
    tx = db.begin("asleep", timeout_s=30 * 86_400)
    tx.upsert("t", "a", OLD)
    db.age(STAGED_S + 1)
    tx.commit()
    assert db.begin().count("t") == 1


# -- interrupted ones


@pytest.mark.parametrize("landed", [False, True])
def test_an_interrupted_commit_is_in_doubt(db, landed):
    """Nobody says that it was rolled back: it may be there."""
    tx = db.begin()
    tx.upsert("t", "a", NEW)
    commit = tx._store.group.commit

    def interrupted(proposal):
        if landed:
            commit(proposal)
        raise KeyboardInterrupt

    tx._store.group.commit = interrupted
    with pytest.raises(KeyboardInterrupt), tx:
        pass
    assert tx.in_doubt
    with pytest.raises(TransactionClosedError, match="has ended with an unknown outcome"):
        tx.get("t", "a")
    assert db.begin().count("t") == landed


class Unanswered:
    """Commits that aren't answered while it is `on`, and land a quarter of an hour later."""

    def __init__(self):
        self.on = True

    def decide(self, call):
        return delayed(900) if self.on and call.verb == "put_if_absent" and "/_commits/" in call.key else None


def test_what_was_found_out_of_a_commit_stays_so(db):
    """It isn't in the log: so it must not come later, when the work was done again and had nothing to write."""
    db.put(other=OLD)
    plan = Unanswered()
    store = db.on(db.simulated.bucket("client", plan=plan))
    attempts = []

    def work(tx):
        attempts.append(tx)
        if len(attempts) == 1:
            tx.insert("t", "a", NEW)
        return tx.count("t")

    settle = retry.settle

    def settled(*args):
        plan.on = False
        return settle(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry, "settle", settled)
        assert transact(store, work) == 1
    assert attempts[0].in_doubt
    assert len(attempts) == 2
    db.age(2_000)
    assert db.begin().count("t") == 1


# -- dropped tables


def recreated(db):
    define(db.store(), Ddl("drop", "t"))
    db.create("t", *db.definitions["t"].indices)


@pytest.mark.parametrize("look", ["get", "find", "scan", "miss"])
def test_who_read_a_table_that_was_dropped_does_not_write_another(db, look):
    """Its rows may have vanished one by one while they were read."""
    db.put(a=OLD)
    tx = db.begin()
    if look == "get":
        tx.get("t", "a")
    elif look == "miss":
        with pytest.raises(LookupError):
            tx.get("t", "b")
    else:
        getattr(tx, look)("t", n=1)
    tx.upsert("plain", "sum", {"n": 1})
    define(db.store(), Ddl("drop", "t"))
    with pytest.raises(StaleObjectError, match="the table 't' was dropped meanwhile; begin again"):
        tx.commit()
    assert db.begin().count("plain") == 0


def test_who_did_not_read_a_table_that_was_dropped_commits(db):
    tx = db.begin()
    tx.upsert("plain", "sum", {"n": 1})
    define(db.store(), Ddl("drop", "t"))
    tx.commit()
    assert db.begin().count("plain") == 1


def test_a_snapshot_does_not_move_beyond_a_table_that_was_dropped_and_created_again(db):
    """Or what was written to the first would be in the second."""
    tx = db.begin()
    tx.upsert("t", "b", OLD)
    recreated(db)
    db.put(a=OLD)
    db.put(a=None)
    with pytest.raises(StaleObjectError, match="the table 't' was dropped and created again meanwhile"):
        tx.insert("t", "a", NEW)
    assert db.begin().count("t") == 0


def test_nor_beyond_one_that_was_written_to_and_dropped(db):
    tx = db.begin()
    tx.upsert("plain", "b", OLD)
    db.put(a=OLD)
    db.put(a=None)
    define(db.store(), Ddl("drop", "plain"))
    with pytest.raises(TableNotFoundError, match="'plain' is no record table of"):
        tx.insert("t", "a", NEW)
    with pytest.raises(TableNotFoundError):
        tx.commit()
