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


def close_of(owner: object) -> None:
    """Close the open handles of one owner; the first error is raised when all were told."""
    errors: list[Exception] = []
    for handle in list(unclosed):
        if getattr(handle, "owner", None) is owner:
            try:
                handle.close()  # type: ignore[attr-defined]
            except Exception as error:
                errors.append(error)
    if errors:
        raise errors[0]


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
