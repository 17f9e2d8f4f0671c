"""The memtable against a plain list of changes, with snapshots by seq."""

from __future__ import annotations

import threading
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.seqs import NARROW
from firn.keyed.encoding.values import Values
from firn.keyed.merge.memtable import OVERHEAD, Memtable
from firn.keyed.merge.operators import operator_of
from firn.keyed.merge.versions import merge_key

BYTES = Values()
ROWS = Values({"n": "BIGINT", "name": "VARCHAR"})
OPERATORS = {name: operator_of(name, BYTES) for name in ("add", "append")}

keys = st.sampled_from([b"a", b"a\0", b"ab", b"b"])
changes = st.lists(
    st.tuples(
        keys,
        st.integers(0, 9).map(b"%d".__mod__),
        st.sampled_from([PUT, MERGE, MERGE, DELETE]),
        st.none() | st.just(5),
    ),
    max_size=30,
)


def filled(listed, operator, number=3):
    memtable = Memtable(number, BYTES, operator)
    for key, value, kind, expire_at in listed:
        stored, expiry = (None, None) if kind == DELETE else (value, expire_at)
        memtable.put(key, stored, kind, expiry)
    return memtable


def seen(versions, operator, now_ms):
    entry = merge_key(versions, operator, now_ms)
    return None if entry is None else entry.value


def model(listed, operator, upto, now_ms):
    """What a reader sees, key by key, of the first changes."""
    versions: dict[bytes, list[Entry]] = {}
    for at, (key, value, kind, expire_at) in enumerate(listed[:upto]):
        entry = Entry(key, at, kind, None, None) if kind == DELETE else Entry(key, at, kind, expire_at, value)
        versions.setdefault(key, []).insert(0, entry)
    found = {key: seen(entries, operator, now_ms) for key, entries in sorted(versions.items())}
    return {key: value for key, value in found.items() if value is not None}


