"""Every operation of a keyed table, struck at every request it makes: real SSTs, real manifests.

After each strike: what was acknowledged is there, what wasn't is there whole or not at all, checkpoints read as they
did, the operation can be run again to its end, and a sweep leaves exactly the live objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from firn.errors import FirnError
from firn.journal.manifest import CompactorSession, View
from firn.keyed.definition.definition import KeyedDefinition, create_definition, read_definition
from firn.keyed.founding import found
from firn.keyed.load import bulk_load
from firn.keyed.maintain import clones, run_writer
from firn.keyed.maintain.checkpoints import checkpoint, checkpoints, find
from firn.keyed.maintain.clones import clone, clones_of
from firn.keyed.maintain.compaction import compact
from firn.keyed.maintain.sweep import sweep
from firn.keyed.table import KeyedTable
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, SimulationFailure, crash_points
from kv_tables import Flusher, live
from simulation.outcomes import Outcome

pytestmark = pytest.mark.long

State = dict[bytes, object]

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
PREFIX = "db/t"
SETTINGS = {"sst_size": "1KB", "block_size": "1KB", "compression": "none"}
DAY_S = 86_400
KEYS = [b"k%02d" % n for n in range(40)]
FIRST: State = {**dict.fromkeys(KEYS, b"1"), b"k00": b"2", b"k02": b"3"}
del FIRST[b"k01"]
LOADED = [b"k00", b"k01", b"new"]
EVERYTHING: State = {**FIRST, **dict.fromkeys(LOADED, b"loaded")}


def table_over(bucket: GatedBucket, prefix: str = PREFIX) -> KeyedTable:
    """A process's table: the simulated clock, tasks without threads."""
    definition = read_definition(bucket, prefix)
    assert definition is not None
    return KeyedTable(bucket, prefix, definition, clock=bucket.clock)


def fill(bucket: GatedBucket) -> None:
    """A run that was loaded, one that was compacted, a checkpoint; two flushes above them."""
    definition = KeyedDefinition("t", properties=SETTINGS, first_epoch=1)
    table = KeyedTable(bucket, PREFIX, create_definition(bucket, PREFIX, definition), clock=bucket.clock)
    found(table)
    bulk_load.load(table, rows(KEYS[::2], b"1"))
    writer = Flusher(table)
    writer.put(*KEYS[1::2], value=b"1")
    compact(table)
    checkpoint(table, "kept")
    bucket.clock.sleep(60)
    writer.flush([(b"k00", b"2"), (b"k01", None, 1)])
    writer.flush([(b"k02", b"3")])
    bucket.clock.sleep(60)


def rows(keys: list[bytes], value: bytes) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([value] * len(keys), pa.binary())})


@cache
def template() -> SimStore:
    store = SimStore()
    fill(store.bucket())
    return store


class Visit:
    """One operation, and what the table must hold without it and with it."""

    def __init__(self, operate: Callable[[KeyedTable], object], after: State) -> None:
        self.operate, self.after = operate, after
        self.outcome = Outcome()

    def operation(self, bucket: GatedBucket) -> None:
        with self.outcome.told():
            self.operate(table_over(bucket))

    def check(self, bucket: GatedBucket) -> None:
        table = table_over(bucket)
        seen = live(table)
        allowed = {"done": [self.after]}.get(self.outcome.ended, [FIRST, self.after])
        assert seen in allowed, f"after it {self.outcome.ended}: {seen}"
        self.operate(table)
        assert live(table) == self.after, f"run again: {live(table)}"
        bucket.clock.sleep(2 * DAY_S)
        sweep(table, older_than="0s")
        assert live(table) == self.after
        assert live(table, view=find(table, "kept").view()) == dict.fromkeys(KEYS, b"1")
        assert named(table) == stored(bucket, table.prefix)
        writer = Flusher(table)
        writer.put(b"later")
        assert live(table) == {**self.after, b"later": b"v"}


def named(table: KeyedTable) -> set[str]:
    """The L0 objects and SSTs that the table and its checkpoints name."""
    layout = table.journal.layout
    views: list[View] = [table.journal.read()]
    views += [table.journal.view_of(ref) for ref in table.journal.snapshots()]
    ssts = {layout.sst_key(sst.file) for view in views for sst in view.manifest.ssts}
    return ssts | {file.key for view in views for file in view.l0}


def stored(bucket: GatedBucket, prefix: str) -> set[str]:
    """Those that there are, without fences."""
    found = [*bucket.list(f"{prefix}/l0/").objects, *bucket.list(f"{prefix}/ssts/").objects]
    return {info.key for info in found if info.size}


def visit(operate: Callable[[KeyedTable], object], after: State) -> int:
    """Strike `operate` everywhere; the number of points."""
    held = Visit(operate, after)

    def check(left: SimStore, point: CrashPoint) -> None:
        held.check(left.bucket("later"))

    return crash_points(template, held.operation, check, modes=MODES)


def test_flush() -> None:
    def flush(table: KeyedTable) -> None:
        Flusher(table).flush([(b"k00", b"new"), (b"k03", None, 1)])

    after = {**FIRST, b"k00": b"new"}
    del after[b"k03"]
    assert visit(flush, after) > 24


