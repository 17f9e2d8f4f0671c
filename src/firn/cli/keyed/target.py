"""Opening the keyed table that a command names, and the options that commands for keyed tables share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from firn.cli.options import argument, option
from firn.cli.target import locate, open_database

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.keyed.table import KeyedTable

Hex = Annotated[bool, typer.Option("--hex", help="Keys and values that are bytes are hexadecimal digits.")]
KeyArg = Annotated[str, argument("KEY", "Text, a number, …; of several columns a JSON array.")]
ValueArg = Annotated[
    str, argument("VALUE", "Text; of a table with a schema a JSON object; - is standard input.")
]
AtView = Annotated[
    str | None, option("CHECKPOINT|VERSION", "As it was at a checkpoint or a version.", "--at")
]
Ttl = Annotated[str | None, option("TIME", "How long it lives, like 10m or 7d; else the table's.", "--ttl")]


def open_keyed(
    table: str, db: str | None, options: Sequence[str] | None = None
) -> tuple[Database, KeyedTable]:
    """A keyed table that exists, with its database.

    Raises:
        TableNotFoundError: there is none.
        InvalidInputError: the table is of another kind; the message names the commands for it.
    """
    url, name = locate(table, db)
    database = open_database(url, options)
    return database, database.table(name, kind="keyed")
