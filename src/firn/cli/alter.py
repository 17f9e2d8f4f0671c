"""Commands that change a table's definition: alter and resolve."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.app import MAINTAIN, app
from firn.cli.options import argument, option
from firn.cli.reports import print_report
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
    from firn.alter import AlterResult


def _print(name: str, result: AlterResult, meter: waiting.Meter, json: bool, *, dry_run: bool) -> None:
    def line() -> str:
        if not result.changes:
            return f"nothing to change in {name}"
        if dry_run:
            return f"{name} would change (dry run: nothing was changed)"
        return f"{name} changed; version {result.version}"

    def rest() -> None:
        for change in result.changes:
            output.line(f"  {change}")

    print_report(name, result, meter, json, line=line, rest=rest, dry_run=dry_run)


@app.command(rich_help_panel=MAINTAIN)
def alter(
    table: TableArg,
    db: DbOption = None,
    writer: WriterOption = None,
    set_: Annotated[list[str] | None, option("NAME=VALUE", "Set a property. Repeatable.", "--set")] = None,
    unset: Annotated[
        list[str] | None, option("NAME", "Take a property back to its default. Repeatable.")
    ] = None,
    types: Annotated[
        list[str] | None, option("COLUMN=TYPE", "Set a column's DuckDB type. Repeatable.", "--type")
    ] = None,
    fence: Annotated[
        bool,
        typer.Option("--fence", help="Of a keyed table: end the writer that another process may have open."),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Change properties of a table, and types of its columns, by one commit that rewrites no data."""
    url, name = locate(table, db)
    database = open_database(url, options, writer=writer)
    opened: Any = database.table(name)
    meter = waiting.Meter(database.bucket)
    given = pairs(set_, "--set")
    if both := [property for property in unset or () if property in given]:
        raise InvalidInputError(f"both --set and --unset name {both[0]!r}: give it once.")
    changes: dict[str, Any] = {**dict.fromkeys(unset or ()), **given}
    more: dict[str, Any] = {"types": pairs(types, "--type")} if types else {}
    if fence:
        more["fence"] = True
    known = signature(opened.alter).parameters
    for keyword, flag in (("types", "--type"), ("fence", "--fence")):
        if keyword in more and keyword not in known:
            raise InvalidInputError(
                f"{name} is of a kind of table that has nothing for it: leave {flag} out."
            )
    result = opened.alter(set_properties=changes, dry_run=dry_run, **more)
    _print(name, result, meter, json, dry_run=dry_run)


@app.command(rich_help_panel=MAINTAIN)
def resolve(
    table: TableArg,
    column: Annotated[str, argument("COLUMN", "Whose values were set aside; with --into, which has them.")],
    db: DbOption = None,
    writer: WriterOption = None,
    to: Annotated[str | None, option("TYPE", "The column's DuckDB type from now on.")] = None,
    into: Annotated[str | None, option("COLUMN", "The column whose values they become.")] = None,
    dry_run: DryRun = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Make values that don't fit their column's type the column's again."""
    database, opened = open_table(table, db, options, writer=writer)
    meter = waiting.Meter(database.bucket)
    result = opened.resolve(column, to=to, into=into, dry_run=dry_run)
    _print(opened.name, result, meter, json, dry_run=dry_run)
