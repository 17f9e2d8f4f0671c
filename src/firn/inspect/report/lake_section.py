"""A lake table's section of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.inspect.report.advice import lake_advice
from firn.inspect.report.facts import CHANGES_DATA, Point, TableFacts, table_facts
from firn.inspect.report.history_chart import COLOURS, colour, history_chart
from firn.inspect.report.page import Html, Section, TableSection, bar, dot, grid, joined, legend, panel, tag
from firn.inspect.report.words import count, duration, known, sentences
from firn.journal.model import SUMMARY_TEXTS
from firn.lake.table import LakeTable
from firn.units import size_text

RECENT_COMMITS = 50
MOST_CHANGES = 12
MOST_PARTITIONS = 200
BEFORE = "#b9c2d0"
CHANGED = {
    "replaced or removed": BEFORE,
    "written instead": COLOURS["append"],
    "deleted by sweep": COLOURS["delete"],
}


def lake_section(table: LakeTable) -> Section:
    """Cost: see `table_facts`."""
    facts = table_facts(table)
    commits = sum(1 for p in facts.points if p.commit.op != "sweep")
    numbers = {
        "rows": known(facts.rows),
        "files": f"{facts.files:,}",
        "live data": size_text(facts.bytes),
        "partitions": f"{len(facts.partitions):,}",
        "commits": f"{commits:,}",
        "all objects": size_text(sum(weight for _, weight in facts.stored.values())),
    }
    if waiting := [f for f in facts.snapshot.files if f.inlined is not None]:
        rows = sum(f.rows or 0 for f in waiting)
        numbers["rows still in the log"] = f"{rows:,}, of {len(waiting):,} commits"
    folds = [p.commit.time for p in facts.points if p.commit.op == "fold"]
    if folds or table.context.definition.keeps_itself:
        numbers["last fold by a keeper"] = f"{folds[-1]:%Y-%m-%d %H:%M:%S} UTC" if folds else "none yet"
    panels = []
    if len(facts.points) > 1:
        panels.append(panel("Rows and files over time", history_chart(facts.points)))
    if facts.files:
        panels += [
            panel("Partitions", partitions(facts)),
            panel("File sizes", file_sizes([f.size for f in facts.snapshot.objects])),
        ]
    if changed := [p for p in facts.points if p.commit.op in (*CHANGES_DATA, "sweep")]:
        panels.append(panel("What maintenance did", changes(changed[-MOST_CHANGES:])))
    if facts.points:
        panels.append(panel("Recent commits", _commits(facts.points)))
    columns: Html = tag("p", "None yet: the first append decides them.")
    if facts.snapshot.columns:
        columns = grid(["column", "type"], facts.snapshot.columns.items())
    both = panel("Columns", columns), panel("Definition and objects", _definition(facts))
    panels.append(tag("div", *both, class_="pair"))
    return Section(facts.url, numbers, sentences(facts), lake_advice(facts), panels)


def partitions(facts: TableFacts) -> Html:
    """Rows, files and size of each partition; the largest if there are many."""
    heaviest = sorted(facts.partitions.items(), key=lambda item: -item[1].bytes)[:MOST_PARTITIONS]
    shown = {name: p for name, p in facts.partitions.items() if name in dict(heaviest)}
    files, size = max(p.files for p in shown.values()), max(p.bytes for p in shown.values())
    rows = [
        [
            name or "all rows",
            known(p.rows),
            bar([(p.files, COLOURS["merge"])], files, f"{p.files:,}"),
            bar([(p.bytes, COLOURS["append"])], size, size_text(p.bytes)),
        ]
        for name, p in shown.items()
    ]
    more = len(facts.partitions) - len(shown)
    left = tag("p", f"… and {more:,} smaller ones: firn partitions shows them.", class_="soft")
    return joined([grid(["partition", "rows", "files", "size"], rows, numbers=(1,)), left if more else ""])


def file_sizes(sizes: Sequence[int]) -> Html:
    """How many files there are of each size, by powers of two."""
    powers = [max(1, size).bit_length() - 1 for size in sizes]
    counts = {p: powers.count(p) for p in range(min(powers), max(powers) + 1)}
    rows = [
        [
            f"{size_text(2**p)}–{size_text(2 ** (p + 1))}".replace(".0 ", " "),
            bar([(n, COLOURS["append"])], max(counts.values()), f"{n:,}"),
        ]
        for p, n in counts.items()
    ]
    return grid(["size", "files"], rows, keys=(0,))


def changes(points: Sequence[Point]) -> Html:
    """Files and bytes before and after each maintenance, and what sweeps deleted."""
    found = [(p, _before_and_after(p)) for p in points]
    most = [max(pair[i] for _, pairs in found for pair in pairs.values()) for i in (0, 1)]

    def bars(pairs: dict[str, tuple[int, int]], i: int) -> Html:
        return joined(
            bar([(pair[i], CHANGED[what])], most[i], size_text(pair[1]) if i else f"{pair[0]:,}", what)
            for what, pair in pairs.items()
        )

    rows = [[f"{p.commit.op} {p.commit.time:%H:%M:%S}", bars(x, 0), bars(x, 1)] for p, x in found]
    return joined([legend(CHANGED), grid(["", "files", "size"], rows, keys=(0,))])


def _before_and_after(point: Point) -> dict[str, tuple[int, int]]:
    c = point.commit
    if c.op == "sweep":
        objects = sum(int(c.summary.get(name, 0)) for name in ("data_files", "logs", "orphans"))
        return {"deleted by sweep": (objects, int(c.summary.get("bytes", 0)))}
    return {
        "replaced or removed": (c.files_removed, point.bytes_removed or 0),
        "written instead": (c.files_added, c.bytes_added),
    }


def _commits(points: Sequence[Point]) -> Html:
    rows: list[list[Any]] = []
    for p in points[: -RECENT_COMMITS - 1 : -1]:
        c = p.commit
        files, changed, written = _plus_minus(c.files_added, c.files_removed), "", ""
        detail = "; ".join(f"{k} {v}" for k, v in c.summary.items() if k in SUMMARY_TEXTS)
        if c.op == "sweep":
            detail = (
                f"{count(c.summary.get('logs', 0), 'log')} too, {size_text(c.summary.get('bytes', 0))} in all"
            )
        else:
            changed = _plus_minus(c.rows_added, p.rows_removed)
            written = size_text(c.bytes_added) if c.files_added else ""
        name = joined([dot(colour(c.op)), c.op])
        rows.append([f"{c.time:%Y-%m-%d %H:%M:%S}", name, files, changed, written, c.version, detail])
    heads = ["time (UTC)", "what", "files", "rows", "written", "version", ""]
    more = len(points) - len(rows)
    left = tag("p", f"… and {more:,} earlier ones: firn log shows them.", class_="soft")
    return joined([grid(heads, rows, numbers=(2, 3, 4), keys=(0, 1, 5)), left if more else ""])


def _plus_minus(added: int | None, removed: int | None) -> str:
    return " ".join(f"{sign}{number:,}" for sign, number in (("+", added), ("−", removed)) if number)


def _definition(facts: TableFacts) -> Html:
    definition, time = facts.table.context.definition, facts.snapshot.time
    rows: list[list[Any]] = [
        ["partitioned by", ", ".join(map(str, facts.table.partition_spec.fields)) or "nothing"],
        ["sorted by", ", ".join(definition.sort_by) or "nothing"],
        ["version", facts.snapshot.version],
        ["last commit", "none" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"],
    ]
    if len(facts.points) > 1:
        span = facts.points[-1].commit.time - facts.points[0].commit.time
        rows.append(["history spans", duration(span.total_seconds())])
    for writer in facts.writers:
        health = "" if writer.health == "ok" else f", {writer.health}: {writer.detail}"
        rows.append([f"writer {writer.name}", f"revision {writer.revision:,}{health}"])
    rows += [[f"property {name}", value] for name, value in definition.properties.items()]
    titles = {
        "live": "live data files",
        "replaced": "data files of older versions or of none",
        "logs": "transactions, claims, markers of the writers" if facts.writers else "logs",
        "other": "hints, clocks" if facts.writers else "definition, lock, caches",
    }
    rows += [[titles[kind], f"{n:,}, {size_text(weight)}"] for kind, (n, weight) in facts.stored.items()]
    return grid(["", ""], rows)


PART: TableSection = lake_section
