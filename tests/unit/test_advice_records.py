"""The table of advice: record tables."""

from __future__ import annotations

import pytest

import firn
from advice import advises
from firn.record_tables import RecordOptions, RecordTables
from firn.records.applying import settle
from firn.testing import SimStore


@pytest.fixture
def db(tmp_path) -> firn.Database:
    return firn.connect(str(tmp_path / "db"))


def _damaged(db, tmp_path, **options):
    """A table with a row `ada` whose object is damaged."""
    people = db.create_table("people", kind="records", **options)
    people.insert("ada", {"born": 1815})
    if not options:
        settle(people.session.store)
    path = tmp_path / "db" / "people" / "data" / "ada.json"
    path.write_bytes(path.read_bytes()[:-2])
    return firn.connect(str(tmp_path / "db")).table("people")


def test_a_damaged_row_is_repaired_from_the_log(db, tmp_path):
    people = _damaged(db, tmp_path)
    with advises("`firn records repair TABLE ID` puts back", names="people/data/ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1815


def test_a_damaged_row_is_put_anew(db, tmp_path):
    people = _damaged(db, tmp_path)
    with advises("A row that is put anew, as by upsert, is whole", names="people/data/ada.json"):
        people.get("ada")
    people.upsert("ada", {"born": 1816})
    settle(people.session.store)
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1816


def test_a_damaged_row_without_a_log_is_let_go(db, tmp_path):
    people = _damaged(db, tmp_path, isolation="row")
    with advises("let the row go: `firn records repair TABLE ID --forget`", names="ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    people.insert("ada", {"born": 1815})
    assert people.get("ada")["born"] == 1815


def test_a_lost_row_is_repaired_from_the_log(db, tmp_path):
    people = db.create_table("people", kind="records")
    people.insert("ada", {"born": 1815})
    settle(people.session.store)
    (tmp_path / "db" / "people" / "data" / "ada.json").unlink()
    with advises("puts back what the log has of the row", names="people/data/ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1815


def test_a_lost_row_that_the_log_has_forgotten_is_put_anew():
    store = SimStore()
    clock = store.bucket().clock
    tables = RecordTables(store.bucket(), "db", "sim://db", clock=clock, background=False)
    people = tables.create(tables.describe("people", RecordOptions(indices=["born"])))
    people.insert("ada", {"born": 1815})
    for n in range(3):
        people.upsert("bob", {"born": n})
        store.time.advance(60_000)
    people.sweep("30s", "1s")
    store.time.advance(60_000)
    people.sweep("30s", "1s")  # and the packs
    store.bucket().delete("db/people/data/ada.json")
    other = RecordTables(store.bucket(), "db", "sim://db", clock=clock, background=False)
    people = other.open(people.definition)
    with advises("Copy the object back from a backup, put the row anew with upsert", names="data/ada.json"):
        people.repair_rows(["ada"])
    people.upsert("ada", {"born": 1816})
    people.repair_rows(["ada"])
    assert [row.id for row in people.find(born=1816)] == ["ada"]
