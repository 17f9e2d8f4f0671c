"""Values that several threads want at the same time, and one of them makes for all."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

from firn.errors import FirnError

T = TypeVar("T")


class Flight(Generic[T]):
    """One thing that a thread is about to have."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._made: T | None = None
        self._error: BaseException | None = None

    def land(self, made: T) -> None:
        self._made = made
        self._over.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._over.set()

    def wait(self) -> T | None:
        """The other thread's value, or its error raised. None if it was interrupted: it is another's turn."""
        self._over.wait()
        if isinstance(self._error, Exception):
            raise again(self._error)
        return self._made


class Flights(Generic[T]):
    """Things under way, by name. A thread that has claimed some must land or fail them before it waits for others:
    then no two wait for one another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[int, Flight[T]] = {}

    def claim(self, names: Iterable[int]) -> tuple[list[int], dict[int, Flight[T]]]:
        """The names that are the caller's to make from now on, and those that others are making."""
        mine: list[int] = []
        others: dict[int, Flight[T]] = {}
        with self._lock:
            for name in names:
                flight = self._flights.get(name)
                if flight is None:
                    self._flights[name] = Flight()
                    mine.append(name)
                else:
                    others[name] = flight
        return mine, others

    def land(self, name: int, made: T) -> None:
        """Give what was claimed to all who wait for it."""
        with self._lock:
            flight = self._flights.pop(name)
        flight.land(made)

    def fail(self, names: Iterable[int], error: BaseException) -> None:
        """Give an error to all who wait for what was claimed and hasn't landed."""
        for name in names:
            with self._lock:
                flight = self._flights.pop(name, None)
            if flight is not None:
                flight.fail(error)


def again(error: BaseException) -> BaseException:
    """The error for one more caller: each raises one of its own, or their tracebacks would grow together."""
    if not isinstance(error, FirnError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error
    return copy
