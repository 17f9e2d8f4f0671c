"""Every operation of a lake table, struck at every request it makes: real Parquet, real journal.

After each strike: what was committed is there, what wasn't is invisible, an error that says "nothing happened" is
right, the operation can be run again to its end, older versions read as they did, and a sweep leaves exactly the
live objects.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.concurrency.once import Once
from firn.database.database import Database
from firn.database.kinds.keyed import KeyedTables
from firn.database.kinds.kind import TableKind
from firn.database.kinds.lake import LakeTables
from firn.database.kinds.records import RecordTables
from firn.database.tables import Tables
from firn.database.writer_tables import WriterTables
from firn.errors import TableNotFoundError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.append import OpenAppend
from firn.journal.leaderless.format.codec import Log, encode
from firn.journal.leaderless.maintain.lease import LockState
from firn.journal.model import Commit
from firn.kinds import Kind
from firn.lake.definition.definition import LakeDefinition
from firn.lake.maintain import merge as merging
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.lake.write.upload import Uploader
from firn.runner import InProcess, LocalRunner
from firn.testing import (
    CrashMode,
    CrashPoint,
    FaultBucket,
    GatedBucket,
    SimStore,
    SimulationFailure,
    crash_points,
)
from simulation import mutations
from simulation.outcomes import Outcome

pytestmark = pytest.mark.long

Rows = list[tuple[str, int]]

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
PREFIX = "db/t"
BATCH = [{"place": "x", "n": 10}, {"place": "y", "n": 11}]
FIRST: Rows = [("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2), ("y", 3)]
EXTERNAL = "elsewhere/old.parquet"
DEFINITION = "db/t/_firn/table.json"  # outlives the table, and the next one of the name replaces it
DAY_S = 86_400


def lake(bucket: GatedBucket) -> LakeTable:
    """A process's table: no threads, the simulated clock."""
    journal = LeaderlessJournal(bucket, PREFIX, clock=bucket.clock, renew_in_background=False)
    spec = PartitionSpec.parse(["place"], {})
    return LakeTable(
        bucket, PREFIX, LakeDefinition("t", partition=spec), journal, InProcess(LocalRunner(threads=1))
    )


def rows_of(table: LakeTable, at: str | None = None) -> Rows:
    found = table.scan(columns=["place", "n"], at=at).to_arrow().to_pylist() if _columns(table, at) else []
    return sorted((row["place"], row["n"]) for row in found)


def _columns(table: LakeTable, at: str | None) -> bool:
    return bool(table.snapshot(at).columns)


def fill(bucket: GatedBucket) -> None:
    """Three appends of two partitions each, a merge of them, all long ago; then one more append."""
    table = lake(bucket)
    for n in (1, 2):
        table.append([{"place": "x", "n": n}, {"place": "y", "n": n}])
        bucket.clock.sleep(60)
    table.merge()
    bucket.clock.sleep(DAY_S)
    table.append([{"place": "x", "n": 3}, {"place": "y", "n": 3}])
    body = io.BytesIO()
    pq.write_table(pa.table({"place": ["z"], "n": [30]}), body)
    bucket.put(EXTERNAL, body.getvalue())
    bucket.clock.sleep(60)


@cache
def template() -> SimStore:
    store = SimStore()
    fill(store.bucket())
    return store


