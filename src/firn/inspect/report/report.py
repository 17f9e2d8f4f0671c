"""A table's, or a database's, history, files and costs as one HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.database.database import Database
from firn.errors import FirnError
from firn.inspect.report.facts import Step
from firn.inspect.report.page import Html, Section, TableSection, bar, grid, joined, legend, page, panel, tag
from firn.kinds import part_of
from firn.units import size_text

if TYPE_CHECKING:
    from firn.database.tables import AnyTable

VERBS = {"get": "#4c8dd6", "put": "#e08a2e", "list": "#35a36f", "head": "#8470d8", "delete": "#d8574f"}

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
        OSError: the file can't be written.

    Cost: that of `tables()`, and for each table 3 LIST sequences + the logs that aren't cached + 1 GET; for a keyed
    one what opening a reader costs, 2 LIST sequences, and 1 GET a checkpoint.
    """
    content, names = render_report(db, tables=tables, steps=steps)
    target = Path(path)
    # Written beside it and renamed: nobody opens half a page.
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return names


def render_report(
    db: Database, *, tables: Sequence[str] | None = None, steps: Sequence[Step] = ()
) -> tuple[str, list[str]]:
    """The page's HTML and the names of the tables on it; see `write_report`."""
    before = db.bucket.counters.requests
    names = list(db.tables() if tables is None else tables)
    sections = []
    for name in names:
        try:
            shown = _section(db.table(name)).html()
        except FirnError as error:
            if tables is not None:
                raise
            # One broken table shouldn't hide the others.
            shown = [panel("This table can't be read", tag("p", str(error)), problem=True)]
        sections.append(tag("section", tag("h2", name), *shown, id=_anchor(name)))
    spent = db.bucket.counters.requests - before
    now = datetime.now(timezone.utc)
    title = f"{names[0]} · Firn" if len(names) == 1 else "Tables · Firn"
    parts: list[Any] = []
    if len(names) > 1:
        parts.append(tag("nav", *(tag("a", n, href=f"#{_anchor(n)}") for n in names)))
    if steps:
        parts.append(steps_panel(steps))
    if not names:
        parts.append(panel("No tables", tag("p", "This database holds no tables yet.")))
    footer = f"Made by Firn at {now:%Y-%m-%d %H:%M:%S} UTC. Collecting it took {spent:,} requests."
    where = db.bucket.uri(db.prefix)
    return page(title, where, joined([*parts, *sections]), footer), names


def _section(table: AnyTable) -> Section:
    section: TableSection = part_of(table.kind, "report")
    return section(table)


def _anchor(name: str) -> str:
    return f"table-{name}"


def steps_panel(steps: Sequence[Step]) -> Html:
    """Requests of each step by verb, its seconds, and the bytes that it wrote."""
    totals = [sum(s.requests.get(verb, 0) for verb in VERBS) for s in steps]
    longest = max(s.seconds for s in steps)
    rows = [
        [
            s.title,
            bar([(s.seconds, "#b9c2d0")], longest, f"{s.seconds:.1f}"),
            bar(
                [(s.requests.get(verb, 0), colour) for verb, colour in VERBS.items()],
                max(totals),
                f"{total:,}",
                ", ".join(f"{s.requests[verb]:,} {verb.upper()}" for verb in VERBS if s.requests.get(verb)),
            ),
            size_text(s.requests.get("bytes_out", 0)),
            s.detail,
        ]
        for s, total in zip(steps, totals, strict=True)
    ]
    heads = ["step", "seconds", "requests", "written", ""]
    verbs = legend({verb.upper(): colour for verb, colour in VERBS.items()})
    return panel("What it took", verbs, grid(heads, rows, numbers=(3,), keys=(0,)))
