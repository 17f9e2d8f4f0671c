"""Ranges of an SST as Arrow batches: which blocks to fetch together, and fetching ahead of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

import pyarrow as pa

from firn.bucket.base import BytesLike
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.merge.run_buffers import PIECE_BYTES, bisect_keys
from firn.keyed.sst.block import Block, Encoded
from firn.keyed.sst.index import SstIndex

SPAN_BYTES = 4 << 20
"""Bytes of blocks that one request fetches at most."""

AHEAD_BYTES = 64 << 20
"""And no more than so many of all runs that are scanned together, or one block of each."""

GROWTH = 4
"""Each span is so many times as large as the one before: a short scan reads little, a long one in few requests."""


SHORT_BYTES = 1 << 20
"""Bytes of blocks that a short scan begins with: it is likely to want all of them."""


def spans(
    index: SstIndex, blocks: range, *, reverse: bool = False, room: int = 0, most: int = SPAN_BYTES
) -> Iterator[range]:
    """The blocks cut into what one request fetches: one block first, or `room` bytes, then ever more, up to `most`.

    >>> ends = tuple(range(1 << 20, 12 << 20, 1 << 20))
    >>> index = SstIndex(9, 9, 0, 0, None, b"", (b"",) * 11, (False,) * 11, ends, (1,) * 11, (0,) * 11)
    >>> list(spans(index, range(1, 11)))
    [range(1, 2), range(2, 6), range(6, 10), range(10, 11)]
    >>> list(spans(index, range(1, 11), reverse=True))
    [range(10, 11), range(6, 10), range(2, 6), range(1, 2)]
    """
    left = blocks
    while left:
        count = 1
        size = index.extent(left[-1 if reverse else 0])[1]
        while count < len(left):
            more = index.extent(left[-1 - count if reverse else count])[1]
            if size + more > room:
                break
            size += more
            count += 1
        yield left[len(left) - count :] if reverse else left[:count]
        left = left[: len(left) - count] if reverse else left[count:]
        room = min(most, GROWTH * max(room, size))


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
        for short in spans(index, blocks, reverse=reverse, room=SHORT_BYTES):
            for number, block in source.blocks(short[::-1] if reverse else short).items():
                yield range(number, number + 1), _projected(block.batch, columns), block.lower_bound
        return
    most = min(SPAN_BYTES, AHEAD_BYTES // max(1, runs) // (2 if source.is_remote else 1))
    todo = spans(index, blocks, reverse=reverse, most=most)
    ahead: ThreadPoolExecutor | None = None
    waiting: tuple[range, Future[bytes]] | None = None
    try:
        part = next(todo, None)
        while part is not None:
            if waiting is not None:
                data = waiting[1].result()
                waiting = None
            else:
                held = _held(source, part)
                if held is not None:
                    for number in reversed(part) if reverse else part:
                        found = held[number - part.start]
                        rows = _rows(source, number, found, columns)
                        yield range(number, number + 1), rows, partial(bisect_keys, rows.column(0))
                    part = next(todo, None)
                    continue
                data = source.fetch(part)
            following = next(todo, None)
            if following is not None and source.is_remote and _held(source, following) is None:
                ahead = ahead or ThreadPoolExecutor(1, thread_name_prefix="firn-scan")
                waiting = following, ahead.submit(source.fetch, following)
            start, view = index.extent(part.start)[0], memoryview(data)
            waiting_parts = list(source.parts(part, PIECE_BYTES // runs, reverse=reverse))
            while waiting_parts:
                some = waiting_parts.pop(0)
                rows = source.decode(
                    view[index.extent(some.start)[0] - start : index.ends[some.stop - 1] - start],
                    some,
                    columns,
                )
                if not waiting_parts:
                    # While the caller is busy with the rows, their bytes would be held beside them, for each run.
                    del data, view
                yield some, rows, partial(bisect_keys, rows.column(0))
                del rows  # nor the rows beside the next ones
            part = following
    finally:
        if ahead is not None:
            ahead.shutdown(wait=False, cancel_futures=True)


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
        return _projected(found.batch, columns)
    return source.decode(found.data, range(number, number + 1), columns)


def _projected(batch: pa.RecordBatch, columns: Sequence[str] | None) -> pa.RecordBatch:
    return batch if columns is None else batch.select([*ENTRY_COLUMNS, *columns])
