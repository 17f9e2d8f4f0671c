"""`firn sql`: statements in a shell's command, in a file, or from standard input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firn.cli.app import READ, app
from firn.cli.sql.work import run_sql
from firn.cli.target import Csv, Json, Limit, StoreOptions


@app.command(rich_help_panel=READ)
def sql(
    db: Annotated[str, typer.Option("--db", metavar="URL", envvar="FIRN_DB", help="The database's URL.")],
    query: Annotated[
        str | None,
        typer.Argument(metavar="SQL", help="Statements, with ';' between; else -f, or standard input."),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file of statements.")] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="The value of $NAME. Repeat it.")
    ] = None,
    limit: Limit = None,
    csv: Csv = False,
    json: Json = False,
    engine: Annotated[
        str | None, typer.Option("--engine", help="duckdb, in this process, which is the default, or spark.")
    ] = None,
    fence: Annotated[
        bool, typer.Option("--fence", help="Let a statement take a keyed table over from its writer.")
    ] = False,
    spill: Annotated[
        str | None,
        typer.Option("--spill", metavar="DIR", help="A directory for rows that don't fit into memory."),
    ] = None,
    in_process: Annotated[
        str | None,
        typer.Option("--in-process", metavar="SIZE", help="As much as a query may read into this process."),
    ] = None,
    allow_files: Annotated[
        list[str] | None,
        typer.Option("--allow-files", metavar="DIR", help="COPY may read and write below it. Repeat it."),
    ] = None,
    writer: Annotated[
        str | None, typer.Option("--writer", metavar="ID", help="This process among the writers of catalogs.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where a writer can't be read, instead of leaving it out.")
    ] = False,
    options: StoreOptions = None,
) -> None:
    """Run SQL: queries and statements, in this process in DuckDB's SQL, or queries on Spark in Spark's.

    Without SQL on a terminal, it is an interactive shell; \\? lists what it knows.

    firn sql "SELECT origin, count(*) FROM flights GROUP BY 1" --db ./prod
    """
    run_sql(
        db,
        query,
        file=file,
        param=param,
        limit=limit,
        csv=csv,
        json=json,
        engine=engine,
        fence=fence,
        spill=spill,
        in_process=in_process,
        allow_files=allow_files,
        writer=writer,
        strict=strict,
        options=options,
    )
