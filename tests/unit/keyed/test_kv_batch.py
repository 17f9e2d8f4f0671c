"""Batches: all of their changes or none, the later of two for one key, and nothing where one of them can't be."""

from __future__ import annotations

import threading

import pytest

import firn
from firn.errors import InvalidInputError


@pytest.fixture
def table():
    return firn.connect("memory://").create_table(
        "t", kind="keyed", merge_operator="append", properties={"flush_ms": 3_600_000}
    )


def test_the_later_change_of_a_key_counts(table):
    batch = firn.WriteBatch()
    batch.put(b"a", b"1")
    batch.merge(b"a", b"2")
    batch.put(b"b", b"1")
    batch.delete(b"b")
    batch.delete(b"c")
    batch.put(b"c", b"3")
    with table.open(compaction=False) as kv:
        kv.write(batch)
        assert list(kv.scan()) == [(b"a", b"12"), (b"c", b"3")]
    assert list(table.reader().scan()) == [(b"a", b"12"), (b"c", b"3")]
    assert len(batch) == 6


def test_a_batch_of_which_one_change_cannot_be_changes_nothing(table):
    batch = firn.WriteBatch()
    batch.put(b"a", b"1")
    batch.put(b"b", "text")
    with table.open(compaction=False) as kv:
        for wrong in (batch, {b"a": b"1", b"": b"2"}, [(b"a", b"1"), (b"b", None)]):
            with pytest.raises(InvalidInputError):
                kv.write(wrong)
        assert list(kv.scan()) == []
        kv.write(firn.WriteBatch())
        assert table.bucket.list("t/l0/").objects == ()


def test_no_scan_and_no_multi_get_sees_a_part_of_a_batch(table):
    keys = [b"%02d" % n for n in range(20)]
    torn, stop = [], threading.Event()
    with table.open(compaction=False) as kv:
        kv.write(dict.fromkeys(keys, b"0"), durable=False)

        def look():
            while not stop.is_set():
                seen = [{value for _, value in kv.scan()}, set(kv.multi_get(keys))]
                torn.extend(values for values in seen if len(values) > 1)

        reader = threading.Thread(target=look)
        reader.start()
        for n in range(100):
            kv.write(dict.fromkeys(keys, b"%d" % n), durable=n % 20 == 0)
        stop.set()
        reader.join()
    assert torn == []
