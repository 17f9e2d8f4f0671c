"""Calls in threads whose tasks are cancelled: what they do that can be ended early is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


class Call:
    """A call for a task, in whichever thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._ends: list[Callable[[], object]] = []
        self.cancelled = False

    def run(self, call: Callable[[], T]) -> T:
        token = _current.set(self)
        try:
            return call()
        finally:
            _current.reset(token)

    def cancel(self) -> None:
        """End what can be ended early, now and as it begins."""
        with self._mutex:
            self.cancelled = True
            for end in self._ends:
                end()

    @contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        with self._mutex:
            if self.cancelled:
                raise KeyboardInterrupt
            self._ends.append(end)
        try:
            yield
        except Exception:
            if self.cancelled:  # an error that it was ended with
                raise KeyboardInterrupt from None
            raise
        finally:
            with self._mutex:
                self._ends.remove(end)


_current: ContextVar[Call | None] = ContextVar("firn_call", default=None)


@contextmanager
def ended_by_cancelling(end: Callable[[], object]) -> Iterator[None]:
    """Have `end`, which another thread calls, end the block early if the task that waits for this call is cancelled:
    the block raises `KeyboardInterrupt` then, as by Ctrl-C."""
    call = _current.get()
    if call is None:
        yield
    else:
        with call.ends(end):
            yield


def on_behalf(items: Iterator[T]) -> Iterator[T]:
    """The items, which other threads ask for on behalf of the call that is under way here."""
    call = _current.get()
    return items if call is None else _asked(items, call)


def _asked(items: Iterator[T], call: Call) -> Iterator[T]:
    while some := call.run(lambda: list(islice(items, 1))):
        yield from some
