"""A report failed on a table with a soft delete, of which nobody counts the rows."""

from __future__ import annotations

import firn
from firn.inspect.report.report import render_report


def test_a_report_of_a_table_with_a_soft_delete() -> None:
    db = firn.connect("memory://", writer="w")
    table = db.create_table("t", journal="writer")
    table.append([{"n": 1}, {"n": 2}])
    table.delete("n = 1", soft=True)
    page, _ = render_report(db)
    assert "delete" in page
