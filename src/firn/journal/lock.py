"""Locks from outside, for stores without conditional puts, or where a lock service is there already."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

from firn.concurrency import file_locks
from firn.errors import InvalidInputError, LockHeldError


class ExclusiveLock(Protocol):
    """What `firn.connect(lock=…)` takes: over etcd, ZooKeeper, Postgres, or a file.

    One object serves all tables of a database; `name` tells them apart. `acquire` blocks up to `timeout`
    seconds and raises `LockHeldError`; it returns a token that the other two take. `renew` raises
    `LockLostError` once the lock is somebody else's. `release` never raises for a lost lock.
    """

    def acquire(self, name: str, *, timeout: float) -> Any: ...

    def renew(self, token: Any) -> None: ...

    def release(self, token: Any) -> None: ...


class FileLock:
    """An `ExclusiveLock` for processes of one machine: `flock` on a file, which the kernel releases when
    its holder dies.

    Example:
        >>> import tempfile
        >>> lock = FileLock(tempfile.mkdtemp())
        >>> token = lock.acquire("flights", timeout=1)
        >>> lock.renew(token); lock.release(token)
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def acquire(self, name: str, *, timeout: float) -> int:
        if "\0" in name:
            raise InvalidInputError(f"a lock can't be named {name!r}")
        path = self.directory / (name.replace("/", "%2F") + ".lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + timeout
        while True:
            try:
                file_locks.take(fd, wait=False)
                return fd
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(fd)
                    raise LockHeldError(
                        f"{path} is locked by another process; maintenance of {name} goes on there. Retry later."
                    ) from None
                time.sleep(0.05)

    def renew(self, token: int) -> None:
        """The kernel holds a flock for as long as the process lives: nothing to renew."""

    def release(self, token: int) -> None:
        file_locks.give_back(token)
