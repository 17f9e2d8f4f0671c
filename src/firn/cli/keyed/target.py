"""Opening the keyed table that a command names, and the options that commands for keyed tables share."""

from __future__ import annotations

from typing import Annotated

from firn.cli.options import argument, flag, option

Hex = Annotated[bool, flag("Keys and values that are bytes are hexadecimal digits.", "--hex")]
KeyArg = Annotated[str, argument("KEY", "Text, a number, …; of several columns a JSON array.")]
ValueArg = Annotated[
    str, argument("VALUE", "Text; of a table with a schema a JSON object; - is standard input.")
]
AtView = Annotated[
    str | None, option("CHECKPOINT|VERSION", "As it was at a checkpoint or a version.", "--at")
]
Ttl = Annotated[str | None, option("TIME", "How long it lives, like 10m or 7d; else the table's.", "--ttl")]
