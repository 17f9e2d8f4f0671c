"""A table's, or a database's, history, files and costs as one HTML page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from firn.database.database import Database
from firn.errors import FirnError, UnsupportedError
from firn.inspect.report import figures
from firn.inspect.report.advice import lake_advice
from firn.inspect.report.advice_panel import advice_panel
from firn.inspect.report.facts import Point, Step, TableFacts, table_facts
from firn.inspect.report.keyed_section import keyed_children
from firn.inspect.report.page import Html, cards, dot, figure, grid, joined, page, pair, panel, tag
from firn.inspect.report.records_section import record_children
from firn.inspect.report.words import duration, sentences
from firn.keyed.table import KeyedTable
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.units import size_text

RECENT_COMMITS = 50
MOST_PARTITIONS = 200

__all__ = ["Step", "render_report", "write_report"]


def write_report(
    db: Database,
    path: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    steps: Sequence[Step] = (),
) -> list[str]:
    """Write a page about some tables, or all; the names of the tables on it. An earlier file is replaced.

    Args:
        db: the database.
        path: the HTML file. It needs no network, no other file, and no server.
        tables: names; all tables by default.
        steps: measured work, for a chart of requests and seconds.

    Raises:
        TableNotFoundError: a table that was named isn't there.
        UnsupportedError: plotly isn't installed (the extra `firn[report]`).
        OSError: the file can't be written.

    Cost: that of `tables()`, and for each table 3 LIST sequences + the logs that aren't cached + 1 GET; for a keyed
    one what opening a reader costs, 2 LIST sequences, and 1 GET a checkpoint.
    """
    content, names = render_report(db, tables=tables, steps=steps)
    target = Path(path)
    # Written beside it and renamed: nobody opens half a page.
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return names


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def render_report(
    db: Database, *, tables: Sequence[str] | None = None, steps: Sequence[Step] = ()
) -> tuple[str, list[str]]:
    """The page's HTML and the names of the tables on it; see `write_report`."""
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("a report needs plotly: pip install 'firn[report]'") from error
    before = db.bucket.counters.requests
    names = list(db.tables() if tables is None else tables)
    sections = []
    for name in names:
        try:
            sections.append(_any(name, db.table(name)))
        except FirnError as error:
            if tables is not None:
                raise
            # One broken table shouldn't hide the others.
            problem = panel("This table can't be read", tag("p", str(error)), problem=True)
            sections.append(_section(name, "", problem))
    spent = db.bucket.counters.requests - before
    now = datetime.now(timezone.utc)
    title = f"{names[0]} · Firn" if len(names) == 1 else "Tables · Firn"
    parts: list[Any] = []
    if len(names) > 1:
        parts.append(tag("nav", *(tag("a", n, href=f"#{_anchor(n)}") for n in names)))
    if steps:
        parts.append(_steps(steps))
    if not names:
        parts.append(panel("No tables", tag("p", "This database holds no tables yet.")))
    footer = f"Made by Firn at {now:%Y-%m-%d %H:%M:%S} UTC. Collecting it took {spent:,} requests."
    where = db.bucket.uri(db.prefix)
    return page(title, where, joined([*parts, *sections]), footer), names


def _anchor(name: str) -> str:
    return f"table-{name}"


def _section(name: str, subtitle: str, *children: Any) -> Html:
    return tag(
        "section",
        tag("h2", name),
        tag("p", subtitle, class_="soft"),
        *children,
        class_="table",
        id=_anchor(name),
    )


def _steps(steps: Sequence[Step]) -> Html:
    rows = [
        [s.title, f"{s.seconds:.1f}", f"{_total(s):,}", size_text(s.requests.get("bytes_out", 0)), s.detail]
        for s in steps
    ]
    table = grid(["step", "seconds", "requests", "written", ""], rows, numbers=(1, 2, 3), keys=(0,))
    return panel("What it took", figure(figures.requests(steps)), table)


def _total(step: Step) -> int:
    return sum(step.requests.get(verb, 0) for verb in figures.VERBS)


def _any(name: str, table: Any) -> Html:
    """A table's section, by its kind."""
    if isinstance(table, KeyedTable):
        url, children = keyed_children(table)
        return _section(name, url, *children)
    if isinstance(table, RecordTable | RowTable):
        url, children = record_children(table)
        return _section(name, url, *children)
    return _table(name, table_facts(table))


