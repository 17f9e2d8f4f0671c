"""Indices that are built while others write, and dropped (rule 27); definitions in the log (rule 16)."""

from __future__ import annotations

import pytest

import firn
from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    InvalidInputError,
    NotFoundError,
    StaleObjectError,
    TableExistsError,
    TableNotFoundError,
)
from firn.inspect.fsck.records import check_records
from firn.journal.sequence import Ddl, LogTransaction, RowWrite, commit
from firn.records.apply.apply import apply, settle
from firn.records.maintain.collection import sweep
from firn.records.maintain.ddl import define
from firn.records.maintain.indexes import build_index, drop_index
from record_stores import PREFIX, Before, Database, R


@pytest.fixture
def db():
    db = Database()
    db.put(**{f"r{n}": {"city": "Oslo" if n % 2 else "Bergen"} for n in range(6)})
    return db


def found(tx, city="Oslo"):
    return [row["_id"] for row in tx.find("t", city=city)]


def test_an_index_is_used_from_its_commit_on(db):
    early = db.begin("early")
    ready = build_index(db.store("builder"), "t", "city")
    with pytest.raises(InvalidInputError):
        found(early)
    tx = db.begin()
    assert tx.snapshot == ready
    assert found(tx) == ["r1", "r3", "r5"]


def test_who_writes_while_it_is_built_adds_entries(db):
    """A writer that began before the build, and commits after it."""
    writer = db.begin("writer")
    writer.update("t", "r0", {"city": "Oslo"})
    writer.update("t", "r1", {"city": "Bergen"})
    build_index(
        db.store("builder", Before("list", "t/data/", writer.commit)),
        "t",
        "city",
    )
    db.apply()
    assert found(db.begin()) == ["r0", "r3", "r5"]
    assert found(db.begin(), "Bergen") == ["r1", "r2", "r4"]


def test_versions_that_older_snapshots_see_have_entries_too(db):
    db.apply()
    db.put(r1={"city": "Bergen"})
    build_index(db.store("builder"), "t", "city")
    tx = db.begin()
    db.put(r1={"city": "Oslo"})
    db.apply()
    assert found(tx) == ["r3", "r5"]


def test_a_build_that_was_interrupted_goes_on(db):
    define(db.store(), Ddl("build", "t", field="city"))
    db.put(r0={"city": "Oslo"})
    with pytest.raises(InvalidInputError):
        found(db.begin())
    build_index(db.store("builder"), "t", "city")
    assert found(db.begin()) == ["r0", "r1", "r3", "r5"]
    with pytest.raises(ConflictError, match="has an index on 'city'; use it, or drop it first"):
        build_index(db.store("builder"), "t", "city")


def test_a_dropped_index_can_be_used_by_older_snapshots_until_it_is_swept(db):
    build_index(db.store("builder"), "t", "city")
    db.apply()
    old = db.begin("old")
    drop_index(db.store("builder"), "t", "city")
    with pytest.raises(InvalidInputError):
        found(db.begin())
    assert found(old) == ["r1", "r3", "r5"]
    sweep(db.store(), orphan_age_s=0)
    assert found(old) == ["r1", "r3", "r5"]
    db.put(x={"n": 1})
    db.age(R + 2)
    db.put(x={"n": 1})
    db.collect()
    assert sweep(db.store(), orphan_age_s=0).entries == 6
    assert db.paths("t/indices/city/") == []
    with pytest.raises(NotFoundError, match="has no index on 'city'"):
        drop_index(db.store(), "t", "city")


def test_an_index_that_is_made_again_has_entries_of_its_own(db):
    """Whoever deletes those of the first does no harm, however late."""
    build_index(db.store("builder"), "t", "city")
    first = db.paths("t/indices/city")
    drop_index(db.store("builder"), "t", "city")
    build_index(db.store("builder"), "t", "city")
    db.put(r6={"city": "Oslo"})
    db.bucket().delete_many([f"{PREFIX}/{path}" for path in first])
    db.apply()
    assert found(db.begin()) == ["r1", "r3", "r5", "r6"]
    assert {path.split("/")[2] for path in db.paths("t/indices/city")} == {"city~1"}


def test_a_sweep_spares_an_index_that_is_made_meanwhile(db):
    db.apply()
    db.age(R + 2)
    db.put(x={"n": 1})
    db.collect()
    build = Before("list", "t/indices/", lambda: build_index(db.store("builder"), "t", "city"))
    assert sweep(db.store("sweeper", build), orphan_age_s=0).entries == 0
    assert found(db.begin()) == ["r1", "r3", "r5"]


def test_a_sweep_spares_an_index_that_only_a_snapshot_in_between_has(db):
    db.apply()
    db.age(R + 2)
    db.put(x={"n": 1})
    db.collect()
    build_index(db.store("builder"), "t", "city")
    tx = db.begin("reader")
    drop_index(db.store("builder"), "t", "city")
    sweep(db.store("sweeper"), orphan_age_s=0)
    assert found(tx) == ["r1", "r3", "r5"]


