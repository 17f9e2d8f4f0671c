"""A keyed table's section of a report."""

from __future__ import annotations

from collections.abc import Mapping

from firn.inspect.dump.decoded import moment
from firn.inspect.report.advice import keyed_advice
from firn.inspect.report.keyed_facts import KeyedFacts, keyed_facts
from firn.inspect.report.page import Html, Section, TableSection, bar, grid, panel, tag
from firn.inspect.report.words import known
from firn.keyed.table import KeyedTable
from firn.units import size_text

RECENT_WRITERS = 20


def keyed_section(table: KeyedTable) -> Section:
    """Cost: see `keyed_facts`."""
    facts = keyed_facts(table)
    numbers = {
        "entries": known(facts.entries),
        "sorted runs": f"{facts.sorted_runs:,}",
        "files": f"{facts.files:,}",
        "live data": size_text(facts.bytes),
        "checkpoints": f"{len(facts.checkpoints):,}",
        "all objects": size_text(sum(size for _, size in facts.stored.values())),
    }
    panels = []
    if facts.runs:
        most = max(run.bytes for run in facts.runs)
        runs = [
            [r.title, f"{r.files:,}", known(r.entries), known(r.deletes),
             bar([(r.bytes, "#4c8dd6")], most, size_text(r.bytes)), r.first, r.last]
            for r in facts.runs
        ]  # fmt: skip
        heads = ["run", "files", "entries", "deletes", "size", "first key", "last key"]
        panels.append(panel("Sorted runs, the newest first", grid(heads, runs, numbers=(1, 2, 3), keys=(0,))))
    if facts.checkpoints:
        made = [
            [
                ref.name or ref.id,
                ref.version,
                moment(ref.created_ms),
                "never" if ref.expires_ms is None else moment(ref.expires_ms),
            ]
            for ref in facts.checkpoints
        ]
        panels.append(panel("Checkpoints", grid(["name", "version", "made", "expires"], made, keys=(1,))))
    definition = table.definition
    columns = [
        *((name, kind, "key") for name, kind in (definition.key or {"key": "BLOB"}).items()),
        *((name, kind, "") for name, kind in (definition.columns or {"value": "BLOB"}).items()),
    ]
    both = (
        panel("Columns", grid(["column", "type", ""], columns)),
        panel("Definition and objects", _definition(facts)),
    )
    panels.append(tag("div", *both, class_="pair"))
    return Section(facts.url, numbers, _sentences(facts), keyed_advice(facts), panels)


def merge_text(merge: str | Mapping[str, str] | None) -> str:
    """A table's merge operator, or those of its columns.

    >>> merge_text({"flights": "add", "worst": "max"})
    'flights=add, worst=max'
    """
    if merge is None or isinstance(merge, str):
        return merge or ""
    return ", ".join(f"{name}={operator}" for name, operator in merge.items())


def _sentences(facts: KeyedFacts) -> list[str]:
    pointer = facts.view.pointer
    if not pointer.infos:
        return ["Nobody has opened the table for writing yet."]
    newest, ended = pointer.infos[-1], pointer.last_compacted_ms
    return [
        f"A get asks up to {facts.sorted_runs:,} sorted runs, of which {facts.flushes:,} are flushes that no "
        "compaction has taken up.",
        f"The newest writer has epoch {newest.writer_epoch}; its flushes begin at {newest.starting_sst:,}.",
        "No compaction has ended yet." if ended is None else f"The last compaction ended at {moment(ended)}.",
    ]


def _definition(facts: KeyedFacts) -> Html:
    definition, pointer = facts.table.definition, facts.view.pointer
    ttl = definition.ttl_ms
    rows = [
        ("version", facts.view.version),
        ("merge operator", merge_text(definition.merge_operator) or "none"),
        ("entries live", "for ever" if ttl is None else f"{ttl / 1000:,g} s"),
        ("compactor's epoch", pointer.compactor_epoch),
        *(
            (f"writer {i.writer_epoch}", f"flushes from {i.starting_sst:,} on")
            for i in pointer.infos[: -RECENT_WRITERS - 1 : -1]
        ),
        *((f"property {name}", value) for name, value in definition.properties.items()),
        *((title, f"{count:,}, {size_text(size)}") for title, (count, size) in facts.stored.items()),
    ]
    return grid(["", ""], rows)


PART: TableSection = keyed_section
