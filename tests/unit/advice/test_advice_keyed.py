"""The table of advice: keyed tables and their manifests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

import firn
from advice import advises
from cli_runs import done, run
from firn.errors import ObjectNotFoundError
from firn.journal.entries import NAME, TYPE, DefinitionEntry, Entries
from firn.journal.envelope import Envelopes
from firn.journal.manifest.codec import decode_manifest, encode_manifest
from firn.journal.manifest.journal import ManifestJournal
from firn.keyed.encoding.seqs import NARROW
from firn.keyed.plan.read import KeyedRead
from firn.keyed.table import KeyedTable
from regressions.test_keyed_10_flush_numbers import after
from unit.keyed.test_kv_writer import shaky

SLOW = {"flush_ms": 3_600_000}


@pytest.fixture
def table(db: firn.Database) -> KeyedTable:
    """A row in an SST, and one in a flush."""
    made = db.create_table("t", kind="keyed", properties=SLOW)
    fill(made, b"a")
    made.compact(full=True)
    fill(made, b"b")
    return made


def fill(table: KeyedTable, *keys: bytes, value: bytes = b"v") -> None:
    with table.open(compaction=False) as kv:
        for key in keys:
            kv.put(key, value)


def rows(db: firn.Database) -> dict[Any, Any]:
    return dict(db.table("t").reader().scan())


BOTH = {b"a": b"v", b"b": b"v"}


def keys(db: firn.Database, below: str) -> list[str]:
    return [info.key for info in db.bucket.list(below).objects]


# -- what is too old


def test_changes_that_were_swept_are_read_anew(table: KeyedTable) -> None:
    since = table.reader().version
    fill(table, b"c")
    table.compact(full=True)
    table.sweep(older_than="0s")
    with advises("Read the table anew, and ask for changes more often than its l0_min_age", names="of t"):
        list(table.changes(since))
    now = table.reader()
    assert len(dict(now.scan())) == 3
    fill(table, b"d")
    assert table.changes(now.version).to_arrow()["key"].to_pylist() == [b"d"]


def test_checkpoints_names_those_there_are(table: KeyedTable) -> None:
    table.checkpoint("noon")
    with advises("checkpoints() for those that there are", names=["t has", "'night'"]):
        table.reader(at="night")
    assert dict(table.reader(at=table.checkpoints()[0].name).scan()) == BOTH


def test_a_clone_whose_data_is_gone_is_made_again(db: firn.Database, table: KeyedTable) -> None:
    table.clone("copy")
    for key in keys(db, "copy/_metadata/"):  # whoever cloned died before
        db.bucket.delete(key)
    for key in keys(db, "t/_metadata/snapshots/"):
        db.bucket.delete(key)
    with advises(" and clone again.", names=["copy was to be a clone of t", "Drop copy"]):
        db.table("copy").reader()
    db.drop_table("copy")
    assert dict(table.clone("copy").reader().scan()) == BOTH


def test_a_snapshot_that_was_swept_is_taken_again(table: KeyedTable) -> None:
    elsewhere = shaky(table)  # as in another process: nothing is cached
    with elsewhere.open(compaction=False) as kv:
        checkpoint = table.checkpoint("kept")
        before = kv.snapshot()
        staying = elsewhere.reader(follow=None)
        table.compact(full=True)
        table.checkpoint("late")
        checkpoint.delete()
        table.sweep(older_than="0s")
        with advises("Take another one, or keep a checkpoint", names="t was compacted"):
            list(before.scan())
        kv.poll()
        assert dict(kv.snapshot().scan()) == BOTH
        with advises("Use refresh(), or read a checkpoint, which sweep spares", names="t was compacted"):
            list(staying.scan())
        staying.refresh()
        assert dict(staying.scan()) == dict(table.reader(at="late").scan()) == BOTH


def test_a_version_is_kept_by_a_checkpoint(table: KeyedTable) -> None:
    version = table.reader().version
    table.checkpoint("kept")
    fill(table, b"c")
    table.compact(full=True)
    with advises("Keep what you want to read later with checkpoint()", names=["/t", version]):
        table.reader(at=version)
    assert dict(table.reader(at="kept").scan()) == BOTH


def test_a_snapshot_that_was_deleted_is_taken_anew(table: KeyedTable) -> None:
    ref = table.journal.snapshot(expires_ms=None)
    table.journal.delete_snapshot(ref)
    with advises("take a new one", names=ref.id):
        table.journal.view_of(ref)
    assert table.journal.view_of(table.journal.snapshot(expires_ms=None)).last_l0 == 1


def test_a_checkpoint_that_goes_gives_way_to_another(db: firn.Database) -> None:
    table = db.create_table("t", kind="keyed", merge_operator="add", properties=SLOW)
    fill(table, b"a", value=b"1")
    table.compact(full=True)
    table.checkpoint("one")
    back = damaged(db, f"t/{table.journal.read().manifest.ssts[0].file}", None)
    fill(table, b"b", value=b"1")
    with advises("Read a newer version, or another checkpoint", names="t can't be read at"):
        KeyedRead.of(table, at="one")
    back()
    table.checkpoint("two")
    table.compact(full=True)
    assert len(KeyedRead.of(table).files) == 1
    assert len(KeyedRead.of(table, at="two").files) == 2


# -- handles


def test_a_flush_that_takes_long_goes_on(table: KeyedTable) -> None:
    elsewhere = shaky(table)
    with elsewhere.open(compaction=False) as kv:
        gate = elsewhere.bucket.gate = threading.Event()
        kv.put(b"c", b"v", durable=False)
        with advises("the background: flush() waits for it again, and stats() has the errors", names="t: "):
            kv.flush(timeout=0.01)
        assert kv.stats() is not None
        gate.set()
        kv.flush()
        assert kv.get(b"c", durable=True) == b"v"


def test_a_table_that_is_full_is_loaded_into_a_new_one(db: firn.Database, table: KeyedTable) -> None:
    made = db.create_table("old", kind="keyed", properties=SLOW)
    old = made.beside(replace(made.definition, features=()), made.prefix)
    for key in keys(db, "old/_metadata/manifests/"):
        db.bucket.delete(key)
    after(NARROW.last_number - 1, old)
    kv = old.open(compaction=False)
    kv.put(b"k", b"v")
    with advises("db.create_table(…).load(table.reader().scan().to_arrow())", names="flush 2,147,483,647"):
        for key in (b"l", b"m"):
            kv.put(key, b"v")
    with pytest.raises(firn.UnsupportedError):
        kv.close()
    new = db.create_table("new", kind="keyed")
    new.load(old.reader().scan().to_arrow())
    assert dict(new.reader().scan()) == dict(old.reader().scan())


def test_a_table_by_itself_knows_no_spark(db: firn.Database, table: KeyedTable) -> None:
    alone = KeyedTable(table.bucket, table.prefix, table.definition)
    with advises("was made without a database: get it by firn.connect(…).table(…)", names="t was"):
        alone.to_spark()
    assert db.table("t").engines is not alone.engines


def test_a_table_that_was_made_again_is_opened_again(db: firn.Database, table: KeyedTable) -> None:
    db.drop_table("t")
    with advises(" if it is there again.", names=["/t was dropped", "db.table('t')"]):
        table.reader()
    db.create_table("t", kind="keyed")
    with advises(" if it is there again.", names=["memory://t was dropped", "db.table('t')"]):
        table.reader()
    assert rows(db) == {}


# -- altering


def test_a_stale_handle_is_replaced(db: firn.Database) -> None:
    reader = db.create_table("t", kind="keyed").reader(follow="0s")
    db.drop_table("t")
    db.create_table("t", kind="keyed")
    with advises("Get the table anew with db.table().", names="current_manifest"):
        reader.get(b"a")
    assert db.table("t", kind="keyed").reader().get(b"a") is None


def test_a_table_without_a_writer_here_is_altered_by_fencing(tmp_path: Path) -> None:
    url = str(tmp_path)
    table = firn.connect(url).create_table("t", kind="keyed")
    with advises("or with fence=True, in the shell `firn alter --fence`, which ends", names="t"):
        table.alter(set_properties={"flush_ms": 20})
    assert run("alter", f"{url}/t", "--set", "flush_ms=20").code != 0
    done("alter", f"{url}/t", "--set", "flush_ms=20", "--fence")
    assert table.as_in(table.view()).settings.flush_ms == 20
    with pytest.raises(firn.FencedError), table.open(compaction=False) as kv:
        done("alter", f"{url}/t", "--unset", "flush_ms", "--fence")
        kv.poll()


def test_other_kinds_have_nothing_to_fence(tmp_path: Path) -> None:
    url = str(tmp_path)
    firn.connect(url).create_table("t")
    refused = run("alter", f"{url}/t", "--set", "codec=lz4", "--fence")
    assert refused.code != 0 and "leave --fence out" in refused.err
    done("alter", f"{url}/t", "--set", "codec=lz4")


# -- damage


def damaged(db: firn.Database, key: str, body: bytes | None) -> Callable[[], object]:
    """Put something else in an object's place, or nothing; how to copy it back."""
    before = db.bucket.get(key).data
    db.bucket.delete(key) if body is None else db.bucket.put(key, body)
    return lambda: db.bucket.put(key, before)


