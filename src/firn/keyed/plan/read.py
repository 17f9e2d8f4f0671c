"""Reads of a keyed table: its newest live rows, as of one version and one moment.

Outermost keys tell which groups of files share no key. Each unit merges a range of keys of one group
(`firn.keyed.plan.units`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from firn.arrow.engine import filter_table
from firn.bucket.base import Bucket
from firn.concurrency.parallel import in_flight
from firn.errors import ObjectNotFoundError, SnapshotTooOldError
from firn.journal.model import ColumnTypes
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.values import Values
from firn.keyed.maintain.checkpoints import view_at
from firn.keyed.maintain.key_shares import BlockMap, KeyRange
from firn.keyed.maintain.policy import has_refuse
from firn.keyed.merge.operators import Operator
from firn.keyed.merge.versions import merge_runs
from firn.keyed.plan.columns import KeyedColumns, public_rows
from firn.keyed.plan.key_ranges import EVERYTHING, common, key_ranges
from firn.keyed.plan.units import KeyFile, KeyUnit, groups, reached, units_of
from firn.keyed.read.runs import runs_of
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader
from firn.predicate.predicate import Predicate
from firn.reads import QueryMoment, ReadPlanner, Unit, spelled

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.journal.manifest.model import View
    from firn.keyed.context import KeyedContext
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class KeyedRead(KeyedColumns):
    """The files of a view, the ranges of keys that are still to be read, and what of each row is wanted.

    `now_ms` is the moment at which entries have expired or not, the same for all tasks.
    """

    bucket: Bucket
    definition: KeyedDefinition
    version: str
    now_ms: int
    files: tuple[KeyFile, ...]
    names: tuple[str, ...]
    ranges: tuple[KeyRange, ...] = EVERYTHING
    sql: str | None = None
    upto_seq: int | None = None

    kind = "keyed"
    kept_by = "a checkpoint"

    @staticmethod
    def of(
        table: KeyedContext,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: Any = None,
        upto_seq: int | None = None,
        seen_as: KeyedDefinition | None = None,
    ) -> KeyedRead:
        """Pin a view, with `upto_seq` less what was written later, with the columns that an older definition gives if
        `seen_as` is one. Cost: the view's requests, and 1 ranged GET an L0 object; with a merge operator 1 an SST."""
        now_ms = table.clock.now_ms()
        view = view_at(table, at)
        if at is None:
            view, files = table.journal.restarting(
                view, lambda view: run_files(table, view, now_ms, upto_seq)
            )
        else:
            try:
                files = run_files(table, view, now_ms, upto_seq)
            except ObjectNotFoundError as error:
                raise SnapshotTooOldError(
                    f"{table.name} can't be read at {view.version} any more: {error}. Read a newer version, or "
                    "another checkpoint."
                ) from error
        definition = table.as_in(view).definition
        if seen_as is not None:
            definition = definition.seen_as(seen_as)
        read = KeyedRead(table.bucket, definition, view.version, now_ms, files, (), upto_seq=upto_seq)
        read = read.select(spelled(read.table, read.known, columns))
        return read if where is None else read.where(where)

    def __getstate__(self) -> dict[str, Any]:
        # Values made of the definition are made again: an operator may not be picklable.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def operator(self) -> Operator | None:
        return self.definition.operator

    @cached_property
    def predicate(self) -> Predicate | None:
        """Which of the live rows are wanted."""
        return None if self.sql is None else Predicate.parse(self.sql, self.known)

    @property
    def needed(self) -> ColumnTypes:
        """The columns that are read: those wanted, and those of the predicate."""
        asked = self.predicate.columns if self.predicate is not None else frozenset()
        return {name: kind for name, kind in self.known.items() if name in self.names or name in asked}

    def select(self, names: Sequence[str]) -> KeyedRead:
        return replace(self, names=tuple(names))

    def where(self, sql: str) -> KeyedRead:
        both = sql if self.sql is None else f"({self.sql}) AND ({sql})"
        return replace(self.pruned([Predicate.parse(sql, self.known)]), sql=both)

    def pruned(self, predicates: Sequence[Predicate]) -> KeyedRead:
        ranges = common(self.ranges, key_ranges(predicates, self.key_columns, self.keys))
        return replace(self, ranges=ranges, files=reached(self.files, ranges))

    def scope(self) -> Hashable:
        return self.ranges

    def groups(self) -> list[tuple[KeyFile, ...]]:
        """Files that have to be merged together; single ones that are plain don't need to be."""
        return groups(self.files)

    def units(self) -> list[Unit]:
        return self.units_of(self.groups())

    def units_of(self, groups: Sequence[Sequence[KeyFile]]) -> list[Unit]:
        """The units that tasks read of these groups. 1 ranged GET for each file large enough to be divided."""
        maps: dict[str, BlockMap] = {}

        def map_of(file: KeyFile) -> BlockMap:
            if file.key not in maps:
                # The first file that is asked for has the indices of all its group fetched at the same time.
                group = next(group for group in groups if file in group)
                indices = in_flight(lambda file: self._reader(file).index, group)
                maps.update(zip([f.key for f in group], map(BlockMap.of, indices), strict=True))
            return maps[file.key]

        return [Unit(*pair) for group in groups for pair in units_of(group, self.ranges, map_of)]

    def for_tasks(self) -> KeyedRead:
        return replace(self, files=())

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        for unit in works:
            for batch in self._merged(unit):
                rows = public_rows(batch, self.keys, self.needed)
                if self.sql is not None:
                    assert self.predicate is not None
                    rows = filter_table(rows, self.predicate.sql, types=self.needed)
                if rows.num_rows:
                    yield rows

    def _merged(self, unit: KeyUnit) -> Iterator[pa.RecordBatch]:
        values, operator = self.values, self.operator
        if operator is None and values.columns is not None:
            # At least one, which a run can't be without; an operator may need them all.
            wanted = [name for name in values.columns if name in self.needed]
            values = values.select(wanted or [next(iter(values.columns))])
        together = unit.runs()
        runs = [self._scanned(run, unit.range, values, len(together)) for run in together]
        yield from merge_runs(
            runs, values=values, operator=operator, now_ms=self.now_ms, upto_seq=self.upto_seq
        )

    def _scanned(
        self, run: Sequence[KeyFile], wanted: KeyRange, values: Values, runs: int
    ) -> Iterator[pa.RecordBatch]:
        for file in run:
            yield from self._reader(file).scan(wanted.start, wanted.end, columns=values.names, runs=runs)

    def _reader(self, file: KeyFile) -> SstReader:
        # Nothing is read twice, so nothing is kept.
        return SstReader(self.bucket, file.key, file.size, BlockCache(0), values=self.values)


