"""Commands for histories: checkpoint, prune, rebuild, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.app import MAINTAIN, app
from firn.cli.maintain import swept_line
from firn.cli.opening import given_or_usual, open_database
from firn.cli.options import flag, option
from firn.cli.target import (
    DbArg,
    DbOption,
    DryRun,
    Json,
    StoreOptions,
    TargetArg,
    WriterOption,
    check_there,
    open_target,
)
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.journal.writer.maintain.prune import PruneReport
    from firn.journal.writer.rebuild.rebuild import RebuildReport


@app.command(rich_help_panel=MAINTAIN)
def checkpoint(
    target: TargetArg = None, db: DbOption = None, json: Json = False, options: StoreOptions = None
) -> None:
    """Write replay caches, so that opening takes fewer requests. Of a database: every table's and writer's."""
    database, name = open_target(target, db, options)
    meter = waiting.Meter(database.bucket)
    if name is None:
        covered = database.checkpoint()
        left_out = [w for w in database.writers() if w.health != "ok"]
        if not covered and not left_out:
            check_there(database)
        if json:
            output.document(
                {
                    "database": database.url,
                    "covered": covered,
                    "left_out": {w.name: w.detail for w in left_out},
                    **meter.plain(),
                }
            )
            return
        for each, count in covered.items():
            output.line(f"checkpoint of {each}: covers {count:,}")
        if not covered:
            output.note(f"Nothing in {database.url} to write a checkpoint of.")
        for writer in left_out:
            output.warn(f"no checkpoint of the writer {writer.name}: {writer.detail}")
        return
    table = database.table(name, kind="lake")
    count = table.checkpoint()
    by_writers = table.context.definition.journal == "writer"
    if json:
        what = "transactions" if by_writers else "logs"
        output.document({"table": name, what: count, **meter.plain()})
    elif by_writers:
        output.line(f"checkpoint of {name}: {output.plural(count, 'transaction')} need no replay any more")
    else:
        output.line(f"checkpoint of {name}: holds {output.plural(count, 'log')}")


@app.command(rich_help_panel=MAINTAIN)
def prune(
    db: DbArg = None,
    writer: WriterOption = None,
    older_than: Annotated[str | None, option("AGE", "What is older can't be read any more; 7d.")] = None,
    sweep: Annotated[
        bool, flag("Then delete the files that no revision needs, of all tables.", "--sweep")
    ] = False,
    orphans: Annotated[
        str | None, option("AGE", "With --sweep: only files older than that; 7d by default.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Forget the beginning of a writer's history: old transactions, checkpoints and claims. Sweep deletes the files.

    firn prune ./prod --writer host-17 --older-than 30d --sweep
    """
    if orphans is not None and not sweep:
        raise InvalidInputError("--orphans says how old files must be for --sweep: give that, too.")
    url = given_or_usual(db)
    database = open_database(url, options)
    name = _one_writer(database, writer)
    meter = waiting.Meter(database.bucket)
    with waiting.spinner(f"pruning {name}"):
        report = database.prune(older_than, writer=name, dry_run=dry_run)
        swept = database.sweep(orphans, writer=name, dry_run=dry_run) if sweep else None
    if json:
        output.document(
            {
                "database": url,
                "writer": name,
                **output.plain(report),
                **({} if swept is None else {"sweep": output.plain(swept)}),
                **meter.plain(),
            }
        )
        return
    output.line(prune_line(name, report))
    if dry_run:
        output.keys(report.deleted)
    if swept is not None:
        output.line(swept_line(f"the writer {name}", swept, logs="marker"))
        if dry_run:
            output.keys((*swept.data_files, *swept.logs, *swept.orphans))
    for warning in report.warnings:
        output.warn(warning)
    if not dry_run:
        meter.note()


def prune_line(writer: str, report: PruneReport) -> str:
    """Say in one line what a prune did."""
    if not report.deleted:
        return f"prune: nothing to delete of the writer {writer}"
    verb = "would delete" if report.dry_run else "deleted"
    written = (
        f", {'would write' if report.dry_run else 'wrote'} {output.plural(len(report.written), 'checkpoint')}"
    )
    return (
        f"prune of the writer {writer} {verb} {output.plural(len(report.deleted), 'object')}, "
        f"{output.size(report.bytes)}{written if report.written else ''}; "
        f"it can be read from revision {report.floor} on"
    )


