"""Lake tables in commands that take a table of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firn.cli.kind import Ingest, LogOptions, ShellKind, TableRow
from firn.cli.terminal import output, waiting
from firn.cli.write import new_columns, print_appended
from firn.errors import InvalidInputError
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.lake.maintain.alter import ColumnDefinition
    from firn.lake.table import LakeTable


class LakeInShell(ShellKind):
    def row(self, table: LakeTable) -> TableRow:
        snapshot, d = table.snapshot(), table.context.definition
        rows = [f.live_rows for f in snapshot.files]
        return {
            "name": table.name,
            "kind": d.kind,
            "rows": None if None in rows else sum(r for r in rows if r is not None),
            "files": len(snapshot.objects),
            "bytes": sum(f.size for f in snapshot.files),
            "partition_by": [str(f) for f in d.partition.fields],
            "sort_by": list(d.sort_by),
            "version": snapshot.version,
            "time": snapshot.time,
        }

    def print_schema(self, table: LakeTable, *, at: str | None, json: bool) -> None:
        snapshot = table.snapshot(at)
        for warning in snapshot.warnings:
            output.warn(warning)
        found = table.definition(at)
        fields = [str(f) for f in found.partition.fields]
        if json:
            output.document(
                {
                    "table": table.name,
                    "version": found.version,
                    "columns": [_column(c) for c in found.columns],
                    "partition_by": fields,
                    "sort_by": list(found.sort_by),
                    "properties": dict(found.properties),
                    **({"checks": dict(found.checks)} if found.checks else {}),
                    **({"comment": found.comment} if found.comment else {}),
                }
            )
            return
        _print_columns(found.columns)
        if not found.columns:
            output.note("No columns yet: the first append decides them.")
        for title, values in (("partitioned by", fields), ("sorted by", found.sort_by)):
            if values:
                output.line(f"{title}: {', '.join(values)}")
        for name, value in found.properties.items():
            output.line(f"property {name}: {value}")
        for name, text in found.checks.items():
            output.line(f"check {name}: {text}")
        if found.comment:
            output.line(f"comment: {found.comment}")

    def print_log(self, database: Database, table: LakeTable, asked: LogOptions) -> None:
        from firn.cli.lake.history import print_commits

        print_commits(database, table, asked)

    def check_ingest(self, table: LakeTable | None, asked: Ingest) -> None:
        """Only a read of the files tells what they have to do with it."""

    def columns(self, table: LakeTable) -> dict[str, str]:
        return dict(table.snapshot().columns)

    def ingest(self, database: Database, table: LakeTable | None, frame: DataFrame, asked: Ingest) -> None:
        _append(database, table, frame, asked)


def _column(column: ColumnDefinition) -> dict[str, str]:
    """A column as JSON has it: what `alter` changed of it stands where it was changed."""
    told = {"name": column.name, "type": column.type}
    more = {"default": column.default, "comment": column.comment}
    if column.physical != column.name:
        told["physical"] = column.physical
    return told | {key: text for key, text in more.items() if text is not None}


def _print_columns(columns: Sequence[ColumnDefinition]) -> None:
    rows = [_column(column) for column in columns]
    titles = {
        "name": "column",
        "type": "type",
        "default": "default",
        "physical": "in files",
        "comment": "comment",
    }
    shown = [key for key in titles if key in ("name", "type") or any(key in row for row in rows)]
    output.table([titles[key] for key in shown], [[row.get(key, "") for key in shown] for row in rows])


def _append(database: Database, found: LakeTable | None, frame: DataFrame, asked: Ingest) -> None:
    """Append it, and say so."""
    new: dict[str, str | None] = {}
    if asked.query is None:
        from firn.spark.session.types import columns_of_schema

        has = {} if found is None else dict(found.snapshot().columns)
        new = new_columns(columns_of_schema(frame.schema), frame.columns, has)
    table = _existing_or_new(database, found, frame, asked)
    meter = waiting.Meter(table.bucket)
    with waiting.progress(database, f"ingesting into {asked.name}"):
        write = table.upsert if asked.upsert else table.append
        result = write(frame, batch_id=asked.batch_id, query=asked.query)
    print_appended(table, result, meter, asked.json, new, "--schema DDL")


def _existing_or_new(
    database: Database, table: LakeTable | None, frame: DataFrame, asked: Ingest
) -> LakeTable:
    """The table as it is; a definition that was asked for beside it must be its own."""
    name = asked.name
    if table is None:
        if asked.upsert and not asked.key:
            raise InvalidInputError(f"--upsert needs a table with a key: create {name} with --key.")
        if asked.query is None:
            _check_columns(frame, asked)
        return database.create_table(
            name,
            partition_by=asked.partition_by,
            sort_by=asked.sort_by,
            key=asked.key,
            version_by=asked.version_by,
            journal=asked.journal,
            properties=asked.properties,
        )
    from firn.lake.partition.partition import PartitionSpec

    spec = PartitionSpec.parse(asked.partition_by, {})
    if asked.partition_by and [str(f) for f in spec.fields] != [str(f) for f in table.partition_spec.fields]:
        has = ", ".join(str(f) for f in table.partition_spec.fields) or "nothing"
        raise InvalidInputError(f"{name} exists and is partitioned by {has}: leave --partition-by out.")
    if asked.sort_by and tuple(asked.sort_by) != table.context.definition.sort_by:
        has = ", ".join(table.context.definition.sort_by) or "nothing"
        raise InvalidInputError(f"{name} exists and is sorted by {has}: leave --sort-by out.")
    if asked.key or asked.version_by:
        keys = table.keys
        named = None if keys is None else (_folded(keys.key), keys.version_by and fold(keys.version_by))
        if (_folded(asked.key), asked.version_by and fold(asked.version_by)) != named:
            made = "no key" if keys is None else f"the key {', '.join(keys.key)}"
            made += f" and version_by {keys.version_by}" if keys is not None and keys.version_by else ""
            raise InvalidInputError(f"{name} exists and has {made}: leave --key and --version-by out.")
    asked.refuse_properties()
    return table


def _folded(names: Sequence[str]) -> list[str]:
    return [fold(name) for name in names]


def _check_columns(frame: DataFrame, asked: Ingest) -> None:
    """Before the table is made: a typing error shouldn't leave an empty one behind."""
    from firn.lake.definition.keys import parse_key
    from firn.lake.partition.partition import PartitionSpec
    from firn.lake.write.sort import parse_order

    columns = dict.fromkeys(frame.columns, "VARCHAR")
    spec = PartitionSpec.parse(asked.partition_by, {})
    for field in spec.fields:
        if field.source not in columns:
            raise InvalidInputError(
                f"--partition-by names {field.source!r}, which the files don't have: {', '.join(columns)}."
            )
    parse_order(asked.sort_by, columns)
    parse_key(asked.key, asked.version_by, columns, [field.source for field in spec.fields])


PART: ShellKind = LakeInShell()
