"""Record tables in commands that take a table of any kind."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from firn.cli.kind import Ingest, LogOptions, ShellKind, TableRow
from firn.cli.records.group import records
from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.database.kinds.records import AnyRecordTable
    from firn.journal.sequence import LogRecord


class RecordsInShell(ShellKind):
    group = records
    verbs = ("read", "write", "load", "upkeep")

    def row(self, table: AnyRecordTable) -> TableRow:
        """`files` are the objects of rows, of which some may be of rows that were deleted."""
        layout = table.definition.layout(table.prefix)
        rows = table.bucket.list(layout.rows).objects
        newest = max((info.modified_ms for info in rows), default=None)
        return {
            "name": table.name,
            "kind": table.definition.kind,
            "rows": None,
            "files": len(rows),
            "bytes": sum(info.size for info in rows),
            "partition_by": [],
            "sort_by": [],
            "version": None,
            "time": None if newest is None else datetime.fromtimestamp(newest / 1000, timezone.utc),
        }

    def print_schema(self, table: AnyRecordTable, *, at: str | None, json: bool) -> None:
        if at is not None:
            raise InvalidInputError(
                f"{table.name} is a record table, whose columns are shown as they are now: leave out --at."
            )
        from firn.records.maintain.alter import definition_now
        from firn.records.table import RecordTable

        d, indices = table.definition, []
        if isinstance(table, RecordTable):
            d, indices = definition_now(table.session.store, d), table.indices()
        columns = {"_id": "VARCHAR", **(d.columns or {})}
        if json:
            output.document(
                {
                    "table": table.name,
                    "columns": [{"name": c, "type": t} for c, t in columns.items()],
                    "schema": d.schema,
                    "indices": [dataclasses.asdict(index) for index in indices],
                    "isolation": d.isolation,
                    "properties": dict(d.properties),
                }
            )
            return
        output.table(["column", "type"], columns.items())
        if d.columns is None:
            output.note(
                "Documents may have any other field."
                if d.schema is None
                else "Documents follow a JSON schema."
            )
        for index in indices:
            kind = "unique index" if index.unique else "index"
            kind += (" of each element" if index.each else "") + ("" if index.ready else ", being built")
            output.line(f"{kind}: {index.field}")
        output.line(f"isolation: {d.isolation}")
        for name, value in d.properties.items():
            output.line(f"property {name}: {value}")

    def print_log(self, database: Database, table: AnyRecordTable, asked: LogOptions) -> None:
        if asked.writer is not None or asked.at is not None:
            raise InvalidInputError(f"{table.name} is a record table: leave --writer and --at out.")
        _print_commits(table, asked.limit, asked.json)

    def check_ingest(self, table: AnyRecordTable | None, asked: Ingest) -> None:
        from firn.cli.records.load import id_of

        asked.refuse_lake_options("record")
        id_of(asked.name, asked.key)
        if table is not None:
            asked.refuse_properties()

    def columns(self, table: AnyRecordTable) -> dict[str, str]:
        from firn.records.maintain.alter import definition_now
        from firn.records.table import RecordTable

        d = table.definition
        if isinstance(table, RecordTable):
            d = definition_now(table.session.store, d)
        return dict(d.columns or {})

    def ingest(
        self, database: Database, table: AnyRecordTable | None, frame: DataFrame, asked: Ingest
    ) -> None:
        from firn.cli.records.load import create_for, id_of, load_frame

        id = id_of(asked.name, asked.key)
        into = table or create_for(database, asked.name, frame, id, asked.properties)
        load_frame(database, into, frame, id, asked.json)


def _print_commits(table: AnyRecordTable, limit: int | None, json: bool) -> None:
    """The commits that changed a table and are still in the log, the newest last."""
    from firn.records.table import RecordTable

    if not isinstance(table, RecordTable):
        raise InvalidInputError(f"{table.name} has isolation='row': its rows are changed without commits.")
    log = table.session.store.log
    head = log.refresh()
    horizon = log.learn(log.store.horizon())
    found = [
        line for record in log.records(horizon.lo, head.number) if (line := _commit_line(table.name, record))
    ]
    found = found if limit is None else found[max(0, len(found) - limit) :]
    if json:
        output.document({"table": table.name, "head": head.number, "applied": log.applied, "commits": found})
        return
    rows = [
        (
            f"{line['commit']:,}",
            f"{line['transactions']:,}",
            f"{line['put']:,}",
            f"{line['deleted']:,}",
            line["changed"],
        )
        for line in found
    ]
    if rows:
        output.table(["commit", "transactions", "rows put", "deleted", ""], rows, right=(0, 1, 2, 3))
    else:
        output.note(f"No commit in the log changed {table.name}; the last one is {head.number:,}.")


def _commit_line(table: str, record: LogRecord) -> dict[str, Any] | None:
    members = [
        member
        for member in record.group
        if (member.ddl is not None and member.ddl.table == table)
        or any(write.table == table for write in member.writes)
    ]
    if not members:
        return None
    writes = [write for member in members for write in member.writes if write.table == table]
    changed = ", ".join(
        f"{member.ddl.verb} {member.ddl.field}".strip() for member in members if member.ddl is not None
    )
    return {
        "commit": record.number,
        "transactions": len(members),
        "txids": [member.txid for member in members],
        "put": sum(not write.deletes for write in writes),
        "deleted": sum(write.deletes for write in writes),
        "rows": [write.id for write in writes],
        "changed": changed,
    }


PART: ShellKind = RecordsInShell()
