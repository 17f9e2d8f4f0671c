"""Plans, carried out on a model of runs: nothing is lost, nothing comes back, and they come to an end."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.journal.manifest.model import L0File, Manifest, Pointer, SSTInfo, View
from firn.keyed.maintain.policy import Policy, plan_compaction, plan_full
from firn.keyed.read.runs import runs_of

POINTER = Pointer("m", 1, (), "id", 1, 1, "nonce")
SMALL = {
    "tiered": Policy("tiered", l0_trigger=3, fan_in=3),
    "leveled": Policy("leveled", l0_trigger=3, fan_in=3, ratio=4, level_bytes=40),
}


@dataclass
class Table:
    """Runs as dicts of keys to (seq, deleted); an entry weighs one byte."""

    policy: Policy
    sst_rows: int = 8
    view: View = field(default_factory=lambda: View(POINTER, Manifest(), ()))
    files: dict[str, dict[bytes, tuple[int, bool]]] = field(default_factory=dict)
    truth: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    seq: int = 0
    written: int = 0
    flushed: int = 0

    def flush(self, changes):
        """One L0 object of (key, deleted)."""
        run = {}
        for key, deleted in changes:
            self.seq += 1
            run[key] = self.truth[key] = (self.seq, deleted)
        number = self.view.last_l0 + 1
        self.files[f"l0/{number}"] = run
        self.flushed += len(run)
        self.view = replace(self.view, l0=(L0File(1, number, f"l0/{number}", len(run)), *self.view.l0))

    def carry_out(self, plan):
        ssts = self.view.manifest.ssts
        kept = tuple(sst for sst in ssts if sst not in plan.ssts)
        assert len(kept) == len(ssts) - len(plan.ssts)
        assert plan.l0 == self.view.l0[len(self.view.l0) - len(plan.l0) :], "a walked prefix"
        merged: dict[bytes, tuple[int, bool]] = {}
        for file in [*(l0.key for l0 in plan.l0), *(sst.file for run in plan.runs() for sst in run)]:
            for key, version in self.files[file].items():
                merged.setdefault(key, version)
        if plan.bottom:
            merged = {key: version for key, version in merged.items() if not version[1]}
        rows = sorted(merged.items())
        number = self.view.manifest.next_sst
        adds = []
        for at in range(0, len(rows), self.sst_rows):
            part = dict(rows[at : at + self.sst_rows])
            file = f"sst/{number}"
            self.files[file] = part
            low, high = min(part), max(part)
            dead = sum(deleted for _, deleted in part.values())
            adds.append(
                SSTInfo(
                    plan.level, plan.run, number, file, low, high, len(part), len(part), 0, tombstones=dead
                )
            )
            number += 1
        self.written += len(rows)
        manifest = replace(
            self.view.manifest,
            ssts=(*kept, *adds),
            last_compacted=max(plan.last_compacted, self.view.manifest.last_compacted),
            next_sst=number,
        )
        self.view = View(POINTER, manifest, self.view.l0[: len(self.view.l0) - len(plan.l0)])

    def settle(self):
        plans = 0
        while plan := plan_compaction(self.view, self.policy):
            self.carry_out(plan)
            self.check()
            plans += 1
            assert plans < 200, "plans without an end"

    def check(self):
        found: dict[bytes, tuple[int, bool]] = {}
        for file in self.view.l0:
            for key, version in self.files[file.key].items():
                found.setdefault(key, version)
        for run in runs_of(self.view.manifest.ssts):
            for one, other in itertools.pairwise(run):
                assert one.max_key < other.min_key, "SSTs of a run overlap"
            for sst in run:
                for key, version in self.files[sst.file].items():
                    found.setdefault(key, version)
        assert {key: v for key, v in found.items() if not v[1]} == {
            key: v for key, v in self.truth.items() if not v[1]
        }


keys = st.integers(0, 40).map(b"%02d".__mod__)
flushes = st.lists(st.lists(st.tuples(keys, st.booleans()), min_size=1, max_size=15), max_size=25)


@pytest.mark.parametrize("kind", ["tiered", "leveled"])
@settings(max_examples=40, deadline=None)
@given(listed=flushes, data=st.data())
def test_no_plan_loses_a_key_or_brings_one_back(kind, listed, data):
    table = Table(SMALL[kind])
    for changes in listed:
        table.flush(changes)
        choice = data.draw(st.sampled_from(["settle", "once", "full", "nothing", "load", "switch"]))
        if choice == "settle":
            table.settle()
        elif choice == "switch":
            table.policy = SMALL[data.draw(st.sampled_from(sorted(SMALL)))]
        elif choice == "load":
            load(table, sorted({key for key, _ in changes}))
        elif choice != "nothing":
            plan = (
                plan_full(table.view, table.policy)
                if choice == "full"
                else plan_compaction(table.view, table.policy)
            )
            if plan is not None:
                table.carry_out(plan)
        table.check()
    table.settle()
    if plan := plan_full(table.view, table.policy):
        assert plan.bottom
        table.carry_out(plan)
    table.check()
    assert len(runs_of(table.view.manifest.ssts)) <= 1
    assert not any(sst.tombstones for sst in table.view.manifest.ssts)
    assert plan_full(table.view, table.policy) is None


def load(table, loaded):
    """A bulk load, as it is done: L0 compacted, then a new run of level 1 above the others."""
    plan = plan_full(table.view, table.policy)
    if plan is not None:
        table.carry_out(plan)
    runs = runs_of(table.view.manifest.ssts)
    number = max((run[0].run for run in runs if run[0].level == 1), default=-1) + 1
    table.seq += 1
    file = f"load/{table.seq}"
    table.files[file] = dict.fromkeys(loaded, (table.seq, False))
    table.truth |= table.files[file]
    sst = SSTInfo(1, number, 0, file, loaded[0], loaded[-1], len(loaded), len(loaded), 0)
    manifest = replace(table.view.manifest, ssts=(*table.view.manifest.ssts, sst))
    table.view = replace(table.view, manifest=manifest)


@pytest.mark.parametrize(("kind", "runs", "amplification"), [("tiered", 16, 7), ("leveled", 8, 30)])
def test_runs_stay_few_and_bytes_are_written_a_few_times(kind, runs, amplification):
    """Sixty thousand rows in four hundred flushes of all sizes."""
    random_ = random.Random(3)
    policy = Policy("tiered") if kind == "tiered" else Policy("leveled", level_bytes=2000)
    table = Table(policy, sst_rows=500)
    for _ in range(400):
        size = random_.choice([1, 50, 150, 400])
        table.flush([(b"%06d" % random_.randrange(60_000), False) for _ in range(size)])
        while plan := plan_compaction(table.view, policy):
            table.carry_out(plan)
        assert len(table.view.l0) < policy.l0_trigger
        assert len(runs_of(table.view.manifest.ssts)) <= runs
    table.check()
    assert table.written <= amplification * table.flushed


def test_tiny_flushes_between_large_ones_don_t_pile_up():
    policy = Policy("tiered", l0_trigger=1)
    table = Table(policy, sst_rows=10_000)
    for turn in range(60):
        table.flush([(b"%06d" % (turn * 1000 + n), False) for n in range(1000 if turn % 2 else 1)])
        table.settle()
    assert len(runs_of(table.view.manifest.ssts)) <= 12


@pytest.mark.parametrize("kind", ["tiered", "leveled"])
def test_what_was_deleted_goes_although_it_is_larger(kind):
    policy = replace(Policy(kind), l0_trigger=1)
    table = Table(policy, sst_rows=500)
    table.flush([(b"%05d" % n, False) for n in range(4000)])
    table.settle()
    table.flush([(b"%05d" % n, True) for n in range(1000)])
    table.settle()
    assert sum(sst.rows for sst in table.view.manifest.ssts) == 3000
    assert not any(sst.tombstones for sst in table.view.manifest.ssts)
    few = plan_compaction(view_of((3000, 0), (200, 200)), policy)
    assert few is None, "ten times as many rows would be written for few deletes"
    assert plan_compaction(view_of((3000, 0), (300, 150)), policy) is not None


def view_of(*runs):
    """A view of runs of level 1, oldest first, by rows and deletes; long runs weigh a thousand times as much."""
    ssts = [
        SSTInfo(1, at, at, f"{at}", b"a", b"z", rows, rows * (1000 if rows > 1000 else 1), 0, tombstones=dead)
        for at, (rows, dead) in enumerate(runs)
    ]
    return View(POINTER, Manifest(ssts=tuple(ssts)), ())


def test_leveled_keeps_a_run_a_level_within_its_size():
    policy = SMALL["leveled"]
    table = Table(policy)
    random_ = random.Random(5)
    for _ in range(100):
        table.flush([(b"%04d" % random_.randrange(3000), False) for _ in range(10)])
        table.settle()
    by_level: dict[int, set[int]] = {}
    for sst in table.view.manifest.ssts:
        by_level.setdefault(sst.level, set()).add(sst.run)
    assert max(by_level) >= 3
    assert all(len(runs) == 1 for level, runs in by_level.items() if level > 1)
    for level in by_level:
        assert sum(s.bytes for s in table.view.manifest.ssts if s.level == level) <= policy.allowed(level)


def test_below_the_trigger_nothing_is_planned():
    table = Table(SMALL["tiered"])
    assert plan_compaction(table.view, table.policy) is None
    assert plan_full(table.view, table.policy) is None
    table.flush([(b"a", False)])
    table.flush([(b"b", False)])
    assert plan_compaction(table.view, table.policy) is None
    table.flush([(b"c", False)])
    plan = plan_compaction(table.view, table.policy)
    assert plan is not None
    assert (plan.last_compacted, plan.bytes, plan.bottom) == (2, 3, True)


def test_a_single_run_is_rewritten_only_for_what_can_go():
    sst = SSTInfo(1, 4, 9, "f", b"a", b"z", 10, 100, 5, min_expire=50)
    view = View(POINTER, Manifest(ssts=(sst,), last_compacted=3), ())
    assert plan_full(view, Policy()) is None
    assert plan_full(view, Policy(), now_ms=49) is None
    plan = plan_full(view, Policy(), now_ms=50)
    assert plan is not None
    assert (plan.run, plan.last_compacted, plan.bottom) == (4, 3, True)


def test_deletes_may_go_where_older_runs_have_other_keys():
    ssts = [
        SSTInfo(1, run, run, f"{run}", b"%d0" % run, b"%d9" % run, 1, 1000 if run == 0 else 10, 0)
        for run in range(4)
    ]
    view = View(POINTER, Manifest(ssts=tuple(ssts)), ())
    plan = plan_compaction(view, SMALL["tiered"])
    assert plan is not None
    assert plan.ssts == (ssts[3], ssts[2], ssts[1])
    assert plan.bottom
    older = replace(ssts[0], max_key=b"15")
    plan = plan_compaction(View(POINTER, Manifest(ssts=(*ssts[1:], older)), ()), SMALL["tiered"])
    assert plan is not None
    assert not plan.bottom
