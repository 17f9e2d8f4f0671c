"""Moments of commits: tests that need an order of two commits see to it that their times differ."""

from __future__ import annotations

import time


def next_millisecond() -> None:
    """Return in a later millisecond: two commits of one have no order of their own."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        pass