class Engine:
    """An open writer over the table, struck while it flushes; what it had acknowledged, and what it had begun."""

    def __init__(self) -> None:
        self.sure: State = {}
        self.begun: State = {}

    def operation(self, bucket: GatedBucket) -> None:
        self.sure, self.begun = dict(FIRST), dict(FIRST)
        with table_over(bucket).open(compaction=False, poll_every="1d") as kv:
            for n in range(3):
                self.begun[b"k%02d" % n] = b"new"
                kv.put(b"k%02d" % n, b"new")
                self.sure[b"k%02d" % n] = b"new"
            self.begun[b"lazy"] = b"new"
            kv.put(b"lazy", b"new", durable=False)
            kv.flush()
            self.sure[b"lazy"] = b"new"
            kv.compact()
            self.begun[b"last"] = b"new"
            kv.put(b"last", b"new", durable=False)
        self.sure[b"last"] = b"new"

    def check(self, left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        table = table_over(bucket)
        with table.open(compaction=False, poll_every="1d") as kv:
            seen = dict(kv.scan())
            for key in self.begun.keys() | seen.keys():
                assert seen.get(key) in (self.sure.get(key), self.begun.get(key)), f"{key!r}: {seen}"
            assert dict(table.reader().scan()) == seen
            kv.put(b"later", b"v")
        table.compact(full=True)
        bucket.clock.sleep(2 * DAY_S)
        table.sweep(older_than="0s")
        assert dict(table.reader().scan()) == {**seen, b"later": b"v"}
        assert dict(table.reader(at="kept").scan()) == dict.fromkeys(KEYS, b"1")
        assert named(table) == stored(bucket, table.prefix)


def test_an_open_writer() -> None:
    """Its every request, from open to close: what it acknowledged before it was struck is there."""
    engine = Engine()
    assert crash_points(template, engine.operation, engine.check, modes=MODES) > 60


@pytest.mark.parametrize("full", [False, True])
def test_compaction(full: bool) -> None:
    assert visit(lambda table: compact(table, full=full), FIRST) > 40


def test_bulk_load() -> None:
    assert visit(lambda table: bulk_load.load(table, rows(LOADED, b"loaded")), EVERYTHING) > 50


def test_bulk_load_by_tasks() -> None:
    def load(table: KeyedTable) -> None:
        with bulk_load.BulkLoad(table, parts=2) as bulk:
            parts = [
                bulk_load.load_task(table.bucket, bulk.context, part, 0, rows(keys, b"loaded").to_batches())
                for part, keys in enumerate((LOADED[:2], LOADED[2:]))
            ]
            bulk.commit(parts)

    assert visit(load, EVERYTHING) > 50


def test_sweep() -> None:
    def operate(table: KeyedTable) -> None:
        compact(table, full=True)
        sweep(table, older_than="0s")

    assert visit(operate, FIRST) > 100


def test_checkpoint() -> None:
    def operate(table: KeyedTable) -> None:
        if "again" not in {each.name for each in checkpoints(table)}:
            checkpoint(table, "again")
        assert live(table, view=find(table, "again").view()) == FIRST

    assert visit(operate, FIRST) > 20


def test_refresh_and_delete() -> None:
    def operate(table: KeyedTable) -> None:
        for each in checkpoints(table):
            if each.name != "kept":
                each.delete()
        checkpoint(table).refresh("1h").delete()

    assert visit(operate, FIRST) > 30


def test_clone() -> None:
    """A table or none; what was pinned for none goes a day later."""

    def operate(bucket: GatedBucket) -> None:
        table = table_over(bucket)
        if not clones_of(table):
            clone(table, "other")

    def check(left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        table = table_over(bucket)
        if read_definition(bucket, "db/other") is not None:
            table_over(bucket, "db/other").view()  # whoever opens it writes the pointer if it is missing
        operate(bucket)
        bucket.clock.sleep(2 * DAY_S)
        compact(table, full=True)
        sweep(table, older_than="0s")
        other = table_over(bucket, "db/other")
        sweep(other, older_than="0s")
        assert live(table) == live(other) == FIRST
        assert len([ref for ref in table.journal.snapshots() if (ref.name or "").startswith("clone:")]) == 1
        compact(other, full=True)
        sweep(other, older_than="0s")
        assert clones_of(table) == []
        sweep(table, older_than="0s")
        assert live(table) == live(other) == FIRST
        assert named(table) == stored(bucket, "db/t")
        assert named(other) == stored(bucket, "db/other")

    assert crash_points(template, operate, check, modes=MODES) > 50


# -- checks that can fail


def test_a_commit_before_its_ssts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[str, bytes]] = []

    def later(self: Any, key: str, data: bytes) -> bool:
        held.append((key, data))
        return True

    def commit(self: CompactorSession, **more: Any) -> View:
        view = real(self, **more)
        for key, data in held:
            self._store.bucket.put(key, data)
        held.clear()
        return view

    real = CompactorSession.commit
    monkeypatch.setattr(run_writer.RunWriter, "_is_put", later)
    monkeypatch.setattr(CompactorSession, "commit", commit)
    with pytest.raises(SimulationFailure):
        visit(lambda table: compact(table, full=True), FIRST)


def test_a_load_that_leaves_l0_above_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_load, "compact_l0", lambda table, session, runner=None: None)
    with pytest.raises((SimulationFailure, AssertionError)):
        visit(lambda table: bulk_load.load(table, rows(LOADED, b"loaded")), EVERYTHING)


def test_a_clone_without_a_pin_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unpinned(table: KeyedTable) -> None:
        for ref in table.journal.snapshots():
            if (ref.name or "").startswith("clone:"):
                table.journal.delete_snapshot(ref)

    bucket = template().copy().bucket()
    table = table_over(bucket)
    other = clone(table, "other")
    assert live(other) == FIRST
    unpinned(table)
    compact(table, full=True)
    find(table, "kept").delete()
    sweep(table, older_than="0s")
    with pytest.raises(FirnError):
        live(other)
    assert clones.clones_of(table) == []
