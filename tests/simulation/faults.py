"""What goes wrong in the worlds of several kinds of table, within what each protocol may assume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from firn.testing import Call, Fault, RandomFaults, Replay


class LandsInTime:
    """Random faults; those calls that `bounded` tells land within `longest_s` of being sent, or never."""

    def __init__(
        self, faults: RandomFaults, longest_s: float, *, bounded: Callable[[Call, Fault], bool]
    ) -> None:
        self.faults, self.longest_s, self.bounded = faults, longest_s, bounded

    def decide(self, call: Call) -> Fault | None:
        fault = self.faults.decide(call)
        if fault is None or not self.bounded(call, fault):
            return fault
        return replace(fault, seconds=min(fault.seconds, self.longest_s))


def rough(
    seed: int | Replay, rate: float, stalls: float, *, slow: float, delay_s: float, stall_s: float
) -> RandomFaults:
    """All kinds of faults. `rate` scales all of them, `stalls` sleeping clients and puts that land late."""
    return RandomFaults(
        seed,
        crash=0.01 * rate,
        lost_ack=0.03 * rate,
        retried=0.03 * rate,
        delayed=0.03 * rate * stalls,
        duplicated=0.02 * rate * stalls,
        failed=0.02 * rate,
        slow=slow * rate,
        stalled=0.02 * rate * stalls,
        truncated=0.002 * rate,
        delay_s=delay_s,
        stall_s=stall_s,
    )
