"""Statements on keyed tables: all puts and deletions of one are one batch of the table's writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import orjson

from firn.arrow.pyvalues import python_rows
from firn.errors import CardinalityError, InvalidInputError, UnsupportedError
from firn.journal.typenames import quoted
from firn.keyed.maintain.alter import definition_now
from firn.keyed.table import KeyedTable
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.writer import KeyedWriter
from firn.lake.maintain.matching.clauses import MergeClause
from firn.names import fold
from firn.predicate.select import shown
from firn.sql.kinds.kind import SourceRows, SqlKind, Target, refuse_lake_clauses
from firn.sql.kinds.matches import row_changes
from firn.sql.outcome import Outcome
from firn.sql.syntax.statements import CreateTable, Insert, Merge

EXCLUDED = "excluded"
"""What ON CONFLICT calls the row that wasn't inserted."""


class KeyedInSql(SqlKind):
    title = "keyed"

    def options(self, statement: CreateTable, options: Mapping[str, Any]) -> dict[str, Any]:
        refuse_lake_clauses(statement, "keyed")
        by_name = {fold(name): name for name in statement.columns}
        if statement.columns and not statement.key:
            raise InvalidInputError(
                f"{statement.table}: a keyed table with columns needs a key: PRIMARY KEY ({next(iter(by_name))})."
            )
        names = [by_name.get(fold(name), name) for name in statement.key]
        if unknown := [name for name in names if name not in statement.columns]:
            raise InvalidInputError(
                f"{statement.table}: the key's column {unknown[0]!r} isn't among the columns."
            )
        key = {name: statement.columns[name] for name in names}
        schema = {name: kind for name, kind in statement.columns.items() if name not in key}
        given = dict(options)
        if str(given.get("merge_operator", ""))[:1] == "{":
            given["merge_operator"] = orjson.loads(given["merge_operator"])
        return {"key": key or None, "schema": schema or None, **given}

    def created(self, table: KeyedTable) -> CreateTable:
        found = definition_now(table)
        operator = found.merge_operator
        options = {
            "kind": "keyed",
            "merge_operator": operator
            if operator is None or isinstance(operator, str)
            else orjson.dumps(operator).decode(),
            "ttl": None if found.ttl_ms is None else f"{found.ttl_ms}ms",
            **found.properties,
        }
        return CreateTable(
            table.name,
            columns={**(found.key or {}), **(found.columns or {})},
            key=tuple(found.key or ()),
            options={name: value for name, value in options.items() if value is not None},
        )

    def insert(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        table: KeyedTable = target.table
        if statement.conflict == "nothing" or statement.assignments or statement.conflict_where:
            return self.change(target, merge_of(target, rows, statement, _key(table)))
        found = rows.table()
        if found.nbytes > table.settings.memtable_size // 2:
            report = table.load(found)
            return Outcome("insert", table.version, rows_inserted=report.rows)
        stored = dict(_entry(table, row) for row in python_rows(found, maps=True))  # the last of each key
        batch = WriteBatch()
        for key, value in stored.items():
            batch.put(key, value)
        with _writer(target) as kv:
            kv.write(batch)
            return Outcome("insert", kv.version, rows_inserted=len(stored))

    def change(self, target: Target, merge: Merge) -> Outcome:
        table: KeyedTable = target.table
        key = _key(table)
        refuse_key(target, merge, key)
        counts = dict.fromkeys(("insert", "update", "delete"), 0)
        batch = WriteBatch()
        with _writer(target) as kv:
            kv.flush()
            changes = list(row_changes(target, merge, key))
            there = {c.key: _lone(c.key) for c in changes if c.clause.action == "update"}
            values = dict(zip(there, kv.multi_get(list(there.values())), strict=True)) if there else {}
            inserted: set[Any] = set()
            for change in changes:
                if change.clause.action == "delete":
                    batch.delete(_lone(change.key))
                elif change.clause.action == "update":
                    old = values[change.key]
                    new = {**old, **change.values} if isinstance(old, dict) else change.values["value"]
                    batch.put(_lone(change.key), new)
                else:
                    given = {name: one for name, one in change.values.items() if name in target.columns}
                    found, value = _entry(
                        table, {**dict.fromkeys(key), **given}
                    )  # others have their defaults
                    if found in inserted:
                        if keeps_first(merge):
                            continue
                        raise CardinalityError(
                            f"the statement {shown(target.said)}: several rows of the source have the key {found!r}."
                        )
                    inserted.add(found)
                    batch.put(found, value)
                counts[change.clause.action] += 1
            kv.write(batch)
            return Outcome(merge.op, kv.version, counts["insert"], counts["update"], counts["delete"])


def merge_of(target: Target, rows: SourceRows, statement: Insert, key: tuple[str, ...]) -> Merge:
    """INSERT … ON CONFLICT as a MERGE by the key."""
    named = {target.column(name) for name in statement.conflict_columns}
    if named and named != set(key):
        raise UnsupportedError(
            f"the statement {shown(target.said)}: ON CONFLICT names the key's columns: {', '.join(key)}. MERGE INTO "
            "compares with any columns."
        )
    matched = MergeClause("matched", "nothing")
    if statement.conflict == "update":
        values = statement.assignments
        if values is None:
            values = {name: f"{EXCLUDED}.{quoted(name)}" for name in rows.columns if name not in key}
        matched = MergeClause("matched", "update", statement.conflict_where, values)
    inserted = {name: f"{EXCLUDED}.{quoted(name)}" for name in rows.columns}
    clauses = (matched, MergeClause("not matched", "insert", None, inserted))
    source, name = target.rows_on_duckdb(rows), target.table.name
    return Merge("merge_into", name, name, source, EXCLUDED, "", clauses, key)


def keeps_first(merge: Merge) -> bool:
    """Whether of several new rows with one key the first counts, as ON CONFLICT DO NOTHING says."""
    return merge.source_alias == EXCLUDED and all(clause.action != "update" for clause in merge.clauses)


def refuse_key(target: Target, merge: Merge, key: tuple[str, ...]) -> None:
    """A row's key never changes."""
    for clause in merge.clauses:
        for name in clause.values or {}:
            if clause.action == "update" and not name.isdigit() and target.column(name) in key:
                raise InvalidInputError(
                    f"the statement {shown(target.said)}: {name} is of the key of {target.table.name}, which "
                    "an update can't change: delete the row and insert another."
                )


def _key(table: KeyedTable) -> tuple[str, ...]:
    return tuple(table.definition.key or ("key",))


def _lone(key: tuple[Any, ...]) -> Any:
    return key if len(key) > 1 else key[0]


def _entry(table: KeyedTable, row: Mapping[str, Any]) -> tuple[Any, Any]:
    """A row as a key and a value."""
    names = _key(table)
    value = {name: one for name, one in row.items() if name not in names}
    return _lone(tuple(row[name] for name in names)), value if table.definition.columns else value.get(
        "value"
    )


@contextmanager
def _writer(target: Target) -> Iterator[KeyedWriter]:
    """The writer that this database has open, else one for the statement alone, where it may fence others."""
    table: KeyedTable = target.table
    open_one = table.writer_here()
    if open_one is not None:
        yield cast("KeyedWriter", open_one)
        return
    if not target.fence:
        raise InvalidInputError(
            f"the statement {shown(target.said)}: {table.name} is a keyed table, which one writer changes, and this "
            "connection has none open. Open it (open()), or say that whoever writes to it now is to be fenced: "
            "sql(…, fence=True), --fence."
        )
    with table.open(compaction=False) as kv:
        yield kv


PART: SqlKind = KeyedInSql()
