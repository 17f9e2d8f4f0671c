"""Forked children: each inherits a copy of its parent's memory, and none of the parent's threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from weakref import WeakSet

__all__ = ["ForkedLock", "after_fork", "keep_alive", "unheld"]


def after_fork(in_child: Callable[[], None]) -> None:
    """Have it called in each child that `os.fork` or multiprocessing makes; nothing where there is no fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)


def unheld(lock: threading.Lock) -> threading.Lock:
    """A lock that nobody holds at a fork, so that no child waits for a thread that it hasn't got.

    For locks of modules that are held for an instant: a fork waits for them.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def keep_alive(inherited: object) -> None:
    """Never let go of an object, not even at the end of the process.

    A library that joins its threads when its object goes would wait for ever in a child, or crash.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


class ForkedLock:
    """A lock that is free in a forked child: the thread that held it isn't there. For what is whole, or only a cache,
    at each moment; `was_held` tells whoever has more to do.

    Example:
        >>> lock = ForkedLock()
        >>> with lock:
        ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.was_held = False
        """Whether a thread of the parent held it at the fork, so that what it guards may be half done."""
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def begin_anew(self) -> None:
        """In the child."""
        self.was_held |= self._lock.locked()
        self._lock = threading.Lock()


_locks: WeakSet[ForkedLock] = WeakSet()


def _begin_anew() -> None:
    for lock in list(_locks):
        lock.begin_anew()


after_fork(_begin_anew)
