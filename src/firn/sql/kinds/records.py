"""Statements on record tables: one transaction each, computed anew if another one was faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from firn.errors import CardinalityError, InvalidInputError, UnsupportedError
from firn.predicate.select import shown
from firn.records.definition.definition import Index, is_json_schema
from firn.records.documents.documents import ID, Documents
from firn.records.documents.predicates import value_at
from firn.records.load.rows import load_rows
from firn.records.maintain.alter import definition_now
from firn.records.plan.transaction_read import TransactionTable
from firn.records.row_tables import RowTable
from firn.records.write.reads import documents_at
from firn.sql.kinds.keyed import keeps_first, merge_of, refuse_key
from firn.sql.kinds.kind import SourceRows, SqlKind, Target, TransactionVerb, refuse_lake_clauses
from firn.sql.kinds.matches import RowChange, row_changes
from firn.sql.outcome import Outcome
from firn.sql.syntax.statements import CreateTable, Insert, Merge

DOCUMENT = "document"


class RecordsInSql(SqlKind):
    title = "record"

    def is_closed(self, table: Any) -> bool:
        return table.definition.columns is not None

    def untyped(self, read: Any) -> Sequence[str]:
        indexed: Sequence[str] = read.indexed
        return indexed

    def is_whole(self, target: Target, rows: SourceRows) -> bool:
        return _is_whole(target, rows.columns)

    def transaction(self, table: Any) -> TransactionVerb | None:
        return "begin" if table.definition.isolation == "snapshot" else None

    def inside(self, table: Any, transaction: Any) -> Any:
        return TransactionTable(table, transaction) if self.transaction(table) else table

    def options(self, statement: CreateTable, options: Mapping[str, Any]) -> dict[str, Any]:
        refuse_lake_clauses(statement, "records")
        if statement.key not in ((), (ID,)):
            raise InvalidInputError(
                f"{statement.table}: the key of a record table is {ID}, which every row has."
            )
        schema = {name: kind for name, kind in statement.columns.items() if name != ID}
        if is_json_schema(schema):
            raise InvalidInputError(
                f"{statement.table}: its columns {', '.join(schema)} would be taken for a JSON schema, as one is "
                "called as a word of these: rename it."
            )
        given = dict(options)
        if isinstance(given.get("indices"), str):
            given["indices"] = [_index(text) for text in given["indices"].split(",")]
        return {"schema": schema or None, **given}

    def created(self, table: Any) -> CreateTable:
        found, indices = table.definition, []
        if self.transaction(table):
            found, indices = definition_now(table.session.store, found), table.indices()
        options = {
            "kind": "records",
            "indices": ", ".join(one.field + "[]" * one.each + " unique" * one.unique for one in indices),
            "isolation": "" if found.isolation == "snapshot" else found.isolation,
            **found.properties,
        }
        return CreateTable(
            table.name,
            columns=dict(found.columns or {}),
            options={name: value for name, value in options.items() if value != ""},
            comments=found.comments,
        )

    def insert(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        if statement.conflict is not None:
            return self.change(target, merge_of(target, rows, statement, (ID,)))
        table = target.table
        if ID not in rows.columns:
            raise InvalidInputError(f"the statement {shown(target.said)}: each row needs an {ID}, its id.")

        whole = self.is_whole(target, rows)

        def documents(known: Documents) -> dict[str, dict[str, Any]]:
            found: dict[str, dict[str, Any]] = {}
            for row in load_rows(rows.table(), known):
                id, document = _document(target, *row, whole=whole)
                if id in found:
                    raise CardinalityError(
                        f"the statement {shown(target.said)}: several rows of the source have the id {id!r}."
                    )
                found[id] = document
            return found

        if isinstance(table, RowTable):
            count = len(table.insert_many(documents(table.latest.now().documents)))
            return Outcome("insert", None, rows_inserted=count)

        def work(tx: Any) -> Outcome:
            new = documents(documents_at(tx, table.name))
            return Outcome("insert", rows_inserted=len(tx.insert_many(table.name, new)))

        return _committed(target, work)

    def change(self, target: Target, merge: Merge) -> Outcome:
        refuse_key(target, merge, (ID,))
        table = target.table
        if isinstance(table, RowTable):
            changes = list(row_changes(target, merge, (ID,)))
            if len(changes) > 1 or merge.source is not None:
                raise UnsupportedError(
                    f"the statement {shown(target.said)}: {table.name} has isolation='row': a statement changes one "
                    "row of it, like WHERE _id = '…'."
                )
            return _applied(target, merge, changes, table.get_many, _Alone(table))

        def work(tx: Any) -> Outcome:
            changes = list(row_changes(target, merge, (ID,)))
            return _applied(target, merge, changes, lambda ids: tx.get_many(table.name, ids), tx)

        return _committed(target, work)


def _committed(target: Target, work: Callable[[Any], Outcome]) -> Outcome:
    """The outcome of a transaction, with the number of its commit where it is one of its own."""
    begun: list[Any] = []

    def noted(tx: Any) -> Outcome:
        begun.append(tx)
        return work(tx)

    outcome: Outcome = target.tables.transact(noted)
    number = begun[-1].committed
    return outcome if number is None else replace(outcome, version=str(number))


class _Alone:
    """A table without transactions, by the verbs of one."""

    def __init__(self, table: RowTable) -> None:
        self._table = table

    def insert_many(self, name: str, rows: Mapping[str, Any]) -> Any:
        return self._table.insert_many(rows)

    def upsert_many(self, name: str, rows: Mapping[str, Any]) -> Any:
        return self._table.upsert_many(rows)

    def delete_many(self, name: str, ids: Any) -> Any:
        return self._table.delete_many(ids)


def _applied(
    target: Target,
    merge: Merge,
    changes: list[RowChange],
    get_many: Callable[[Any], Mapping[str, Any]],
    tx: Any,
) -> Outcome:
    updates = {c.key[0]: c.values for c in changes if c.clause.action == "update"}
    if not target.closed and any(values.get(DOCUMENT, "") is None for values in updates.values()):
        raise InvalidInputError(
            f"the statement {shown(target.said)} sets a document to NULL: delete the row, or set a field to NULL."
        )
    there = get_many(list(updates)) if updates else {}
    updated = {
        id: _document(target, id, dict(values), whole=True)[1]
        if _is_whole(target, values)
        else _changed(target, dict(there[id].document), values)
        for id, values in updates.items()
        if id in there
    }
    inserted: dict[str, dict[str, Any]] = {}
    for change in changes:
        if change.clause.action == "insert":
            fields = dict(change.values)
            id = fields.pop(ID, None)
            if id is None:
                raise InvalidInputError(
                    f"the statement {shown(target.said)}: each row needs an {ID}, its id."
                )
            whole = _is_whole(target, fields)
            _, document = _document(
                target, str(id), fields if whole else _changed(target, {}, fields), whole=whole
            )
            if str(id) in inserted and not keeps_first(merge):
                raise CardinalityError(
                    f"the statement {shown(target.said)}: several rows of the source have the id {id!r}."
                )
            inserted.setdefault(str(id), document)
    deleted = [c.key[0] for c in changes if c.clause.action == "delete"]
    name = target.table.name
    if inserted:
        tx.insert_many(name, inserted)
    if updated:
        tx.upsert_many(name, updated)
    gone = tx.delete_many(name, deleted) if deleted else []
    return Outcome(merge.op, None, len(inserted), len(updated), len(gone))


def _changed(target: Target, document: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A document with fields set; null takes a field out. A dotted path reaches into it; a declared column is a field
    of its own, whatever its name."""
    for name, value in values.items():
        inner = document
        *path, last = [name] if target.closed or name in document else name.split(".")
        for part in path:
            step = inner.get(part)
            inner[part] = inner = dict(step) if isinstance(step, Mapping) else {}
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return document


