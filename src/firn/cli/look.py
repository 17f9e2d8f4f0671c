"""Commands that look inside: dump, fsck, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firn.cli.app import LOOK, app
from firn.cli.opening import store_options
from firn.cli.options import argument, flag, option
from firn.cli.target import TARGET, DbOption, Json, StoreOptions, TargetArg, check_there, open_target
from firn.cli.terminal import output, waiting
from firn.cli.terminal.exits import FOUND
from firn.errors import AccessDeniedError, InvalidInputError


@app.command(rich_help_panel=LOOK)
def dump(
    object: Annotated[str, argument("OBJECT", "An object's URL or path; a directory's lists its objects.")],
    limit: Annotated[int, option("N", "Lines or entries of each section.", "--limit", "-n", min=0)] = 50,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Print any object of a database: log, transaction, checkpoint, claim, lock, manifest, SST, Parquet file.

    Shows what is there and checks nothing: what can't be decoded is shown beside what can.
    """
    from firn.inspect.dump.dump import dump_url

    found = dump_url(object, options=store_options(options))
    if json:
        output.document(found.to_json())
    else:
        output.line(found.to_text(limit=limit))


@app.command(rich_help_panel=LOOK)
def fsck(
    target: TargetArg = None,
    db: DbOption = None,
    writer: Annotated[str | None, option("ID", "Only this writer's catalog.")] = None,
    quick: Annotated[bool, flag("Don't read data files' footers.", "--quick")] = False,
    blocks: Annotated[
        bool, flag("Of keyed tables: read every block, and compare its checksum.", "--blocks")
    ] = False,
    checks: Annotated[
        bool, flag("Of lake tables: ask all rows whether they pass the table's checks.", "--checks")
    ] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Check that objects can be read, hang together, and are there. Changes nothing; exits with 1 for a problem.

    firn fsck ./prod
    """
    from firn.inspect.fsck.fsck import check

    database, name = open_target(target, db, options, known=False)
    with waiting.spinner("checking"):
        report = check(database, name, writer=writer, footers=not quick, blocks=blocks, checks=checks)
    if not report.checked and not report.findings:
        check_there(database)
    if json:
        output.document(
            {
                "database": database.url,
                "table": name,
                "ok": not report.problems,
                "checked": dict(report.checked),
                "findings": [output.plain(finding) for finding in report.findings],
            }
        )
    else:
        for finding in report.findings:
            output.line(f"{finding.severity}: {finding}")
        looked = ", ".join(output.counted(n, kind) for kind, n in report.checked.items())
        found = output.plural(len(report.problems), "problem") if report.problems else "all is well"
        output.line(f"checked {looked or 'nothing'}; {found}")
    if report.problems:
        raise typer.Exit(FOUND)


@app.command(rich_help_panel=LOOK)
def report(
    target: Annotated[str, TARGET],
    db: DbOption = None,
    out: Annotated[
        Path, option("FILE", "The page to write; an earlier one is replaced.", "--out", "-o")
    ] = Path("firn-report.html"),
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Write a page with a table's, or a database's, history, files and costs: one HTML file, no network."""
    from firn.inspect.report.report import write_report

    database, name = open_target(target, db, options)
    names = None if name is None else [name]
    if names is None:
        check_there(database)
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
