"""Append and register: verbs that add files and remove none. No lock, no conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from firn.arrow.engine import run_query
from firn.arrow.inputs import InputRows, to_reader
from firn.arrow.texts import checked, unchecked
from firn.arrow.types import columns_of, conform
from firn.errors import AppendExpiredError, InvalidInputError, SchemaConflictError, UnsupportedError
from firn.journal.columns import check_new_names, evolve, of_text
from firn.journal.model import (
    AppendTicket,
    ColumnTypes,
    Commit,
    Counted,
    DataFile,
    KnownColumns,
    Namer,
    Snapshot,
)
from firn.lake.context import LakeContext, Written
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import check_columns
from firn.lake.partition.placement import refuse_moves
from firn.lake.results import AppendResult
from firn.lake.write.inline import Batches, inlined, placed
from firn.lake.write.sort import unknown_order
from firn.lake.write.write import WriteSpec, conformed, write_batches
from firn.names import fold
from firn.predicate.predicate import Query

ATTEMPTS = 3


def append(
    table: LakeContext,
    data: Any,
    *,
    batch_id: str | None = None,
    query: str | None = None,
    summary: Mapping[str, Any] | None = None,
) -> AppendResult:
    """See `LakeTable.append`."""
    if batch_id is not None and (seen := table.journal.seen_batch(batch_id)) is not None:
        return AppendResult(seen, 0, 0, 0, duplicate=True)
    for attempt in range(ATTEMPTS):
        ticket = table.journal.begin_append()
        written, repeatable = write(table, data, ticket.namer, query=query, inline=True)
        if not written.files and batch_id is None:
            return AppendResult(table.journal.snapshot().version, 0, 0, 0)
        commit = commit_of(table, written, batch_id=batch_id, summary=summary)
        try:
            version = publish(table, ticket, commit)
        except AppendExpiredError:
            if repeatable and attempt + 1 < ATTEMPTS:
                continue  # rule 3: start over under new names
            raise
        return _result(version, written.files)
    raise AssertionError("unreachable")


def publish(table: LakeContext, ticket: AppendTicket, commit: Commit) -> str:
    """Commit an append; the version. The table's keeper, if it has one here, takes note of it."""
    version = ticket.commit(commit)
    if table.definition.keeps_itself:
        table.engines.appended(table)
    return version


def commit_of(
    table: LakeContext,
    written: Written,
    *,
    batch_id: str | None = None,
    summary: Mapping[str, Any] | None = None,
    counted: Counted | None = None,
) -> Commit:
    """The append of what was written."""
    return Commit(
        "append",
        written.files,
        columns=written.naming.in_files(written.columns),
        names=written.naming.brought(written.columns),
        batch_id=batch_id,
        summary=summary or {},
        clocked=table.keys is not None,
        counted=counted,
    )


def check_rows(
    table: LakeContext, known: KnownColumns, data: Any, namer: Namer
) -> tuple[KnownColumns, pa.Table]:
    """What is known of the columns once `data` is appended, and its rows under the columns that they have. Nothing is
    written.

    Raises:
        InvalidInputError: the rows can't be appended to a table of which this is `known`.
    """
    rows = to_reader(data, known=known.columns)
    seen = table.at(known)
    incoming = _incoming(seen, known.columns, rows)
    seen, columns, all_columns = agreed_columns(seen, known, incoming, None, rows.schema.names)
    spec = WriteSpec.of(seen, columns, namer, texts=_texts(rows, incoming))
    spec = spec.checking(seen.definition, all_columns)
    taken = pa.concat_tables(conformed(spec, rows.batches()))
    placed(spec, taken)
    return replace(known, columns=all_columns), taken


