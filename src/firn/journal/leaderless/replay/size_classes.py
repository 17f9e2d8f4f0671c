"""Which logs of maintenance a fold's log takes in, so that they stay few and no line is written often. Pure.

A log of maintenance carries tombstones and markers of those that it replaces. If each fold replaced all of them, it
would write every line anew each time. So a fold takes in eight of about one size, as soon as there are eight.
"""

from __future__ import annotations

from collections.abc import Iterable

from firn.journal.leaderless.format.codec import Log

FAN_IN = 8
"""So many logs of one class become one of a higher class."""


def size_class(lines: int) -> int:
    """The class of a log with so many tombstones and markers: a log in base 8.

    >>> [size_class(n) for n in (0, 1, 7, 8, 63, 64, 4096)]
    [0, 0, 0, 1, 1, 2, 4]
    """
    found = 0
    while lines >= FAN_IN:
        lines //= FAN_IN
        found += 1
    return found


def taken_in(logs: Iterable[Log], lines: int) -> list[Log]:
    """The logs that a new one replaces beside those that it must. All lines of those that it takes in stand in a log
    of a higher class then, so a line is written at most once a class.

    Args:
        logs: of maintenance, and void ones, that no log replaces.
        lines: tombstones and markers that the new log has anyway.
    """
    by_class: dict[int, list[Log]] = {}
    for log in logs:
        by_class.setdefault(size_class(_lines(log)), []).append(log)
    found: list[Log] = []
    for number, there in sorted(by_class.items()):
        # The new log is one of its own class.
        if len(there) + (size_class(lines) == number) >= FAN_IN:
            found += there
            lines += sum(_lines(log) + 1 for log in there)
    return found


def _lines(log: Log) -> int:
    return len(log.tombstones) + len(log.files)
