"""Processes that work on record tables and are killed; and what must hold, whatever they were doing then."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import orjson
from record_client import Said, open_store, parsed

import firn
from firn.bucket.base import Bucket
from firn.errors import SnapshotTooOldError
from firn.journal.sequence import RowWrite
from firn.records.apply import apply
from firn.records.maintain import collection
from firn.records.objects.store import RecordStore
from firn.testing import RecordedHistory
from simulation.records_model import Model
from simulation.records_world import (
    DEFINITIONS,
    all_rows,
    entries_of,
    entries_there,
    fill,
    finds_what_is_there,
    follow_the_log,
    has_all_entries,
    whole_log,
)
from stores.places import Place

PROGRAM = "import sys, record_client; record_client.main(*sys.argv[1:])"
PREFIX = "db"


def prepare(place: Place) -> None:
    """The tables and what is in them at first, made as users make them."""
    db = firn.connect(f"{place.url}/{PREFIX}", options=place.options)
    for definition in DEFINITIONS.values():
        db.create_table(
            definition.name, kind="records", indices=definition.indices, properties=definition.properties
        )
    fill(open_store(place.open(), PREFIX))


class Process:
    """A client, and what it has said."""

    def __init__(self, place: Place, name: str) -> None:
        arguments = [f"{place.url}/{PREFIX}", json.dumps(place.options), name]
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._said: list[str] = []

    def hear(self, lines: int) -> None:
        assert self._process.stdout is not None
        for _ in range(lines):
            said = self._process.stdout.readline()
            assert said, "a client has ended by itself"
            self._said.append(said)

    def kill(self) -> list[str]:
        """SIGKILL; all whole lines that it ever said."""
        assert self._process.stdout is not None
        self._process.kill()
        self._said += self._process.stdout.readlines()
        self._process.wait()
        self._process.stdout.close()
        return [line for line in self._said if line.endswith("\n")]


def work_and_kill(place: Place, *, clients: int, kills: int, lines: int, seed: int) -> list[Said]:
    """Let clients work. After each has said so many lines more, one is killed, and another one takes its place. What
    all said last of each transaction."""
    chance = random.Random(seed)
    said: list[str] = []
    running = [Process(place, f"{seed}-{n}") for n in range(clients)]
    try:
        for n in range(clients, clients + kills):
            for client in running:
                client.hear(lines + chance.randrange(10))
            said += running.pop(chance.randrange(clients)).kill()
            running.append(Process(place, f"{seed}-{n}"))
        for client in running:
            client.hear(lines)
    finally:
        said += [line for client in running for line in client.kill()]
    errors = [line for line in said if line.startswith("!")]
    assert not errors, errors
    return list({one.name: one for one in map(parsed, said)}.values())


class Objects:
    """The objects of a bucket, as the simulation's checks ask for them."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def keys(self, prefix: str) -> list[str]:
        return [info.key for info in self._bucket.list(prefix).objects]


def examine(place: Place, said: Sequence[Said]) -> Counter[str]:
    """What clients saw is what was promised, by the log and by the order of their lists; rows and indices are what
    the log says. How many transactions of each workload were committed."""
    bucket = place.open()
    store = open_store(bucket, PREFIX)
    model = Model()
    model.history = RecordedHistory(clock=time.monotonic_ns)
    _with_floors(said)
    model.observed = [one.seen for one in said]
    for one in said:
        if one.recorded is not None:
            model.history.add(one.recorded)
    apply.settle(store)
    with model.history.begin("last") as last:
        tx = firn.connect(f"{place.url}/{PREFIX}", options=place.options).begin()
        for row in tx.scan("lists"):
            last.read(row.id, row["values"])
    records = whole_log(store)
    model.holds(records, lambda write: _body(store, said, write))
    verdict = model.history.check("serializable", real_time=False)
    assert verdict, str(verdict)
    rows = all_rows(store)
    follow_the_log(store, records, rows, whole=False)
    _indices_and_rows_are_one(store, bucket)
    return Counter(one.workload for one in said if one.seen.status == "committed" and one.seen.writes)


def _with_floors(said: Sequence[Said]) -> None:
    """Of each, the last commit that anybody was told of before it began."""
    told = sorted((one.end_ns, one.seen.number) for one in said if one.end_ns and one.seen.number)
    ends = [end for end, _ in told]
    highest = [0]
    for _, number in told:
        highest.append(max(highest[-1], number))
    for one in said:
        one.seen.floor = highest[bisect_left(ends, one.start_ns)]


def _body(store: RecordStore, said: Sequence[Said], write: RowWrite) -> bytes:
    """A write's document; one that was staged and is collected, as its client said it."""
    try:
        return store.body(write)
    except SnapshotTooOldError:
        assert write.ref is not None
        txid = write.ref.split(".")[0]
        (document,) = [o.seen.writes[write.table, write.id] for o in said if o.seen.txid == txid]
        return orjson.dumps(document)


def _indices_and_rows_are_one(store: RecordStore, bucket: Bucket) -> None:
    """After a sweep there is an entry for each version in each index, no other one, and each finds its row."""
    quiet = RecordStore(bucket, PREFIX, clock=store.clock, freshness_s=0.0)
    apply.settle(quiet)
    has_all_entries(quiet, all_rows(quiet), Objects(bucket))
    collection.sweep(quiet, orphan_age_s=0)
    rows = all_rows(quiet)
    has_all_entries(quiet, rows, Objects(bucket))
    left = entries_there(quiet, Objects(bucket)) - entries_of(quiet, rows)
    assert not left, f"index entries are left that no row has: {sorted(left)}"
    finds_what_is_there(quiet, rows)
