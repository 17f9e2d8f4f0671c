"""The table of advice: columns of tables, and the leaderless log."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pyarrow as pa
import pytest

import firn
from advice import advises
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay.checkpoint import decode
from firn.journal.model import Commit, DataFile
from firn.testing import SimStore
from regressions.journals import append, journal_on, merge, remove, rows
from simulation.leaderless_table import HOUR, read_all


def test_a_column_is_cast_or_has_another_name(db):
    table = db.create_table("t")
    table.append([{"price": 5}])
    with advises("cast the data, or append it under another column name", names=["price", "VARCHAR"]):
        table.append([{"price": "6"}])
    table.append([{"price": "6"}], query="SELECT CAST(price AS BIGINT) AS price FROM _rows")
    table.append([{"price_text": "6"}])
    assert table.scan().count() == 3


def test_a_column_of_another_case_is_renamed(db):
    table = db.create_table("t")
    table.append([{"price": 5}])
    with advises("only by case, and SQL can't tell them apart: rename it to ", names=["Price", "price"]):
        table.append([{"Price": 6}])
    table.append([{"price": 6}])
    table.append([{"price_of": 6}])
    assert table.scan().count() == 3


def test_a_column_like_those_set_aside_has_another_name(db):
    table = db.create_table("t")
    with advises("them and their column one. Choose another name", names="price~text"):
        table.append([{"price~text": "6"}])
    table.append([{"price_text": "6"}])
    assert table.scan().count() == 1


def test_a_shared_table_takes_the_type_that_it_has(db):
    table = db.create_table("t", properties={"shared": "icedb"})
    table.append(pa.table({"price": pa.array([5], pa.int32())}))
    with advises("can't be widened to ", names=["price", "BIGINT", "cast the data to INTEGER"]):
        table.append(pa.table({"price": [6]}))
    table.append(pa.table({"price": [6]}), query="SELECT CAST(price AS INTEGER) AS price FROM _rows")
    assert table.scan().count() == 2


def test_a_shared_tables_properties_are_changed_alone(db):
    table = db.create_table("t", properties={"shared": "icedb"})
    table.append([{"price": 5}])
    with advises("alter(set_properties=…, sort_by=…). Append the rows to a new table", names="t"):
        table.alter(types={"price": "DOUBLE"})
    assert table.alter(set_properties={"codec": "snappy"}).changes == ("set codec = snappy",)
    copied = db.create_table("copied", schema={"price": "DOUBLE"})
    copied.append(table.scan().to_arrow(), query="SELECT CAST(price AS DOUBLE) AS price FROM _rows")
    assert copied.scan().to_arrow().to_pylist() == [{"price": 5.0}]


def test_a_table_of_the_references_is_defined_before_it_is_changed(db):
    db.bucket.put(
        "t/_log/1795224444056_host.jsonl", b'{"v":1,"sch":1,"f":2,"t":1795224444056}\n{"x":"BIGINT"}'
    )
    with advises("which keeps its log and data", names="db.create_table('t', properties={"):
        db.table("t").alter(set_properties={"codec": "snappy"})
    table = db.create_table("t", properties={"codec": "snappy"})
    assert table.alter(set_properties={"codec": None}).changes == ("unset codec",)


def test_a_time_is_written_as_the_message_says(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    with advises("a string like '2026-01-01T12:30Z'", names=["t", "yesterdayish"]):
        table.scan(at="yesterdayish").count()
    assert table.scan(at="9999-01-01T12:30Z").count() == 1


def test_a_dropped_table_is_opened_again(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    db.drop_table("t")
    db.create_table("t").append([{"n": 2}, {"n": 3}])
    with advises("Open it again with db.table(", names="t"):
        table.scan().count()
    assert db.table("t").scan().count() == 2


def test_a_later_version_is_read_where_sweep_was(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    table.overwrite([{"n": 2}])
    before, after = (line.version for line in table.history())
    table.sweep(older_than="0s")
    with advises("Read a later version, or set a larger tombstone_grace", names="t"):
        table.scan(at=before).count()
    assert table.scan(at=after).to_arrow().to_pylist() == [{"n": 2}]


# -- what came of it isn't known


def late(bucket, monkeypatch, verb, key_has="/_log/"):
    """The next such put gets no answer; what lands it then."""
    plain, landing = getattr(bucket, verb), []

    def unanswered(key, data, *rest, **options):
        if key_has not in key or (verb == "put_if_match" and b'"op":"reserve"' in bytes(data)):
            return plain(key, data, *rest, **options)
        landing.append(lambda: plain(key, data, *rest, **options))
        raise firn.OutcomeUnknownError(f"{key}: no answer")

    monkeypatch.setattr(bucket, verb, unanswered)
    return landing


def test_an_append_without_an_answer_is_looked_for(tmp_path, monkeypatch):
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    landing = late(table.bucket, monkeypatch, "put")
    with advises("before you append the rows again, or give appends a batch_id", names="t/_log/") as advice:
        table.append([{"n": 1}])
    monkeypatch.undo()
    assert advice.follow(0, tmp_path / "t", "--json").json["history"] == []
    landing[0]()
    assert len(advice.follow(0, tmp_path / "t", "--json").json["history"]) == 1
    late(table.bucket, monkeypatch, "put_if_absent")
    with pytest.raises(firn.OutcomeUnknownError):
        table.append([{"n": 2}], batch_id="two")
    monkeypatch.undo()
    table.append([{"n": 2}], batch_id="two")
    assert firn.connect(tmp_path).table("t").scan().count() == 2


def test_a_change_without_an_answer_is_settled_by_the_next(monkeypatch):
    store = SimStore()
    journal = journal_on(store)
    append(journal, [1])
    append(journal, [2])
    landing = late(journal.bucket, monkeypatch, "put_if_match")
    with advises(
        "The next maintenance of the table settles it; look with", names=["_log/", "this merge"]
    ) as advice:
        merge(journal)
    monkeypatch.undo()
    assert landing and advice.commands == ["firn log"]
    other = journal_on(store, "other")
    merge(other)
    assert rows(other) == [1, 2]
    assert [line.op for line in other.history()][-1] == "merge"


def merging(journal: LeaderlessJournal, meanwhile: Callable[[], object]) -> None:
    """One merge of all files that holds the lock only to publish."""
    work = journal.begin_merge()
    assert work is not None
    files = work.snapshot.files
    path = work.namer("p=a")
    journal.bucket.put(path, orjson.dumps(read_all(journal, work.snapshot)))
    meanwhile()
    with work.publishing("merge") as session:
        session.publish(Commit("merge", [DataFile(path, 1, 0)], [file.path for file in files]))


def test_a_merge_that_was_overtaken_is_run_again():
    store = SimStore()
    journal, other = journal_on(store), journal_on(store, "other")
    first, _ = append(journal, [1]), append(journal, [2])
    with advises("Nothing of it is visible; run it again.", names=["db/t", "this merge read were replaced"]):
        merging(journal, lambda: remove(other, [first]))
    assert rows(journal) == [2]
    merging(journal, lambda: None)
    assert rows(other) == [2]


def test_a_merge_whose_files_were_swept_is_run_again():
    store = SimStore()
    journal, other = journal_on(store), journal_on(store, "other")
    append(journal, [1])

    def sweep() -> None:
        other.sweep(grace_ms=HOUR, orphan_age_ms=0, margin=False)

    with advises("shorter age than the table's orphan_age deleted files", names=["db/t", "this merge"]):
        merging(journal, sweep)
    merging(journal, lambda: None)
    assert rows(other) == [1]


# -- restoring


def test_what_cannot_be_restored_any_more_is_overwritten(db, monkeypatch):
    table = db.create_table("t", properties={"tombstone_grace": "7m"})  # of which restores leave 0
    table.append([{"n": 1}])
    table.overwrite([{"n": 2}])
    version = table.history()[0].version
    with advises("Read that version and overwrite the ", names=["t can't be restored", version]) as advice:
        table.restore(version)
    assert "table with it instead" in advice.text
    table.overwrite(table.scan(at=version).to_arrow())
    assert table.scan().to_arrow().to_pylist() == [{"n": 1}]
    table.overwrite([{"n": 3}])
    monkeypatch.setattr(MaintenanceSession, "revivable", lambda self, at: self.table.snapshot(at))
    with advises(
        "is visible; read that version and overwrite the table with it", names=["t/_data/", "this restore"]
    ):
        table.restore(version)
    table.overwrite(table.scan(at=version).to_arrow())
    assert table.scan().to_arrow().to_pylist() == [{"n": 1}]


def test_a_version_whose_files_are_gone_gives_way_to_a_later_one(db):
    table = db.create_table("t")
    for n in (1, 2, 3):
        table.overwrite([{"n": n}])
    first, second = (line.version for line in table.history()[:2])
    lost = table.snapshot(first).files[0].path
    db.bucket.delete(lost)
    with advises("is gone. Nothing was changed; choose a later version", names=["t can't be restored", lost]):
        table.restore(first)
    table.restore(second)
    assert table.scan().to_arrow().to_pylist() == [{"n": 2}]


def test_a_damaged_checkpoint_is_deleted(db):
    table = db.create_table("t")
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    table.checkpoint()
    (key,) = (info.key for info in db.bucket.list("t/").objects if "checkpoint" in info.key)
    db.bucket.put(key, db.bucket.get(key).data[:-1])
    with advises("delete it, it is only a cache", names=key):
        decode(db.bucket.get(key).data, where=key)
    db.bucket.delete(key)
    assert db.table("t").scan().count() == 2
    table.checkpoint()
    assert decode(db.bucket.get(key).data, where=key)
