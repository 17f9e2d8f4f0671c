"""The advice for a damaged definition, to delete it, showed old versions and deleted rows of a table with a key."""

from __future__ import annotations

import orjson
import pytest

import firn
from firn.errors import CorruptObjectError, InvalidInputError, NotFoundError, UnsupportedError

KEY = "t/_firn/table.json"
OPTIONS = {"key": ["id"], "version_by": "v", "partition_by": ["bucket(4, id)"], "sort_by": ["id", "v"]}
PROPERTIES = {"target_size": "1MB"}


@pytest.fixture
def db():
    db = firn.connect("memory://")
    table = db.create_table("t", **OPTIONS, properties=PROPERTIES)
    table.upsert([{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    table.upsert([{"id": 1, "v": 2}])
    table.delete_keys([{"id": 2, "v": 3}])
    return db


def rows(db):
    return db.table("t").scan().to_arrow().to_pylist()


def delete(db):
    db.bucket.delete(KEY)


def cut(db):
    db.bucket.put(KEY, db.bucket.get(KEY).data[:-40])


def flip(db):
    db.bucket.put(KEY, db.bucket.get(KEY).data.replace(b'"version_by": "v"', b'"version_by": "w"'))


@pytest.mark.parametrize("harm", [delete, cut, flip])
@pytest.mark.parametrize("merged", [False, True])
def test_a_lost_definition_is_written_anew_and_nothing_deleted_is_shown(db, harm, merged):
    if merged:
        db.table("t").merge()
        db.table("t").sweep(older_than="0s")
    before = db.bucket.get(KEY).data
    harm(db)
    for look in (
        lambda: rows(db),
        lambda: db.table("t").append([{"id": 3, "v": 1}]),
        lambda: db.table("t").merge(),
    ):
        with pytest.raises(CorruptObjectError, match=r"table\.json.*`firn mend TABLE`"):
            look()
    harmed = {i.key: i.etag for i in db.bucket.list("").objects}
    assert db.mend_table("t", dry_run=True).objects == ("memory://" + KEY,)
    assert {i.key: i.etag for i in db.bucket.list("").objects} == harmed
    assert db.mend_table("t").objects == ("memory://" + KEY,)
    assert db.bucket.get(KEY).data == before
    assert rows(db) == [{"id": 1, "v": 2}]
    assert db.mend_table("t").objects == ()


def as_version_01_wrote_it(db):
    """No log has a copy."""
    from dataclasses import replace

    from firn.journal.leaderless.format.codec import decode, encode

    for info in db.bucket.list("t/_log/").objects:
        log = decode(info.key.rpartition("/")[2], db.bucket.get(info.key).data, where=info.key)
        notes = {name: note for name, note in log.notes.items() if name != "table"}
        db.bucket.put(info.key, encode(replace(log, notes=notes)))


def test_where_no_log_has_a_copy_the_table_is_created_over_its_log(db):
    as_version_01_wrote_it(db)
    delete(db)
    with pytest.raises(CorruptObjectError, match="is missing"):
        rows(db)
    with pytest.raises(CorruptObjectError, match=r"say what it was by create_table\('t', …\)"):
        db.mend_table("t")
    with pytest.raises(InvalidInputError, match="give key="):
        db.create_table("t")
    table = db.create_table("t", **OPTIONS, properties=PROPERTIES)
    assert not table.context.definition.shared
    assert rows(db) == [{"id": 1, "v": 2}]


def test_a_table_of_the_reference_opens_with_the_defaults_still(db):
    marker = {"p": "r/_data/x.parquet", "b": 1, "t": 1795224444056}
    lines = [{"v": 1, "sch": 1, "f": 2, "t": 1795224444056}, {"n": "BIGINT"}, marker]
    db.bucket.put("r/_log/1795224444056_host.jsonl", b"\n".join(orjson.dumps(line) for line in lines))
    assert len(db.table("r").snapshot().files) == 1
    with pytest.raises(UnsupportedError, match="no clock"):
        db.create_table("r", key=["n"])
    with pytest.raises(CorruptObjectError, match="no log of r has a copy"):
        db.mend_table("r")
    assert db.create_table("r").context.definition.shared


def test_a_damaged_record_of_sweeps_is_written_anew(db):
    table = db.table("t")
    old = table.snapshot().version
    table.merge()
    newest = table.snapshot().version
    table.sweep(older_than="0s")
    body = db.bucket.get("t/_firn/sweep.json").data
    db.bucket.put("t/_firn/sweep.json", body[:-2])
    with pytest.raises(CorruptObjectError, match=r"sweep\.json.*`firn mend TABLE`"):
        table.scan(at=newest).count()
    assert db.mend_table("t").objects == ("memory://t/_firn/sweep.json",)
    assert table.scan(at=newest).count() == 1
    with pytest.raises(firn.SnapshotTooOldError):
        table.scan(at=old).count()


def test_other_tables_have_nothing_to_mend():
    db = firn.connect("memory://", writer="w")
    db.create_table("w1", journal="writer")
    db.create_table("k", kind="keyed")
    for name in ("w1", "k", "missing"):
        with pytest.raises((NotFoundError, CorruptObjectError, InvalidInputError)):
            db.mend_table(name)
    assert db.table("k").name == "k"
