"""Merging a key's versions, newest first, into what a reader sees.

`merge_key` does it for one key, `merge_runs` for ranges of whole runs, as Arrow batches: scans, compaction and tasks
of a cluster all go through it. Entries of a newer run are newer; see docs/format/keyed-entries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from firn.errors import InvalidInputError
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.merge import large_pieces
from firn.keyed.merge.columns import reducers_of
from firn.keyed.merge.operators import Operator
from firn.keyed.merge.piece import PieceMerge, merge_piece
from firn.keyed.merge.run_buffers import FIRST_ROWS, PIECE_BYTES, Piece, pieces


def merge_key(versions: Iterable[Entry], operator: Operator | None, now_ms: int) -> Entry | None:
    """One key as a reader sees it: a put, or None where there is nothing, or it was deleted or has expired.

    Stops at the first version that isn't a merge operand, so `versions` may look into older runs as it goes.

    Args:
        versions: newest first.
        now_ms: the reader's time; what has `expire_at` ≤ now is gone, and an expired put hides older ones still.

    Raises:
        InvalidInputError: there are operands and the operator can't merge them, or there is none.

    >>> merge_key([Entry(b"k", 2, 0, None, b"new"), Entry(b"k", 1, 0, None, b"old")], None, 0).value
    b'new'
    """
    newest: Entry | None = None
    operands: list[object] = []
    base: object = None
    for entry in versions:
        gone = entry.expire_at is not None and entry.expire_at <= now_ms
        if entry.kind == MERGE:
            if not gone:
                newest = newest or entry
                operands.append(entry.value)
            continue
        if entry.kind == PUT and not gone:
            if not operands:
                return entry
            base = entry.value
        break
    if newest is None:
        return None
    if operator is None:
        raise InvalidInputError(f"key {newest.key!r} has merge operands, and the table no merge operator")
    try:
        value = operator.merge(base, operands[::-1])
    except Exception as error:
        raise InvalidInputError(
            f"the merge operator fails on key {newest.key!r} ({error!r}): mend the operator, or put or delete the key"
        ) from error
    return Entry(newest.key, newest.seq, PUT, newest.expire_at, value)


def compact_key(
    versions: Iterable[Entry], operator: Operator | None, now_ms: int, *, bottom: bool
) -> list[Entry]:
    """The fewest versions, newest first, that read the same as these now and at any later time.

    Operands that expire at different times stay apart. Where the operator fails, operands stay as they are: the key's
    readers are told, and the rest of the table is compacted.

    Args:
        bottom: no older run holds the key; deletes and what stands on nothing need no trace.

    >>> compact_key([Entry(b"k", 2, 1, None, None), Entry(b"k", 1, 0, None, b"v")], None, 0, bottom=True)
    []
    """
    operands: list[Entry] = []
    base: Entry | None = None
    for entry in versions:
        if entry.kind != MERGE:
            base = entry
            break
        if not entry.expired(now_ms):
            operands.append(entry)
    nothing = bottom if base is None else base.kind == DELETE or base.expired(now_ms)
    if base is not None and nothing:
        base = None if bottom else Entry(base.key, base.seq, DELETE, None, None)
    groups = [list(group) for _, group in groupby(operands, key=attrgetter("expire_at"))]
    if groups and (nothing or (base is not None and base.expire_at == groups[-1][0].expire_at)):
        under = None if nothing or base is None else base.value
        whole = _merged(operator, under, groups[-1])
        if whole is not None:
            base = whole
            groups.pop()
    kept = [entry for group in groups for entry in _combined(operator, group)]
    return kept if base is None else [*kept, base]


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    *,
    values: Values,
    operator: Operator | None = None,
    now_ms: int,
    reverse: bool = False,
    drop_tombstones: bool = True,
    reading: bool = True,
    upto_seq: int | None = None,
    batch_rows: int = 65_536,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Runs as one, in key order; batches are small at first and none is empty.

    Args:
        runs: newest first; each a run, or with `reverse` exactly backwards.
        values: the values of the runs' value columns, which may be some of the table's.
        operator: needed where there are operands; without projection, as it may need all columns.
        drop_tombstones: leaves deletes and what has expired out; False where an older run may hold the key.
        reading: every key comes out as at most one put, with all operands merged. False for compaction: what expires
            at different times stays apart, so that it reads the same at any later time, and without `drop_tombstones`
            operands whose base may be in an older run stay operands.
        upto_seq: leaves out newer versions.
        batch_rows: the most rows of a batch.
        piece_bytes: how much of all runs to hold at once, about.

    Raises:
        InvalidInputError: a reader meets operands that the operator fails on.
    """

    def merge(versions: list[Entry]) -> list[Entry]:
        if not reading:
            return compact_key(versions, operator, now_ms, bottom=drop_tombstones)
        seen = merge_key(versions, operator, now_ms)
        return [] if seen is None else [seen]

    reducers = None if operator is None else reducers_of(operator, values)
    how = PieceMerge(values, merge, now_ms, drop_tombstones or reading, reading, reducers, upto_seq)
    first_rows = FIRST_ROWS if reading else batch_rows
    for piece in pieces(
        runs, rows=batch_rows, reverse=reverse, first_rows=first_rows, piece_bytes=piece_bytes
    ):
        for part in large_pieces.parts(piece, reverse=reverse, upto_seq=upto_seq):
            if large_pieces.weight(part) > large_pieces.MOST_BYTES:
                merged = _one_key(part, values, merge)
            else:
                merged = iter((merge_piece(part, how, reverse=reverse),))
            piece.clear()  # or all of it would be held beside what came of it
            part.clear()
            for batch in merged:
                for at in range(0, len(batch), batch_rows):
                    yield batch.slice(at, batch_rows)


def _one_key(
    part: Piece, values: Values, merge: Callable[[list[Entry]], list[Entry]]
) -> Iterator[pa.RecordBatch]:
    """The entries that stay of a single key whose versions don't fit into a batch, each entry for itself."""
    versions = [entry for run in part for batch in run for entry in values.entries(batch)]
    return (values.batch([entry]) for entry in merge(versions))


def _merged(operator: Operator | None, base: object, operands: Sequence[Entry]) -> Entry | None:
    """A put of operands, newest first and expiring together, on a base or on nothing; None where that fails."""
    newest = operands[0]
    try:
        assert operator is not None
        value = operator.merge(base, [entry.value for entry in reversed(operands)])
    except Exception:
        return None
    return Entry(newest.key, newest.seq, PUT, newest.expire_at, value)


def _combined(operator: Operator | None, operands: Sequence[Entry]) -> list[Entry]:
    """Operands, newest first and expiring together, as few as they can be."""
    if operator is None or len(operands) == 1:
        return list(operands)
    try:
        whole = operator.combine([entry.value for entry in reversed(operands)])
        if whole is not None:
            return [operands[0]._replace(value=whole)]
        kept: list[Entry] = []  # oldest first
        for entry in reversed(operands):
            both = operator.combine((kept[-1].value, entry.value)) if kept else None
            if both is None:
                kept.append(entry)
            else:
                kept[-1] = entry._replace(value=both)
        return kept[::-1]
    except Exception:
        return list(operands)