def _is_whole(target: Target, names: Iterable[str]) -> bool:
    """Whether these columns of an open table are its document, and indexed fields beside it."""
    own = set(names) - {ID}
    return not target.closed and DOCUMENT in own and own <= set(target.places)


def _document(
    target: Target, id: str, row: dict[str, Any], *, whole: bool = False
) -> tuple[str, dict[str, Any]]:
    """A row with its document, which may be given as one column of JSON.

    With `whole` indexed fields stand beside it, as queries have them; one that says something else than the document
    counts.
    """
    if not whole:
        return id, row
    try:
        found = orjson.loads(row.pop(DOCUMENT, None) or "{}")
        if isinstance(found, dict):
            others = {
                name: value
                for name, value in row.items()
                if name != ID and value is not None and _text(value_at(found, name)) != _text(value)
            }
            found = _changed(target, found, others)
        return id, found
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(
            f"the statement {shown(target.said)}: the document of {id!r} isn't JSON: {error}."
        ) from None


def _text(value: Any) -> str | None:
    """A value as the column of an indexed field has it."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _index(text: str) -> Index:
    """An index by its words: `city`, `email unique`, `tags[]`."""
    field, *words = text.split()
    if [word.upper() for word in words] not in ([], ["UNIQUE"]):
        raise InvalidInputError(f"indices: {text.strip()!r} isn't a field, or a field and UNIQUE.")
    return Index(field.removesuffix("[]"), unique=bool(words), each=field.endswith("[]"))


PART: SqlKind = RecordsInSql()
