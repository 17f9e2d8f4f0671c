"""Look for the end of the log, behind an end that is known (rules 6 and 9). Found records count once the caller has
read the horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from firn.journal.sequence.model import LogRecord
from firn.journal.sequence.store import SequenceStore

WIDEST: Final = 32
"""Numbers that are asked for at once at most."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The records behind an end that was known, one after the other. `began_s` is a time before it was asked for the
    one that isn't there; None where that wasn't found."""

    records: Sequence[LogRecord]
    began_s: float | None


def probe(
    store: SequenceStore, known: int, now_s: Callable[[], float], *, certain: int = 0, most: int | None = None
) -> Probed:
    """Ask for the numbers after `known` until one isn't there, or until `most` were.

    The first two are asked for one by one; then as many at once as were found. So a client that is far behind waits
    for few answers, and one that isn't asks for few missing numbers. `certain` of them are known to be there. 1 GET
    and 1 a record; behind by more than one, up to as many again.
    """
    found: list[LogRecord] = []
    while most is None or len(found) < most:
        began_s = now_s()
        first = known + len(found) + 1
        width = min(len(found), WIDEST) or certain + 1
        there = store.records(range(first, first + width))
        # A number behind one that isn't there was taken later: the end is before the first that isn't.
        for number in range(first, first + width):
            if number not in there:
                return Probed(found, began_s)
            found.append(there[number])
    return Probed(found, None)
