"""Commands that maintain a table: merge, remove, rewrite, delete, update, forget-files, mend, restore, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from firn.cli.app import MAINTAIN, app
from firn.cli.call import AnyCall, LakeCall, on_table, sweep_line
from firn.cli.input.inputs import read_all
from firn.cli.opening import pairs
from firn.cli.options import argument, flag, option
from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.journal.model import SweepReport
    from firn.lake.results import ChangeResult, ForgetResult

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


def _changed(call: LakeCall, result: ChangeResult) -> None:
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

    call.answer(result, change_line(call.name, result), rest)


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


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def merge(
    call: LakeCall,
    target_size: Annotated[str | None, option("SIZE", "Of a merged file; 128MB by default.")] = None,
    partition: PartitionOption = None,
    query: Annotated[
        str | None, typer.Option("--query", help="A SELECT over source_files that merged rows pass through.")
    ] = None,
    only: Annotated[
        str | None, option("inlined", "Only write rows that stand in logs into files.", "--only")
    ] = None,
) -> None:
    """Merge small files, and the log. Readers and writers go on meanwhile."""
    with call.progress("merging"):
        result = call.table.merge(
            target_size=target_size,
            partitions=partition_values(partition),
            query=query,
            only=cast("Literal['inlined'] | None", only),
            dry_run=call.dry_run,
        )
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def remove(
    call: LakeCall,
    where: Annotated[
        str | None, option("PREDICATE", "Over partition values: date_month < '2001-02'.", "--where", "-w")
    ] = None,
    older_than: Annotated[
        str | None, option("AGE", "Partitions of a time that ended longer ago, like 90d.")
    ] = None,
    retention: Annotated[
        bool, flag("Partitions older than the table's property `retention`.", "--retention")
    ] = False,
) -> None:
    """Remove whole partitions: by their values, or by their age. Reads no data.

    firn remove ./prod/flights --where "date_month = '2001-01'"
    """
    if (where is not None) + (older_than is not None) + retention != 1:
        raise InvalidInputError("give one of --where, --older-than and --retention.")
    with call.progress("removing from"):
        if where is not None:
            result = call.table.remove_partitions(where, dry_run=call.dry_run)
        else:
            result = call.table.expire(older_than, dry_run=call.dry_run)
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def rewrite(
    call: LakeCall,
    query: Annotated[str, argument("QUERY", "A predicate of the rows to keep, or a SELECT over _rows.")],
    partition: PartitionOption = None,
) -> None:
    """Pass a table's files through a query, to erase or mend rows. Sweep then deletes the old files.

    firn rewrite ./prod/flights "origin <> 'DTW'"
    """
    with call.progress("rewriting"):
        result = call.table.rewrite(query, partitions=partition_values(partition), dry_run=call.dry_run)
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def delete(
    call: LakeCall,
    where: Annotated[str | None, option("PREDICATE", "The rows to delete.", "--where", "-w")] = None,
    keys: Annotated[
        list[str] | None,
        option("FILE", "Instead: the keys to delete, as JSON, CSV or Parquet; - is stdin. Repeatable."),
    ] = None,
    soft: Annotated[
        bool | None,
        flag(
            "Keep the predicate with the files, or rewrite them; by default softly where the table can.",
            "--soft/--no-soft",
        ),
    ] = None,
) -> None:
    """Delete rows. Older versions keep them until sweep; of soft deletes the files too, until merge.

    firn delete ./prod/flights --where "delay IS NULL"
    """
    if (where is None) == (keys is None):
        raise InvalidInputError("give one of --where and --keys.")
    if keys is not None and soft is not None:
        raise InvalidInputError("--keys takes no --soft: rows are deleted by their keys.")
    with call.progress("deleting from"):
        if where is not None:
            result = call.table.delete(where, soft=soft, dry_run=call.dry_run)
        else:
            rows = read_all(keys or [], known=call.table.snapshot().columns)
            result = call.table.delete_keys(rows, dry_run=call.dry_run)
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def update(
    call: LakeCall,
    where: Annotated[str, option("PREDICATE", "The rows to change; 'true' for all.", "--where", "-w")],
    set_: Annotated[
        list[str],
        option(
            "COLUMN=EXPRESSION",
            "A new value, computed from the row as it was; text in single quotes. Repeatable.",
            "--set",
        ),
    ],
) -> None:
    """Change rows of a table with a key.

    firn update ./prod/stock --where "place = 'south'" --set "count = count - 1"
    """
    changes = {name.strip(): text for name, text in pairs(set_, "--set").items()}
    with call.progress("updating"):
        result = call.table.update(where, changes, dry_run=call.dry_run)
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN, name="forget-files")
def forget_files(
    call: LakeCall,
    paths: Annotated[
        list[str], argument("PATH…", "The files, as the error names them that says they are lost.")
    ],
) -> None:
    """Let data files or logs go that are lost or damaged. Their rows are lost; the report says which these were.

    firn forget-files ./prod/flights prod/flights/_data/part-a-5b1c….parquet --dry-run
    """
    with call.progress("reading files of"):
        result = call.table.forget_files(paths, dry_run=call.dry_run)
    call.answer(result, forgotten_line(call.name, result), lambda: _tell_what_was_lost(result))


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


@on_table(app, None, "dry_run", panel=MAINTAIN)
def mend(call: AnyCall) -> None:
    """Write a table's definition, logs and record of sweeps anew, where they are damaged or missing."""
    report = call.database.mend_table(call.name, dry_run=call.dry_run)
    would = "would write" if call.dry_run else "wrote"
    call.answer(report, f"mend: {call.name} {would} {', '.join(report.objects) or 'nothing: all is well'}")


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def restore(
    call: LakeCall, at: Annotated[str, option("TIME|VERSION", "The version or time to go back to.")]
) -> None:
    """Make a table as it was. Itself a commit: what came since stays in the history."""
    with call.progress("restoring"):
        result = call.table.restore(at, dry_run=call.dry_run)
    _changed(call, result)


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def sweep(
    call: LakeCall,
    older_than: Annotated[
        str | None, option("AGE", "What was replaced longer ago; the table's grace, 1h.")
    ] = None,
    orphans: Annotated[
        str | None, option("AGE", "Files of no version, older than that; 7d by default.")
    ] = None,
) -> None:
    """Delete what nothing may read any more: files and logs that were replaced, and orphans.

    A shorter age than the table's is your word that nobody reads older versions, or is appending for so long.
    In a table of writers' catalogs it takes the writer's own files; firn prune says first which versions may go.
    """
    of_writers = call.table.context.definition.journal == "writer"
    if of_writers and older_than is not None:
        raise InvalidInputError(
            f"{call.name} is kept by writers' catalogs: forget old versions with `firn prune {call.database.url} "
            f"--writer ID --older-than {older_than}`, then sweep without --older-than."
        )
    with call.progress("sweeping"):
        report = call.table.sweep(older_than=older_than, orphans=orphans, dry_run=call.dry_run)
    line = swept_line(call.name, report, logs="marker" if of_writers else "log")
    call.answer(report, line, lambda: _tell_what_stays(report, of_writers))


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
