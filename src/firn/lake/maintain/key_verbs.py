"""The verbs that tables with a key have of their own: update, and delete by predicate or key.

Both add versions of rows and remove nothing; see docs/design/0008-keys.md. They hold the table's lock, so that an
update sees the one before, and so that their commits sort above all that they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from firn.arrow.engine import run_query
from firn.arrow.inputs import InputRows, to_reader
from firn.arrow.types import conform
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes, DataFile, Session, Snapshot
from firn.journal.typenames import quoted
from firn.lake.context import LakeContext
from firn.lake.definition.keys import DELETED, HIDDEN, KeySpec
from firn.lake.maintain.change import FileChange, nothing, publish, run_tasks
from firn.lake.partition.partition import directory_of
from firn.lake.read.latest import LatestSpec, VersionGroup, read_latest
from firn.lake.read.scan import Scan
from firn.lake.results import AppendResult, ChangeResult
from firn.lake.write.append import append
from firn.lake.write.write import WriteSpec, write_batches
from firn.names import fold
from firn.predicate.predicate import outline, parse_value

SOURCE = "~rows"
"""Name of the rows at hand in the queries made here. No column has this name: a field of a struct of the same name
would be taken for a column."""


@dataclass(frozen=True)
class ReviseContext:
    """New versions of the rows that `latest` picks: what `query`, a SELECT, makes of `SOURCE`. Picklable."""

    latest: LatestSpec
    write: WriteSpec
    query: str
    what: str


def revise_task(bucket: Bucket, context: ReviseContext, groups: Sequence[VersionGroup]) -> list[DataFile]:
    """Write new versions of the groups' rows. Cost: that of `read_latest`, and 1 PUT a file."""

    def revised() -> Iterator[pa.Table]:
        for group in groups:
            for rows in read_latest(bucket, group, context.latest):
                types = context.latest.read.columns
                made = run_query(context.query, {SOURCE: rows}, what=context.what, types=types)
                yield conform(made, context.write.columns)

    return write_batches(bucket, context.write, revised())


def require_keys(table: LakeContext, verb: str) -> KeySpec:
    """The table's key; `InvalidInputError` if it has none."""
    if table.keys is None:
        raise InvalidInputError(
            f"{table.name} has no key, which {verb} needs: create the table with key=[…], or use append, delete and "
            "overwrite."
        )
    return table.keys


def upsert(table: LakeContext, data: Any, *, batch_id: str | None, query: str | None) -> AppendResult:
    """See `LakeTable.upsert`."""
    require_keys(table, "upsert")
    return append(table, data, batch_id=batch_id, query=query)


