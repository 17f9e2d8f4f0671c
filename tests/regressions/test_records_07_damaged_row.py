"""One damaged row kept `applied` from going on for the whole database, and every sweep from its end."""

from __future__ import annotations

import random

import pytest

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import CorruptObjectError, NoSuchKeyError, SnapshotTooOldError
from firn.records.apply.apply import apply
from firn.records.definition.definition import Index
from firn.testing import SimStore
from record_databases import Processes


class Database(Processes):
    """Tables `t` and `other`; each `process` knows nothing yet."""

    def __init__(self):
        super().__init__()
        options = RecordOptions(indices=["n", Index("u", unique=True)], properties={"inline": "100B"})
        self.t, self.other = (
            self.tables.create(self.tables.describe(name, options)) for name in ("t", "other")
        )
        self.log = self.tables.session.store.log

    def damage(self, id):
        """Flip a bit of a row of `t`."""
        bucket, key = self.store.bucket("vandal"), f"db/t/data/{id}.json"
        data = bytearray(bucket.get(key).data)
        data[len(data) // 2] ^= 1
        bucket.put(key, bytes(data))
        return bytes(data)

    def age(self, seconds):
        self.store.time.advance(seconds * 1000)

    def sweep(self, table):
        self.age(60)
        return table.sweep("30s")


@pytest.fixture
def db():
    return Database()


def test_commits_are_applied_beside_a_damaged_row_and_mend_it(db, caplog):
    db.t.insert("a", {"n": 1, "u": 1})
    db.settle()
    damaged = db.damage("a")
    old = db.tables.session.begin()
    db.t.upsert("a", {"n": 2, "u": 1})
    for n in range(200):
        db.t.upsert("b", {"n": n})
    db.settle()
    assert db.log.lag == 0
    last = db.store.fetch(f"db/_commits/{db.log.head().number:020d}")
    assert len(last.data) < 2_000, "a record lists what is done"
    reader = db.fresh()
    assert reader.get("a")["n"] == 2
    assert [row.id for row in reader.find(u=1)] == ["a"]
    assert [row.id for row in reader.find(n=2)] == ["a"] and not reader.find(n=1)
    with pytest.raises(SnapshotTooOldError):
        old.get("t", "a")
    assert "db/t/data/a.json was damaged" in caplog.text
    (kept,) = db.store.keys("db/_firn/bodies/")
    assert db.store.fetch(kept).data == damaged and kept in caplog.text
    db.age(8 * 86_400)
    db.sweep(db.t)
    assert not list(db.store.keys("db/_firn/bodies/"))


def test_a_process_that_lags_does_not_put_an_older_version_in_place(db):
    db.t.insert("a", {"n": 1})
    late = db.process().session.store
    late.log.refresh()
    db.t.update("a", {"n": 2})
    db.settle()
    db.damage("a")
    apply(late)
    assert db.fresh().get("a")["n"] == 2


def test_a_sweep_goes_on_and_names_the_row(db):
    for table in (db.t, db.other):
        for n in range(3):
            table.upsert("a", {"n": n})
            table.upsert("b", {"n": n})
    db.settle()
    db.damage("a")
    with pytest.raises(CorruptObjectError, match=r"db/t/data/a\.json .* `firn records repair TABLE ID`"):
        db.sweep(db.t)
    horizon = db.log.store.horizon()
    assert horizon.lo == horizon.horizon == horizon.applied - 1
    left = [
        *db.store.keys("db/other/indices/n/"),
        *(key for key in db.store.keys("db/t/indices/n/") if "___b___" in key),
    ]
    assert len(left) == 4, "old versions are left"
    db.t.repair_rows(["a"])
    assert db.sweep(db.t).damaged == ()


def test_a_sweep_of_another_table_tells_of_it(db):
    db.other.insert("a", {"n": 1})
    for n in range(3):
        db.t.upsert("a", {"n": n})
    db.other.insert("b", {"n": 1})
    db.settle()
    db.damage("a")
    db.age(60)
    assert db.other.sweep("30s").damaged == ("sim://store/db/t/data/a.json",)
    with pytest.raises(CorruptObjectError, match=r"a\.json"):
        db.t.sweep("30s")


def test_what_may_belong_to_a_damaged_row_stays(db):
    document = {"n": 1, "text": "x" * 200}
    db.t.insert("a", document)
    db.settle()
    good = db.store.fetch("db/t/data/a.json").data
    db.damage("a")
    db.other.insert("a", {"n": 1})
    db.age(8 * 86_400)
    db.t.upsert("c", {"n": 1})
    db.t.upsert("c", {"n": 2})
    with pytest.raises(CorruptObjectError):
        db.sweep(db.t)
    db.store.bucket().put("db/t/data/a.json", good)
    assert db.fresh().get("a").document == document == db.fresh().find(n=1)[0].document


@pytest.mark.parametrize("swept", [False, True], ids=["log", "pack"])
def test_a_row_is_repaired_from_the_log(db, swept):
    db.t.insert("a", {"n": 1, "u": 5})
    db.t.insert("b", {"n": 1})
    db.settle()
    if swept:
        db.age(60)
        db.t.upsert("b", {"n": 2})
        db.t.upsert("b", {"n": 3})
        db.sweep(db.t)
    db.damage("a")
    assert db.t.repair_rows(["a", "b"], dry_run=True).repaired == ("a",)
    with pytest.raises(CorruptObjectError):
        db.fresh().get("a")
    report = db.t.repair_rows(["a", "b", "never"])
    assert (report.repaired, report.forgotten, report.whole) == (("a",), (), ("b", "never"))
    assert db.fresh().get("a").document == {"n": 1, "u": 5} == db.fresh().find(u=5)[0].document


def test_a_row_that_the_log_has_forgotten_goes_if_it_may(db):
    db.t.insert("a", {"n": 1, "u": 5})
    db.settle()
    db.age(60)
    db.t.insert("b", {"n": 1})
    db.t.insert("c", {"n": 1})
    db.sweep(db.t)
    db.age(8 * 86_400)
    db.t.upsert("c", {"n": 1})
    db.sweep(db.t)
    db.tables = db.process()
    db.t = db.fresh()
    db.damage("a")
    with pytest.raises(
        CorruptObjectError, match=r"Copy the object back .* repair_rows\(\['a'\], forget=True\)"
    ):
        db.t.repair_rows(["a"])
    assert db.t.repair_rows(["a"], forget=True).forgotten == ("a",)
    with pytest.raises(NoSuchKeyError):
        db.fresh().get("a")
    db.t.insert("a", {"n": 2, "u": 5})
    db.sweep(db.t)
    assert db.fresh().count(n=1) == 2


def test_an_upsert_replaces_a_damaged_row_whose_unique_value_it_keeps(db):
    db.t.insert("a", {"u": 5})
    db.settle()
    db.damage("a")
    db.t.upsert("a", {"u": 5, "n": 2})
    db.settle()
    assert db.fresh().get("a")["n"] == 2


def test_a_damaged_row_of_its_own_is_let_go():
    store = SimStore()
    bucket = store.bucket()
    tables = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    table = tables.create(tables.describe("v", RecordOptions(isolation="row")))
    table.insert("a", {"n": 1})
    bucket.put("db/v/data/a.json", b"{")
    for verb in (
        lambda: table.get("a"),
        lambda: table.upsert("a", {"n": 2}),
        lambda: table.repair_rows(["a"]),
    ):
        with pytest.raises(CorruptObjectError, match="`firn records repair TABLE ID --forget`"):
            verb()
    assert table.repair_rows(["a", "b"], forget=True).forgotten == ("a",)
    with pytest.raises(NoSuchKeyError):
        table.get("a")
    table.insert("a", {"n": 3})
    assert table.get("a")["n"] == 3 and table.repair_rows(["a"]).whole == ("a",)


@pytest.mark.parametrize("seed", range(12))
def test_damage_among_commits_and_sweeps(seed):
    """Rows are damaged between writes, sweeps and repairs: each answer is right, or names a damaged row."""
    rng, db = random.Random(seed), Database()
    rows, damaged = {}, set()
    for step in range(60):
        id = rng.choice("abcd")
        said = ""
        verb = rng.choice(["put", "put", "delete", "damage", "sweep", "repair", "settle", "get", "find"])
        try:
            if verb == "put":
                rows[id] = {"n": rng.randrange(3), "step": step}
                db.t.upsert(id, rows[id])
            elif verb == "delete" and id in rows:
                with db.tables.session.begin() as tx:
                    tx.put_bodies("t", [(id, None)])
                del rows[id]
            elif verb == "damage":
                db.settle()
                if f"db/t/data/{id}.json" in db.store.keys("db/t/data/"):
                    db.damage(id)
                    damaged.add(f"data/{id}.json")
            elif verb == "sweep":
                db.sweep(db.t)
            elif verb == "repair":
                assert not db.t.repair_rows([id]).forgotten
            elif verb == "settle":
                db.settle()
                assert db.log.lag == 0
            elif verb == "get":
                assert db.fresh().get(id).document == rows[id]
            elif verb == "find":
                assert {row.id for row in db.fresh().find(n=1)} == {
                    id for id, row in rows.items() if row["n"] == 1
                }
        except NoSuchKeyError:
            assert verb == "get" and id not in rows
        except CorruptObjectError as error:
            said = str(error)
        assert not said or (verb in ("get", "find", "sweep") and any(row in said for row in damaged))
    db.t.repair_rows(list("abcd"))
    db.sweep(db.t)
    assert {row.id: row.document for row in db.fresh().scan()} == rows
