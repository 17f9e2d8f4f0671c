"""fsck called a checkpoint wrong after a rebuild of the fold below it: the files of a fold have no order of their
own, so a rebuild adds them in another one."""

from __future__ import annotations

from pathlib import Path

from firn.inspect.fsck.fsck import check
from writer_databases import UNCLAIMED, database, keys, layout


def test_a_checkpoint_above_a_fold_that_was_rebuilt_is_what_the_transactions_say(tmp_path: Path) -> None:
    db = database(tmp_path, options=UNCLAIMED)
    table = db.create_table("t", journal="writer", partition_by=["g"], properties={"inline": "64KB"})
    table.append([{"g": g} for g in "dacb"])
    table.merge(only="inlined")
    table.append([{"g": "a"}])
    database(tmp_path, None, options=UNCLAIMED).checkpoint()
    (fold,) = [key for key in keys(db.bucket, layout().transactions_prefix) if f"{3:020d}." in key]
    db.bucket.delete(fold)
    again = database(tmp_path, options=UNCLAIMED)
    assert again.rebuild().rebuilt == (3, 5)
    assert check(again).problems == ()