def update(table: LakeContext, where: str, set_: Mapping[str, str], *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.update`."""
    require_keys(table, "update")
    if dry_run:
        scan = Scan(table, where=where)
        columns = scan.snapshot.columns
        _assignments(table, require_keys(scan.table, "update").bound(columns), set_, scan)
        rows = scan.count()
        return ChangeResult("update", rows_updated=rows, dry_run=True)
    with table.journal.exclusive("update") as session:
        scan = Scan(table, where=where, snapshot=session.snapshot)
        table, columns = scan.table, scan.snapshot.columns
        changed = _assignments(table, require_keys(table, "update").bound(columns), set_, scan)
        replaced = ", ".join(f"(\n{value}\n) AS {quoted(name)}" for name, value in changed.items())
        context = ReviseContext(
            scan.latest_spec(),
            WriteSpec.of(table, columns, session.namer, aside=scan.snapshot.aside).checking(
                table.definition, columns
            ),
            f'SELECT * REPLACE ({replaced}) FROM "{SOURCE}"',
            f"what update sets {', '.join(changed)} to",
        )
        adds = _revised(table, session, scan, context, "update")
        summary = {"where": outline(where), "columns": list(changed)}
        return _published(table, session, "update", adds, summary)


def _assignments(table: LakeContext, keys: KeySpec, set_: Mapping[str, str], scan: Scan) -> dict[str, str]:
    columns = scan.snapshot.columns
    if not set_:
        raise InvalidInputError(
            f"update of {table.name} says nothing to set: pass something like {{'n': 'n + 1'}}."
        )
    found: dict[str, str] = {}
    for given, text in set_.items():
        name = table.column_of(given, columns)
        if name in keys.key:
            raise InvalidInputError(
                f"{name!r} is part of the key of {table.name}, by which a row is known: delete the row, and upsert "
                "it under its new key."
            )
        if name in found:
            raise InvalidInputError(f"the column {name!r} is set twice.")
        if not isinstance(text, str):
            raise InvalidInputError(
                f"the column {name!r} is set to {text!r}; write it as an expression in DuckDB's SQL, as text: "
                "'5', 'NULL', or '''a text'''."
            )
        found[name] = parse_value(text, columns)
    return found


def delete(table: LakeContext, where: str, *, soft: bool | None, dry_run: bool) -> ChangeResult:
    """See `LakeTable.delete`."""
    if soft is not None:
        raise UnsupportedError(
            f"{table.name} has a key: without the newest version of a row an older one would be back, so rows are "
            f"deleted by key, neither softly nor by rewriting files. Leave soft={soft} out; to be rid of the bytes, "
            "merge and sweep."
        )
    if dry_run:
        rows = Scan(table, where=where).count()
        return ChangeResult("delete", rows_deleted=rows, dry_run=True)
    with table.journal.exclusive("delete") as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        bound = require_keys(table, "delete").bound(snapshot.columns)
        scan = Scan(table, columns=bound.columns, where=where, snapshot=snapshot)
        names = ", ".join(map(quoted, bound.columns))
        context = ReviseContext(
            scan.latest_spec(),
            WriteSpec.of(table, {**scan.columns, DELETED: HIDDEN[DELETED]}, session.namer),
            f'SELECT {names}, {_now(table, session)}::BIGINT AS {DELETED} FROM "{SOURCE}"',
            "the delete",
        )
        adds = _revised(table, session, scan, context, "delete")
        return _published(table, session, "delete", adds, {"where": outline(where)})


def delete_keys(table: LakeContext, data: Any, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.delete_keys`."""
    require_keys(table, "delete_keys")
    if dry_run:
        snapshot = table.journal.snapshot()
        table = table.at(snapshot)
        bound = require_keys(table, "delete_keys").bound(snapshot.columns)
        doomed = _keys_of(table, bound, data, snapshot.columns)
        count = _there(table, bound, doomed, snapshot) if snapshot.files else 0
        return ChangeResult("delete", rows_deleted=count, dry_run=True)
    with table.journal.exclusive("delete") as session:
        table, known = table.at(session.snapshot), session.snapshot.columns
        bound = require_keys(table, "delete_keys").bound(known)
        rows = _keys_of(table, bound, data, known)
        declared = all(name in known for name in bound.columns)
        if not session.snapshot.files and not (declared and bound.version_by is not None):
            return nothing("delete")  # with `version_by`, an older row may come yet
        columns = {name: known[name] for name in bound.columns}
        now = pa.scalar(_now(table, session), pa.int64())
        spec = WriteSpec.of(table, {**columns, DELETED: HIDDEN[DELETED]}, session.namer)

        def deletions() -> Iterator[pa.Table]:
            for batch in rows.batches():
                conformed = conform(batch, columns)
                yield conformed.append_column(DELETED, pa.repeat(now, conformed.num_rows))

        adds = write_batches(table.bucket, spec, deletions())
        result = _published(table, session, "delete", adds, {})
        # Nobody has looked which of the keys are there, and older than what deletes them.
        return replace(result, rows_deleted=None) if adds else result


def _keys_of(table: LakeContext, bound: KeySpec, data: Any, known: ColumnTypes) -> InputRows:
    """Rows of keys to be deleted; `InvalidInputError` if they have other columns."""
    rows = to_reader(data, known=known)
    if {fold(name) for name in rows.schema.names} != {fold(name) for name in bound.columns}:
        raise InvalidInputError(
            f"delete_keys of {table.name} takes rows with the columns {', '.join(bound.columns)}; these have: "
            f"{', '.join(rows.schema.names) or 'none'}."
        )
    return rows


def _there(table: LakeContext, bound: KeySpec, doomed: InputRows, snapshot: Snapshot) -> int:
    """How many rows of these keys there are that aren't newer than what would delete them."""
    columns = {name: snapshot.columns[name] for name in bound.columns}
    given = pa.concat_tables([conform(batch, columns) for batch in doomed.batches()])
    names = [quoted(name) for name in bound.key]
    same = " AND ".join(f"t.{name} = d.{name}" for name in names)
    if bound.version_by is not None:
        by = quoted(bound.version_by)
        same += f" AND (t.{by} IS NULL OR t.{by} <= d.{by})"
    rows = Scan(table, columns=bound.columns, snapshot=snapshot).to_arrow()
    query = f"SELECT count(*) AS n FROM t WHERE EXISTS (SELECT 1 FROM d WHERE {same})"
    return int(run_query(query, {"t": rows, "d": given}).column(0)[0].as_py())


def _now(table: LakeContext, session: Session) -> int:
    return max(table.journal.now_ms(), session.snapshot.time_ms)


def _revised(
    table: LakeContext, session: Session, scan: Scan, context: ReviseContext, op: str
) -> list[DataFile]:
    by_directory: dict[str, list[VersionGroup]] = {}  # a task each, so that one file comes of few rows
    for group in scan.groups():
        by_directory.setdefault(directory_of(group.files[0], table.places), []).append(group)
    tasks = [*by_directory.values()]
    weights = [sum(group.bytes for group in groups) for groups in tasks]
    return [f for files in run_tasks(table, session, revise_task, tasks, context, weights, op) for f in files]


def _published(
    table: LakeContext, session: Session, op: str, adds: Sequence[DataFile], summary: Mapping[str, Any]
) -> ChangeResult:
    """The commit of new versions, one a row."""
    if not adds:
        return nothing(op)
    count = sum(file.rows or 0 for file in adds)
    result = publish(table, session, session.snapshot, op, FileChange(adds), summary)
    updated, deleted = (0, count) if op == "delete" else (count, 0)
    return replace(result, rows_updated=updated, rows_deleted=deleted)
