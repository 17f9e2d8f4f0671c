"""The times of appends: those of one handle ascend, so that the version of one shows nothing of the next."""

from __future__ import annotations

import firn
from firn.clock import SystemClock
from firn.journal.leaderless.replay.table_log import MAX_AHEAD_MS


class StillClock(SystemClock):
    """A clock that stands, and is set by hand."""

    def __init__(self) -> None:
        self.at = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.at


def stamps(table: firn.LakeTable, appends: int) -> list[int]:
    return [int(table.append([{"n": n}]).version.split("_")[0]) for n in range(appends)]


def test_appends_of_one_millisecond_ascend() -> None:
    table = firn.connect("memory://").create_table("t")
    clock = StillClock()
    table.journal.clock = clock
    assert stamps(table, 3) == [clock.at, clock.at + 1, clock.at + 2]
    assert [table.scan(at=version.version).count() for version in table.history()] == [1, 2, 3]
    clock.at += 1000
    assert stamps(table, 1) == [clock.at]


def test_a_clock_that_is_set_back_is_believed() -> None:
    table = firn.connect("memory://").create_table("t")
    clock = StillClock()
    table.journal.clock = clock
    first = stamps(table, 1)[0]
    clock.at -= MAX_AHEAD_MS
    assert stamps(table, 1) == [clock.at]
    clock.at += 1
    assert stamps(table, 1) == [first + 1]
    clock.at -= 5 * MAX_AHEAD_MS
    assert stamps(table, 3) == [clock.at, clock.at + 1, clock.at + 2]
    clock.at -= 5 * MAX_AHEAD_MS
    assert stamps(table, 2) == [clock.at, clock.at + 1]
