"""`Transaction.count` recorded what it looked for, and not the rows that it counted."""

from __future__ import annotations

import pytest

import firn


@pytest.fixture
def db():
    db = firn.connect("memory://")
    table = db.create_table("d", kind="records", indices=["shift"])
    for id in "ab":
        table.insert(id, {"shift": "n"})
    return db


@pytest.mark.parametrize("where", [{"shift": "n"}, {}], ids=["by an index", "all"])
@pytest.mark.parametrize("change", ["delete", "update"])
def test_of_two_who_counted_and_took_one_away_one_fails(db, where, change):
    one, other = db.begin(serializable=True), db.begin(serializable=True)
    for tx, id in ((one, "a"), (other, "b")):
        assert tx.count("d", where) == 2
        if change == "delete":
            tx.delete("d", id)
        else:
            tx.update("d", id, {"shift": "d"})
    one.commit()
    with pytest.raises(firn.StaleObjectError, match="row 'a' of 'd' was changed"):
        other.commit()
    assert db.table("d").count(shift="n") == 1


def test_a_second_count_is_the_first_after_the_snapshot_wanted_to_move(db):
    table = db.table("d")
    table.insert("c", {"shift": "d"})
    tx = db.begin()
    assert tx.count("d", shift="n") == 2
    table.delete("c")
    table.delete("b")
    with pytest.raises(firn.StaleObjectError):
        tx.insert("d", "c", {"shift": "d"})  # it would move the snapshot behind b's delete
    assert tx.count("d", shift="n") == 2
