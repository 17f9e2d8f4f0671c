"""A process forked while a thread of it, its keeper's say, held a lock on a file of the bucket.

The child had the file open, and so held the lock, for as long as it lived: appends and keepers of all processes wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import firn
from firn.bucket.staging import Staging
from firn.concurrency import file_locks


@contextmanager
def living_child() -> Iterator[None]:
    """A forked child that lives for as long as the block runs."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        yield
    finally:
        os.close(write)
        os.waitpid(pid, 0)


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock on a file."""
    fd = os.open(path, os.O_RDWR)
    try:
        file_locks.take(fd, wait=False)
    except BlockingIOError:
        os.close(fd)
        return False
    file_locks.give_back(fd)
    return True


def test_what_a_holder_gives_back_is_free_though_its_child_lives(tmp_path: Path) -> None:
    inside = Staging(str(tmp_path)).locked("k")
    inside.__enter__()
    (path,) = (tmp_path / "locks").iterdir()
    assert not is_free(path)
    with living_child():
        inside.__exit__(None, None, None)
        assert is_free(path)


def test_a_child_holds_nothing_that_its_parent_took(tmp_path: Path) -> None:
    """Else the lock of a parent that is killed would be its children's."""
    lock = firn.FileLock(tmp_path)
    token = lock.acquire("t", timeout=0)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(token)
        except OSError:
            os.write(write, b"closed")
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"closed"
    lock.release(token)
    lock.release(lock.acquire("t", timeout=0))
