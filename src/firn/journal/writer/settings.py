"""What a table's properties say of its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.columns import OnConflict
from firn.journal.writer.checkpoint import EVERY
from firn.units import parse_duration_ms


@dataclass(frozen=True)
class Settings:
    """Milliseconds, and transactions. `checkpoint_every` 0 writes no checkpoint unasked."""

    orphan_age_ms: int = 7 * 24 * 3_600_000
    schema_refresh_ms: int = 10_000
    checkpoint_every: int = EVERY
    on_conflict: OnConflict = "error"

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> Settings:
        values: dict[str, Any] = {}
        for name, attribute in DURATIONS.items():
            if name in properties:
                values[attribute] = parse_duration_ms(properties[name])
        if "checkpoint_every" in properties:
            every = properties["checkpoint_every"]
            if not str(every).isdecimal():
                raise InvalidInputError(
                    f"table property checkpoint_every is {every!r}; it must be a whole number of transactions, 0 for "
                    "no checkpoints."
                )
            values["checkpoint_every"] = int(every)
        if "on_conflict" in properties:
            values["on_conflict"] = properties["on_conflict"]
        return Settings(**values)


DURATIONS = {"orphan_age": "orphan_age_ms", "schema_refresh": "schema_refresh_ms"}
PROPERTIES = (*DURATIONS, "checkpoint_every")
