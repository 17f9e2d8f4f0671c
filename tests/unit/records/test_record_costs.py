"""What each step of a transaction costs in requests, and crashes at every one of them."""

from __future__ import annotations

import pytest

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import NoSuchKeyError
from firn.records.apply.apply import apply, settle
from firn.records.definition.definition import Index, read_definition
from firn.records.maintain.collection import collect, sweep, sweep_all
from firn.records.maintain.indexes import build_index
from firn.records.write.transaction import begin
from firn.testing import SimStore, crash_points
from record_stores import Database, R
from record_twins import twins_of


@pytest.fixture
def db():
    db = Database()
    db.put(**{f"r{n}": {"n": n % 2, "u": f"{n}", "city": "Oslo"} for n in range(10)})
    db.apply()
    return db


def cost(store, action):
    before = store.bucket.counters.as_dict()
    result = action()
    spent = store.bucket.counters.since(before)
    return result, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}


@pytest.fixture
def store(db):
    store = db.store()
    store.log.refresh()
    return store


def test_begin_is_one_get_and_one_a_new_record(db, store):
    assert cost(store, lambda: begin(store))[1] == {"get": 1}
    db.put(x={"n": 1})
    assert cost(store, lambda: begin(store))[1] == {"get": 1 + 1}
    for n in range(5):
        db.put(x={"n": n})
    assert cost(store, lambda: begin(store))[1] == {"get": 1 + 5 + 2}, "as many at once as were found"
    db.age(R)
    assert cost(store, lambda: begin(store))[1] == {"get": 1 + 1}


def test_a_read_is_one_get_or_none(db, store):
    tx = begin(store)
    assert cost(store, lambda: tx.get("t", "r1"))[1] == {"get": 1}
    assert cost(store, lambda: tx.get("t", "r1"))[1] == {}
    db.put(r1={"n": 5})
    tx = begin(store)
    row, spent = cost(store, lambda: tx.get("t", "r1"))
    assert (row["n"], spent) == (5, {})


def test_a_find_is_its_pages_and_rows(db, store):
    tx = begin(store)
    assert cost(store, lambda: tx.find("t", n=1))[1] == {"list": 1, "get": 5}
    assert cost(store, lambda: tx.find("t", n=9))[1] == {"list": 1}
    db.age(R)
    assert cost(store, lambda: tx.find("t", n=1))[1] == {"list": 1, "get": 5 + 1}
    assert cost(store, lambda: tx.scan("t"))[1] == {"list": 1, "get": 10}


def test_a_page_reads_no_other_rows(db, store):
    """In the order of ids, or of an index; in another one all are read."""
    tx = begin(store)
    assert cost(store, lambda: tx.scan("t", limit=3))[1] == {"list": 1, "get": 3}
    assert cost(store, lambda: tx.scan("t", limit=3, after="r2"))[1] == {"list": 1, "get": 3}
    assert cost(store, lambda: tx.scan("t", limit=3, after="r8"))[1] == {"list": 1, "get": 1}
    assert cost(store, lambda: tx.scan("t", limit=0))[1] == {"list": 1}
    assert cost(store, lambda: tx.find("t", n=1, limit=2))[1] == {"list": 1, "get": 2}
    assert cost(store, lambda: tx.find("t", n=1, limit=2, after="r3"))[1] == {"list": 1, "get": 2}
    # Every second row matches: the fourth of them is the eighth row.
    assert cost(store, lambda: tx.scan("t", {"n": 1}, limit=2))[1] == {"list": 1, "get": 2 + 2}
    assert cost(store, lambda: tx.scan("t", limit=3, order_by="u"))[1] == {"list": 1, "get": 3}
    assert cost(store, lambda: tx.scan("t", limit=3, order_by="plain"))[1] == {"list": 1, "get": 10}
    db.put(r1={"n": 5}, r2=None)
    tx = begin(store)
    rows, spent = cost(store, lambda: tx.scan("t", limit=3))
    assert ([row["_id"] for row in rows], spent) == (["r0", "r1", "r3"], {"list": 1, "get": 3})
    assert cost(store, lambda: tx.count("t"))[1] == {"list": 1, "get": 8}


