"""The rows that a MERGE, UPDATE or DELETE changes, as one query: for tables that find a row by its key.

One query computes the source once and reads the target at one version. Each of its rows is a change: which clause it
comes from, the target row's key, and what the clause sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from firn.arrow.pyvalues import python_rows
from firn.errors import CardinalityError, InvalidInputError
from firn.journal.typenames import quoted
from firn.lake.maintain.matching.clauses import MergeClause
from firn.names import fold
from firn.predicate.select import shown
from firn.sql.kinds.kind import Target, placed
from firn.sql.syntax.statements import Merge

_CLAUSE, _SOURCE, _ROW = '"firn clause"', '"firn source"', '"firn row"'


@dataclass(frozen=True)
class RowChange:
    """One row's change: the clause, the key of the target row (nulls for an insert), and values by column."""

    clause: MergeClause
    key: tuple[Any, ...]
    values: Mapping[str, Any]


def row_changes(target: Target, merge: Merge, key: Sequence[str]) -> Iterator[RowChange]:
    """The changes of a statement; `key` are the target's columns by which its rows are found.

    Raises:
        CardinalityError: two source rows change one row of the target.
        InvalidInputError: what DuckDB says of the expressions; a row that a clause calls an error.
    """
    if merge.source is not None:
        merge = replace(merge, source=target.source_on_duckdb(merge.source))
    clauses = [_named(target, merge, placed(target, clause), key) for clause in merge.clauses]
    query = target.query(_text(target, merge, clauses, key))
    seen: set[tuple[Any, ...]] = set()
    for batch in query.batches():
        for row in (tuple(one.values()) for one in _python(target, batch)):
            at, found, rest = row[0], tuple(row[1 : 1 + len(key)]), row[1 + len(key) :]
            clause = clauses[at]
            if clause.action == "error":
                raise InvalidInputError(
                    f"the statement {shown(target.said)}: its {_number(at)} WHEN calls a row an error"
                    + (f", that of {dict(zip(key, found, strict=True))}." if found[0] is not None else ".")
                )
            if clause.when == "matched":
                if found in seen:
                    if merge.op == "delete":
                        continue
                    raise CardinalityError(
                        f"the statement {shown(target.said)}: several rows of the source change the row "
                        f"{dict(zip(key, found, strict=True))} of {target.table.name}. Make the source's rows "
                        "unique, for instance by GROUP BY."
                    )
                seen.add(found)
            skipped = sum(len(other.values or {}) for other in clauses[:at])
            values = rest[skipped : skipped + len(clause.values or {})]
            yield RowChange(clause, found, dict(zip(clause.values or {}, values, strict=True)))


def _python(target: Target, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return python_rows(batch, maps=True)
    except InvalidInputError:
        raise InvalidInputError(
            f"the statement {shown(target.said)} sets a value that Python has none for, like a date after the year "
            f"9999, and {target.table.name} can't hold."
        ) from None


def _number(at: int) -> str:
    return ("first", "second", "third")[at] if at < 3 else f"{at + 1}th"


def _named(target: Target, merge: Merge, clause: MergeClause, key: Sequence[str]) -> MergeClause:
    """The clause with its values by the target's names of columns; `*` is those that the source has, too. A row keeps
    its key: `UPDATE SET *` sets the others."""
    if clause.action not in ("update", "insert"):
        return clause
    if clause.values is None:
        source = {fold(name): name for name in target.query(merge.source or "").columns}
        names = [*target.columns] if target.closed else [*source.values()]
        missing = [name for name in target.columns if fold(name) not in source]
        if target.closed and missing:
            raise InvalidInputError(
                f"the statement {shown(target.said)}: its source has no column {missing[0]!r}, which * needs; name "
                "the columns to set."
            )
        alias = quoted(merge.source_alias)
        values = {target.column(name): f"{alias}.{quoted(source[fold(name)])}" for name in names}
        if clause.action == "update":
            values = {name: text for name, text in values.items() if name not in key}
    else:
        values = {target.column(name): text for name, text in clause.values.items()}
    return MergeClause(clause.when, clause.action, clause.condition, values)


def _text(target: Target, merge: Merge, clauses: Sequence[MergeClause], key: Sequence[str]) -> str:
    alias, source_alias = quoted(merge.alias), quoted(merge.source_alias)
    table = f"{quoted(target.table.name)} AS {alias}"
    keys = [f"{alias}.{quoted(name)}" for name in key]
    if merge.source is None:
        return _select(target, clauses, "matched", keys, f"{table} WHERE (\n{merge.on}\n)")
    on = " AND ".join(f"{alias}.{quoted(c)} = {source_alias}.{quoted(c)}" for c in merge.using) or merge.on
    given = f"{_SOURCE} AS {source_alias}"
    pairs = f"{table} JOIN {given} ON (\n{on}\n)"
    parts = [_select(target, clauses, "matched", keys, pairs)]
    if any(clause.when == "not matched" for clause in clauses):
        nulls = [f"CAST(NULL AS {target.columns[name]})" for name in key]
        alone = f"{given} WHERE {source_alias}.{_ROW} NOT IN (SELECT {source_alias}.{_ROW} FROM {pairs})"
        parts.append(_select(target, clauses, "not matched", nulls, alone))
    if any(clause.when == "not matched by source" for clause in clauses):
        alone = f"{table} WHERE NOT EXISTS (FROM {given} WHERE (\n{on}\n))"
        parts.append(_select(target, clauses, "not matched by source", keys, alone))
    source = f"SELECT *, row_number() OVER () AS {_ROW} FROM (\n{merge.source}\n)"
    return f"WITH {_SOURCE} AS MATERIALIZED ({source}) " + " UNION ALL ".join(parts)


def _select(target: Target, clauses: Sequence[MergeClause], when: str, keys: Sequence[str], rows: str) -> str:
    """The changes of one sort of rows: the first clause whose condition is true counts, and null isn't true."""
    mine = [at for at, clause in enumerate(clauses) if clause.when == when]
    conditions = {at: clauses[at].condition or "true" for at in mine}
    choice = " ".join(f"WHEN (\n{condition}\n) THEN {at}" for at, condition in conditions.items())
    case = f"CASE {choice} END" if mine else "CAST(NULL AS INTEGER)"
    columns = [f"{case} AS {_CLAUSE}", *(f'{text} AS "firn key {n}"' for n, text in enumerate(keys))]
    for at, clause in enumerate(clauses):
        for name, text in (clause.values or {}).items():
            value = f"CASE WHEN {case} = {at} THEN (\n{text}\n) END" if at in mine else "NULL"
            kind = target.columns.get(name)
            columns.append(
                f'{value if kind is None else f"CAST({value} AS {kind})"} AS "firn value {len(columns)}"'
            )
    silent = [str(at) for at, clause in enumerate(clauses) if clause.action == "nothing"]
    quiet = f" AND {_CLAUSE} NOT IN ({', '.join(silent)})" if silent else ""
    return f"SELECT * FROM (SELECT {', '.join(columns)} FROM {rows}) WHERE {_CLAUSE} IS NOT NULL{quiet}"