@app.command(rich_help_panel=MAINTAIN)
def rebuild(
    db: DbArg = None,
    writer: WriterOption = None,
    keep: Annotated[
        list[str] | None, option("UUID", "Counts where nothing else decides between two. Repeatable.")
    ] = None,
    force: Annotated[
        bool, flag("Bring back files that no transaction names of a whole catalog, too.", "--force")
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Bring a writer's lost catalog back from what is left of it, and from its data files. Stop the writer first.

    firn rebuild ./prod --writer host-17 --dry-run
    """
    url = given_or_usual(db)
    database = open_database(url, options)
    name = _one_writer(database, writer)
    meter = waiting.Meter(database.bucket)
    with waiting.progress(database, f"rebuilding the catalog of {name}"):
        report = database.rebuild(writer=name, keep=keep or (), force=force, dry_run=dry_run)
    if json:
        output.document({**output.plain(report), **meter.plain()})
        return
    for line in rebuild_lines(report):
        output.line(line)
    for title, keys in (
        ("files that came back", report.files if dry_run else ()),
        ("nobody can tell whether these were committed", report.unproven),
        ("never committed, left out", report.orphans),
        ("named, and gone", report.missing),
        ("tables without a definition", report.undefined),
        ("can't be read", tuple(report.unreadable or ())),
        ("not Firn's, left alone", report.unknown),
    ):
        if keys:
            output.line(f"{title} ({len(keys):,}):")
            output.keys(keys)
    if not dry_run:
        meter.note()


def rebuild_lines(report: RebuildReport) -> list[str]:
    """Say what a rebuild found and did."""
    if report.healthy:
        return [f"rebuild: the catalog of the writer {report.writer} is whole; nothing to do"]
    verb = "would write" if report.dry_run else "wrote"
    done = (
        f"rebuild of the writer {report.writer} {verb} {output.plural(len(report.rebuilt), 'transaction')}, "
        f"{output.plural(report.salvaged, 'other')} could be read; revisions {report.first} to {report.revision}, "
        f"{output.plural(len(report.files), 'file')} back"
    )
    empty = [f"nothing tells what the revisions {_numbers(report.empty)} did"] if report.empty else []
    return [*(f"lost: {what}" for what in report.damage), done, *empty]


def _numbers(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[: output.SHOWN]))
    return shown + (", …" if len(numbers) > output.SHOWN else "")


@app.command(rich_help_panel=MAINTAIN)
def repair(
    keep: Annotated[str, option("UUID", "The transaction that counts; its first digits are enough.")],
    db: DbArg = None,
    writer: WriterOption = None,
    yes: Annotated[bool, flag("Don't ask: every process of the writer is stopped.", "--yes", "-y")] = False,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Decide a fork: two processes wrote one revision under one writer's id. Stop all of them first.

    firn log ./prod --writer host-17; firn repair ./prod --writer host-17 --keep 0badcafe
    """
    url = given_or_usual(db)
    database = open_database(url, options)
    name = _one_writer(database, writer, forked=True)
    if not dry_run and not yes:
        if not output.stdin_is_terminal() or not output.stderr().is_terminal or json:
            raise InvalidInputError(
                f"repair decides for good what counts. Stop every process that writes as {name}, then say --yes."
            )
        typer.confirm(f"Are all processes stopped that write to {url} as {name}?", abort=True, err=True)
    meter = waiting.Meter(database.bucket)
    report = database.repair(keep, writer=name, dry_run=dry_run)
    if json:
        output.document({"database": url, "writer": name, **output.plain(report), **meter.plain()})
        return
    forks = ", ".join(map(str, report.revisions)) or "none"
    lost = output.plural(len(report.lost), "transaction")
    if not report.written:
        output.line(f"repair: {report.kept[:8]} of the writer {name} counted already")
    elif dry_run:
        output.line(
            f"repair would keep {report.kept[:8]} of the writer {name}, at the forks of revision {forks}; "
            f"{lost} would not count any more"
        )
    else:
        output.line(
            f"repair kept {report.kept[:8]} of the writer {name}, at the forks of revision {forks}; "
            f"{lost} no longer count"
        )
    output.keys(report.lost)


def _one_writer(database: Database, given: str | None, *, forked: bool = False) -> str:
    """The writer that was named, or the only one that it can be about."""
    if given is not None:
        return given
    names = [w.name for w in database.writers() if not forked or w.health == "fork"]
    if len(names) == 1:
        return names[0]
    what = "forked writer" if forked else "writer"
    if not names:
        raise InvalidInputError(f"{database.url} has no {what}: there is nothing to do.")
    raise InvalidInputError(
        f"{database.url} has {output.plural(len(names), what)}: {', '.join(names)}. Say which one: --writer ID."
    )
