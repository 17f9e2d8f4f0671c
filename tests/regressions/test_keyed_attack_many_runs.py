"""Where flushes come all the time, runs too large to be merged along with L0 never were: they grew in number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.journal.manifest.model import L0File, Manifest, Pointer, SSTInfo, View
from firn.keyed.maintain.l0_steps import due
from firn.keyed.maintain.policy import CompactionPlan, Policy
from firn.keyed.read.runs import runs_of

POINTER = Pointer("", 1, (), "", 1, 1, "")


def done(view: View, plan: CompactionPlan, number: int) -> View:
    made = SSTInfo(plan.level, plan.run, number, f"s{number}", b"a", b"z", 1000, plan.bytes, 0)
    taken = {sst.file for sst in plan.ssts}
    left = [sst for sst in view.manifest.ssts if sst.file not in taken]
    manifest = Manifest(ssts=(*left, made), last_compacted=plan.last_compacted)
    return View(POINTER, manifest, tuple(file for file in view.l0 if file.number > plan.last_compacted))


@pytest.mark.parametrize("kind", ["tiered", "leveled"])
@pytest.mark.parametrize("size", [100_000, 3 << 20])
def test_runs_are_merged_though_l0_asks_at_all_times(kind: str, size: int) -> None:
    view, number = View(POINTER, Manifest(), ()), 0
    for step in range(400):
        for _ in range(8):
            view = replace(view, l0=(L0File(1, number, str(number), size), *view.l0))
            number += 1
        plan = due(view, Policy(kind=kind))  # type: ignore[arg-type]
        assert plan is not None
        view = done(view, plan, step)
        assert len(runs_of(view.manifest.ssts)) <= 20 and len(view.l0) < 100
