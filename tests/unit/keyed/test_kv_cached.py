"""What reads of an open table leave in memory, counted in the requests of the next ones."""

from __future__ import annotations

import random

import pytest

import firn
from firn.keyed.read import sources
from firn.keyed.sst.reader import SstReaders

SLOW = {"flush_ms": 3_600_000, "compression": "none"}
ROWS = 20_000
EVERYTHING = [(b"%08d" % n, random.Random(n).randbytes(100)) for n in range(ROWS)]


def table_of(**properties):
    return firn.connect("memory://").create_table("t", kind="keyed", properties={**SLOW, **properties})


def gets(table, what):
    """GETs that it cost, and what came of it."""
    before = table.bucket.counters.as_dict()
    result = what()
    return table.bucket.counters.since(before)["get"], result


def loaded(table, *, flushes=1):
    """A writer whose entries are in so many L0 objects, each with keys of the whole range."""
    kv = table.open(compaction=False)
    for part in range(flushes):
        kv.write(EVERYTHING[part::flushes], durable=False)
        kv.flush()
    return kv


@pytest.mark.parametrize("flushes", [1, 7])
def test_what_was_just_flushed_is_read_without_a_request(flushes):
    table = table_of()
    with loaded(table, flushes=flushes) as kv:
        for key, value in EVERYTHING[::97]:
            assert gets(table, lambda k=key: kv.get(k, durable=True)) == (0, value)
        assert gets(table, lambda: kv.get(EVERYTHING[0][0] + b"x")) == (0, None)
        some = EVERYTHING[::50]
        assert gets(table, lambda: kv.multi_get([key for key, _ in some])) == (
            0,
            [value for _, value in some],
        )
        assert gets(table, lambda: list(kv.scan())) == (0, EVERYTHING)


def test_a_flush_takes_no_more_of_the_cache_than_its_share():
    table = table_of(block_cache="1MB")
    with loaded(table) as kv:
        assert 150_000 < table.cache.stats().bytes <= (1 << 20) // 4
        assert kv.get(EVERYTHING[0][0]) == EVERYTHING[0][1]


def opened_anew(table):
    """Compacted into one run, and nothing in the cache."""
    loaded(table).close()
    table.compact(full=True)
    return table.beside(table.definition, table.prefix).reader(follow=None)


def cold(table):
    reader = opened_anew(table)
    cache = reader.table.cache
    for name in [*cache._blocks, *cache._offers]:
        cache._remove(name)
    assert cache.stats().bytes == 0
    assert reader.get(EVERYTHING[0][0] + b"x") is None  # so that the index is there
    return reader


def test_a_short_scan_is_read_once():
    table = table_of()
    reader = cold(table)
    bounds = EVERYTHING[3000][0], EVERYTHING[4000][0]
    listed = EVERYTHING[3000:4000]
    assert gets(table, lambda: list(reader.scan(*bounds))) == (1, listed)
    assert gets(table, lambda: list(reader.scan(*bounds))) == (0, listed)
    assert gets(table, lambda: list(reader.scan(*bounds, reverse=True))) == (0, listed[::-1])
    assert gets(table, lambda: [reader.get(key) for key, _ in listed])[0] == 0
    # One that overlaps fetches what is new.
    held = reader.table.cache.stats().blocks
    assert gets(table, lambda: list(reader.scan(EVERYTHING[3500][0], EVERYTHING[5000][0])))[0] == 1
    assert held < reader.table.cache.stats().blocks <= 2 * held
    listed = EVERYTHING[3000:5000]
    assert gets(table, lambda: list(reader.scan(bounds[0], EVERYTHING[5000][0]))) == (0, listed)


@pytest.mark.parametrize("bounds", [(None, None), (b"", None), (EVERYTHING[100][0], EVERYTHING[-100][0])])
def test_a_long_scan_pushes_nothing_out(bounds):
    table = table_of(block_cache="1MB")
    reader = cold(table)
    wanted = [key for key, _ in EVERYTHING[:2000]]
    for key in wanted:
        reader.get(key)
    before = reader.table.cache.stats()
    assert before.blocks > 1
    assert gets(table, lambda: list(reader.scan(*bounds)))[0] > 0
    assert gets(table, lambda: [reader.get(key) for key in wanted])[0] == 0
    assert reader.table.cache.stats().blocks == before.blocks


def test_a_scan_of_what_is_in_memory_starts_no_thread(monkeypatch):
    table = table_of()
    with loaded(table, flushes=7) as kv:
        bounds = EVERYTHING[3000][0], EVERYTHING[4000][0]
        assert list(kv.scan(*bounds)) == EVERYTHING[3000:4000]
        monkeypatch.setattr(sources, "in_flight", lambda fn, items: pytest.fail(f"{len(items)} at once"))
        monkeypatch.setattr(SstReaders, "load", lambda *_: True)
        assert list(kv.scan(*bounds)) == EVERYTHING[3000:4000]
        assert list(kv.scan(*bounds, reverse=True)) == EVERYTHING[3000:4000][::-1]
