"""The work of `firn sql`, whoever has read the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from firn.cli.opening import open_database, pairs, typed
from firn.cli.sql.answers import Format, print_answer
from firn.cli.terminal import waiting
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.database.database import Engine

ENGINES = ("duckdb", "spark")


def run_sql(
    db: str,
    query: str | None = None,
    *,
    file: Path | None = None,
    param: Sequence[str] | None = None,
    limit: int | None = None,
    csv: bool = False,
    json: bool = False,
    engine: str | None = None,
    fence: bool = False,
    spill: str | None = None,
    in_process: str | None = None,
    allow_files: Sequence[str] | None = None,
    writer: str | None = None,
    strict: bool = False,
    options: Sequence[str] | None = None,
) -> None:
    """See `command.sql`."""
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
