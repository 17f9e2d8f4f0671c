"""Blocks of SSTs in memory, beside the rows that they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.block import STRIDE, Block

BYTES = Values()
TYPED = Values({"flights": "BIGINT", "city": "VARCHAR"})

# Few letters, so that keys are found across the ends of others and begin one another.
TEXT = st.text("ab", max_size=6).map(str.encode)
EVEN = st.text("ab", min_size=4, max_size=4).map(str.encode)


@st.composite
def runs(draw, typed):
    keys = draw(st.lists(draw(st.sampled_from([TEXT, EVEN])), min_size=1, max_size=5 * STRIDE))
    kinds = st.just(PUT) if draw(st.booleans()) else st.sampled_from([PUT, DELETE, MERGE])
    expires = st.none() if draw(st.booleans()) else st.none() | st.integers(0, 1 << 50)
    if typed:
        values = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text(max_size=3))
    else:
        values = draw(st.sampled_from([st.binary(min_size=3, max_size=3), st.binary(max_size=4)]))
    entries = []
    for seq, key in enumerate(sorted(keys)):
        kind = draw(kinds)
        value = None if kind == DELETE else draw(values)
        entries.append(Entry(key, (1 << 40) - seq, kind, None if kind == DELETE else draw(expires), value))
    return entries


@pytest.mark.parametrize("values", [BYTES, TYPED], ids=["bytes", "typed"])
@given(data=st.data())
def test_it_finds_what_is_there_and_gives_back_what_it_was_made_of(values, data):
    entries = data.draw(runs(values.typed))
    batch = values.batch(entries)
    block = Block(batch, typed=values.typed)
    assert len(block) == len(entries)
    assert block.batch.equals(batch)
    block.batch.validate(full=True)
    keys = {entry.key for entry in entries}
    for key in keys | {key + b"a" for key in keys} | {key[:-1] for key in keys} | {b"", b"b" * 9}:
        assert block.versions(key, values.from_row) == [entry for entry in entries if entry.key == key]
        assert block.lower_bound(key) == sum(entry.key < key for entry in entries)


def test_what_says_nothing_takes_no_room():
    """Of rows whose keys and values are of one length, without expiry or deletes: keys, values and seqs are kept,
    and a share of the keys once more."""
    plain = [Entry(b"%016d" % n, n, PUT, None, b"%0100d" % n) for n in range(900)]
    size = Block(BYTES.batch(plain), typed=False).nbytes
    assert size / 900 < 16 + 100 + 8 + (16 + 56) / STRIDE + 2
    ragged = [entry._replace(value=entry.value[:-1]) if entry.seq % 2 else entry for entry in plain]
    assert Block(BYTES.batch(ragged), typed=False).nbytes == size + 4 * 900 - 450
    mixed = [entry._replace(kind=MERGE, expire_at=5) if entry.seq % 2 else entry for entry in plain]
    assert Block(BYTES.batch(mixed), typed=False).nbytes == size + 900 + 9 * 900


def test_deletes_and_expiries_are_told():
    entries = [
        Entry(b"a", 3, DELETE, None, None),
        Entry(b"a", 2, PUT, 66, b"x"),
        Entry(b"b", 1, MERGE, None, b"y"),
    ]
    block = Block(BYTES.batch(entries), typed=False)
    assert block.versions(b"a") == entries[:2]
    assert block.versions(b"b") == entries[2:]
    assert all(type(entry) is Entry for entry in block.versions(b"a"))