def write(
    table: LakeContext,
    data: Any,
    namer: Namer,
    *,
    query: str | None = None,
    by: Snapshot | None = None,
    inline: bool = False,
) -> tuple[Written, bool]:
    """Write `data` as files that nobody sees yet; also whether `data` can be written once more.

    Rows are written by what appenders know of the table, or, of maintenance, `by` the snapshot that it changes: what
    was known before may call another column by a name. Files of maintenance may have columns, too, that hold what was
    set aside, which the commit's schema doesn't tell. With `inline` few rows are only encoded, for their log to hold
    them, if the table wants that.

    Schema conflicts are refused before anything is uploaded.
    """
    aside = frozenset() if by is None else by.aside
    if table.engines.is_dataframe(data):
        return table.engines.load(table, data, namer=namer, query=query, by=by), True
    began = table.journal.moment() if by is None else None
    known = table.journal.known() if by is None else KnownColumns.of(by)
    rows = to_reader(data, known=known.columns)
    if query is not None:
        rows = _transformed(rows, query, known.columns)
    seen = table.at(known)
    incoming = _incoming(seen, known.columns, rows)
    try:
        seen, columns, all_columns = agreed_columns(
            seen, known, incoming, began, rows.schema.names, aside=aside
        )
    except SchemaConflictError:
        # What others have altered since may be another column of this name, and values were taken for the former's.
        if rows.repeatable and _is_older(table, known, began):
            return write(table, data, namer, query=query, inline=inline)
        raise
    spec = WriteSpec.of(seen, columns, namer, aside=aside, texts=_texts(rows, incoming))
    spec = spec.checking(seen.definition, all_columns)
    batches: Batches = rows.batches()
    limit = seen.definition.inline if inline else 0
    try:
        part = None
        if limit:
            part, batches = inlined(spec, batches, limit)
        files = write_batches(table.bucket, spec, batches) if part is None else [part]
        return Written(files, columns, spec.naming), rows.repeatable
    except InvalidInputError:
        # Others may have let the column take any text meanwhile.
        if spec.texts and rows.repeatable and _is_older(table, known, began):
            return write(table, rows, namer, inline=inline)
        raise


def _is_older(table: LakeContext, known: KnownColumns, began: float | None) -> bool:
    """Whether the table has other columns since the append began."""
    return began is not None and table.journal.known(since=began).columns != known.columns


def directories_of(table: LakeContext, data: Any) -> set[str]:
    """The partitions' directories that rows would go to. Nothing is written.

    Raises:
        UnsupportedError: the rows are a Spark DataFrame's.
    """
    if table.engines.is_dataframe(data):
        raise UnsupportedError(
            f"{table.name}: a dry run doesn't compute a Spark DataFrame. Leave dry_run out, or pass the rows in "
            "another form."
        )
    seen = table.journal.known()
    table, known = table.at(seen), seen.columns
    rows = to_reader(data, known=known)
    incoming = _incoming(table, known, rows)
    columns = target_columns(table.definition, known, incoming)
    texts = _texts(rows, incoming)
    return {
        part.directory
        for batch in rows.batches()
        for part in table.partition_spec.split(conform(checked(pa.table(batch), texts), columns))
    }


def _texts(rows: InputRows, incoming: ColumnTypes) -> dict[str, str]:
    """The columns of text that become another type, unless the rows are known to be of that one."""
    has = {
        name: kind for name, kind in columns_of(rows.schema).items() if rows.columns[name] != incoming[name]
    }
    return unchecked(has, incoming)


def _incoming(table: LakeContext, known: ColumnTypes, rows: InputRows) -> dict[str, str]:
    """The columns of rows to be written. Lists that are all empty have the table's type, if it has one, and texts
    that of a UUID, JSON or ENUM."""
    schema, columns = rows.schema, columns_of(rows.schema)
    types = {fold(name): kind for name, kind in known.items()}
    for name, kind in rows.columns.items():
        if types.get(fold(name), kind) == kind:
            columns[name] = kind
        else:
            columns[name] = of_text(columns[name], types[fold(name)])
    for field in schema:
        if field.name in columns or field.type == "null":
            continue
        if fold(field.name) not in types:
            raise InvalidInputError(
                f"{table.name}: the column {field.name!r} ({field.type}) holds nothing that tells its type, and "
                "the table has no such column yet. Pass an Arrow table with the type that it should have."
            )
        columns[field.name] = types[fold(field.name)]
    if not columns:  # rows of nothing but nulls are rows, where the table knows their columns
        columns = {name: types[fold(name)] for name in schema.names if fold(name) in types}
    for name in () if table.keys is None else table.keys.key:
        null = next((field.name for field in schema if fold(field.name) == fold(name)), None)
        if null is not None and null not in columns and fold(name) not in types:
            raise InvalidInputError(
                f"{table.name}: the rows have null in {null!r}, a column of the table's key: give them a value, or "
                "leave them out."
            )
    return {field.name: columns[field.name] for field in schema if field.name in columns}


