"""How a compaction reads its runs: all of each, once, some blocks at a time, and the next ones while it merges.

Memory: the blocks of all runs together that are read at once have `PIECE_BYTES`, or are one block of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.concurrency.parallel import in_flight
from firn.keyed.maintain.key_shares import KeyShare
from firn.keyed.merge.run_buffers import bisect_keys
from firn.keyed.sst.index import spans
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.scan import decoded

PIECE_BYTES = 8 << 20
"""Bytes that are merged at once: so few that the allocator has the same memory for it again and again. Memory that is
new to the process costs more than the merge."""

SPAN_BYTES = 4 << 20
"""Bytes of blocks that one request fetches at most."""

SMALL_BYTES = 1 << 20
"""Files up to this size are fetched whole."""

FETCHED_BYTES = 32 << 20
"""And no more than so much of them at once."""


@dataclass(frozen=True)
class RunFile:
    """An L0 object or SST to read: its key in the bucket, and its size."""

    key: str
    bytes: int


class RunReads:
    """The entries of one run in a share, and how many they were.

    Args:
        files: in key order.
        span_bytes: what to read at once, about; a block at least. Up to four times as much is decoded at once.
        ahead: fetches the next blocks meanwhile, where the bucket is far away.
    """

    def __init__(
        self, files: Sequence[SstReader], share: KeyShare, *, span_bytes: int, ahead: Executor | None
    ) -> None:
        self._files, self._share, self._span_bytes, self._ahead = files, share, span_bytes, ahead
        self._part_bytes = 4 * span_bytes
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        waiting: tuple[SstReader, range, bytes | Future[bytes]] | None = None
        for file, blocks in self._spans():
            ahead = self._ahead if file.is_remote else None
            following = file, blocks, ahead.submit(file.fetch, blocks) if ahead else b""
            if waiting is not None:
                yield from self._rows(*waiting)
            waiting = following
        if waiting is not None:
            yield from self._rows(*waiting)

    def _spans(self) -> Iterator[tuple[SstReader, range]]:
        for file in self._files:
            index = file.index
            wanted = index.blocks_between(self._share.start, self._share.end)
            for blocks in spans(wanted, index.size_of, self._span_bytes):
                yield file, blocks

    def _rows(self, file: SstReader, blocks: range, data: bytes | Future[bytes]) -> Iterator[pa.RecordBatch]:
        data = data.result() if isinstance(data, Future) else file.fetch(blocks)
        found = decoded(file, blocks, data, self._part_bytes)
        del data
        for _, batch in found:
            rows = [self._within(batch)]
            del batch
            if len(rows[0]):
                yield rows.pop()  # or each run would hold what it has given away

    def _within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are in the share."""
        keys, share = batch.column(0), self._share
        low = 0 if share.start is None else bisect_keys(keys, share.start)
        high = len(keys) if share.end is None else bisect_keys(keys, share.end)
        rows = batch.slice(low, max(0, high - low))
        self.rows += len(rows)
        return rows


def fetched(bucket: Bucket, files: Sequence[RunFile]) -> dict[str, Bucket]:
    """Small files, fetched whole by 1 GET each, many in flight: a flush often is no larger than its index and a
    block or two."""
    chosen: list[RunFile] = []
    room = FETCHED_BYTES
    for file in files:
        if file.bytes <= min(SMALL_BYTES, room):
            chosen.append(file)
            room -= file.bytes
    blobs = bucket.get_many([file.key for file in chosen])
    return {
        file.key: cast("Bucket", _Fetched(bucket, blob.data))
        for file, blob in zip(chosen, blobs, strict=True)
        if blob is not None and len(blob.data) == file.bytes  # else let the reader find out what is wrong
    }


def open_all(readers: Sequence[SstReader]) -> None:
    """Fetch all indices together, where the store has latency that one after another would add up."""
    if any(reader.is_remote for reader in readers):
        in_flight(lambda reader: reader.index, readers)


class _Fetched:
    """A bucket as the reader of one file sees it whose bytes are here."""

    def __init__(self, bucket: Bucket, data: bytes) -> None:
        self._bucket, self._data = bucket, data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._data[start : start + length]

    def local_path(self, key: str) -> str:
        return ""  # no latency: nothing to read ahead for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)
