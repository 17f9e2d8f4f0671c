"""What `firn ingest` does with a keyed table: one bulk load on Spark, into a table that it creates if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firn.cli.call import print_report
from firn.cli.keyed.text import columns_now
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.keyed.results import LoadReport
    from firn.keyed.table import KeyedTable

BYTES = {"key": "BLOB", "value": "BLOB"}


def check_key(table: KeyedTable, key: Sequence[str]) -> None:
    """Refuse a key that isn't the table's own, beside a table that is there."""
    has = list(table.keys.columns or ())
    if key and [word.partition("=")[0] for word in key] != has:
        made = ", ".join(has) if has else "of bytes"
        raise InvalidInputError(f"{table.name} exists and its key is {made}: leave --key out.")


def create_for(
    database: Database, name: str, frame: DataFrame, key: Sequence[str], properties: Mapping[str, str]
) -> KeyedTable:
    """A new table with the frame's columns: those of the key, as `--key` names them, and the others as values.

    Without a key the frame has the columns key and value, and the table holds bytes.
    """
    from firn.spark.session.types import columns_of_schema

    columns = columns_of_schema(frame.schema)
    shown = ", ".join(columns) or "none"
    if not key:
        if {fold(column) for column in columns} != set(BYTES):
            raise InvalidInputError(
                f"name the columns of {name}'s key by --key: the files have the columns {shown}. Without it they "
                "must be key and value, as bytes or text."
            )
        return database.create_table(name, kind="keyed", properties=properties)
    folded = {fold(column): column for column in columns}
    keys: dict[str, str] = {}
    for word in key:
        column, _, kind = word.partition("=")
        spelled = folded.get(fold(column))
        if spelled is None:
            raise InvalidInputError(f"--key names {column!r}, which the files don't have: {shown}.")
        keys[spelled] = kind or columns[spelled]
    values = {column: kind for column, kind in columns.items() if column not in keys}
    if not values:
        raise InvalidInputError(
            f"all columns of the files are {name}'s key ({shown}): one must be left as value."
        )
    return database.create_table(name, kind="keyed", key=keys, schema=values, properties=properties)


def load_frame(database: Database, table: KeyedTable, frame: DataFrame, json: bool) -> None:
    """Load it, and say so."""
    meter = waiting.Meter(table.bucket)
    with waiting.progress(database, f"loading {table.name}"):
        report = table.load(_as_bytes(table, frame))
    print_report(table.name, report, meter, json, line=loaded_line(table.name, report))


def loaded_line(name: str, report: LoadReport) -> str:
    """Say in one line what a bulk load did."""
    ssts = f"{output.plural(report.ssts, 'SST')}, {output.size(report.bytes)}"
    return f"loaded {output.plural(report.rows, 'row')} into {name}: {ssts}"


def columns_of(table: KeyedTable) -> dict[str, str]:
    """The columns of rows that go into it, with their types."""
    return {**(table.definition.key or {"key": "BLOB"}), **(columns_now(table) or {"value": "BLOB"})}


def _as_bytes(table: KeyedTable, frame: DataFrame) -> DataFrame:
    """Text as bytes, where the table has bytes."""
    from pyspark.sql import functions as F  # noqa: N812

    from firn.spark.native.parquet import quote

    known = {fold(name): kind for name, kind in columns_of(table).items()}
    return frame.select(
        *[
            F.col(quote(field.name)).cast("binary").alias(field.name)
            if known.get(fold(field.name)) == "BLOB" and field.dataType.simpleString() == "string"
            else F.col(quote(field.name))
            for field in frame.schema.fields
        ]
    )