def test_a_find_in_pages():
    db = Database(page_size=4)
    db.put(**{f"r{n}": {"n": 1} for n in range(10)})
    db.apply()
    store = db.store()
    tx = begin(store)
    assert cost(store, lambda: tx.find("t", n=1))[1] == {"list": 3, "get": 10}


@pytest.mark.parametrize("c", [0, 1], ids=["within R", "later"])
@pytest.mark.parametrize("n", [1, 10])
def test_read_modify_write_of_n_rows(db, store, n, c):
    """n + 2 with °, n + 4 without."""
    db.age(R * c)
    store.log.freshness_s = R * (1 - c)

    def run():
        with begin(store) as tx:
            for id in range(n):
                row = tx.get("t", f"r{id}")
                tx.update("t", f"r{id}", {**row, "n": 7})

    assert sum(cost(store, run)[1].values()) == n + 2 + 2 * c


def test_an_update_of_a_row_already_read_is_one_put(db, store):
    tx = begin(store)
    row = tx.get("t", "r1")
    assert cost(store, lambda: tx.update("t", "r1", row, etag=row.etag))[1] == {}
    assert cost(store, tx.commit)[1] == {"put": 1}
    tx = begin(store)
    tx.get("t", "r2")
    assert cost(store, lambda: tx.delete("t", "r2"))[1] == {}
    assert cost(store, tx.commit)[1] == {"put": 1}


def test_an_insert_is_a_probe_and_a_look(db, store):
    tx = begin(store)
    assert cost(store, lambda: tx.insert("t", "new", {"n": 1}))[1] == {"get": 2}
    assert cost(store, tx.commit)[1] == {"put": 1}
    tx = begin(store)
    assert cost(store, lambda: tx.upsert("t", "blind", {"n": 1}))[1] == {}


def test_a_new_unique_value_is_looked_for(db, store):
    tx = begin(store)
    tx.insert("t", "new", {"u": "new"})
    assert cost(store, tx.commit)[1] == {"list": 1, "put": 1}


@pytest.mark.parametrize("locked", [False, True])
def test_a_lock(db, store, locked):
    """1 PUT and a probe before, 1 PUT after; 1 GET and 1 PUT more where the row was locked before."""
    if locked:
        with db.begin(lock=True) as tx:
            tx.update("t", "r1", {"n": 1})
        store.log.refresh()
    tx = begin(store, lock=True)
    tx.get("t", "r1")
    spent = cost(store, lambda: tx.update("t", "r1", {"n": 1}))[1]
    assert spent == ({"put": 2, "get": 2} if locked else {"put": 1, "get": 1})
    assert cost(store, tx.commit)[1] == {"put": 2}


def test_applying(db, store):
    """1 GET and 1 PUT a row, however often it was written, and 1 PUT an entry of each version."""
    db.put(r1={"n": 5}, r2={"n": 5})
    db.put(r1={"n": 6})
    store.log.refresh()
    assert cost(store, lambda: apply(store))[1] == {"get": 2, "put": 2 + 3 * 2}
    assert cost(store, lambda: apply(store))[1] == {}
    assert cost(store, lambda: settle(store))[1] == {"get": 1 + 1, "put": 1}
    # A row that another has applied costs the GET alone.
    other = db.store()
    other.log.refresh()
    assert cost(other, lambda: settle(other))[1] == {"get": 1 + 1}


def test_who_sees_that_too_much_waits_applies_it_first(db):
    """Rule 21."""
    store = db.store(max_lag=3)
    for n in range(3):
        db.put(r1={"n": n})
    begin(store)
    assert store.log.lag == 3
    db.put(r1={"n": 9})
    begin(store)
    assert store.log.lag == 0


def test_collecting(db, store):
    for n in range(3):
        db.put(r1={"n": n})
    db.apply()
    db.age(R + 2)
    db.put(r2={"n": 7})
    collector = db.store("collector")
    settle(collector)
    done, spent = cost(collector, lambda: collect(collector, retention_s=0))
    assert (done.horizon, done.versions, done.entries, done.lo) == (5, 2, 4, 5)
    # The rows that commits up to the horizon wrote are read, and one of them has old versions.
    assert spent["delete"] == 4 + 5
    assert db.begin().get("t", "r1")["n"] == 2


