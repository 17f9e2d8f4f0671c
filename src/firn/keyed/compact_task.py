"""What runs in the tasks of a compaction: runs of one share of the keys in, SSTs of one run out.

A module-level function `fn(bucket, context, task)` for a `firn.runner.Runner`; context, task and result are
picklable. It only adds objects: nothing changes for readers until the driver commits. The result depends on
nothing but the task, so a task that runs twice writes the same bytes.

Memory: a few batches a run, and what `RunWriter` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.bucket.flight import in_flight
from firn.journal.manifest.model import SSTInfo
from firn.keyed.cache import BlockCache
from firn.keyed.definition import KeyedDefinition
from firn.keyed.fold import fold_runs
from firn.keyed.key_shares import KeyShare
from firn.keyed.operators import operator_of
from firn.keyed.run_writer import RunWriter
from firn.keyed.sst_reader import SstReader
from firn.keyed.values import Values

SMALL_BYTES = 1 << 20
"""Files up to this size are fetched whole."""

FETCHED_BYTES = 32 << 20
"""And no more than so much of them at once."""


@dataclass(frozen=True)
class RunFile:
    """An L0 object or SST to read: its key in the bucket, its size, and its entries where they're known."""

    key: str
    bytes: int


@dataclass(frozen=True)
class CompactContext:
    """What all tasks of a compaction share. `now_ms`: what has expired by then goes."""

    definition: KeyedDefinition
    prefix: str
    epoch: int
    level: int
    run: int
    now_ms: int


@dataclass(frozen=True)
class CompactTask:
    """`runs`, newest first, each of files in key order that may hold keys of the share. `bottom`: no older run has
    keys of the share. `numbers` are the task's own to name SSTs by."""

    share: KeyShare
    runs: tuple[tuple[RunFile, ...], ...]
    bottom: bool
    numbers: Sequence[int]


@dataclass(frozen=True)
class CompactedShare:
    """The SSTs that a task wrote, in key order, and how many entries it read."""

    ssts: tuple[SSTInfo, ...]
    rows_in: int


def compact_task(bucket: Bucket, context: CompactContext, task: CompactTask) -> CompactedShare:
    """Fold the runs' entries of one share of the keys into SSTs of the output run.

    Cost: 1 GET of each small file; of a larger one 1 GET of its index, and 1 a span of blocks; 1 PUT an SST.
    """
    definition = context.definition
    values = Values(definition.columns)
    cache = BlockCache(0)  # a compaction reads everything once: it mustn't push out what point reads want
    small = _fetched(bucket, [file for run in task.runs for file in run])
    runs = [
        [SstReader(small.get(file.key, bucket), file.key, file.bytes, cache, values=values) for file in run]
        for run in task.runs
    ]
    _open(bucket, [reader for run in runs for reader in run])
    counted = [_Counted(run, task.share) for run in runs]
    folded = fold_runs(
        [iter(run) for run in counted],
        values=values,
        operator=operator_of(definition.merge, values),
        now_ms=context.now_ms,
        drop_tombstones=task.bottom,
        reading=False,
    )
    with RunWriter(
        bucket,
        context.prefix,
        values.schema,
        definition.settings,
        epoch=context.epoch,
        numbers=task.numbers,
        level=context.level,
        run=context.run,
    ) as out:
        for batch in folded:
            out.add(batch)
        ssts = out.finish()
    return CompactedShare(tuple(ssts), sum(run.rows for run in counted))


def _fetched(bucket: Bucket, files: Sequence[RunFile]) -> dict[str, Bucket]:
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


def _open(bucket: Bucket, readers: Sequence[SstReader]) -> None:
    """Fetch all indices together, where the store has latency that one after another would add up."""
    if bucket.capabilities.shareable:
        in_flight(lambda reader: reader.index, readers)


class _Counted:
    """The entries of one run in a share, and how many they were."""

    def __init__(self, files: Sequence[SstReader], share: KeyShare) -> None:
        self._files, self._share = files, share
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            for batch in file.scan(self._share.start, self._share.end):
                self.rows += batch.num_rows
                yield batch
