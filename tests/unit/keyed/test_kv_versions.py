"""PieceMerge runs, against a model that applies each key's versions one by one, oldest first."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import InvalidInputError
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.merge.operators import merge_operator, operator_of
from firn.keyed.merge.order import key_order
from firn.keyed.merge.versions import compact_key, merge_key, merge_runs

BYTES = Values()
ROWS = Values({"n": "BIGINT", "name": "VARCHAR"})
APPEND = operator_of("append", BYTES)


@merge_operator
def picky(value, operand):
    if operand == b"poison":
        raise ValueError("poison")
    return (value or b"") + operand


PICKY = operator_of(
    "test_kv_versions:picky" if __name__ == "test_kv_versions" else f"{__name__}:picky", BYTES
)


def read(versions, now_ms):
    """What is left of versions, newest first, for operators that append."""
    value = None
    for entry in reversed(versions):
        live = entry.expire_at is None or entry.expire_at > now_ms
        if entry.kind == PUT:
            value = entry.value if live else None
        elif entry.kind == DELETE:
            value = None
        elif live:
            value = (value or b"") + entry.value
    return value


keys = st.sampled_from(
    [b"a", b"a\0", b"ab", b"abcdefghi", b"abcdefghij", b"b", b"\xff", b"\xff\xff"]
) | st.binary(min_size=1, max_size=3)
changes = st.tuples(
    keys,
    st.sampled_from([PUT, PUT, DELETE, MERGE]),
    st.none() | st.integers(1, 5),
    st.binary(max_size=2),
)
runs_of_changes = st.lists(st.lists(changes, max_size=12), max_size=5)


def to_runs(lists):
    """Runs, newest first, as lists of entries; the first change of all is the oldest."""
    runs = []
    seq = 0
    for changed in lists:
        run = []
        for key, kind, expire_at, value in changed:
            seq += 1
            run.append(
                Entry(
                    key, seq, kind, None if kind == DELETE else expire_at, None if kind == DELETE else value
                )
            )
        runs.append(sorted(run, key=lambda entry: (entry.key, -entry.seq)))
    return runs[::-1]


def batches(run, sizes, *, reverse=False, values=BYTES):
    """A run as batches of these sizes, again and again."""
    at = turn = 0
    run = run[::-1] if reverse else run
    while at < len(run):
        size = sizes[turn % len(sizes)]
        yield values.batch(run[at : at + size])
        at, turn = at + size, turn + 1


def merged(runs, sizes, *, reverse=False, values=BYTES, **options):
    found = []
    for batch in merge_runs(
        [batches(run, sizes, reverse=reverse, values=values) for run in runs],
        values=values,
        reverse=reverse,
        **options,
    ):
        assert len(batch)
        assert batch.schema.equals(values.run_schema)
        batch.validate(full=True)
        found += values.entries(batch)
    return found


def by_key(runs):
    found: dict[bytes, list[Entry]] = {}
    for run in runs:
        for entry in run:
            found.setdefault(entry.key, []).append(entry)
    return dict(sorted(found.items()))


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@settings(max_examples=80, deadline=None)
@given(
    runs_of_changes,
    sizes,
    st.booleans(),
    st.integers(0, 6),
    st.integers(1, 3),
    st.none() | st.integers(0, 60),
)
def test_a_reader_sees_what_the_changes_make_one_by_one(lists, sizes, reverse, now_ms, batch_rows, upto):
    runs = to_runs(lists)
    expected = []
    for key, versions in by_key(runs).items():
        value = read([entry for entry in versions if upto is None or entry.seq <= upto], now_ms)
        if value is not None:
            expected.append((key, value))
    seen = merged(
        runs, sizes, reverse=reverse, operator=APPEND, now_ms=now_ms, batch_rows=batch_rows, upto_seq=upto
    )
    assert [(entry.key, entry.value) for entry in seen] == (expected[::-1] if reverse else expected)
    assert all(entry.kind == PUT for entry in seen)


@settings(max_examples=80, deadline=None)
@given(runs_of_changes, sizes, st.integers(0, 6), st.data())
def test_compacted_runs_read_the_same_at_any_later_time(lists, sizes, now_ms, data):
    """Any neighbours become one run, with what is older below, and again."""
    runs = to_runs(lists)
    if not runs:
        return
    low = data.draw(st.integers(0, len(runs) - 1))
    high = data.draw(st.integers(low + 1, len(runs)))
    bottom = high == len(runs)
    one = merged(runs[low:high], sizes, operator=APPEND, now_ms=now_ms, reading=False, drop_tombstones=bottom)
    assert one == sorted(one, key=lambda entry: (entry.key, -entry.seq))
    after = [*runs[:low], one, *runs[high:]]
    for later in range(now_ms, 7):
        expected = merged(runs, [4], operator=APPEND, now_ms=later)
        seen = merged(after, [4], operator=APPEND, now_ms=later)
        assert [entry[::4] for entry in seen] == [entry[::4] for entry in expected]
    if bottom:
        assert all(entry.kind != DELETE for entry in one)
    for versions in by_key([one]).values():
        assert all(entry.kind == MERGE for entry in versions[:-1])
        assert not any(entry.expired(now_ms) for entry in versions)
        expiries = [entry.expire_at for entry in versions if entry.kind != DELETE]
        assert all(a != b for a, b in pairwise(expiries))


@settings(max_examples=60, deadline=None)
@given(runs_of_changes, st.integers(0, 6))
def test_one_key_and_whole_runs_agree(lists, now_ms):
    runs = to_runs(lists)
    one_by_one = [merge_key(versions, APPEND, now_ms) for versions in by_key(runs).values()]
    assert merged(runs, [3], operator=APPEND, now_ms=now_ms) == [entry for entry in one_by_one if entry]


SUMS = Values(
    {"n": "BIGINT", "t": "UTINYINT", "s": "DOUBLE", "most": "BIGINT", "least": "FLOAT", "name": "VARCHAR"}
)
SUMMING = operator_of({"n": "add", "t": "add", "s": "add", "most": "max", "least": "min"}, SUMS)
ADDING = operator_of("add", BYTES)
sums = st.tuples(
    st.none() | st.integers(-5, 5) | st.just(2**63 - 1),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(-5, 5).map(float),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.sampled_from([0.5, -1.0, math.inf, math.nan]),
    st.none() | st.text("ab", max_size=1),
)
numbers = st.integers(-(10**3), 10**3) | st.sampled_from([2**62, -(2**63), 10**30])


def changes_of(cells):
    one = st.tuples(
        st.sampled_from([b"a", b"b", b"c"]),
        st.sampled_from([PUT, DELETE, MERGE, MERGE, MERGE]),
        st.sampled_from([None, None, None, 3]),
        cells,
    )
    return st.lists(st.lists(one, max_size=12), max_size=4)


@pytest.mark.parametrize(
    ("values", "operator", "cells"), [(SUMS, SUMMING, sums), (BYTES, ADDING, numbers.map(b"%d".__mod__))]
)
def test_operands_merged_by_columns_are_what_they_are_key_by_key(values, operator, cells):
    @settings(max_examples=80, deadline=None)
    @given(changes_of(cells), st.sampled_from([0, 3]), st.booleans(), st.booleans(), st.booleans())
    def check(lists, now_ms, reading, bottom, reverse):
        runs = to_runs(lists)
        expected = []
        for versions in by_key(runs).values():
            if reading:
                seen = merge_key(versions, operator, now_ms)
                expected += [] if seen is None else [seen]
            else:
                expected += compact_key(versions, operator, now_ms, bottom=bottom)
        found = merged(
            runs,
            [3],
            values=values,
            operator=operator,
            now_ms=now_ms,
            reading=reading,
            drop_tombstones=bottom,
            reverse=reverse,
        )
        assert repr(found[::-1] if reverse else found) == repr(
            expected
        )  # repr, since NaN is unequal to itself

    check()


@pytest.mark.parametrize(("values", "one"), [(SUMS, (1, 2, 3.0, 4, 5.0, "x")), (BYTES, b"1")])
def test_sums_are_not_merged_key_by_key(values, one, monkeypatch):
    operator = operator_of("add", BYTES) if values is BYTES else SUMMING
    monkeypatch.setattr(type(operator), "merge", None)
    monkeypatch.setattr(type(operator), "combine", None)
    run = [Entry(b"%d" % (n // 3), 9 - n, MERGE, None, one) for n in range(9)]
    assert len(merged([run], [4], values=values, operator=operator, now_ms=0)) == 3


def test_of_typed_rows_all_columns_come_along():
    operator = operator_of({"n": "add"}, ROWS)
    runs = [
        [Entry(b"a", 9, MERGE, None, (2, None)), Entry(b"c", 8, DELETE, None, None)],
        [
            Entry(b"a", 5, PUT, None, (1, "x")),
            Entry(b"b", 4, PUT, None, (None, "y")),
            Entry(b"c", 3, PUT, None, (7, "z")),
        ],
    ]
    seen = merged(runs, [2], values=ROWS, operator=operator, now_ms=0)
    assert [(entry.key, entry.value) for entry in seen] == [(b"a", (3, "x")), (b"b", (None, "y"))]


def test_a_projection_merges_what_it_has():
    run = [Entry(b"a", 2, PUT, None, (1, "x")), Entry(b"a", 1, PUT, None, (0, "w"))]
    some = Values({"name": "VARCHAR"})
    batch = ROWS.batch(run).select(["key", "seq", "kind", "expire_at", "name"])
    (found,) = merge_runs([iter([batch])], values=some, now_ms=0)
    assert found.column("name").to_pylist() == ["x"]


def test_a_key_with_more_versions_than_a_batch_holds_stays_one():
    run = [Entry(b"k", 5000 - n, MERGE, None, b"%d," % n) for n in range(3000)]
    (seen,) = merged([[Entry(b"j", 1, PUT, None, b"")], run], [7], operator=APPEND, now_ms=0)[1:]
    assert seen.value == b"".join(b"%d," % n for n in range(2999, -1, -1))
    assert seen.seq == 5000


def test_what_expires_at_different_times_stays_apart():
    versions = [
        Entry(b"k", 4, MERGE, 9, b"d"),
        Entry(b"k", 3, MERGE, None, b"c"),
        Entry(b"k", 2, MERGE, None, b"b"),
        Entry(b"k", 1, PUT, None, b"a"),
    ]
    assert compact_key(versions, APPEND, 5, bottom=False) == [
        Entry(b"k", 4, MERGE, 9, b"d"),
        Entry(b"k", 3, PUT, None, b"abc"),
    ]


def test_operands_without_a_base_stay_operands_above_older_runs():
    versions = [Entry(b"k", 2, MERGE, None, b"b"), Entry(b"k", 1, MERGE, None, b"a")]
    assert compact_key(versions, APPEND, 0, bottom=False) == [Entry(b"k", 2, MERGE, None, b"ab")]
    assert compact_key(versions, APPEND, 0, bottom=True) == [Entry(b"k", 2, PUT, None, b"ab")]


def test_an_expired_put_hides_what_is_older_until_the_bottom():
    run = [Entry(b"k", 2, PUT, 5, b"new")]
    options = {"now_ms": 5, "reading": False}
    assert merged([run], [1], drop_tombstones=False, **options) == [Entry(b"k", 2, DELETE, None, None)]
    assert merged([run], [1], drop_tombstones=True, **options) == []
    assert merged([run], [1], drop_tombstones=False, now_ms=4, reading=False) == run


def test_a_delete_stays_above_older_runs():
    run = [Entry(b"k", 2, DELETE, None, None), Entry(b"k", 1, PUT, None, b"old")]
    assert merged([run], [1], drop_tombstones=False, reading=False, now_ms=0) == run[:1]


def test_an_operator_that_fails_keeps_nobody_from_compacting():
    run = [
        Entry(b"j", 4, PUT, None, b"fine"),
        Entry(b"k", 3, MERGE, None, b"poison"),
        Entry(b"k", 2, MERGE, None, b"b"),
        Entry(b"k", 1, PUT, None, b"a"),
    ]
    assert merged([run], [2], operator=PICKY, now_ms=0, reading=False) == run
    with pytest.raises(InvalidInputError, match=r"fails on key b'k' .*poison"):
        merged([run], [2], operator=PICKY, now_ms=0)


def test_operands_without_an_operator_are_an_error_that_names_the_key():
    with pytest.raises(InvalidInputError, match="key b'k' has merge operands"):
        merge_key([Entry(b"k", 1, MERGE, None, b"x")], None, 0)


def test_merging_reads_no_further_than_it_needs():
    def versions():
        yield Entry(b"k", 2, PUT, None, b"v")
        raise AssertionError("an older run was asked")

    assert merge_key(versions(), None, 0).value == b"v"


def test_a_scan_that_stops_early_reads_little():
    taken = []

    def run():
        for n in range(1000):
            taken.append(n)
            yield BYTES.batch([Entry(b"%06d" % (n * 100 + i), 1, PUT, None, b"") for i in range(100)])

    next(merge_runs([run()], values=BYTES, now_ms=0))
    assert len(taken) < 10


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.binary(min_size=1, max_size=80) | keys, max_size=20), min_size=1, max_size=4),
    st.binary(max_size=9),
)
def test_keys_of_any_length_are_put_in_order_and_equal_ones_stay_in_theirs(runs, prefix):
    found = [prefix + key for run in runs for key in sorted(run)]
    array = pa.array([b"skipped", *found], pa.binary()).slice(1)
    order, first = key_order(array)
    assert order.tolist() == sorted(range(len(found)), key=found.__getitem__)
    ordered = sorted(found)
    assert first.tolist() == [at == 0 or key != ordered[at - 1] for at, key in enumerate(ordered)]


def test_large_runs_are_merged_as_small_ones():
    """Thousands of rows, so that all ways of ordering keys are taken, and pieces grow."""
    random_ = random.Random(7)
    lists = []
    for _ in range(4):
        changed = []
        for _ in range(3000):
            key = random_.choice([b"%04d", b"state=MI,city=%04d", b"x%d\0y"]) % random_.randrange(4000)
            changed.append((key, random_.choice([PUT, PUT, PUT, DELETE]), None, random_.randbytes(3)))
        lists.append(changed)
    runs = to_runs(lists)
    expected = {key: read(versions, 0) for key, versions in by_key(runs).items()}
    for reverse in (False, True):
        seen = merged(runs, [100, 333], reverse=reverse, now_ms=0)
        live = [(key, value) for key, value in expected.items() if value is not None]
        assert [(entry.key, entry.value) for entry in seen] == (live[::-1] if reverse else live)


def test_seq_and_expiry_of_the_newest_version_stay():
    run = [Entry(b"k", (7 << 32) | 3, PUT, 1 << 45, b"v")]
    assert merged([run], [1], now_ms=np.iinfo(np.int32).max) == run
