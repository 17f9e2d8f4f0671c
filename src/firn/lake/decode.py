"""Rows of one open Parquet object: its columns under the table's names and types, all of them or those that
satisfy a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.engine import filter_table, row_mask
from firn.arrow.types import arrow_schema, conform
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.lake.deletes import living
from firn.lake.parquet_bloom import row_group_blooms
from firn.lake.partition import PartitionSpec
from firn.lake.predicate import Predicate
from firn.lake.prune import Pruner
from firn.lake.source import BATCH_ROWS, ParquetSource
from firn.lake.stats import row_group_stats
from firn.names import fold

RUN_BYTES = 16 << 20
RUN_ROWS = 1 << 20
"""Row groups are fetched and filtered in runs of so many compressed bytes and rows."""


@dataclass(frozen=True)
class ReadSpec:
    """What to read of each file; picklable.

    `columns` are the output columns in order, `where` is a predicate as DuckDB's text (rows are kept where it
    is true), `table_columns` are all columns of the table, which the predicate and soft deletes may use. `loose`
    casts as `on_conflict="widen"` asks for.
    """

    columns: ColumnTypes
    where: str | None = None
    table_columns: ColumnTypes = field(default_factory=dict)
    loose: bool = False


def rows_of(source: ParquetSource, spec: ReadSpec) -> Iterator[pa.Table]:
    """The rows that `spec` asks for, in tables of at most `BATCH_ROWS` rows, none of them empty."""
    with _naming(source):
        where = living(spec.where, source.deletes, _known(spec), source.uri)
        if where is None:
            for run in _runs(source, range(source.metadata.num_row_groups), _present(source, spec.columns)):
                yield from _tables(source, run, spec.columns, spec.loose)
        else:
            yield from _matching_rows(source, spec, _Test(source, spec, where))


def picked_rows(source: ParquetSource, spec: ReadSpec, picked: pa.BooleanArray) -> Iterator[pa.Table]:
    """Of the picked rows of a file those that `spec` asks for. Row groups without a picked row, or whose
    statistics exclude the predicate, aren't read."""
    known = _known(spec)
    columns, where = dict(spec.columns), None
    if spec.where is not None:
        where = _predicate(spec.where, tuple(known.items()))
        columns.update({name: known[name] for name in known if name in where.columns})
    counts = [source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)]
    starts = [sum(counts[:group]) for group in range(len(counts))]
    verdicts: list[bool | None] = [None for _ in counts]
    if spec.where is not None:
        verdicts = _verdicts(source, spec.where, known, columns, _present(source, columns))
    promising = [group for group, verdict in enumerate(verdicts) if verdict is not False]
    masks = {group: picked.slice(starts[group], counts[group]) for group in promising}
    groups = [group for group, mask in masks.items() if mask.true_count]
    with _naming(source):
        for run in _runs(source, groups, _present(source, columns)):
            mask = pa.chunked_array([masks[group] for group in run], pa.bool_())
            for rows in _masked(_tables(source, run, columns, spec.loose), mask):
                kept = rows if where is None else filter_table(rows, where.sql)
                if kept.num_rows:
                    yield kept.select(list(spec.columns))


class FileMask:
    """Which rows of a file stay: those for which `stays` is true, and that no soft delete took. Told from the
    predicates' columns alone; the others are read only if asked for."""

    def __init__(self, source: ParquetSource, spec: ReadSpec, stays: str) -> None:
        self._source = source
        self._spec = spec
        counts = [source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)]
        with _naming(source):
            where = living(stays, source.deletes, _known(spec), source.uri)
            test = _Test(source, spec, stays if where is None else where)
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
        with _naming(self._source):
            for run in _runs(self._source, groups, _present(self._source, self._spec.columns)):
                mask = pa.chunked_array([self._masks[group] for group in run], pa.bool_())
                yield from _masked(_tables(self._source, run, self._spec.columns, self._spec.loose), mask)


