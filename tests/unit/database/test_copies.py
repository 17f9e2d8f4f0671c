"""Copies of record tables in lake tables: what they hold, that each change is there once, and what they refuse."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

import firn
from firn.database.copies import CopyReport
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    SnapshotTooOldError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.inspect.dump.dump import dump_object
from firn.inspect.fsck.records import check_records
from firn.records.apply.apply import settle
from firn.records.load.copy_cursor import read_cursor, write_cursor


@pytest.fixture
def stock(db):
    table = db.create_table("stock", kind="records")
    table.load([{"_id": f"r{n}", "n": n} for n in range(5)])
    return table


def rows(db, name="target") -> list[dict[str, Any]]:
    return db.table(name).scan().to_arrow().to_pylist()


def told(db, name="target") -> list[tuple[str, str, Any]]:
    """The changes of a copy, in the order of commits."""
    found = sorted(rows(db, name), key=lambda row: (row["_seq"], row["_id"]))
    return [(r["_id"], r["_kind"], r["document"] and orjson.loads(r["document"])["n"]) for r in found]


# -- rows


def test_all_rows_at_one_commit(db, stock):
    version = stock.session.store.log.refresh().number
    report = db.copy("stock", "target")
    assert report == CopyReport(5, None, str(version), report.version)
    assert sorted((row["_id"], orjson.loads(row["document"])["n"]) for row in rows(db)) == [
        (f"r{n}", n) for n in range(5)
    ]
    again = db.copy("stock", "target")
    assert (again.rows, again.version) == (None, report.version)
    stock.upsert("r0", {"n": 9})
    assert db.copy("stock", "target", at=version).rows is None
    assert len(rows(db)) == 5
    assert db.copy("stock", "target").rows == 5
    assert len(rows(db)) == 10
    assert db.copy("stock", "other", at=version).rows == 5
    assert {orjson.loads(row["document"])["n"] for row in rows(db, "other")} == set(range(5))


def test_declared_columns_are_copied_as_what_they_are(db):
    schema = pa.schema(
        [("day", pa.date32()), ("seen", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))]
    )
    table = db.create_table("t", kind="records", schema=schema)
    seen = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)
    table.insert("a", {"day": dt.date(2026, 1, 31), "seen": seen, "tags": ["x"]})
    table.insert("b", {})
    db.copy("t", "target")
    found = db.table("target").scan().to_arrow().sort_by("_id")
    assert found.column_names == ["_id", "day", "seen", "tags"]
    assert found.to_pylist() == table.scan().to_arrow().to_pylist()
    db.copy("t", "changed", changes=True)
    table.delete("b")
    db.copy("t", "changed", changes=True)
    last = db.table("changed").scan().to_arrow().sort_by("_seq").to_pylist()[-1]
    assert (last["_id"], last["_kind"], last["day"]) == ("b", "delete", None)


def test_rows_whose_commits_are_not_applied_yet(db, stock):
    assert stock.session.store.log.lag == 0
    store = stock.session.store
    with db.begin() as tx:
        tx.upsert("stock", "late", {"n": 7})
        tx.delete("stock", "r0")
    assert db.copy("stock", "target").rows == 5
    assert {row["_id"] for row in rows(db)} == {"late", "r1", "r2", "r3", "r4"}
    settle(store)


def test_an_empty_table(db):
    db.create_table("empty", kind="records")
    assert db.copy("empty", "target").rows == 0
    assert rows(db) == []
    assert db.copy("empty", "other", changes=True).rows == 0
    assert rows(db, "other") == []


def test_a_copy_goes_page_by_page(db, stock, monkeypatch):
    monkeypatch.setattr("firn.database.copies.PAGE_ROWS", 2)
    assert db.copy("stock", "target", changes=True).rows == 5
    for n in range(7):
        stock.upsert(f"x{n}", {"n": n})
    monkeypatch.setattr("firn.database.copies.PAGE_BYTES", 10)
    assert db.copy("stock", "target", changes=True).rows == 7
    assert db.copy("stock", "all").rows == 12
    assert len(rows(db)) == 12 == len(rows(db, "all"))


# -- changes


def test_each_change_is_copied_once(db, stock):
    first = db.copy("stock", "target", changes=True)
    assert (first.rows, first.since) == (5, None)
    stock.upsert("r0", {"n": 10})
    stock.upsert("r0", {"n": 11})
    stock.delete("r1")
    second = db.copy("stock", "target", changes=True)
    assert (second.rows, second.since, int(second.upto)) == (3, first.upto, int(first.upto) + 3)
    assert told(db)[5:] == [("r0", "put", 10), ("r0", "put", 11), ("r1", "delete", None)]
    third = db.copy("stock", "target", changes=True)
    assert third == CopyReport(0, second.upto, second.upto, None)
    assert len(told(db)) == 8


def test_commits_of_other_tables_are_passed_over(db, stock):
    db.copy("stock", "target", changes=True)
    versions = db.table("target").history()
    db.create_table("other", kind="records").insert("x", {})
    report = db.copy("stock", "target", changes=True)
    assert (report.rows, report.version) == (0, None)
    assert int(report.upto) > int(report.since or 0)
    assert len(db.table("target").history()) == len(versions), "nothing is appended"


def test_copies_into_several_tables_don_t_meddle(db, stock):
    db.copy("stock", "one", changes=True)
    stock.upsert("r0", {"n": 10})
    assert db.copy("stock", "two", changes=True).rows == 5
    assert db.copy("stock", "one", changes=True).rows == 1
    assert (len(told(db, "one")), len(told(db, "two"))) == (6, 5)


def test_a_target_with_a_key_keeps_the_last_change(db, stock):
    db.create_table("target", key=["_id"], version_by="_seq")
    for _ in range(2):
        db.copy("stock", "target", changes=True)
        stock.upsert("r0", {"n": 10})
        stock.delete("r1")
        stock.upsert("r1", {"n": 12})
    db.copy("stock", "target", changes=True)
    assert [(id, n) for id, _, n in told(db)] == [("r2", 2), ("r3", 3), ("r4", 4), ("r0", 10), ("r1", 12)]


def test_what_costs_a_copy_of_changes(db, stock):
    stock.session._applier.finish(30)  # what it tells when it has been idle for a while would be counted
    db.copy("stock", "target", changes=True)
    bucket = db.bucket

    def spent():
        before = bucket.counters.as_dict()
        db.copy("stock", "target", changes=True)
        return {k: v for k, v in bucket.counters.since(before).items() if v and "bytes" not in k}

    # The tables' definitions, the cursor, and a look for new commits.
    assert spent() == {"get": 4}
    stock.upsert("r0", {"n": 1})
    settle(stock.session.store)
    # Two writings of the cursor; the append is a claim of its batch, a data file and a log.
    assert spent() == {"get": 7, "put": 5, "list": 1, "head": 1}


# -- tables that come and go


def test_a_target_that_is_made_again_begins_anew(db, stock):
    db.copy("stock", "target", changes=True)
    stock.delete("r0")
    db.copy("stock", "target", changes=True)
    db.drop_table("target")
    stock.delete("r1")
    report = db.copy("stock", "target", changes=True)
    assert (report.rows, report.since) == (3, None)
    assert [id for id, _, _ in told(db)] == ["r2", "r3", "r4"]


def test_a_source_that_is_made_again_begins_anew(db, stock):
    db.copy("stock", "target", changes=True)
    key = stock.definition.layout(stock.prefix).copy("target")
    assert read_cursor(db.bucket, key) is not None
    assert key in db.drop_table("stock").objects
    assert read_cursor(db.bucket, key) is None
    again = db.create_table("stock", kind="records")
    again.insert("new", {"n": 1})
    assert db.copy("stock", "target", changes=True).rows == 1
    assert len(told(db)) == 6


def test_changes_that_were_swept(db, stock):
    db.copy("stock", "target", changes=True)
    key = stock.definition.layout(stock.prefix).copy("target")
    stored = read_cursor(db.bucket, key)
    assert stored is not None
    first = stored.cursor.upto
    for n in range(3):
        stock.upsert("r0", {"n": n})
    log = stock.session.store.log
    settle(stock.session.store)
    layout = log.store.layout
    db.bucket.delete(layout.record_key(first + 1))
    del log._records[first + 1]
    with pytest.raises(SnapshotTooOldError, match=r"stock can't be copied to target from .* Copy more often"):
        db.copy("stock", "target", changes=True)
    assert len(told(db)) == 5


def test_a_copy_that_is_there_needs_no_changes_to_be_told_done(db, stock):
    """Somebody appended it, and died before the cursor said so; then the commits were swept."""
    since = int(db.copy("stock", "target", changes=True).upto)
    key = stock.definition.layout(stock.prefix).copy("target")
    stock.upsert("r0", {"n": 1})
    upto = int(db.copy("stock", "target", changes=True).upto)
    there = read_cursor(db.bucket, key)
    assert there is not None
    write_cursor(db.bucket, key, replace(there.cursor, since=since), there)
    log = stock.session.store.log
    settle(stock.session.store)
    db.bucket.delete(log.store.layout.record_key(upto))
    del log._records[upto]
    report = db.copy("stock", "target", changes=True)
    assert (report.rows, report.upto) == (None, str(upto))
    stored = read_cursor(db.bucket, key)
    assert stored is not None and stored.cursor.settled
    assert len(told(db)) == 6


# -- several at once


def test_many_copiers_at_once(tmp_path):
    """They make the target, too; then a writer beside them. Each change is there once."""
    db = firn.connect(tmp_path)
    stock = db.create_table("stock", kind="records")
    stock.load([{"_id": f"r{n}", "n": n} for n in range(20)])
    start = threading.Barrier(4)
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
                start.abort()

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def copier() -> None:
        mine = firn.connect(tmp_path)
        start.wait()
        mine.copy("stock", "target", changes=True)
        start.wait()
        for _ in range(6):
            mine.copy("stock", "target", changes=True)

    def writer() -> None:
        start.wait()
        start.wait()
        for n in range(30):
            stock.upsert(f"r{n % 7}", {"n": n}) if n % 5 else stock.delete(f"r{n % 7}", etag="")

    threads = [run(work) for work in (copier, copier, copier, writer)]
    for thread in threads:
        thread.join()
    assert failed == []
    db.copy("stock", "target", changes=True)
    wanted = sorted((change.seq, change.id, change.kind) for change in stock.changes())
    assert len(wanted) > 40
    assert sorted((row["_seq"], row["_id"], row["_kind"]) for row in rows(db)) == wanted


# -- what can't be copied


def test_what_cannot_be_copied(db, stock):
    with pytest.raises(TableNotFoundError):
        db.copy("nothing", "target")
    db.create_table("lake").append([{"n": 1}])
    with pytest.raises(InvalidInputError, match="lake is a lake table"):
        db.copy("lake", "target")
    with pytest.raises(InvalidInputError, match="is a record table"):
        db.copy("stock", "stock")
    with pytest.raises(InvalidInputError, match="at=3 is for a copy of rows"):
        db.copy("stock", "target", changes=True, at=3)
    with pytest.raises(InvalidInputError, match="the last commit is"):
        db.copy("stock", "target", at=999)
    db.create_table("single", kind="records", isolation="row")
    with pytest.raises(InvalidInputError, match="single has isolation='row'"):
        db.copy("single", "target")
    db.create_table("takes", kind="records", schema={"_seq": "BIGINT"})
    with pytest.raises(InvalidInputError, match="_seq"):
        db.copy("takes", "other", changes=True)
    for name in ("../x", "", "_firn"):
        with pytest.raises(InvalidInputError):
            db.copy("stock", name)
    assert "other" not in db.tables()


def test_a_table_of_writers_is_no_target(tmp_path):
    db = firn.connect(tmp_path, writer="w")
    db.create_table("stock", kind="records")
    db.create_table("target", journal="writer")
    with pytest.raises(UnsupportedError, match="of writers' catalogs"):
        db.copy("stock", "target", changes=True)


# -- what tools say


def test_a_cursor_is_dumped_and_checked(tmp_path):
    db = firn.connect(tmp_path)
    stock = db.create_table("stock", kind="records")
    stock.insert("a", {"n": 1})
    upto = db.copy("stock", "target", changes=True).upto
    key = stock.definition.layout(stock.prefix).copy("target")
    found = dump_object(db.bucket, key)
    assert found.kind == "cursor of a copy of a record table" and found.fields["to"] == int(upto)
    assert check_records(stock).found == []
    assert stock.sweep(orphans="0s").left_over == 0
    there = read_cursor(db.bucket, key)
    assert there is not None, "a sweep leaves it"
    write_cursor(db.bucket, key, replace(there.cursor, since=99, upto=99), there)
    (problem,) = check_records(stock).found
    assert "up to 99 are copied, but the last one is" in problem.what
    data = bytearray(db.bucket.get(key).data)
    data[20] ^= 1
    db.bucket.put(key, bytes(data))
    (problem,) = check_records(stock).found
    assert "is not a copy of a record table" in problem.what
    with pytest.raises(CorruptObjectError, match=r"copies/target is not a copy.*copy all anew"):
        db.copy("stock", "target", changes=True)
