"""What processes use: peak resident memory, sampled by a thread, and processor time."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

import psutil

INTERVAL_S = 0.05
LOOK_EVERY_S = 0.5


def is_spark_worker(process: psutil.Process) -> bool:
    """A Python worker of Spark's, or the daemon that forks them."""
    return any("pyspark.daemon" in part or "pyspark.worker" in part for part in process.cmdline())


def processor_seconds() -> float:
    """Processor time so far of this process and all below it: steadier than the clock on a shared machine."""
    me = psutil.Process(os.getpid())
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class MemoryWatch:
    """Samples the descendants of this process that `chosen` accepts, while the block runs.

    `peak_mb` is the largest resident set that any one of them had; `together_mb` the largest sum.
    """

    def __init__(self, chosen: Callable[[psutil.Process], bool] = is_spark_worker) -> None:
        self._chosen = chosen
        self._peaks: dict[int, int] = {}
        self._together = 0
        self._end = threading.Event()
        self._known: dict[int, psutil.Process | None] = {}
        self._thread = threading.Thread(target=self._sample, name="bench-memory", daemon=True)

    @property
    def peak_mb(self) -> int:
        return max(self._peaks.values(), default=0) >> 20

    @property
    def together_mb(self) -> int:
        return self._together >> 20

    @property
    def processes(self) -> int:
        return len(self._peaks)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        me = psutil.Process(os.getpid())
        looked = -LOOK_EVERY_S
        while not self._end.wait(INTERVAL_S):
            # Finding processes reads all of /proc: seldom. Their memory is one small file each.
            if time.monotonic() - looked >= LOOK_EVERY_S:
                self._look(me)
                looked = time.monotonic()
            together = 0
            for pid, child in list(self._known.items()):
                try:
                    resident = child.memory_info().rss if child is not None else 0
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    self._known[pid] = None
                    continue
                together += resident
                self._peaks[pid] = max(resident, self._peaks.get(pid, 0))
            self._together = max(self._together, together)

    def _look(self, me: psutil.Process) -> None:
        for child in me.children(recursive=True):
            if child.pid not in self._known:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    self._known[child.pid] = child if self._chosen(child) else None
