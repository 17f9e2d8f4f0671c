"""Commands that change and maintain a table: merge, remove, rewrite, delete, update, forget-files, restore, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.app import MAINTAIN, app
from firn.cli.input.inputs import read_all
from firn.cli.options import argument, option
from firn.cli.reports import print_report, sweep_line
from firn.cli.target import (
    DbOption,
    DryRun,
    Json,
    StoreOptions,
    TableArg,
    WriterOption,
    locate,
    open_database,
    open_table,
    pairs,
)
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.journal.model import SweepReport
    from firn.lake.results import ChangeResult, ForgetResult
    from firn.lake.table import LakeTable

PartitionOption = Annotated[
    list[str] | None,
    option(
        "NAME=VALUE",
        "Only this partition, as `firn partitions` shows it; several fields: a=1/b=2. Repeatable.",
        "--partition",
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
    def rest() -> None:
        if result.dry_run:
            output.keys(result.files)
        if result.foreign_files:
            files = output.plural(result.foreign_files, "file")
            output.note(f"{files} of other writers match too: each of them changes its own.")
        if result.moved_files:
            files = output.plural(result.moved_files, "file")
            output.note(
                f"{files} in these directories stay: values of the partition's column are set aside there. "
                "`firn delete` with a predicate finds such rows."
            )

    print_report(
        table.name,
        result,
        meter,
        json,
        line=lambda: change_line(table.name, result),
        rest=rest,
        dry_run=result.dry_run,
    )


def change_line(name: str, result: ChangeResult) -> str:
    """Say in one line what a change did."""
    gone = f"{output.plural(result.files_removed, 'file')}, {output.size(result.bytes_removed)}"
    marked = f", and leave a soft delete on {output.plural(result.files_marked, 'file')}"
    if result.dry_run:
        taken = result.rows_updated or result.rows_deleted
        if taken and not result.files:  # of a table with a key, whose files stay
            gone = output.plural(taken, "row")
        marked = marked if result.files_marked else ""
        return f"{result.op} of {name} would take {gone}{marked} (dry run: nothing was changed)"
    if result.version is None:
        return f"{result.op}: nothing to do in {name}"
    if result.files_marked:
        on = output.plural(result.files_marked, "file")
        return f"{result.op} of {name}: {gone} → none; a soft delete on {on}; version {result.version}"
    made = f"{output.plural(result.files_added, 'file')}, {output.size(result.bytes_added)}"
    counts = {
        "inserted": result.rows_inserted,
        "updated": result.rows_updated,
        "deleted": result.rows_deleted,
    }
    rows = ", ".join(f"{output.plural(n, 'row')} {verb}" for verb, n in counts.items() if n != 0)
    if not result.files_removed:
        gone = "none"
        if result.op == "delete" and result.rows_deleted is None:
            rows = "keys deleted unseen"
    if not result.files_added:
        made = "none"
    told = f"; {rows}" if rows else ""
    return f"{result.op} of {name}: {gone} → {made}{told}; version {result.version}"


@app.command(rich_help_panel=MAINTAIN)
def merge(
    table: TableArg,
    db: DbOption = None,
    writer: WriterOption = None,
    target_size: Annotated[str | None, option("SIZE", "Of a merged file; 128MB by default.")] = None,
    partition: PartitionOption = None,
    query: Annotated[
        str | None, typer.Option("--query", help="A SELECT over source_files that merged rows pass through.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Merge small files, and the log. Readers and writers go on meanwhile."""
    database, opened = open_table(table, db, options, writer=writer)
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
    writer: WriterOption = None,
    where: Annotated[
        str | None, option("PREDICATE", "Over partition values: date_month < '2001-02'.", "--where", "-w")
    ] = None,
    older_than: Annotated[
        str | None, option("AGE", "Partitions of a time that ended longer ago, like 90d.")
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
    database, opened = open_table(table, db, options, writer=writer)
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
    query: Annotated[str, argument("QUERY", "A predicate of the rows to keep, or a SELECT over _rows.")],
    db: DbOption = None,
    writer: WriterOption = None,
    partition: PartitionOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Pass a table's files through a query, to erase or mend rows. Sweep then deletes the old files.

    firn rewrite ./prod/flights "origin <> 'DTW'"
    """
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"rewriting {opened.name}"):
        result = opened.rewrite(query, partitions=partition_values(partition), dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def delete(
    table: TableArg,
    where: Annotated[str | None, option("PREDICATE", "The rows to delete.", "--where", "-w")] = None,
    keys: Annotated[
        list[str] | None,
        option("FILE", "Instead: the keys to delete, as JSON, CSV or Parquet; - is stdin. Repeatable."),
    ] = None,
    db: DbOption = None,
    writer: WriterOption = None,
    soft: Annotated[
        bool | None,
        typer.Option(
            "--soft/--no-soft",
            help="Keep the predicate with the files, or rewrite them; by default softly where the table can.",
        ),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete rows. Older versions keep them until sweep; of soft deletes the files too, until merge.

    firn delete ./prod/flights --where "delay IS NULL"
    """
    if (where is None) == (keys is None):
        raise InvalidInputError("give one of --where and --keys.")
    if keys is not None and soft is not None:
        raise InvalidInputError("--keys takes no --soft: rows are deleted by their keys.")
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"deleting from {opened.name}"):
        if where is not None:
            result = opened.delete(where, soft=soft, dry_run=dry_run)
        else:
            rows = read_all(keys or [], known=opened.snapshot().columns)
            result = opened.delete_keys(rows, dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def update(
    table: TableArg,
    where: Annotated[str, option("PREDICATE", "The rows to change; 'true' for all.", "--where", "-w")],
    set_: Annotated[
        list[str],
        option(
            "COLUMN=EXPRESSION",
            "A new value, computed from the row as it was; text in single quotes. Repeatable.",
            "--set",
        ),
    ],
    db: DbOption = None,
    writer: WriterOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Change rows of a table with a key.

    firn update ./prod/stock --where "place = 'south'" --set "count = count - 1"
    """
    changes = {name.strip(): text for name, text in pairs(set_, "--set").items()}
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"updating {opened.name}"):
        result = opened.update(where, changes, dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command("forget-files", rich_help_panel=MAINTAIN)
def forget_files(
    table: TableArg,
    paths: Annotated[
        list[str], argument("PATH…", "The files, as the error names them that says they are lost.")
    ],
    db: DbOption = None,
    writer: WriterOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Let data files or logs go that are lost or damaged. Their rows are lost; the report says which these were.

    firn forget-files ./prod/flights prod/flights/_data/part-a-5b1c….parquet --dry-run
    """
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"reading files of {opened.name}"):
        result = opened.forget_files(paths, dry_run=dry_run)
    print_report(
        opened.name,
        result,
        meter,
        json,
        line=lambda: forgotten_line(opened.name, result),
        rest=lambda: _tell_what_was_lost(result),
        dry_run=dry_run,
    )


def forgotten_line(name: str, result: ForgetResult) -> str:
    """Say in one line what letting files go did."""
    lost = f"{output.plural(len(result.files), 'file')} with {output.plural(result.rows, 'row')}"
    if result.dry_run:
        return f"{name} would forget {lost} (dry run: nothing was changed)"
    return f"{name} forgot {lost}; version {result.version}"


def _tell_what_was_lost(result: ForgetResult) -> None:
    for file in result.files:
        output.line(f"  {file.path}")
        output.line(f"    {file.why}")
        known = [f"{field} {'null' if value is None else value}" for field, value in file.partition.items()]
        known += [
            f"{column} {output.cell(low)} to {output.cell(high)}"
            for column, (low, high) in file.bounds.items()
            if low is not None or high is not None
        ]
        output.line(f"    {', '.join([output.plural(file.rows, 'row'), *known])}")
        for predicate in file.soft_deletes:
            output.line(f"    without the rows of {predicate}")
    if result.uncovers:
        output.note("Older versions of rows in these files, and rows that they deleted, may be seen again.")


@app.command(rich_help_panel=MAINTAIN)
def mend(
    table: TableArg,
    db: DbOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Write a table's definition, logs and record of sweeps anew, where they are damaged or missing."""
    url, name = locate(table, db)
    database = open_database(url, options)
    meter = waiting.Meter(database.bucket)
    report = database.mend_table(name, dry_run=dry_run)
    would = "would write" if dry_run else "wrote"
    print_report(
        name,
        report,
        meter,
        json,
        line=lambda: f"mend: {name} {would} {', '.join(report.objects) or 'nothing: all is well'}",
        dry_run=dry_run,
    )


@app.command(rich_help_panel=MAINTAIN)
def restore(
    table: TableArg,
    at: Annotated[str, option("TIME|VERSION", "The version or time to go back to.")],
    db: DbOption = None,
    writer: WriterOption = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Make a table as it was. Itself a commit: what came since stays in the history."""
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"restoring {opened.name}"):
        result = opened.restore(at, dry_run=dry_run)
    _changed(opened, result, meter, json)


@app.command(rich_help_panel=MAINTAIN)
def sweep(
    table: TableArg,
    db: DbOption = None,
    writer: WriterOption = None,
    older_than: Annotated[
        str | None, option("AGE", "What was replaced longer ago; the table's grace, 1h.")
    ] = None,
    orphans: Annotated[
        str | None, option("AGE", "Files of no version, older than that; 7d by default.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete what nothing may read any more: files and logs that were replaced, and orphans.

    A shorter age than the table's is your word that nobody reads older versions, or is appending for so long.
    In a table of writers' catalogs it takes the writer's own files; firn prune says first which versions may go.
    """
    database, opened = open_table(table, db, options, writer=writer)
    of_writers = opened.descriptor.journal == "writer"
    if of_writers and older_than is not None:
        raise InvalidInputError(
            f"{opened.name} is kept by writers' catalogs: forget old versions with `firn prune {database.url} "
            f"--writer ID --older-than {older_than}`, then sweep without --older-than."
        )
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"sweeping {opened.name}"):
        report = opened.sweep(older_than=older_than, orphans=orphans, dry_run=dry_run)
    print_report(
        opened.name,
        report,
        meter,
        json,
        line=lambda: swept_line(opened.name, report, logs="marker" if of_writers else "log"),
        rest=lambda: _tell_what_stays(report, of_writers),
        dry_run=dry_run,
    )


def _tell_what_stays(report: SweepReport, of_writers: bool) -> None:
    if report.dry_run:
        for path in (*report.data_files, *report.logs, *report.orphans):
            output.line(f"  {path}")
    if not report.kept_foreign:
        return
    if of_writers:
        objects = output.plural(len(report.kept_foreign), "object")
        output.note(f"{objects} among the files that Firn doesn't know are left alone.")
    else:
        files = output.plural(len(report.kept_foreign), "registered file")
        output.note(f"{files} that no version reads any more lie outside the table, and stay.")


def swept_line(name: str, report: SweepReport, *, logs: str = "log") -> str:
    """Say in one line what a sweep did; `logs` is what the journal calls its own."""
    counts: list[tuple[tuple[Any, ...], str]] = [
        (report.data_files, "replaced file"),
        (report.logs, logs),
        (report.orphans, "orphan"),
    ]
    return sweep_line(name, counts, report.bytes, dry_run=report.dry_run)
