"""An insert of a row that was deleted meanwhile moves the snapshot. A stream that was under way went on at the old
one, and told of rows that the transaction no longer had, in serializable ones, too."""

from __future__ import annotations

import pytest

import firn
from firn.records.objects import listing


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(listing, "PAGE", 2)
    table = firn.connect("memory://").create_table("t", kind="records")
    table.upsert_many({id: {"n": 0} for id in "abcdex"})
    table.sweep()  # which applies: what isn't yet is read at once
    return table


@pytest.mark.parametrize("serializable", [False, True])
def test_a_stream_under_way_is_of_the_snapshot_of_its_transaction(table, serializable):
    tx = table.session.begin(serializable=serializable)
    stream = tx.stream("t")
    next(stream)
    assert table.delete_many(["x", "d"]) == ["x", "d"]
    with pytest.raises(firn.StaleObjectError, match="streams it"):
        tx.insert("t", "x", {"n": 1})
    assert "d" in {row["_id"] for row in stream}
    assert tx.get("t", "d")["n"] == 0


@pytest.mark.parametrize("end", ["read", "closed", "unstarted"])
def test_one_that_has_ended_or_not_begun_is_in_nobodys_way(table, end):
    tx = table.session.begin()
    stream = tx.stream("t", n=1)
    if end == "read":
        assert list(stream) == []
    elif end == "closed":
        next(tx.stream("t", _id="a"))
        stream.close()
    table.delete("x")
    tx.insert("t", "x", {"n": 0})
    tx.commit()
