"""Objects of rows that somebody has copied to other rows' names: whoever meets one names it, and nobody is misled."""

from __future__ import annotations

import pytest

import firn
from firn.errors import CorruptObjectError
from firn.inspect.fsck.fsck import check
from firn.records.apply.apply import settle
from firn.records.read.bulk import TableAt, snapshot_at
from firn.records.write.transaction import begin
from record_stores import PREFIX, Database


@pytest.fixture
def db():
    """With the object of row `a` under the names of row `b` and of no row."""
    made = Database()
    made.put(a={"n": 1, "u": "a"}, b={"n": 1, "u": "b"}, other={"n": 2})
    made.apply()
    for name in ("b", "nobody"):
        made.bucket().put(
            f"{PREFIX}/t/data/{name}.json", made.simulated.fetch(f"{PREFIX}/t/data/a.json").data
        )
    return made


def named(name):
    what = (
        rf"/t/data/{name}\.json is not a row of a record table: it holds the row 'a', so it was copied here"
    )
    return pytest.raises(CorruptObjectError, match=what)


@pytest.mark.parametrize("name", ["b", "nobody"])
def test_whoever_asks_for_the_row_is_told(db, name):
    for ask in (
        lambda tx: tx.get("t", name),
        lambda tx: tx.update("t", name, {}),
        lambda tx: tx.delete("t", name),
        lambda tx: tx.insert("t", name, {}),
    ):
        with named(name):
            ask(db.begin())


def test_finds_and_scans_do_not_show_one_row_as_another(db):
    tx = db.begin()
    with named("b"):
        tx.find("t", n=1)
    with named("b"):
        tx.find("t", u="b")
    with named("(b|nobody)"):
        tx.scan("t")
    assert [row.id for row in tx.find("t", u="a")] == ["a"]
    assert tx.get("t", "other")["n"] == 2
    store = db.store()
    rows = TableAt.of(snapshot_at(store), begin(store)._at.table("t"))
    with named("b"):
        rows.read(rows.keys(["b"]))


def test_a_commit_is_not_applied_to_another_rows_versions(db):
    """The row is put anew, of the commit alone."""
    number = db.put(b={"n": 3}, other={"n": 3})
    store = db.store("applier")
    settle(store)
    assert store.log.lag == 0
    assert [row.id for row in db.begin().find("t", n=3)] == ["b", "other"]
    row = db.store().row(store.layout("t", 0), "b").row
    assert [version.seq for version in row.versions] == [number] == [row.cut]
    assert db.begin().get("t", "b").document == {"n": 3}


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_fsck_tells(isolation):
    db = firn.connect("memory://")
    table = db.create_table("t", kind="records", isolation=isolation)
    table.insert("a", {"n": 1})
    table.insert("b", {"n": 2})
    if isolation == "snapshot":
        settle(table.session.store)
    assert check(db).problems == ()
    db.bucket.put("t/data/b.json", db.bucket.get("t/data/a.json").data)
    (problem,) = check(db).problems
    assert problem.object.endswith("/t/data/b.json") and "it holds the row 'a'" in problem.what
