"""The change feed tells each commit once, in order, through compactions and bulk loads, or says that it can't."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from firn.errors import InvalidInputError, SnapshotTooOldError
from firn.keyed.encoding.seqs import WIDE
from firn.keyed.load.bulk_load import load
from firn.keyed.maintain.compaction import compact
from firn.keyed.maintain.sweep import sweep
from firn.keyed.read.changes import change_batches, change_schema, changes
from firn.keyed.table import KeyedTable
from kv_tables import DELETE, MERGE, PUT, Flusher, live, new_table

Told = list[tuple[bytes, str, bytes | None]]


def told(table: KeyedTable, since: str | None = None, upto: str | None = None) -> Told:
    rows = changes(table, since, upto).to_arrow().to_pylist()
    return [(row["key"], row["_kind"], row["value"]) for row in rows]


def one(key: bytes, value: bytes = b"loaded") -> list[dict[str, bytes]]:
    return [{"key": key, "value": value}]


def test_each_commit_once_in_order() -> None:
    table = new_table(merge_operator="add")
    writer = Flusher(table)
    start = changes(table).version
    writer.flush([(b"a", b"1")])
    writer.flush([(b"b", b"2"), (b"a", None, DELETE)])
    first = changes(table, start)
    assert told(table, start) == [(b"a", "put", b"1"), (b"a", "delete", None), (b"b", "put", b"2")]
    writer.merge(b"b", b"3")
    assert told(table, first.version) == [(b"b", "merge", b"3")]
    assert told(table, changes(table, first.version).version) == []
    assert told(table, start, first.version) == told(table, start)[:3], "a batch that is repeated"


def test_rows_tell_their_place() -> None:
    table = new_table(key={"state": "VARCHAR"}, schema={"delay": "BIGINT"})
    writer = Flusher(table)
    expires = 4_000_000_000_000
    writer.flush([(table.keys.encode("MI"), (66,), PUT, expires)])
    writer.flush([(table.keys.encode("OH"), None, DELETE)])
    found = changes(table).to_arrow()
    assert found.schema == change_schema(table.definition)
    assert found.schema.names == ["state", "delay", "_kind", "_seq", "_expire_at"]
    rows = found.to_pylist()
    assert [(row["state"], row["delay"], row["_kind"], row["_seq"]) for row in rows] == [
        ("MI", 66, "put", 1 << 24),
        ("OH", None, "delete", 2 << 24),
    ]
    assert rows[0]["_expire_at"].timestamp() * 1000 == expires and rows[1]["_expire_at"] is None


def test_from_the_beginning_it_is_all_that_the_table_holds() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"b")
    compact(table)
    load(table, one(b"c"))
    writer.put(b"b", value=b"new")
    assert told(table) == [
        (b"a", "put", b"v"),
        (b"b", "put", b"v"),
        (b"c", "put", b"loaded"),
        (b"b", "put", b"new"),
    ]


def test_through_a_compaction() -> None:
    """Flushes that a compaction took up are told one by one for as long as sweep leaves them."""
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a")
    since = changes(table).version
    writer.put(b"a", value=b"2")
    writer.delete(b"a")
    compact(table)
    writer.put(b"b")
    assert told(table, since) == [(b"a", "put", b"2"), (b"a", "delete", None), (b"b", "put", b"v")]
    sweep(table, older_than="0s")
    with pytest.raises(SnapshotTooOldError, match="flush 1 of t is compacted and swept"):
        changes(table, since)
    assert told(table, changes(table).version) == []


def test_after_a_compaction_of_what_was_told() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a")
    since = changes(table).version
    compact(table)
    sweep(table, older_than="0s")
    assert told(table, since) == []
    writer.put(b"b")
    assert told(table, since) == [(b"b", "put", b"v")]


def test_whose_flush_counts_is_told_by_the_epoch() -> None:
    """A zombie's file of a number that its successor wrote too, of before the compaction."""
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a")
    since = changes(table).version
    successor = Flusher(table)
    layout = table.journal.layout
    successor.put(b"mine")
    (mine,) = [file for file in table.journal.read().l0 if file.number == 1]
    zombie = layout.l0_key(writer.session.epoch, 1)
    assert table.bucket.get(zombie).data == b"", "the fence"
    table.bucket.put(zombie, table.bucket.get(layout.l0_key(writer.session.epoch, 0)).data)
    assert mine.epoch > writer.session.epoch
    compact(table)
    assert told(table, since) == [(b"mine", "put", b"v")]


