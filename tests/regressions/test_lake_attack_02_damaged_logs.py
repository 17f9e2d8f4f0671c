"""A damaged log made reads or all maintenance fail for ever, unless a backup had it."""

from __future__ import annotations

import pytest

import firn
from firn.bucket.presence import is_there
from firn.lake.table import LakeTable


def logs_of(table: LakeTable) -> list[str]:
    return [info.key for info in table.bucket.list("t/_log/").objects]


def rows_of(table: LakeTable) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def cut(table: LakeTable, key: str) -> bytes:
    body = table.bucket.get(key).data
    table.bucket.put(key, body[: len(body) // 2])
    return bytes(body)


def test_one_that_the_checkpoint_has_is_written_anew() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t")
    for n in range(4):
        table.append([{"n": n}])
    table.checkpoint()
    key = logs_of(table)[1]
    body = cut(table, key)
    with pytest.raises(firn.CorruptObjectError, match="`firn mend TABLE`"):
        db.table("t").scan().count()
    assert db.mend_table("t", dry_run=True).objects == (db.bucket.uri(key),)
    assert db.mend_table("t").objects == (db.bucket.uri(key),)
    assert db.bucket.get(key).data == body
    assert rows_of(db.table("t")) == [0, 1, 2, 3]


def test_one_that_a_later_log_carries_is_deleted() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t")
    old = [table.append([{"n": n}]).version for n in range(3)]
    table.merge()
    table.append([{"n": 3}])
    key = f"t/_log/{old[0]}.jsonl"
    cut(table, key)
    other = db.table("t")
    assert rows_of(other) == [0, 1, 2, 3]
    other.merge()
    with pytest.raises(firn.CorruptObjectError):
        other.history()
    assert db.mend_table("t").objects == (db.bucket.uri(key),)
    other.merge()
    other.sweep(older_than="0s")
    assert rows_of(db.table("t")) == [0, 1, 2, 3]
    with pytest.raises(firn.SnapshotTooOldError):
        db.table("t").scan(at=old[-1]).count()


@pytest.mark.parametrize("body", [b"", b"hello", None])
def test_one_that_nobody_knows_is_let_go_by_its_name(body: bytes | None) -> None:
    db = firn.connect("memory://")
    table = db.create_table("t")
    versions = [table.append([{"n": n}]).version for n in range(3)]
    key = f"t/_log/{versions[1]}.jsonl"
    lost = next(file.path for file in table.snapshot().files if file.stats["n"][0] == 1)
    cut(table, key) if body is None else table.bucket.put(key, body)
    with pytest.raises(firn.CorruptObjectError, match="no other object has what it said") as raised:
        db.mend_table("t")
    assert f"firn forget-files TABLE {key}" in str(raised.value)
    opened = db.table("t")
    planned = opened.forget_files([key], dry_run=True)
    assert (planned.version, planned.rows, planned.files[0].path) == (None, None, key)
    done = opened.forget_files([key])
    assert done.files == planned.files and done.version == db.table("t").version
    assert rows_of(db.table("t")) == [0, 2]
    db.bucket.put("saved/a.parquet", db.bucket.get(lost).data)  # its data file is still there
    db.table("t").register("saved/a.parquet")
    assert rows_of(db.table("t")) == [0, 1, 2]
    db.table("t").merge()
    assert rows_of(db.table("t")) == [0, 1, 2]


def test_one_that_was_let_go_of_stays_in_no_checkpoint() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t", properties={"inline": "64KB"})
    for n in range(3):
        table.append([{"n": n}])
    table.checkpoint()
    key = logs_of(table)[0]
    cut(table, key)
    table.forget_files(db.bucket.uri(key))
    assert not is_there(db.bucket, "t/_firn/checkpoint.bin")  # views would show the log without a LIST
    assert rows_of(db.table("t")) == [1, 2]


def test_a_log_that_can_be_read_is_kept() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t")
    table.append([{"n": 1}])
    with pytest.raises(firn.InvalidInputError, match="can be read: nothing was changed"):
        table.forget_files(logs_of(table))
    assert rows_of(table) == [1]


def test_a_definition_is_found_beside_a_damaged_log() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t", sort_by=["n"])
    table.append([{"n": 1}])
    table.merge()
    last = table.append([{"n": 2}]).version
    table.checkpoint()
    cut(table, f"t/_log/{last}.jsonl")
    db.bucket.delete("t/_firn/table.json")
    assert len(db.mend_table("t").objects) == 2
    assert rows_of(db.table("t")) == [1, 2] and db.table("t").context.definition.sort_by == ("n",)
