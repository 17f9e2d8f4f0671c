"""How a compaction reads runs: each block once, some at a time, in its share, ahead of the merge if far away."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from firn.bucket import open_bucket
from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.maintain import compaction_reads
from firn.keyed.maintain.compaction_reads import RunReads
from firn.keyed.maintain.key_shares import KeyShare
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter

VALUES = Values()
ENTRIES = [Entry(b"key %06d" % n, n + 1, PUT, None, b"%0100d" % n) for n in range(6_000)]


class Far(SstReader):
    """An SST of a bucket that answers late."""

    is_remote = True


@pytest.fixture
def files():
    """Two files of one run, each larger than what is fetched whole."""
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    found = []
    for number in range(2):
        writer = SstWriter(VALUES.schema, block_bytes=8 << 10, compression=None)
        writer.add(VALUES.batch(ENTRIES[3_000 * number : 3_000 * (number + 1)]))
        data = writer.finish().data
        bucket.put(f"{number}.sst", data)
        found.append(Far(bucket, f"{number}.sst", len(data), BlockCache(0), values=VALUES))
        found[-1].index  # noqa: B018  so that only blocks are fetched from here on
    return bucket, found


def read(reads):
    return [entry for batch in reads for entry in VALUES.entries(batch)]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("low", "high"), [(None, None), (b"key 000101", b"key 004567"), (b"key 003000", None)]
)
def test_all_of_a_share_and_nothing_twice(files, far, low, high):
    bucket, readers = files
    before = bucket.counters.as_dict()
    with ThreadPoolExecutor(2) as pool:
        reads = RunReads(readers, KeyShare(low, high, 0), span_bytes=40_000, ahead=pool if far else None)
        expected = [e for e in ENTRIES if (low is None or e.key >= low) and (high is None or e.key < high)]
        assert read(reads) == expected
    assert reads.rows == len(expected)
    fetched = sum(reader.index.ends[-1] for reader in readers)
    spent = bucket.counters.since(before)
    assert spent["bytes_in"] <= fetched * len(expected) / len(ENTRIES) + 2 * 10_000
    assert len(expected) // 350 <= spent["get"] <= len(expected) // 200 + 2


def test_the_next_blocks_are_fetched_while_these_are_merged(files):
    bucket, readers = files
    with ThreadPoolExecutor(1) as pool:
        batches = iter(RunReads(readers, KeyShare(None, None, 0), span_bytes=40_000, ahead=pool))
        before = bucket.counters.as_dict()
        next(batches)
        pool.submit(lambda: None).result()  # one thread: what was asked for before is there
        assert bucket.counters.since(before)["get"] == 2
        batches.close()


def test_small_files_are_fetched_whole_and_only_so_many(monkeypatch):
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    sizes = {"a": 60, "b": 50, "c": 30, "d": 101}
    for key, size in sizes.items():
        bucket.put(key, b"x" * size)
    monkeypatch.setattr(compaction_reads, "SMALL_BYTES", 100)
    monkeypatch.setattr(compaction_reads, "FETCHED_BYTES", 100)
    files = [compaction_reads.RunFile(key, size) for key, size in sizes.items()]
    held = compaction_reads.fetched(bucket, files)
    assert sorted(held) == ["a", "c"]
    before = bucket.counters.as_dict()
    assert held["a"].get_range("a", 10, 5) == b"xxxxx"
    assert bucket.counters.since(before)["get"] == 0


def test_rows_that_were_given_away_are_not_held(files):
    _, readers = files
    batches = iter(RunReads(readers, KeyShare(None, None, 0), span_bytes=40_000, ahead=None))
    next(batches)  # a decoder and its file come with the first one
    batch = next(batches)
    held, size = pa.total_allocated_bytes(), batch.nbytes
    del batch
    assert held - pa.total_allocated_bytes() >= size // 2 > 10_000
    batches.close()
