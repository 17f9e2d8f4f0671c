"""Commands that keep keyed tables in shape, and copies of them: compact, checkpoint, clone, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.keyed.group import keyed
from firn.cli.keyed.target import open_keyed
from firn.cli.keyed.text import one_of
from firn.cli.options import argument, option
from firn.cli.reports import print_report, sweep_line
from firn.cli.target import DbOption, DryRun, Json, StoreOptions, TableArg
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError, NotFoundError
from firn.inspect.dump.decoded import when

if TYPE_CHECKING:
    from firn.journal.manifest.model import CollectReport
    from firn.keyed.maintain.checkpoints import Checkpoint
    from firn.keyed.maintain.compaction import CompactionReport


@keyed.command()
def compact(
    table: TableArg,
    db: DbOption = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Everything into one sorted run, not only what the policy asks for."),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Merge flushes and files into larger ones. The table's writer goes on meanwhile; another compactor is fenced.

    firn keyed compact ./prod/delays
    """
    database, opened = open_keyed(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"compacting {opened.name}"):
        report = opened.compact(full=full, dry_run=dry_run)
    print_report(
        opened.name,
        report,
        meter,
        json,
        line=lambda: compact_line(opened.name, report),
        dry_run=dry_run,
        write_amplification=round(report.write_amplification, 3),
    )


def compact_line(name: str, report: CompactionReport) -> str:
    """Say in one line what a compaction did."""
    inputs = [
        output.plural(count, noun)
        for count, noun in ((report.l0_files, "flush"), (report.ssts_in, "SST"))
        if count
    ]
    if not inputs:
        return f"compact: nothing to do in {name}"
    verb = "would begin with" if report.dry_run else "merged"
    line = f"compact of {name} {verb} {' and '.join(inputs)}, {output.size(report.bytes_in)}"
    if report.dry_run:
        return line
    return (
        f"{line} into {output.plural(report.ssts_out, 'SST')}, {output.size(report.bytes_out)}: "
        f"{'1 entry' if report.rows_in == 1 else f'{report.rows_in:,} entries'} became {report.rows_out:,}"
    )


@keyed.command()
def checkpoint(
    table: TableArg,
    name: Annotated[
        str | None, argument("[NAME]", "A name for it; checkpoints are listed without one.")
    ] = None,
    db: DbOption = None,
    ttl: Annotated[
        str | None, option("TIME", "How long it stays, like 10m or 7d; else until it is deleted.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Let the checkpoint NAME (or id) stay for --ttl from now on.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the checkpoint NAME (or id).")] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Keep a keyed table as it is now readable under a name; without one, list what is kept.

    firn keyed checkpoint ./prod/delays before-import --ttl 7d
    """
    one_of([("--refresh", refresh), ("--delete", delete)])
    one_of([("--delete", delete), ("--ttl", ttl is not None)])
    if name is None and (refresh or delete or ttl is not None):
        raise InvalidInputError("name the checkpoint.")
    _, opened = open_keyed(table, db, options)
    if name is None:
        _list(opened.name, opened.checkpoints(), json)
        return
    if not refresh and not delete:
        made, verb = opened.checkpoint(name, ttl), "made"
    else:
        made, verb = _chosen(opened.checkpoints(), name, opened.name), "deleted" if delete else "refreshed"
        if delete:
            made.delete()
        else:
            made = made.refresh(ttl)
    if json:
        output.document({"table": opened.name, "done": verb, **_plain(made)})
    else:
        until = "" if delete else f", kept {_until(made)}"
        output.line(f"checkpoint {made.name or made.id} of {opened.name} {verb}: {made.version}{until}")


def _chosen(found: list[Checkpoint], name: str, table: str) -> Checkpoint:
    chosen = [c for c in found if name in (c.name, c.id)]
    if not chosen:
        known = ", ".join(c.name or c.id for c in found) or "none"
        raise NotFoundError(f"{table} has no checkpoint {name!r}; there are: {known}.")
    if len(chosen) > 1:
        ids = ", ".join(c.id for c in chosen)
        raise InvalidInputError(f"{table} has {len(chosen)} checkpoints {name!r}: give an id, one of {ids}.")
    return chosen[0]


def _list(table: str, found: list[Checkpoint], json: bool) -> None:
    if json:
        output.document({"table": table, "checkpoints": [_plain(c) for c in found]})
    elif found:
        output.table(
            ["name", "id", "version", "kept"], [[c.name or "", c.id, c.version, _until(c)] for c in found]
        )
    else:
        output.note(f"{table} has no checkpoints.")


def _plain(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "id": checkpoint.id,
        "version": checkpoint.version,
        "expires_ms": checkpoint.expires_ms,
    }


def _until(checkpoint: Checkpoint) -> str:
    if checkpoint.expires_ms is None:
        return "until it is deleted"
    moment = when(checkpoint.expires_ms).partition("(")[2].rstrip(")")
    return f"until {moment}"


@keyed.command()
def clone(
    table: TableArg,
    name: Annotated[str, argument("NAME", "The new table's, in the same database.")],
    db: DbOption = None,
    at: Annotated[str | None, option("CHECKPOINT", "As it was at a checkpoint; else as it is.")] = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Create a table that begins as another is, without copying its data. Each goes on by itself from there.

    firn keyed clone ./prod/delays what_if --at before-import
    """
    database, opened = open_keyed(table, db, options)
    meter = waiting.Meter(opened.bucket)
    made = opened.clone(name, at)
    if json:
        output.document({"table": made.name, "parent": opened.name, "at": at, **meter.plain()})
    else:
        output.line(f"cloned {opened.name} as {made.name} in {database.url}")
        meter.note()


@keyed.command()
def sweep(
    table: TableArg,
    db: DbOption = None,
    older_than: Annotated[
        str | None,
        option(
            "AGE",
            "Compacted flushes older than that; the table's, 10m. Less is your word that nobody writes.",
        ),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete what neither the table nor a checkpoint of it names any more.

    firn keyed sweep ./prod/delays --dry-run
    """
    _, opened = open_keyed(table, db, options)
    meter = waiting.Meter(opened.bucket)
    with waiting.spinner(f"sweeping {opened.name}"):
        report = opened.sweep(older_than=older_than, dry_run=dry_run)
    print_report(
        opened.name,
        report,
        meter,
        json,
        line=lambda: _swept(opened.name, report),
        rest=lambda: _tell_keys(opened.name, report),
        dry_run=dry_run,
    )


def _swept(name: str, report: CollectReport) -> str:
    counts = (
        (report.l0, "flush"),
        (report.fences, "fence"),
        (report.ssts, "SST"),
        (report.manifests, "manifest"),
        (report.snapshots, "checkpoint"),
    )
    return sweep_line(name, counts, report.bytes, dry_run=report.dry_run)


def _tell_keys(name: str, report: CollectReport) -> None:
    if report.dry_run:
        output.keys(report.deleted)
    for key in report.dangling:
        output.warn(
            f"{key} is a checkpoint that nobody can read: something that it names is gone. What it keeps goes "
            f"with `firn keyed checkpoint {name} {key.rpartition('.')[2]} --delete`."
        )
