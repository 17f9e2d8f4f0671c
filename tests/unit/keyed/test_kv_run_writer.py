"""A run becomes SSTs of one size; no key is in two; numbers that are taken are left alone."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from firn.bucket import Bucket, open_bucket
from firn.errors import OutcomeUnknownError, StoreUnavailableError
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.seqs import NARROW
from firn.keyed.encoding.values import Values
from firn.keyed.maintain.run_writer import HELD_BYTES, RunWriter, numbers_needed
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader

VALUES = Values()
DEFINITION = KeyedDefinition("t", properties={"sst_size": 20_000, "block_size": 1_000, "compression": "none"})
SETTINGS = DEFINITION.settings


def run_of(keys: list[bytes], *, seq: int = 1 << 32, size: int = 50) -> pa.RecordBatch:
    rng = np.random.default_rng(7)
    count = len(keys)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.binary()),
            pa.array(np.arange(seq + count, seq, -1), pa.int64()),
            pa.array([0] * count, pa.int8()),
            pa.nulls(count, pa.int64()),
            pa.array([rng.bytes(size) for _ in keys], pa.binary()),
        ],
        schema=VALUES.run_schema,
    )


@pytest.fixture
def bucket() -> Bucket:
    return open_bucket(f"memory://{uuid.uuid4().hex}")


def writer(
    bucket: Bucket, numbers: range = range(1000), definition: KeyedDefinition = DEFINITION
) -> RunWriter:
    return RunWriter(bucket, definition, "t", epoch=3, numbers=numbers, level=2, run=5)


def keys_in(bucket: Bucket, ssts: list[Any]) -> list[list[bytes]]:
    return [
        [
            key
            for batch in SstReader(bucket, f"t/{sst.file}", sst.bytes, BlockCache(0), values=VALUES).scan()
            for key in batch.column(0).to_pylist()
        ]
        for sst in ssts
    ]


@pytest.mark.parametrize("rows_at_once", [1, 7, 100, 5_000])
def test_ssts_have_the_size_asked_for(bucket: Bucket, rows_at_once: int) -> None:
    keys = [b"key-%06d" % n for n in range(3_000)]
    whole = run_of(keys)
    with writer(bucket) as out:
        for start in range(0, len(keys), rows_at_once):
            out.add(whole.slice(start, rows_at_once))
        ssts = out.finish()
    found = keys_in(bucket, ssts)
    assert [key for part in found for key in part] == keys
    assert len(ssts) > 5
    block = 2 * SETTINGS.block_size
    for sst, part in zip(ssts, found, strict=True):
        index = 40 * len(part) + 2_000
        assert sst.bytes <= SETTINGS.sst_size + block + index
        assert (sst.level, sst.run, sst.rows) == (2, 5, len(part))
        assert (sst.min_key, sst.max_key) == (part[0], part[-1])
    for sst in ssts[:-1]:
        assert sst.bytes >= SETTINGS.sst_size
    assert bucket.counters.put == len(ssts)


def test_no_key_is_in_two_ssts(bucket: Bucket) -> None:
    """Not even one with more versions than an SST should hold, in however many batches they come."""
    keys = [b"a"] * 300 + [b"k"] * 1_500 + [b"z"]
    whole = run_of(keys)
    with writer(bucket) as out:
        for start in range(0, len(keys), 64):
            out.add(whole.slice(start, 64))
        ssts = out.finish()
    found = keys_in(bucket, ssts)
    assert [key for part in found for key in part] == keys
    for before, after in itertools.pairwise(ssts):
        assert before.max_key < after.min_key
    assert len(ssts) > 1


def test_a_number_that_is_taken_is_left_alone(bucket: Bucket) -> None:
    taken = f"t/ssts/{3:018d}.{0:018d}.sst"
    bucket.put(taken, b"another's")
    with writer(bucket) as out:
        out.add(run_of([b"a"]))
        ssts = out.finish()
    assert bucket.get(taken).data == b"another's"
    assert [sst.number for sst in ssts] == [1]


def test_the_same_task_again_writes_nothing_new(bucket: Bucket) -> None:
    def once() -> list[Any]:
        with writer(bucket) as out:
            out.add(run_of([b"key-%06d" % n for n in range(1_000)]))
            return out.finish()

    first = once()
    assert once() == first
    assert len(bucket.list("t/ssts/").objects) == len(first)


def test_numbers_that_are_used_up_are_an_error(bucket: Bucket) -> None:
    for number in range(2):
        bucket.put(f"t/ssts/{3:018d}.{number:018d}.sst", b"another's")
    with pytest.raises(OutcomeUnknownError, match="numbers of a task"), writer(bucket, range(2)) as out:
        out.add(run_of([b"a"]))
        out.finish()


def test_a_task_has_numbers_for_more_than_its_input() -> None:
    assert numbers_needed(0, SETTINGS) > 1
    assert numbers_needed(10 * SETTINGS.sst_size, SETTINGS) > 40


def test_it_knows_what_was_loaded(bucket: Bucket) -> None:
    loaded = NARROW.of(4, NARROW.half + 1)
    with writer(bucket) as out:
        out.add(run_of([b"a"], seq=NARROW.of(9, 0)))
        out.add(run_of([b"b"], seq=loaded))
        (sst,) = out.finish()
    assert sst.max_loaded == loaded + 1
    with writer(bucket, range(50, 60)) as out:
        out.add(run_of([b"a"], seq=NARROW.of(9, 0)))
        (sst,) = out.finish()
    assert sst.max_loaded == -1


class Slow:
    """A bucket whose first conditional put isn't answered before the second has come."""

    def __init__(self, bucket: Bucket) -> None:
        self.inner, self.first, self.second = bucket, threading.Lock(), threading.Event()

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> str:
        if self.first.acquire(blocking=False):
            assert self.second.wait(60), "one PUT waits for the other's answer"
        else:
            self.second.set()
        return self.inner.put_if_absent(key, data, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_several_are_in_flight(tmp_path: Path) -> None:
    bucket: Any = Slow(open_bucket(str(tmp_path)))
    keys = [b"key-%06d" % n for n in range(3_000)]
    with writer(bucket) as out:
        out.add(run_of(keys))
        ssts = out.finish()
    assert [key for part in keys_in(bucket, ssts) for key in part] == keys


class Refusing:
    """A bucket that is down for writes."""

    def __init__(self, bucket: Bucket) -> None:
        self.inner = bucket

    def put_if_absent(self, key: str, data: bytes, **more: Any) -> str:
        raise StoreUnavailableError(f"{key} can't be written")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture(params=["memory", "directory"])
def down(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    url = f"memory://{uuid.uuid4().hex}" if request.param == "memory" else str(tmp_path)
    return Refusing(open_bucket(url))


def test_an_error_of_a_put_arrives(down: Any) -> None:
    with pytest.raises(StoreUnavailableError), writer(down) as out:
        out.add(run_of([b"key-%06d" % n for n in range(3_000)]))
        out.finish()


def test_what_waits_is_bounded() -> None:
    assert HELD_BYTES <= 64 << 20


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_that_ends_before_it_begins_is_empty(bucket: Bucket, reverse: bool) -> None:
    with writer(bucket) as out:
        out.add(run_of([b"a", b"c", b"e"]))
        (sst,) = out.finish()
    reader = SstReader(bucket, f"t/{sst.file}", sst.bytes, BlockCache(0), values=VALUES)
    assert list(reader.scan(b"d", b"b", reverse=reverse)) == []
    assert list(reader.scan(b"c", b"c", reverse=reverse)) == []


def test_what_arrow_used_is_given_back_at_the_end(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = 0

    class Pool:
        def release_unused(self) -> None:
            nonlocal given_back
            given_back += 1

    with writer(bucket) as out:
        out.add(run_of([b"DTW"]))
        out.finish()
        monkeypatch.setattr(pa, "default_memory_pool", Pool)
        assert not given_back
    assert given_back == 1
