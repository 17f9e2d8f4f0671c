"""A transaction with two deletes of one file failed, if the same connection had committed anything meanwhile."""

from __future__ import annotations

import pytest

import firn
from firn.errors import ConflictError


def started() -> tuple[firn.Database, firn.LakeTable]:
    db = firn.connect("memory://", writer="a")
    table = db.create_table("t", journal="writer")
    table.append([{"k": k} for k in range(1, 6)])
    return db, table


def left(table: firn.LakeTable) -> list[int]:
    return sorted(table.scan().to_arrow()["k"].to_pylist())


def test_deletes_of_one_transaction_follow_each_other() -> None:
    db, table = started()
    with db.writer_transaction() as tx:
        tx.delete("t", "k = 1")
        tx.delete("t", "k = 2")
        table.append([{"k": 9}])
        tx.table("t").delete("k = 3", soft=False)
    assert left(table) == [4, 5, 9]


def test_a_delete_meanwhile_is_a_conflict_that_names_the_writer() -> None:
    db, table = started()
    message = "had rows deleted by another commit of the writer 'a'"
    with pytest.raises(ConflictError, match=message), db.writer_transaction() as tx:
        tx.table("t").delete("k = 1", soft=False)
        table.delete("k = 2")
    assert left(table) == [1, 3, 4, 5]
