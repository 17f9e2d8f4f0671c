"""Every record had the definitions of all tables: with 401 of them, 131 kB."""

from __future__ import annotations

import pytest

import firn
from firn.errors import CorruptObjectError
from firn.journal.sequence import Horizon, truncate
from firn.records.definition.definition import Index
from firn.records.write.transaction import begin
from record_stores import Database, spent


def with_tables(count):
    db = Database(plain=False)
    for n in range(count):
        db.create(f"table{n}", Index("a"), Index("b"))
    db.put(a={"n": 0})
    return db


def size_of(db, number):
    return len(db.simulated.fetch(f"db/_commits/{number:020}").data)


def test_the_size_of_a_record_does_not_grow_with_the_number_of_tables():
    sizes = []
    for count in (20, 60):
        db = with_tables(count)
        sizes.append(size_of(db, db.put(a={"n": 1})))
    assert abs(sizes[0] - sizes[1]) < 10
    assert sizes[1] < 1000


def test_a_change_of_the_definitions_is_written_whole_once():
    db = with_tables(20)
    db.create("late")
    first, second = (db.put(a={"n": n}) for n in (2, 3))
    assert size_of(db, first) > 4000 > 1000 > size_of(db, second)
    assert "late" in db.store().log.refresh().catalog


def test_to_open_such_a_log_is_a_get_more():
    db = with_tables(20)
    db.put(a={"n": 1})
    db.apply()
    store = db.store()
    assert spent(store, store.log.refresh) == {"get": 5 + 1}
    assert len(store.log.head().catalog) == 21
    assert spent(store, store.log.refresh) == {"get": 1}


def test_a_catalog_outlives_the_record_that_had_it():
    """Truncation takes it along, also after all packs are swept."""
    db = with_tables(20)
    for n in range(4):
        db.put(a={"n": n})
    db.apply()
    store = db.store()
    head = store.log.refresh().number
    store.log.store.raise_horizon(Horizon(horizon=head))
    assert truncate(store.log).lo == head - 1
    for key in db.simulated.keys("db/_firn/packs/"):
        db.simulated.remove(key)
    fresh = db.store()
    assert len(fresh.log.refresh().catalog) == 21
    db.put(a={"n": 9})
    assert begin(db.store()).get("t", "a")["n"] == 9


def test_a_pack_can_be_read_by_itself():
    db = with_tables(20)
    for n in range(4):
        db.put(a={"n": n})
    db.apply()
    store = db.store(pack_bytes=200)
    head = store.log.refresh().number
    store.log.store.raise_horizon(Horizon(horizon=head))
    truncate(store.log, largest_bytes=200)
    assert len(db.simulated.keys("db/_firn/packs/")) > 3
    reader = db.store()
    reader.log.refresh()
    records = reader.log.records(0, head)
    assert [len(record.catalog) for record in records] == [*range(22), 21, 21, 21, 21][: len(records)]


def test_a_base_that_is_gone_is_told_of():
    db = with_tables(20)
    number = db.put(a={"n": 1})
    db.simulated.remove(f"db/_commits/{number - 1:020}")
    with pytest.raises(CorruptObjectError, match="the log has gaps"):
        db.store().log.store.record(number)


def test_version_0_1_refuses_what_refers(monkeypatch):
    """By the feature's name: it knew none."""
    from dataclasses import replace

    from firn.journal.sequence import codec

    db = with_tables(20)
    number = db.put(a={"n": 1})
    monkeypatch.setattr(codec, "_ENVELOPES", replace(codec._ENVELOPES, features=frozenset()))
    with pytest.raises(firn.UnsupportedError, match="'catalog'"):
        db.store().log.store.record(number)
