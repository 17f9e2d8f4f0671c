"""What SSTs' readers keep in memory: which blocks, how long, in how many bytes, and who fetches what several want."""

from __future__ import annotations

import gc
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.bucket import open_bucket
from firn.concurrency.single_flight import Flight
from firn.errors import InvalidInputError, StoreUnavailableError
from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.block import Block, Encoded
from firn.keyed.sst.cache import OFFERED_SHARE, BlockCache
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter
from firn.testing.client import Crashed, Solo, Timeline
from firn.testing.faults import Fault
from firn.testing.gated import GatedBucket
from firn.testing.wrapped import BucketBacking

VALUES = Values()
KEY = "t/sst/x.sst"
ENTRIES = [Entry(b"key %06d" % (2 * n), n + 1, PUT, None, b"%0*d" % (100, n)) for n in range(6000)]


def written(entries, block_bytes=1024):
    writer = SstWriter(VALUES.schema, block_bytes=block_bytes, compression=None)
    writer.add(VALUES.batch(entries))
    return writer.finish().data


LARGE = written(ENTRIES)
SMALL = written(ENTRIES[:100])


def stored(data=LARGE, cache=1 << 30, bucket=None):
    bucket = bucket or open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, data)
    cache = cache if isinstance(cache, BlockCache) else BlockCache(cache)
    return bucket, SstReader(bucket, KEY, len(data), cache, values=VALUES), cache


def gets(bucket, what):
    before = bucket.counters.as_dict()["get"]
    what()
    return bucket.counters.as_dict()["get"] - before


def held(reader):
    return {i: b for i in range(reader.index.blocks) if (b := reader.cached(i)) is not None}


# -- what is kept


def test_the_cache_is_bounded_in_bytes():
    bucket, reader, cache = stored(cache=100_000)
    for entry in ENTRIES[::37]:
        assert reader.get(entry.key) == [entry]
        stats = cache.stats()
        assert stats.bytes <= stats.max_bytes == 100_000
    assert stats.evicted > 0
    assert stats.blocks > 1
    assert stats.bytes == sum(block.nbytes for block in held(reader).values())
    # The one used last stays, the one used first went.
    assert gets(bucket, lambda: reader.get(entry.key)) == 0
    assert gets(bucket, lambda: reader.get(ENTRIES[0].key)) == 1
    again = SstReader(bucket, KEY, len(LARGE), cache, values=VALUES)
    assert again.index.rows == 6000
    assert gets(bucket, lambda: again.get(ENTRIES[0].key)) == 0


def test_a_cache_knows_the_ssts_that_are_read_and_those_with_blocks_in_it():
    """A writer that flushes for days would else remember every flush; and no number is ever given twice."""
    cache = BlockCache(100_000)
    bucket = open_bucket("memory://")
    bases = set()
    for n in range(50):
        bucket.put(f"{n}", SMALL)
        reader = SstReader(bucket, f"{n}", len(SMALL), cache, values=VALUES)
        assert reader.get(ENTRIES[0].key) == reader.get(ENTRIES[0].key) != []  # the second time decoded
        bases.add(cache.file(bucket, f"{n}").base)
        del reader
    gc.collect()
    assert len(bases) == 50
    known = {key for _, key in cache._files}
    assert "49" in known and "0" not in known
    assert (
        len(known)
        == len(cache._filled)
        == len({name >> 32 for name in [*cache._blocks, *cache._offers]})
        < 40
    )
    with_reader = cache.file(bucket, "0")
    assert cache.file(bucket, "0") is with_reader and with_reader.base not in bases


def test_a_cache_of_nothing_keeps_nothing():
    bucket, reader, _ = stored(cache=0)
    assert reader.index.rows == 6000
    assert [gets(bucket, lambda: reader.get(ENTRIES[5].key)) for _ in range(2)] == [1, 1]


def test_a_negative_cache_is_refused():
    with pytest.raises(InvalidInputError, match="-1 bytes"):
        BlockCache(-1)


# -- what comes along


def test_what_was_written_a_moment_ago_is_read_without_a_request():
    bucket, reader, cache = stored()
    reader.seed(LARGE)
    assert all(isinstance(block, Encoded) for block in held(reader).values()), "nobody has read them"
    assert gets(bucket, lambda: [reader.get(entry.key) for entry in ENTRIES[::50]]) == 0
    assert len(held(reader)) == reader.index.blocks
    assert isinstance(reader.cached(0), Encoded), "read once"
    assert gets(bucket, lambda: [reader.get(entry.key) for entry in ENTRIES[::50]]) == 0
    assert isinstance(reader.cached(0), Block), "decoded once"
    stats = cache.stats()
    assert stats.bytes == sum(block.nbytes for block in held(reader).values())
    assert (stats.misses, stats.hits) == (0, 2 * len(ENTRIES[::50]))


def test_what_nobody_reads_gets_its_share_of_the_cache_and_makes_room_for_what_is_read():
    room = 400_000
    bucket, reader, cache = stored(cache=room)
    wanted = [entry.key for entry in ENTRIES[:1800]]
    for key in wanted:
        reader.get(key)
    before = held(reader)
    assert room - 10_000 < cache.stats().bytes <= room
    bucket.put("other", LARGE)
    other = SstReader(bucket, "other", len(LARGE), cache, values=VALUES)
    other.seed(LARGE)
    stats = cache.stats()
    offered = sum(block.nbytes for block in held(other).values())
    assert 0.9 * room < OFFERED_SHARE * offered <= room
    assert stats.bytes <= room
    assert 0 < len(held(reader)) < len(before)
    # What is read then takes the place of what nobody has read.
    assert gets(bucket, lambda: [reader.get(key) for key in wanted]) > 0
    assert not held(other)
    assert cache.stats().bytes <= room


