"""Rows of one open Parquet object: its columns under the table's names and types, all of them or those that
satisfy a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.arrow.defaults import default_value
from firn.arrow.engine import filter_table, row_mask
from firn.arrow.types import arrow_schema, arrow_type, columns_of, conform
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.journal.column_entries import NULLS
from firn.journal.model import ColumnTypes, DataFile, Snapshot
from firn.journal.naming import PLAIN, Naming
from firn.lake.parquet.bloom import row_group_blooms
from firn.lake.parquet.inlined import BATCH_ROWS, InlinedSource
from firn.lake.parquet.source import RowSource
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.lake.prune.soft_deletes import columns_of_deletes, deletes_by_name, living
from firn.names import fold
from firn.predicate.predicate import Predicate
from firn.predicate.stats import row_group_stats

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

RUN_BYTES = 16 << 20
RUN_ROWS = 1 << 20
"""Row groups are fetched and filtered in runs of so many compressed bytes and rows."""


@dataclass(frozen=True)
class ReadSpec:
    """The columns and rows to read of each file; picklable.

    `columns` are the output columns in order, `where` is a predicate as DuckDB's text (rows are kept where it
    is true), `table_columns` are all columns of the table, which the predicate may use. Those in `loose` may be cast
    from types that don't widen to theirs; those in `aside` hold what was set aside. `naming` says what columns are
    called in files, and what rows have whose file lacks one.
    """

    columns: ColumnTypes
    where: str | None = None
    table_columns: ColumnTypes = field(default_factory=dict)
    loose: frozenset[str] = frozenset()
    aside: frozenset[str] = frozenset()
    naming: Naming = PLAIN

    def reads_exactly(self, file: DataFile, names: Iterable[str]) -> bool:
        """Whether these columns are the file's own of their names in files, of whatever type."""
        names = frozenset(names)
        return names.isdisjoint(file.odd) and names.isdisjoint(self.loose)

    @staticmethod
    def of(snapshot: Snapshot, *, columns: ColumnTypes | None = None, where: str | None = None) -> ReadSpec:
        """For the files of a snapshot: `columns` (all by default), rows of `where`."""
        known = dict(snapshot.columns)
        wanted = known if columns is None else dict(columns)
        return ReadSpec(wanted, where, known, snapshot.loose, snapshot.aside, snapshot.naming)


class _View:
    """One open file as a spec reads it: `known` are the columns that predicates may use, those of the table and, as
    soft deletes mean the file's own, these too, under names with a `~` before."""

    def __init__(self, source: RowSource, spec: ReadSpec) -> None:
        self.source, self.loose, self._defaults = source, spec.loose, spec.naming.defaults
        self.known: ColumnTypes = {**spec.columns, **spec.table_columns}
        self.reads = dict(source.reads)
        self._own: dict[str, str | None] = {}
        if source.deletes and not deletes_by_name(source.deletes, source.reads, self.known):
            named = {name for place, own in source.reads.items() for name in (place, *own)}
            for name in named | columns_of_deletes(source.deletes):
                there = self._spelled(name)
                self._own[fold(name)] = None if there is None else f"~{there}"
                if there is not None:
                    self.known[f"~{there}"] = columns_of(pa.schema([source.schema.field(there)]))[there]
                    self.reads[f"~{there}"] = (there,)

    def living(self, where: str | None) -> str | None:
        """The predicate of the rows that exist, and for which `where` is true."""
        return living(where, self.source.deletes, self.known, self.source.uri, own=self._own)

    def present(self, columns: Iterable[str]) -> list[str]:
        """The file's own columns that these are read from, those that it has; another case will do."""
        found = (self._spelled(own) for name in columns for own in self.reads.get(name, (name,)))
        return list(dict.fromkeys(name for name in found if name is not None))

    def exact(self, columns: Iterable[str]) -> dict[str, str]:
        """Own column → column of the table, where its statistics are the column's too."""
        found: dict[str, str] = {}
        for name in columns:
            own = self.reads.get(name, (name,))
            if len(own) == 1 and not (name in self.reads and name in self.loose):
                there = self._spelled(own[0])
                if there is not None:
                    found[there] = name
        return found

    def tables(self, run: Sequence[int], columns: ColumnTypes) -> Iterator[pa.Table]:
        """Some columns of a run of row groups, in the table's types; those that the file lacks are null."""
        names = self.present(columns)
        for batch in self.source.batches(run, names):
            if not batch.num_rows:
                continue
            if self.reads.keys().isdisjoint(columns) and self._defaults.keys().isdisjoint(columns) and names:
                yield conform(batch, columns, loose=not self.loose.isdisjoint(columns))
            else:
                yield self._placed(batch, columns)

    def _placed(self, batch: pa.RecordBatch, columns: ColumnTypes) -> pa.Table:
        arrays = []
        for name, kind in columns.items():
            found = []
            reads = self.reads.get(name, (name,))
            for own in reads:
                there = self._spelled(own)
                if there is not None:
                    part = pa.table({name: batch.column(there)})
                    found.append(conform(part, {name: kind}, loose=name in self.loose).column(0))
            if not found:
                given = self._lacking(name, kind, batch.num_rows)
                if NULLS in reads:
                    given = pa.nulls(batch.num_rows, arrow_type(kind))
                found.append(pa.chunked_array([given]))
            arrays.append(found[0] if len(found) == 1 else pc.coalesce(*found))
        return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))

    def _lacking(self, name: str, kind: str, rows: int) -> pa.Array:
        """The values of a column that the file lacks."""
        if name in self._defaults:
            return pa.repeat(default_value(self._defaults[name], kind), rows)
        return pa.nulls(rows, arrow_type(kind))

    def _spelled(self, name: str) -> str | None:
        if name in self.source.names:
            return name
        return self.source.folded.get(fold(name))


