"""The definitions of record tables, which the log carries: what a change of them does. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from firn.errors import ConflictError, NotFoundError, TableExistsError, TableNotFoundError
from firn.journal.sequence.model import Catalog, Ddl, IndexState, LogRecord, LogTransaction, TableState


def after(record: LogRecord) -> Catalog:
    """The definitions after a record, whose own are those before it."""
    return after_members(record.catalog, record.group, record.number)


def after_members(catalog: Catalog, group: Iterable[LogTransaction], number: int) -> Catalog:
    """The definitions after these members of record `number`."""
    for member in group:
        if member.ddl is not None:
            catalog = changed(catalog, member.ddl, number)
    return catalog


def changed(catalog: Catalog, ddl: Ddl, number: int) -> Catalog:
    """The definitions after a change that record `number` makes.

    Raises:
        TableExistsError, TableNotFoundError, NotFoundError, ConflictError: it doesn't fit those that are.
    """
    table = catalog.get(ddl.table)
    if ddl.verb == "create":
        # An earlier one was dropped, or never finished: the creator has checked this.
        if table is not None and table.generation >= ddl.generation:
            raise TableExistsError(f"the table {ddl.table!r} exists; open it, or choose another name")
        ready = {
            name: IndexState("ready", unique, number, number, each=name in ddl.each)
            for name, unique in ddl.indices
        }
        return {**catalog, ddl.table: TableState(number, ddl.isolation, ready, generation=ddl.generation)}
    if table is None:
        raise TableNotFoundError(f"there is no record table {ddl.table!r}: it was dropped, or never created")
    if ddl.verb in ("drop", "alter") and ddl.generation != table.generation:
        raise TableNotFoundError(f"the record table {ddl.table!r} is another by now; open it again")
    if ddl.verb == "alter":
        return {**catalog, ddl.table: _altered(table, ddl, number)}
    if ddl.verb == "drop":
        return {name: state for name, state in catalog.items() if name != ddl.table}
    fields = dict(table.fields)
    index = fields.pop(ddl.field, None)
    if ddl.verb == "build":
        if index is not None:
            raise ConflictError(
                f"the table {ddl.table!r} has an index on {ddl.field!r} already; use it, or drop it first"
            )
        generation = table.gone.get(ddl.field, 0)
        fields[ddl.field] = IndexState("build", ddl.unique, number, 0, generation, ddl.field in ddl.each)
    elif index is None or (ddl.built and ddl.built != index.built):
        there = (
            f"there is one on {', '.join(sorted(table.fields))}" if table.fields else "there is none at all"
        )
        why = "it was dropped meanwhile" if ddl.built else there
        raise NotFoundError(f"the table {ddl.table!r} has no index on {ddl.field!r}: {why}")
    elif ddl.verb == "ready":
        fields[ddl.field] = index if index.ready else replace(index, stage="ready", ready=number)
    gone = table.gone
    if ddl.verb == "unindex" and index is not None:
        gone = {**gone, ddl.field: index.generation + 1}
    return {**catalog, ddl.table: replace(table, fields=fields, gone=gone)}


def _altered(table: TableState, ddl: Ddl, number: int) -> TableState:
    comments = {**table.comments, **dict(ddl.comments)}
    altered = replace(
        table,
        properties={**table.properties, **dict(ddl.properties)},
        comments={name: text for name, text in comments.items() if text is not None},
    )
    return altered if ddl.documents is None else replace(altered, altered=number, documents=ddl.documents)
