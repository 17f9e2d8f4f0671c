"""`firn records copy`: a record table's rows or changes into a lake table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from firn.cli.options import argument, flag, option
from firn.cli.records.group import records
from firn.cli.reports import print_report
from firn.cli.target import DbOption, Json, StoreOptions, TableArg, locate, open_database
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError
from firn.units import parse_duration

if TYPE_CHECKING:
    from firn.database.copies import CopyReport


@records.command()
def copy(
    source: TableArg,
    target: Annotated[str, argument("TARGET", "A lake table of the same database, made if need be.")],
    db: DbOption = None,
    changes: Annotated[
        bool, flag("What was put and deleted since the last such copy, each change once.", "--changes")
    ] = False,
    at: Annotated[str | None, option("COMMIT", "The rows as they were at this commit.")] = None,
    follow: Annotated[
        str | None, option("TIME", "With --changes: again and again, after such a pause.")
    ] = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Copy a record table's rows into a lake table, where they are read as files: all of them, or each change.

    firn records copy ./prod/orders orders_history --changes --follow 5s
    """
    if follow is not None and not changes:
        raise InvalidInputError("--follow is for --changes: each copy of rows appends all of them.")
    pause = None if follow is None else parse_duration(follow)
    url, name = locate(source, db)
    database = open_database(url, options)
    while True:
        meter = waiting.Meter(database.bucket)
        with waiting.progress(database, f"copying {name}"):
            report = database.copy(name, target, changes=changes, at=at)
        if pause is None or report.rows != 0:
            _print(name, target, report, meter, json)
        if pause is None:
            return
        time.sleep(pause)


def _print(name: str, target: str, report: CopyReport, meter: waiting.Meter, json: bool) -> None:
    if report.rows is None:
        line = f"{target} has {name} up to commit {report.upto} already"
    else:
        line = (
            f"copied {output.plural(report.rows, 'row')} of {name} into {target}, up to commit {report.upto}"
        )
    print_report(name, report, meter, json, line=line, target=target)
