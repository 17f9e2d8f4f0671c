"""Commands that read: sql, scan, tables, schema, partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.app import READ, app
from firn.cli.target import (
    At,
    DbArg,
    DbOption,
    Json,
    StoreOptions,
    TableArg,
    given_or_usual,
    locate,
    open_database,
    open_table,
)
from firn.cli.terminal import output, waiting
from firn.degraded import warn_degraded
from firn.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.keyed.table import KeyedTable
    from firn.lake.read.scan import Scan
    from firn.lake.table import LakeTable
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable

Csv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Fail where a writer can't be read, instead of leaving it out."),
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="At most so many rows.")]


@app.command(rich_help_panel=READ)
def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT, in DuckDB's SQL.")],
    db: Annotated[str, typer.Option("--db", metavar="URL", envvar="FIRN_DB", help="The database's URL.")],
    limit: Limit = None,
    csv: Csv = False,
    json: Json = False,
    strict: Strict = False,
    options: StoreOptions = None,
) -> None:
    """Run one SELECT over a database's tables, on Spark.

    firn sql "SELECT origin, count(*) FROM flights GROUP BY 1" --db ./prod
    """
    _one_format(csv, json)
    database = open_database(db, options, strict=strict)
    waiting.start_spark()
    with waiting.spinner("running the query"):
        frame = database.sql(query)
        if limit is not None:
            frame = frame.limit(limit)
        elif not csv and not json:
            frame = frame.limit(101)  # one more than is shown, to know that there are more
        rows = frame.toArrow()
    output.print_rows(rows.schema, rows.to_batches(), json=json, as_csv=csv, limit=limit)


@app.command(rich_help_panel=READ)
def scan(
    table: TableArg,
    db: DbOption = None,
    columns: Annotated[
        str | None, typer.Option("--columns", "-c", metavar="A,B", help="Columns, in the order wanted.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="PREDICATE", help="Rows wanted.")
    ] = None,
    at: At = None,
    limit: Limit = None,
    count: Annotated[bool, typer.Option("--count", help="Only count the rows.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Only say which files would be read.")] = False,
    csv: Csv = False,
    json: Json = False,
    strict: Strict = False,
    options: StoreOptions = None,
) -> None:
    """Print a table's rows, or count them.

    firn scan ./prod/flights --columns origin,delay --where "delay > 60" --limit 10
    """
    _one_format(csv, json)
    _, opened = open_table(table, db, options, strict=strict)
    chosen = None if columns is None else split_names(columns, opened.snapshot(at).columns)
    if chosen == []:
        raise InvalidInputError(
            "--columns names no column; write some, like --columns origin,delay, or leave it out."
        )
    found = opened.scan(columns=chosen, where=where, at=at)
    for warning in found.snapshot.warnings:
        output.warn(warning)
    if explain:
        _explain(found, json)
    elif count:
        rows = found.count()
        if json:
            output.document({"table": opened.name, "version": found.snapshot.version, "rows": rows})
        else:
            output.line(str(rows))
    else:
        output.print_rows(found.schema(), found.to_batches(), json=json, as_csv=csv, limit=limit)


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


def _one_format(csv: bool, json: bool) -> None:
    if csv and json:
        raise InvalidInputError("choose one of --csv and --json.")


@app.command(rich_help_panel=READ)
def tables(
    db: DbArg = None,
    names: Annotated[bool, typer.Option("--names", help="Only the names: reads no log.")] = False,
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


def _listed(database: Database, name: str) -> dict[str, Any] | None:
    """None for a table that needs a newer Firn, of which a warning tells: the others go on."""
    try:
        return _table(database.table(name))
    except UnsupportedError as error:
        from firn.bucket.keys import key_below

        warn_degraded(database.bucket.uri(key_below(database.prefix, name)), str(error))
        return None


def _table(table: LakeTable | KeyedTable | RecordTable | RowTable) -> dict[str, Any]:
    from firn.keyed.table import KeyedTable
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable

    if isinstance(table, KeyedTable):
        return _keyed_table(table)
    if isinstance(table, RecordTable | RowTable):
        return _record_table(table)
    snapshot, d = table.snapshot(), table.descriptor
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


def _keyed_table(table: KeyedTable) -> dict[str, Any]:
    """Of a keyed table: entries, where all of them are compacted into one run; else nobody knows without reading."""
    view = table.view()
    ssts = view.manifest.ssts
    one_run = not view.l0 and len({(s.level, s.run) for s in ssts}) <= 1
    whole = one_run and not any(s.tombstones or s.min_expire is not None for s in ssts)
    changed = view.pointer.last_compacted_ms
    return {
        "name": table.name,
        "kind": table.definition.kind,
        "rows": sum(s.rows for s in ssts) if whole else None,
        "files": len(ssts) + len(view.l0),
        "bytes": sum(s.bytes for s in ssts) + sum(f.bytes for f in view.l0),
        "partition_by": [],
        "sort_by": list(table.definition.key or ("key",)),
        "version": view.version,
        "time": None if changed is None else datetime.fromtimestamp(changed / 1000, timezone.utc),
    }


def _record_table(table: RecordTable | RowTable) -> dict[str, Any]:
    """Of a record table: the objects of its rows, of which some may be of rows that were deleted."""
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


def _line(table: dict[str, Any]) -> list[str]:
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


@app.command(rich_help_panel=READ)
def schema(
    table: TableArg,
    db: DbOption = None,
    at: At = None,
    json: Json = False,
    strict: Strict = False,
    options: StoreOptions = None,
) -> None:
    """Print a table's columns and types, its partitioning, sort order and properties."""
    from firn.keyed.table import KeyedTable
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable

    url, name = locate(table, db)
    opened = open_database(url, options, strict=strict).table(name)
    if isinstance(opened, RecordTable | RowTable):
        if at is not None:
            raise InvalidInputError(f"{name} is a record table, whose columns never change: leave out --at.")
        _record_schema(opened, json)
        return
    if isinstance(opened, KeyedTable):
        if at is not None:
            raise InvalidInputError(f"{name} is a keyed table, whose columns never change: leave out --at.")
        _keyed_schema(opened, json)
        return
    snapshot, d = opened.snapshot(at), opened.descriptor
    for warning in snapshot.warnings:
        output.warn(warning)
    fields = [str(f) for f in d.partition.fields]
    if json:
        output.document(
            {
                "table": opened.name,
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


def _record_schema(table: RecordTable | RowTable, json: bool) -> None:
    from firn.records.table import RecordTable

    d = table.definition
    indices = table.indices() if isinstance(table, RecordTable) else []
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
            "Documents may have any other field." if d.schema is None else "Documents follow a JSON schema."
        )
    for index in indices:
        kind = "unique index" if index.unique else "index"
        kind += (" of each element" if index.each else "") + ("" if index.ready else ", being built")
        output.line(f"{kind}: {index.field}")
    output.line(f"isolation: {d.isolation}")
    for name, value in d.properties.items():
        output.line(f"property {name}: {value}")


def _keyed_schema(table: KeyedTable, json: bool) -> None:
    d = table.definition
    key, columns = dict(d.key or {"key": "BLOB"}), dict(d.columns or {"value": "BLOB"})
    if json:
        output.document(
            {
                "table": table.name,
                "columns": [{"name": c, "type": t, "key": c in key} for c, t in {**key, **columns}.items()],
                "merge": d.merge,
                "ttl_ms": d.ttl_ms,
                "properties": dict(d.properties),
            }
        )
        return
    rows = [[name, kind, "key"] for name, kind in key.items()]
    output.table(["column", "type", ""], [*rows, *([name, kind, ""] for name, kind in columns.items())])
    if d.merge is not None:
        output.line(f"merge operator: {output.cell(d.merge)}")
    if d.ttl_ms is not None:
        output.line(f"entries live: {d.ttl_ms / 1000:g} s")
    for name, value in d.properties.items():
        output.line(f"property {name}: {value}")


@app.command(rich_help_panel=READ)
def partitions(
    table: TableArg,
    db: DbOption = None,
    at: At = None,
    json: Json = False,
    strict: Strict = False,
    options: StoreOptions = None,
) -> None:
    """List a table's partitions with their rows, files and sizes."""
    _, opened = open_table(table, db, options, strict=strict)
    found = opened.partitions(at)
    if json:
        output.document({"table": opened.name, "partitions": [output.plain(p) for p in found]})
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
