"""Rows of one open Parquet object: its columns under the table's names and types, all of them or those that
satisfy a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.lake.engine import run_query
from firn.lake.partition import PartitionSpec
from firn.lake.predicate import Predicate
from firn.lake.prune import Pruner
from firn.lake.source import BATCH_ROWS, ParquetSource
from firn.lake.stats import row_group_stats
from firn.lake.types import arrow_schema, conform

RUN_BYTES = 16 << 20
RUN_ROWS = 1 << 20
"""Row groups are fetched and filtered in runs of so many compressed bytes and rows."""


@dataclass(frozen=True)
class ReadSpec:
    """What to read of each file; picklable.

    `columns` are the output columns in order, `where` is a predicate as DuckDB's text (rows are kept where it
    is true), `table_columns` are all columns of the table, which the predicate may use. `loose` casts as
    `on_conflict="widen"` asks for.
    """

    columns: ColumnTypes
    where: str | None = None
    table_columns: ColumnTypes = field(default_factory=dict)
    loose: bool = False


def rows_of(source: ParquetSource, spec: ReadSpec) -> Iterator[pa.Table]:
    """The rows that `spec` asks for, in tables of at most `BATCH_ROWS` rows, none of them empty."""
    with _naming(source):
        if spec.where is None:
            for run in _runs(source, range(source.metadata.num_row_groups), _present(source, spec.columns)):
                yield from _tables(source, run, spec.columns, spec.loose)
        else:
            yield from _matching_rows(source, spec, _Test(source, spec, spec.where))


class FileMask:
    """Which rows of a file a predicate picks, from its columns alone; the others are read only if asked for.

    With `keep` the rows for which it is true stay, else those for which it is false or null.
    """

    def __init__(self, source: ParquetSource, spec: ReadSpec, where: str, *, keep: bool) -> None:
        self._source = source
        self._spec = spec
        counts = [source.metadata.row_group(g).num_rows for g in range(source.metadata.num_row_groups)]
        self._masks = [pa.repeat(not keep, count) for count in counts]
        with _naming(source):
            test = _Test(source, spec, where)
            for run in _runs(source, test.groups, test.names):
                mask = test.mask(test.rows(run))
                at = 0
                for group in run:
                    part = mask.slice(at, counts[group]).combine_chunks()
                    self._masks[group] = part if keep else pc.invert(part)
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
    """A predicate bound to one file: the columns it needs, and the row groups that may hold a match."""

    def __init__(self, source: ParquetSource, spec: ReadSpec, where: str) -> None:
        known = {**spec.columns, **spec.table_columns}
        predicate = _predicate(where, tuple(known.items()))
        self._source = source
        self._loose = spec.loose
        self._sql = f"SELECT (\n{predicate.sql}\n) IS TRUE AS keep FROM rows"
        # A predicate without columns, like 1 = 0, still needs rows to be asked of.
        used = {name: kind for name, kind in known.items() if name in predicate.columns}
        self.columns = used or dict(list(known.items())[:1])
        self.names = _present(source, self.columns)
        self.groups = _promising(source, where, known, self.columns)

    def rows(self, run: Sequence[int]) -> pa.Table:
        """The predicate's columns of a run of row groups."""
        tables = list(_tables(self._source, run, self.columns, self._loose))
        return pa.concat_tables(tables) if tables else arrow_schema(self.columns).empty_table()

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether the predicate is true; no nulls."""
        return run_query(self._sql, {"rows": rows}).column(0)


def _matching_rows(source: ParquetSource, spec: ReadSpec, test: _Test) -> Iterator[pa.Table]:
    """Decode the predicate's columns first, and the others only where some row matches."""
    others = {name: kind for name, kind in spec.columns.items() if name not in test.columns}
    names = list(dict.fromkeys([*test.names, *_present(source, others)]))
    for run in _runs(source, test.groups, names):
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
    folded = {name.lower(): name for name in source.schema.names if name not in columns}
    found = (name if name in source.names else folded.get(name.lower()) for name in columns)
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


def _promising(source: ParquetSource, where: str, known: ColumnTypes, tested: ColumnTypes) -> Sequence[int]:
    """The row groups that may hold a matching row, by their statistics."""
    groups = range(source.metadata.num_row_groups)
    if len(groups) < 2:
        return groups  # the file's own statistics have been looked at
    pruner = _pruner(where, tuple(known.items()))
    spelled = {name.lower(): name for name in tested}
    promising = []
    for group in groups:
        found = row_group_stats(source.metadata, group, source.schema, _present(source, tested))
        stats = {spelled[name.lower()]: entry for name, entry in found.items()}
        if pruner.may_match_stats(stats, source.metadata.row_group(group).num_rows):
            promising.append(group)
    return promising


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
