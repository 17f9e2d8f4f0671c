"""What `firn ingest` does with a lake table: an append of a DataFrame, into a table that it creates if need be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firn.cli.kind import Ingest
from firn.cli.terminal import waiting
from firn.cli.write import new_columns, print_appended
from firn.errors import InvalidInputError
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.lake.table import LakeTable


def append_frame(database: Database, found: LakeTable | None, frame: DataFrame, asked: Ingest) -> None:
    """Append it, and say so."""
    new: dict[str, str | None] = {}
    if asked.query is None:
        from firn.spark.session.types import columns_of_schema

        has = {} if found is None else dict(found.snapshot().columns)
        new = new_columns(columns_of_schema(frame.schema), frame.columns, has)
    table = existing_or_new(database, found, frame, asked)
    meter = waiting.Meter(table.bucket)
    with waiting.progress(database, f"ingesting into {asked.name}"):
        write = table.upsert if asked.upsert else table.append
        result = write(frame, batch_id=asked.batch_id, query=asked.query)
    print_appended(table, result, meter, asked.json, new, "--schema DDL")


def existing_or_new(
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
    from firn.database.kinds.lake import parse_sort
    from firn.lake.definition.keys import parse_key
    from firn.lake.partition.partition import PartitionSpec

    columns = dict.fromkeys(frame.columns, "VARCHAR")
    spec = PartitionSpec.parse(asked.partition_by, {})
    for field in spec.fields:
        if field.source not in columns:
            raise InvalidInputError(
                f"--partition-by names {field.source!r}, which the files don't have: {', '.join(columns)}."
            )
    parse_sort(asked.sort_by, columns)
    parse_key(asked.key, asked.version_by, columns, [field.source for field in spec.fields])