def test_bulk_loads_are_told_once() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a")
    since = changes(table).version
    load(table, one(b"x"))
    first = changes(table, since)
    assert told(table, since) == [(b"x", "put", b"loaded")]
    assert first.version.endswith("@0+1")
    assert told(table, first.version) == []
    load(table, one(b"y"))
    assert told(table, first.version) == [(b"y", "put", b"loaded")]
    writer.put(b"b")
    assert told(table, first.version) == [(b"y", "put", b"loaded"), (b"b", "put", b"v")]
    compact(table, full=True)
    assert told(table, first.version) == [(b"y", "put", b"loaded"), (b"b", "put", b"v")]
    assert told(table, since) == [
        (b"x", "put", b"loaded"),
        (b"y", "put", b"loaded"),
        (b"b", "put", b"v"),
    ]
    sweep(table, older_than="0s")
    assert told(table, changes(table).version) == []


def test_a_views_version_says_what_was_loaded_by_its_manifest() -> None:
    table = new_table()
    Flusher(table).put(b"a")
    before = table.journal.read().version
    load(table, one(b"x"))
    after = table.journal.read().version
    assert told(table, before) == [(b"x", "put", b"loaded")]
    assert told(table, after) == []


def test_only_files_with_changes_are_read() -> None:
    table = new_table()
    writer = Flusher(table)
    load(table, one(b"x"))
    for n in range(3):
        writer.put(b"%d" % n)
    since = changes(table).version
    writer.put(b"9")
    before = table.bucket.counters.as_dict()
    found = changes(table, since)
    assert [file.key for file in found.files] == [table.journal.read().l0[0].key]
    spent = table.bucket.counters.since(before)
    assert (spent["list"], spent["put"]) == (2, 0)  # one of them is this test's own reading


def test_files_are_tasks() -> None:
    table = new_table()
    Flusher(table).put(b"a", b"b")
    (file,) = pickle.loads(pickle.dumps(changes(table).files))
    batches = list(change_batches(table.bucket, table.definition, file, ["_kind", "key"]))
    assert pa.Table.from_batches(batches).to_pylist() == [
        {"_kind": "put", "key": b"a"},
        {"_kind": "put", "key": b"b"},
    ]


@pytest.mark.parametrize("version", ["", "7", "manifest@1", 5, "manifest.1.2@3"])
def test_what_is_no_version(version: Any) -> None:
    with pytest.raises(InvalidInputError, match="version"):
        changes(new_table(), version)


def test_a_version_of_another_table() -> None:
    table, other = new_table(), new_table()
    for _ in range(3):
        Flusher(other).put(b"a")
    with pytest.raises(SnapshotTooOldError, match="last flush is number -1"):
        changes(table, changes(other).version)


def test_applied_in_order_changes_give_the_table() -> None:
    """Whatever was flushed, loaded and compacted in between."""
    rng = random.Random(11)
    for _ in range(8):
        table = new_table()
        writer = Flusher(table)
        copy: dict[bytes, object] = {}
        since: str | None = None
        for _ in range(25):
            keys = rng.sample([b"%d" % n for n in range(8)], 3)
            step = rng.choice(["put", "delete", "load", "compact", "full", "follow"])
            if step == "put":
                writer.put(*keys, value=b"p%d" % rng.randrange(99))
            elif step == "delete":
                writer.delete(*keys)
            elif step == "load":
                load(table, [{"key": key, "value": b"l%d" % rng.randrange(99)} for key in keys])
            elif step in ("compact", "full"):
                compact(table, full=step == "full")
            else:
                found = changes(table, since)
                for row in found.to_arrow().to_pylist():
                    if row["_kind"] == "put":
                        copy[row["key"]] = row["value"]
                    else:
                        copy.pop(row["key"], None)
                since = found.version
                assert copy == live(table)


def test_merge_operands_of_one_flush_come_with_what_they_stand_on() -> None:
    table = new_table(merge_operator="append")
    writer = Flusher(table)
    writer.flush([(b"a", b"x"), (b"a", b"y", MERGE), (b"b", b"z", MERGE)])
    kinds = {(key, kind) for key, kind, _ in told(table)}
    assert (b"a", "put") in kinds and (b"b", "merge") in kinds
    assert all(
        WIDE.of(0, 0) <= row["_seq"] < WIDE.of(0, WIDE.half) for row in changes(table).to_arrow().to_pylist()
    )