def _table(name: str, facts: TableFacts) -> Html:
    commits = sum(1 for p in facts.points if p.op != "sweep")
    numbers = {
        "rows": "?" if facts.rows is None else f"{facts.rows:,}",
        "files": f"{facts.files:,}",
        "live data": size_text(facts.bytes),
        "partitions": f"{len(facts.partitions):,}",
        "commits": f"{commits:,}",
        "all objects": size_text(sum(s[1] for s in _stored(facts).values())),
    }
    children = [
        cards(numbers),
        panel("In short", *(tag("p", s) for s in sentences(facts))),
        advice_panel(lake_advice(facts)),
    ]
    if len(facts.points) > 1:
        children.append(panel("Rows and files over time", figure(figures.history(facts))))
    if facts.files:
        shown = min(len(facts.partitions), figures.MOST_PARTITIONS)
        of = f", the {shown} largest of {len(facts.partitions):,}" if shown < len(facts.partitions) else ""
        first = panel(f"Partitions{of}", figure(figures.partitions(facts)))
        second = panel("File sizes", figure(figures.file_sizes(facts)))
        # Many partitions need the page's whole width for their names.
        children.append(joined([first, second]) if shown > figures.FEW_PARTITIONS else pair(first, second))
    drawn = figures.changes(facts)
    if drawn is not None:
        children.append(panel("What maintenance did", figure(drawn)))
    if facts.points:
        children.append(panel("Recent commits", _commits(facts.points)))
    if facts.partitions:
        children.append(panel("Partitions", _partitions(facts)))
    children.append(
        pair(panel("Columns", _columns(facts)), panel("Definition and objects", _definition(facts)))
    )
    return _section(name, facts.url, *children)


def _commits(points: Sequence[Point]) -> Html:
    rows = []
    for p in list(reversed(points))[:RECENT_COMMITS]:
        detail = "; ".join(f"{k} {v}" for k, v in p.summary.items() if k in ("where", "query", "to"))
        if p.op == "sweep":
            files, rows_text, written = f"−{p.files_removed:,}", "", ""
            detail = f"{p.summary.get('logs', 0):,} logs too, {size_text(p.summary.get('bytes', 0))} in all"
        else:
            files = f"+{p.files_added:,}" if p.files_added else ""
            files += f" −{p.files_removed:,}" if p.files_removed else ""
            rows_text = f"+{p.rows_added:,}" if p.rows_added else ""
            rows_text += f" −{p.rows_removed:,}" if p.rows_removed else ""
            written = size_text(p.bytes_added) if p.files_added else ""
        name = joined([dot(figures.COLOURS.get(p.op, figures.COLOURS["sweep"])), p.op])
        rows.append([f"{p.time:%Y-%m-%d %H:%M:%S}", name, files, rows_text, written, p.version, detail])
    heads = ["time (UTC)", "what", "files", "rows", "written", "version", ""]
    more = len(points) - len(rows)
    left = tag("p", f"… and {more:,} earlier ones: firn log shows them.", class_="soft") if more > 0 else ""
    return joined([grid(heads, rows, numbers=(2, 3, 4), keys=(0, 1, 5)), left])


def _partitions(facts: TableFacts) -> Html:
    rows = [
        [
            directory or "all rows",
            "?" if p.rows is None else f"{p.rows:,}",
            f"{p.files:,}",
            size_text(p.bytes),
        ]
        for directory, p in facts.partitions[:MOST_PARTITIONS]
    ]
    more = len(facts.partitions) - len(rows)
    left = tag("p", f"… and {more:,} more: firn partitions shows them.", class_="soft") if more > 0 else ""
    return joined([grid(["partition", "rows", "files", "size"], rows, numbers=(1, 2, 3)), left])


def _columns(facts: TableFacts) -> Html:
    if not facts.columns:
        return tag("p", "None yet: the first append decides them.")
    return grid(["column", "type"], facts.columns.items())


def _stored(facts: TableFacts) -> dict[str, tuple[int, int]]:
    stored = facts.stored
    return {
        "live data files": stored.live,
        "data files of older versions or of none": stored.replaced,
        "transactions, claims, markers of the writers" if facts.writers else "logs": stored.logs,
        "hints, clocks" if facts.writers else "definition, lock, caches": stored.other,
    }


def _definition(facts: TableFacts) -> Html:
    rows: list[list[Any]] = [
        ["partitioned by", ", ".join(facts.partition_by) or "nothing"],
        ["sorted by", ", ".join(facts.sort_by) or "nothing"],
        ["version", facts.version],
        ["last commit", "none" if facts.time is None else f"{facts.time:%Y-%m-%d %H:%M:%S} UTC"],
    ]
    if len(facts.points) > 1:
        rows.append(
            ["history spans", duration((facts.points[-1].time - facts.points[0].time).total_seconds())]
        )
    for writer in facts.writers:
        health = "" if writer.health == "ok" else f", {writer.health}: {writer.detail}"
        rows.append([f"writer {writer.name}", f"revision {writer.revision:,}{health}"])
    rows += [[f"property {name}", value] for name, value in facts.properties.items()]
    rows += [[title, f"{n:,}, {size_text(weight)}"] for title, (n, weight) in _stored(facts).items()]
    return grid(["", ""], rows, keys=(0,))
