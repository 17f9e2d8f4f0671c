"""The lake from end to end over each journal, on every kind of store: the same story, the same rows, nothing left."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

import pytest

import firn
from lake_journals import EVERY_LAKE, Lake, LeaderlessLake, WriterLake
from stores.places import Place

pytestmark = pytest.mark.long


def rows(writer: int, batch: int) -> list[dict[str, Any]]:
    return [
        {"at": dt.datetime(2001, 1 + (batch + k) % 3, 5), "writer": writer, "batch": batch, "k": k}
        for k in range(4)
    ]


def key(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["writer"], row["batch"], row["k"]


def opened(kind: type[Lake], place: Place) -> Lake:
    return kind(f"{place.url}/db", place.options)


@pytest.fixture(params=EVERY_LAKE)
def lake(request: pytest.FixtureRequest, place: Place) -> Lake:
    return opened(EVERY_LAKE[request.param], place)


def keys(table: firn.LakeTable, **scan: Any) -> list[tuple[int, int, int]]:
    return sorted(map(key, table.scan(**scan).to_arrow().to_pylist()))


def test_the_whole_life_of_a_table(lake: Lake) -> None:
    table = lake.create("events", partition_by=["month(at)"], sort_by=["k desc"])
    for batch in range(6):
        table.append(rows(0, batch), batch_id=f"b/{batch}")
        table.append(rows(0, batch), batch_id=f"b/{batch}")
    everything = keys(table)
    assert len(everything) == 24
    assert lake.db.tables() == ["events"]
    before = table.snapshot().version
    assert table.checkpoint() == len(table.history())
    merged = table.merge()
    assert merged.files_added == 3
    assert keys(table) == everything
    assert keys(lake.connect().table("events"), at=before) == everything
    table.delete("k = 3")
    assert keys(table) == [k for k in everything if k[2] != 3]
    assert table.rewrite("batch <> 5").files_removed == 3
    assert table.remove_partitions("at_month = '2001-02'").files_removed == 1
    left = [k for k in everything if k[1] != 5 and k[2] != 3 and (k[1] + k[2]) % 3 != 1]
    assert keys(table) == left
    assert keys(lake.connect().table("events")) == left
    assert table.restore(before).version is not None
    assert keys(table) == everything
    table.overwrite(rows(9, 0), partitions="touched")
    assert [line.op for line in lake.commits(table)][-2:] == ["restore", "overwrite"]
    report = lake.forget(table)
    assert report.data_files
    assert lake.stored("events") == {f.path for f in table.snapshot().files}
    with pytest.raises(firn.SnapshotTooOldError):
        table.scan(at=before).to_arrow()
    assert keys(lake.connect().table("events")) == keys(table) == [(9, 0, k) for k in range(4)]
    lake.erase("events")
    assert lake.stored("events") == set() and lake.db.tables() == []


def append_some(url: str, options: dict[str, Any], writer: int) -> None:
    table = firn.connect(url, options=options).table("events")
    for batch in range(5):
        table.append(rows(writer, batch))


def keep_own_part(url: str, options: dict[str, Any], writer: int) -> None:
    """Append, merge, prune and sweep under an id of one's own."""
    db = firn.connect(url, options=options, writer=f"host-{writer}")
    table = db.table("events")
    for batch in range(5):
        table.append(rows(writer, batch))
        if batch % 2:
            table.merge()
            db.prune("0s")
            table.sweep(orphans="0s")
    table.delete("k = 3")
    table.merge()


def run_at_once(shared: bool, work: Callable[..., None], lake: Lake, number: int) -> list[Any]:
    """Started, as processes of their own where the store is shared by them."""
    make: Any = multiprocessing.get_context("spawn").Process if shared else threading.Thread
    workers = [make(target=work, args=(lake.url, lake.options, n)) for n in range(number)]
    for each in workers:
        each.start()
    return workers


def test_writers_mergers_and_a_sweeper_at_once(place: Place) -> None:
    """Of one log. Threads with a connection each; where the store is shared, writers are processes."""
    lake = opened(LeaderlessLake, place)
    table = lake.create("events", partition_by=["month(at)"], properties={"lock_wait": "60s", "lease": "20s"})
    shared = table.bucket.capabilities.shareable
    stop = threading.Event()
    failures: list[BaseException] = []

    def maintain() -> None:
        mine = lake.connect().table("events")
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
    for merger in mergers:
        merger.start()
    writers = run_at_once(shared, append_some, lake, 3)
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
    lake.forget(table)
    assert len(keys(table)) == 60
    assert len(lake.db.bucket.list(f"{table.prefix}/_log/").objects) == 1


@pytest.mark.parametrize("kind", [name for name, lake in EVERY_LAKE.items() if lake is not LeaderlessLake])
def test_writers_that_each_keep_their_own_part_at_once(place: Place, kind: str) -> None:
    """They share nothing, so nobody waits and nobody conflicts; a reader sees the union of what is committed."""
    lake = opened(EVERY_LAKE[kind], place)
    assert isinstance(lake, WriterLake)
    table = lake.create("events", partition_by=["month(at)"])
    table.append(rows(9, 9))
    shared = table.bucket.capabilities.shareable
    reader = firn.connect(lake.url, options=lake.options, strict=True).table("events")
    writers = run_at_once(shared, keep_own_part, lake, 2)
    seen: list[list[tuple[int, int, int]]] = []
    while any(w.is_alive() for w in writers):
        with contextlib.suppress(firn.SnapshotTooOldError):  # swept each time it looked
            seen.append([k for k in keys(reader) if k[2] != 3])
    for writer in writers:
        writer.join()
    if shared:
        assert [w.exitcode for w in writers] == [0, 0]
    wanted = [key(r) for n in range(2) for b in range(5) for r in rows(n, b) if r["k"] != 3]
    assert keys(lake.connect().table("events")) == sorted([*wanted, *(key(r) for r in rows(9, 9))])
    assert [(w.name, w.health) for w in lake.db.writers()] == [(f"host-{n}", "ok") for n in range(2)] + [
        ("w", "ok")
    ]
    for earlier, later in itertools.pairwise(seen):
        assert len(set(later)) == len(later) and set(earlier) <= set(later), "committed rows stay"
    for n in range(2):
        db = lake.connect(f"host-{n}")
        lake.age_of(db, f"host-{n}")
        db.table("events").sweep(orphans="0s")
    assert lake.stored("events") == {f.path for f in table.snapshot().files}
