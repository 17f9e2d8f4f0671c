"""A table's facts in plain sentences. Pure; names are not escaped here."""

from __future__ import annotations

from collections import Counter

from firn.inspect.report.facts import Point, TableFacts
from firn.journal.model import CommitInfo
from firn.units import size_text

_NOUNS = {"remove": "partition removal", "forget": "loss", "register": "registration"}
"""Words for operations whose name isn't one already."""


def count(number: int | None, noun: str) -> str:
    """
    >>> count(1, "file"), count(1200, "row"), count(None, "row"), count(2, "merge")
    ('1 file', '1,200 rows', 'an unknown number of rows', '2 merges')
    """
    if number is None:
        return f"an unknown number of {noun}s"
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def known(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def sentences(facts: TableFacts) -> list[str]:
    """Facts of the table that a person should know, most important first."""
    said = [_what_it_holds(facts)]
    if facts.points:
        said.append(_what_happened(facts))
    if merges := [p for p in facts.points if p.commit.op == "merge" and p.commit.files_removed]:
        said.append(_merge(merges[-1]))
    if sweeps := [p for p in facts.points if p.commit.op == "sweep"]:
        said.append(_sweep(sweeps[-1].commit))
    said.extend(f"Warning: {w}" for w in facts.snapshot.warnings)
    return said


def _what_it_holds(facts: TableFacts) -> str:
    where = ""
    if by := ", ".join(map(str, facts.table.partition_spec.fields)):
        where = f" of {count(len(facts.partitions), 'partition')} (by {by})"
    sort_by = facts.table.context.definition.sort_by
    order = f", each sorted by {', '.join(sort_by)}" if sort_by else ""
    return (
        f"{facts.table.name} holds {count(facts.rows, 'row')} with {count(len(facts.snapshot.columns), 'column')} in "
        f"{count(facts.files, 'file')}{where}, {size_text(facts.bytes)}{order}."
    )


def _what_happened(facts: TableFacts) -> str:
    first, last = facts.points[0].commit, facts.points[-1].commit
    ops = Counter(p.commit.op for p in facts.points)
    listed = [count(n, _NOUNS.get(op, op)) for op, n in ops.most_common()]
    what = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    seconds = (last.time - first.time).total_seconds()
    span = f"within {duration(seconds)}, up to" if len(facts.points) > 1 else "on"
    return f"Its history shows {what} {span} {last.time:%Y-%m-%d %H:%M:%S} UTC."


def duration(seconds: float) -> str:
    """
    >>> duration(0.4), duration(90), duration(7200), duration(200000)
    ('1 second', '90 seconds', '2 hours', '2 days')
    """
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return count(round(seconds / length), unit)
    return count(max(1, round(seconds)), "second")


def _merge(point: Point) -> str:
    c = point.commit
    before = "" if point.bytes_removed is None else f", {size_text(point.bytes_removed)}"
    return (
        f"The last merge, at {c.time:%H:%M:%S}, made {count(c.files_added, 'file')} "
        f"({size_text(c.bytes_added)}) of {count(c.files_removed, 'file')}{before}."
    )


def _sweep(commit: CommitInfo) -> str:
    s = commit.summary
    return (
        f"The last sweep, at {commit.time:%H:%M:%S}, deleted {count(s.get('data_files', 0), 'replaced file')}, "
        f"{count(s.get('logs', 0), 'log')} and {count(s.get('orphans', 0), 'orphan')}: "
        f"{size_text(s.get('bytes', 0))}. Versions before that can't be read any more."
    )