def rows_of(source: RowSource, spec: ReadSpec) -> Iterator[pa.Table]:
    """The rows that `spec` asks for, in tables of at most `BATCH_ROWS` rows, none of them empty."""
    with _naming(source):
        view = _View(source, spec)
        where = view.living(spec.where)
        if where is None:
            for run in _runs(source, range(len(source.counts)), view.present(spec.columns)):
                yield from view.tables(run, spec.columns)
        else:
            yield from _matching_rows(view, spec, _Test(view, spec, where))


def picked_rows(source: RowSource, spec: ReadSpec, picked: pa.BooleanArray) -> Iterator[pa.Table]:
    """Those of a file's picked rows that `spec` asks for. Row groups without a picked row, or whose statistics
    exclude the predicate, aren't read."""
    view = _View(source, spec)
    known = view.known
    columns, where = dict(spec.columns), None
    if spec.where is not None:
        where = _predicate(spec.where, tuple(known.items()))
        columns.update({name: known[name] for name in known if name in where.columns})
    counts = source.counts
    starts = [sum(counts[:group]) for group in range(len(counts))]
    verdicts: list[bool | None] = [None for _ in counts]
    if spec.where is not None:
        verdicts = _verdicts(view, spec.where, columns, view.present(columns))
    promising = [group for group, verdict in enumerate(verdicts) if verdict is not False]
    masks = {group: picked.slice(starts[group], counts[group]) for group in promising}
    groups = [group for group, mask in masks.items() if mask.true_count]
    with _naming(source):
        for run in _runs(source, groups, view.present(columns)):
            mask = pa.chunked_array([masks[group] for group in run], pa.bool_())
            for rows in _masked(view.tables(run, columns), mask):
                kept = rows if where is None else filter_table(rows, where.sql, types=columns)
                if kept.num_rows:
                    yield kept.select(list(spec.columns))


class FileMask:
    """Which rows of a file stay: those for which `stays` is true, and that no soft delete took. Told from the
    predicates' columns alone; the others are read only if asked for."""

    def __init__(self, source: RowSource, spec: ReadSpec, stays: str) -> None:
        self._view = view = _View(source, spec)
        self._spec = spec
        counts = source.counts
        with _naming(source):
            where = view.living(stays)
            test = _Test(view, spec, stays if where is None else where)
            self._masks = [
                pa.repeat(bool(verdict), count) for verdict, count in zip(test.verdicts, counts, strict=True)
            ]
            doubtful = [group for group, verdict in enumerate(test.verdicts) if verdict is None]
            for run in _runs(source, doubtful, test.names):
                mask = test.mask(test.rows(run))
                at = 0
                for group in run:
                    self._masks[group] = mask.slice(at, counts[group]).combine_chunks()
                    at += counts[group]
        self._kept = [pc.sum(mask).as_py() or 0 for mask in self._masks]
        self.rows: int = sum(counts)
        self.kept: int = sum(self._kept)

    def tables(self) -> Iterator[pa.Table]:
        """The rows that stay, under `spec.columns`; row groups without any aren't read."""
        groups = [group for group, kept in enumerate(self._kept) if kept]
        view = self._view
        with _naming(view.source):
            for run in _runs(view.source, groups, view.present(self._spec.columns)):
                mask = pa.chunked_array([self._masks[group] for group in run], pa.bool_())
                yield from _masked(view.tables(run, self._spec.columns), mask)


