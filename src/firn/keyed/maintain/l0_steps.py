"""L0 in steps of its own, while a long compaction is under way.

A compaction that takes minutes must not keep flushes waiting for its end. The number up to which L0 is compacted is
one for the whole table, so a compaction of L0 and older runs holds up all that is flushed meanwhile. So a long one
takes no L0. Beside it, the same compactor goes on merging small L0 objects into runs that are newer than all its
input, and commits each of these steps for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from firn.concurrency.background import Background
from firn.errors import FencedError, FirnError
from firn.journal.manifest import View
from firn.keyed.maintain.policy import CompactionPlan, Policy, plan_compaction, plan_l0

STEP_BYTES, STEP_FILES = 256 << 20, 128
"""One step takes at most so much: some seconds of work, and a block of each file in memory."""

LONG_BYTES = 256 << 20
"""A plan that reads more takes no L0 along, and is done beside steps of L0."""

LOOK_S = 2.0
"""How often a long compaction looks whether L0 has grown."""

Progress = Callable[[int, int], None]

log = logging.getLogger("firn.keyed")


def due(view: View, policy: Policy) -> CompactionPlan | None:
    """The plan that the policy asks for next; None where there is none.

    Plans of the runs come before L0, and L0 goes on beside it if it takes long. The other way round they would
    never come where much is written: L0 asks for something at all times.
    """
    older = plan_compaction(replace(view, l0=()), policy)
    return older or parted(view, plan_compaction(view, policy))


def parted(view: View, plan: CompactionPlan | None) -> CompactionPlan | None:
    """The plan; or only the oldest of L0, where it would take long or has very many files."""
    if plan is None or not plan.l0 or (plan.bytes <= LONG_BYTES and len(plan.l0) <= STEP_FILES):
        return plan
    return plan_l0(view, most_bytes=STEP_BYTES, most_files=STEP_FILES)


def is_long(plan: CompactionPlan) -> bool:
    """Whether flushes would pile up while it is done."""
    return not plan.l0 and plan.bytes > LONG_BYTES


def between_tasks(step: Callable[[], None], name: str, progress: Progress | None) -> Progress:
    """The progress of tasks that one thread does one after the other, with a step of L0 between two of them: so the
    memory of only one is needed at a time. A step that fails is tried again, unless another compactor has come."""

    def between(done: int, of: int) -> None:
        if progress is not None:
            progress(done, of)
        if done < of:
            _tried(step, name)

    return between


def _tried(step: Callable[[], None], name: str) -> None:
    try:
        step()
    except FencedError:
        raise
    except FirnError as error:
        log.warning("%s: a step of L0 failed, and is tried again: %s", name, error)


@contextmanager
def beside(step: Callable[[], None], name: str) -> Iterator[None]:
    """Call `step`, which compacts L0 if that is due, at once and every now and then for as long as the block lasts.

    A step that fails is tried again, unless another compactor has come: the long one learns it when it commits.
    """

    def work() -> float:
        _tried(step, name)
        return LOOK_S

    thread = Background(f"firn-l0-{name}", work, lambda error: None, first=0.0)
    try:
        yield
    finally:
        thread.stop()
