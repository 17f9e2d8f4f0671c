"""Load many rows: shapes of rows, batches, what they cost, and what is left of a load that didn't get to its end."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.errors import DuplicateKeyError, InvalidInputError, OutcomeUnknownError, TableNotFoundError
from firn.journal.sequence import LogRecord, LogTransaction, RowWrite
from firn.journal.sequence.codec import decode_record, encode_record
from firn.records.load.load import LoadedPart, load
from firn.records.write.retry import transact
from firn.testing import crash_points
from record_stores import Database


def rows(n, **fields):
    return [(f"r{at}", {"n": at % 2, **fields}) for at in range(n)]


def ids(db, **where):
    return [row.id for row in db.begin("reader").find("t", **where)]


# -- transactions of batches


def test_rows_are_loaded_in_transactions_of_a_batch(db):
    start = db.begin().snapshot
    done = load(db.store("loader"), "t", rows(25), batch=10)
    assert done == LoadedPart(25, (start + 1, start + 2, start + 3))
    assert len(ids(db, n=0)) == 13
    log = db.store().log
    log.refresh()
    assert [len(r.group[0].writes) for r in log.records(start, start + 3)] == [10, 10, 5]


def test_of_rows_with_one_id_the_last_stays(db):
    given = [("a", {"n": 1}), ("a", {"n": 2}), ("b", {"n": 3}), ("b", {"n": 4}), ("a", {"n": 5})]
    assert load(db.store("loader"), "t", given, batch=2).rows == 5
    tx = db.begin()
    assert (tx.get("t", "a")["n"], tx.get("t", "b")["n"]) == (5, 4)


def test_a_batch_ends_before_its_record_is_too_large(db):
    large = "x" * 1_000_000
    db.definitions["t"] = firn.records.definition.definition.RecordDefinition(
        "t", state="ready", properties={"inline": "2MB"}
    )
    done = load(db.store("loader"), "t", [(f"r{n}", {"s": large}) for n in range(10)])
    assert len(done.commits) == 3


def test_large_documents_are_staged_and_do_not_fill_a_batch(db):
    large = "x" * 300_000
    done = load(db.store("loader"), "t", [(f"r{n}", {"s": large}) for n in range(20)])
    assert len(done.commits) == 1 and len(db.paths("_firn/bodies/")) == 20
    assert db.begin().get("t", "r7")["s"] == large


def test_what_a_load_costs(db):
    """A row: 1 GET, 1 PUT, 1 PUT an entry; a transaction: 1 GET, 1 PUT."""
    store = db.store("loader")
    store.log.refresh()
    before = store.bucket.counters.as_dict()
    load(store, "plain", rows(40), batch=10)
    spent = {k: v for k, v in store.bucket.counters.since(before).items() if v and "bytes" not in k}
    assert spent == {"get": 40 + 4, "put": 40 + 4}
    before = store.bucket.counters.as_dict()
    load(store, "t", rows(40), batch=10)
    spent = {k: v for k, v in store.bucket.counters.since(before).items() if v and "bytes" not in k}
    assert spent == {"get": 40 + 4, "put": 40 * (1 + 2) + 4}, "an entry of each of two indices"
    before = store.bucket.counters.as_dict()
    load(store, "t", [(f"u{n}", {"u": f"{n}"}) for n in range(40)], batch=10)
    spent = {k: v for k, v in store.bucket.counters.since(before).items() if v and "bytes" not in k}
    assert spent == {"get": 40 + 4, "put": 40 * (1 + 2) + 4, "list": 40}, "a unique value is looked for"


def test_rows_are_taken_batch_by_batch(db):
    """No more than a batch is in memory: the source is asked for the next when the last is committed."""
    taken = []

    def source():
        for at, row in enumerate(rows(30)):
            taken.append((at, db.store("watcher").log.refresh().number))
            yield row

    start = db.begin().snapshot
    load(db.store("loader"), "t", source(), batch=10)
    assert dict(taken)[10] == start and dict(taken)[11] == start + 1 and dict(taken)[29] == start + 2


def test_what_others_write_meanwhile_is_no_obstacle(db):
    def source():
        for row in rows(20):
            if row[0] in ("r5", "r15"):
                db.put(**{row[0]: {"n": 99}})
            yield row

    load(db.store("loader"), "t", source(), batch=10)
    assert ids(db, n=99) == [] and len(ids(db, n=1)) == 10


def test_a_load_applies_its_own_commits_and_no_others(db):
    """So loads side by side share the work."""
    db.put(other={"n": 7})
    store = db.store("loader")
    before = store.bucket.counters.as_dict()
    load(store, "t", rows(20), batch=10)
    assert store.bucket.counters.since(before)["put"] == 2 + 20 * (1 + 2)
    assert [record.number for record in store.log.pending()] == [1, 2, 3], "what others have written"
    assert ids(db, n=7) == ["other"]


def test_a_commit_that_was_only_found_again_is_applied_too(db, monkeypatch):
    """Its answer was lost, so the log doesn't know that it is this process's."""

    def found_again(store, work):
        tx = transact(store, work)
        store.log._own.clear()
        return tx

    monkeypatch.setattr("firn.records.load.load.transact", found_again)
    store = db.store("loader")
    done = load(store, "t", rows(20), batch=10)
    assert {record.number for record in store.log.pending()}.isdisjoint(done.commits)


def test_a_load_that_is_refused_tells_how_far_it_came(db):
    given = [*rows(12), ("bad", {"n": [1]})]
    with pytest.raises(
        InvalidInputError, match=r"t\['bad'\] has .* at n.*\(10 rows before it are loaded; mend it"
    ):
        load(db.store("loader"), "t", given, batch=10)
    assert len(ids(db, n=0)) == 5
    given = [("a", {"u": "1"}), ("b", {"u": "2"}), ("c", {"u": "1"})]
    with pytest.raises(DuplicateKeyError, match=r"row 'a' has this value.*2 rows before it"):
        load(db.store("loader"), "t", given, batch=2)
    with pytest.raises(DuplicateKeyError, match=r"row 'a' has this value.*can't have it too$"):
        load(db.store("loader"), "t", given, batch=3)
    with pytest.raises(TableNotFoundError):
        load(db.store("loader"), "nothing", rows(1))


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, "10"])
def test_a_batch_that_cannot_be(batch):
    table = firn.connect("memory://").create_table("t", kind="records")
    with pytest.raises(InvalidInputError, match="batch"):
        table.load([], batch=batch)


def test_a_crash_at_every_request():
    """What was committed is there whole; loading again ends it."""

    def started():
        db = Database()
        db.put(r1={"n": 9, "u": "old"})
        return db

    db = started()
    given = [(f"r{n}", {"n": n, "u": f"{n}"}) for n in range(5)]

    def check(store, point):
        bucket = store.bucket("survivor")
        db_ids = {row.id for row in firn.records.write.transaction.begin(db.on(bucket)).scan("t")}
        assert db_ids in ({"r1"}, {"r0", "r1"}, {"r0", "r1", "r2", "r3"}, {f"r{n}" for n in range(5)})
        load(db.on(bucket), "t", given, batch=2)
        tx = firn.records.write.transaction.begin(db.on(bucket))
        assert {row.id: row["n"] for row in tx.scan("t")} == {f"r{n}": n for n in range(5)}
        for n in range(5):
            assert (
                [row.id for row in tx.find("t", n=n)] == [f"r{n}"] == [r.id for r in tx.find("t", u=f"{n}")]
            )
        assert tx.find("t", n=9) == []

    def run(bucket):
        store = db.on(bucket)
        with suppress(OutcomeUnknownError):
            done = load(store, "t", given, batch=2)
            left = {record.number for record in store.log.pending()}
            assert left.isdisjoint(done.commits), "a load says that all of it is applied"

    visited = crash_points(
        lambda: db.simulated, run, check, modes=("before", "after", "lost_ack", "retried", "failed")
    )
    assert visited > 20


def test_bodies_take_no_more_memory_than_they_have_bytes():
    """A load keeps them until they are applied, and the log the last of them."""
    documents = firn.records.documents.documents.Documents("t")
    row = RowWrite("t", "r", documents.encode("r", {"n": 7}))
    data = encode_record(LogRecord(1, (LogTransaction("x", 0, (row,) * 100),), 0, (), {}))
    tracemalloc.start()
    try:
        kept = [documents.encode("r", {"n": n}) for n in range(100)]
        encoded, _ = tracemalloc.get_traced_memory()
        record = decode_record(1, data, where="record")
        decoded = tracemalloc.get_traced_memory()[0] - encoded
    finally:
        tracemalloc.stop()
    assert encoded < 100 * 500 and decoded < 100 * 1000
    assert len(kept) == len(record.group[0].writes)


# -- shapes of rows


@pytest.fixture
def table():
    return firn.connect("memory://").create_table("t", kind="records", indices=["n"])


def documents(table):
    return {row.id: row.document for row in table.scan()}


@pytest.mark.parametrize(
    "data",
    [
        [{"_id": "a", "n": 1}, {"_id": "b", "n": 2}],
        iter([{"_id": "a", "n": 1}, {"_id": "b", "n": 2}]),
        {"_id": ["a", "b"], "n": [1, 2]},
        pa.table({"_id": ["a", "b"], "n": [1, 2]}),
        pa.table({"_id": ["a", "b"], "n": [1, 2]}).to_reader(),
        pa.record_batch({"_id": ["a", "b"], "n": [1, 2]}),
        iter(pa.table({"_id": ["a", "b"], "n": [1, 2]}).to_batches(max_chunksize=1)),
        [pa.table({"_id": ["a"], "n": [1]}), {"_id": "b", "n": 2}],
        pd.DataFrame({"_id": ["a", "b"], "n": [1, 2]}),
    ],
    ids=["list", "iterator", "dict", "table", "reader", "batch", "batches", "mixed", "pandas"],
)
def test_rows_come_in_many_shapes(table, data):
    report = table.load(data)
    assert (report.rows, report.commits) == (2, 1)
    assert documents(table) == {"a": {"n": 1}, "b": {"n": 2}}
    assert [row.id for row in table.find(n=2)] == ["b"]
    assert report.version == table.session.store.log.refresh().number


def test_a_parquet_file_is_loaded_batch_by_batch(table, tmp_path):
    pq.write_table(pa.table({"iata": [f"A{n:03}" for n in range(500)], "n": range(500)}), tmp_path / "f")
    report = table.load(pq.ParquetFile(tmp_path / "f").iter_batches(batch_size=64), id="iata", batch=100)
    assert (report.rows, report.commits) == (500, 5)
    assert table.get("A123").document == {"iata": "A123", "n": 123}


def test_documents_of_a_list_are_taken_as_they_are(table):
    given = [{"_id": "a", "x": None, "y": {"z": None}}, {"_id": "b", "x": "text"}, {"_id": "c", "x": 1.5}]
    table.load(given)
    assert given[0] == {"_id": "a", "x": None, "y": {"z": None}}, "what was given is as it was"
    assert documents(table) == {"a": {"x": None, "y": {"z": None}}, "b": {"x": "text"}, "c": {"x": 1.5}}


def test_a_null_of_arrow_is_a_field_that_is_missing(table):
    kind = pa.struct([("city", pa.string()), ("zip", pa.string())])
    data = pa.table(
        {
            "_id": ["a", "b", "c"],
            "n": pa.array([1, None, None], pa.int64()),
            "address": pa.array([{"city": "Oslo", "zip": None}, None, {"city": None, "zip": None}], kind),
            "many": pa.array([[{"city": "Oslo", "zip": None}, None], [], None], pa.list_(kind)),
            "map": pa.array([[("k", None)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )
    table.load(data)
    assert documents(table) == {
        "a": {"n": 1, "address": {"city": "Oslo"}, "many": [{"city": "Oslo"}, None], "map": {"k": None}},
        "b": {"many": []},
        "c": {"address": {}, "map": {}},
    }


def test_declared_columns_come_back_as_they_were_loaded():
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("seen", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(9, 2)),
            ("small", pa.int8()),
            ("real", pa.float32()),
            ("body", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("x", pa.float64())])),
        ]
    )
    table = firn.connect("memory://").create_table("t", kind="records", schema=schema)
    noon = dt.datetime(2026, 1, 31, 12, 0, 0, 7)
    values: dict[str, Any] = {
        "day": dt.date(2026, 1, 31),
        "at": noon,
        "seen": noon.replace(tzinfo=dt.timezone.utc),
        "price": Decimal("12.30"),
        "small": -7,
        "real": 0.5,
        "body": b"\0\xff",
        "tags": ["a", None],
        "place": {"x": 1.5},
    }
    given = pa.table(
        {"_id": ["full", "empty"], **{name: [value, None] for name, value in values.items()}},
        schema=pa.schema([("_id", pa.string()), *schema]),
    )
    table.load(given)
    read = table.scan(order_by="_id desc").to_arrow()
    assert read.cast(given.schema).equals(given)


def test_nanoseconds_that_no_document_can_hold(table):
    typed = firn.connect("memory://").create_table("t", kind="records", schema={"at": "TIMESTAMP"})
    typed.load(pa.table({"_id": ["a"], "at": pa.array([1_000], pa.timestamp("ns"))}))
    assert typed.get("a")["at"] == dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    with pytest.raises(InvalidInputError, match="rows can't be made documents"):
        typed.load(pa.table({"_id": ["a"], "at": pa.array([1_001], pa.timestamp("ns"))}))


def test_ids(table):
    table.load([{"code": 7, "n": 1}, {"code": "x", "n": 2}], id="code")
    assert documents(table) == {"7": {"code": 7, "n": 1}, "x": {"code": "x", "n": 2}}
    typed = firn.connect("memory://").create_table("t", kind="records", schema={"n": "BIGINT"})
    typed.load([{"code": 7, "n": 1}], id="code")
    assert documents(typed) == {"7": {"n": 1}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"n": 1}], "row 0 has no _id"),
        ([{"_id": "a"}, {"_id": None}], "row 1 has no _id"),
        ([{"_id": 1.5}], r"1\.5\) can't be an id"),
        ([{"_id": True}], r"True\) can't be an id"),
        ([{"_id": ""}], "at least one character"),
        ([3], r"item 0 of the rows is an int \(3\): each is a document"),
        ("text", "can't be taken for rows"),
        (7, "can't be taken for rows"),
        ({"_id": ["a"], "n": [1, 2]}, "differ in length"),
        (pa.table([["a"], [dt.date(2026, 1, 1)]], names=["_id", "day"]), "which JSON can't hold"),
    ],
)
def test_rows_that_cannot_be(table, data, message):
    with pytest.raises(InvalidInputError, match=message):
        table.load(data)


def test_a_load_of_a_directory_has_many_requests_in_flight(tmp_path):
    indices = [firn.Index("n"), firn.Index("u", unique=True)]
    table = firn.connect(tmp_path).create_table("t", kind="records", indices=indices)
    report = table.load(({"_id": f"r{n}", "n": n % 3, "u": n} for n in range(200)), batch=64)
    assert (report.rows, report.commits) == (200, 4)
    assert (table.count(n=1), table.count(u=77), table.count()) == (67, 1, 200)
    with pytest.raises(DuplicateKeyError, match="row 'r77' has this value"):
        table.load([{"_id": f"s{n}", "u": n + 77} for n in range(3)])
    assert table.count() == 200


def test_row_tables_are_loaded_too():
    table = firn.connect("memory://").create_table("t", kind="records", isolation="row")
    table.insert("a", {"n": 0})
    before = table.bucket.counters.as_dict()
    report = table.load([{"_id": "a", "n": 1}, {"_id": "b", "n": 2}, {"_id": "a", "n": 3}], batch=2)
    spent = table.bucket.counters.since(before)
    assert (spent["get"], spent["put"]) == (3, 3), "a batch of a and b, then a again"
    assert (report.rows, report.commits, report.version) == (3, 0, None)
    assert {row.id: row["n"] for row in table.scan()} == {"a": 3, "b": 2}
