"""A transaction looked for a value in a unique index that was being built, and lost a race to the commit that made
the index ready. It took the answer of the unfinished index for good: two rows had one value."""

from __future__ import annotations

import pytest

from firn.errors import DuplicateKeyError
from firn.journal.sequence import Ddl, commit
from firn.records.maintain.ddl import define
from firn.records.maintain.indexes import build_index
from firn.records.write.transaction import begin
from record_stores import Database


def test_what_an_unfinished_index_told_doesnt_count_when_it_is_ready():
    db = Database(plain=False)
    db.put(old={"w": 1})
    db.apply()
    store = db.store()
    define(store, Ddl("build", "t", field="w", unique=True))
    tx = begin(store)
    tx.upsert("t", "new", {"w": 1})
    tx._holders.look(tx._at, {"t": tx._at.table("t")}, tx._writes)
    build_index(db.store(), "t", "w", unique=True)
    outcome = commit(store.log, [tx])[tx.txid]
    assert isinstance(outcome, DuplicateKeyError), outcome
    with pytest.raises(DuplicateKeyError, match="old"):
        raise outcome
