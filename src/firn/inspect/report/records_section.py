"""A record table's section of a report."""

from __future__ import annotations

from firn.inspect.report.advice import records_advice
from firn.inspect.report.page import Section, TableSection, grid, panel
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.units import size_text


def record_section(table: RecordTable | RowTable) -> Section:
    """1 LIST sequence of rows and one of index entries, and 1 GET."""
    layout = table.definition.layout(table.prefix)
    rows, entries = (table.bucket.list(part).objects for part in (layout.rows, layout.indices))
    numbers = {
        "rows with objects": f"{len(rows):,}",
        "their size": size_text(sum(info.size for info in rows)),
        "index entries": f"{len(entries):,}",
    }
    text = "Rows are changed one by one, without transactions."
    commits, panels = 0, []
    if isinstance(table, RecordTable):
        head, log = table.session.store.log.refresh(), table.session.store.log
        commits = head.number - log.learn(log.store.horizon()).lo
        numbers |= {"last commit": f"{head.number:,}", "not applied yet": f"{log.lag:,}"}
        text = f"The commit log is at {head.number:,}; all up to {log.applied:,} are in rows and indices."
        if indices := table.indices():
            lines = [
                (
                    i.field,
                    "yes" if i.unique else "",
                    "each" if i.each else "",
                    "ready" if i.ready else "being built",
                )
                for i in indices
            ]
            panels.append(panel("Indices", grid(["field", "unique", "elements", ""], lines, keys=(0,))))
    url = table.bucket.uri(table.prefix)
    return Section(url, numbers, [text], records_advice(url, commits=commits), panels)


PART: TableSection = record_section
