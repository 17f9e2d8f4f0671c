"""The properties of a record table, read once into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from firn.errors import InvalidInputError
from firn.units import parse_size

RECORD_PROPERTIES: Mapping[str, Any] = {
    "inline": "256KB",
}
"""Properties of record tables with their defaults."""

ATTEMPTS: Final = 30
"""How often a transaction is tried: with the waits between them, some half a minute of conflicts."""


@dataclass(frozen=True)
class RecordSettings:
    """Sizes in bytes. `inline` is up to which size a document's JSON is in the commit itself; larger ones are staged
    before, at 1 PUT each."""

    inline: int = 256 << 10

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> RecordSettings:
        """Read a table's properties.

        Raises:
            InvalidInputError: an unknown name, or a value that can't be; the message names it.

        >>> RecordSettings.from_properties({"inline": "1MB"}).inline
        1048576
        """
        if unknown := sorted(properties.keys() - RECORD_PROPERTIES.keys()):
            raise InvalidInputError(
                f"unknown table property {unknown[0]!r} for kind='records'; there are: "
                f"{', '.join(sorted(RECORD_PROPERTIES))}."
            )
        given = {**RECORD_PROPERTIES, **{k: v for k, v in properties.items() if v is not None}}
        return RecordSettings(inline=parse_size(given["inline"]))
