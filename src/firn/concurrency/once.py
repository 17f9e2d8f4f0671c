"""Values that are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Makes a value when it is first called, a single time, whichever threads call.

    Example:
        >>> once = Once(object)
        >>> once() is once()
        True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.RLock()

    def __call__(self) -> T:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    @property
    def made(self) -> T | None:
        """The value, if it was asked for."""
        return self._made[0] if self._made else None
