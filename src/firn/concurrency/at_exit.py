"""Open handles that have to be told when this process ends, or in a forked child: writers, appliers, appenders."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from firn.concurrency.forked import after_fork
from firn.errors import FirnError

END_S = 5.0
"""How long the handles of an owner, or of a process that ends, have together to end what their threads do."""

log = logging.getLogger("firn")


class Unclosed(Protocol):
    """A handle that has to be told of the process's end."""

    def _close_at_exit(self) -> None: ...

    def _orphaned(self) -> None: ...


class _Handles(WeakSet[Unclosed]):
    def add(self, item: Unclosed) -> None:
        super().add(item)
        _close_with_child()


unclosed = _Handles()


class ThreadedHandle(ABC):
    """A handle whose thread works by itself, and may have to wait for a store: it ends within a time, with its owner
    and with the process. All that end together begin to before one is waited for. Add it to `unclosed`."""

    @property
    @abstractmethod
    def owner(self) -> object:
        """What it ends with: the engines of a database."""

    @abstractmethod
    def begin_closing(self) -> None:
        """Begin to end, and don't wait for it."""

    @abstractmethod
    def close_within(self, seconds: float) -> None:
        """Return when it has ended, or raise an error that says what is left when the time has passed."""

    @abstractmethod
    def _orphaned(self) -> None:
        """This is a forked child, without the thread."""

    def _close_at_exit(self, seconds: float = END_S) -> None:
        try:
            self.close_within(seconds)
        except FirnError as error:
            log.error("%s", error)


def close_of(owner: object) -> None:
    """Close the open handles of one owner; the first error is raised when all were told."""
    errors: list[Exception] = []
    handles = [handle for handle in list(unclosed) if getattr(handle, "owner", None) is owner]
    deadline = _begin_closing(handles)
    for handle in handles:
        try:
            if isinstance(handle, ThreadedHandle):
                handle.close_within(max(0.0, deadline - time.monotonic()))
            else:
                handle.close()  # type: ignore[attr-defined]
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _begin_closing(handles: Iterable[Unclosed]) -> float:
    """Have those with threads begin to end; until when they have."""
    for handle in handles:
        if isinstance(handle, ThreadedHandle):
            handle.begin_closing()
    return time.monotonic() + END_S


_ending: list[int] = []
"""This process, once it ends."""


def is_ending() -> bool:
    """Whether this process ends: threads that the interpreter doesn't wait for may still work, and nothing that is
    begun now is waited for."""
    return _ending == [os.getpid()]


def _close_all() -> None:
    """Close all open handles: a program that forgets to loses nothing that a flush can still save."""
    _ending[:] = [os.getpid()]
    handles = list(unclosed)
    deadline = _begin_closing(handles)
    for handle in handles:
        if isinstance(handle, ThreadedHandle):
            handle._close_at_exit(max(0.0, deadline - time.monotonic()))
    for handle in handles:
        if not isinstance(handle, ThreadedHandle):
            handle._close_at_exit()


_told: list[int] = []
"""The process in which multiprocessing was told."""


def _close_with_child() -> None:
    """Children of multiprocessing end without `atexit`, but for those of new versions: they have finalizers."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None or _told == [os.getpid()]:
        return
    _told[:] = [os.getpid()]
    util.Finalize(None, _close_all, exitpriority=0)


def _orphan_all() -> None:
    for handle in list(unclosed):
        unclosed.discard(handle)
        handle._orphaned()


atexit.register(_close_all)
after_fork(_orphan_all)
