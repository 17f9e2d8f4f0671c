"""Open handles that have to be told when this process ends, or in a forked child: writers, appliers."""

from __future__ import annotations

import atexit
from typing import Protocol
from weakref import WeakSet

from firn.concurrency.forked import after_fork


class Unclosed(Protocol):
    """A handle that has to be told of the process's end."""

    def _close_at_exit(self) -> None: ...

    def _orphaned(self) -> None: ...


unclosed: WeakSet[Unclosed] = WeakSet()


def _close_all() -> None:
    """Close all open handles: a program that forgets to loses nothing that a flush can still save."""
    for handle in list(unclosed):
        handle._close_at_exit()


def _orphan_all() -> None:
    for handle in list(unclosed):
        unclosed.discard(handle)
        handle._orphaned()


atexit.register(_close_all)
after_fork(_orphan_all)
