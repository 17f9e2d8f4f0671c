"""Commands that write: create, append, ingest, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli import output, waiting
from firn.cli.app import WRITE, app
from firn.cli.inputs import FORMATS, read_rows
from firn.cli.target import (
    DbOption,
    Json,
    StoreOptions,
    TableArg,
    locate,
    open_database,
    open_table,
    pairs,
)
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.lake.results import AppendResult
    from firn.lake.table import LakeTable

PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        "-p",
        metavar="FIELD",
        help="A column or a transform: origin, 'month(date)', 'bucket(16, id)'. Repeatable.",
    ),
]
SortBy = Annotated[
    list[str] | None,
    typer.Option("--sort-by", "-s", metavar="COLUMN", help="Sort files by: date, 'delay desc'. Repeatable."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property", metavar="NAME=VALUE", help="A table property, like retention=90d. Repeatable."
    ),
]
Format = Annotated[
    str,
    typer.Option("--format", "-f", metavar="|".join(FORMATS), help="Of the input; by its name or beginning."),
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Of CSV; a comma by default.")]
TimestampFormat = Annotated[
    str | None,
    typer.Option(
        "--timestamp-format",
        metavar="FORMAT",
        help="Of times, like '%Y/%m/%d %H:%M': columns that have it become timestamps.",
    ),
]
BatchId = Annotated[
    str | None,
    typer.Option("--batch-id", metavar="ID", help="Any text; a batch that the table has seen is left out."),
]


@app.command(rich_help_panel=WRITE)
def create(
    table: TableArg,
    db: DbOption = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            "-c",
            metavar="NAME=TYPE",
            help="A column with its DuckDB type, like date=TIMESTAMP; else the first append decides. Repeatable.",
        ),
    ] = None,
    partition_by: PartitionBy = None,
    sort_by: SortBy = None,
    properties: Properties = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Create a table.

    firn create ./prod/flights --partition-by 'month(date)' --sort-by date
    """
    url, name = locate(table, db)
    database = open_database(url, options, must_exist=False)
    made = database.create_table(
        name,
        schema=pairs(column, "--column") or None,
        partition_by=partition_by or [],
        sort_by=sort_by or [],
        properties=pairs(properties, "--property"),
    )
    if json:
        output.document({"table": made.name, "url": made.bucket.uri(made.prefix)})
    else:
        output.line(f"created {made.name} in {url}")


@app.command(rich_help_panel=WRITE)
def append(
    table: TableArg,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="JSON, JSON lines, CSV or Parquet; - is stdin."),
    ] = None,
    db: DbOption = None,
    format: Format = "auto",
    delimiter: Delimiter = None,
    timestamp_format: TimestampFormat = None,
    query: Annotated[
        str | None, typer.Option("--query", help="A SELECT over _rows that the rows pass through first.")
    ] = None,
    batch_id: BatchId = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Append rows from files or standard input, in this process. All of them appear at once.

    echo '{"origin": "DTW", "delay": 66}' | firn append ./prod/flights
    """
    check_format(format)
    _, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    known = opened.snapshot().columns
    parts = [
        read_rows(f, format=format, delimiter=delimiter, timestamp_format=timestamp_format, known=known)
        for f in files or ["-"]
    ]
    rows = parts[0]
    if len(parts) > 1:
        import pyarrow as pa

        try:
            rows = pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidInputError(f"the files' columns don't fit together: {error}") from error
    print_appended(opened, opened.append(rows, batch_id=batch_id, query=query), meter, json)


def print_appended(table: LakeTable, result: AppendResult, meter: waiting.Meter, json: bool) -> None:
    if json:
        output.document(
            {
                "table": table.name,
                **output.plain(result),
                "requests": meter.requests,
                "seconds": meter.seconds,
            }
        )
    elif result.duplicate:
        output.line(f"{table.name} has this batch already (version {result.version}): nothing was appended")
    else:
        output.line(
            f"appended {output.plural(result.rows, 'row')} to {table.name} in "
            f"{output.plural(result.files, 'file')}, {output.size(result.bytes)}: version {result.version}"
        )


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise InvalidInputError(f"--format {format}: there are {', '.join(FORMATS)}.")


@app.command(rich_help_panel=WRITE)
def drop(
    table: TableArg,
    db: DbOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete a table and all its objects, at once and for good."""
    database, opened = open_table(table, db, options)
    if not yes:
        if not output.stderr().is_terminal or json:
            raise InvalidInputError(f"drop deletes {opened.name} for good: say --yes.")
        typer.confirm(
            f"Delete {opened.name} of {database.url} and all its objects for good?", abort=True, err=True
        )
    meter = waiting.Meter(database.bucket)
    with waiting.spinner(f"dropping {opened.name}"):
        database.drop_table(opened.name)
    if json:
        output.document({"table": opened.name, "dropped": True, "requests": meter.requests})
    else:
        output.line(f"dropped {opened.name}")
