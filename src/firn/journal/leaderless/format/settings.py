"""The protocol's times, with the journal page's letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from firn.errors import InvalidInputError
from firn.journal.entries import PROPERTY, Entries, times_between, times_in_force, times_since
from firn.units import parse_duration


class Window(NamedTuple):
    """How a view of the log may build on an earlier one. Milliseconds.

    `width_ms` is W: by how much a log may land later than its name says. For `lasts_ms` the earlier view counts; then
    cleanup may have taken back that a log was replaced. By `skew_ms` two clocks may differ.
    """

    width_ms: int
    lasts_ms: int
    skew_ms: int


@dataclass(frozen=True)
class LeaderlessSettings:
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

    @staticmethod
    def from_properties(properties: Mapping[str, Any]) -> LeaderlessSettings:
        values: dict[str, Any] = {}
        for name, attribute in PROPERTIES.items():
            if name in properties:
                values[attribute] = int(parse_duration(properties[name]) * 1000)
        settings = LeaderlessSettings(**values)
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse times that don't go together."""
        if self.orphan_age_ms <= 2 * self.landing_delay_ms:
            raise InvalidInputError(
                "orphan_age must be more than twice landing_delay: an append that is just being published "
                "would lose its files to sweep."
            )

    def altered(self, definition: Entries) -> LeaderlessSettings:
        """With the properties that were set since; None stands for the default."""
        values: dict[str, int] = {}
        for name, value in definition.of(PROPERTY).items():
            if (attribute := PROPERTIES.get(name)) is not None:
                ms = getattr(_DEFAULTS, attribute) if value is None else int(parse_duration(value) * 1000)
                values[attribute] = ms
        return replace(self, **values) if values else self

    def lasting(self, definition: Entries, now_ms: int, *, least_grace: bool = False) -> LeaderlessSettings:
        """`altered`, with each protocol time the greatest that somebody may still go by: one that was in force within
        itself and `schema_refresh` before now. Else a sweep would take the files of a slow append that began under
        the value before. `least_grace`: of `tombstone_grace` the least, by which somebody may have swept."""
        found = self.altered(definition)
        slack = found._slack_ms
        values = {}
        for name in PROTOCOL_TIMES:
            attribute = PROPERTIES[name]
            held = times_in_force(definition, name, getattr(self, attribute), now_ms, slack)
            choose = min if least_grace and attribute == "grace_ms" else max
            values[attribute] = choose([getattr(found, attribute), *held])
        return replace(found, **values)

    def least_grace_ms(self, definition: Entries, since_ms: int) -> int:
        """The least `tombstone_grace` by which somebody may have swept since then; these are the settings of the
        table's creation."""
        found = self.altered(definition)
        begin_ms = since_ms - found._slack_ms
        return min([found.grace_ms, *times_since(definition, "tombstone_grace", self.grace_ms, begin_ms)])

    def orphan_age_ms_at(self, definition: Entries, at_ms: int) -> int:
        """The least `orphan_age` by which somebody may have gone at a time; these are the settings of now."""
        begin_ms = at_ms - self._slack_ms
        return min(times_between(definition, "orphan_age", self.orphan_age_ms, begin_ms, at_ms))

    @property
    def landing_ms(self) -> int:
        """How long after its time an append's log may appear, by any clock."""
        return self.retry_window_ms + self.landing_delay_ms + 2 * self.max_skew_ms

    @property
    def window_ms(self) -> int:
        """How long after its time any log may appear, by any clock: W."""
        return self.sending_ms + self.landing_delay_ms + 2 * self.max_skew_ms

    @property
    def sending_ms(self) -> int:
        """How long after its stamp a maintenance log may be sent: R, but a second at least, as it takes requests."""
        return max(self.retry_window_ms, 1000)

    @property
    def _slack_ms(self) -> int:
        """How long after a change a process may still use the old values, as this process sees it."""
        return self.schema_refresh_ms + 2 * self.max_skew_ms


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
PROTOCOL_TIMES = ("tombstone_grace", "orphan_age", "retry_window", "landing_delay", "max_skew")
"""Those by which others' files are judged: a change is remembered with its time."""
_DEFAULTS = LeaderlessSettings()
