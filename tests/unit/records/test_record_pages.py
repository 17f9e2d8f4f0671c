"""Pages of rows in the order of ids, whose names sort otherwise: held against all rows, sorted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firn.errors import StaleObjectError
from firn.records.names.names import id_part
from firn.records.read.order import Order, in_order
from firn.records.write.transaction import begin
from record_stores import Database

LONG = "x" * 200
"""Ids that begin like this have hashes at the ends of their names."""

IDS = st.lists(
    st.one_of(
        st.text(alphabet="aZ09-._~%/ é日", min_size=1, max_size=4),
        st.text(alphabet="ab_", max_size=3).map(lambda end: LONG + end),
        st.text(alphabet="aé", max_size=2).map(lambda end: "日" * 60 + end),
        st.text(alphabet="xyé", max_size=2).map(lambda end: LONG[:127] + end),
    ),
    unique=True,
    max_size=30,
)


@dataclass(frozen=True)
class Row:
    id: str
    document: dict[str, object] = field(default_factory=dict)


@given(ids=IDS, limit=st.none() | st.integers(0, 8), data=st.data())
@example(ids=["a", "a-b", "a b", "a.b", "a0", "é", "z"], limit=3, data=None)
@example(ids=[LONG, LONG + "b", LONG + "a", LONG[:130], LONG[:127], "y"], limit=2, data=None)
def test_a_page_is_what_sorting_all_gives(ids, limit, data):
    after = None if data is None else data.draw(st.none() | st.sampled_from([*ids, "a", LONG]))
    by_name = {id_part(id): Row(id) for id in ids}
    asked: list[str] = []

    def read(names):
        asked.extend(names)
        return [by_name[name] for name in names]

    found = []
    order = Order()
    for row in in_order(map(order.of_row, by_name), read, order.wanted(limit, after)):
        if limit is not None and len(found) >= limit:
            break
        found.append(row.id)
    expected = [id for id in sorted(ids) if after is None or id > after]
    assert found == expected[:limit]
    assert len(asked) == len(set(asked))
    assert after is None or all(id_part(id) not in asked for id in ids if id <= after and len(id) < 50)
    if limit and all(len(id) < 50 for id in ids):
        assert len(asked) <= 2 * limit, "the last asks for one that isn't taken"


def shown(rows):
    return [(row["_id"], row.document) for row in rows]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_of_what_a_transaction_sees(limit):
    """Rows that are applied, rows that aren't yet, deleted ones and own writes, by all pages and all at once."""
    db = Database(page_size=3)
    ids = ["a", "a-b", "a b", "é", "z", "B", "%", "~", "日本", LONG, LONG + "b", LONG + "a", ".", "a_", "_a"]
    db.put(**{id: {"n": n % 2, "u": id} for n, id in enumerate(ids)})
    db.apply()
    db.put(**{"z": None, "é": {"n": 1}, "late": {"n": 1}, LONG + "c": {"n": 0}})
    tx = begin(db.store())
    tx.upsert("t", "own", {"n": 1})
    tx.upsert("t", "a b", {"n": 7})
    tx.delete("t", "B")
    for look in (lambda **page: tx.scan("t", **page), lambda **page: tx.find("t", n=1, **page)):
        whole = shown(look())
        assert [id for id, _ in whole] == sorted(id for id, _ in whole)
        pages, after = [], None
        while page := look(limit=limit, after=after):
            assert len(page) <= limit
            pages += shown(page)
            after = page[-1]
        assert pages == whole
    there = set(ids) - {"z", "B"} | {"late", "own", LONG + "c"}
    assert {id for id, _ in shown(tx.scan("t"))} == there
    assert tx.count("t") == len(there) == len(tx.scan("t"))
    assert tx.count("t", n=1) == len(tx.find("t", n=1))


def test_a_count_holds_few_rows(monkeypatch):
    """1,024 at a time, and none of them afterwards."""
    db = Database()
    tx = begin(db.store("writer"))
    for n in range(1500):
        tx.upsert("plain", f"{n}", {"n": n})
    tx.commit()
    db.apply()
    store = db.store()
    read, fetch = [], store.rows_at
    monkeypatch.setattr(store, "rows_at", lambda keys: read.append(len(keys)) or fetch(keys))
    tx = begin(store)
    assert tx.count("plain") == 1500
    assert read == [1024, 476]
    assert tx._seen == {}


def test_a_count_is_looked_at_when_a_serializable_transaction_commits():
    db = Database()
    db.put(a={"n": 1})
    tx = begin(db.store(), serializable=True)
    assert tx.count("t") == 1
    tx.upsert("t", "mine", {"n": 2})
    db.put(b={"n": 1})
    with pytest.raises(StaleObjectError):
        tx.commit()
