"""`Database.checkpoint`, `prune`, `rebuild` and `repair`, and sweep of writers' tables: whose catalog they act on."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from cli_runs import flights
from writer_databases import UNCLAIMED, database, fork, keys, layout, two_writers


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    return two_writers(tmp_path)


@pytest.fixture
def reader(db: firn.Database) -> firn.Database:
    return firn.connect(db.url)


def revisions(db: firn.Database, writer: str) -> list[int]:
    below = layout(writer).transactions_prefix
    return [int(k[len(below) :][:20]) for k in keys(db.bucket, below) if k.endswith(".transaction")]


def grow(db: firn.Database) -> None:
    for n in range(3):
        db.table("cpu").append([{"host": "w", "cores": n}])


def test_prune_acts_on_the_own_writer_unless_told(db: firn.Database, tmp_path: Path) -> None:
    b = database(tmp_path, "b")
    for each in (db, b):
        grow(each)
    assert db.prune("0s").floor == 5
    assert (revisions(db, "a"), revisions(db, "b")) == ([5, 6], [1, 2, 3, 4])
    assert db.prune("0s", writer="b").floor == 3
    assert revisions(db, "b") == [3, 4]
    assert db.table("cpu").scan().count() == 8


def test_what_was_pruned_is_too_old_and_the_rest_is_there(db: firn.Database) -> None:
    grow(db)
    db.prune("0s")
    assert db.table("cpu").scan(at="a=5,b=1").count() == 4
    with pytest.raises(firn.SnapshotTooOldError, match="was pruned"):
        db.table("cpu").scan(at="a=2").count()


def test_a_dry_run_and_a_young_history_delete_nothing(db: firn.Database) -> None:
    grow(db)
    before = keys(db.bucket, "")
    assert len(db.prune("0s", dry_run=True).deleted) > 0
    assert db.prune().deleted == ()
    assert db.prune("1h").deleted == ()
    assert [k for k in keys(db.bucket, "") if not k.endswith("/_firn/clock")] == before


def test_a_reader_names_the_writer(reader: firn.Database) -> None:
    for work in (reader.prune, reader.rebuild, lambda **o: reader.repair("0badcafe", **o)):
        with pytest.raises(firn.InvalidInputError, match="writer=ID"):
            work()
        with pytest.raises(firn.NotFoundError, match="has no writer 'c'; there are: a, b"):
            work(writer="c")
    assert reader.prune("0s", writer="b").deleted == ()
    assert reader.rebuild(writer="b").healthy


def test_a_writer_that_hasnt_begun(db: firn.Database, tmp_path: Path) -> None:
    new = database(tmp_path, "new")
    assert new.prune("0s").deleted == ()
    assert new.rebuild().healthy
    assert [w.name for w in new.writers()] == ["a", "b"]


def test_ages_that_cant_be(db: firn.Database) -> None:
    for age in ("soon", -1, "-1d"):
        with pytest.raises(firn.InvalidInputError):
            db.prune(age)


def test_sweep_deletes_the_own_files_that_no_revision_reads(db: firn.Database, tmp_path: Path) -> None:
    cpu, theirs = db.table("cpu"), database(tmp_path, "b").table("cpu")
    for table in (cpu, theirs):
        for n in range(2):
            table.append([{"host": "w", "cores": n}])
        table.merge()
        for n in range(2):
            table.append([{"host": "v", "cores": n}])
    rows = cpu.scan().count()
    assert cpu.sweep(orphans="0s").data_files == ()
    db.prune("0s")
    db.prune("0s", writer="b")
    planned = cpu.sweep(orphans="0s", dry_run=True)
    assert planned.dry_run
    assert len(planned.data_files) == 3
    assert all(path.startswith("a/prod/data/cpu/") for path in planned.data_files)
    assert cpu.sweep().data_files == ()  # none is 7 days old
    done = cpu.sweep(orphans="0s")
    assert (done.data_files, done.bytes) == (planned.data_files, planned.bytes)
    assert not set(done.data_files) & set(keys(db.bucket, ""))
    assert cpu.scan().count() == rows
    with pytest.raises(firn.InvalidInputError, match="only reads"):
        firn.connect(db.url).table("cpu").sweep()


def test_sweep_of_one_table_leaves_the_others(db: firn.Database) -> None:
    mem = db.create_table("mem", journal="writer")
    for table in (db.table("cpu"), mem):
        with pytest.raises(RuntimeError), db.writer_transaction() as tx:
            tx.append(table.name, [{"n": 1}])
            raise RuntimeError
    grow(db)
    done = db.table("cpu").sweep(orphans="0s")
    assert [path.split("/")[3] for path in done.orphans] == ["cpu"]
    assert [path.split("/")[3] for path in mem.sweep(orphans="0s").orphans] == ["mem"]


def test_checkpoint_covers_tables_and_writers(db: firn.Database, tmp_path: Path) -> None:
    flights(tmp_path / "prod")
    assert firn.connect(db.url).checkpoint() == {"flights": 6, "a": 3, "b": 1}
    assert firn.connect(db.url).checkpoint() == {"flights": 6, "a": 0, "b": 0}
    grow(db)
    assert db.checkpoint()["a"] == 3


def test_repair_decides_and_the_writer_goes_on(tmp_path: Path) -> None:
    db = two_writers(tmp_path, options=UNCLAIMED)
    kept, lost = fork(db.bucket)
    reopened = database(tmp_path, "a", options=UNCLAIMED)
    with pytest.raises(firn.ForkError, match="firn repair --keep"):
        reopened.table("cpu").append([{"host": "q", "cores": 1}])
    planned = reopened.repair(kept.uuid[:6], dry_run=True)
    assert (planned.kept, planned.dry_run) == (kept.uuid, True)
    assert reopened.writers()[0].health == "fork"
    report = reopened.repair(kept.uuid[:6])
    assert (report.revisions, len(report.lost)) == ((3,), 1)
    assert lost.uuid[:8] in report.lost[0]
    assert reopened.writers()[0].health == "ok"
    reopened.table("cpu").append([{"host": "q", "cores": 1}])
    assert reopened.table("cpu").scan().count() == 3


def test_rebuild_brings_back_what_an_open_connection_goes_on_with(db: firn.Database, tmp_path: Path) -> None:
    db.table("cpu").append([{"host": "w", "cores": 7}])
    rows = db.table("cpu").scan().to_arrow().to_pylist()
    for part in ("transactions", "claims", "_firn"):
        db.bucket.delete_many(keys(db.bucket, f"a/prod/{part}/"))
    db.bucket.delete("_firn/database.json")
    planned = database(tmp_path, "a").rebuild(dry_run=True)
    assert (planned.rebuilt, keys(db.bucket, "a/prod/transactions/")) == ((1, 2, 3, 4, 5), [])
    report = database(tmp_path, "b").rebuild(writer="a")
    assert report.rebuilt == planned.rebuilt
    assert (tmp_path / "prod/_firn/database.json").exists()
    again = database(tmp_path, "a")
    assert sorted(map(str, again.table("cpu").scan().to_arrow().to_pylist())) == sorted(map(str, rows))
    assert again.rebuild().healthy
    db.table("cpu").append([{"host": "v", "cores": 8}])  # opened before anything was lost
    assert again.table("cpu").scan().count() == len(rows) + 1
