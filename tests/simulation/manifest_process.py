"""A simulated process with several threads, which share a bucket, a clock and memory, and die together.

A `SimClient` is one thread. Its bucket may be used by it alone, so a process's bucket is that of whoever runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from firn.testing import Crashed, SimClient

SHORTEST_S = 0.5


class _Of:
    """What the running thread has under a name: its bucket, or its clock."""

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(getattr(self._process.running, self._name), attribute)


class _Clock(_Of):
    """The running thread's clock, by which nobody who waits for another thread looks too often."""

    def sleep(self, seconds: float) -> None:
        self._process.running.clock.sleep(max(seconds, SHORTEST_S))


class Process:
    """The threads of a process, of which `main` is the first."""

    def __init__(self, main: SimClient) -> None:
        self.main = main
        self._threads = [main]
        self.bucket: Any = _Of(self, "bucket")
        self.clock: Any = _Clock(self, "clock")

    @property
    def running(self) -> SimClient:
        current = getcurrent()
        return next(thread for thread in self._threads if thread._greenlet is current)

    def start(self, name: str, target: Callable[[SimClient], None]) -> SimClient:
        """Run `target` in a thread of its own, now and when `main` has ended."""

        def program(client: SimClient) -> None:
            with self.dying_together():
                target(client)

        thread = self.main.world.spawn(f"{self.main.name}.{name}", program, skew_ms=self.main.clock.skew_ms)
        thread.clock._born_ms, thread.clock._monotonic_start_s = (
            self.main.clock._born_ms,
            self.main.clock._monotonic_start_s,
        )
        self._threads.append(thread)
        return thread

    def dying_together(self) -> _DyingTogether:
        return _DyingTogether(self._threads)


class _DyingTogether:
    def __init__(self, threads: list[SimClient]) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and issubclass(kind, Crashed):
            for thread in self._threads:
                thread.crashed = True
