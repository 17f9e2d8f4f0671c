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
from firn.lake.maintain.merge_clauses import Action, MergeClause, When
from firn.lake.read.decode import ReadSpec
from firn.lake.read.read import read_files

ROW, SOURCE_ROW, CLAUSE = "~row", "~source row", "~clause"
_TARGET, _SOURCE = "~target", "~source"


@dataclass(frozen=True)
class Matching:
    """A merge as tasks need it: names, the condition of a match, clauses with their values, and the source's rows,
    which have their numbers in `SOURCE_ROW`; None where there is no source, and `on` alone decides. Picklable."""

    target: str
    source: str
    on: str
    clauses: Sequence[MergeClause]
    rows: pa.Table | None
    types: ColumnTypes = field(default_factory=dict)
    """The types of the target's columns."""
    source_types: ColumnTypes = field(default_factory=dict)
    """Those of the source's, where Arrow says less."""

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
        tables[_SOURCE] = self.rows
        number = f"{source}.{quoted(SOURCE_ROW)} AS {quoted(SOURCE_ROW)}"
        given = self._source(self.rows)
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
        if len(deletes):
            result = result.filter(pc.invert(_mask(deletes, rows.num_rows)))
        return result

    def _target(self, rows: pa.Table) -> str:
        return f"{_with_types(_TARGET, rows, self.types)} AS {quoted(self.target)}"

    def _source(self, rows: pa.Table) -> str:
        return f"{_with_types(_SOURCE, rows, self.source_types)} AS {quoted(self.source)}"

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
        given = None if self.rows is None else self.rows.take(updates[SOURCE_ROW])
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
        for one in () if self.rows is None else self.rows.schema:
            if texts == {f"{quoted(self.source)}.{quoted(one.name)}"}:
                return one.name if columns_of(pa.schema([one])).get(one.name) == kind else None
        return None

    def unmatched(self, matched: pa.Array) -> pa.Table:
        """The source rows whose numbers aren't among `matched`, with their clauses."""
        assert self.rows is not None
        source = quoted(self.source)
        text = (
            f"SELECT {source}.{quoted(SOURCE_ROW)} AS {quoted(SOURCE_ROW)}, {self.choice('not matched')} AS "
            f"{quoted(CLAUSE)} FROM {self._source(self.rows)} "
            f'ANTI JOIN "~matched" ON {source}.{quoted(SOURCE_ROW)} = "~matched".n'
        )
        tables = {_SOURCE: self.rows, "~matched": pa.table({"n": matched.cast(pa.int64())})}
        return run_query(text, tables, what="the merge")

    def inserted(self, numbers: pa.Array, clause: MergeClause) -> pa.Table:
        """The rows that one clause makes of source rows."""
        number = f"{quoted(self.source)}.{quoted(SOURCE_ROW)}"
        columns = ", ".join(f"(\n{text}\n) AS {quoted(name)}" for name, text in (clause.values or {}).items())
        text = (
            f"SELECT {columns} FROM {self._source(self.rows)} "
            f'SEMI JOIN "~numbers" ON {number} = "~numbers".n ORDER BY {number}'
        )
        tables = {_SOURCE: self.rows, "~numbers": pa.table({"n": numbers.cast(pa.int64())})}
        rows = run_query(text, tables, what="what the merge inserts")
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


def counted(rows: int) -> pa.Array:
    """The numbers of so many rows."""
    import numpy as np

    return pa.array(np.arange(rows, dtype=np.int64))


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
