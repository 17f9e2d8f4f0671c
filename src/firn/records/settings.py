"""The properties of a record table, read once into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firn.errors import InvalidInputError
from firn.units import parse_duration, parse_size

RECORD_PROPERTIES: Mapping[str, Any] = {
    "retention": "1h",
    "inline": "256KB",
    "orphan_age": "7d",
}
"""Properties of record tables with their defaults."""


@dataclass(frozen=True)
class RecordSettings:
    """Sizes in bytes, times in seconds.

    `retention` is how long versions that newer ones replaced are kept for transactions that began before.
    `inline` is up to which size a document's JSON is in the commit itself, larger ones being staged before, and
    `orphan_age` how old staged ones must be that no commit refers to before sweep takes them.
    """

    retention: float = 3600.0
    inline: int = 256 << 10
    orphan_age: float = 7 * 86_400.0

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> RecordSettings:
        """Read a table's properties.

        Raises:
            InvalidInputError: an unknown name, or a value that can't be; the message names it.

        >>> RecordSettings.from_properties({"retention": "10m"}).retention
        600.0
        """
        if unknown := sorted(properties.keys() - RECORD_PROPERTIES.keys()):
            raise InvalidInputError(
                f"unknown table property {unknown[0]!r} for kind='records'; there are: "
                f"{', '.join(sorted(RECORD_PROPERTIES))}."
            )
        given = {**RECORD_PROPERTIES, **{k: v for k, v in properties.items() if v is not None}}
        return RecordSettings(
            retention=parse_duration(given["retention"]),
            inline=parse_size(given["inline"]),
            orphan_age=parse_duration(given["orphan_age"]),
        )
