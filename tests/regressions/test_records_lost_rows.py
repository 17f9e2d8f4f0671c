"""A row's object that was deleted, or put back as it once was, went unnoticed: reads, fsck and repair said that all
was well, though the log had the newest write."""

from __future__ import annotations

import random

import pytest

import firn
from firn.database.kinds.records import RecordOptions
from firn.errors import CorruptObjectError, NoSuchKeyError, SnapshotTooOldError
from firn.inspect.fsck.records import check_records
from firn.records.apply.apply import settle
from record_databases import Processes


class Database(Processes):
    """A table `t`; each `process` knows nothing yet."""

    def __init__(self, indices=("n",)):
        super().__init__()
        self.t = self.tables.create(self.tables.describe("t", RecordOptions(indices=list(indices))))

    def object(self, id):
        key = f"db/t/data/{id}.json"
        return self.store.fetch(key).data if key in self.store else None

    def put_back(self, id, data):
        """The row's object as it once was, or none."""
        bucket, key = self.store.bucket("vandal"), f"db/t/data/{id}.json"
        if data is None:
            bucket.delete(key)
        else:
            bucket.put(key, data)

    def problems(self):
        return [f"{found.object} {found.what}" for found in check_records(self.fresh()).problems]

    def sweep(self, *, age="30s"):
        self.store.time.advance(60_000)
        return self.t.sweep("30s", age)


def _lost(how, indices=("n",)):
    """A database whose row `a` is gone, or as it was before its last commit; both applied."""
    db = Database(indices)
    db.t.insert("a", {"n": 1})
    db.t.insert("b", {"n": 1})
    db.settle()
    old = db.object("a")
    db.t.update("a", {"n": 2})
    db.settle()
    db.put_back("a", None if how == "gone" else old)
    return db


HOW = pytest.mark.parametrize("how", ["gone", "older"])


@HOW
def test_fsck_finds_it_and_repair_brings_it_back(how):
    db = _lost(how)
    assert [line for line in db.problems() if "data/a.json" in line and "commit 4 wrote this row" in line]
    assert db.t.repair_rows(["a", "b"], dry_run=True).repaired == ("a",)
    report = db.fresh().repair_rows(["a", "b"])
    assert (report.repaired, report.whole) == (("a",), ("b",))
    assert db.problems() == []
    reader = db.fresh()
    assert reader.get("a")["n"] == 2 and [row.id for row in reader.find(n=2)] == ["a"]


@HOW
def test_repair_brings_back_all_that_snapshots_see(how):
    db = _lost(how)
    reader = db.tables.session.begin()
    db.t.upsert("a", {"n": 3})
    db.fresh().repair_rows(["a"])
    db.settle()
    assert reader.get("t", "a")["n"] == 2
    assert db.fresh().get("a")["n"] == 3


@HOW
def test_the_process_that_wrote_it_notices_at_every_read(how):
    db = _lost(how)
    begin = db.tables.session.begin
    for look in (
        lambda tx: tx.get("t", "a"),
        lambda tx: tx.get_many("t", ["b", "a"]),
        lambda tx: tx.find("t", n=2),
        lambda tx: tx.find("t", n=2, order_by="n", limit=1),
        lambda tx: tx.count("t", n=2),
        lambda tx: tx.scan("t"),
        lambda tx: tx.count("t"),
        lambda tx: tx.scan("t", order_by="n", limit=3),
        lambda tx: list(tx.stream("t")),
        lambda tx: tx.update("t", "a", {"n": 5}),
        lambda tx: tx.insert("t", "a", {"n": 5}),
    ):
        with pytest.raises(CorruptObjectError, match=r"data/a\.json .*`firn records repair TABLE ID`"):
            look(begin())


@HOW
def test_a_process_that_knows_nothing_notices_by_entries(how):
    db = _lost(how)
    reader = db.fresh()
    for look in (
        lambda: reader.find(n=2),
        lambda: reader.count(n=firn.Range(0)),
        lambda: reader.find(n=2, order_by="n", limit=1),
    ):
        with pytest.raises(CorruptObjectError, match=r"data/a\.json"):
            look()


@HOW
def test_the_next_commit_puts_it_anew(how, caplog):
    db = _lost(how)
    before = db.tables.session.begin()
    db.t.upsert("a", {"n": 3})
    db.settle()
    assert "is put anew as commit 5 left it" in caplog.text
    assert before.get("t", "a")["n"] == 2
    assert db.problems() == []


@HOW
def test_a_hole_below_a_later_version_is_found(how):
    """A process that didn't know of the lost version has applied the next one."""
    db = _lost(how)
    db.t.upsert("b", {"n": 4})
    db.settle()
    other = db.fresh()
    before = other.session.begin()
    other.upsert("a", {"n": 3})
    settle(other.session.store)
    assert db.problems()
    assert db.fresh().repair_rows(["a"]).repaired == ("a",)
    assert db.problems() == []
    assert db.fresh().get("a")["n"] == 3 and before.get("t", "a")["n"] == 2


