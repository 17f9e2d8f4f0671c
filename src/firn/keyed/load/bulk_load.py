"""Bulk load: rows straight into SSTs below L0, past memtable and flush.

Takes the compactor's epoch and compacts L0 first, since older L0 would shadow what is loaded. The rows of a load
have a seq above all that is compacted and below all later L0. In process they come as Arrow; tasks of a cluster
call `load_task`, each with sorted rows of a key range of its own. One commit makes all of a load visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.inputs import to_reader
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.journal.manifest import CompactorSession, Manifest
from firn.journal.manifest.model import SSTInfo
from firn.keyed.context import KeyedContext
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.founding import founded
from firn.keyed.load.rows import LoadRows
from firn.keyed.maintain.compaction import compact_l0, policy_of
from firn.keyed.maintain.policy import Policy
from firn.keyed.maintain.run_writer import RunWriter
from firn.keyed.results import LoadReport

if TYPE_CHECKING:
    from firn.runner import Runner

ATTEMPTS = 16
"""Tries of one task that are told apart by the numbers they give to SSTs."""

PART_SSTS = 1024
"""SSTs that one try of a task may write: 32 GB of the default size."""


@dataclass(frozen=True)
class LoadContext:
    """All that the tasks of one load share; picklable."""

    definition: KeyedDefinition
    prefix: str
    epoch: int
    seq: int
    now_ms: int
    first_number: int


def load(table: KeyedContext, data: Any, *, runner: Runner | None = None) -> LoadReport:
    """Put rows into the table, in place of what their keys had; all of them become visible at once.

    Rows in the order of their keys become one run, however many they are. Others are sorted in chunks of 128 MB
    in memory, each a run that later compactions merge; of rows with one key the last stays. Only puts made before
    are replaced: a writer that goes on meanwhile stands above the load.

    Args:
        data: rows with the columns that scans give: an Arrow table, reader or batch, pandas, polars, or a list of
            dicts.
        runner: where L0 is compacted, which comes first.

    Raises:
        InvalidInputError: a column or value that doesn't fit. Nothing is loaded then.
        FencedError: another compactor has taken over. Nothing is loaded then.

    Cost: that of compacting L0, 1 PUT an SST, and 2 PUTs.

    Example:
        >>> import firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed", key={"state": "VARCHAR"},
        ...                                                schema={"delay": "BIGINT"})
        >>> table.load([{"state": "OH", "delay": 12}, {"state": "MI", "delay": 66}]).rows
        2
        >>> table.reader().get("MI")
        {'delay': 66}
    """
    job = _Load(table, runner)
    rows = LoadRows(job.definition, table.clock.now_ms())
    source = to_reader(data, known=rows.columns)
    runs: list[list[SSTInfo]] = []
    for number, chunks in enumerate(_ascending(rows.chunks(source.batches()))):
        context = job.context(job.session.reserve_ssts(PART_SSTS))
        with _writer(
            table.bucket, context, range(context.first_number, context.first_number + PART_SSTS)
        ) as out:
            for chunk in chunks:
                seqs = pa.repeat(pa.scalar(context.seq + number, pa.int64()), chunk.num_rows)
                out.add(chunk.set_column(1, chunk.schema.field(1), seqs))
            runs.append(out.finish())
    return job.commit(runs)


class BulkLoad:
    """One load by tasks of a cluster: a context to ship, a commit of what they return.

    Each task calls `load_task` with rows sorted by key; no key is in two tasks. Nothing is visible before `commit`;
    without it nothing is left but SSTs that sweep deletes.

    Args:
        parts: how many tasks there are.
        runner: where L0 is compacted, which comes first.

    Example:
        >>> import firn, pyarrow as pa
        >>> table = firn.connect("memory://").create_table("t", kind="keyed")
        >>> rows = [pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}])]
        >>> with BulkLoad(table, parts=1) as bulk:
        ...     bulk.commit([load_task(table.bucket, bulk.context, 0, 0, rows)]).rows
        1
    """

    def __init__(self, table: KeyedContext, *, parts: int, runner: Runner | None = None) -> None:
        self._table, self._parts, self._runner = table, parts, runner

    def __enter__(self) -> BulkLoad:
        self._job = _Load(self._table, self._runner)
        numbers = self._job.session.reserve_ssts(self._parts * ATTEMPTS * PART_SSTS)
        self.context: LoadContext = self._job.context(numbers)
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def commit(self, parts: Iterable[Sequence[SSTInfo]]) -> LoadReport:
        """Make visible what the tasks wrote.

        Raises:
            InvalidInputError: two tasks wrote keys of one range.
            FencedError: another compactor has taken over.
        """
        ssts = sorted((sst for part in parts for sst in part), key=lambda sst: sst.min_key)
        for before, after in pairwise(ssts):
            if before.max_key >= after.min_key:
                raise InvalidInputError(
                    f"the parts of a load into {self._table.name} overlap, at the key {after.min_key[:40].hex()}: no "
                    "key may be in two parts. Nothing was loaded; range-partition the rows by key."
                )
        return self._job.commit([ssts])


def load_task(
    bucket: Bucket, context: LoadContext, part: int, attempt: int, batches: Iterable[pa.RecordBatch]
) -> list[SSTInfo]:
    """Write one part's rows, sorted by key, as SSTs; what `BulkLoad.commit` takes.

    Args:
        part: the task's number, below the `parts` of the load.
        attempt: which try of the task this is, so that two that run at once don't get in each other's way.
        batches: rows with the table's columns, as scans give them. The last row of a key stays.

    Raises:
        InvalidInputError: keys that aren't in order; a column or value that doesn't fit.

    Cost: 1 PUT an SST.
    """
    first = context.first_number + (part * ATTEMPTS + attempt % ATTEMPTS) * PART_SSTS
    rows = LoadRows(context.definition, context.now_ms)
    with _writer(bucket, context, range(first, first + PART_SSTS)) as out:
        return out.write(rows.entries(batches, context.seq))


class _Load:
    """The compactor's session of one load, with nothing left in L0 that was there when it began."""

    def __init__(self, table: KeyedContext, runner: Runner | None) -> None:
        self._table = table
        self.session: CompactorSession = founded(table, table.journal.open_compactor)
        self._table = table = table.as_in(self.session.view)
        compact_l0(table, self.session, runner=runner)
        self._manifest: Manifest = self.session.view.manifest
        greatest = max((sst.max_seq for sst in self._manifest.ssts), default=0)
        self._seq = self._table.definition.seqs.bulk(greatest, self._manifest.last_compacted)

    @property
    def definition(self) -> KeyedDefinition:
        """The table's as it is while the load lasts: whoever alters it takes the compactor's epoch."""
        return self._table.definition

    def context(self, numbers: range) -> LoadContext:
        return LoadContext(
            definition=self._table.definition,
            prefix=self._table.prefix,
            epoch=self.session.epoch,
            seq=self._seq,
            now_ms=self._table.clock.now_ms(),
            first_number=numbers.start,
        )

    def commit(self, runs: Sequence[Sequence[SSTInfo]]) -> LoadReport:
        """Commit runs, oldest first, above all that is compacted."""
        runs = [run for run in runs if run]
        adds = list(_placed(runs, self._manifest, policy_of(self._table)))
        if adds:
            self.session.commit(adds=adds, deletes=(), last_compacted=self._manifest.last_compacted)
        return LoadReport(
            version=self.session.view.version,
            rows=sum(sst.rows for sst in adds),
            ssts=len(adds),
            bytes=sum(sst.bytes for sst in adds),
            runs=len(runs),
        )


