"""`firn fsck` of keyed tables: what is whole is said to be, and every damage is named with its object."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

import firn
from firn.inspect.fsck.findings import Finding
from firn.inspect.fsck.fsck import FsckReport, check
from firn.keyed.table import KeyedTable


def notes(report: FsckReport) -> list[Finding]:
    return [f for f in report.findings if f.severity == "note"]


@pytest.fixture
def table(db: firn.Database) -> KeyedTable:
    """Sorted files, flushes above them, and a checkpoint of what came before."""
    table = db.create_table("delays", kind="keyed", properties={"flush_ms": 5})
    with table.open(compaction=False) as kv:
        for n in range(300):
            kv.put(b"%04d" % n, b"x" * 20, durable=False)
        kv.flush()
        kv.delete(b"0007")
    table.checkpoint("before")
    table.compact(full=True)
    with table.open(compaction=False) as kv:
        kv.put(b"0000", b"y")
        kv.put(b"new", b"z")
    return table


def sst_key(table: KeyedTable) -> str:
    (sst,) = table.journal.read().manifest.ssts
    return table.journal.layout.sst_key(sst.file)


def l0_key(table: KeyedTable) -> str:
    return table.journal.read().l0[0].key


def manifest_key(table: KeyedTable) -> str:
    return table.journal.layout.manifest_key(table.journal.read().manifest.name)


def snapshot_key(table: KeyedTable) -> str:
    (ref,) = table.journal.snapshots()
    return ref.key


def pointer_key(table: KeyedTable) -> str:
    return table.journal.layout.pointer_key


def flip(table: KeyedTable, key: str, at: int) -> None:
    data = bytearray(table.bucket.get(key).data)
    data[at] ^= 0x40
    table.bucket.put(key, bytes(data))


def test_a_whole_table(db: firn.Database, table: KeyedTable) -> None:
    for options in ({}, {"footers": False}, {"blocks": True}):
        report = check(db, **options)
        assert report.problems == ()
        assert report.checked["tables"] == 1
        assert report.checked["SSTs"] == 1
        assert report.checked["flushes"] >= 3
        assert report.checked["checkpoints"] == 1
    assert check(db, "delays").problems == ()


def test_an_empty_table_and_a_lake_beside_it(db: firn.Database) -> None:
    db.create_table("empty", kind="keyed")
    db.create_table("lake").append([{"n": 1}])
    report = check(db)
    assert report.problems == ()
    assert report.checked["tables"] == 2


def test_it_writes_nothing(db: firn.Database, table: KeyedTable) -> None:
    before = {i.key: i.etag for i in db.bucket.list("").objects}
    check(db, blocks=True)
    assert {i.key: i.etag for i in db.bucket.list("").objects} == before


NAMED: dict[str, Callable[[KeyedTable], str]] = {
    "SST": sst_key,
    "flush": l0_key,
    "manifest": manifest_key,
    "checkpoint": snapshot_key,
    "pointer": pointer_key,
}


@pytest.mark.parametrize("what", NAMED)
def test_a_bit_that_was_flipped_is_named(db: firn.Database, table: KeyedTable, what: str) -> None:
    key = NAMED[what](table)
    size = db.bucket.head(key).size
    whole = db.bucket.get(key).data
    for at in (0, size // 3, size // 2, size - 10, size - 1):
        flip(table, key, at)
        problems = check(db, blocks=True).problems
        assert problems, at
        assert any(key in f"{f.object} {f.what}" for f in problems), (at, problems)
        assert all(f.remedy for f in problems)
        db.bucket.put(key, whole)
    assert check(db, blocks=True).problems == ()


@pytest.mark.parametrize("what", NAMED)
def test_an_object_that_is_cut_short_is_named(db: firn.Database, table: KeyedTable, what: str) -> None:
    key = NAMED[what](table)
    whole = db.bucket.get(key).data
    for length in (1, len(whole) // 2, len(whole) - 1):
        db.bucket.put(key, whole[:length])
        # What a flush should weigh, nobody but itself tells.
        found = check(db, footers=what == "flush").problems
        assert any(key in f"{f.object} {f.what}" for f in found), (length, found)


def test_what_only_a_checkpoint_needs_is_checked_too(db: firn.Database, table: KeyedTable) -> None:
    (ref,) = table.journal.snapshots()
    kept = table.journal.view_of(ref).l0[0].key
    assert kept not in {f.key for f in table.journal.read().l0}
    db.bucket.delete(kept)
    (problem,) = check(db, footers=False).problems
    assert problem.object.endswith(kept)
    assert "checkpoint before" in problem.what


def test_an_sst_of_another_table_is_told_apart(db: firn.Database, table: KeyedTable) -> None:
    """As large as it should be, and whole: only its index doesn't agree with the manifest."""
    made = []
    for name, first in (("one", b"0"), ("two", b"1")):
        properties = {"flush_ms": 5, "compression": "none"}
        made.append(db.create_table(name, kind="keyed", properties=properties))
        batch = firn.WriteBatch()
        for n in range(300):
            batch.put(first + b"%03d" % n, b"x" * 20)
        with made[-1].open(compaction=False) as kv:
            kv.write(batch)
        made[-1].compact(full=True)
    mine, theirs = map(sst_key, made)
    assert db.bucket.head(mine).size == db.bucket.head(theirs).size
    db.bucket.put(mine, db.bucket.get(theirs).data)
    found = check(db, "one").problems
    assert any("min_key" in f.what and mine in f.object for f in found)
    assert check(db, "one", footers=False).problems == ()