class _Test:
    """A predicate bound to one file: the columns it needs, and what statistics tell of each row group: whether
    all of its rows match (True), none (False), or perhaps some (None)."""

    def __init__(self, source: ParquetSource, spec: ReadSpec, where: str) -> None:
        known = _known(spec)
        predicate = _predicate(where, tuple(known.items()))
        self._source = source
        self._loose = spec.loose
        self._sql = predicate.sql
        # A predicate without columns, like 1 = 0, still needs rows to be asked of.
        used = {name: kind for name, kind in known.items() if name in predicate.columns}
        self.columns = used or dict(list(known.items())[:1])
        self.names = _present(source, self.columns)
        wanted = _present(source, {**self.columns, **spec.columns})
        self.verdicts = _verdicts(source, where, known, self.columns, wanted)

    def rows(self, run: Sequence[int]) -> pa.Table:
        """The predicate's columns of a run of row groups."""
        tables = list(_tables(self._source, run, self.columns, self._loose))
        return pa.concat_tables(tables) if tables else arrow_schema(self.columns).empty_table()

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether the predicate is true; no nulls."""
        return row_mask(rows, self._sql)


def _matching_rows(source: ParquetSource, spec: ReadSpec, test: _Test) -> Iterator[pa.Table]:
    """Decode the predicate's columns first, and the others only where some row matches."""
    others = {name: kind for name, kind in spec.columns.items() if name not in test.columns}
    names = list(dict.fromkeys([*test.names, *_present(source, others)]))
    promising = [group for group, verdict in enumerate(test.verdicts) if verdict is not False]
    for run in _runs(source, promising, names):
        source.load(run, names)
        rows = test.rows(run)
        mask = test.mask(rows)
        if not pc.any(mask).as_py():
            continue
        if others:
            tables = _joined(_tables(source, run, others, spec.loose), rows, list(spec.columns))
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


def _tables(
    source: ParquetSource, run: Sequence[int], columns: ColumnTypes, loose: bool
) -> Iterator[pa.Table]:
    """Some columns of a run of row groups, in the table's types; those that the file lacks are null."""
    names = _present(source, columns)
    for batch in source.batches(run, names):
        if not batch.num_rows:
            continue
        if names:
            yield conform(batch, columns, loose=loose)
        else:
            schema = arrow_schema(columns)
            yield pa.Table.from_arrays([pa.nulls(batch.num_rows, f.type) for f in schema], schema=schema)


def _present(source: ParquetSource, columns: ColumnTypes) -> list[str]:
    """The names in the file of those columns that it has; as in `conform`, another case will do."""
    folded = {fold(name): name for name in source.schema.names if name not in columns}
    found = (name if name in source.names else folded.get(fold(name)) for name in columns)
    return [name for name in found if name is not None]


def _runs(source: ParquetSource, groups: Iterable[int], names: Sequence[str]) -> Iterator[list[int]]:
    run: list[int] = []
    size = rows = 0
    for group in groups:
        run.append(group)
        size += source.compressed_bytes(group, names)
        rows += source.metadata.row_group(group).num_rows
        if size >= RUN_BYTES or rows >= RUN_ROWS:
            yield run
            run, size, rows = [], 0, 0
    if run:
        yield run


def _verdicts(
    source: ParquetSource, where: str, known: ColumnTypes, tested: ColumnTypes, wanted: Sequence[str]
) -> list[bool | None]:
    """Of each row group whether all of its rows match, none, or perhaps some (None): by its statistics, and then
    by the Bloom filters of those in doubt. `wanted` are all columns that will be read of them."""
    groups = range(source.metadata.num_row_groups)
    if len(groups) < 2 and not source.blooms:
        return [None for _ in groups]  # the file's own statistics have been looked at
    pruner = _pruner(where, tuple(known.items()))
    spelled = {fold(name): name for name in tested}
    names = {name: spelled[fold(name)] for name in _present(source, tested)}
    counts = [source.metadata.row_group(group).num_rows for group in groups]
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


def _known(spec: ReadSpec) -> ColumnTypes:
    return {**spec.columns, **spec.table_columns}


@lru_cache(maxsize=256)
def _predicate(where: str, columns: tuple[tuple[str, str], ...]) -> Predicate:
    return Predicate.parse(where, dict(columns))


@lru_cache(maxsize=256)
def _pruner(where: str, columns: tuple[tuple[str, str], ...]) -> Pruner:
    return Pruner(_predicate(where, columns), dict(columns), PartitionSpec(()))


@contextmanager
def _naming(source: ParquetSource) -> Iterator[None]:
    """Let errors about values say which file holds them."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(f"{source.uri}: {error}") from error
