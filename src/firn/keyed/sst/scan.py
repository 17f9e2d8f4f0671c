"""Ranges of an SST as Arrow batches: which blocks to fetch together, and fetching ahead of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

import pyarrow as pa

from firn.bucket.base import BytesLike
from firn.keyed.merge.run_buffers import PIECE_BYTES, bisect_keys
from firn.keyed.sst.block import Block, Encoded
from firn.keyed.sst.index import SstIndex, spans

SPAN_BYTES = 4 << 20
"""Bytes of blocks that one request fetches at most."""

AHEAD_BYTES = 64 << 20
"""And no more than so many of all runs that are scanned together, or one block of each."""

SHORT_BYTES = 1 << 20
"""Bytes of blocks that a short scan begins with: it is likely to want all of them."""


class BlockSource(Protocol):
    """One SST's blocks; see `firn.keyed.sst.reader.SstReader`."""

    @property
    def index(self) -> SstIndex: ...

    @property
    def is_remote(self) -> bool: ...

    def cached(self, block: int) -> Block | Encoded | None: ...

    def blocks(self, numbers: Collection[int]) -> dict[int, Block]: ...

    def fetch(self, blocks: range) -> bytes: ...

    def parts(self, blocks: range, most_bytes: int, *, reverse: bool = False) -> Iterator[range]: ...

    def rows(self, block: Block, columns: Sequence[str] | None = None) -> pa.RecordBatch: ...

    def decode(
        self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch: ...


def scan_blocks(
    source: BlockSource,
    start: bytes | None,
    end: bytes | None,
    *,
    reverse: bool,
    columns: Sequence[str] | None,
    keep: bool,
    runs: int,
) -> Iterator[pa.RecordBatch]:
    """What `SstReader.scan` promises."""
    if start is not None and end is not None and start >= end:
        return
    index = source.index
    blocks = index.blocks_between(start, end)
    if not blocks:
        return
    first, last = blocks[0], blocks[-1]
    for part, batch, lower_bound in _batches(
        source, blocks, reverse=reverse, columns=columns, keep=keep, runs=runs
    ):
        low, high = 0, batch.num_rows
        if start is not None and first in part:
            low = lower_bound(start)
        if end is not None and last in part:
            high = lower_bound(end)
        rows = batch.slice(low, high - low)
        if rows.num_rows:
            yield rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64())) if reverse else rows
        del batch, rows, lower_bound  # or they would be held while the next ones are fetched


def _batches(
    source: BlockSource, blocks: range, *, reverse: bool, columns: Sequence[str] | None, keep: bool, runs: int
) -> Iterator[tuple[range, pa.RecordBatch, Callable[[bytes], int]]]:
    """Which blocks, their rows, and what finds the first row whose key isn't below another."""
    index = source.index
    if keep:
        for short in spans(blocks, index.size_of, SHORT_BYTES, most=SPAN_BYTES, reverse=reverse):
            for number, block in source.blocks(short[::-1] if reverse else short).items():
                yield range(number, number + 1), source.rows(block, columns), block.lower_bound
        return
    most = min(SPAN_BYTES, AHEAD_BYTES // max(1, runs) // (2 if source.is_remote else 1))
    todo = spans(blocks, index.size_of, 0, most=most, reverse=reverse)
    ahead: ThreadPoolExecutor | None = None
    waiting: Future[bytes] | None = None
    try:
        part = next(todo, None)
        while part is not None:
            held = _held(source, part) if waiting is None else None
            if held is not None:
                for number in reversed(part) if reverse else part:
                    rows = _rows(source, number, held[number - part.start], columns)
                    yield range(number, number + 1), rows, partial(bisect_keys, rows.column(0))
                part = next(todo, None)
                continue
            data = source.fetch(part) if waiting is None else waiting.result()
            waiting = None
            following = next(todo, None)
            if following is not None and source.is_remote and _held(source, following) is None:
                ahead = ahead or ThreadPoolExecutor(1, thread_name_prefix="firn-scan")
                waiting = ahead.submit(source.fetch, following)
            found = decoded(source, part, data, PIECE_BYTES // runs, reverse=reverse, columns=columns)
            del data
            for some, rows in found:
                yield some, rows, partial(bisect_keys, rows.column(0))
                del rows  # or they would be held beside the next ones
            part = following
    finally:
        if ahead is not None:
            ahead.shutdown(wait=False, cancel_futures=True)


def decoded(
    source: BlockSource,
    blocks: range,
    data: BytesLike,
    most_bytes: int,
    *,
    reverse: bool = False,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[range, pa.RecordBatch]]:
    """Fetched blocks as rows, in parts that have up to so many bytes when they are decoded, or are one block."""
    index, view = source.index, memoryview(data)
    start = index.extent(blocks.start)[0]
    del data
    parts = list(source.parts(blocks, most_bytes, reverse=reverse))
    while parts:
        part = parts.pop(0)
        low, high = index.extent(part.start)[0] - start, index.ends[part.stop - 1] - start
        rows = [source.decode(view[low:high], part, columns)]
        if not parts:
            # While the caller is busy with the rows, their bytes would be held beside them, for each run.
            del view
        yield part, rows.pop()  # which the caller may have let go of before it asks for more


def _held(source: BlockSource, part: range) -> list[Block | Encoded] | None:
    """The blocks of a span, if the cache has every one: else one request fetches them all anyway."""
    held = []
    for number in part:
        found = source.cached(number)
        if found is None:
            return None
        held.append(found)
    return held


def _rows(
    source: BlockSource, number: int, found: Block | Encoded, columns: Sequence[str] | None
) -> pa.RecordBatch:
    if isinstance(found, Block):
        return source.rows(found, columns)
    return source.decode(found.data, range(number, number + 1), columns)
