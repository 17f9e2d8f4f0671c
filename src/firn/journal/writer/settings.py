"""A table's properties that concern its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.entries import PROPERTY, Entries, times_in_force
from firn.units import parse_duration_ms

EVERY = 100
"""Transactions between two checkpoints, unless the table says otherwise."""


@dataclass(frozen=True)
class WriterSettings:
    """Milliseconds, and transactions. `checkpoint_every` 0 writes no checkpoint unasked."""

    orphan_age_ms: int = 7 * 24 * 3_600_000
    schema_refresh_ms: int = 10_000
    checkpoint_every: int = EVERY

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> WriterSettings:
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
        return WriterSettings(**values)

    def changed(self, properties: Mapping[str, Any]) -> WriterSettings:
        """With properties that were set since; None stands for the default."""
        ours = {name: value for name, value in properties.items() if name in PROPERTIES}
        if not ours:
            return self
        set_now = WriterSettings.from_properties(
            {name: value for name, value in ours.items() if value is not None}
        )
        attributes = {**DURATIONS, "checkpoint_every": "checkpoint_every"}
        return replace(self, **{attributes[name]: getattr(set_now, attributes[name]) for name in ours})

    def lasting(self, definition: Entries, now_ms: int) -> WriterSettings:
        """`changed`, with the greatest `orphan_age` by which somebody may still append."""
        present = self.changed(definition.of(PROPERTY))
        slack = present.schema_refresh_ms + MAX_SKEW_MS
        held = times_in_force(definition, "orphan_age", self.orphan_age_ms, now_ms, slack)
        return replace(present, orphan_age_ms=max([present.orphan_age_ms, *held]))


MAX_SKEW_MS = 120_000
"""How far two clocks may be apart."""
DURATIONS = {"orphan_age": "orphan_age_ms", "schema_refresh": "schema_refresh_ms"}
PROPERTIES = (*DURATIONS, "checkpoint_every")
