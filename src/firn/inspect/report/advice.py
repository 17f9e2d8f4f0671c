"""Advice: the next step with a table, and its gain. Pure; names are not escaped here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firn.inspect.report.facts import TableFacts
from firn.inspect.report.keyed_facts import KeyedFacts
from firn.inspect.report.words import count
from firn.units import size_text

MANY_RUNS = 4
"""Sorted runs of a keyed table from which on a compaction is worth its reads."""

MANY_DELETES = 0.2
"""The share of deletes among a keyed table's entries from which on a whole compaction is worth its reads."""

MANY_COMMITS = 1000
"""Commits in the log of record tables from which on a sweep is worth its requests."""

MANY_PARTITIONS = 16
"""Small partitions are no matter while there are fewer."""

SMALL = 16
"""A partition is small if so many of them would fit into one file of `target_size`."""


@dataclass(frozen=True)
class Advice:
    """One thing to do. `command` is the shell's; "" where no command does it."""

    why: str
    command: str = ""


def lake_advice(facts: TableFacts) -> Iterator[Advice]:
    """For a lake table, what wins most first; nothing if all is in order."""
    writer = " --writer ID" if facts.writers else ""
    each = ", by each writer" if facts.writers else ""
    mergeable, merged = sum(facts.merges), len(facts.merges)
    if mergeable > merged:
        yield Advice(
            f"Merge: {count(mergeable, 'small file')} would become {merged:,}{each}, so a scan "
            f"of all rows makes {count(mergeable - merged, 'request')} less.",
            f"firn merge {facts.url}{writer}",
        )
    elif mergeable:
        yield Advice(
            f"Merge: {count(mergeable, 'file')} with soft deletes would be written without the rows that "
            f"are deleted{each}; until then every reader filters them.",
            f"firn merge {facts.url}{writer}",
        )
    waiting, weight = facts.stored["replaced"]
    if waiting and facts.writers:
        yield Advice(
            f"Prune, then sweep: {count(waiting, 'file')} ({size_text(weight)}) belong to older revisions, to "
            "appends under way or to nothing. Older revisions can be read until firn prune forgets them; "
            "sweep then deletes what is left over.",
            f"firn sweep {facts.url} --writer ID",
        )
    elif waiting:
        yield Advice(
            f"Sweep: {count(waiting, 'file')} ({size_text(weight)}) belong to older versions, to appends under "
            "way or to nothing. Older versions can be read until a sweep after the table's grace deletes them.",
            f"firn sweep {facts.url}",
        )
    yield from _partitions(facts)


def _partitions(facts: TableFacts) -> Iterator[Advice]:
    """No merge joins files of two partitions."""
    number, target = len(facts.partitions), facts.target_size
    if number < MANY_PARTITIONS or facts.bytes * SMALL > number * target:
        return
    yield Advice(
        f"Partition coarser: {number:,} partitions hold {size_text(facts.bytes // number)} each on average, and "
        f"no merge joins two of them. A new table by larger ones, like year(…) for month(…), or by none, holds "
        f"the same in about {count(max(1, -(-facts.bytes // target)), 'file')} of up to {size_text(target)}."
    )


def keyed_advice(facts: KeyedFacts) -> Iterator[Advice]:
    """For a keyed table, what wins most first; nothing if all is in order."""
    deletes = sum(run.deletes or 0 for run in facts.runs)
    never = facts.view.pointer.last_compacted_ms is None and facts.sorted_runs > 1
    if facts.sorted_runs >= MANY_RUNS or never:
        since = "nothing was ever compacted, and " if never else ""
        yield Advice(
            f"Compact: {since}a get asks up to {count(facts.sorted_runs, 'sorted run')}; afterwards it asks one.",
            f"firn keyed compact {facts.url} --full",
        )
    elif deletes > MANY_DELETES * (facts.entries or deletes or 1):
        yield Advice(
            f"Compact: {count(deletes, 'delete')} take room that a whole compaction gives back.",
            f"firn keyed compact {facts.url} --full",
        )
    number, weight = facts.stored["compacted files, fences"]
    if weight:
        yield Advice(
            f"Sweep: {count(number, 'file')} ({size_text(weight)}) were compacted; what no checkpoint names can "
            "go.",
            f"firn keyed sweep {facts.url}",
        )
    if lasting := [ref for ref in facts.checkpoints if ref.expires_ms is None]:
        yield Advice(
            f"Look at {count(len(lasting), 'checkpoint')} that never expires, and keeps all files that it names: "
            f"{', '.join(ref.name or ref.id for ref in lasting)}.",
            f"firn keyed checkpoint {facts.url} NAME --delete",
        )


def records_advice(url: str, *, commits: int) -> Iterator[Advice]:
    """For a record table, by the commits that the log of its database still holds."""
    if commits < MANY_COMMITS:
        return
    yield Advice(
        f"Sweep: the log holds {count(commits, 'commit')}, and rows their old versions. A sweep deletes what no "
        "transaction may read any more, so a process that begins reads less.",
        f"firn records sweep {url}",
    )