class Visit:
    """One operation, and what the table must hold without it and with it."""

    def __init__(self, operate: Callable[[LakeTable], object], before: Rows, after: Rows) -> None:
        self.operate, self.before, self.after = operate, sorted(before), sorted(after)
        self.outcome = Outcome()
        self.version = ""

    def operation(self, bucket: GatedBucket) -> None:
        with self.outcome.told():
            self.operate(lake(bucket))

    def check(self, bucket: GatedBucket, again: Rows | None) -> None:
        """`again`: what the table holds once the operation was run again; else the same as `after`."""
        table = lake(bucket)
        seen = rows_of(table)
        expected = {"done": [self.after], "failed": [self.before]}.get(
            self.outcome.ended, [self.before, self.after]
        )
        assert seen in expected, f"after it {self.outcome.ended}: {seen}"
        if self.version:
            assert rows_of(table, self.version) == self.before
        self.operate(lake(bucket))
        repeated = sorted(again + seen) if again is not None else self.after
        assert rows_of(table) == repeated, f"run again: {rows_of(table)}"
        bucket.clock.sleep(DAY_S)
        table.sweep(older_than="0s", orphans="0s")
        assert rows_of(lake(bucket)) == repeated, "sweep changed the rows"
        live = {f.path for f in table.snapshot().objects} - {EXTERNAL}
        assert {i.key for i in bucket.list(table.journal.layout.data_prefix).objects} == live
        assert bucket.head(EXTERNAL).size > 0
        table.append([{"place": "w", "n": 99}])
        assert rows_of(table) == sorted([*repeated, ("w", 99)])


def visit(
    operate: Callable[[LakeTable], object],
    after: Rows,
    *,
    before: Rows = FIRST,
    again: Rows | None = None,
    prepare: Callable[[GatedBucket], object] | None = None,
) -> int:
    """Strike `operate` everywhere; the number of points."""
    store = template().copy()
    if prepare is not None:
        prepare(store.bucket())
    held = Visit(operate, before, after)
    held.version = lake(store.bucket()).snapshot().version

    def check(left: SimStore, point: CrashPoint) -> None:
        held.check(left.bucket("later"), again)

    return crash_points(lambda: store, held.operation, check, modes=MODES)


def without(rows: Rows, gone: Callable[[tuple[str, int]], bool]) -> Rows:
    return [row for row in rows if not gone(row)]


NEW: Rows = [("x", 10), ("y", 11)]


class Operation(NamedTuple):
    """What is done to the first rows, what the table holds then, and once it was done again, if that differs."""

    operate: Callable[[LakeTable], object]
    after: Rows
    again: Rows | None = None

    def visit(self) -> int:
        return visit(self.operate, self.after, again=self.again)