@HOW
@pytest.mark.parametrize("indices", [("n",), ()], ids=["indexed", "plain"])
def test_a_sweep_names_it_and_leaves_what_repairs_it(how, indices):
    db = _lost(how, indices)
    for n in range(3):
        db.t.upsert("b", {"n": n})
    db.tables = db.process()
    db.t = db.fresh()
    with pytest.raises(CorruptObjectError, match=r"data/a\.json .* commit 4 wrote this row"):
        db.sweep(age="1s")
    assert db.store.keys("db/_firn/packs/")
    assert db.problems()
    assert db.fresh().repair_rows(["a"]).repaired == ("a",)
    assert db.problems() == [] and db.fresh().get("a")["n"] == 2


@HOW
def test_what_the_log_has_forgotten_is_told_by_entries(how):
    db = _lost(how)
    lost = db.object("a")
    db.fresh().repair_rows(["a"])
    for n in range(3):
        db.t.upsert("b", {"n": n})
    db.settle()
    db.sweep()
    db.store.time.advance(8 * 86_400_000)
    db.t.upsert("b", {"n": 7})
    db.sweep(age="7d")
    db.put_back("a", lost)
    db.tables = db.process()
    db.t = db.fresh()
    assert [line for line in db.problems() if "data/a.json" in line]
    with pytest.raises(CorruptObjectError, match=r"data/a\.json"):
        db.sweep(age="7d")
    with pytest.raises(CorruptObjectError, match=r"the log has none of its changes any more.*upsert"):
        db.t.repair_rows(["a"])
    assert db.t.repair_rows(["a"], forget=True).forgotten == ("a",)
    with pytest.raises(NoSuchKeyError):
        db.t.get("a")
    db.sweep(age="7d")
    assert db.problems() == []


def test_a_table_that_was_dropped_is_not_taken_for_lost():
    db = Database()
    db.t.insert("a", {"n": 1})
    db.settle()
    reader = db.tables.session.begin()
    db.process().drop(db.t.definition)
    try:
        reader.get("t", "a")
    except CorruptObjectError:
        pytest.fail("it was dropped")
    except firn.FirnError:
        pass


@pytest.mark.parametrize("seed", range(12))
def test_losses_among_commits_and_sweeps(seed):
    """Objects go, or are put back as they were, between writes, sweeps and repairs: each answer is right or names a
    row; fsck finds each loss while the log has it, and repair brings back all."""
    rng, db = random.Random(seed), Database()
    rows, vandalized, once = {}, set(), {id: [] for id in "abcd"}
    for step in range(60):
        id = rng.choice("abcd")
        verb = rng.choice(
            ["put", "put", "delete", "lose", "sweep", "repair", "settle", "get", "find", "scan", "new"]
        )
        said = ""
        try:
            if verb == "put":
                rows[id] = {"n": rng.randrange(3), "step": step}
                db.t.upsert(id, rows[id])
            elif verb == "delete" and id in rows:
                with db.tables.session.begin() as tx:
                    tx.put_bodies("t", [(id, None)])
                del rows[id]
            elif verb == "lose":
                db.settle()
                if db.object(id) is not None:
                    once[id].append(db.object(id))
                    db.put_back(id, rng.choice([None, *once[id]]))
                    gone = db.object(id) is None and id in rows
                    assert not gone or db.problems(), "fsck misses a row that is gone"
                    vandalized.add(f"data/{id}.json")
            elif verb == "sweep":
                db.sweep()
            elif verb == "repair":
                assert not db.t.repair_rows([id]).forgotten
            elif verb == "settle":
                db.settle()
            elif verb == "new":
                db.tables = db.process()
                db.t = db.fresh()
            elif verb == "get":
                assert db.t.get(id).document == rows[id]
            elif verb == "find":
                assert {row.id for row in db.fresh().find(n=1)} == {
                    id for id, row in rows.items() if row["n"] == 1
                }
            elif verb == "scan" and not vandalized:
                assert {row.id: row.document for row in db.fresh().scan()} == rows
        except NoSuchKeyError:
            assert verb == "get" and (id not in rows or f"data/{id}.json" in vandalized)
        except SnapshotTooOldError:
            assert f"data/{id}.json" in vandalized
        except AssertionError:
            # A process that knows nothing of the row reads what is there; fsck tells.
            assert verb in ("get", "find") and vandalized and db.problems()
        except CorruptObjectError as error:
            said = str(error)
        assert not said or any(row in said for row in vandalized)
    db.settle()
    db.t.repair_rows(list("abcd"))
    assert db.problems() == []
    db.sweep()
    assert {row.id: row.document for row in db.fresh().scan()} == rows
