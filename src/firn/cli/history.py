"""Commands that tell what happened: log, writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.app import READ, app
from firn.cli.keyed.history import print_manifests
from firn.cli.target import (
    At,
    DbArg,
    DbOption,
    Json,
    StoreOptions,
    TargetArg,
    given_or_usual,
    open_database,
    open_target,
)
from firn.cli.terminal import output
from firn.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.inspect.transactions import TransactionLine
    from firn.journal.model import CommitInfo
    from firn.journal.writer.federation.federation import WriterInfo
    from firn.lake.table import LakeTable

LOG_WIDTH = 150
"""Terminals less wide show a commit on two lines."""

NARROW = 74
"""Less wide ones show the figures of a commit on a line of their own."""

OnlyWriter = Annotated[str | None, typer.Option("--writer", metavar="ID", help="Only what this writer did.")]


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
    database, name = open_target(target, db, options)
    if name is None:
        _database_log(database, writer, at, limit, json)
        return
    from firn.cli.records.history import print_commits
    from firn.keyed.table import KeyedTable
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable

    table = database.table(name)
    if isinstance(table, RecordTable | RowTable):
        if writer is not None or at is not None:
            raise InvalidInputError(f"{name} is a record table: leave --writer and --at out.")
        print_commits(table, limit, json)
    elif not isinstance(table, KeyedTable):
        _table_log(database, table, writer, at, limit, json)
    elif writer is not None or at is not None:
        raise InvalidInputError(
            f"{name} is a keyed table, whose log are its manifests: leave --writer and --at out."
        )
    else:
        print_manifests(table, limit, json)


def _newest(lines: Sequence[Any], limit: int | None) -> Sequence[Any]:
    return lines if limit is None or limit >= len(lines) else lines[len(lines) - limit :]


# -- a table's


def _table_log(
    database: Database, table: LakeTable, writer: str | None, at: str | None, limit: int | None, json: bool
) -> None:
    history: Sequence[CommitInfo] = table.history()
    if table.descriptor.journal == "writer":
        known = database.writers()
        for each in known:
            if each.health != "ok":
                output.warn(
                    f"the writer {each.name} is left out beyond revision {each.revision}: {each.detail}"
                )
        if writer is not None:
            _check_known(writer, known, database)
            history = [c for c in history if _place(c.version)[0] == writer]
        if at is not None:
            heads = dict(map(_place, table.snapshot(at).version.split(",")))
            history = [c for c in history if _place(c.version)[1] <= heads.get(_place(c.version)[0], 0)]
    else:
        if writer is not None:
            raise InvalidInputError(f"{table.name} has one log and no writers: leave --writer out.")
        if at is not None:
            until = table.snapshot(at)
            history = [c for c in history if c.time.timestamp() * 1000 <= until.time_ms]
    history = _newest(history, limit)
    if json:
        output.document({"table": table.name, "history": [output.plain(c) for c in history]})
        return
    lines = [_commit_line(c) for c in history]
    console = output.stdout()
    if console.is_terminal and console.width < LOG_WIDTH:
        _print_narrow(lines, console.width)
        return
    heads_line = ["time (UTC)", "what", "files", "rows", "size", "version", ""]
    output.table(heads_line, lines, right=(2, 3, 4))


def _print_narrow(lines: Sequence[Sequence[str]], width: int) -> None:
    """Commits on several lines each: a version broken into lines couldn't be copied, so it has one of its own."""
    for time, what, files, rows, size, version, detail in lines:
        if width >= NARROW:
            output.line(f"{time}  {what:<9}  {files:>13}  {rows:>11}  {size:>9}".rstrip())
        else:
            output.line(f"{time}  {what}")
            output.line("  " + "  ".join(filter(None, (files, rows, size))))
        both = "  ".join(filter(None, (version, detail)))
        for rest in [both] if len(both) + 2 <= width else filter(None, (version, detail)):
            output.note(f"  {rest}", answer=True)


def _place(version: str) -> tuple[str, int]:
    """The writer and the revision in a version like `host-17=12`."""
    writer, _, revision = version.rpartition("=")
    return writer, int(revision or 0)


def _commit_line(c: CommitInfo) -> tuple[str, ...]:
    return (
        _time(c.time),
        c.op,
        f"+{c.files_added:,} -{c.files_removed:,}",
        "" if c.rows_added is None else f"+{c.rows_added:,}",
        output.size(c.bytes_added) if c.files_added else "",
        c.version,
        _detail(c.summary),
    )


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"


def _detail(summary: Mapping[str, Any]) -> str:
    """What a person wants to know of a commit's summary: predicates and what a sweep deleted."""
    shown = []
    for name, value in summary.items():
        if name in ("where", "query", "to"):
            shown.append(f"{name} {value}")
        elif name in ("data_files", "logs", "orphans") and value:
            shown.append(output.counted(value, name.replace("_", " ")))
        elif name == "bytes":
            shown.append(output.size(value))
    return ", ".join(shown)


# -- a database's


def _database_log(
    database: Database, writer: str | None, at: str | None, limit: int | None, json: bool
) -> None:
    from firn.inspect.transactions import transaction_lines

    known = database.writers()
    if writer is not None:
        _check_known(writer, known, database)
        known = [each for each in known if each.name == writer]
    lines: Sequence[TransactionLine] = _newest(transaction_lines(database, writer=writer, at=at), limit)
    if json:
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
        "" if line.time is None else _time(line.time),
        line.writer,
        str(line.revision),
        line.uuid[:8],
        line.op,
        f"+{line.files_added:,} -{line.files_removed:,}",
        "" if line.rows_added is None or not line.files_added else f"+{line.rows_added:,}",
        output.size(line.bytes_added) if line.files_added else "",
        ", ".join(line.tables),
        ", ".join(filter(None, (status, line.detail, _detail(line.summary)))),
    )


def _check_known(writer: str, known: Sequence[WriterInfo], database: Database) -> None:
    if writer not in (names := [each.name for each in known]):
        raise NotFoundError(
            f"{database.url} has no writer {writer!r}; there are: {', '.join(names) or 'none'}."
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
