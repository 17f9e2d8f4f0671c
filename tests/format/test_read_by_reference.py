"""A table that Firn keeps, seen by the reference's reader after every step."""

from __future__ import annotations

import random

import icedb_reader
import pytest

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit, DataFile
from firn.testing import SimStore

TABLE = "prod/flights"


def agree(store: SimStore, journal: LeaderlessJournal) -> None:
    snapshot = journal.snapshot()
    theirs = icedb_reader.read(store.contents(), TABLE)
    assert {f.path for f in snapshot.files} == theirs.alive
    assert dict(snapshot.columns) == theirs.schema
    assert {path for path in theirs.alive if path not in store} == set()


@pytest.mark.parametrize("seed", range(8))
def test_it_sees_what_firn_sees(seed):
    rng = random.Random(seed)
    store = SimStore()
    bucket = store.bucket()
    journal = LeaderlessJournal(bucket, TABLE, clock=bucket.client.clock, renew_in_background=False)
    agree(store, journal)

    def new_file(maintenance: bool) -> DataFile:
        path = journal.layout.namer(maintenance=maintenance)(f"k={rng.randrange(3)}")
        bucket.put(path, b"rows")
        return DataFile(path, 4, store.time.now_ms, {"rows": rng.randrange(9)})

    for step in range(40):
        store.time.advance(rng.randrange(1, 1_200_000))
        action = rng.random()
        if action < 0.6:
            append = journal.begin_append()
            files = [new_file(False) for _ in range(rng.randrange(1, 4))]
            batch = f"batch-{step}" if rng.random() < 0.3 else None
            columns = {"k": "BIGINT", f"c{step}": "DATE"}
            append.commit(Commit("append", files, columns=columns, batch_id=batch))
        elif action < 0.9:
            op = rng.choice(["merge", "remove", "rewrite"])
            with journal.exclusive(op) as session:
                live = session.snapshot.files
                gone = rng.sample(live, min(len(live), rng.randrange(4)))
                made = [new_file(True)] if gone and op != "remove" else []
                session.publish(Commit(op, made, [f.path for f in gone]))
        else:
            journal.sweep(grace_ms=3_600_000, orphan_age_ms=10**9, margin=True, dry_run=False)
        agree(store, journal)
    assert len(store.keys(f"{TABLE}/_log/")) > 1


def test_it_travels_in_time_to_where_firn_does():
    store = SimStore()
    bucket = store.bucket()
    journal = LeaderlessJournal(bucket, TABLE, clock=bucket.client.clock, renew_in_background=False)
    times = []
    for step in range(6):
        store.time.advance(60_000)
        if step == 3:
            with journal.exclusive("remove") as session:
                session.publish(Commit("remove", removes=[session.snapshot.files[0].path]))
        else:
            path = journal.layout.namer(maintenance=False)("")
            bucket.put(path, b"rows")
            journal.begin_append().commit(Commit("append", [DataFile(path, 4, store.time.now_ms)]))
        times.append(store.time.now_ms)
    for at in times:
        # Theirs is strictly below the time, ours at or below it.
        theirs = icedb_reader.read(store.contents(), TABLE, before=at + 1).alive
        version = max(n for n in store.keys(f"{TABLE}/_log/") if icedb_reader.timestamp(n) <= at)
        ours = journal.snapshot(version.rpartition("/")[2].removesuffix(".jsonl"))
        assert {f.path for f in ours.files} == theirs


def test_no_key_of_firns_lies_where_the_reference_would_take_it_for_a_log():
    store = SimStore()
    bucket = store.bucket()
    journal = LeaderlessJournal(bucket, TABLE, clock=bucket.client.clock, renew_in_background=False)
    path = journal.layout.namer(maintenance=False)("")
    bucket.put(path, b"rows")
    journal.begin_append().commit(Commit("append", [DataFile(path, 4, 1)], batch_id="b"))
    with journal.exclusive("merge") as session:
        session.publish(Commit("merge"))
    journal.checkpoint()
    journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
    outside = [key for key in store.contents() if not key.startswith((f"{TABLE}/_log/", f"{TABLE}/_data/"))]
    assert {key.split("/")[2] for key in outside} == {"_firn"}
    assert all(key.endswith(".jsonl") for key in store.keys(f"{TABLE}/_log"))


def test_a_host_whose_name_would_look_merged_does_not():
    from firn.journal.leaderless.format.layout import new_log_name

    assert not icedb_reader.is_merged(new_log_name(1767258000753, maintenance=False))
    assert icedb_reader.is_merged(new_log_name(1767258000753, maintenance=True))
