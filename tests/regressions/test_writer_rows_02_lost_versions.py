"""Restoring a table with a key to a version whose rows were lost with their transaction was a ValueError of `min`."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from writer_databases import database, keys, layout


def test_a_restore_of_lost_rows_says_whose_clock_is_unknown(tmp_path: Path) -> None:
    db = database(tmp_path)
    table = db.create_table(
        "t",
        journal="writer",
        schema={"id": "BIGINT", "n": "BIGINT"},
        key=["id"],
        properties={"inline": "64KB"},
    )
    for n in range(2):
        table.upsert([{"id": 1, "n": n}])
    table.merge(only="inlined")
    for key in keys(db.bucket, layout().root):
        if f"/{3:020d}" in key:
            db.bucket.delete(key)
    again = database(tmp_path)
    assert 3 in again.rebuild().rebuilt
    with pytest.raises(firn.CorruptObjectError, match=f"/rows/t/{3:020d}.* has no clock"):
        again.table("t").restore("a=3")
    assert again.table("t").scan().to_arrow().to_pylist() == [{"id": 1, "n": 1}]
