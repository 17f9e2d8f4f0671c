"""A transaction on its way to becoming a revision, and how old its files are: sweep takes those that nothing names
for orphans."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from firn.clock import Clock, seconds_awake_or_not
from firn.errors import AppendExpiredError, NotFoundError, StoreError
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.state import CatalogHead, CatalogState

MARGIN_MS = 600_000
"""A commit ends so long before its files may be swept, as requests take time to land."""


class Age:
    """The time since before the first data PUT of a change to a table. Made before that."""

    def __init__(self, clock: Clock, what: str, orphan_age_ms: int) -> None:
        self._clock, self._what, self._orphan_age_ms = clock, what, orphan_age_ms
        self._started = seconds_awake_or_not(clock)

    def backdate(self, seconds: float) -> None:
        """Say that the first data PUT was so long ago: other processes made it."""
        self._started -= max(0.0, seconds)

    @property
    def is_over(self) -> bool:
        """Whether sweep may have deleted the first files, or will before a commit lands that is sent now."""
        margin_ms = min(self._orphan_age_ms / 10, MARGIN_MS)
        return self._elapsed() * 1000 >= self._orphan_age_ms - margin_ms

    def check(self) -> None:
        """`AppendExpiredError` where it is over."""
        if self.is_over:
            raise AppendExpiredError(
                f"this {self._what} began {self._elapsed():.0f} s ago, and files that no transaction names are "
                f"swept after {self._orphan_age_ms / 1000:.0f} s. Nothing of it is visible; start it over, in "
                "smaller parts or with a larger orphan_age."
            )

    def _elapsed(self) -> float:
        return seconds_awake_or_not(self._clock) - self._started


NOTHING_SENT = (StoreError, NotFoundError)
"""Errors of a bucket that say that a write didn't happen."""


@dataclass(frozen=True)
class Pending:
    """A transaction that is sent, again if need be: the same bytes under the same name. `before` is the head that
    it follows, `state` the catalog once it counts, `ages` those of its data files."""

    key: str
    transaction: CatalogTransaction
    body: bytes
    before: CatalogHead
    state: CatalogState
    ages: Sequence[Age] = ()

    @property
    def revision(self) -> int:
        return self.transaction.revision

    @property
    def uuid(self) -> str:
        return self.transaction.uuid


class Settled(enum.Enum):
    """It counts. `THEN_CLOSE`: and another process has gone on from there."""

    DONE = enum.auto()
    THEN_CLOSE = enum.auto()
