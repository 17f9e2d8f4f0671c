"""Begin without anything known of a log (rule 9): where it ends, and the records that aren't applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from firn.journal.sequence.catalog import after
from firn.journal.sequence.model import Head, Horizon, LogRecord
from firn.journal.sequence.store import SequenceStore


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """The end of a log, and all its records from `applied` on."""

    head: Head
    records: list[LogRecord]
    applied: int


NEAR: Final = 2
"""Numbers behind what is applied that are asked for before the log is listed."""


def open_log(store: SequenceStore, behind: int, now_s: Callable[[], float]) -> OpenedLog | None:
    """The log's end, which is known to be at or behind number `behind`. None: the log was truncated meanwhile.

    It is at or behind what the horizon says is applied, too. The next numbers tell whether it is right there; if not,
    the log is listed from there on. 2 GETs of the horizon, 2 behind the end, and 1 a record that isn't applied;
    1 LIST sequence of what is behind that where there is more than one, or where there is no log yet.

    Raises:
        CorruptObjectError: the horizon is missing, and the log's beginning was truncated.
    """
    applied = store.horizon().applied
    start = max(behind, applied)
    probed = probe(store, start, now_s, most=NEAR)
    there = {record.number: record for record in probed.records}
    top = start + len(probed.records)
    if probed.began_s is not None and store.record(top + 2) is not None:
        # Either two commits came since, or a record is lost, whose place the next commit would take.
        return None
    if probed.began_s is None:
        top = store.last(top)
    elif not top and store.has_lost_horizon():
        raise store.incomplete()
    if top and top not in there:
        last = store.record(top)
        if last is None:
            return None
        there[top] = last
    if top:
        since = range(max(there[top].applied, applied) + 1, top)
        there.update(store.records([number for number in since if number not in there]))
    if probed.began_s is None:
        probed = probe(store, top, now_s)
        there.update((record.number, record) for record in probed.records)
    assert probed.began_s is not None
    # The horizon comes last: the log may have been truncated up to the end, and a ghost be behind that.
    horizon = store.horizon()
    if horizon.lo >= max(top, 1):
        return None
    return _opened(max(there, default=0), probed.began_s, there, horizon)


def _opened(end: int, began_s: float, there: Mapping[int, LogRecord], horizon: Horizon) -> OpenedLog | None:
    """None if records are missing that aren't applied."""
    # Between what is known to be applied and what was truncated since there may be ghosts.
    records = [record for number, record in sorted(there.items()) if number > horizon.lo]
    applied = max([horizon.applied, *(record.applied for record in records)])
    if not {record.number for record in records} >= set(range(applied + 1, end + 1)):
        return None
    if not end:
        return OpenedLog(Head(0, began_s, {}), [], applied)
    return OpenedLog(Head(end, began_s, after(there[end]), there[end].base_after), records, applied)


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
