"""A rebuild lost rows: it left out a file of an unproven fold, as the rows that the file replaced were there still,
and removed these rows for another file of the same fold."""

from __future__ import annotations

from pathlib import Path

from writer_databases import database, keys, layout


def test_files_of_a_fold_that_share_rows_count_together(tmp_path: Path) -> None:
    db = database(tmp_path)
    table = db.create_table("t", journal="writer", partition_by=["g"], properties={"inline": "64KB"})
    table.append([{"g": "c", "n": 0}])
    table.merge(only="inlined")
    table.append([{"g": "a", "n": 1}])
    table.append([{"g": "a", "n": 2}, {"g": "b", "n": 3}], batch_id="its marker stays")
    table.merge(only="inlined")
    table.append([{"g": "c", "n": 4}])  # which leaves no proof of the fold
    table.merge(only="inlined")
    for n in (5, 6):
        table.append([{"g": "c", "n": n}])
    db.prune("0s")
    for key in keys(db.bucket, layout().transactions_prefix):
        db.bucket.delete(key)
    again = database(tmp_path)
    again.rebuild()
    assert sorted(row["n"] for row in again.table("t").scan().to_arrow().to_pylist()) == [0, 1, 2, 3, 4, 5, 6]
