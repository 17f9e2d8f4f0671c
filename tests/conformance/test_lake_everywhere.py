"""The lake from end to end on every kind of store: the same story, the same rows, nothing left behind."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import threading
from typing import Any

import pytest

import firn
from stores.places import Place


def rows(writer: int, batch: int) -> list[dict[str, Any]]:
    return [
        {"at": dt.datetime(2001, 1 + (batch + k) % 3, 5), "writer": writer, "batch": batch, "k": k}
        for k in range(4)
    ]


def key(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["writer"], row["batch"], row["k"]


@pytest.fixture
def db(place: Place) -> firn.Database:
    return firn.connect(f"{place.url}/prod", options=place.options)


def keys(table: firn.LakeTable, **scan: Any) -> list[tuple[int, int, int]]:
    return sorted(map(key, table.scan(**scan).to_arrow().to_pylist()))


def test_the_whole_life_of_a_table(db: firn.Database) -> None:
    table = db.create_table("events", partition_by=["month(at)"], sort_by=["k desc"])
    for batch in range(6):
        table.append(rows(0, batch), batch_id=f"b/{batch}")
        table.append(rows(0, batch), batch_id=f"b/{batch}")
    everything = keys(table)
    assert len(everything) == 24
    assert db.tables() == ["events"]
    before = table.snapshot().version
    assert table.checkpoint() == 6
    merged = table.merge()
    assert merged.files_added == 3
    assert keys(table) == everything
    assert keys(db.table("events"), at=before) == everything
    assert table.delete("k = 3").rows_removed == 24
    assert table.rewrite("batch <> 5").files_removed == 3
    assert table.remove_partitions("at_month = '2001-02'").files_removed == 1
    left = [k for k in everything if k[1] != 5 and k[2] != 3 and (k[1] + k[2]) % 3 != 1]
    assert keys(table) == left
    assert table.restore(before).version is not None
    assert keys(table) == everything
    table.overwrite(rows(9, 0), partitions="touched")
    report = table.sweep(older_than="0s", orphans="0s")
    assert report.data_files
    stored = {i.key for i in db.bucket.list(f"{table.prefix}/_data/").objects}
    assert stored == {f.path for f in table.snapshot().files}
    with pytest.raises(firn.SnapshotTooOldError):
        table.scan(at=before).to_arrow()
    assert [c.op for c in db.table("events").history()][-3:] == ["restore", "overwrite", "sweep"]
    db.drop_table("events")
    assert db.bucket.list(f"{table.prefix}/").objects == ()


def append_some(url: str, options: dict[str, Any], writer: int) -> None:
    table = firn.connect(url, options=options).table("events")
    for batch in range(5):
        table.append(rows(writer, batch))


def test_writers_mergers_and_a_sweeper_at_once(db: firn.Database) -> None:
    """Threads with a connection each; where the store is shared, writers are processes of their own."""
    table = db.create_table(
        "events", partition_by=["month(at)"], properties={"lock_wait": "60s", "lease": "20s"}
    )
    shared = table.bucket.capabilities.shareable
    make: Any = multiprocessing.get_context("spawn").Process if shared else threading.Thread
    writers = [make(target=append_some, args=(db.url, db.options, n)) for n in range(3)]
    stop = threading.Event()
    failures: list[BaseException] = []

    def maintain() -> None:
        mine = firn.connect(db.url, options=db.options).table("events")
        while not stop.is_set():
            try:
                mine.merge()
                mine.sweep()
            except firn.ConflictError:
                continue
            except BaseException as error:
                failures.append(error)
                return

    mergers = [threading.Thread(target=maintain) for _ in range(2)]
    for each in (*writers, *mergers):
        each.start()
    for writer in writers:
        writer.join()
    stop.set()
    for merger in mergers:
        merger.join()
    assert failures == []
    if shared:
        assert [w.exitcode for w in writers] == [0, 0, 0]
    assert keys(table) == sorted(key(r) for n in range(3) for b in range(5) for r in rows(n, b))
    table.merge()
    table.sweep(older_than="0s", orphans="0s")
    assert len(keys(table)) == 60
    assert len(db.bucket.list(f"{table.prefix}/_log/").objects) == 1
