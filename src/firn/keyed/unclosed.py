"""Writers that are open in this process: they are closed at its end, and refused in a forked child."""

from __future__ import annotations

import atexit
import os
from typing import Protocol
from weakref import WeakSet


class Unclosed(Protocol):
    """What has to be told of the process's end."""

    def _close_at_exit(self) -> None: ...

    def _orphaned(self) -> None: ...


unclosed: WeakSet[Unclosed] = WeakSet()


def _close_all() -> None:
    """Whoever forgets to close loses nothing that a flush can still save."""
    for writer in list(unclosed):
        writer._close_at_exit()


def _orphan_all() -> None:
    for writer in list(unclosed):
        unclosed.discard(writer)
        writer._orphaned()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_orphan_all)