def merge_unlocked(table: LakeTable) -> None:
    """As if the files were large: the lock is taken only to look and to publish."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "UNLOCKED_BYTES", 0)
        table.merge()


OPERATIONS = {
    "append": Operation(lambda t: t.append(BATCH), [*FIRST, *NEW], NEW),
    "batch": Operation(lambda t: t.append(BATCH, batch_id="once"), [*FIRST, *NEW]),
    "merge": Operation(lambda t: t.merge(), FIRST),
    "merge unlocked": Operation(merge_unlocked, FIRST),
    "remove": Operation(
        lambda t: t.remove_partitions("place = 'x'"), without(FIRST, lambda row: row[0] == "x")
    ),
    "delete": Operation(lambda t: t.delete("n = 2"), without(FIRST, lambda row: row[1] == 2)),
    "rewrite": Operation(lambda t: t.rewrite("n <> 3"), without(FIRST, lambda row: row[1] == 3)),
}


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("append", 24),
        ("batch", 30),
        ("merge", 50),
        ("merge unlocked", 80),
        ("remove", 30),
        ("delete", 50),
        ("rewrite", 40),
    ],
)
def test_an_operation(name: str, points: int) -> None:
    assert OPERATIONS[name].visit() > points


def test_rewrite_by_a_query() -> None:
    kept = [(place, n) for place, n in FIRST if n < 2]
    assert visit(lambda t: t.rewrite("SELECT place, n FROM _rows WHERE n < 2"), kept) > 50


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({}, NEW),
        ({"partitions": "touched"}, NEW),
        ({"where": "n >= 3"}, [*without(FIRST, lambda row: row[1] >= 3), *NEW]),
    ],
    ids=["all", "touched", "where"],
)
def test_overwrite(options: dict[str, Any], after: Rows) -> None:
    assert visit(lambda t: t.overwrite(BATCH, **options), after) > 40


def test_restore() -> None:
    """Undoes a removal."""
    versions: list[str] = []

    def remove(bucket: GatedBucket) -> None:
        table = lake(bucket)
        versions.append(table.snapshot().version)
        table.remove_partitions("place = 'x'")

    left = without(FIRST, lambda row: row[0] == "x")
    assert visit(lambda t: t.restore(versions[0]), FIRST, before=left, prepare=remove) > 40


def test_register() -> None:
    def register(table: LakeTable) -> None:
        if EXTERNAL not in {f.path for f in table.snapshot().files}:
            table.register(EXTERNAL)

    assert visit(register, [*FIRST, ("z", 30)]) > 30


def test_checkpoint() -> None:
    assert visit(lambda t: t.checkpoint(), FIRST) > 20


def test_sweep() -> None:
    """Of what a merge replaced long ago, and of parts that no log names."""

    def leave_orphans(bucket: GatedBucket) -> None:
        namers = [lake(bucket).journal.layout.namer(maintenance=m) for m in (False, True)]
        for namer in namers:
            bucket.put(namer("place=x"), b"left by a crash")

    assert visit(lambda t: t.sweep(orphans="10s"), FIRST, prepare=leave_orphans) > 80


def test_a_sweep_in_the_wrong_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mutations.replace_before_deleting(monkeypatch)
    with pytest.raises(SimulationFailure):
        visit(lambda t: t.sweep(), FIRST)


def test_a_commit_before_its_files_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(self: Uploader) -> None:
        held.append(self)

    def commit(self: OpenAppend, commit: Commit) -> str:
        version = self._publish(commit)
        finish(held.pop())
        return version

    held: list[Uploader] = []
    finish = Uploader.finish
    monkeypatch.setattr(Uploader, "finish", late)
    monkeypatch.setattr(OpenAppend, "commit", commit)
    store = template().copy()
    visited = Visit(lambda t: t.append(BATCH), FIRST, [*FIRST, *NEW])
    with pytest.raises(SimulationFailure):
        crash_points(
            lambda: store,
            visited.operation,
            lambda left, point: visited.check(left.bucket(), NEW),
            modes=MODES,
        )


def test_take_over_from_a_dead_holder() -> None:
    """It had announced a log, and reserved its name."""

    def die_holding(bucket: GatedBucket) -> None:
        journal = lake(bucket).journal
        assert isinstance(journal, LeaderlessJournal)
        layout, t = journal.layout, bucket.clock.now_ms()
        name = f"{t}_m_dead-1.jsonl"
        reservation = Log(name, t, notes={"op": "reserve"}, nonce="r")
        bucket.put(layout.log_key(name), encode(reservation))
        state = LockState("n", 9, "dead", "merge", layout.log_key(name), 30_000)
        bucket.put(layout.lock_key, state.encode())
        bucket.clock.sleep(1)

    assert visit(lambda t: t.merge(), FIRST, prepare=die_holding) > 150


class SimDatabase(Database):
    """`connect` over a bucket that is there already."""

    def __init__(self, bucket: GatedBucket) -> None:
        self.url, self.options, self.lock, self.prefix = "sim://store/db", {}, None, "db"
        self.bucket = bucket
        self.engines = InProcess(LocalRunner(threads=1))
        writers = WriterTables(
            bucket, self.prefix, self.url, self.engines, writer=None, strict=False, clock=bucket.clock
        )
        self._writers = Once(lambda: writers)
        kinds: dict[Kind, TableKind[Any, Any, Any]] = {
            "lake": LakeTables(bucket, self.prefix, {}, self.engines, self._writers, None),
            "keyed": KeyedTables(bucket, self.prefix, {}, self.engines, bucket.clock),
            "records": RecordTables(bucket, self.prefix, self.url, clock=bucket.clock, background=False),
        }
        self._opened = Tables(bucket, self.prefix, self.url, kinds, self._writers)


def test_create_table() -> None:
    def create(bucket: GatedBucket) -> None:
        SimDatabase(bucket).create_table("new", partition_by=["place"], properties={"target_size": "1MB"})

    def check(left: SimStore, point: CrashPoint) -> None:
        db = SimDatabase(left.bucket("later"))
        if "new" not in db.tables():
            create(left.bucket("again"))
        table = db.table("new")
        assert table.context.definition.properties == {"target_size": "1MB"}
        assert [f.name for f in table.partition_spec.fields] == ["place"]

    assert crash_points(SimStore, create, check, modes=MODES) > 9


def test_drop_table() -> None:
    """Whole or gone: a table that is half deleted can't be opened, and dropping or creating it ends the work."""
    defined = template().copy()
    SimDatabase(defined.bucket()).create_table("t", partition_by=["place"])

    def drop(bucket: GatedBucket) -> None:
        SimDatabase(bucket).drop_table("t")

    def check(left: SimStore, point: CrashPoint) -> None:
        db = SimDatabase(left.bucket("later"))
        if "t" in db.tables():
            assert rows_of(lake(left.bucket("reader"))) == FIRST
        else:
            with pytest.raises(TableNotFoundError):
                db.table("t")
        other = left.copy()
        with suppress(TableNotFoundError):  # gone already
            db.drop_table("t")
        assert left.keys() == [DEFINITION, EXTERNAL]
        db = SimDatabase(other.bucket("later"))
        if "t" not in db.tables():
            assert db.create_table("t", partition_by=["place"]).snapshot().files == ()
        db.drop_table("t")
        assert other.keys() == [DEFINITION, EXTERNAL]

    assert crash_points(lambda: defined, drop, check, modes=MODES) > 70