def test_sweeping_takes_what_no_row_has(db):
    late = "t/indices/n/!n/!nbff0000000000000000/db___t___r1___00000000000000000002"
    other = "t/indices/n/!n/!nc000000000000000/db___t___r1___00000000000000000001"
    ahead = "t/indices/n/!n/!nbff0000000000000000/db___t___nobody___00000000000000000999"
    bucket = db.bucket()
    for key in (late, other, ahead, "_firn/bodies/left"):
        bucket.put(f"db/{key}", b"")
    before = set(db.paths("t/indices/"))
    db.put(x={"n": 1})
    db.age(R + 2)
    db.put(x={"n": 1})
    db.collect()
    store = db.store("sweeper")
    swept = sweep(store, orphan_age_s=10)
    assert (swept.entries, swept.bodies, swept.packs) == (2, 1, 0)
    assert before - set(db.paths("t/indices/")) == {late, other}
    db.age(20)
    assert sweep(store, orphan_age_s=10).packs == 1


# -- verbs of a table, each a transaction of its own


def opened(simulated):
    """The table `v`, in a process that has used it."""
    bucket = simulated.bucket()
    tables = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    definition = read_definition(bucket, "db/v")
    if definition is None:
        made = tables.create(tables.describe("v", RecordOptions(indices=["n", Index("u", unique=True)])))
        for n in range(3):
            made.insert(f"r{n}", {"n": n % 2, "u": n})
        settle(tables.session.store)
        return opened(simulated)
    table = tables.open(definition)
    table.session.begin().get("v", "r0")
    return table


VERBS = {
    "get": (lambda t: t.get("r0"), {"get": 2}),
    "find": (lambda t: t.find(n=0), {"get": 1 + 2, "list": 1}),
    "scan": (lambda t: t.scan(), {"get": 1 + 3, "list": 1}),
    "count": (lambda t: t.count(), {"get": 1 + 3, "list": 1}),
    "count some": (lambda t: t.count(n=0), {"get": 1 + 2, "list": 1}),
    "insert": (lambda t: t.insert("new", {"n": 0}), {"get": 2, "put": 1}),
    "insert a unique value": (lambda t: t.insert("new", {"u": 7}), {"get": 2, "put": 1, "list": 1}),
    "insert or else": (lambda t: t.insert("new", {}, etag=""), {"get": 1, "put": 1}),
    "upsert": (lambda t: t.upsert("r0", {"n": 7}), {"get": 1, "put": 1}),
    "upsert a unique value": (lambda t: t.upsert("r0", {"u": 7}), {"get": 1, "put": 1, "list": 1}),
    "update": (lambda t: t.update("r0", {"n": 7}), {"get": 2, "put": 1}),
    "update or else": (lambda t: t.update("r0", {"n": 7}, etag=""), {"get": 1, "put": 1}),
    "delete": (lambda t: t.delete("r0"), {"get": 2, "put": 1}),
    "delete if there": (lambda t: t.delete("r0", etag=""), {"get": 2, "put": 1}),
    "delete what isn't": (lambda t: t.delete("nobody", etag=""), {"get": 2}),
    "load": (
        lambda t: t.load([{"_id": f"l{n}", "n": n, "u": 7 + n} for n in range(5)]),
        {"get": 1 + 5, "put": 1 + 5 * (1 + 2), "list": 5},
    ),
    "changes": (lambda t: t.changes("4"), {"get": 1}),
    "indices": (lambda t: t.indices(), {"get": 1}),
    "create_index": (lambda t: t.create_index("m"), {"list": 1, "get": 3 + 4, "put": 3 + 2}),
    "create_index, unique": (
        lambda t: t.create_index("m", unique=True),
        {"list": 2, "get": 2 * 3 + 4, "put": 3 + 2},
    ),
    "drop_index": (lambda t: t.drop_index("n"), {"get": 1, "put": 1}),
    # 5 GETs of commits among them: to open the log took none of those, as all are applied.
    "sweep": (lambda t: t.sweep(), {"get": 14, "put": 2, "head": 2, "list": 5}),
    "sweep, dry": (lambda t: t.sweep(dry_run=True), {"get": 9, "list": 4}),
}