def run_files(
    table: KeyedContext, view: View, now_ms: int, upto_seq: int | None = None
) -> tuple[KeyFile, ...]:
    """The files of a view that hold what was written up to `upto_seq`. Asks the indices of L0 objects for their keys,
    and those of SSTs whether they hold merge operands, where the table can have any."""
    may_merge = table.definition.merge_operator is not None
    runs = runs_of(view.manifest.ssts)
    flushes = [
        file for file in view.l0 if upto_seq is None or file.number <= table.definition.seqs.number(upto_seq)
    ]
    listed: list[tuple[int, Any]] = [*enumerate(flushes)]
    listed += [(len(flushes) + at, info) for at, run in enumerate(runs) for info in run]

    def described(entry: tuple[int, Any]) -> KeyFile:
        age, info = entry
        if age < len(flushes):
            index = table.sst(info.key, info.bytes).index
            return KeyFile(info.key, info.bytes, age, index.min_key, index.max_key, plain=False, hides=True)
        key = table.journal.layout.sst_key(info.file)
        plain = upto_seq is None or info.max_seq <= upto_seq
        plain = plain and (not may_merge or table.sst(key, info.bytes).index.merges == 0)
        return KeyFile(
            key, info.bytes, age, info.min_key, info.max_key, plain, has_refuse(info, now_ms), info.clock
        )

    return tuple(in_flight(described, listed))


def plan(
    table: KeyedTable,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    at: Any,
    moment: QueryMoment | None,
    fields: ColumnTypes | None,
    indexed: bool,
) -> KeyedRead:
    """See `firn.reads.plan_read`."""
    return KeyedRead.of(table, columns=columns, where=where, at=at)


PART: ReadPlanner = plan
