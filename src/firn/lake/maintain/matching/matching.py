"""Which rows a MERGE changes, and to what: the queries of a task, and what it answers.

Expressions are DuckDB's, over the target's and the source's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from firn.arrow.engine import casts_of, run_query
from firn.arrow.types import arrow_schema, columns_of
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.journal.columns import is_cast
from firn.journal.model import ColumnTypes, DataFile
from firn.journal.typenames import quoted
from firn.lake.maintain.matching.clauses import Action, MergeClause, When, named_columns
from firn.lake.maintain.matching.source import SOURCE_ROW, MergeSource, SourceInMemory, counted
from firn.lake.read.decode import ReadSpec
from firn.lake.read.read import read_files
from firn.lake.write.checks import NO_CHECKS, Checks

ROW, CLAUSE = "~row", "~clause"
_TARGET, _SOURCE = "~target", "~source"


@dataclass(frozen=True)
class Matching:
    """A merge as tasks need it: names, the condition of a match, clauses with their values, and the source's rows;
    None where there is no source, and `on` alone decides. Picklable."""

    target: str
    source: str
    on: str
    clauses: Sequence[MergeClause]
    rows: MergeSource | None
    types: ColumnTypes = field(default_factory=dict)
    """The types of the target's columns."""
    checks: Checks = NO_CHECKS
    """What updated rows have to pass."""

    def of(self, when: When) -> list[tuple[int, MergeClause]]:
        """The clauses of one sort, with their numbers."""
        return [(at, clause) for at, clause in enumerate(self.clauses) if clause.when == when]

    def choice(self, when: When) -> str:
        """The number of the first clause of the sort whose condition is true, -1 for none, as an expression."""
        cases = "".join(f" WHEN (\n{c.condition or 'true'}\n) THEN {at}" for at, c in self.of(when))
        return f"CASE{cases} ELSE -1 END" if cases else "-1"

    def pairs(self, rows: pa.Table) -> pa.Table:
        """The changes and matches of numbered target rows: `ROW`, `SOURCE_ROW` and `CLAUSE`, -1 for a match that
        changes nothing."""
        target, source = quoted(self.target), quoted(self.source)
        row = f"{target}.{quoted(ROW)} AS {quoted(ROW)}"
        tables: dict[str, pa.Table] = {_TARGET: rows}
        if self.rows is None:
            picked = (
                f"{row}, -1::BIGINT AS {quoted(SOURCE_ROW)}, {self.choice('matched')} AS {quoted(CLAUSE)}"
            )
            return run_query(
                f"SELECT {picked} FROM {self._target(rows)} WHERE (\n{self.on}\n)",
                tables,
                what="the change",
            )
        conditions = [c.condition for c in self.clauses if c.when != "not matched"]
        tables[_SOURCE] = self.rows.read(self._source_columns([self.on, *conditions]))
        number = f"{source}.{quoted(SOURCE_ROW)} AS {quoted(SOURCE_ROW)}"
        given = self._source(tables[_SOURCE])
        text = (
            f"SELECT {row}, {number}, {self.choice('matched')} AS {quoted(CLAUSE)} "
            f"FROM {self._target(rows)} JOIN {given} ON (\n{self.on}\n)"
        )
        if self.of("not matched by source"):
            text += (
                f" UNION ALL SELECT {row}, -1, {self.choice('not matched by source')} FROM "
                f"{self._target(rows)} WHERE NOT EXISTS (FROM {given} WHERE (\n{self.on}\n))"
            )
        return run_query(text, tables, what="the merge")

    def with_rows_of(self, changes: pa.Table) -> tuple[Matching, pa.Table]:
        """The same with the source's rows at hand that updates of these changes take values from, and the changes by
        their numbers there."""
        if self.rows is None or isinstance(self.rows, SourceInMemory):
            return self, changes
        numbers = self.with_action(changes, "update")[SOURCE_ROW]
        numbers = pc.unique(numbers.filter(pc.greater_equal(numbers, 0)))
        columns = self._source_columns(
            text for c in self.clauses if c.when == "matched" for text in (c.values or {}).values()
        )
        rows = self.rows.take(columns, numbers).drop_columns([SOURCE_ROW])
        at_hand = SourceInMemory(rows, {name: self.rows.types[name] for name in columns})
        there = pc.fill_null(pc.index_in(changes[SOURCE_ROW], numbers).cast(pa.int64()), -1)
        place = changes.schema.get_field_index(SOURCE_ROW)
        return replace(self, rows=at_hand), changes.set_column(place, SOURCE_ROW, there)

    def in_batches(self, tables: Iterable[pa.Table], changes: pa.Table) -> Iterator[pa.Table]:
        """Consecutive target rows, numbered from 0, after the changes."""
        first = 0
        for rows in tables:
            numbers = pc.subtract(changes[ROW], first)
            here = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, rows.num_rows))
            at = changes.schema.get_field_index(ROW)
            yield self.changed(rows, changes.set_column(at, ROW, numbers).filter(here))
            first += rows.num_rows

    def changed(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """The rows after the changes, whose `ROW` says where their rows stand: deleted ones left out, updated ones
        replaced. Rows that stay aren't looked at."""
        updates = self.with_action(changes, "update")
        deletes = self.with_action(changes, "delete")[ROW].combine_chunks()
        result = rows.select(list(self.types))
        alone = pc.less(updates[SOURCE_ROW], 0)  # of rows that no source row matches
        for one, matching in (
            (updates.filter(pc.invert(alone)), self),
            (updates.filter(alone), replace(self, rows=None)),
        ):
            if not one.num_rows:
                continue
            one = one.sort_by(ROW)
            at = one[ROW].combine_chunks()
            mask = _mask(at, rows.num_rows)
            for name, values in matching.new_values(rows, one, pc.unique(one[CLAUSE]).to_pylist()).items():
                kind = result.schema.field(name).type
                replaced = _replaced(result[name], at, mask, values.cast(kind))
                result = result.set_column(result.schema.get_field_index(name), name, replaced)
            if self.checks.texts:
                self.checks.ask(result.take(at), self.types)
        if len(deletes):
            result = result.filter(pc.invert(_mask(deletes, rows.num_rows)))
        return result

    def _target(self, rows: pa.Table) -> str:
        return f"{_with_types(_TARGET, rows, self.types)} AS {quoted(self.target)}"

    def _source(self, rows: pa.Table) -> str:
        types: ColumnTypes = {} if self.rows is None else self.rows.types
        return f"{_with_types(_SOURCE, rows, types)} AS {quoted(self.source)}"

    def _source_columns(self, texts: Iterable[str | None]) -> list[str]:
        """The source's columns that expressions read."""
        assert self.rows is not None
        return named_columns([text for text in texts if text], self.rows.types, self.source)

    def set_columns(self) -> set[str]:
        """The columns that some clause updates."""
        return {name for clause in self.clauses if clause.action == "update" for name in clause.values or {}}

    def with_action(self, changes: pa.Table, *actions: Action) -> pa.Table:
        """The pairs whose clause does one of these."""
        numbers = [at for at, clause in enumerate(self.clauses) if clause.action in actions]
        return changes.filter(pc.is_in(changes[CLAUSE].cast(pa.int64()), pa.array(numbers, pa.int64())))

    def new_values(
        self, rows: pa.Table, updates: pa.Table, numbers: Iterable[int]
    ) -> dict[str, pa.ChunkedArray]:
        """The new values of the columns that updates set, in the order of the updates; `numbers` are their clauses.
        Without the source's rows, expressions name the target's columns alone."""
        target, clause = quoted(self.target), f'"~changes".{quoted(CLAUSE)}'
        mine = {at: self.clauses[at].values or {} for at in numbers if self.clauses[at].action == "update"}
        given = None
        if self.rows is not None:
            named = self._source_columns(text for values in mine.values() for text in values.values())
            given = self.rows.take(named, updates[SOURCE_ROW])
        columns, found = [], {}
        for name, kind in self.types.items():
            texts = {at: values[name] for at, values in mine.items() if name in values}
            if not texts:
                continue
            plain = self._plain(set(texts.values()), kind) if len(texts) == len(mine) else None
            if plain is not None and given is not None:
                found[name] = given[plain]
                continue
            cases = "".join(
                f" WHEN {clause} = {at} THEN CAST((\n{text}\n) AS {kind})" for at, text in texts.items()
            )
            old = f"CAST({target}.{quoted(name)} AS {kind})"  # a UUID is text in Arrow
            columns.append(f"CASE{cases} ELSE {old} END AS {quoted(name)}")
        if columns:
            tables = {_TARGET: rows.take(updates[ROW]), "~changes": updates}
            text = f'FROM {self._target(rows)} POSITIONAL JOIN "~changes"'
            if given is not None:
                tables[_SOURCE] = given
                text += f" POSITIONAL JOIN {self._source(given)}"
            computed = run_query(f"SELECT {', '.join(columns)} {text}", tables, what="the change")
            found |= {name: computed[name] for name in computed.column_names}
        return found

    def _plain(self, texts: set[str], kind: str) -> str | None:
        """The source's column that these expressions name, if they are one, and that, of this very type."""
        for name, its in {} if self.rows is None else self.rows.types.items():
            if texts == {f"{quoted(self.source)}.{quoted(name)}"}:
                return name if its == kind else None
        return None

    def unmatched(self, matched: pa.Array, part: int) -> pa.Table:
        """The rows of a part of the source whose numbers aren't among `matched`: `SOURCE_ROW`, ascending, and
        `CLAUSE`."""
        assert self.rows is not None
        source = quoted(self.source)
        rows = self.rows.read(self._source_columns(c.condition for _, c in self.of("not matched")), part)
        text = (
            f"SELECT {source}.{quoted(SOURCE_ROW)} AS {quoted(SOURCE_ROW)}, {self.choice('not matched')} AS "
            f"{quoted(CLAUSE)} FROM {self._source(rows)} "
            f'ANTI JOIN "~matched" ON {source}.{quoted(SOURCE_ROW)} = "~matched".n '
            f"ORDER BY {source}.{quoted(SOURCE_ROW)}"
        )
        tables = {_SOURCE: rows, "~matched": pa.table({"n": matched.cast(pa.int64())})}
        return run_query(text, tables, what="the merge")

    def insertions(self, chosen: pa.Table) -> pa.Table:
        """The rows that clauses make of source rows, by `SOURCE_ROW` and `CLAUSE`."""
        parts = [
            self.inserted(mine[SOURCE_ROW], clause)
            for at, clause in self.of("not matched")
            if (mine := chosen.filter(pc.equal(chosen[CLAUSE], at))).num_rows
        ]
        return pa.concat_tables(parts, promote_options="permissive")

    def inserted(self, numbers: pa.ChunkedArray, clause: MergeClause) -> pa.Table:
        """The rows that one clause makes of source rows."""
        assert self.rows is not None
        values = clause.values or {}
        given = self.rows.take(self._source_columns(values.values()), numbers)
        columns = ", ".join(f"(\n{text}\n) AS {quoted(name)}" for name, text in values.items())
        text = f"SELECT {columns} FROM {self._source(given)}"
        rows = run_query(text, {_SOURCE: given}, what="what the merge inserts")
        kinds = columns_of(rows.schema)
        casts = {}
        for name, kind in self.types.items():
            if name in kinds and rows.column(name).null_count == rows.num_rows:
                casts[name] = f"CAST(NULL AS {kind})"  # nothing but null has any type
            elif name in kinds and is_cast(kinds[name], kind):
                casts[name] = f"CAST({quoted(name)} AS {kind})"
        if not casts:
            return rows
        replaced = ", ".join(f"{text} AS {quoted(name)}" for name, text in casts.items())
        return run_query(f'SELECT * REPLACE ({replaced}) FROM "~rows"', {"~rows": rows}, what="the merge")


@dataclass(frozen=True)
class MatchContext:
    """The context of a task of the first pass."""

    matching: Matching
    read: ReadSpec


def match_task(bucket: Bucket, context: MatchContext, file: DataFile) -> pa.Table:
    """The pairs of one file's rows, numbered in its order, those that soft deletes took left out."""
    rows = numbered(read_files(bucket, [file], context.read), context.read.columns)
    return context.matching.pairs(rows)


def numbered(tables: Iterator[pa.Table], columns: ColumnTypes) -> pa.Table:
    """Rows with their numbers in `ROW`."""
    parts = list(tables)
    if not parts:
        parts = [arrow_schema(columns).empty_table()]
    rows = pa.concat_tables(parts)
    return rows.append_column(ROW, counted(rows.num_rows))


def _with_types(name: str, rows: pa.Table, types: ColumnTypes) -> str:
    """A table of Arrow's in the types that its columns have."""
    casts = casts_of(rows.column_names, types)
    return f"(SELECT * REPLACE ({casts}) FROM {quoted(name)})" if casts else quoted(name)


def _mask(at: pa.Array, rows: int) -> pa.Array:
    """True for these of so many rows."""
    import numpy as np

    mask = np.zeros(rows, dtype=bool)
    mask[at.to_numpy(zero_copy_only=False)] = True
    return pa.array(mask)


def _replaced(
    column: pa.ChunkedArray, at: pa.Array, mask: pa.Array, values: pa.ChunkedArray
) -> pa.ChunkedArray:
    """The column with other values in these rows, which ascend."""
    import numpy as np

    kind = column.type
    if (pt.is_integer(kind) or pt.is_floating(kind)) and not column.null_count and not values.null_count:
        plain = np.array(column.to_numpy())  # of its own
        plain[at.to_numpy()] = values.to_numpy()
        return pa.chunked_array([pa.array(plain, kind)])
    if not pt.is_nested(kind):
        whole, new = column.combine_chunks(), values.combine_chunks()
        return pa.chunked_array([pc.replace_with_mask(whole, mask, new)])
    order = np.arange(len(column))
    order[at.to_numpy(zero_copy_only=False)] = np.arange(len(column), len(column) + len(values))
    return pa.chunked_array([*column.chunks, *values.chunks]).take(pa.array(order))


def error_of(name: str, at: int) -> InvalidInputError:
    """For a row that a clause calls an error."""
    return InvalidInputError(
        f"{name}: clause {at + 1} of the merge calls a row an error; nothing was changed."
    )
