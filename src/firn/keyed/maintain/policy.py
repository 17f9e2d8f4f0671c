"""Which runs are compacted next. Pure: a view in, a plan out.

Tiered: flushes become runs, and neighbours of similar size become one, so each byte is written a few times only.
Leveled: level after level is larger by a factor and is one run, so a read looks into few runs. In both, runs that are
mostly deletes are merged with what they delete, and only neighbours in age are merged, since a run between them would
end up on the wrong side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from firn.journal.manifest.model import L0File, SSTInfo, View
from firn.keyed.read.runs import Run, runs_of


@dataclass(frozen=True)
class Policy:
    """When and what to compact.

    `l0_trigger`, `l0_bytes`: how many L0 objects begin a compaction, or how many bytes of them.
    Tiered merges `fan_in` or more neighbouring runs, each at
    most twice as large as the largest newer one among them. Leveled: level 1 may have `level_bytes`, each further
    one `ratio` times as much, and a run of level 1 is merged with newer ones that have a `ratio`-th of it. A run that
    is mostly deletes is merged with what it overlaps of the next older one, if that is at most `ratio` times as long.
    """

    kind: Literal["tiered", "leveled"] = "tiered"
    l0_trigger: int = 8
    fan_in: int = 4
    ratio: int = 10
    level_bytes: int = 256 << 20
    l0_bytes: int = 256 << 20

    def wants_l0(self, l0: Sequence[L0File]) -> bool:
        """Whether L0 is to be compacted."""
        return len(l0) >= self.l0_trigger or (bool(l0) and l0_bytes(l0) >= self.l0_bytes)

    def allowed(self, level: int) -> int:
        """The bytes that a level may have."""
        return int(self.level_bytes * self.ratio ** (level - 1))


@dataclass(frozen=True)
class CompactionPlan:
    """One merge: `l0` (newest first) and `ssts` become SSTs of the run `run` of `level`.

    `bottom`: no older run holds any key of these, so deletes needn't stay. `last_compacted` is that of the manifest
    afterwards.
    """

    l0: tuple[L0File, ...]
    ssts: tuple[SSTInfo, ...]
    level: int
    run: int
    bottom: bool
    last_compacted: int

    @property
    def bytes(self) -> int:
        """The bytes that it reads."""
        return l0_bytes(self.l0) + run_bytes(self.ssts)

    def runs(self) -> list[Run]:
        """The runs among `ssts`, newest first."""
        return runs_of(self.ssts)


def run_bytes(run: Iterable[SSTInfo]) -> int:
    """The bytes of some SSTs."""
    return sum(sst.bytes for sst in run)


def l0_bytes(files: Iterable[L0File]) -> int:
    """The bytes of some L0 objects."""
    return sum(file.bytes for file in files)


def plan_compaction(view: View, policy: Policy) -> CompactionPlan | None:
    """The plan of the next compaction; None where nothing needs one.

    Carrying plans out one after the other comes to an end, where no more is written meanwhile.
    """
    by_size = _tiered(view, policy) if policy.kind == "tiered" else _leveled(view, policy)
    return by_size or _dead(view, policy)


def plan_l0(view: View, *, most_bytes: int, most_files: int) -> CompactionPlan | None:
    """The oldest L0 objects alone, up to so many, into a run of their own; None where there are none.

    A step that is over soon, however much there is below.
    """
    taken: list[L0File] = []
    size = 0
    for file in reversed(view.l0):
        size += file.bytes
        if taken and (size > most_bytes or len(taken) >= most_files):
            break
        taken.insert(0, file)
    return _plan(view, tuple(taken), (), 1, _next_run(runs_of(view.manifest.ssts))) if taken else None


def plan_full(view: View, policy: Policy, now_ms: int | None = None) -> CompactionPlan | None:
    """Everything into one bottom run; None where there is nothing, or it is that already.

    Args:
        now_ms: rewrites a single run too where some of it has expired by then.
    """
    ssts = view.manifest.ssts
    runs = runs_of(ssts)
    if not view.l0 and not runs:
        return None
    if not view.l0 and len(runs) == 1 and not any(has_refuse(sst, now_ms) for sst in ssts):
        return None
    level = 1
    if policy.kind == "leveled":
        level = max((sst.level for sst in ssts), default=1)
        total = run_bytes(ssts) + l0_bytes(view.l0)
        while policy.allowed(level) < total:
            level += 1
        return _plan(view, view.l0, runs, level, 0)
    if view.l0:
        return _plan(view, view.l0, runs, level, _next_run(runs))
    newest = runs[0][0]  # whose place nobody else takes, as L0 may be compacted beside it
    return _plan(view, (), runs, newest.level, newest.run)


def _tiered(view: View, policy: Policy) -> CompactionPlan | None:
    runs = runs_of(view.manifest.ssts)
    if policy.wants_l0(view.l0):
        sizes = [l0_bytes(view.l0), *map(run_bytes, runs)]
        count = _similar(sizes)
        taken = runs[: count - 1] if count >= policy.fan_in else []
        return _plan(view, view.l0, taken, 1, _next_run(runs))
    sizes = [run_bytes(run) for run in runs]
    for at in range(len(runs)):
        count = _similar(sizes[at:])
        if count >= policy.fan_in:
            newest = runs[at][0]
            return _plan(view, (), runs[at : at + count], newest.level, newest.run)
    return None


def _similar(sizes: Sequence[int]) -> int:
    """How many, from the newest on, are each at most twice as large as the largest before."""
    largest = list(accumulate(sizes, max))
    for at in range(1, len(sizes)):
        if sizes[at] > 2 * largest[at - 1]:
            return at
    return len(sizes)


def _leveled(view: View, policy: Policy) -> CompactionPlan | None:
    runs = runs_of(view.manifest.ssts)
    first = [run for run in runs if run[0].level == 1]
    if policy.wants_l0(view.l0):
        together = l0_bytes(view.l0)
        taken = 0
        for run in first:
            if run_bytes(run) > policy.ratio * together:
                break
            together += run_bytes(run)
            taken += 1
        return _plan(view, view.l0, first[:taken], 1, _next_run(runs))
    for level in sorted({run[0].level for run in runs}):
        there = [run for run in runs if run[0].level == level]
        if len(there) > 1 and (level > 1 or _is_due(there, policy)):
            return _plan(view, (), there, level, there[0][0].run)
    for level in sorted({run[0].level for run in runs}):
        there = [run for run in runs if run[0].level == level]
        if len(there) == 1 and run_bytes(there[0]) > policy.allowed(level):
            return _descend(view, there[0], policy.allowed(level))
    return None


def _dead(view: View, policy: Policy) -> CompactionPlan | None:
    """A run that is mostly deletes, into what it overlaps of the next older one: scans would go over both.

    Not where that is more than `ratio` times as long, so that a table with many deletes isn't written all the time.
    """
    runs = runs_of(view.manifest.ssts)
    for newer, older in pairwise(runs):
        rows = sum(sst.rows for sst in newer)
        met = tuple(sst for sst in older if _overlap(sst, newer))
        if 2 * sum(sst.tombstones for sst in newer) >= rows and policy.ratio * rows >= sum(
            sst.rows for sst in met
        ):
            return _plan(view, (), [newer, met], older[0].level, older[0].run)
    return None


def _is_due(runs: Sequence[Run], policy: Policy) -> bool:
    """Whether the newer runs of level 1 are worth writing its oldest one again."""
    newer = sum(map(run_bytes, runs[:-1]))
    return len(runs) > policy.fan_in or policy.ratio * newer >= run_bytes(runs[-1])


def _descend(view: View, run: Run, allowed: int) -> CompactionPlan:
    """Some neighbours of a level that is too large, with what they overlap of the next level."""
    level = run[0].level
    below = next((r for r in runs_of(view.manifest.ssts) if r[0].level == level + 1), ())
    excess = run_bytes(run) - allowed
    best: tuple[float, Run, Run] | None = None
    for at in range(len(run)):
        end, size = at, 0
        while end < len(run) and size < excess:
            size += run[end].bytes
            end += 1
        chosen = run[at:end]
        met = tuple(sst for sst in below if _overlap(sst, chosen))
        cost = run_bytes(met) / max(1, size)
        if best is None or cost < best[0]:
            best = cost, chosen, met
        if end == len(run):
            break
    assert best is not None
    _, chosen, met = best
    return _plan(view, (), [chosen, met], level + 1, below[0].run if below else 0)


def _overlap(sst: SSTInfo, others: Sequence[SSTInfo]) -> bool:
    return sst.min_key <= others[-1].max_key and others[0].min_key <= sst.max_key


def _next_run(runs: Sequence[Run]) -> int:
    """The number of a run of level 1 that is newer than all."""
    return max((run[0].run for run in runs if run[0].level == 1), default=-1) + 1


def has_refuse(sst: SSTInfo, now_ms: int | None) -> bool:
    """Whether there are entries that needn't be kept at the bottom: deletes, or entries that have expired by then."""
    expired = now_ms is not None and sst.min_expire is not None and sst.min_expire <= now_ms
    return sst.tombstones > 0 or expired


def _plan(
    view: View, l0: tuple[L0File, ...], runs: Sequence[Sequence[SSTInfo]], level: int, run: int
) -> CompactionPlan:
    ssts = tuple(sst for taken in runs for sst in taken)
    return CompactionPlan(
        l0=l0,
        ssts=ssts,
        level=level,
        run=run,
        bottom=_is_bottom(view, bool(l0), ssts),
        last_compacted=l0[0].number if l0 else view.manifest.last_compacted,
    )


def _is_bottom(view: View, everywhere: bool, ssts: Sequence[SSTInfo]) -> bool:
    """Whether no older SST may hold a key of the inputs. Of L0 objects the keys aren't known."""
    taken = {sst.file for sst in ssts}
    oldest = max(((sst.level, -sst.run) for sst in ssts), default=(0, 0))
    low = min((sst.min_key for sst in ssts), default=b"")
    high = max((sst.max_key for sst in ssts), default=b"")
    return not any(
        sst.file not in taken
        and (sst.level, -sst.run) > oldest
        and (everywhere or (sst.min_key <= high and low <= sst.max_key))
        for sst in view.manifest.ssts
    )
