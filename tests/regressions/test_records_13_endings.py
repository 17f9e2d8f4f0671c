"""A transaction that took too long left its block in silence; its locks ended before it; ids had two orders."""

from __future__ import annotations

import asyncio
import unicodedata
from contextlib import suppress

import pytest

import firn
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import FirnError, ObjectLockedError, TransactionTimedOutError
from firn.testing import SimStore


class Database:
    def __init__(self):
        self.store = SimStore()
        self.tables = self.process()
        self.t = self.tables.create(self.tables.describe("t", RecordOptions()))

    def process(self):
        bucket = self.store.bucket()
        return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)

    def begin(self, **options):
        return self.process().session.begin(**options)

    def age(self, seconds):
        self.store.time.advance(seconds * 1000)


@pytest.fixture
def db():
    return Database()


def test_a_block_that_took_too_long_and_swallowed_it_raises(db):
    with pytest.raises(TransactionTimedOutError, match="took longer than 5 s"), db.begin(timeout=5) as tx:
        tx.upsert("t", "a", {"n": 1})
        db.age(6)
        with suppress(FirnError):
            tx.get("t", "b")
    assert db.t.count() == 0


def test_so_does_transact_which_tries_it_once(db):
    tries = []

    def work(tx):
        tries.append(tx)
        tx.upsert("t", "a", {"n": 1})
        db.age(6)
        with suppress(FirnError):
            tx.get("t", "b")

    with pytest.raises(TransactionTimedOutError):
        db.process().session.transact(work, timeout=5)
    assert len(tries) == 1 and db.t.count() == 0


def test_so_does_an_async_block():
    db = firn.connect("memory://")
    db.create_table("t", kind="records")

    async def main():
        async with db.aio.begin(timeout=0.001) as tx:
            await asyncio.sleep(0.01)
            with suppress(FirnError):
                await tx.upsert("t", "a", {"n": 1})

    with pytest.raises(TransactionTimedOutError):
        asyncio.run(main())


def test_other_errors_of_the_block_are_told_instead(db):
    with pytest.raises(KeyError, match="own"), db.begin(timeout=5) as tx:
        db.age(6)
        with suppress(FirnError):
            tx.upsert("t", "a", {"n": 1})
        raise KeyError("own")


@pytest.mark.parametrize("timeout", [20, 600])
def test_a_lock_lasts_as_long_as_its_transaction_may(db, timeout):
    db.t.insert("a", {"n": 1})
    holder = db.begin(lock=True, timeout=timeout)
    db.age(timeout // 2)
    holder.update("t", "a", {"n": 2})
    db.age(timeout // 2 - 1)
    with pytest.raises(ObjectLockedError):
        db.begin(lock=True).update("t", "a", {"n": 3})
    db.age(2)
    with db.begin(lock=True) as heir:
        heir.update("t", "a", {"n": 3})
    assert db.t.get("a")["n"] == 3


IDS = ("e\u0301", "\u00e9", "z", "e", "~", "A", "\U0001f600", "\uff5e")


def test_ids_have_one_order(db):
    for id in IDS:
        db.t.insert(id, {"n": 1, "id": id})
    ordered = sorted(IDS)
    assert ordered != sorted(IDS, key=lambda id: unicodedata.normalize("NFC", id))
    for order_by in (None, "_id", ["_id"], ["n", "_id"], ["_id asc", "n"]):
        assert [row.id for row in db.t.scan(order_by=order_by)] == ordered, order_by
        pages, last = [], None
        while page := db.t.scan(order_by=order_by, limit=3, after=last):
            pages += [row.id for row in page]
            last = page[-1]
        assert pages == ordered
    assert [row.id for row in db.t.scan(order_by="_id desc")] == ordered[::-1]


def test_in_the_order_of_ids_only_a_page_is_read(db):
    for n in range(20):
        db.t.insert(f"{n:02}", {"n": n})
    tables = db.process()
    reader = tables.open(db.t.definition)
    from firn.records.apply.apply import settle

    settle(tables.session.store)
    before = reader.bucket.counters.get
    assert [row.id for row in reader.scan(order_by="_id", limit=2)] == ["00", "01"]
    assert reader.bucket.counters.get - before <= 2 + 2
