"""Is this machine's clock near the store's? Commits are ordered by time, so an appender's must be."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import InvalidInputError
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.model import Commit

CHECK_EVERY_S = 600.0


class SkewCheck:
    """Compares clocks by objects just written, whose last-modified the store told."""

    def __init__(
        self,
        bucket: Bucket,
        log_bucket: Bucket,
        layout: TableLayout,
        clock: Clock,
        settings: Callable[[], LeaderlessSettings],
    ) -> None:
        self.bucket, self.log_bucket, self.layout, self.clock = bucket, log_bucket, layout, clock
        self._settings = settings
        self._checked_at: float | None = None

    def check(self, commit: Commit, started_ms: int) -> None:
        """Refuse to append by a clock that is far off the store's: 1 HEAD, once in ten minutes; after a slow
        write, or where nothing was written, 1 PUT more, and before refusing too."""
        now = self.clock.monotonic()
        if not commit.adds or (self._checked_at is not None and now - self._checked_at < CHECK_EVERY_S):
            return
        allowed = self._settings().max_skew_ms
        written = next((f.path for f in reversed(commit.adds) if self.layout.owns(f.path)), None)
        # The clock is read before the HEAD, whose answer may take any time. The longer ago the write may have
        # been, the less its time tells.
        ended_ms = self.clock.now_ms()
        off = allowed + 1
        if written is not None and ended_ms - started_ms <= allowed:
            off = _ahead_ms(started_ms, ended_ms, self.bucket.head(written).modified_ms)
        if abs(off) > allowed:
            off = _ahead_ms(*self._probe())
        if abs(off) > allowed:
            raise InvalidInputError(
                f"this machine's clock is {abs(off) / 1000:.0f} s {'ahead of' if off > 0 else 'behind'} the clock of "
                f"{self.log_bucket.url}; at most {allowed / 1000:g} s are allowed (max_skew), as commits are "
                "ordered by time. Nothing was appended; set the clock."
            )
        self._checked_at = now

    def _probe(self) -> tuple[int, int, int]:
        """Write a small object and look at it: own times around both, and the store's of the write. If somebody else
        wrote it meanwhile, that was between these times, too. Again if it took long."""
        for _ in range(3):
            before = self.clock.now_ms()
            self.log_bucket.put(self.layout.clock_key, secrets.token_bytes(16))
            modified = self.log_bucket.head(self.layout.clock_key).modified_ms
            after = self.clock.now_ms()
            if after - before <= self._settings().max_skew_ms:
                break
        return before, after, modified


def _ahead_ms(before: int, after: int, modified: int) -> int:
    """Milliseconds, at least, that a clock is ahead of the store's: a write between its times `before` and
    `after` was `modified` by the store's. Negative for behind."""
    return max(before - modified, 0) or min(after - modified, 0)
