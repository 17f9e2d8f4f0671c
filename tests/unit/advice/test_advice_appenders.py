"""The table of advice: appenders."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from advice import advises
from firn.lake.table import LakeTable


@pytest.fixture
def table() -> LakeTable:
    return firn.connect("memory://").create_table("t")


def count(table: LakeTable) -> int:
    return table.scan().count()


def test_a_row_that_found_no_room_is_added_again(table: LakeTable) -> None:
    table.append([{"n": 0}])
    with table.appender(seconds=3600, max_pending=1) as out:
        out.add({"n": 1})
        with advises("The row wasn't taken: add it again later.", names="t"):
            while True:
                out.add({"n": 2}, timeout=0)
        out.add({"n": 3})
    assert 3 in table.scan().to_arrow().column("n").to_pylist()


def test_rows_of_an_appender_that_failed_are_added_to_another(table: LakeTable) -> None:
    table.append([{"n": 0}])
    out = table.appender(seconds=0)
    out.add({"n": "7"})
    with pytest.raises(
        firn.AppenderError, match=r"`unsent` has them\. Mend the cause, and add them to"
    ) as failed:
        out.close()
    with table.appender() as another:
        for row in failed.value.unsent:
            another.add({"n": int(row["n"])})
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == [0, 7]


def test_a_row_within_a_batch_is_flushed(table: LakeTable) -> None:
    with table.appender(batch_ids="file-1/", rows=1) as out:
        with advises("Leave wait out, and call flush() where a batch ends.", names="t"):
            out.add({"n": 1}, wait=True)
        out.add({"n": 1})
        out.flush()
        assert count(table) == 1


def test_a_source_is_counted_as_it_was_before(table: LakeTable) -> None:
    def read(rows: int) -> None:
        with table.appender(batch_ids="file-1/", rows=rows) as out:
            for n in range(5):
                out.add({"n": n})

    read(2)
    with advises("Open it with rows=", names=["t", "rows=2"]):
        read(3)
    read(2)
    assert count(table) == 5


def test_the_last_batch_of_a_source_ends_with_it(table: LakeTable) -> None:
    out = table.appender(batch_ids="file-1/", rows=2)
    for n in range(3):
        out.add({"n": n})
    with advises("call close() when it has given all of its rows", names="t"):
        out.flush()
    assert count(table) == 2
    out.close()
    assert count(table) == 3


def test_what_is_rejected_from_a_source_is_appended_by_itself(table: LakeTable) -> None:
    table.append([{"n": 0}])

    def mend(rows: object, error: Exception) -> None:
        with advises("Append it by table.append(), or add it to another appender.", names="t"):
            out.add({"n": 1})
        table.append([{"n": 1}])

    with table.appender(batch_ids="file-1/", on_reject=mend) as out:
        out.add({"n": "x"})
    assert count(table) == 2


def test_what_is_rejected_may_be_added(table: LakeTable) -> None:
    table.append([{"n": 0}])

    def mend(rows: object, error: Exception) -> None:
        with advises("in on_retry or on_reject would wait for itself. add(row) is fine there.", names="t"):
            out.flush()
        out.add({"n": 1})

    with table.appender(on_reject=mend) as out:
        out.add({"n": "x"})
    assert count(table) == 2


def test_a_transaction_appends_by_itself() -> None:
    db = firn.connect("memory://", writer="w")
    table = db.create_table("cpu", journal="writer", schema={"n": "BIGINT"})
    with db.writer_transaction() as tx:
        with advises("append() in it; or open an appender on the database's own table.", names="cpu"):
            tx.table("cpu").appender()
        tx.append("cpu", [{"n": 1}])
    with table.appender() as out:
        out.add({"n": 2})
    assert count(table) == 2


def test_a_log_tells_what_became_of_an_append_that_was_pruned(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, writer="w")
    table = db.create_table("cpu", journal="writer")
    for n in range(4):
        table.append([{"n": n}])
    db.checkpoint()
    db.prune(older_than="0s")
    ticket = table.journal.begin_append()
    ticket._sent = (1, "0" * 32)  # type: ignore[attr-defined]
    with advises("`firn log` tells; look there before you append the rows again.", names="cpu") as advice:
        ticket.settle(lambda seconds: None)
    assert "append" in advice.follow(0, tmp_path / "cpu").out
