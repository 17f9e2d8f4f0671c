"""The small objects beside a log had no checksum: a flipped bit could change an intent, an epoch or a horizon."""

from __future__ import annotations

import orjson
import pytest

import firn
from firn.errors import CorruptObjectError
from firn.journal.leaderless.append import claimed_log
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.leaderless.maintain.lease import LockState
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.lake.definition.definition import LakeDefinition


def flips(data: bytes):
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.fixture(scope="module")
def bucket():
    db = firn.connect("memory://")
    table = db.create_table(
        "t", schema={"n": "BIGINT"}, sort_by=["n"], key=["n"], properties={"orphan_age": "9d"}
    )
    table.append([{"n": 1}], batch_id="b")
    table.overwrite([{"n": 2}])
    table.sweep(older_than="0s")
    table.checkpoint()
    return db.bucket


def horizon_of(bucket, damaged):
    copy = firn.connect("memory://").bucket
    layout = TableLayout("t", "t")
    copy.put(layout.horizon_key, damaged)
    return read_horizon(copy, layout)


READERS = {
    "t/_firn/table.json": lambda bucket, body: LakeDefinition.decode(body, "table.json"),
    "t/_firn/lock.json": lambda bucket, body: LockState.decode(body, "lock.json"),
    "t/_firn/sweep.json": horizon_of,
    "t/_firn/batches/": lambda bucket, body: claimed_log(body, "b", "batches"),
    "t/_firn/checkpoint.bin": lambda bucket, body: checkpoint.decode(body, where="checkpoint.bin"),
}


@pytest.mark.parametrize("key", READERS)
def test_a_flipped_bit_in_any_byte_is_noticed(bucket, key):
    (info,) = bucket.list(key).objects
    body, read = bucket.get(info.key).data, READERS[key]
    read(bucket, body)
    for damaged in flips(body):
        with pytest.raises(CorruptObjectError, match=key.removeprefix("t/_firn/").strip("/")):
            read(bucket, damaged)


@pytest.mark.parametrize("key", [key for key in READERS if "checkpoint" not in key])
def test_objects_that_version_01_wrote_are_read(bucket, key):
    (info,) = bucket.list(key).objects
    body = bucket.get(info.key).data
    fields = orjson.loads(body)
    assert fields.pop("crc") > 0
    found, old = (READERS[key](bucket, data) for data in (body, orjson.dumps(fields)))
    assert getattr(found, "etag", None) is not None or found == old


def test_every_object_beside_the_log_is_among_them(bucket):
    known = tuple(READERS)
    assert [i.key for i in bucket.list("t/_firn/").objects if not i.key.startswith(known)] in (
        [],
        ["t/_firn/clock"],
    )