def test_a_unique_index_of_values_that_are_twice(db):
    with pytest.raises(DuplicateKeyError, match="t/city/"):
        build_index(db.store("builder"), "t", "city", unique=True)
    assert "city" not in db.store().log.refresh().catalog["t"].fields


def test_a_unique_index_of_values_that_become_twice_while_it_is_built(db):
    """The writer finds no entry, as the other row's isn't there yet."""
    db.put(**{f"r{n}": {"city": f"town {n}"} for n in range(6)})
    db.apply()
    writer = db.begin("writer")
    writer.insert("t", "late", {"city": "town 3"})
    builder = db.store("builder", Before("list", "t/data/", writer.commit))
    with pytest.raises(DuplicateKeyError, match="t/city/town%203: rows 'r3' and 'late' have one value"):
        build_index(builder, "t", "city", unique=True)
    assert writer.committed == 6


class Claim:
    """A writer that had looked for its value before entries were there, and whose commit comes late."""

    txid, snapshot = "late", 4

    def __init__(self, rows):
        self.rows = rows

    def admit(self, moment):
        writes = tuple(RowWrite("t", id, body) for id, body in self.rows.items())
        return LogTransaction(self.txid, self.snapshot, writes, ("t/city/town%203",))


TAKEN, GIVEN_UP = {"late": b'{"city":"town 3"}'}, {"late": b'{"city":"town 3"}', "r3": b"{}"}


@pytest.mark.parametrize("rows", [TAKEN, GIVEN_UP], ids=["taken", "handed over"])
def test_a_unique_index_that_is_claimed_just_before_it_is_ready(db, rows):
    db.put(**{f"r{n}": {"city": f"town {n}"} for n in range(6)})
    log = db.store("late").log
    before = Before("put_if_absent", f"{6:020}", lambda: commit(log, [Claim(rows)]))
    builder = db.store("builder", before)
    if "r3" in rows:
        assert build_index(builder, "t", "city", unique=True) == 7, "the value was handed over"
        return
    with pytest.raises(DuplicateKeyError, match="row 'r3' and row 'late', written meanwhile, have one value"):
        build_index(builder, "t", "city", unique=True)
    assert "city" not in db.store().log.refresh().catalog["t"].fields


def test_a_unique_index_over_moving_values(db):
    db.put(**{f"r{n}": {"city": f"town {n}"} for n in range(6)})
    build_index(db.store("builder"), "t", "city", unique=True)
    with pytest.raises(DuplicateKeyError):
        db.put(x={"city": "town 3"})
    with db.begin() as tx:
        tx.update("t", "r3", {"city": None})
        tx.insert("t", "x", {"city": "town 3"})
    assert found(db.begin(), "town 3") == ["x"]


def test_an_index_of_what_it_can_not_hold(db):
    db.put(r0={"city": ["Oslo"]})
    with pytest.raises(InvalidInputError, match="at city, which is indexed"):
        build_index(db.store("builder"), "t", "city")
    assert "city" not in db.store().log.refresh().catalog["t"].fields


@pytest.mark.parametrize("applied", [False, True])
def test_what_only_older_versions_hold_is_in_no_indexs_way(applied):
    table = firn.connect("memory://").create_table("t", kind="records")
    table.insert("a", {"city": ["Oslo"]})
    table.insert("b", {"city": {"name": "Oslo"}})
    if applied:
        settle(table.session.store)
    table.update("a", {"city": "Oslo"})
    table.delete("b")
    table.create_index("city", unique=True)
    assert [row.id for row in table.find(city="Oslo")] == ["a"]
    settle(table.session.store)
    assert check_records(table).found == []


def test_a_table_that_was_dropped(db):
    db.apply()
    tx = db.begin("old")
    tx.update("t", "r1", {"city": "Bergen"})
    define(db.store(), Ddl("drop", "t"))
    with pytest.raises(TableNotFoundError):
        db.begin().get("t", "r1")
    with pytest.raises(TableNotFoundError):
        tx.commit()


def test_a_table_that_was_dropped_and_created_again_has_nothing_of_the_old_one(db):
    """Not even what a stalled applier brings back."""
    stalled = db.store("stalled")
    stalled.log.refresh()
    tx = db.begin("old")
    tx.update("t", "r1", {"city": "Bergen"})
    define(db.store(), Ddl("drop", "t"))
    db.create("t", *db.definitions["t"].indices)
    apply(stalled)
    assert db.paths("t/data/")
    with pytest.raises(StaleObjectError, match="was dropped and created again meanwhile"):
        tx.commit()
    assert db.begin().scan("t") == []
    assert db.begin().find("t", n=None) == []
    db.put(r1={"city": "Oslo"})
    db.apply()
    assert [row["_id"] for row in db.begin().find("t", n=None)] == ["r1"]


def test_definitions_that_do_not_fit(db):
    with pytest.raises(TableExistsError):
        db.create("t")
    with pytest.raises(ConflictError):
        define(db.store(), Ddl("build", "t", field="n"))
