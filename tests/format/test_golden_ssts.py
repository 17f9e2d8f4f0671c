"""SSTs that each version wrote, committed to the repository, read by this one."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from make_golden import GOLDEN
from make_golden_ssts import make, value_of

import firn
from firn.bucket import open_bucket
from firn.keyed.encoding.entries import DELETE, MERGE, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.tail import decode_tail, encode_tail, tail_bytes

VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/ssts"))


def expected(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / version / "ssts/expected.json").read_text("utf-8"))
    return found


SSTS = [(version, name) for version in VERSIONS for name in expected(version)]


def test_this_version_has_its_ssts():
    assert firn.__version__ in VERSIONS


@pytest.mark.parametrize(("version", "name"), SSTS)
def test_they_read_as_what_went_in(version, name):
    told = expected(version)[name]
    values = Values(told["columns"])
    entries = [
        Entry(bytes.fromhex(key), seq, kind, expire_at, value_of(stored, values))
        for key, seq, kind, expire_at, stored in told["entries"]
    ]
    data = (GOLDEN / version / f"ssts/{name}.sst").read_bytes()
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put("x.sst", data)
    reader = SstReader(bucket, "x.sst", len(data), BlockCache(1 << 20), values=values)
    for reverse in (False, True):
        found = [entry for batch in reader.scan(reverse=reverse) for entry in values.entries(batch)]
        assert found == (entries[::-1] if reverse else entries)
    keys = {entry.key: [e for e in entries if e.key == entry.key] for entry in entries}
    assert {key: reader.get(key) for key in keys} == keys
    index = reader.index
    assert index.blocks > 3
    assert any(index.continued)
    assert (index.rows, index.max_seq) == (len(entries), max(e.seq for e in entries))
    assert (index.min_key, index.max_key) == (entries[0].key, entries[-1].key)
    assert (index.tombstones, index.merges) == tuple(
        sum(e.kind == kind for e in entries) for kind in (DELETE, MERGE)
    )
    assert index.min_expire == min(e.expire_at for e in entries if e.expire_at is not None)


@pytest.mark.parametrize(("version", "name"), SSTS)
def test_others_read_them_as_parquet(version, name):
    table = pq.read_table(GOLDEN / version / f"ssts/{name}.sst")
    assert [row[:4] for row in expected(version)[name]["entries"]] == [
        [row["key"].hex(), row["seq"], row["kind"], row["expire_at"]] for row in table.to_pylist()
    ]


@pytest.mark.parametrize(("version", "name"), SSTS)
def test_their_tails_are_written_as_they_were(version, name):
    data = (GOLDEN / version / f"ssts/{name}.sst").read_bytes()
    end = data[len(data) - tail_bytes(data, len(data)) :]
    tail = decode_tail(end, len(data))
    assert encode_tail(tail.index, tail.bloom, tail.footer) + tail.footer == end


def test_what_makes_them_still_runs(tmp_path: Path):
    make(tmp_path / "ssts")
    told = json.loads((tmp_path / "ssts/expected.json").read_text("utf-8"))
    assert told == expected(firn.__version__)
