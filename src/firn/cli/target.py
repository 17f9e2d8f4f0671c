"""How commands name databases, tables and store options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from firn.cli.opening import given_or_usual, open_database
from firn.cli.options import argument, flag, option
from firn.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from firn.database.database import Database

TableArg = Annotated[str, argument("TABLE", "The table's URL, like ./prod/flights; with --db its name.")]
TARGET = argument("TABLE|DATABASE", "A table's or a database's URL; with --db a table's name.")
TargetArg = Annotated[str | None, TARGET]
DbArg = Annotated[
    str | None, argument("DATABASE", "The database's URL: ./prod, s3://bucket/prod; else FIRN_DB.")
]
DbOption = Annotated[str | None, option("URL", "The database's URL.", "--db", envvar="FIRN_DB")]
WriterOption = Annotated[
    str | None,
    option("ID", "Write as this writer, to tables of writers' catalogs.", "--writer", envvar="FIRN_WRITER"),
]
StoreOptions = Annotated[
    list[str] | None,
    option("NAME=VALUE", "A store option, like endpoint=http://127.0.0.1:9000. Repeatable.", "--option"),
]
Json = Annotated[bool, flag("Print one JSON document (rows: one line each).", "--json")]
DryRun = Annotated[bool, flag("Only say what would happen.", "--dry-run")]
At = Annotated[str | None, option("TIME|VERSION", "As it was then; a time without a zone is UTC.", "--at")]
Csv = Annotated[bool, flag("Print CSV with a header.", "--csv")]
Limit = Annotated[int | None, option("N", "At most so many rows.", "--limit", "-n", min=0)]


def locate(table: str, db: str | None) -> tuple[str, str]:
    """A table's database and its name, from what was given: its URL, or its name beside --db."""
    from firn.database.database import split_table_url

    if "/" not in table:
        if db is None:
            raise InvalidInputError(
                f"{table!r} names no database: give the table's URL, like ./prod/{table}, or --db URL."
            )
        return db, table
    # A URL says it all, whatever --db or FIRN_DB say.
    return split_table_url(table)


def open_target(
    target: str | None, db: str | None, options: Sequence[str] | None = None, *, known: bool = True
) -> tuple[Database, str | None]:
    """A database, and the table's name where one was named: by its URL, or by its name beside --db.

    A URL is a table's if a definition or a log lies there, or if its parent is a database of writers' catalogs:
    their tables have no directory of their own. Unless it has to be `known`, the table may be missing or broken.
    """
    if target is None or ("/" not in target and db is not None):
        database, name = open_database(given_or_usual(db), options), target
    else:
        database, name = _at_url(target, options)
    if known and name is not None:
        database.table(name)  # says so if it isn't there
    return database, name


def check_there(database: Database) -> None:
    """Refuse a place where nothing of Firn's is: a name with a typing error isn't well.

    Raises:
        NotFoundError: there is no table and no writer.
    """
    if not database.tables() and not database.writers():
        raise NotFoundError(
            f"there is no table and no writer in {database.url}: check the URL, or create a table with firn create."
        )


def _at_url(url: str, options: Sequence[str] | None) -> tuple[Database, str | None]:
    from firn.bucket.keys import key_below
    from firn.bucket.urls import parse_url
    from firn.database.database import split_table_url
    from firn.journal.writer.federation.federation import has_table

    address = parse_url(url)
    here, is_table = None, False
    if "/" not in url or address.kind != "directory" or os.path.isdir(address.name):
        here = open_database(url, options)
        if _is_recorded(here) or "/" not in url.rstrip("/"):
            return here, None
        is_table = has_table(here.bucket.list_dirs(key_below(here.prefix, "")))
    try:
        base, name = split_table_url(url)
        parent = open_database(base, options)
    except (InvalidInputError, NotFoundError):
        if here is None:
            raise
        return here, None  # the root of a bucket
    if is_table or _is_recorded(parent):
        return parent, name
    if here is None and parent.tables():
        parent.table(name)  # says what there is instead
    return here or open_database(url, options), None  # which says if it isn't there


def _is_recorded(database: Database) -> bool:
    """Whether a writer has ever begun there; what it recorded may be damaged."""
    from firn.bucket.presence import is_there
    from firn.journal.writer.format.layout import database_key

    return is_there(database.bucket, database_key(database.prefix))
