"""The command that keeps a database: `firn keep`."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.app import MAINTAIN, app
from firn.cli.opening import open_database
from firn.cli.options import argument, flag, option
from firn.cli.target import Json, StoreOptions, check_there, open_target
from firn.cli.terminal import output, waiting
from firn.cli.terminal.exits import UNEXPECTED
from firn.errors import InvalidInputError, NotFoundError
from firn.keeping import KeepReport

if TYPE_CHECKING:
    from firn.database.database import Database


@app.command(rich_help_panel=MAINTAIN)
def keep(
    database: Annotated[str, argument("DATABASE", "The database's URL: ./prod, s3://bucket/prod.")],
    tables: Annotated[list[str] | None, typer.Argument(metavar="TABLE…", help="Only these tables.")] = None,
    once: Annotated[bool, flag("One round, in which all rows of logs become files.", "--once")] = False,
    interval: Annotated[
        str | None, option("1s..60s", "How long to rest: after work, and at most.", "--interval")
    ] = None,
    budget: Annotated[str | None, option("5s", "A round begins nothing more after so long.")] = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Keep tables small, until it is ended: fold, merge, sweep, compact. Any number of these run at once.

    firn keep s3://bucket/prod

    SIGTERM and Ctrl-C end it after the commit under way. Tables that are shared with the reference are kept only if
    they are named; parts of writers' catalogs are kept by their writers. With --json it prints a line for each turn
    that did something, and with --once one document.
    """
    opened = open_database(database, options)
    if not tables:
        _check_there(opened, database, options)
    meter = waiting.Meter(opened.bucket)
    stop = threading.Event()
    with _ended_by_signals(stop):
        total = opened.keep(
            tables or None,
            once=once,
            stop=stop,
            interval=interval,
            budget=budget,
            tell=None if once else _teller(json),
        )
    if not once:
        return
    if json:
        plain = {name: dataclasses.asdict(report) for name, report in sorted(total.items())}
        output.document({"database": database, "tables": plain, **meter.plain()})
    else:
        for name in sorted(total):
            output.line(kept_line(total[name]))
        if not total and budget is not None:
            output.note(f"No table of {database} had its turn within {budget}.")
        elif not total:
            output.note(f"Nothing in {database} to keep.")
        meter.note()
    if any(report.error for report in total.values()):
        raise typer.Exit(UNEXPECTED)


def _check_there(opened: Database, url: str, options: list[str] | None) -> None:
    """As `check_there`; a table's URL, as other verbs take it, is told.

    Raises:
        InvalidInputError: the URL is a table's.
        NotFoundError: nothing is there.
    """
    try:
        check_there(opened)
    except NotFoundError:
        parent, name = open_target(url, None, options, known=False)
        if name is None:
            raise
        raise InvalidInputError(f"{url} is a table: write firn keep {parent.url} {name}.") from None


def _teller(json: bool) -> Callable[[KeepReport], None]:
    def tell(report: KeepReport) -> None:
        if json:
            output.document(dataclasses.asdict(report))
        elif report.worked:  # an error was logged
            output.line(kept_line(report))

    return tell


def kept_line(report: KeepReport) -> str:
    """Say in one line what a keeper did for a table.

    >>> kept_line(KeepReport("t", folds=1, commits=64, rows=640, files_merged=8, deleted=256))
    't: folded 640 rows of 64 commits, merged 8 files, swept 256'
    >>> kept_line(KeepReport("t")), kept_line(KeepReport("t", busy=1))
    ('t: nothing to do', 't: somebody else is at it')
    """
    done = []
    if report.commits:
        done.append(
            f"folded {output.plural(report.rows, 'row')} of {output.plural(report.commits, 'commit')}"
        )
    if report.files_merged:
        done.append(f"merged {output.plural(report.files_merged, 'file')}")
    if report.deleted:
        done.append(f"swept {output.number(report.deleted)}")
    if not done:
        why = "failed" if report.error else "somebody else is at it" if report.busy else "nothing to do"
        return f"{report.table}: {why}"
    return f"{report.table}: {', '.join(done)}"


@contextmanager
def _ended_by_signals(stop: threading.Event) -> Iterator[None]:
    """The first SIGTERM or Ctrl-C ends the keeping after the commit under way; the next one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        told.append(number)
        if len(told) > 1:  # perhaps while the first one holds the event's lock
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
