"""Which runs are compacted next. Pure: a view in, a plan out.

Tiered: flushes become runs of level 1, and runs of similar size become one, so each byte is written a few times only.
Leveled: one run a level, each about ten times as large as the one above, so a read looks into few runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firn.journal.manifest.model import L0File, SSTInfo, View


@dataclass(frozen=True)
class Policy:
    """When and what to compact.

    `l0_trigger` is how many L0 objects begin a compaction. Tiered: `fan_in` runs are merged where the largest is at
    most `ratio` times the sum of the newer ones. Leveled: level 1 may have `level_bytes`, each further one `ratio`
    times that.
    """

    kind: Literal["tiered", "leveled"] = "tiered"
    l0_trigger: int = 4
    fan_in: int = 4
    ratio: int = 10
    level_bytes: int = 256 << 20


@dataclass(frozen=True)
class CompactionPlan:
    """What to merge into what: `l0` (newest first) and `ssts` become the run `run` of `level`.

    `bottom`: no older run can hold a key of these, so tombstones are dropped. `last_compacted` is that of the
    manifest afterwards.
    """

    l0: tuple[L0File, ...]
    ssts: tuple[SSTInfo, ...]
    level: int
    run: int
    bottom: bool
    last_compacted: int

    def runs(self) -> list[tuple[SSTInfo, ...]]:
        """The sorted runs among `ssts`, newest first, each in key order."""
        return runs_of(self.ssts)


def runs_of(ssts: tuple[SSTInfo, ...]) -> list[tuple[SSTInfo, ...]]:
    """Sorted runs, newest first: level ascending, run descending; each run's SSTs in key order."""
    by_run: dict[tuple[int, int], list[SSTInfo]] = {}
    for sst in ssts:
        by_run.setdefault((sst.level, -sst.run), []).append(sst)
    return [tuple(sorted(by_run[at], key=lambda sst: sst.min_key)) for at in sorted(by_run)]


def plan_compaction(view: View, policy: Policy) -> CompactionPlan | None:
    """What should be compacted next; None where nothing needs to be."""
    if len(view.l0) < policy.l0_trigger:
        return None
    return plan_full(view)


def plan_full(view: View) -> CompactionPlan | None:
    """Everything into one bottom run; None where it is one already, or there is nothing."""
    ssts = view.manifest.ssts
    if not view.l0 and len(runs_of(ssts)) <= 1:
        return None
    level = max((sst.level for sst in ssts), default=1)
    return CompactionPlan(view.l0, ssts, level, 0, True, view.last_l0)
