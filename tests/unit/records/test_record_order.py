"""Pages in an order that an index gives, ids by prefix and range, and streams: held against all rows, sorted."""

from __future__ import annotations

import random

import pytest

import firn
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.records.write.transaction import begin
from firn.testing import SimStore
from record_stores import Database
from seeds import seeds

LONG = "x" * 200
IDS = ["a", "a-b", "a b", "é", "z", "B", "%", "~", "日本", ".", "a_", "_a", "a__b", "a.b"]
IDS += [LONG, LONG + "b", LONG + "a"]
VALUES = [
    None,
    1,
    2.5,
    -3,
    True,
    "",
    "a",
    "b",
    "é",
    "z",
    LONG,
    LONG + "1",
    LONG + "0",
    "日",
    "e\u0301",
    10**18,
]


def sort_key(value):
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, str):
        import unicodedata

        return (3, unicodedata.normalize("NFC", value))
    return (2, value)


@pytest.mark.parametrize("seed", seeds(4, short=1))
def test_pages_in_the_order_of_an_index(seed):
    """Rows that are applied, changed since, deleted and own, by all pages and all at once."""
    rng = random.Random(seed)
    db = Database(page_size=rng.choice([3, 1000]))
    rows = {id: {"n": rng.choice(VALUES), "m": rng.randrange(3)} for id in IDS}
    db.put(**rows)
    db.apply()
    for some in (db, None):
        changed = {id: {"n": rng.choice(VALUES), "m": rng.randrange(3)} for id in rng.sample(IDS, 4)}
        rows |= changed
        db.put(**changed)
        if some and rng.random() < 0.5:
            db.apply()
    tx = db.begin()
    for id in rng.sample(IDS, 3):
        rows[id] = {"n": rng.choice(VALUES), "m": rng.randrange(3)}
        tx.upsert("t", id, rows[id])
    gone = rng.choice(IDS)
    tx.delete("t", gone)
    del rows[gone]
    for where in (
        {},
        {"n": firn.Prefix("")},
        {"m": 1},
        {"n": firn.Range(-5, 2**60)},
        {"_id": firn.Prefix("a")},
    ):
        asked = {id: row for id, row in rows.items() if _matches(id, row, where)}
        for order_by in ("n", "n desc", ["n desc", "m"], "_id", "_id desc", ["n", "_id desc"], "m"):
            expected = _sorted(asked, order_by)
            for limit in (1, 4):
                found = last = None
                got = []
                while found is None or found:
                    found = tx.scan("t", where, order_by=order_by, limit=limit, after=last)
                    got += [row.id for row in found]
                    last = found[-1] if found else None
                assert got == expected, (where, order_by, limit)
            if set(where) & {"n", "_id"}:
                assert [row.id for row in tx.find("t", where, order_by=order_by, limit=5)] == expected[:5]
        assert sorted(row.id for row in tx.stream("t", where)) == sorted(asked)
        assert tx.count("t", where) == len(asked) if "m" not in where else True


def _matches(id, row, where):
    for name, asked in where.items():
        value = id if name == "_id" else row[name]
        if isinstance(asked, firn.Prefix):
            if not (isinstance(value, str) and value.startswith(asked.text)):
                return False
        elif isinstance(asked, firn.Range):
            if isinstance(value, bool | str | None) or not asked.start <= value < asked.end:
                return False
        elif value != asked:
            return False
    return True


def _sorted(rows, order_by):
    found = sorted(rows)
    for part in reversed([order_by] if isinstance(order_by, str) else order_by):
        name, _, direction = part.partition(" ")
        key = (lambda id: id) if name == "_id" else (lambda id, name=name: sort_key(rows[id][name]))
        found.sort(key=key, reverse=direction == "desc")
    return found


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_ids_by_prefix_and_range(isolation):
    store = SimStore(page_size=3)
    bucket = store.bucket()
    made = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    table = made.create(made.describe("t", RecordOptions(isolation=isolation)))
    table.upsert_many({id: {"n": 1} for id in IDS})
    for text in ("", "a", "a_", "_", ".", "é", LONG, "x", "日", "a.", "~", "e\u0301"):
        expected = sorted(id for id in IDS if id.startswith(text))
        asked = {"_id": firn.Prefix(text)}
        assert [row.id for row in table.scan(asked)] == expected, text
        assert sorted(row.id for row in table.stream(asked)) == expected
        assert table.count(asked) == len(expected)
        assert [row.id for row in table.scan(asked, limit=2)] == expected[:2]
    for low, high in (("a", "b"), (None, "a_"), ("x", None), ("a", "a"), ("z", "a"), (LONG, LONG + "b")):
        asked = {"_id": firn.Range(low, high)}
        expected = sorted(id for id in IDS if (low or "") <= id and (high is None or id < high))
        assert [row.id for row in table.scan(asked)] == expected, (low, high)
    assert [row.id for row in table.scan({"_id": "a b"})] == ["a b"]
    for order_by in ("_id desc", "n", ["n desc", "_id desc"]):
        whole = [row.id for row in table.scan(order_by=order_by)]
        assert whole == sorted(IDS, reverse="_id desc" in order_by)
        first = table.scan(order_by=order_by, limit=3)
        assert [row.id for row in table.scan(order_by=order_by, limit=3, after=first[-1])] == whole[3:6]


def test_only_what_a_page_needs_is_read():
    db = Database()
    db.put(**{f"r{n:03}": {"n": n % 50, "m": n} for n in range(200)})
    db.apply()
    store = db.store()
    tx = begin(store)

    def gets(look):
        before = store.bucket.counters.as_dict()
        rows = look()
        return [row["m"] for row in rows], store.bucket.counters.since(before)["get"]

    assert gets(lambda: tx.scan("t", order_by="n desc", limit=3)) == ([49, 99, 149], 3)
    assert gets(lambda: tx.find("t", n=firn.Range(7, 9), order_by="n", limit=2)) == ([7, 57], 2)
    assert gets(lambda: tx.find("t", {"_id": firn.Prefix("r00")}, limit=2)) == ([0, 1], 2)
    assert gets(lambda: tx.scan("t", {"_id": firn.Prefix("r19")})) == (list(range(190, 200)), 10)


def test_a_stream_holds_few_rows_and_is_read_of_a_transaction():
    db = Database()
    with begin(db.store()) as tx:
        tx.upsert_many("t", {f"{n}": {"n": n} for n in range(1500)})
    db.apply()
    store = db.store()
    before = store.bucket.counters.get
    rows = begin(store).stream("t")
    next(rows)
    assert store.bucket.counters.get - before <= 1000 + 5
    one = begin(store, serializable=True)
    assert sum(1 for _ in one.stream("t", n=firn.Range(0, 10))) == 10
    db.put(**{"5": None})
    one.upsert("t", "x", {"n": 99})
    with pytest.raises(firn.StaleObjectError):
        one.commit()