def test_of_a_small_file_that_came_whole_only_what_is_read_is_decoded():
    bucket, reader, _ = stored(SMALL)
    assert gets(bucket, lambda: reader.get(ENTRIES[0].key)) == 1
    assert {type(reader.cached(i)) for i in range(reader.index.blocks)} == {Encoded}
    assert gets(bucket, lambda: reader.get(ENTRIES[0].key)) == 0
    kinds = [type(reader.cached(i)) for i in range(reader.index.blocks)]
    assert kinds == [Block, *[Encoded] * (len(kinds) - 1)]
    assert gets(bucket, lambda: reader.get(ENTRIES[99].key)) == 0
    assert [entry.key for batch in reader.scan() for entry in VALUES.entries(batch)] == [
        entry.key for entry in ENTRIES[:100]
    ]


# -- several at once


class Gate(Solo):
    """A client whose ranged GETs wait until the gate opens, and then fail if they shall."""

    def __init__(self):
        super().__init__("gated", Timeline(0))
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()
        self.error = None
        self.open.set()

    def call(self, verb, key):
        call = super().call(verb, key)
        if verb == "get_range" and not self.open.is_set():
            self.arrived.release()
            assert self.open.wait(30)
            if self.error == "crash":
                self.error = None
                raise Crashed("the thread was interrupted")
            if self.error is not None:
                call.fault = Fault(self.error)
        return call


@pytest.fixture
def waiting(monkeypatch):
    """Counts those who wait for another's fetch."""
    count = threading.Semaphore(0)
    wait = Flight.wait

    def counted(self):
        count.release()
        return wait(self)

    monkeypatch.setattr(Flight, "wait", counted)
    return count


def gated(cache=1 << 30):
    gate = Gate()
    bucket = GatedBucket(BucketBacking(open_bucket(f"memory://{uuid.uuid4().hex}"), gate.time), gate)
    bucket, reader, cache = stored(cache=cache, bucket=bucket)
    assert reader.index.rows == 6000
    gate.open.clear()
    return gate, bucket, reader


def together(gate, waiting, *reads, fetches=1):
    """Results or errors of reads that are under way at the same time, of which so many fetch."""
    with ThreadPoolExecutor(len(reads)) as pool:
        futures = [pool.submit(reads[0])]
        assert gate.arrived.acquire(timeout=30)
        futures += [pool.submit(read) for read in reads[1:]]
        for _ in range(fetches - 1):
            assert gate.arrived.acquire(timeout=30)
        for _ in range(len(reads) - fetches):
            assert waiting.acquire(timeout=30)
        gate.open.set()
        return [future.exception(30) or future.result() for future in futures]


@pytest.mark.parametrize("cache", [1 << 30, 0])
def test_a_block_that_several_want_is_fetched_once(waiting, cache):
    gate, bucket, reader = gated(cache)
    reads = [lambda: reader.get(ENTRIES[5].key), lambda: reader.get(ENTRIES[4].key)]
    reads.append(lambda: reader.get_many([ENTRIES[5].key])[ENTRIES[5].key])
    results = []
    assert gets(bucket, lambda: results.extend(together(gate, waiting, *reads))) == 1
    assert results == [[ENTRIES[5]], [ENTRIES[4]], [ENTRIES[5]]]
    assert not reader._file._flights._flights


def test_an_error_reaches_all_who_wait_and_the_next_one_tries_again(waiting):
    gate, _, reader = gated()
    gate.error = "failed"
    errors = together(gate, waiting, *[lambda: reader.get(ENTRIES[5].key)] * 3)
    assert [type(error) for error in errors] == [StoreUnavailableError] * 3
    assert len({id(error) for error in errors}) == 3, "each has one of its own"
    assert len({str(error) for error in errors}) == 1
    assert reader.get(ENTRIES[5].key) == [ENTRIES[5]]


def test_who_waits_for_one_that_is_interrupted_fetches_itself(waiting):
    gate, _, reader = gated()
    gate.error = "crash"
    crashed, *others = together(gate, waiting, *[lambda: reader.get(ENTRIES[5].key)] * 3)
    assert isinstance(crashed, Crashed)
    assert others == [[ENTRIES[5]]] * 2


def test_two_that_want_the_same_blocks_in_other_orders_both_get_them(waiting):
    """Whoever waited for the other before fetching its own would wait for ever."""
    gate, bucket, reader = gated()
    before = bucket.counters.as_dict()["get"]
    first, both = [ENTRIES[5].key], [ENTRIES[5].key, ENTRIES[5000].key]
    with ThreadPoolExecutor(3) as pool:
        one = pool.submit(reader.get_many, first)
        assert gate.arrived.acquire(timeout=30)
        two = pool.submit(reader.get_many, both)
        assert gate.arrived.acquire(timeout=30), "it fetches its own before it waits"
        three = pool.submit(reader.get, ENTRIES[5000].key)
        assert waiting.acquire(timeout=30)
        gate.open.set()
        assert one.result(30) == {ENTRIES[5].key: [ENTRIES[5]]}
        assert two.result(30) == {entry.key: [entry] for entry in (ENTRIES[5], ENTRIES[5000])}
        assert three.result(30) == [ENTRIES[5000]]
    assert bucket.counters.as_dict()["get"] - before == 2, "one a block"
