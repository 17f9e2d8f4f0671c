"""Commands that look inside: dump, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli import output, waiting
from firn.cli.app import LOOK, app
from firn.cli.target import DbOption, Json, StoreOptions, locate, open_database, store_options
from firn.errors import AccessDeniedError, InvalidInputError

if TYPE_CHECKING:
    from firn.database import Database


@app.command(rich_help_panel=LOOK)
def dump(
    object: Annotated[
        str,
        typer.Argument(metavar="OBJECT", help="An object's URL or path; a directory's lists its objects."),
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, metavar="N", help="Lines or entries of each section.")
    ] = 50,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Print any object of a database: log, checkpoint, lock, table definition, batch claim, Parquet file.

    Shows what is there and checks nothing: what can't be decoded is shown beside what can.
    """
    from firn.inspect.dump import dump_url

    found = dump_url(object, options=store_options(options))
    if json:
        output.document(found.to_json())
    else:
        output.line(found.to_text(limit=limit))


@app.command(rich_help_panel=LOOK)
def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|DATABASE", help="A table's or a database's URL; with --db a table's name."
        ),
    ],
    db: DbOption = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The page to write; an earlier one is replaced."),
    ] = Path("firn-report.html"),
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Write a page with a table's, or a database's, history, files and costs: one HTML file, no network."""
    from firn.inspect.report import write_report

    database: Database
    names: list[str] | None
    if db is not None:
        url, name = locate(target, db)
        database = open_database(url, options)
        names = [name]
    else:
        database, names = _tables_at(target, options)
    with waiting.spinner("writing the report"):
        try:
            tables = write_report(database, out, tables=names)
        except PermissionError:
            raise AccessDeniedError(f"{out} may not be written by this user.") from None
        except OSError as error:
            raise InvalidInputError(f"{out} can't be written: {error.strerror or error}.") from None
    if json:
        output.document({"report": str(out), "tables": tables})
    else:
        output.line(f"wrote {out}: {', '.join(tables)}")


def _tables_at(target: str, options: list[str] | None) -> tuple[Database, list[str] | None]:
    """The database, and the table where the URL is a table's: that has a definition or a log in it."""
    database = open_database(target, options)
    prefix = f"{database.prefix}/" if database.prefix else ""
    if not {"_firn", "_log"} & set(database.bucket.list_dirs(prefix)) or database.tables():
        return database, None
    from firn.database import split_table_url

    url, name = split_table_url(target)
    parent = open_database(url, options)
    parent.table(name)
    return parent, [name]