def merged(entries, operator, now_ms):
    versions: dict[bytes, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(entry.key, []).append(entry)
    found = {key: seen(listed, operator, now_ms) for key, listed in versions.items()}
    return {key: value for key, value in found.items() if value is not None}


@settings(max_examples=100, deadline=None)
@given(changes, st.sampled_from(sorted(OPERATORS)), st.integers(0, 30), st.sampled_from([0, 5]))
def test_each_moment_stays_readable(listed, name, upto, now_ms):
    """Also where operands were merged early, and a snapshot is older than that."""
    operator = OPERATORS[name]
    memtable = filled(listed, operator)
    expected = model(listed, operator, upto, now_ms)
    last = NARROW.of(3, 0) + upto - 1
    found = {key: seen(memtable.get(key, last), operator, now_ms) for key, *_ in listed}
    assert {key: value for key, value in found.items() if value is not None} == expected
    forward = [entry for batch in memtable.scan(upto_seq=last) for entry in BYTES.entries(batch)]
    assert merged(forward, operator, now_ms) == expected
    assert forward == sorted(forward, key=lambda entry: (entry.key, -entry.seq))
    backward = [
        entry for batch in memtable.scan(upto_seq=last, reverse=True) for entry in BYTES.entries(batch)
    ]
    assert backward == forward[::-1]


@settings(max_examples=80, deadline=None)
@given(changes, st.sampled_from(sorted(OPERATORS)), st.none() | keys, st.none() | keys, st.booleans())
def test_ranges_before_and_after_freezing(listed, name, start, end, reverse):
    memtable = filled(listed, OPERATORS[name])
    wanted = [
        entry
        for key in sorted({key for key, *_ in listed})
        if (start is None or start <= key) and (end is None or key < end)
        for entry in memtable.get(key)
    ]
    expected = wanted[::-1] if reverse else wanted

    def scanned():
        return [e for batch in memtable.scan(start, end, reverse=reverse) for e in BYTES.entries(batch)]

    assert scanned() == expected
    run = memtable.freeze()
    run.validate(full=True)
    assert run.schema.equals(BYTES.run_schema)
    assert scanned() == expected
    everything = [entry for key in sorted({key for key, *_ in listed}) for entry in memtable.get(key)]
    assert BYTES.entries(run) == everything


def test_scans_between_puts_see_the_keys_that_came():
    memtable = Memtable(0, BYTES)
    for n in range(300):
        memtable.put(b"%03d" % (n * 7 % 300), b"x")
        assert sum(map(len, memtable.scan())) == n + 1


def test_a_scan_leaves_out_what_comes_while_it_runs():
    memtable = Memtable(0, BYTES)
    memtable.extend([(b"%05d" % n, b"old", PUT, None) for n in range(1000)])
    scan = memtable.scan()
    rows = BYTES.entries(next(scan))
    memtable.extend([(b"%05d" % n, b"new", PUT, None) for n in range(0, 3000, 2)])
    rows += [entry for batch in scan for entry in BYTES.entries(batch)]
    assert [entry.key for entry in rows] == [b"%05d" % n for n in range(1000)]
    assert {entry.value for entry in rows} == {b"old"}


@pytest.mark.parametrize("reverse", [False, True])
def test_long_scans_go_on_in_a_run_that_is_kept_until_the_next_put(reverse):
    memtable = Memtable(0, BYTES)
    count = 40_000
    memtable.extend([(b"%06d" % (n * 7919 % count), b"%d" % n, PUT, None) for n in range(count)])
    last = memtable.last_seq

    def scanned(upto=None, start=None):
        batches = list(memtable.scan(start, reverse=reverse, upto_seq=upto))
        keys = [key for batch in batches for key in batch.column(0).to_pylist()]
        return keys[::-1] if reverse else keys

    everything = [b"%06d" % n for n in range(count)]
    assert scanned() == everything
    assert scanned(start=b"000100") == everything[100:]
    memtable.put(b"000000x", b"new")
    assert scanned() == [everything[0], b"000000x", *everything[1:]]
    assert scanned(last) == everything


def test_seqs_order_flushes_and_positions_in_them():
    first, second = Memtable(4, BYTES), Memtable(5, BYTES)
    assert first.last_seq < NARROW.of(4, 0) == first.put(b"a", b"1") == first.last_seq
    assert first.extend([(b"b", b"", PUT, None), (b"a", b"", PUT, None)]) == NARROW.of(4, 2)
    assert first.last_seq < second.put(b"a", b"2")
    assert NARROW.number(first.last_seq) == 4
    assert len(first) == 3


def test_a_bulk_load_stands_above_what_is_compacted_and_below_the_next_flush():
    seq = NARROW.bulk(NARROW.of(4, 77), 4)
    assert NARROW.of(4, NARROW.half - 1) < seq < NARROW.of(5, 0)
    assert seq < NARROW.bulk(seq, 4) < NARROW.of(5, 0)
    assert NARROW.bulk(0, -1) < NARROW.of(0, 0)


def test_bytes_are_counted():
    memtable = Memtable(0, BYTES)
    memtable.put(b"abc", b"12345")
    memtable.put(b"abc", None, DELETE)
    assert memtable.bytes == 3 + 5 + 3 + 2 * OVERHEAD
    rows = Memtable(0, ROWS)
    rows.put(b"k", (1, "text"))
    assert rows.bytes == 1 + 16 + 4 + OVERHEAD


def test_what_is_counted_is_what_it_takes():
    """The memory of a writer is bounded by it."""
    tracemalloc.start()
    try:
        memtable, before = Memtable(0, BYTES), tracemalloc.get_traced_memory()[0]
        for n in range(0, 20_000, 100):
            memtable.extend((b"%016d" % at, bytes([at % 251]) * 100, PUT, None) for at in range(n, n + 100))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.75 < memtable.bytes / taken < 1.25


def test_the_run_that_is_flushed_is_not_kept():
    memtable = Memtable(0, BYTES)
    memtable.extend((b"%016d" % at, b"v" * 100, PUT, None) for at in range(1000))
    before = pa.total_allocated_bytes()
    assert len(memtable.freeze()) == 1000
    assert pa.total_allocated_bytes() == before


def test_sums_don_t_grow_with_their_operands():
    """A counter is one entry of a run, however often it is added to; older readers keep their sum."""
    memtable = Memtable(0, BYTES, OPERATORS["add"])
    seqs = [memtable.put(b"n", b"1", MERGE) for _ in range(1000)]
    assert memtable.get(b"n") == [Entry(b"n", seqs[-1], MERGE, None, b"1000")]
    assert memtable.get(b"n", seqs[41]) == [Entry(b"n", seqs[41], MERGE, None, b"42")]
    assert len(memtable.freeze()) == 1


def test_operands_on_a_put_are_a_put_and_on_a_delete_stand_alone():
    memtable = Memtable(0, BYTES, OPERATORS["add"])
    memtable.put(b"a", b"40")
    memtable.put(b"a", b"2", MERGE)
    memtable.put(b"b", None, DELETE)
    memtable.put(b"b", b"2", MERGE)
    assert [(e.kind, e.value) for e in memtable.get(b"a")] == [(PUT, b"42")]
    assert [(e.kind, e.value) for e in memtable.get(b"b")] == [(PUT, b"2")]


def test_operands_that_expire_with_nothing_else_stay_apart():
    memtable = Memtable(0, BYTES, OPERATORS["add"])
    memtable.put(b"a", b"40")
    memtable.put(b"a", b"2", MERGE, 5)
    memtable.put(b"a", b"3", MERGE, 5)
    assert [(e.kind, e.expire_at, e.value) for e in memtable.get(b"a")] == [
        (MERGE, 5, b"5"),
        (PUT, None, b"40"),
    ]
    assert BYTES.entries(memtable.freeze()) == memtable.get(b"a")
    assert [seen(memtable.get(b"a"), OPERATORS["add"], now_ms) for now_ms in (4, 5)] == [b"45", b"40"]


def test_typed_rows_keep_their_columns():
    memtable = Memtable(0, ROWS)
    memtable.put(b"b", (1, None))
    memtable.put(b"a", None, DELETE)
    assert ROWS.entries(memtable.freeze()) == [*memtable.get(b"a"), *memtable.get(b"b")]
    assert memtable.freeze().column("n").to_pylist() == [None, 1]


def test_an_empty_one_freezes_to_no_rows():
    run = Memtable(0, ROWS).freeze()
    assert (len(run), run.schema) == (0, ROWS.run_schema)


@pytest.mark.parametrize("reverse", [False, True])
def test_readers_need_no_lock(reverse):
    """One thread writes pairs, others read up to a seq: never one of a pair without the other."""
    memtable = Memtable(0, BYTES)
    done = threading.Event()
    odd = []

    def read():
        while not done.is_set():
            last = memtable.last_seq
            rows = [
                entry
                for batch in memtable.scan(upto_seq=last, reverse=reverse)
                for entry in BYTES.entries(batch)
            ]
            found = {entry.key: entry.value for entry in rows}
            if len(found) % 2 or any(found[key] != found[bytes((key[0] ^ 1,))] for key in found):
                odd.append(found)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(3000):
        pair = n % 128 * 2
        memtable.extend([(bytes((pair,)), b"%d" % n, PUT, None), (bytes((pair + 1,)), b"%d" % n, PUT, None)])
    done.set()
    for thread in threads:
        thread.join()
    assert odd == []