def _placed(runs: Sequence[Sequence[SSTInfo]], manifest: Manifest, policy: Policy) -> Iterator[SSTInfo]:
    """The SSTs of runs, oldest first, where they belong: the bottom of an empty table, else above its newest run."""
    level, run = 1, max((sst.run for sst in manifest.ssts if sst.level == 1), default=-1) + 1
    if not manifest.ssts and len(runs) == 1 and policy.kind == "leveled":
        level, room = 1, policy.level_bytes
        while sum(sst.bytes for sst in runs[0]) > room:
            level, room = level + 1, room * policy.ratio
    for number, ssts in enumerate(runs):
        for sst in ssts:
            yield replace(sst, level=level, run=run + number)


def _ascending(chunks: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Sorted chunks, grouped so that those of a group are one run. Each group is read before the next one begins."""
    pending = next(chunks, None)

    def group() -> Iterator[pa.RecordBatch]:
        nonlocal pending
        while pending is not None:
            chunk, last = pending, pending.column(0)[-1].as_py()
            pending = next(chunks, None)
            yield chunk
            if pending is not None and pending.column(0)[0].as_py() <= last:
                return

    while pending is not None:
        yield group()


def _writer(bucket: Bucket, context: LoadContext, numbers: Sequence[int]) -> RunWriter:
    return RunWriter(
        bucket, context.definition, context.prefix, epoch=context.epoch, numbers=numbers, level=1, run=0
    )