@pytest.mark.parametrize("ended", [False, True])
def test_create_table_over_a_dropped_one(ended: bool) -> None:
    """The name is the dropped table's or the next one's, which begins empty and in directories of its own."""
    dropped = template().copy()
    db = SimDatabase(dropped.bucket())
    old = db.create_table("t", partition_by=["place"])
    if ended:
        db.drop_table("t")
    else:
        dropped.bucket("dropper").put(DEFINITION, replace(old.context.definition, dropped=True).encode())

    def create(bucket: GatedBucket) -> None:
        SimDatabase(bucket).create_table("t", sort_by=["place"])

    def check(left: SimStore, point: CrashPoint) -> None:
        db = SimDatabase(left.bucket("later"))
        if "t" not in db.tables():
            create(left.bucket("again"))
        table = db.table("t")
        assert isinstance(table, LakeTable)
        assert (table.context.definition.generation, table.context.definition.sort_by) == (1, ("place",))
        assert table.snapshot().files == ()
        assert left.keys() == [DEFINITION, EXTERNAL]

    assert crash_points(dropped.copy, create, check, modes=MODES) > (9 if ended else 30)


@pytest.mark.parametrize(
    ("operate", "after", "again"),
    [
        (lambda t: t.append(BATCH), [*FIRST, *NEW], NEW),
        (lambda t: t.merge(), FIRST, None),
        (lambda t: t.sweep(older_than="10s", orphans="10s"), FIRST, None),
    ],
    ids=["append", "merge", "sweep"],
)
def test_over_a_directory(
    operate: Callable[[LakeTable], object], after: Rows, again: Rows | None, tmp_path: Path
) -> None:
    """The same on a file system, whose conditional puts and LISTs are real."""
    whole = tmp_path / "whole"
    whole.mkdir()
    fill(FaultBucket(open_bucket(str(whole))))
    held = Visit(operate, FIRST, after)
    made: list[Path] = []

    def setup() -> Bucket:
        if made:
            shutil.rmtree(made.pop())
        made.append(tmp_path / "struck")
        shutil.copytree(whole, made[0])
        return open_bucket(str(made[0]))

    def check(left: Bucket, point: CrashPoint) -> None:
        held.check(FaultBucket(left), again)

    assert crash_points(setup, held.operation, check, modes=MODES) > 24
