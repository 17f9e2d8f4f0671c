"""Clauses of a merge bound to the table: names, types and what expressions may do, before any row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes, Snapshot
from firn.journal.typenames import quoted
from firn.lake.context import LakeContext
from firn.lake.maintain.matching.clauses import MergeClause
from firn.lake.maintain.matching.matching import CLAUSE, ROW, Matching, numbered
from firn.lake.maintain.matching.source import SOURCE_ROW, MergeSource, SourceInMemory
from firn.names import fold
from firn.predicate.select import check_expression


def equal_condition(names: Sequence[str], target: str, source: str) -> str:
    return " AND ".join(
        f"{quoted(target)}.{quoted(name)} = {quoted(source)}.{quoted(name)}" for name in names
    )


def settable(snapshot: Snapshot) -> ColumnTypes:
    """The columns that clauses set: those of values that were set aside end with their last file."""
    return {name: kind for name, kind in snapshot.columns.items() if name not in snapshot.aside}


def refuse_own_names(table: LakeContext, columns: Iterable[str]) -> None:
    """Refuse columns, of the table or the source, that are called as those by which a merge counts rows."""
    if taken := [name for name in columns if fold(name) in (ROW, CLAUSE, SOURCE_ROW)]:
        raise UnsupportedError(
            f"{table.name}: a merge and an update call columns of their own {taken[0]!r}, as a column here is "
            "called: rename it, in the source or by alter(rename=…)."
        )


def named_clause(
    table: LakeContext, columns: ColumnTypes, rows: MergeSource | None, clause: MergeClause, source: str
) -> MergeClause:
    """The clause with its values by the table's names of columns, `*` written out."""
    if clause.action not in ("update", "insert"):
        return clause
    given = {} if rows is None else {fold(name): name for name in rows.types}
    if clause.values is None and clause.when == "not matched by source":
        raise InvalidInputError(
            f"{table.name}: an update of rows that no source row matches needs values: for * there is no row."
        )
    if clause.values is None:
        wanted = list(columns) or list(given.values())
        missing = [name for name in wanted if fold(name) not in given]
        if missing:
            raise InvalidInputError(
                f"{table.name}: the source has no column {missing[0]!r}, which * sets; name the columns to "
                f"set. It has: {', '.join(given.values()) or 'none'}."
            )
        values = {name: f"{quoted(source)}.{quoted(given[fold(name)])}" for name in wanted}
    else:
        values = {}
        for given_name, text in clause.values.items():
            name = table.column_of(given_name, columns) if columns else given_name
            if name in values:
                raise InvalidInputError(f"{table.name}: the column {name!r} is set twice.")
            values[name] = text
    if clause.action == "update" and table.keys is not None:
        same = {name for name, text in values.items() if clause.values is None and name in table.keys.key}
        values = {name: text for name, text in values.items() if name not in same}
        if key := [name for name in values if name in table.keys.key]:
            raise InvalidInputError(
                f"{key[0]!r} is part of the key of {table.name}, by which a row is known: delete the row, and insert "
                "it under its new key."
            )
    if clause.action == "update" and not values:
        raise InvalidInputError(f"{table.name}: an update sets at least one column.")
    return replace(clause, values=values)


def check_bound(matching: Matching) -> None:
    """Bind everything once, over no rows: names, types and what expressions may do."""
    texts = [matching.on, *(c.condition for c in matching.clauses if c.condition)]
    for text in (*texts, *(text for c in matching.clauses for text in (c.values or {}).values())):
        check_expression(text)
    empty = numbered(iter(()), matching.types)
    types = {} if matching.rows is None else matching.rows.types
    none = None if matching.rows is None else SourceInMemory(arrow_schema(types).empty_table(), types)
    trial = replace(matching, rows=none)
    pairs = trial.pairs(empty)
    trial.new_values(empty, pairs, [at for at, _ in matching.of("matched")])
    alone = [at for at, _ in matching.of("not matched by source")]  # their values see the target's row only
    replace(trial, rows=None).new_values(empty, pairs, alone)
    if none is not None:
        trial.unmatched(pa.array([], pa.int64()), 0)
        for _, clause in matching.of("not matched"):
            if clause.action == "insert":
                trial.inserted(pa.chunked_array([], pa.int64()), clause)
