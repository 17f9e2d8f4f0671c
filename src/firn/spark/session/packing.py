"""Pack tasks into bins, one bin a Spark task: a Python task costs about 57 ms of a slot however small it is.

Pure functions; `firn.spark.session.runner` and `firn.spark.lake.scan` ship what they plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

BINS_PER_SLOT = 4
"""More bins than slots, so that a slot that is done early takes over work; more than this buys nothing."""

BIN_BYTES = 16 << 20
"""Input below which a further bin costs more than it spreads."""

_TASK_BYTES = 64 << 10
"""The weight of a task even if it reads nothing: its requests."""


def bin_count(weights: Sequence[int], slots: int) -> int:
    """How many bins for tasks of these weights (bytes): every slot busy, at most `BINS_PER_SLOT` each.

    Example:
        >>> bin_count([1 << 30] * 100, slots=2), bin_count([1000] * 100, slots=2), bin_count([5], slots=2)
        (8, 2, 1)
    """
    wanted = sum(weights) // BIN_BYTES
    return min(len(weights), max(slots, min(wanted, BINS_PER_SLOT * slots)))


def pack(weights: Sequence[int], bins: int) -> list[list[int]]:
    """Indices of tasks by bin, the heaviest bin first: each task, heaviest first, goes to the lightest bin.

    Example:
        >>> pack([7 << 20, 1 << 20, 5 << 20, 4 << 20], 2)
        [[2, 3], [0, 1]]
    """
    packed: list[list[int]] = [[] for _ in range(min(bins, len(weights)))]
    loads = [(0, position) for position in range(len(packed))]
    for task in sorted(range(len(weights)), key=lambda index: -weights[index]):
        load, position = heapq.heappop(loads)
        packed[position].append(task)
        heapq.heappush(loads, (load + weights[task] + _TASK_BYTES, position))
    loaded = {position: load for load, position in loads}
    return [packed[position] for position in sorted(loaded, key=lambda p: (-loaded[p], p))]


def chunk(sizes: Sequence[int], limit: int) -> list[range]:
    """Consecutive runs whose sizes sum to at most `limit`; one that is larger stands alone.

    Example:
        >>> chunk([3, 3, 9, 1, 1], 6)
        [range(0, 2), range(2, 3), range(3, 5)]
    """
    runs: list[range] = []
    start = total = 0
    for position, size in enumerate(sizes):
        if position > start and total + size > limit:
            runs.append(range(start, position))
            start, total = position, 0
        total += size
    if sizes:
        runs.append(range(start, len(sizes)))
    return runs
