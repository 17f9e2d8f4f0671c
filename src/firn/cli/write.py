"""Commands that write: create, append, ingest, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.app import WRITE, app
from firn.cli.call import AnyCall, LakeCall, on_table
from firn.cli.input.inputs import FORMATS, read_all
from firn.cli.kind import shell_kind
from firn.cli.opening import open_database, pairs
from firn.cli.options import argument, flag, option
from firn.cli.target import DbOption, Json, StoreOptions, TableArg, WriterOption, locate
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError
from firn.kinds import KINDS
from firn.names import fold

if TYPE_CHECKING:
    from firn.lake.results import AppendResult, DropReport
    from firn.lake.table import LakeTable

PartitionBy = Annotated[
    list[str] | None,
    option(
        "FIELD",
        "A column or a transform: origin, 'month(date)', 'bucket(16, id)'. Repeatable.",
        "--partition-by",
        "-p",
    ),
]
SortBy = Annotated[
    list[str] | None, option("COLUMN", "Sort files by: date, 'delay desc'. Repeatable.", "--sort-by", "-s")
]
KeyOrType = Annotated[
    list[str] | None,
    option(
        "COLUMN",
        "Keep one row for each value of these; of a keyed table NAME=TYPE, else keys are bytes. Repeatable.",
        "--key",
        "-k",
    ),
]
Kind = Annotated[
    str,
    option(
        "|".join(KINDS),
        "Rows in files, for many writers; single keys, with one writer; or documents, in transactions.",
        "--kind",
    ),
]
VersionBy = Annotated[
    str | None, option("COLUMN", "With a key: the greatest value wins, not the latest.", "--version-by")
]
Properties = Annotated[
    list[str] | None, option("NAME=VALUE", "A table property, like retention=90d. Repeatable.", "--property")
]
JournalOption = Annotated[
    str,
    option(
        "leaderless|writer",
        "One log that all share, or a catalog of each writer; the latter needs --writer.",
        "--journal",
    ),
]
Format = Annotated[
    str, option("|".join(FORMATS), "Of the input; by its name or beginning.", "--format", "-f")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Of CSV; a comma by default.")]
TimestampFormat = Annotated[
    str | None,
    option(
        "FORMAT",
        "Of times, like '%Y/%m/%d %H:%M': columns that have it become timestamps.",
        "--timestamp-format",
    ),
]
Upsert = Annotated[
    bool, flag("Refuse a table without a key: rows must take the places of those with theirs.", "--upsert")
]
Query = Annotated[
    str | None, typer.Option("--query", help="A SELECT over _rows that the rows pass through first.")
]
BatchId = Annotated[
    str | None, option("ID", "Any text; a batch that the table has seen is left out.", "--batch-id")
]


@app.command(rich_help_panel=WRITE)
def create(
    table: TableArg,
    db: DbOption = None,
    writer: WriterOption = None,
    kind: Kind = "lake",
    column: Annotated[
        list[str] | None,
        option(
            "NAME=TYPE",
            "A column with its DuckDB type, like date=TIMESTAMP; else the first append decides, and values of "
            "keyed tables are bytes. Repeatable.",
            "--column",
            "-c",
        ),
    ] = None,
    partition_by: PartitionBy = None,
    sort_by: SortBy = None,
    journal: JournalOption = "leaderless",
    key: KeyOrType = None,
    version_by: VersionBy = None,
    merge_operator: Annotated[
        str | None,
        option(
            "OPERATOR",
            "Of a keyed table: add, max, min, append, json_merge or module:function; or one for each column, "
            "like 'flights=add,worst=max'.",
        ),
    ] = None,
    ttl: Annotated[
        str | None, option("TIME", "Of a keyed table: how long an entry is there, like 7d.")
    ] = None,
    index: Annotated[
        list[str] | None, option("FIELD", "Of a record table: find rows by this field. Repeatable.")
    ] = None,
    unique: Annotated[
        list[str] | None, option("FIELD", "The same, and no two rows have one value. Repeatable.")
    ] = None,
    each: Annotated[
        list[str] | None,
        option("FIELD", "Of a record table: find rows by each element of this field's lists. Repeatable."),
    ] = None,
    isolation: Annotated[
        str, option("snapshot|row", "Of a record table: row is without transactions.")
    ] = "snapshot",
    properties: Properties = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Create a table.

    firn create ./prod/flights --partition-by 'month(date)' --sort-by date

    firn create ./prod/delays --kind keyed --column flights=BIGINT --column minutes=BIGINT --merge-operator add

    firn create ./prod/airports --kind records --index state --unique code
    """
    url, name = locate(table, db)
    database = open_database(url, options, must_exist=False, writer=writer)
    from firn.database.kinds.kind import check_kind

    check_kind(kind)
    create_table: Any = database.create_table  # its overloads are for those who know the kind
    made = create_table(
        name,
        kind=kind,
        schema=pairs(column, "--column") or None,
        partition_by=partition_by or [],
        sort_by=sort_by or [],
        journal=journal,
        key=shell_kind(kind).key(key or []) or None,
        version_by=version_by,
        merge_operator=_operators(merge_operator),
        ttl=ttl,
        indices=_indices(index, unique, each),
        isolation=isolation,
        properties=pairs(properties, "--property"),
    )
    if json:
        output.document({"table": made.name, "url": made.bucket.uri(made.prefix)})
    else:
        output.line(f"created {made.name} in {url}")


def _operators(given: str | None) -> str | dict[str, str] | None:
    return given if given is None or "=" not in given else pairs(given.split(","), "--merge-operator")