def agreed_columns(
    table: LakeContext,
    known: KnownColumns,
    incoming: ColumnTypes,
    began: float | None,
    names: Sequence[str],
    *,
    aside: frozenset[str] = frozenset(),
) -> tuple[LakeContext, dict[str, str], ColumnTypes]:
    """The table as it is written by, `target_columns`, and all columns that it has then. An append that brings a
    column, or a type that doesn't fit, looks first whether others have brought it since it `began`: 1 LIST, and newer
    logs. Maintenance has looked (None). The first append of all tells what is no column of the sort order; `names`
    are those that the rows have, `incoming` those whose type is known. `aside` are columns of what was set aside that
    rows may have.

    Raises:
        InvalidInputError: rows have another column of what was set aside, which would become one of its own.
    """
    incoming = {**incoming, **_explicit_nulls(known, incoming, names)}
    with suppress(SchemaConflictError):
        found = target_columns(table.definition, known.columns, incoming)
        spelled = {fold(name) for name in known.columns}
        if all(fold(name) in spelled for name in incoming) and _set_aside(known, incoming, aside) is None:
            return table, found, {**known.columns, **found}
    if began is not None:
        known = table.journal.known(since=began)
    refuse_set_aside(table.name, known, incoming, aside)
    if not known.columns:
        _refuse_unknown_order(table, names)
    table = table.at(known)
    found = target_columns(table.definition, known.columns, incoming)
    return table, found, {**known.columns, **found}


def refuse_set_aside(
    table: str, known: KnownColumns, incoming: Iterable[str], aside: frozenset[str] = frozenset()
) -> None:
    """Refuse rows with columns of what was set aside, but for those in `aside`."""
    if (name := _set_aside(known, incoming, aside)) is not None:
        column = known.aside[name]
        raise InvalidInputError(
            f"{table}: {name!r} holds values of {column!r} that were set aside, as their type didn't fit, and rows "
            f"can't bring more of them. Nothing was changed. First resolve({column!r}) to make these one column; or "
            f"leave {name!r} out of the rows."
        )


def _set_aside(known: KnownColumns, names: Iterable[str], aside: frozenset[str]) -> str | None:
    beside = {fold(name): name for name in known.aside.keys() - aside}
    return next((beside[folded] for name in names if (folded := fold(name)) in beside), None)


def _explicit_nulls(known: KnownColumns, incoming: ColumnTypes, names: Sequence[str]) -> dict[str, str]:
    """Columns of rows that hold nothing but null, whose rows would have the default if the files lacked them."""
    given, typed = set(map(fold, names)), set(map(fold, incoming))
    lacking = (name for name in known.naming.defaults if fold(name) in given - typed)
    return {name: known.columns[name] for name in lacking}


def _refuse_unknown_order(table: LakeContext, names: Sequence[str]) -> None:
    unknown = unknown_order(table.definition.sort_by, names)
    if unknown is not None:
        raise InvalidInputError(
            f"{table.name}: sort_by names {unknown!r}, and its first rows have no such column (they have: "
            f"{', '.join(names)}). Give them the column; or drop_table({table.name!r}), and create it with another "
            "sort_by, or with a schema that has the column."
        )


def target_columns(definition: LakeDefinition, known: ColumnTypes, incoming: ColumnTypes) -> dict[str, str]:
    """The types under which `incoming` columns are written: the table's, widened where that is allowed. Pure.

    Raises:
        SchemaConflictError: types that nothing joins; nothing was written.
        InvalidInputError: a column of the partitions is missing, or of a type by which rows can't be dealt out.
    """
    check_new_names(known, incoming)
    evolved = evolve(known, incoming, allow_widening=not definition.shared, explicit=definition.explicit)
    spelled = {fold(c): c for c in evolved}
    if missing := [c for c in definition.required_columns if fold(c) not in spelled]:
        role = "its key is made of" if definition.keys is not None else "the table is partitioned by"
        raise InvalidInputError(
            f"{definition.name}: the column {missing[0]!r}, which {role}, is neither in the "
            f"table nor in these rows (they have: {', '.join(incoming) or 'none'})."
        )
    for field in definition.partition.fields:
        name = spelled[fold(field.source)]
        if evolved[name] != known.get(name):
            field.check_type(evolved[name], definition.name)
    if definition.keys is not None:
        check_columns(definition.keys, evolved)
        refuse_moves(definition.name, definition.partition, known, evolved)
    # Rows that lack a column by which they are placed have null there, and go to the null partition.
    names = dict.fromkeys([spelled[fold(c)] for c in (*incoming, *definition.required_columns)])
    return {name: evolved[name] for name in names}


def _transformed(rows: InputRows, query: str, known: ColumnTypes) -> InputRows:
    text = Query.parse(query, "_rows").sql
    table = pa.Table.from_batches(rows.batches(), rows.schema)
    return to_reader(run_query(text, {"_rows": table}, types=rows.columns), known=known)


def _result(version: str, files: Sequence[DataFile]) -> AppendResult:
    count = sum(f.inlined is None for f in files)
    return AppendResult(version, count, sum(f.rows or 0 for f in files), sum(f.size for f in files))