class _Test:
    """A predicate bound to one file: the columns it needs, and what statistics tell of each row group: whether
    all of its rows match (True), none (False), or perhaps some (None)."""

    def __init__(self, view: _View, spec: ReadSpec, where: str) -> None:
        known = view.known
        predicate = _predicate(where, tuple(known.items()))
        self._view = view
        self._sql = predicate.sql
        # A predicate without columns, like 1 = 0, still needs rows to be asked of.
        used = {name: kind for name, kind in known.items() if name in predicate.columns}
        self.columns = used or dict(list(known.items())[:1])
        self.names = view.present(self.columns)
        wanted = view.present({**self.columns, **spec.columns})
        self.verdicts = _verdicts(view, where, self.columns, wanted)

    def rows(self, run: Sequence[int]) -> pa.Table:
        """The predicate's columns of a run of row groups."""
        tables = list(self._view.tables(run, self.columns))
        return pa.concat_tables(tables) if tables else arrow_schema(self.columns).empty_table()

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether the predicate is true; no nulls."""
        return row_mask(rows, self._sql, types=self.columns)


def _matching_rows(view: _View, spec: ReadSpec, test: _Test) -> Iterator[pa.Table]:
    """Decode the predicate's columns first, and the others only where some row matches."""
    source = view.source
    others = {name: kind for name, kind in spec.columns.items() if name not in test.columns}
    names = list(dict.fromkeys([*test.names, *view.present(others)]))
    promising = [group for group, verdict in enumerate(test.verdicts) if verdict is not False]
    for run in _runs(source, promising, names):
        source.load(run, names)
        rows = test.rows(run)
        mask = test.mask(rows)
        if not pc.any(mask).as_py():
            continue
        if others:
            tables = _joined(view.tables(run, others), rows, list(spec.columns))
        else:
            wanted = rows.select(list(spec.columns))
            tables = (wanted.slice(at, BATCH_ROWS) for at in range(0, wanted.num_rows, BATCH_ROWS))
        yield from _masked(tables, mask)


def _joined(tables: Iterable[pa.Table], rows: pa.Table, names: Sequence[str]) -> Iterator[pa.Table]:
    """Consecutive tables, each with the columns of its rows in `rows` added."""
    at = 0
    for table in tables:
        beside = rows.slice(at, table.num_rows)
        at += table.num_rows
        columns = [(table if name in table.column_names else beside) for name in names]
        yield pa.Table.from_arrays(
            [whole.column(name) for whole, name in zip(columns, names, strict=True)],
            schema=pa.schema([whole.field(name) for whole, name in zip(columns, names, strict=True)]),
        )


def _masked(tables: Iterable[pa.Table], mask: pa.ChunkedArray) -> Iterator[pa.Table]:
    at = 0
    for table in tables:
        part = mask.slice(at, table.num_rows)
        at += table.num_rows
        count = pc.sum(part).as_py() or 0
        if count:
            yield table if count == table.num_rows else table.filter(part)


def _runs(source: RowSource, groups: Iterable[int], names: Sequence[str]) -> Iterator[list[int]]:
    run: list[int] = []
    size = rows = 0
    for group in groups:
        run.append(group)
        size += source.compressed_bytes(group, names)
        rows += source.counts[group]
        if size >= RUN_BYTES or rows >= RUN_ROWS:
            yield run
            run, size, rows = [], 0, 0
    if run:
        yield run


def _verdicts(view: _View, where: str, tested: ColumnTypes, wanted: Sequence[str]) -> list[bool | None]:
    """For each row group whether all of its rows match, none, or perhaps some (None): by its statistics, and then
    by the Bloom filters of those in doubt. `wanted` are all columns that will be read of them."""
    source = view.source
    groups = range(len(source.counts))
    if isinstance(source, InlinedSource) or (len(groups) < 2 and not source.blooms):
        return [None for _ in groups]  # the file's own statistics have been looked at
    pruner = _pruner(where, tuple(view.known.items()))
    names = view.exact(tested)
    counts = source.counts
    stats = []
    verdicts: list[bool | None] = []
    for group in groups:
        found = row_group_stats(source.metadata, group, source.schema, names)
        stats.append({names[name]: entry for name, entry in found.items()})
        if not pruner.may_match_stats(stats[group], counts[group]):
            verdicts.append(False)
        else:
            verdicts.append(True if pruner.certainly_all_stats(stats[group], counts[group]) else None)
    doubtful = [group for group in groups if verdicts[group] is None]
    asked = {name: known_as for name, known_as in names.items() if known_as in pruner.points}
    if not doubtful or source.blooms.keys().isdisjoint(asked):
        return verdicts
    spared = sum(source.compressed_bytes(group, wanted) for group in doubtful)
    for group, blooms in row_group_blooms(source, doubtful, asked, spared=spared).items():
        if not pruner.may_match_stats(stats[group], counts[group], blooms):
            verdicts[group] = False
    return verdicts


@lru_cache(maxsize=256)
def _predicate(where: str, columns: tuple[tuple[str, str], ...]) -> Predicate:
    return Predicate.parse(where, dict(columns))


@lru_cache(maxsize=256)
def _pruner(where: str, columns: tuple[tuple[str, str], ...]) -> Pruner:
    return Pruner(_predicate(where, columns), dict(columns), PartitionSpec(()))


@contextmanager
def _naming(source: RowSource) -> Iterator[None]:
    """Let errors about values say which file holds them."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(f"{source.uri}: {error}") from error