def _indices(fields: list[str] | None, unique: list[str] | None, each: list[str] | None) -> list[Any]:
    from firn.records.definition.definition import Index

    return [
        *map(Index, fields or ()),
        *(Index(field, unique=True) for field in unique or ()),
        *(Index(field, each=True) for field in each or ()),
    ]


@on_table(app, "lake", "writer", panel=WRITE)
def append(
    call: LakeCall,
    files: Annotated[
        list[str] | None, argument("[FILE]...", "JSON, JSON lines, CSV or Parquet; - is stdin.")
    ] = None,
    format: Format = "auto",
    delimiter: Delimiter = None,
    timestamp_format: TimestampFormat = None,
    column: Annotated[
        list[str] | None,
        option(
            "NAME=TYPE",
            "A column's DuckDB type, like zip=VARCHAR; else the rows decide. Repeatable.",
            "--column",
            "-c",
        ),
    ] = None,
    query: Query = None,
    batch_id: BatchId = None,
    upsert: Upsert = False,
    dry_run: Annotated[bool, flag("Only show new columns and their types.", "--dry-run")] = False,
) -> None:
    """Append rows from files or standard input, in this process. All of them appear at once.

    In a table with a key each takes the place of the row of its key.

    echo '{"origin": "DTW", "delay": 66}' | firn append ./prod/flights
    """
    check_format(format)
    known = call.table.snapshot().columns
    types = pairs(column, "--column")
    rows = read_all(
        files or ["-"],
        format=format,
        delimiter=delimiter,
        timestamp_format=timestamp_format,
        known=known,
        types=types,
    )
    from firn.arrow.types import columns_of

    new = {} if query is not None else new_columns(columns_of(rows.schema), rows.column_names, known)
    if dry_run:
        facts = {"dry_run": True, "rows": rows.num_rows, "new_columns": new, **call.meter.plain()}
        call.say(facts, f"would append {output.plural(rows.num_rows, 'row')} to {call.name}")
        if not call.json:
            note_columns(new)
        return
    write = call.table.upsert if upsert else call.table.append
    result = write(rows, batch_id=batch_id, query=query)
    print_appended(call.table, result, call.meter, call.json, new)


def new_columns(
    types: Mapping[str, str], names: Sequence[str], known: Mapping[str, str]
) -> dict[str, str | None]:
    """The columns that a table hasn't got yet, with their types; None if no value says which."""
    there = {fold(name) for name in known}
    return {name: types.get(name) for name in names if fold(name) not in there}


def note_columns(new: Mapping[str, str | None], option: str = "--column NAME=TYPE") -> None:
    """Say which types were chosen: nothing else would show that digits became numbers."""
    if typed := [f"{name} {kind}" for name, kind in new.items() if kind is not None]:
        output.note(f"new columns: {', '.join(typed)}. {option} chooses other types.")
    if untyped := [name for name, kind in new.items() if kind is None]:
        output.note(
            f"columns without a value, so without a type: {', '.join(untyped)}. They aren't there yet."
        )


def print_appended(
    table: LakeTable,
    result: AppendResult,
    meter: waiting.Meter,
    json: bool,
    new: Mapping[str, str | None] | None = None,
    option: str = "--column NAME=TYPE",
) -> None:
    if json:
        columns = {} if new is None else {"new_columns": new}
        output.document({"table": table.name, **output.plain(result), **columns, **meter.plain()})
    elif result.duplicate:
        output.line(f"{table.name} has this batch already (version {result.version}): nothing was appended")
    else:
        inlined = result.rows and not result.files
        where = "without a file" if inlined else f"in {output.plural(result.files, 'file')}"
        output.line(
            f"appended {output.plural(result.rows, 'row')} to {table.name} {where}, "
            f"{output.size(result.bytes)}: version {result.version}"
        )
        note_columns(new or {}, option)


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise InvalidInputError(f"--format {format}: there are {', '.join(FORMATS)}.")


@on_table(app, None, "writer", "dry_run", panel=WRITE)
def drop(call: AnyCall, yes: Annotated[bool, flag("Don't ask.", "--yes", "-y")] = False) -> None:
    """Delete a table and all its objects, at once and for good. Of writers' catalogs: the writer's part of it."""
    database, name = call.database, call.name
    if not call.dry_run and not yes:
        database.drop_table(name, dry_run=True)  # says so if it isn't there
        if not output.stderr().is_terminal or call.json:
            raise InvalidInputError(f"drop deletes {name} for good: say --yes.")
        typer.confirm(f"Delete {name} of {database.url} and all its objects for good?", abort=True, err=True)
    call.meter = waiting.Meter(database.bucket)
    with waiting.spinner(f"dropping {name}"):
        report = database.drop_table(name, dry_run=call.dry_run)
    gone = not report.still_has and not call.dry_run
    facts = {"dropped": gone, **output.plain(report), **call.meter.plain()}
    call.say(facts, drop_line(name, report))
    if call.json:
        return
    if call.dry_run:
        output.keys(report.objects)
        return
    if report.writer is not None and report.objects:
        output.note("Its files stay until `firn prune --sweep` finds that no revision reads them.")
    call.meter.note()


def drop_line(name: str, report: DropReport) -> str:
    """Say in one line what a drop did."""
    verb = "would drop" if report.dry_run else "dropped"
    if report.writer is None:
        return f"{verb} {name}: {output.plural(len(report.objects), 'object')}, {output.size(report.bytes)}"
    left = f"; these writers still have theirs: {', '.join(report.still_has)}" if report.still_has else ""
    return (
        f"{verb} {report.writer}'s part of {name}: {output.plural(len(report.objects), 'file')}, "
        f"{output.size(report.bytes)}{left}"
    )
