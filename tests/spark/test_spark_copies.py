"""Record tables into lake tables on Spark: copies by tasks, and a stream from one into the other, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.records.apply.apply import settle
from firn.records.table import RecordTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


@pytest.fixture
def stock(db: firn.Database) -> RecordTable:
    table = db.create_table("stock", kind="records", schema={"n": "BIGINT", "the day": "DATE"})
    table.load([{"_id": f"r{n}", "n": n} for n in range(50)])
    return table


def move(db: firn.Database, stock: RecordTable, n: int) -> None:
    """Two commits, of which the second isn't in rows yet."""
    stock.upsert("r1", {"n": 1000 + n})
    settle(stock.session.store)
    with db.begin() as tx:
        tx.delete("stock", f"r{10 + n}")
        tx.upsert("stock", f"new{n}", {"n": n})


def told(db: firn.Database, name: str) -> list[tuple[Any, ...]]:
    rows = db.table(name).scan().to_arrow().to_pylist()
    return sorted((row["_seq"], row["_id"], row["_kind"], row["n"]) for row in rows)


def wanted(stock: RecordTable) -> list[tuple[Any, ...]]:
    return sorted(
        (change.seq, change.id, change.kind, (change.document or {}).get("n")) for change in stock.changes()
    )


def test_a_large_table_is_copied_by_tasks(
    db: firn.Database, stock: RecordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firn.database.copies.TASKS_FROM", 40)
    frames: list[Any] = []
    asked = stock.engines.to_spark

    def counted(*args: Any, **options: Any) -> Any:
        frames.append(asked(*args, **options))
        return frames[-1]

    monkeypatch.setattr(type(db.engines), "to_spark", staticmethod(counted))
    first = db.copy("stock", "history", changes=True)
    assert (first.rows, len(frames)) == (50, 1)
    assert db.table("history").scan().to_arrow().schema.names == ["_id", "n", "the day", "_kind", "_seq"]
    move(db, stock, 0)
    assert db.copy("stock", "history", changes=True).rows == 3
    assert told(db, "history") == wanted(stock)
    assert db.copy("stock", "now").rows == 50 and len(frames) == 2
    assert db.copy("stock", "now").rows is None
    found = db.table("now").scan().to_arrow().sort_by("_id").to_pylist()
    assert found == stock.scan().to_arrow().to_pylist()


def test_a_stream_is_exactly_once(
    spark: SparkSession, db: firn.Database, stock: RecordTable, tmp_path: Path
) -> None:
    """The process dies after the lake table's commit and before Spark's own: in the first batch, of all rows, and in
    a later one. More is committed meanwhile, and some of it isn't applied."""
    checkpoint = tmp_path / "checkpoint"

    def drain() -> None:
        frame = spark.readStream.format("firn").options(changes="true").load(f"{db.url}/stock")
        query = (
            frame.writeStream.format("firn")
            .option("checkpointLocation", str(checkpoint))
            .option("path", f"{db.url}/history")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def die() -> None:
        """Take Spark's mark of the last batch back."""
        last = max(int(mark.name) for mark in (checkpoint / "commits").glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)

    for n in range(2):
        drain()
        die()
        move(db, stock, n)
        drain()
        assert told(db, "history") == wanted(stock)
        move(db, stock, 10 + n)
    assert len(db.table("history").history()) == 4, "what was repeated is no commit"
