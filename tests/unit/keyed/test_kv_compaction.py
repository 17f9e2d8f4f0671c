"""Compaction changes nothing that a reader sees, drops what nobody can see, and commits all or nothing."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firn
from firn.errors import FencedError
from firn.keyed.maintain import compaction
from firn.keyed.maintain.compaction import compact, compact_once, run_plan
from firn.keyed.maintain.compaction_task import CompactContext, CompactTask, RunFile, compact_task
from firn.keyed.maintain.key_shares import KeyShare
from firn.keyed.maintain.policy import CompactionPlan, Policy
from firn.keyed.read.runs import runs_of
from firn.keyed.table import KeyedTable
from firn.runner import LocalRunner
from kv_tables import DELETE, MERGE, PUT, Flusher, Write, entries_of, live, new_table

SMALL = {"sst_size": "8KB", "block_size": "1KB", "compression": "none"}


def fill(table: KeyedTable, flushes: int = 10, keys: int = 100) -> dict[bytes, object]:
    """Flushes that overlap, with deletes in between; what is left."""
    writer = Flusher(table)
    state: dict[bytes, object] = {}
    for number in range(flushes):
        writes: list[Write] = []
        for at in range(0, keys, 1 + number % 3):
            key = b"k%05d" % at
            if (at + number) % 7 == 0:
                writes.append((key, None, DELETE))
                state.pop(key, None)
            else:
                writes.append((key, b"%d-%d" % (number, at), PUT))
                state[key] = b"%d-%d" % (number, at)
        writer.flush(writes)
    return state


@pytest.mark.parametrize("policy", ["tiered", "leveled"])
@pytest.mark.parametrize("full", [False, True])
def test_readers_see_the_same(policy: str, full: bool) -> None:
    table = new_table({**SMALL, "compaction": policy})
    state = fill(table)
    report = compact(table, full=full)
    view = table.journal.read()
    assert live(table) == state
    assert view.l0 == () and view.manifest.last_compacted == 9
    assert report.version == view.version and report.l0_files == 10 and not report.dry_run
    assert report.rows_in == sum(len(range(0, 100, 1 + n % 3)) for n in range(10))
    assert report.rows_out == len(state), "tombstones and older versions go"
    assert report.ssts_out == len(view.manifest.ssts)
    assert report.bytes_out == sum(sst.bytes for sst in view.manifest.ssts)
    assert report.write_amplification == report.bytes_out / report.l0_bytes > 0


def test_entries_keep_their_seq() -> None:
    """It is their place among all commits; the change feed and later merges count on it."""
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"b")
    writer.put(b"a")
    compact(table)
    found = entries_of(table, table.journal.read().manifest.ssts)
    assert [(entry.key, entry.seq) for entry in found] == [
        (b"a", table.definition.seqs.of(1, 0)),
        (b"b", table.definition.seqs.of(0, 1)),
    ]


def test_a_tombstone_stays_while_an_older_run_may_have_the_key() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"m", b"z")
    compact(table)
    writer.delete(b"m")
    writer.delete(b"zz")
    session = table.journal.open_compactor()
    view = session.view
    run_plan(table, session, CompactionPlan(view.l0, (), 1, 1, False, view.last_l0))
    newest = runs_of(session.view.manifest.ssts)[0]
    assert [(e.key, e.kind) for e in entries_of(table, newest)] == [(b"m", DELETE), (b"zz", DELETE)]
    assert set(live(table)) == {b"a", b"z"}
    compact(table, full=True)
    assert [e.key for e in entries_of(table, table.journal.read().manifest.ssts)] == [b"a", b"z"]


def test_a_tombstone_goes_where_no_older_sst_reaches() -> None:
    """The plan isn't at the bottom, but this share of the keys is."""
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"m")
    compact(table)
    writer.flush([(b"x", None, DELETE), (b"y", b"1")])
    session = table.journal.open_compactor()
    view = session.view
    share = KeyShare(b"x", None, 100)
    files = tuple((RunFile(file.key, file.bytes),) for file in view.l0)
    context = CompactContext(table.definition, table.prefix, session.epoch, 1, 1, 0)
    kept = compact_task(table.bucket, context, CompactTask(share, files, False, session.reserve_ssts(9)))
    assert kept.ssts[0].tombstones == 1
    dropped = compact_task(table.bucket, context, CompactTask(share, files, True, session.reserve_ssts(9)))
    assert dropped.ssts[0].tombstones == 0 and dropped.rows_in == 2


def test_what_has_expired_goes() -> None:
    table = new_table()
    writer = Flusher(table)
    now = table.clock.now_ms()
    writer.flush([(b"a", b"1", PUT, now - 1), (b"b", b"2", PUT, now + 3_600_000), (b"c", b"3", PUT, None)])
    report = compact(table)
    assert (report.rows_in, report.rows_out) == (3, 2)
    (sst,) = table.journal.read().manifest.ssts
    assert sst.min_expire == now + 3_600_000


