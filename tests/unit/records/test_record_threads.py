"""Real threads over one process's record tables: transfers, readers, an applier and a collector at once."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from firn.bucket import open_bucket
from firn.clock import SystemClock
from firn.errors import SnapshotTooOldError, StaleObjectError
from firn.journal.sequence import Ddl
from firn.records.apply.apply import settle
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.documents.predicates import Range
from firn.records.maintain.collection import collect
from firn.records.maintain.ddl import define
from firn.records.names.layout import RecordLayout
from firn.records.objects.store import RecordStore, StoredRow
from firn.records.write.transaction import begin

ACCOUNTS = 6
TOTAL = 100 * ACCOUNTS
DEFINITION = RecordDefinition("bank", db="db", state="ready", indices=(Index("balance"),))


def test_the_sum_stays_whatever_threads_do() -> None:
    bucket = open_bucket("memory://")

    def store(**options: float) -> RecordStore:
        return RecordStore(bucket, "db", clock=SystemClock(), definitions={"bank": DEFINITION}.get, **options)  # type: ignore[arg-type]

    shared = store(freshness_s=0.05)
    define(shared, Ddl("create", "bank", indices=(("balance", False),)))
    with begin(shared) as tx:
        for n in range(ACCOUNTS):
            tx.insert("bank", f"a{n}", {"balance": 100})
    failures: list[BaseException] = []
    committed = threading.Semaphore(0)
    over = threading.Event()

    def guarded(work, *args):  # type: ignore[no-untyped-def]
        try:
            work(*args)
        except BaseException as error:
            failures.append(error)

    def transfer(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(25):
            try:
                with begin(shared) as tx:
                    giver, taker = (
                        tx.get("bank", id) for id in rng.sample([f"a{n}" for n in range(ACCOUNTS)], 2)
                    )
                    amount = rng.randint(0, 20)
                    tx.update("bank", giver["_id"], {"balance": giver["balance"] - amount})
                    tx.update("bank", taker["_id"], {"balance": taker["balance"] + amount})
                committed.release()
            except (StaleObjectError, SnapshotTooOldError):
                continue

    def read() -> None:
        while not over.is_set():
            try:
                rows = begin(shared).find("bank", balance=Range(-(10**6), 10**6))
            except SnapshotTooOldError:
                continue
            assert sum(row["balance"] for row in rows) == TOTAL

    def keep() -> None:
        other = store(freshness_s=0.05)
        while not over.is_set():
            settle(shared)
            collect(other, retention_s=0.05)
            over.wait(0.01)

    workers = [threading.Thread(target=guarded, args=(transfer, n)) for n in range(6)]
    others = [threading.Thread(target=guarded, args=(work,)) for work in (read, read, keep)]
    for thread in (*workers, *others):
        thread.start()
    for thread in workers:
        thread.join(60)
    over.set()
    for thread in others:
        thread.join(60)
    assert failures == []
    assert committed.acquire(blocking=False)
    fresh = store()
    settle(fresh)
    assert sum(row["balance"] for row in begin(fresh).scan("bank")) == TOTAL
    assert sum(row["balance"] for row in begin(fresh).find("bank", balance=Range(-(10**6), 10**6))) == TOTAL
    log = shared.log
    head = log.refresh().number
    landed = [member.txid for record in log.records(0, head) for member in record.group]
    assert len(landed) == len(set(landed))


def test_rows_are_brought_up_to_date_at_once(tmp_path: Path) -> None:
    """Where requests take time, each row waits for its own only."""
    bucket = open_bucket(tmp_path)
    store = RecordStore(bucket, "db", clock=SystemClock(), definitions={"bank": DEFINITION}.get)
    define(store, Ddl("create", "bank", indices=(("balance", False),)))
    with begin(store) as tx:
        for n in range(4):
            tx.upsert("bank", f"a{n}", {"balance": n})
    together, fetch = threading.Barrier(4, timeout=30), store.row

    def row(layout: RecordLayout, id: str) -> StoredRow:
        together.wait()
        return fetch(layout, id)

    store.row = row  # type: ignore[method-assign]
    settle(store)
    assert store.log.lag == 0
    assert {r["balance"] for r in begin(store).scan("bank")} == {0, 1, 2, 3}