def test_a_damaged_manifest_is_copied_back(db: firn.Database, table: KeyedTable) -> None:
    pointer = "t/_metadata/current_manifest"
    manifest = f"t/_metadata/manifests/{table.journal.read().manifest.name}"
    back = damaged(db, pointer, b"{}")
    with advises("Copy the object back from a backup; nobody can open the table until then", names=pointer):
        rows(db)
    back()
    assert rows(db) == BOTH
    back = damaged(db, manifest, b"{}")
    with advises("Copy the object back from a backup; the pointer or a snapshot needs it", names=manifest):
        rows(db)
    back()
    assert rows(db) == BOTH
    back = damaged(db, manifest, None)
    with advises(", of which an object is missing: ", names=manifest) as advice:
        rows(db)
    assert "Copy it back from a backup." in advice.text
    back()
    assert rows(db) == BOTH


def test_a_manifest_that_a_checkpoint_needs_is_copied_back(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint("noon")
    manifest = f"t/_metadata/manifests/{table.journal.read().manifest.name}"
    back = damaged(db, manifest, None)
    with pytest.raises(firn.CorruptObjectError, match=manifest):
        table.history()
    with advises("keeps a view of which an object is missing", names=manifest):
        table.reader(at="noon")
    back()
    assert dict(table.reader(at="noon").scan()) == BOTH
    damaged(db, manifest, None)
    (checkpoint,) = table.checkpoints()
    checkpoint.delete()
    assert table.checkpoints() == []


def test_a_manifest_of_another_chain_is_copied_back(db: firn.Database, table: KeyedTable) -> None:
    for n in range(8):
        table.load([{"key": b"%d" % n, "value": b"v"}])
    name = table.journal.read().manifest.name
    key = f"t/_metadata/manifests/{name}"
    file = decode_manifest(name, db.bucket.get(key).data, where=key)
    assert file.base is not None
    back = damaged(db, key, encode_manifest(replace(file, deletes=("ssts/none.sst",))))
    fresh = KeyedTable(db.bucket, "t", table.definition)
    with advises("Copy its chain back from a backup", names=name):
        fresh.reader()
    back()
    assert len(dict(fresh.reader().scan())) == 10


def test_a_damaged_snapshot_is_copied_back_or_deleted(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint("noon")
    (key,) = keys(db, "t/_metadata/snapshots/")
    for follow in ("copy", "delete"):
        back = damaged(db, key, b"{}")
        with advises("or delete it to give it up; nothing is collected before", names=key):
            table.sweep(older_than="0s")
        if follow == "copy":
            back()
        else:
            db.bucket.delete(key)
        table.sweep(older_than="0s")
        assert len(table.checkpoints()) == (follow == "copy")


def test_a_snapshot_that_contradicts_itself_is_deleted(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint("noon")
    (key,) = keys(db, "t/_metadata/snapshots/")
    raw = orjson.loads(db.bucket.get(key).data)
    for given in ("crc", "features", "format", "kind"):
        raw.pop(given)
    db.bucket.put(key, Envelopes("a keyed table", {}).encode("snapshot", {**raw, "last_l0": 7}))
    with advises(", but says that it ends at ", names=key) as advice:
        table.reader(at="noon")
    assert advice.text.endswith("Delete it.")
    db.bucket.delete(key)
    table.checkpoint("noon")
    assert dict(table.reader(at="noon").scan()) == BOTH


def test_a_damaged_sst_is_copied_back_or_not_needed(db: firn.Database, table: KeyedTable) -> None:
    table.checkpoint("before")
    fill(table, b"c")
    table.compact(full=True)
    key = f"t/{table.journal.read().manifest.ssts[0].file}"
    body = db.bucket.get(key).data
    back = damaged(db, key, body[:20] + b"rot" + body[23:])
    elsewhere = shaky(table)
    with advises("or read the table at a checkpoint that doesn't need it", names=key):
        list(elsewhere.reader().scan())
    assert dict(elsewhere.reader(at="before").scan()) == BOTH
    back()
    assert len(dict(elsewhere.reader().scan())) == 3


def test_a_lost_sst_is_named_by_fsck(tmp_path: Any) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", kind="keyed", properties=SLOW)
    fill(table, b"a")
    table.compact(full=True)
    key = f"t/{table.journal.read().manifest.ssts[0].file}"
    back = damaged(db, key, None)
    elsewhere = shaky(table)
    with advises("names it. `firn fsck` tells what is missing", names=key):
        elsewhere.reader().get(b"a")
    with (
        elsewhere.open(compaction=False) as kv,
        advises("names it. `firn fsck` lists what is missing", names=key),
    ):
        kv.get(b"a")
    journal: ManifestJournal = table.journal

    def read(view: Any) -> None:
        raise ObjectNotFoundError(key)

    with advises(": an object of the newest view is missing: ", names=[key, "Copy it back from a backup"]):
        journal.restarting(journal.read(), read)
    assert key in run("fsck", tmp_path / "t").out
    back()
    assert elsewhere.reader().get(b"a") == b"v"


def test_bytes_have_no_types_to_alter(tmp_path: Path):
    url = str(tmp_path)
    db = firn.connect(url)
    db.create_table("t", kind="keyed")
    refused = run("alter", f"{url}/t", "--type", "a=BIGINT", "--set", "flush_ms=20", "--fence")
    assert refused.code == 2 and "Load the rows into a table with a schema" in refused.err
    db.create_table("u", kind="keyed", schema={"a": "INTEGER"}).load([{"key": b"a", "a": 1}])
    done("alter", f"{url}/u", "--type", "a=BIGINT", "--set", "flush_ms=20", "--fence")


def test_a_manifest_whose_entries_dont_fit_is_copied_back() -> None:
    db = firn.connect(f"memory://{uuid.uuid4().hex}")
    table = db.create_table("t", kind="keyed", schema={"a": "INTEGER", "b": "INTEGER"})
    table.alter(drop="b", add={"c": "DATE"}, rename={"a": "b"}, fence=True)
    key = table.journal.layout.manifest_key(table.view().manifest.name)
    file = decode_manifest(key.rpartition("/")[2], db.bucket.get(key).data, where=key)

    def spoiled(kind: str, value: str) -> Callable[[], object]:
        entries = Entries({**file.definition.map, (kind, "c"): DefinitionEntry(value, 9)})
        return damaged(db, key, encode_manifest(replace(file, definition=entries)))

    elsewhere = firn.connect(db.url)
    back = spoiled(NAME, "b")
    with advises("after the entries of its manifest. Copy the manifest back from a backup", names="t"):
        elsewhere.table("t").reader().get(b"a")
    back()
    back = spoiled(TYPE, "NONSENSE")
    with advises("its manifest gives the column ", names="t"):
        elsewhere.table("t").reader().get(b"a")
    back()
    assert elsewhere.table("t").reader().get(b"a") is None
