"""Pieces of runs that are too large for one batch of Arrow, whose text and bytes have offsets of 32 bits.

They are cut by keys into smaller ones. A key that alone is too large keeps only the versions that a reader needs;
where these are merge operands that are too large together, they are merged as Python values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from firn.keyed.encoding.entries import MERGE
from firn.keyed.merge.run_buffers import Piece, bisect_keys

MOST_BYTES = 1 << 30
"""Bytes of a batch: half of what 32 bits address, for what merging may add."""


def parts(piece: Piece, *, reverse: bool, upto_seq: int | None) -> Iterator[Piece]:
    """The piece in parts that share no key, in the order of keys or backwards; each fits into one batch, or is one
    key's versions, newest first, in a single run of as many batches as they need."""
    if weight(piece) <= MOST_BYTES:
        yield piece
        return
    low = min(run[0].column(0)[0].as_py() for run in piece if run)
    largest = max((batch for run in piece for batch in run), key=lambda batch: batch.nbytes)
    middle = largest.column(0)[len(largest) // 2].as_py()
    key = middle if middle > low else low + b"\0"
    below, above = _cut(piece, key)
    if not any(above):
        yield [_needed(below, upto_seq)]
        return
    for half in (above, below) if reverse else (below, above):
        yield from parts(half, reverse=reverse, upto_seq=upto_seq)


def weight(piece: Piece) -> int:
    """The bytes of a piece."""
    return sum(batch.nbytes for run in piece for batch in run)


def _cut(piece: Piece, key: bytes) -> tuple[Piece, Piece]:
    """The part below a key, and the rest."""
    below: Piece = [[] for _ in piece]
    above: Piece = [[] for _ in piece]
    for number, run in enumerate(piece):
        for batch in run:
            at = bisect_keys(batch.column(0), key)
            if at:
                below[number].append(batch.slice(0, at))
            if at < len(batch):
                above[number].append(batch.slice(at))
    return below, above


def _needed(piece: Piece, upto_seq: int | None) -> list[pa.RecordBatch]:
    """One key's versions, newest first, down to the first that isn't an operand."""
    needed: list[pa.RecordBatch] = []
    for run in piece:
        for batch in run:
            if upto_seq is not None:
                batch = batch.filter(pa.array(batch.column(1).to_numpy() <= upto_seq))
            settled = np.flatnonzero(batch.column(2).to_numpy(zero_copy_only=False) != MERGE)
            if len(settled):
                return [*needed, batch.slice(0, int(settled[0]) + 1)]
            if len(batch):
                needed.append(batch)
    return needed