@pytest.mark.parametrize("way", ["sync", "asyncio"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_a_table(verb, way):
    call, expected = VERBS[verb]
    with twins_of(way) as twins:
        table = opened(SimStore())
        assert cost(table.session.store, lambda: call(twins.table(table)))[1] == expected


LOOKING = ("get", "find", "count some", "indices", "insert", "upsert", "update", "delete", "drop_index")


@pytest.mark.parametrize("verb", LOOKING)
def test_a_verb_costs_a_get_more_for_a_commit_of_others(verb):
    call, expected = VERBS[verb]
    simulated = SimStore()
    table, other = opened(simulated), opened(simulated)
    other.upsert("other", {"m": 1})
    spent = cost(table.session.store, lambda: call(table))[1]
    assert spent == {**expected, "get": expected["get"] + 1}


# -- crashes


def started():
    db = Database()
    db.put(a={"n": 1, "u": "a"}, b={"n": 1, "u": "b"})
    db.apply()
    db.put(a={"n": 2, "u": "a"})
    db.age(R + 2)
    db.put(c={"n": 3, "u": "c"})
    return db


def write(db, bucket):
    with begin(db.on(bucket)) as tx:
        tx.insert("t", "new", {"n": 9, "u": "new"})
        tx.update("t", "a", {"n": 9, "u": "changed"})
        tx.delete("t", "b")


def keep(db, bucket):
    store = db.on(bucket)
    settle(store)
    collect(store, retention_s=0)
    sweep(store, orphan_age_s=0)


def index(db, bucket):
    build_index(db.on(bucket), "t", "city")


@pytest.mark.parametrize("operation", [write, keep, index], ids=lambda f: f.__name__)
def test_a_crash_at_every_request(operation):
    """Whatever was cut off: a commit is there whole or not at all, by id and by index, and all can be done again."""
    db = started()

    def holds(bucket):
        tx = begin(db.on(bucket))
        try:
            whole = tx.get("t", "new").document == {"n": 9, "u": "new"}
        except NoSuchKeyError:
            whole = False
        assert {row["_id"] for row in tx.find("t", n=9)} == ({"new", "a"} if whole else set())
        assert {row["_id"] for row in tx.find("t", n=2)} == (set() if whole else {"a"})
        assert {row["_id"] for row in tx.find("t", u="b")} == (set() if whole else {"b"})
        assert {row["_id"] for row in tx.scan("t")} == ({"a", "c", "new"} if whole else {"a", "b", "c"})
        return whole

    def check(store, point):
        bucket = store.bucket("survivor")
        whole = holds(bucket)
        assert not whole or operation is write
        settle(db.on(bucket))
        assert holds(bucket) == whole
        for again in (keep, keep) if whole else (write, keep):
            again(db, bucket)
        if operation is index and "city" not in db.on(bucket).log.refresh().catalog["t"].fields:
            index(db, bucket)
        assert holds(bucket)

    visited = crash_points(
        lambda: db.simulated,
        lambda bucket: operation(db, bucket),
        check,
        modes=("before", "after", "lost_ack", "retried", "failed"),
    )
    assert visited > 20


def test_a_sweep_does_what_its_dry_run_says() -> None:
    db = Database()
    for n in range(4):
        db.put(a={"n": n}, **({"b": {"n": n, "u": f"{n}"} if n < 2 else None} if n < 3 else {}))
    db.apply()
    db.age(3_700)
    db.put(a={"n": 9})
    db.apply()
    db.age(3_700)
    before = db.paths()
    ages = {"older_than": "1h", "orphans": "7d"}
    planned = sweep_all(db.store("one"), **ages, dry_run=True)
    assert db.paths() == before
    done = sweep_all(db.store("two"), **ages)
    assert (planned.horizon, planned.versions, planned.entries) == (done.horizon, done.versions, done.entries)
    assert done.versions == 5 and planned.packed == done.packed == done.horizon
    assert [row.document for row in db.begin("reader").find("t", n=9)] == [{"n": 9}]
    assert sweep_all(db.store("three"), **ages, dry_run=True).versions == 0
