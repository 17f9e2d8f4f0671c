"""Let merges aggregate: counters that writers append, and that each merge adds up.

    python examples/custom_merge.py [DATABASE]

Readers sum, so they see the same totals before and after a merge.
"""

from __future__ import annotations

import sys
import tempfile

import firn

ADD_UP = "SELECT day, page, sum(views)::BIGINT AS views FROM source_files GROUP BY ALL"
TOTALS = "SELECT page, sum(views)::BIGINT AS views FROM views GROUP BY page ORDER BY page"


def totals(table: firn.LakeTable) -> list[tuple[str, int]]:
    """What a reader asks; DuckDB does the sums."""
    views = table.scan().to_duckdb()
    return views.query("views", TOTALS).fetchall()


def main(url: str) -> None:
    db = firn.connect(url)
    views = db.create_table("views", partition_by=["day"], sort_by=["page"])
    for _ in range(10):
        views.append(
            [
                {"day": "2026-01-01", "page": "/", "views": 3},
                {"day": "2026-01-01", "page": "/docs", "views": 1},
                {"day": "2026-01-02", "page": "/", "views": 2},
            ]
        )
    before = totals(views)

    merged = views.merge(query=ADD_UP)
    print(f"{merged.rows_deleted} rows became {merged.rows_inserted}; totals {before}")
    assert (merged.rows_deleted, merged.rows_inserted) == (30, 3)
    assert totals(views) == before == [("/", 50), ("/docs", 10)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
