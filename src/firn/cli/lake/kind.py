"""Lake tables in commands that take a table of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.cli.kind import Ingest, LogOptions, ShellKind, TableRow
from firn.cli.terminal import output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.lake.table import LakeTable


class LakeInShell(ShellKind):
    def row(self, table: LakeTable) -> TableRow:
        snapshot, d = table.snapshot(), table.context.definition
        rows = [f.live_rows for f in snapshot.files]
        return {
            "name": table.name,
            "kind": d.kind,
            "rows": None if None in rows else sum(r for r in rows if r is not None),
            "files": len(snapshot.files),
            "bytes": sum(f.size for f in snapshot.files),
            "partition_by": [str(f) for f in d.partition.fields],
            "sort_by": list(d.sort_by),
            "version": snapshot.version,
            "time": snapshot.time,
        }

    def print_schema(self, table: LakeTable, *, at: str | None, json: bool) -> None:
        snapshot, d = table.snapshot(at), table.context.definition
        for warning in snapshot.warnings:
            output.warn(warning)
        fields = [str(f) for f in d.partition.fields]
        if json:
            output.document(
                {
                    "table": table.name,
                    "version": snapshot.version,
                    "columns": [{"name": c, "type": t} for c, t in snapshot.columns.items()],
                    "partition_by": fields,
                    "sort_by": list(d.sort_by),
                    "properties": dict(d.properties),
                }
            )
            return
        output.table(["column", "type"], snapshot.columns.items())
        if not snapshot.columns:
            output.note("No columns yet: the first append decides them.")
        for title, values in (("partitioned by", fields), ("sorted by", d.sort_by)):
            if values:
                output.line(f"{title}: {', '.join(values)}")
        for name, value in d.properties.items():
            output.line(f"property {name}: {value}")

    def print_log(self, database: Database, table: LakeTable, asked: LogOptions) -> None:
        from firn.cli.lake.history import print_commits

        print_commits(database, table, asked)

    def check_ingest(self, table: LakeTable | None, asked: Ingest) -> None:
        """Only a read of the files tells what they have to do with it."""

    def columns(self, table: LakeTable) -> dict[str, str]:
        return dict(table.snapshot().columns)

    def ingest(self, database: Database, table: LakeTable | None, frame: DataFrame, asked: Ingest) -> None:
        from firn.cli.lake.ingest import append_frame

        append_frame(database, table, frame, asked)


PART: ShellKind = LakeInShell()