def test_a_full_compaction_drops_what_has_expired_since() -> None:
    table = new_table()
    now = table.clock.now_ms()
    Flusher(table).flush([(b"a", b"1", PUT, now + 60_000), (b"b", b"2")])
    assert compact(table, full=True).rows_out == 2
    assert compact(table, full=True).rounds == 0

    class Later:
        def now_ms(self) -> int:
            return now + 60_000

    table = replace(table, clock=Later())
    assert compact(table, full=True).rows_out == 1
    assert compact(table, full=True).rounds == 0


def test_a_checkpoint_keeps_what_a_full_compaction_drops() -> None:
    table = new_table()
    now = table.clock.now_ms()
    Flusher(table).flush([(b"a", b"1", PUT, now + 60_000), (b"b", b"2")])
    assert compact(table, full=True).rows_out == 2
    table.checkpoint("kept", "7d")
    (held,) = table.journal.read().manifest.ssts

    class At:
        def __init__(self, ms: int) -> None:
            self.ms = ms

        def now_ms(self) -> int:
            return self.ms

    later = replace(table, clock=At(now + 60_000))
    assert compact(later, full=True).rows_out == 1
    later.sweep(older_than="0s")
    assert held.file not in {sst.file for sst in table.journal.read().manifest.ssts}
    with table.reader("kept") as reader:  # whose clock is behind
        assert reader.multi_get([b"a", b"b"]) == [b"1", b"2"]
    with table.reader() as reader:
        assert reader.multi_get([b"a", b"b"]) == [None, b"2"]


def test_everything_may_go() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a")
    writer.delete(b"a")
    report = compact(table)
    view = table.journal.read()
    assert view.manifest.ssts == () and view.manifest.last_compacted == 1
    assert (report.ssts_out, report.rows_out, report.bytes_out) == (0, 0, 0)
    writer.put(b"a")
    assert set(live(table)) == {b"a"}


def test_operands_are_merged() -> None:
    table = new_table(merge_operator="add")
    writer = Flusher(table)
    writer.flush([(b"n", b"1")])
    for _ in range(3):
        writer.merge(b"n", b"10")
    writer.merge(b"m", b"5")
    assert live(table) == {b"n": b"31", b"m": b"5"}
    compact(table)
    assert live(table) == {b"n": b"31", b"m": b"5"}
    found = entries_of(table, table.journal.read().manifest.ssts)
    assert [(e.key, e.value) for e in found] == [(b"m", b"5"), (b"n", b"31")]


