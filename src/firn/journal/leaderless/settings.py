"""The protocol's times, with the journal page's letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.columns import OnConflict
from firn.units import parse_duration


@dataclass(frozen=True)
class Settings:
    """Milliseconds throughout; each is a table property of the name in `PROPERTIES`.

    `retry_window_ms` is R: how long an append's log is retried. `landing_delay_ms` is Z: the longest delay
    from the last check to a PUT's landing. `max_skew_ms` bounds how far a client's clock may be off.
    """

    grace_ms: int = 3_600_000
    orphan_age_ms: int = 7 * 24 * 3_600_000
    retry_window_ms: int = 120_000
    landing_delay_ms: int = 300_000
    max_skew_ms: int = 60_000
    lease_ms: int = 30_000
    lock_wait_ms: int = 120_000
    schema_refresh_ms: int = 10_000
    on_conflict: OnConflict = "error"

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> Settings:
        values: dict[str, Any] = {}
        for name, attribute in PROPERTIES.items():
            if name in properties:
                values[attribute] = int(parse_duration(properties[name]) * 1000)
        if "on_conflict" in properties:
            values["on_conflict"] = properties["on_conflict"]
        settings = Settings(**values)
        if settings.orphan_age_ms <= 2 * settings.landing_delay_ms:
            raise InvalidInputError(
                "orphan_age must be more than twice landing_delay: an append that is just being published "
                "would lose its files to sweep."
            )
        return settings


PROPERTIES = {
    "tombstone_grace": "grace_ms",
    "orphan_age": "orphan_age_ms",
    "retry_window": "retry_window_ms",
    "landing_delay": "landing_delay_ms",
    "max_skew": "max_skew_ms",
    "lease": "lease_ms",
    "lock_wait": "lock_wait_ms",
    "schema_refresh": "schema_refresh_ms",
}
