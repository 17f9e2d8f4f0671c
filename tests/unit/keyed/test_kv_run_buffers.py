"""What reading many runs at once holds of them."""

from __future__ import annotations

import pyarrow as pa

from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.merge.run_buffers import pieces
from firn.keyed.merge.versions import merge_runs

VALUES = Values()
BIG = b"v" * 1000


def run(keys, seq):
    """One batch, of which nothing else holds a part."""
    yield VALUES.batch([Entry(key, seq, PUT, None, BIG) for key in keys])


def keys(first, count):
    return [b"%c%06d" % (first, n) for n in range(count)]


def test_the_end_of_a_batch_doesn_t_hold_all_of_it():
    """Each of many runs would else hold megabytes for the sake of the last key read."""
    before = pa.total_allocated_bytes()
    cut = pieces([run([*keys(b"a"[0], 2000), b"z"], 2), run(keys(b"b"[0], 2000), 1)], rows=1 << 20)
    piece = next(cut)
    assert pa.total_allocated_bytes() - before > 4_000_000
    taken = sum(len(batch) for batches in piece for batch in batches)
    assert taken == 3999, "the last of the keys that were read of one run may come again"
    piece.clear()
    assert pa.total_allocated_bytes() - before < 10_000
    assert sum(len(batch) for piece in cut for batches in piece for batch in batches) == 2


def test_what_was_merged_is_held_once():
    before = pa.total_allocated_bytes()
    merged = merge_runs([run(keys(b"a"[0], 2000), 2), run(keys(b"a"[0], 2000), 1)], values=VALUES, now_ms=0)
    batch = next(merged)
    assert len(batch) == 1999
    assert pa.total_allocated_bytes() - before < 1.1 * batch.nbytes + 10_000
