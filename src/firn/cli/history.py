"""Commands that tell what happened: log, writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.app import READ, app
from firn.cli.kind import LogOptions, shell_kind
from firn.cli.lake.history import detail, newest, time_text
from firn.cli.opening import given_or_usual, open_database
from firn.cli.options import option
from firn.cli.target import At, DbArg, DbOption, Json, StoreOptions, TargetArg, open_target
from firn.cli.terminal import output

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.inspect.transactions import TransactionLine
    from firn.journal.writer.federation.federation import WriterInfo

OnlyWriter = Annotated[str | None, option("ID", "Only what this writer did.", "--writer")]


@app.command(rich_help_panel=READ)
def log(
    target: TargetArg = None,
    db: DbOption = None,
    writer: OnlyWriter = None,
    at: At = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Only the newest so many.")
    ] = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Print a table's history: commits and sweeps, the newest last. Of a database: its writers' transactions.

    Those of a database have their uuids, and both sides of a fork. Of a keyed table: its manifests.
    Of a record table: the commits that changed it.
    """
    asked = LogOptions(writer, at, limit, json)
    database, name = open_target(target, db, options)
    if name is None:
        _database_log(database, asked)
        return
    table = database.table(name)
    shell_kind(table.kind).print_log(database, table, asked)


# -- a database's


def _database_log(database: Database, asked: LogOptions) -> None:
    from firn.inspect.transactions import transaction_lines
    from firn.journal.writer.federation.federation import check_known

    known, writer = database.writers(), asked.writer
    if writer is not None:
        check_known([writer], [each.name for each in known], database.url)
        known = [each for each in known if each.name == writer]
    lines: Sequence[TransactionLine] = newest(
        transaction_lines(database, writer=writer, at=asked.at), asked.limit
    )
    if asked.json:
        output.document(
            {
                "database": database.url,
                "writers": [output.plain(each) for each in known],
                "transactions": [output.plain(line) for line in lines],
            }
        )
        return
    for each in known:
        if each.health != "ok":
            output.warn(f"the writer {each.name}: {each.detail}")
    if not known:
        output.note(f"No writers in {database.url}. The log of one table: firn log {database.url}/TABLE")
    elif lines:
        heads = ["time (UTC)", "writer", "revision", "uuid", "what", "files", "rows", "size", "tables", ""]
        output.table(heads, [_transaction_line(line) for line in lines], right=(2, 5, 6, 7))


def _transaction_line(line: TransactionLine) -> tuple[str, ...]:
    status = "" if line.status == "counts" else line.status
    return (
        "" if line.time is None else time_text(line.time),
        line.writer,
        str(line.revision),
        line.uuid[:8],
        line.op,
        f"+{line.files_added:,} -{line.files_removed:,}",
        "" if line.rows_added is None or not line.files_added else f"+{line.rows_added:,}",
        output.size(line.bytes_added) if line.files_added else "",
        ", ".join(line.tables),
        ", ".join(filter(None, (status, line.detail, detail(line.summary)))),
    )


# -- writers


@app.command(rich_help_panel=READ)
def writers(db: DbArg = None, json: Json = False, options: StoreOptions = None) -> None:
    """List the writers of a database: their newest revision, its time, and whether all is well with them."""
    url = given_or_usual(db)
    found = open_database(url, options).writers()
    if json:
        output.document({"database": url, "writers": [output.plain(each) for each in found]})
    elif found:
        heads = ["writer", "revision", "last commit (UTC)", "health", ""]
        output.table(heads, [_writer_line(each) for each in found], right=(1,))
    else:
        output.note(f"No writers in {url}.")


def _writer_line(each: WriterInfo) -> tuple[str, ...]:
    time = "" if each.time is None else f"{each.time:%Y-%m-%d %H:%M:%S}"
    return each.name, f"{each.revision:,}", time, each.health, each.detail
