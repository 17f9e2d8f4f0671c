"""How puts are slowed down before they are stopped: by what isn't flushed yet, and by L0 that no compaction took.

Up to half of a bound nothing happens. From there on, puts wait a little for each megabyte, and flushes are further
apart, the more of the bound is used; at the bound, puts wait until there is room. So a compaction that is late costs
many short waits and not a long one. Pure, but for the time that it is told.
"""

from __future__ import annotations

from dataclasses import dataclass

PACE_BYTES = 256 << 10
"""How much is put between two short waits."""

LONGEST_WAIT_S = 0.125
"""How long a put waits for `PACE_BYTES`, just below a bound."""

LONGEST_PAUSE_S = 1.0
"""Between the beginnings of two flushes, just below the bound of L0 objects."""


@dataclass(frozen=True)
class Pressure:
    """How much of the bounds is used; 1.0 is all.

    `unflushed` are bytes that no bucket has yet, `l0_bytes` and `l0_files` what no compaction has taken.
    """

    unflushed: float = 0.0
    l0_bytes: float = 0.0
    l0_files: float = 0.0

    @property
    def full(self) -> bool:
        """Whether puts must wait for room."""
        return max(self.unflushed, self.l0_bytes, self.l0_files) >= 1.0

    def wait_s(self, put_bytes: int) -> float:
        """How long a put waits after so many bytes were put.

        >>> Pressure(l0_bytes=0.5).wait_s(1 << 18), Pressure(l0_bytes=0.75).wait_s(1 << 18)
        (0.0, 0.03125)
        """
        above = max(_above(self.unflushed), _above(self.l0_bytes))
        return LONGEST_WAIT_S * above * above * min(1.0, put_bytes / PACE_BYTES)

    def pause_s(self) -> float:
        """How long after the last flush the next one begins, at least: fewer and larger ones are less work.

        >>> Pressure(l0_files=0.5).pause_s(), Pressure(l0_files=1.0).pause_s()
        (0.0, 1.0)
        """
        above = _above(self.l0_files)
        return LONGEST_PAUSE_S * above * above


CALM = Pressure()


def _above(used: float) -> float:
    """How much is used of the upper half of a bound."""
    return min(1.0, max(0.0, 2 * used - 1))
