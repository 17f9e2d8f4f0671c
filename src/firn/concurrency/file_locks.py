"""Locks on open files, of which a forked child has a copy: they are free when the holder gives them back, or dies,
whatever children it has.

The kernel frees such a lock when all copies of the open file are closed. A child that is forked while a thread of its
parent holds one would hold it for as long as it lives.
"""

from __future__ import annotations

import contextlib
import os

from firn.concurrency.forked import after_fork
from firn.errors import UnsupportedError

try:
    import fcntl
except ModuleNotFoundError:
    raise UnsupportedError(
        "this system has no fcntl, which Firn needs for its locks: use Linux or macOS; on Windows, WSL or a container"
    ) from None

_held: set[int] = set()


def take(fd: int, *, wait: bool) -> None:
    """Lock an open file. `BlockingIOError` if somebody else holds it, and it isn't to `wait`."""
    _held.add(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        _held.discard(fd)
        raise


def give_back(fd: int) -> None:
    """Unlock and close a file that `take` locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        _held.discard(fd)  # first: the number is another file's once it is closed
        os.close(fd)


def _let_go() -> None:
    """In a forked child, of whose parent these are."""
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()


after_fork(_let_go)
