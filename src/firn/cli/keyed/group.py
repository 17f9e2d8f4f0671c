"""The group `firn keyed`, into which the modules beside this one hang their commands, and the options these share."""

from __future__ import annotations

from typing import Annotated

from firn.cli.app import KEYED, group
from firn.cli.options import argument, flag, option

keyed = group("keyed", KEYED, "Keyed tables: read and write single keys, compact, checkpoint, sweep.")

Hex = Annotated[bool, flag("Keys and values that are bytes are hexadecimal digits.", "--hex")]
KeyArg = Annotated[str, argument("KEY", "Text, a number, …; of several columns a JSON array.")]
ValueArg = Annotated[
    str, argument("VALUE", "Text; of a table with a schema a JSON object; - is standard input.")
]
AtView = Annotated[
    str | None, option("CHECKPOINT|VERSION", "As it was at a checkpoint or a version.", "--at")
]
Ttl = Annotated[str | None, option("TIME", "How long it lives, like 10m or 7d; else the table's.", "--ttl")]
