"""A wide table had no statistics of a column that it was partitioned and sorted by: named twice, it came last."""

from __future__ import annotations

from datetime import date

import firn

SCHEMA = {**{f"c{n}": "BIGINT" for n in range(40)}, "day": "DATE", "id": "BIGINT"}


def test_columns_of_partition_and_order_have_statistics():
    db = firn.connect("memory://")
    table = db.create_table(
        "t", schema=SCHEMA, partition_by=["month(day)"], sort_by=["day", "id"], properties={"inline": 0}
    )
    table.append([{**dict.fromkeys(SCHEMA, n), "day": date(2026, 1, n), "id": n} for n in (1, 2)])
    (file,) = table.snapshot().files
    assert {"day", "id"} <= set(file.stats)
