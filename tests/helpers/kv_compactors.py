"""Compactions that take long, beside which a test does as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from firn.runner import LocalRunner


class Beside:
    """In the place of the thread: its step is what a test calls."""

    steps: ClassVar[list[Callable[[], None]]] = []

    def __init__(self, step: Callable[[], None], name: str) -> None:
        self.steps.append(step)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.steps.pop()


class Slow(LocalRunner):
    """Compacts for so long that a writer flushes many times meanwhile."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(2)
        self.meanwhile = meanwhile

    def map(self, *args: Any, **options: Any) -> Any:
        results = super().map(*args, **options)
        if Beside.steps:
            self.meanwhile()
        return results


class Interrupted(LocalRunner):
    """Compacts while others do something, once: before its tasks have read anything, or `late`, before it commits
    what they have put."""

    def __init__(self, meanwhile: Callable[[], object], late: bool) -> None:
        super().__init__(1)
        self.meanwhile, self.late = [meanwhile], late

    def map(self, *args: Any, **options: Any) -> Any:
        if self.meanwhile and not self.late:
            self.meanwhile.pop()()
        results = super().map(*args, **options)
        if self.meanwhile:
            self.meanwhile.pop()()
        return results
