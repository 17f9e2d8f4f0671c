"""One flipped bit in the first line of a log hid files, and merge and sweep then deleted them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import firn
from firn.errors import CorruptObjectError, FirnError
from firn.journal.leaderless.format.codec import Log, decode, decode_many, encode
from firn.journal.model import DataFile

OLD = Path(__file__).parents[1] / "format" / "golden" / "0.1.0" / "db"


def flips(data: bytes, start: int = 0, stop: int | None = None):
    for at in range(start, len(data) if stop is None else stop):
        for bit in range(8):
            yield at, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


PLACE = "t/_data/p=1/part-a-0.parquet"
LOGS = [
    Log(
        "1767258000753_h-1.jsonl",
        1767258000753,
        {"n": "BIGINT"},
        [DataFile(PLACE, 9, 7, {"rows": 2})],
        nonce="5a",
    ),
    Log(
        "1767258000754_m_h-2.jsonl",
        1767258000754,
        {"n": "BIGINT"},
        [DataFile(PLACE, 9, 7), DataFile("t/_data/p=1/part-m-1.parquet", 8, 8)],
        dead={PLACE: 1767258000754},
        tombstones={"t/_log/1767258000753_h-1.jsonl": 1767258000754},
        notes={"op": "merge", "complete": True},
        nonce="5b",
    ),
    Log("1767258000755_m_h-3.jsonl", 1767258000755, notes={"op": "reserve"}, nonce="5c"),
]


@pytest.mark.parametrize("log", LOGS, ids=["append", "merge", "reservation"])
def test_a_flipped_bit_in_any_byte_of_a_log_is_noticed(log):
    body = encode(log)
    assert encode(decode(log.name, body, where="")) == body
    for _, damaged in flips(body):
        with pytest.raises(CorruptObjectError, match=log.name):
            decode(log.name, damaged, where=log.name)


@pytest.mark.parametrize("log", LOGS, ids=["append", "merge", "reservation"])
def test_a_log_that_is_cut_anywhere_is_named(log):
    body = encode(log)
    for end in range(len(body)):
        with pytest.raises(CorruptObjectError, match=log.name):
            decode_many([(log.name, body[:end], log.name)])


def test_logs_of_the_first_version_are_read_and_their_counts_checked():
    """Their first line has no checksum: what is told twice is compared. A nonce says nothing."""
    logs = sorted(OLD.rglob("_log/*.jsonl"))
    assert logs
    for path in logs:
        body, name = path.read_bytes(), path.name
        log = decode(name, body, where=name)
        if b'"head"' in body.partition(b"\n")[0] or not log.nonce:
            continue
        for at, damaged in flips(body, stop=body.index(b"\n") + 1):
            try:
                found = decode(name, damaged, where=name)
            except FirnError:
                continue
            assert replace(found, nonce="") == replace(log, nonce=""), (path, at, damaged)


def test_reads_merges_and_sweeps_stop_at_a_damaged_log():
    url = "memory://damaged-log"
    table = firn.connect(url).create_table("t")
    table.append([{"n": 1}])
    (info,) = table.bucket.list("t/_log/").objects
    body = table.bucket.get(info.key).data
    table.bucket.put(info.key, body.replace(b'"f":3', b'"f":4', 1))
    fresh = firn.connect(url).table("t")
    for verb in (fresh.snapshot, fresh.merge, lambda: fresh.sweep(older_than="0s")):
        with pytest.raises(CorruptObjectError, match=info.key):
            verb()
