"""Commands that read: scan, tables, schema, partitions."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated

from firn.cli.app import READ, app
from firn.cli.call import AnyCall, LakeCall, Strict, on_table
from firn.cli.kind import TableRow, shell_kind
from firn.cli.opening import given_or_usual, open_database
from firn.cli.options import flag, option
from firn.cli.target import At, Csv, DbArg, Json, Limit, StoreOptions
from firn.cli.terminal import output
from firn.degraded import warn_degraded
from firn.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.lake.read.scan import Scan


@on_table(app, "lake", "strict", panel=READ)
def scan(
    call: LakeCall,
    columns: Annotated[str | None, option("A,B", "Columns, in the order wanted.", "--columns", "-c")] = None,
    where: Annotated[str | None, option("PREDICATE", "Rows wanted.", "--where", "-w")] = None,
    at: At = None,
    limit: Limit = None,
    count: Annotated[bool, flag("Only count the rows.", "--count")] = False,
    explain: Annotated[bool, flag("Only say which files would be read.", "--explain")] = False,
    csv: Csv = False,
) -> None:
    """Print a table's rows, or count them.

    firn scan ./prod/flights --columns origin,delay --where "delay > 60" --limit 10
    """
    if csv and call.json:
        raise InvalidInputError("choose one of --csv and --json.")
    chosen = None if columns is None else split_names(columns, call.table.snapshot(at).columns)
    if chosen == []:
        raise InvalidInputError(
            "--columns names no column; write some, like --columns origin,delay, or leave it out."
        )
    found = call.table.scan(columns=chosen, where=where, at=at)
    for warning in found.snapshot.warnings:
        output.warn(warning)
    if explain:
        _explain(found, call.json)
    elif count:
        rows = found.count()
        call.say({"version": found.snapshot.version, "rows": rows}, str(rows))
    else:
        output.print_rows(found.schema(), found.to_batches(), json=call.json, as_csv=csv, limit=limit)


def split_names(text: str, known: Container[str]) -> list[str]:
    """Names separated by commas; a name that holds one is quoted, as in CSV."""
    import csv as csv_format

    exact = next(csv_format.reader([text]), [])
    if all(name in known for name in exact):
        return exact
    return [name.strip() for name in next(csv_format.reader([text], skipinitialspace=True), [])]


def _explain(found: Scan, json: bool) -> None:
    if not json:
        output.line(found.explain())
        return
    files = found.files()
    output.document(
        {
            "table": found.table.name,
            "version": found.snapshot.version,
            "columns": list(found.columns),
            "where": found.predicate.sql if found.predicate is not None else None,
            "files": [{"path": f.path, "bytes": f.size, "rows": f.live_rows} for f in files],
            "files_in_all": len(found.snapshot.files),
        }
    )


@app.command(rich_help_panel=READ)
def tables(
    db: DbArg = None,
    names: Annotated[bool, flag("Only the names: reads no log.", "--names")] = False,
    json: Json = False,
    strict: Strict = False,
    options: StoreOptions = None,
) -> None:
    """List a database's tables."""
    url = given_or_usual(db)
    database = open_database(url, options, strict=strict)
    found = database.tables()
    if names:
        if json:
            output.document({"database": url, "tables": found})
        for name in found if not json else ():
            output.line(name)
        return
    listed = [each for name in found if (each := _listed(database, name)) is not None]
    if json:
        output.document({"database": url, "tables": listed})
    elif listed:
        heads = ["table", "kind", "rows", "files", "size", "partitioned by", "sorted by", "last change (UTC)"]
        lines = [_line(t) for t in listed]
        used = [i for i in range(len(heads)) if any(line[i] for line in lines)]
        output.table([heads[i] for i in used], [[line[i] for i in used] for line in lines], right=(2, 3, 4))
    else:
        output.note(f"No tables in {url}.")


def _listed(database: Database, name: str) -> TableRow | None:
    """None for a table that needs a newer Firn, of which a warning tells: the others go on."""
    try:
        table = database.table(name)
        return shell_kind(table.kind).row(table)
    except UnsupportedError as error:
        from firn.bucket.keys import key_below

        warn_degraded(database.bucket.uri(key_below(database.prefix, name)), str(error))
        return None


def _line(table: TableRow) -> list[str]:
    return [
        table["name"],
        table["kind"],
        output.number(table["rows"]),
        output.number(table["files"]),
        output.size(table["bytes"]),
        ", ".join(table["partition_by"]),
        ", ".join(table["sort_by"]),
        f"{table['time']:%Y-%m-%d %H:%M}" if table["time"] is not None else "",
    ]


@on_table(app, None, "strict", panel=READ)
def schema(call: AnyCall, at: At = None) -> None:
    """Print a table's columns and types, its partitioning, sort order and properties."""
    shell_kind(call.table.kind).print_schema(call.table, at=at, json=call.json)


@on_table(app, "lake", "strict", panel=READ)
def partitions(call: LakeCall, at: At = None) -> None:
    """List a table's partitions with their rows, files and sizes."""
    found = call.table.partitions(at)
    if call.json:
        output.document({"table": call.name, "partitions": [output.plain(p) for p in found]})
        return
    names = list(dict.fromkeys(name for p in found for name in p.values))
    output.table(
        [*names, "rows", "files", "size"],
        [
            [
                *(p.values.get(n) for n in names),
                output.number(p.rows),
                output.number(p.files),
                output.size(p.bytes),
            ]
            for p in found
        ],
        right=range(len(names), len(names) + 3),
    )