def test_a_flush_under_another_number_is_told(db: firn.Database, table: KeyedTable) -> None:
    newest, before = table.journal.read().l0[:2]
    db.bucket.put(newest.key, db.bucket.get(before.key).data)
    assert check(db, "delays", footers=True).problems


def test_flushes_of_fenced_writers_and_garbage_are_notes(db: firn.Database, table: KeyedTable) -> None:
    view = table.journal.read()
    data = db.bucket.get(view.l0[0].key).data
    epoch = view.pointer.infos[0].writer_epoch
    db.bucket.put(table.journal.layout.l0_key(epoch, view.last_l0 + 3), data)
    db.bucket.put(table.journal.layout.ssts_prefix + "000000000000000001.000000000000000077.sst", data)
    report = check(db)
    assert report.problems == ()
    said = " ".join(map(str, notes(report)))
    assert f"{epoch}.{view.last_l0 + 3}" in said and "fenced" in said
    assert "Sweep deletes" in said


def test_a_gap_below_the_newest_writers_flushes_is_a_note(db: firn.Database, table: KeyedTable) -> None:
    view = table.journal.read()
    data = db.bucket.get(view.l0[0].key).data
    mine = view.pointer.infos[-1].writer_epoch
    db.bucket.put(table.journal.layout.l0_key(mine, view.last_l0 + 2), data)
    report = check(db)
    assert report.problems == ()
    assert any(f"flush {view.last_l0 + 1} is missing" in note.what for note in notes(report))


def test_a_flush_that_a_later_writer_has_seen_is_missed(db: firn.Database, table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.put(b"later", b"1")
    flushes = table.journal.read().l0
    gone = flushes[-1].key
    db.bucket.delete(gone)
    found = check(db, footers=False).problems
    assert any(f.object.endswith(gone) and "missing" in f.what for f in found), found


def test_a_pointer_that_is_gone(db: firn.Database, table: KeyedTable) -> None:
    db.bucket.delete(pointer_key(table))
    (problem,) = check(db, footers=False).problems
    assert problem.object.endswith("current_manifest") and "files of the table are there" in problem.what
    db.create_table("empty", kind="keyed")
    db.bucket.delete("empty/_metadata/current_manifest")
    report = check(db, "empty")
    assert report.problems == () and "interrupted" in notes(report)[0].what


def test_two_ssts_of_a_run_that_overlap(db: firn.Database, table: KeyedTable) -> None:
    from dataclasses import replace

    from firn.journal.manifest.codec import decode_manifest, encode_manifest

    key, name = manifest_key(table), table.journal.read().manifest.name
    file = decode_manifest(name, db.bucket.get(key).data, where=key)
    twin = replace(file.adds[0], number=99, file="ssts/000000000000000001.000000000000000099.sst")
    db.bucket.put(key, encode_manifest(replace(file, adds=(*file.adds, twin))))
    found = check(db, footers=False).problems
    assert any("overlap" in f.what for f in found)


def test_a_pointer_of_another_table(db: firn.Database, table: KeyedTable) -> None:
    from dataclasses import replace

    from firn.journal.definition import definition_key
    from firn.keyed.definition.definition import read_definition

    definition = read_definition(db.bucket, table.prefix)
    assert definition is not None
    other = replace(definition, first_epoch=definition.first_epoch + 1)
    db.bucket.put(definition_key(table.prefix), other.encode())
    assert any("epochs begin" in f.what for f in check(db, footers=False).problems)


def test_a_definition_that_cant_be_read(db: firn.Database, table: KeyedTable) -> None:
    from firn.journal.definition import definition_key

    raw = orjson.loads(db.bucket.get(definition_key(table.prefix)).data)
    db.bucket.put(definition_key(table.prefix), orjson.dumps({**raw, "merge": "add"}))
    (problem,) = check(db).problems
    assert "checksum" in problem.what


def test_an_expired_checkpoint_is_a_note(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint("soon", ttl=0.001)
    report = check(db)
    assert report.problems == ()
    said = [str(f) for f in notes(report)]
    assert any("soon has expired" in text for text in said) or report.checked["checkpoints"] == 2
