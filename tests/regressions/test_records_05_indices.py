"""`find` by several indexed fields used one index, by the order of its keywords."""

from __future__ import annotations

import itertools

import pytest

from firn.records.definition.definition import Index
from firn.records.documents.predicates import Range
from firn.records.write.transaction import begin
from record_stores import Database, spent


@pytest.fixture(scope="module")
def db():
    """60 rows a shift, 6 a doctor; pages of 50 entries."""
    db = Database(plain=False, page_size=50)
    db.create("d", *(Index(field) for field in ("shift", "doctor", "ward")))
    with begin(db.store()) as tx:
        for n in range(120):
            tx.upsert(
                "d", f"r{n:03}", {"shift": ("day", "night")[n % 2], "doctor": f"d{n // 6}", "ward": n % 3}
            )
    db.apply()
    return db


def found(db, where):
    store = db.store()
    tx = begin(store)
    rows = []
    cost = spent(store, lambda: rows.extend(tx.find("d", where)))
    return [row["_id"] for row in rows], cost


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr("firn.records.read.candidates.PAGE", 50)


def test_the_most_selective_index_is_found_whatever_comes_first(db):
    where = {"shift": "night", "doctor": "d7"}
    alone = found(db, {"doctor": "d7"})[1]
    for order in itertools.permutations(where):
        rows, cost = found(db, {field: where[field] for field in order})
        assert rows == ["r043", "r045", "r047"]
        assert cost["get"] == alone["get"] == 6
        assert cost["list"] <= 2


def test_lists_of_several_indices_are_intersected(db):
    """60 rows of a shift and 40 of a ward: 20 have both."""
    rows, cost = found(db, {"shift": "day", "ward": 0})
    assert len(rows) == cost["get"] == 20
    assert cost["list"] == 3


def test_nothing_is_listed_that_costs_more_than_it_spares(db):
    assert found(db, {"doctor": "d7", "shift": "night", "ward": Range(0, 2)})[1] == {"list": 1, "get": 6}


def test_what_is_not_applied_yet_is_found_through_several_indices_too(db):
    fresh = Database(plain=False)
    fresh.create("d", *(Index(field) for field in ("shift", "doctor")))
    with begin(fresh.store()) as tx:
        tx.upsert("d", "new", {"shift": "day", "doctor": "d1"})
    assert [row["_id"] for row in begin(fresh.store()).find("d", shift="day", doctor="d1")] == ["new"]
