"""ETags in and out, of every verb: in a transaction, on the table, and on a table of single rows."""

from __future__ import annotations

import pytest

import firn
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import (
    DuplicateKeyError,
    InvalidInputError,
    NoSuchKeyError,
    StaleObjectError,
)
from firn.testing import SimStore
from record_stores import Database

OLD, NEW, NEWER = {"n": 1}, {"n": 2}, {"n": 3}
ALL = ("insert", "upsert", "update", "delete")


class InTransactions:
    """Each verb in a transaction of its own, which commits."""

    def __init__(self, db):
        self.db, self.name = db, "t"

    def __getattr__(self, verb):
        def call(*args, **options):
            with self.db.begin() as tx:
                return getattr(tx, verb)(self.name, *args, **options)

        return call


@pytest.fixture(params=["transaction", "table", "single rows"])
def table(request):
    db = firn.connect("memory://")
    if request.param == "single rows":
        return db.create_table("t", kind="records", isolation="row")
    made = db.create_table("t", kind="records")
    return made if request.param == "table" else InTransactions(db)


def do(table, verb, etag):
    return table.delete("a", etag=etag) if verb == "delete" else getattr(table, verb)("a", NEW, etag=etag)


def there(table):
    try:
        return table.get("a").document
    except NoSuchKeyError:
        return None


AFTER = {"insert": NEW, "upsert": NEW, "update": NEW, "delete": None}


@pytest.mark.parametrize("verb", ALL)
@pytest.mark.parametrize("before", [None, OLD], ids=["missing", "there"])
def test_none_asks_for_no_etag(table, verb, before):
    if before:
        table.insert("a", before)
    if (verb == "insert") == (before is not None) and verb != "upsert":
        with pytest.raises(DuplicateKeyError if before else NoSuchKeyError):
            do(table, verb, None)
        assert there(table) == before
        return
    do(table, verb, None)
    assert there(table) == AFTER[verb]


@pytest.mark.parametrize("verb", ALL)
@pytest.mark.parametrize("before", [None, OLD], ids=["missing", "there"])
def test_an_empty_one_is_for_whatever_is_there_or_nothing(table, verb, before):
    if before:
        table.insert("a", before)
    do(table, verb, "")
    assert there(table) == AFTER[verb]


@pytest.mark.parametrize("verb", ["upsert", "update", "delete"])
def test_that_of_the_row_as_it_is(table, verb):
    table.insert("a", OLD)
    do(table, verb, table.get("a").etag)
    assert there(table) == AFTER[verb]


@pytest.mark.parametrize("verb", ["upsert", "update", "delete"])
def test_that_of_an_older_version(table, verb):
    table.insert("a", OLD)
    old = table.get("a").etag
    table.update("a", NEWER)
    with pytest.raises(StaleObjectError) as failure:
        do(table, verb, old)
    assert failure.value.current.document == NEWER
    assert failure.value.current.etag == table.get("a").etag
    assert failure.value.lasting
    assert there(table) == NEWER


@pytest.mark.parametrize("verb", ["upsert", "update", "delete"])
def test_that_of_a_row_that_was_deleted(table, verb):
    """Whoever has it has seen the row: it is stale, not unknown."""
    table.insert("a", OLD)
    old = table.get("a").etag
    table.delete("a")
    with pytest.raises(StaleObjectError) as failure:
        do(table, verb, old)
    assert failure.value.current is None
    table.insert("a", OLD)
    with pytest.raises(StaleObjectError):
        do(table, verb, old)
    assert there(table) == OLD


def test_a_new_row_has_none(table):
    with pytest.raises(InvalidInputError, match="insert of a row with etag='x': a new row has none"):
        table.insert("a", OLD, etag="x")


@pytest.mark.parametrize("write", ["insert", "upsert", "update"])
@pytest.mark.parametrize("verb", ["upsert", "update", "delete"])
def test_what_a_write_gave_back_is_good_for_the_next(table, write, verb):
    if write == "update":
        table.insert("a", OLD)
    etag = getattr(table, write)("a", NEWER)
    do(table, verb, etag)
    assert there(table) == AFTER[verb]
    with pytest.raises(StaleObjectError):
        do(table, verb, etag)


@pytest.mark.parametrize("verb", ALL)
@pytest.mark.parametrize("etag", [0, 5, b"x", ["x"], False])
def test_what_is_no_text_is_refused(table, verb, etag):
    table.insert("a" if verb != "insert" else "b", OLD)
    with pytest.raises(InvalidInputError, match=r"etag is .* it must be a text"):
        do(table, verb, etag)
    assert there(table) == (None if verb == "insert" else OLD)


# -- what a transaction gave back, after its commit


@pytest.fixture(params=["inline", "staged"])
def db(request):
    return Database(properties={"inline": "1B"} if request.param == "staged" else {})


def test_it_is_of_that_write_of_that_row_only(db):
    with db.begin() as tx:
        first = tx.insert("t", "a", OLD)
        last = tx.update("t", "a", NEW)
        other = tx.insert("t", "b", NEWER)
    for wrong in (first, other, last + "0", f"tx:{tx.txid}:"):
        with pytest.raises(StaleObjectError):
            db.begin().update("t", "a", NEWER, etag=wrong)
    later = db.begin()
    later.update("t", "a", NEWER, etag=last)
    with pytest.raises(StaleObjectError):
        later.update("t", "a", NEWER, etag=last)


def test_it_costs_nothing_where_the_commit_is_known(db):
    store = db.store()
    from firn.records.write.transaction import begin

    with begin(store) as tx:
        etag = tx.insert("t", "a", OLD)
    tx = begin(store)
    tx.get("t", "a")
    before = store.bucket.counters.requests
    tx.update("t", "a", NEW, etag=etag)
    assert store.bucket.counters.requests == before


def test_it_is_of_the_past_once_nobody_has_the_commit_any_more(db):
    with db.begin() as tx:
        etag = tx.insert("t", "a", OLD)
    for n in range(3):
        db.put(b={"n": n})
    db.apply()
    db.age(40)
    db.put(b=OLD)
    assert db.collect().lo > tx.committed
    db.begin().update("t", "a", NEW, etag=etag)
    db.bucket().delete_many([f"db/{path}" for path in db.paths("_firn/packs/")])
    with pytest.raises(StaleObjectError):
        db.begin().update("t", "a", NEW, etag=etag)


def test_one_of_the_past_is_not_tried_again():
    """Beginning again won't make it the row's."""
    bucket = SimStore().bucket()
    tables = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    table = tables.create(tables.describe("t", RecordOptions()))
    old = table.insert("a", OLD)
    table.update("a", NEW)
    before = bucket.counters.requests
    with pytest.raises(StaleObjectError):
        table.update("a", NEWER, etag=old)
    assert bucket.counters.requests == before + 1