def test_what_meets_nothing_below_only_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that is too large gives SSTs to the next one; where that has no such keys, none is written again."""
    policy = Policy("leveled", l0_trigger=1, level_bytes=20_000)
    monkeypatch.setattr(compaction, "policy_of", lambda table: policy)
    table = new_table({**SMALL, "compaction": "leveled"})
    writer = Flusher(table)
    writer.put(*(b"k%05d" % n for n in range(2_000)))
    before = table.bucket.counters.as_dict()
    report = compact(table)
    view = table.journal.read()
    assert {sst.level for sst in view.manifest.ssts} == {1, 2}
    assert report.rounds > 1 and report.ssts_out == len(view.manifest.ssts)
    assert table.bucket.counters.since(before)["put"] == 1 + report.ssts_out + 2 * report.rounds
    assert live(table) == {b"k%05d" % n: b"v" for n in range(2_000)}
    writer.delete(*(b"k%05d" % n for n in range(0, 2_000, 2)))
    writer.put(b"k00001", value=b"new")
    compact(table)
    left = {b"k%05d" % n: b"v" for n in range(1, 2_000, 2)}
    assert live(table) == {**left, b"k00001": b"new"}
    compact(table, full=True)
    assert live(table) == {**left, b"k00001": b"new"}


def test_nothing_to_do_costs_little() -> None:
    table = new_table()
    assert compact(table) == compaction.CompactionReport(None)
    Flusher(table).put(b"a")
    compact(table)
    before = table.bucket.counters.as_dict()
    assert compact(table, full=True).rounds == 0
    assert table.bucket.counters.since(before)["put"] == 1, "the epoch's"


def test_dry_run_takes_nothing() -> None:
    table = new_table()
    fill(table, flushes=3)
    before = table.bucket.counters.as_dict()
    report = compact(table, dry_run=True)
    assert report.dry_run and report.l0_files == 3 and report.l0_bytes == report.bytes_in > 0
    assert report.version is None and report.ssts_out == 0
    assert table.bucket.counters.since(before)["put"] == 0


def test_requests() -> None:
    """A round reads each file once, by 1 GET while it is small, and commits by 2 PUTs."""
    table = new_table()
    fill(table, flushes=5)
    before = table.bucket.counters.as_dict()
    compact(table)
    spent = table.bucket.counters.since(before)
    assert spent["put"] == 1 + 1 + 2, "epoch, SST, manifest and pointer"
    assert spent["list"] == 1
    assert spent["get"] <= 3 + 5


def test_shares_give_what_one_task_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SHARE_BYTES", (4_000, 4_000))
    table = new_table(SMALL)
    state = fill(table, keys=2_000)
    report = compact(table, runner=LocalRunner(threads=4))
    assert report.tasks > 3
    assert live(table) == state
    ssts = sorted(table.journal.read().manifest.ssts, key=lambda sst: sst.min_key)
    assert len({(sst.level, sst.run) for sst in ssts}) == 1
    for before, after in itertools.pairwise(ssts):
        assert before.max_key < after.min_key


def test_it_runs_where_only_pickles_go(tmp_path: Path) -> None:
    """As tasks do that go to other processes, the bucket too."""

    class Pickling(LocalRunner):
        def map(self, fn: Any, tasks: Any, *, bucket: Any, context: Any, **more: Any) -> Any:
            fn, tasks, bucket, context = pickle.loads(pickle.dumps((fn, tasks, bucket, context)))
            results = super().map(fn, tasks, bucket=bucket, context=context, **more)
            return pickle.loads(pickle.dumps(results))

    table = firn.connect(str(tmp_path)).create_table(
        "t", kind="keyed", key={"k": "BIGINT"}, schema={"v": "VARCHAR"}, merge_operator="max"
    )
    keys = [table.keys.encode(n) for n in range(100)]
    writer = Flusher(table)
    writer.flush([(key, ("a",)) for key in keys])
    writer.flush([(key, ("b",), MERGE) for key in keys])
    compact(table, runner=Pickling())
    assert live(table) == dict.fromkeys(keys, ("b",))


def test_a_writer_goes_on_meanwhile() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", value=b"old")
    writer.put(b"b", value=b"old")

    class Meanwhile(LocalRunner):
        def map(self, *args: Any, **more: Any) -> Any:
            results = super().map(*args, **more)
            writer.put(b"a", value=b"new")
            return results

    compact(table, runner=Meanwhile())
    view = table.journal.read()
    assert [file.number for file in view.l0] == [2] and view.manifest.last_compacted == 1
    assert live(table) == {b"a": b"new", b"b": b"old"}


def test_a_new_writer_meanwhile_is_no_conflict() -> None:
    table = new_table()
    Flusher(table).put(b"a")

    class Meanwhile(LocalRunner):
        def map(self, *args: Any, **more: Any) -> Any:
            results = super().map(*args, **more)
            Flusher(table).put(b"b")
            return results

    compact(table, runner=Meanwhile())
    assert live(table) == {b"a": b"v", b"b": b"v"}


def test_another_compactor_fences_this_one() -> None:
    table = new_table()
    Flusher(table).put(b"a")

    class Meanwhile(LocalRunner):
        def map(self, *args: Any, **more: Any) -> Any:
            results = super().map(*args, **more)
            table.journal.open_compactor()
            return results

    before = table.journal.read().version
    with pytest.raises(FencedError):
        compact(table, runner=Meanwhile())
    assert table.journal.read().version == before
    assert live(table) == {b"a": b"v"}
    compact(table)
    assert live(table) == {b"a": b"v"}


def test_rounds_beside_a_writer() -> None:
    table = new_table()
    writer = Flusher(table)
    session, view = compact_once(table, None)
    assert session is None and view is None
    for n in range(Policy().l0_trigger):
        writer.put(b"%d" % n)
    session, view = compact_once(table, session)
    assert session is not None and view is not None and view.l0 == ()
    epoch = session.epoch
    session, again = compact_once(table, session)
    assert again is None
    for n in range(Policy().l0_trigger):
        writer.put(b"%d" % n, value=b"w")
    session, view = compact_once(table, session)
    assert session is not None and session.epoch == epoch and view is not None
    table.journal.open_compactor()
    with pytest.raises(FencedError):
        compact_once(table, session)
    assert len(live(table)) == Policy().l0_trigger


_KEYS = st.sampled_from([b"a", b"b", b"c", b"dd", b"e\x00"])
_ONE = st.one_of(
    st.tuples(_KEYS, st.sampled_from([b"1", b"20", b"-3"]), st.sampled_from([PUT, MERGE])),
    st.tuples(_KEYS, st.none(), st.just(DELETE)),
)
_STEP = st.one_of(st.lists(_ONE, min_size=1, max_size=4), st.sampled_from(["compact", "full"]))


@given(st.lists(_STEP, max_size=12), st.sampled_from(["tiered", "leveled"]))
@settings(max_examples=40, deadline=None)
def test_any_history(steps: list[Any], policy: str) -> None:
    """Puts, deletes and operands in any order, compacted at any time, against a dict."""
    table = new_table({"compaction": policy}, merge_operator="add")
    writer = Flusher(table)
    state: dict[bytes, int] = {}
    for step in steps:
        if isinstance(step, str):
            compact(table, full=step == "full")
            continue
        for key, value, kind in step:
            if kind == DELETE:
                state.pop(key, None)
            else:
                state[key] = int(value) + (state.get(key, 0) if kind == MERGE else 0)
        writer.flush(step)
        assert live(table) == {key: b"%d" % n for key, n in state.items()}
    compact(table, full=True)
    assert live(table) == {key: b"%d" % n for key, n in state.items()}
    kinds = {entry.kind for entry in entries_of(table, table.journal.read().manifest.ssts)}
    assert kinds <= {PUT, MERGE}
