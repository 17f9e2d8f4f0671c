"""The part of a directory that no LIST shows: files on their way to their place, and locks."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import uuid
import zlib
from collections.abc import Iterator

from firn.bucket.base import BytesLike
from firn.concurrency import file_locks
from firn.concurrency.forked import after_fork

_LOCKS = 256
_ABANDONED_SECONDS = 24 * 3600
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o666

_serial = itertools.count(int.from_bytes(os.urandom(3), "big"))


def _reseed() -> None:
    global _serial
    _serial = itertools.count(int.from_bytes(os.urandom(3), "big"))


after_fork(_reseed)


def etag_of(status: os.stat_result) -> str:
    """The version token: inode, modification time and size."""
    return f'"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"'


class Staging:
    """A directory of temporary files and lock files, on the file system of its bucket."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._locks = f"{path}/locks"
        self._swept = False

    def write(self, data: BytesLike) -> tuple[str, str]:
        """Write and sync a new file; its path and its version token, which a rename or link keeps."""
        temp = f"{self.path}/{uuid.uuid4().hex}"
        fd = self._open(temp, _NEW_FILE)
        try:
            whole = memoryview(data)
            with whole.cast("B") if whole.c_contiguous else memoryview(bytes(whole)) as view:
                written = 0
                while written < len(view):
                    written += os.write(fd, view[written:])
            # File systems tick every few milliseconds and hand a freed inode out again at once: three
            # quick writes could end at the token they began with. So the digits below a millisecond are
            # a serial number. Those above stay the file system's own: ages are measured by its clock.
            tick = os.fstat(fd).st_mtime_ns // 1_000_000 * 1_000_000 + next(_serial) % 1_000_000
            os.utime(fd, ns=(tick, tick))
            os.fsync(fd)
            status = os.fstat(fd)
        except BaseException:
            self.discard(temp)
            raise
        finally:
            os.close(fd)
        if not self._swept:
            self._swept = True
            self._sweep(status.st_mtime)
        return temp, etag_of(status)

    def discard(self, temp: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Exclude every other holder, in this process or another, of this key (and a few more)."""
        fd = self._open(f"{self._locks}/{zlib.crc32(key.encode()) % _LOCKS:02x}", _LOCK_FILE)
        try:
            file_locks.take(fd, wait=True)
        except BaseException:
            os.close(fd)
            raise
        try:
            yield
        finally:
            file_locks.give_back(fd)

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags, _MODE)
        except FileNotFoundError:
            make_dirs(self._locks)
            return os.open(path, flags, _MODE)

    def _sweep(self, now: float) -> None:
        """Remove what crashed writers left a day ago; asked once a bucket object."""
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file() and now - entry.stat().st_mtime > _ABANDONED_SECONDS:
                        os.unlink(entry.path)


def read_all(fd: int, start: int, length: int) -> bytes:
    """Up to `length` bytes; fewer only at the end of the file."""
    data = os.pread(fd, length, start)
    if len(data) == length:
        return data
    parts = [data]
    while data and (length := length - len(data)):
        start += len(data)
        parts.append(data := os.pread(fd, length, start))
    return b"".join(parts)


def make_dirs(path: str) -> None:
    """Create a directory and those above it, each synced into its parent."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        # One look: between two, a delete that empties the directory may remove it. A missing one is an
        # error that the caller meets by trying again.
        if not stat.S_ISDIR(os.stat(directory).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "a file is where a directory should be", directory)
        sync_dir(os.path.dirname(directory))


def sync_dir(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # deleted meanwhile, and what was in it too
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
