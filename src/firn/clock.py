"""The clock that protocols read, so that simulations can turn it by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds, a monotonic time in seconds, and sleep."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """This machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def seconds_awake_or_not(clock: Clock) -> float:
    """A monotonic time that goes on while the machine is suspended, where the system has one.

    A lease that is measured by a time that stands still in suspension lives too long. On Linux
    `time.monotonic` stands still; elsewhere it goes on.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is not None and isinstance(clock, SystemClock):
        return time.clock_gettime(boot)
    return clock.monotonic()
