"""Commands that maintain a table: merge, remove, rewrite, delete, sweep, checkpoint, restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli import output, waiting
from firn.cli.app import MAINTAIN, app
from firn.cli.target import DbOption, DryRun, Json, StoreOptions, TableArg, open_table, pairs
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.journal.model import SweepReport
    from firn.lake.results import ChangeResult
    from firn.lake.table import LakeTable

PartitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="NAME=VALUE",
        help="Only this partition, as `firn partitions` shows it; several fields: a=1/b=2. Repeatable.",
    ),
]


def partition_values(given: list[str] | None) -> list[dict[str, str | None]] | None:
    """Partitions by their values.

    >>> partition_values(["date_month=2001-01", "a=1/b=null"])
    [{'date_month': '2001-01'}, {'a': '1', 'b': None}]
    """
    if not given:
        return None
    return [
        {
            name: None if value == "null" else value
            for name, value in pairs(item.split("/"), "--partition").items()
        }
        for item in given
    ]


def _changed(table: LakeTable, result: ChangeResult, meter: waiting.Meter, json: bool) -> None:
    if json:
        output.document(
            {
                "table": table.name,
                **output.plain(result),
                "requests": meter.requests,
                "seconds": meter.seconds,
            }
        )
        return
    output.line(change_line(table.name, result))
    if result.dry_run:
        for path in result.files[:20]:
            output.line(f"  {path}")
        if len(result.files) > 20:
            output.line(f"  … and {len(result.files) - 20} more")
    else:
        output.note(f"{output.plural(meter.total, 'request')}, {meter.seconds:.1f} s")


def change_line(name: str, result: ChangeResult) -> str:
    """What a change did, in one line."""
    gone = f"{output.plural(result.files_removed, 'file')}, {output.size(result.bytes_removed)}"
    if result.dry_run:
        return f"{result.op} of {name} would take {gone} (dry run: nothing was changed)"
    if result.version is None:
        return f"{result.op}: nothing to do in {name}"
    made = f"{output.plural(result.files_added, 'file')}, {output.size(result.bytes_added)}"
    rows = f"{output.number(result.rows_removed)} → {output.number(result.rows_added)} rows"
    if not result.files_added:
        made, rows = "none", f"{output.number(result.rows_removed)} rows gone"
    elif not result.files_removed:
        gone, rows = "none", f"{output.number(result.rows_added)} rows back"
    return f"{result.op} of {name}: {gone} → {made}; {rows}; version {result.version}"


@app.command(rich_help_panel=MAINTAIN)
def merge(
    table: TableArg,
    db: DbOption = None,
    target_size: Annotated[
        str | None, typer.Option("--target-size", metavar="SIZE", help="Of a merged file; 128MB by default.")
    ] = None,
    partition: PartitionOption = None,
    query: Annotated[
        str | None, typer.Option("--query", help="A SELECT over source_files that merged rows pass through.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Merge small files, and the log. Readers and writers go on meanwhile."""
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"merging {opened.name}"):
        result = opened.merge(
            target_size=target_size, partitions=partition_values(partition), query=query, dry_run=dry_run
        )
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def remove(
    table: TableArg,
    db: DbOption = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="PREDICATE", help="Over partition values: date_month < '2001-02'."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Partitions of a time that ended longer ago, like 90d."
        ),
    ] = None,
    retention: Annotated[
        bool, typer.Option("--retention", help="Partitions older than the table's property `retention`.")
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Remove whole partitions: by their values, or by their age. Reads no data.

    firn remove ./prod/flights --where "date_month = '2001-01'"
    """
    if (where is not None) + (older_than is not None) + retention != 1:
        raise InvalidInputError("give one of --where, --older-than and --retention.")
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"removing from {opened.name}"):
        if where is not None:
            result = opened.remove_partitions(where, dry_run=dry_run)
        else:
            result = opened.expire(older_than, dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def rewrite(
    table: TableArg,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A predicate of the rows to keep, or a SELECT over _rows.")
    ],
    db: DbOption = None,
    partition: PartitionOption = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Pass a table's files through a query, to erase or mend rows. Sweep then deletes the old files.

    firn rewrite ./prod/flights "origin <> 'DTW'"
    """
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"rewriting {opened.name}"):
        result = opened.rewrite(query, partitions=partition_values(partition))
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def delete(
    table: TableArg,
    where: Annotated[str, typer.Option("--where", "-w", metavar="PREDICATE", help="The rows to delete.")],
    db: DbOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete rows. Older versions keep them until sweep.

    firn delete ./prod/flights --where "delay IS NULL"
    """
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"deleting from {opened.name}"):
        result = opened.delete(where, dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def restore(
    table: TableArg,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME|VERSION", help="The version or time to go back to.")
    ],
    db: DbOption = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Make a table as it was. Itself a commit: what came since stays in the history."""
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"restoring {opened.name}"):
        result = opened.restore(at)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def sweep(
    table: TableArg,
    db: DbOption = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="What was replaced longer ago; the table's grace, 1h."
        ),
    ] = None,
    orphans: Annotated[
        str | None,
        typer.Option("--orphans", metavar="AGE", help="Files of no version, older than that; 7d by default."),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete what nothing may read any more: files and logs that were replaced, and orphans.

    A shorter age than the table's is your word that nobody reads older versions, or is appending for so long.
    """
    database, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"sweeping {opened.name}"):
        report = opened.sweep(older_than=older_than, orphans=orphans, dry_run=dry_run)
    if json:
        output.document(
            {
                "table": opened.name,
                **output.plain(report),
                "requests": meter.requests,
                "seconds": meter.seconds,
            }
        )
        return
    output.line(sweep_line(opened.name, report))
    if dry_run:
        for path in (*report.data_files, *report.logs, *report.orphans):
            output.line(f"  {path}")
    if report.kept_foreign:
        output.note(
            f"{output.plural(len(report.kept_foreign), 'registered file')} that no version reads any more "
            "lie outside the table, and stay."
        )
    if not dry_run:
        output.note(f"{output.plural(meter.total, 'request')}, {meter.seconds:.1f} s")


def sweep_line(name: str, report: SweepReport) -> str:
    """What a sweep did, in one line."""
    counts: list[tuple[tuple[Any, ...], str]] = [
        (report.data_files, "replaced file"),
        (report.logs, "log"),
        (report.orphans, "orphan"),
    ]
    parts = [output.plural(len(paths), noun) for paths, noun in counts if paths]
    if not parts:
        return f"sweep: nothing to delete in {name}"
    verb = "would delete" if report.dry_run else "deleted"
    return f"sweep of {name} {verb} {', '.join(parts)}: {output.size(report.bytes)}"


@app.command(rich_help_panel=MAINTAIN)
def checkpoint(
    table: TableArg, db: DbOption = None, json: Json = False, options: StoreOptions = None
) -> None:
    """Write a replay cache, so that opening the table takes fewer requests."""
    _, opened = open_table(table, db, options)
    meter = waiting.Meter(opened.bucket)
    covered = opened.checkpoint()
    if json:
        output.document({"table": opened.name, "logs": covered, "requests": meter.requests})
    else:
        output.line(f"checkpoint of {opened.name}: holds {output.plural(covered, 'log')}")
