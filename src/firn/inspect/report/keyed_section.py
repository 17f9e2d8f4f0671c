"""A keyed table's section of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firn.inspect.dump.decoded import when
from firn.inspect.report.advice import keyed_advice
from firn.inspect.report.advice_panel import advice_panel
from firn.inspect.report.figures import run_sizes
from firn.inspect.report.keyed_facts import KeyedFacts, keyed_facts
from firn.inspect.report.page import Html, cards, figure, grid, joined, pair, panel, tag
from firn.units import size_text

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable

RECENT_WRITERS = 20


def keyed_children(table: KeyedTable) -> tuple[str, list[Any]]:
    """The table's URL, and what stands below it on the page."""
    facts = keyed_facts(table)
    entries = facts.entries
    numbers = {
        "entries": "?" if entries is None else f"{entries:,}",
        "sorted runs": f"{facts.sorted_runs:,}",
        "files": f"{facts.files:,}",
        "live data": size_text(facts.bytes),
        "checkpoints": f"{len(facts.checkpoints):,}",
        "all objects": size_text(sum(size for _, size in facts.stored.values())),
    }
    children: list[Any] = [
        cards(numbers),
        panel("In short", *(tag("p", s) for s in _sentences(facts))),
        advice_panel(keyed_advice(facts)),
    ]
    if facts.runs:
        runs = [[r.title, f"{r.files:,}", _known(r.entries), _known(r.deletes), size_text(r.bytes), r.first, r.last]
                for r in facts.runs]  # fmt: skip
        heads = ["run", "files", "entries", "deletes", "size", "first key", "last key"]
        chart = figure(run_sizes([(r.title, r.bytes, r.files) for r in facts.runs]))
        children.append(
            panel("Sorted runs, the newest first", chart, grid(heads, runs, numbers=(1, 2, 3, 4), keys=(0,)))
        )
    if facts.checkpoints:
        children.append(panel("Checkpoints", _checkpoints(facts)))
    children.append(
        pair(panel("Columns", _columns(facts)), panel("Definition and objects", _definition(facts)))
    )
    return facts.url, children


def merge_text(merge: str | Mapping[str, str] | None) -> str:
    """A table's merge operator, or those of its columns.

    >>> merge_text({"flights": "add", "worst": "max"})
    'flights=add, worst=max'
    """
    if merge is None or isinstance(merge, str):
        return merge or ""
    return ", ".join(f"{name}={operator}" for name, operator in merge.items())


def _known(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _sentences(facts: KeyedFacts) -> list[str]:
    if not facts.writers:
        return ["Nobody has opened the table for writing yet."]
    newest = facts.writers[-1]
    found = [
        f"A get asks up to {facts.sorted_runs:,} sorted runs, of which {facts.flushes:,} are flushes that no "
        "compaction has taken up.",
        f"The newest writer has epoch {newest.writer_epoch}; its flushes begin at {newest.starting_sst:,}.",
    ]
    if facts.last_compacted_ms is None:
        found.append("No compaction has ended yet.")
    else:
        found.append(
            f"The last compaction ended at {when(facts.last_compacted_ms).partition('(')[2].rstrip(')')}."
        )
    return found


def _checkpoints(facts: KeyedFacts) -> Html:
    rows = [
        [
            ref.name or ref.id,
            ref.version,
            when(ref.created_ms).partition("(")[2].rstrip(")"),
            "never" if ref.expires_ms is None else when(ref.expires_ms).partition("(")[2].rstrip(")"),
        ]
        for ref in facts.checkpoints
    ]
    return grid(["name", "version", "made", "expires"], rows, keys=(0, 1))


def _columns(facts: KeyedFacts) -> Html:
    rows = [[name, kind, "key"] for name, kind in facts.key.items()]
    rows += [[name, kind, ""] for name, kind in facts.columns.items()]
    return grid(["column", "type", ""], rows)


def _definition(facts: KeyedFacts) -> Html:
    rows: list[list[Any]] = [
        ["version", facts.version],
        ["merge operator", merge_text(facts.merge) or "none"],
        ["entries live", "for ever" if facts.ttl_ms is None else f"{facts.ttl_ms / 1000:,g} s"],
        ["compactor's epoch", str(facts.compactor_epoch)],
    ]
    shown = facts.writers[-RECENT_WRITERS:]
    rows += [[f"writer {i.writer_epoch}", f"flushes from {i.starting_sst:,} on"] for i in reversed(shown)]
    rows += [[f"property {name}", value] for name, value in facts.properties.items()]
    rows += [[title, f"{count:,}, {size_text(size)}"] for title, (count, size) in facts.stored.items()]
    return joined([grid(["", ""], rows, keys=(0,))])
