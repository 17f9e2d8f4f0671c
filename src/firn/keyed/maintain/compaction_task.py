"""The tasks of a compaction: runs of one share of the keys in, SSTs of one run out.

A module-level function `fn(bucket, context, task)` for a `firn.runner.Runner`; context, task and result are
picklable. It only adds objects: nothing changes for readers until the driver commits. The result depends on
nothing but the task, so a task that runs twice writes the same bytes.

Memory, however large the share: of the runs together some times `PIECE_BYTES` (fetched, decoded, merged), or where
that is more, a block of each; the indices and filters of the files; and what `RunWriter` holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from firn.bucket.base import Bucket
from firn.journal.manifest.model import SSTInfo
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.maintain.compaction_reads import PIECE_BYTES, SPAN_BYTES, RunFile, RunReads, fetched, open_all
from firn.keyed.maintain.key_shares import KeyShare
from firn.keyed.maintain.run_writer import RunWriter
from firn.keyed.memory import give_back
from firn.keyed.merge.versions import merge_runs
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader

READS_AHEAD = 8
"""GETs that are under way while a task merges, where the bucket is far away."""


@dataclass(frozen=True)
class CompactContext:
    """The parameters that all tasks of a compaction share. Entries that have expired by `now_ms` go."""

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
    """Merge the runs' entries of one share of the keys into SSTs of the output run.

    Cost: 1 GET of each small file; of a larger one 1 GET of its index, and 1 a span of blocks; 1 PUT an SST.
    """
    definition = context.definition
    values = definition.values
    cache = BlockCache(0)  # a compaction reads everything once: it mustn't push out what point reads want
    small = fetched(bucket, [file for run in task.runs for file in run])
    runs = [
        [SstReader(small.get(file.key, bucket), file.key, file.bytes, cache, values=values) for file in run]
        for run in task.runs
    ]
    open_all([reader for run in runs for reader in run])
    span_bytes = min(PIECE_BYTES // max(1, len(runs)), SPAN_BYTES)
    far = any(reader.is_remote for run in runs for reader in run)
    ahead = ThreadPoolExecutor(READS_AHEAD, "firn-compact") if far else None
    counted = [RunReads(run, task.share, span_bytes=span_bytes, ahead=ahead) for run in runs]
    merged = merge_runs(
        [iter(run) for run in counted],
        values=values,
        operator=definition.operator,
        now_ms=context.now_ms,
        drop_tombstones=task.bottom,
        reading=False,
        piece_bytes=PIECE_BYTES,
    )
    try:
        with RunWriter(
            bucket,
            definition,
            context.prefix,
            epoch=context.epoch,
            numbers=task.numbers,
            level=context.level,
            run=context.run,
            expected_bytes=task.share.weight,
        ) as out:
            ssts = out.write(merged)
    finally:
        if ahead is not None:
            ahead.shutdown(wait=True, cancel_futures=True)
    rows = sum(run.rows for run in counted)
    del runs, counted, merged, small
    give_back()
    return CompactedShare(tuple(ssts), rows)
