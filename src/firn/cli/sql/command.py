"""`firn sql`: statements in a shell's command, in a file, or from standard input."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firn.cli.app import READ, app
from firn.cli.sql.answers import Format, print_answer
from firn.cli.target import Csv, Json, Limit, StoreOptions, open_database, pairs, typed
from firn.cli.terminal import waiting
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.database.database import Engine

ENGINES = ("duckdb", "spark")


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
    if csv and json:
        raise InvalidInputError("--csv and --json exclude each other.")
    if engine is not None and engine not in ENGINES:
        raise InvalidInputError(f"--engine {engine}: it can be {' or '.join(ENGINES)}.")
    if query is not None and file is not None:
        raise InvalidInputError("give SQL or --file, not both.")
    chosen = Format("json" if json else "csv" if csv else "table", limit)
    opened = partial(
        open_database, db, options, writer=writer, strict=strict, spill=spill, in_process=in_process
    )
    roots = allow_files or []
    if query is None and file is None and sys.stdin.isatty():
        from firn.cli.sql.prompt import Prompt

        database = opened(must_exist=False, allow_files=[*roots, "."])
        Prompt(database, chosen, engine=cast("Engine | None", engine), fence=fence).run()
        return
    from firn.predicate.words import WordReader, statements
    from firn.sql.script import run_script

    text = query if query is not None else _read(file)
    given = {name: typed(value) for name, value in pairs(param, "--param").items()}
    makes = any(WordReader(one).peek() == "CREATE" for one in statements(text))
    database = opened(must_exist=not makes, allow_files=roots)
    if engine == "spark":
        waiting.start_spark()
    on_spark = engine == "spark"
    results = run_script(
        database, text, given, on_spark=on_spark, engine=cast("Engine | None", engine), fence=fence
    )
    quiet, more = json and not sys.stdout.isatty(), True
    while more:
        with waiting.working(database, quiet=quiet) as answered:
            result = next(results, None)
            more = result is not None
            if result is not None:
                print_answer(result, chosen, answered)


def _read(file: Path | None) -> str:
    if file is None:
        return sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"--file {file} can't be read: {error}.") from None
