"""A bucket that is a directory, for any number of processes at once.

An object is written under a temporary name, synced, and moved into place: readers see all of it or nothing.
Operations that must not interleave with a compare-and-swap (other replacements and deletions of the same key) hold
an advisory lock for the instant of the move; creation needs none, since link(2) is atomic.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from firn.bucket.base import Blob, BytesLike, Capabilities, Counters, Listing, ObjectInfo
from firn.bucket.conditional import check_conditional
from firn.bucket.keys import RESERVED, check_directory, check_key, check_prefix
from firn.bucket.options import sort_options
from firn.bucket.ranges import check_range, fetch
from firn.bucket.staging import Staging, etag_of, make_dirs, read_all, sync_dir
from firn.bucket.urls import parse_url
from firn.concurrency.parallel import in_flight
from firn.errors import (
    AccessDeniedError,
    FirnError,
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.pauses import no_collection

_MOVE_TRIES = 100
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_BAD_NAME = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.EILSEQ})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


class LocalBucket:
    """A directory. Implements `Bucket`; writes are on disk when the call returns."""

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """`path` is created with the first object. `options` may hold `conditional_put="disabled"`."""
        address = parse_url(path)
        if address.kind != "directory":
            raise InvalidInputError(f"{address.root} is not a directory; open it with open_bucket")
        self._path = address.name
        self._base = "" if self._path == "/" else self._path
        self._staging = Staging(f"{self._base}/{RESERVED}")
        self._given = dict(options or {})
        self._conditional = sort_options("directory", options).conditional_put
        self._counters = Counters()
        if os.path.exists(self._path) and not os.path.isdir(self._path):
            raise InvalidInputError(f"{self._path} is a file; a bucket is a directory")

    def __repr__(self) -> str:
        return f"LocalBucket({self._path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalBucket, (self._path, self._given)

    @property
    def url(self) -> str:
        return f"file://{self._path}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(conditional_put=self._conditional, shareable=True)

    @property
    def counters(self) -> Counters:
        return self._counters

    def uri(self, key: str) -> str:
        return f"file://{self._base}/{key}"

    def local_path(self, key: str) -> str | None:
        return self._file(key)

    def get(self, key: str) -> Blob:
        file = self._file(key)
        self._counters.add(get=1)
        blob = self._read(key, file)
        self._counters.add(bytes_in=len(blob.data))
        return blob

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        file = self._file(key)

        def read(start: int, length: int) -> bytes:
            self._counters.add(get=1)
            with self._errors(key, "read"), open(file, "rb", buffering=0) as opened:
                data = read_all(opened.fileno(), start, length)
            self._counters.add(bytes_in=len(data))
            return data

        return fetch(ranges, read)

    def head(self, key: str) -> ObjectInfo:
        file = self._file(key)
        self._counters.add(head=1)
        found = self._stat(key, file)
        if found is None:
            raise ObjectNotFoundError(f"{self.uri(key)} does not exist")
        return found

    def put(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        def place(temp: str, file: str) -> None:
            with self._staging.locked(key):
                os.replace(temp, file)

        return self._write(key, data, place)

    def put_if_absent(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        check_conditional(self)

        def place(temp: str, file: str) -> None:
            try:
                os.link(temp, file)
            except FileExistsError:
                if os.path.isdir(file):
                    raise IsADirectoryError(errno.EISDIR, "a directory is there", file) from None
                raise ObjectExistsError(f"{self.uri(key)} exists already") from None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise UnsupportedError(
                    f"{self.uri(key)}: this file system has no hard links, which creating an object needs; "
                    "use another, or the option conditional_put='disabled'"
                ) from error
            os.unlink(temp)

        def must_be_absent(file: str) -> None:
            if self._stat(key, file) is not None:
                raise ObjectExistsError(f"{self.uri(key)} exists already")

        # A put that has lost already needn't write and sync a body first.
        return self._write(key, data, place, before=must_be_absent)

    def put_if_match(self, key: str, data: BytesLike, etag: str, *, retry_for: float | None = None) -> str:
        check_conditional(self)

        def compare(file: str) -> None:
            found = self._stat(key, file)
            if found is None or found.etag != etag:
                raise ObjectChangedError(
                    f"{self.uri(key)} is not at the expected version: changed or deleted meanwhile"
                )

        def place(temp: str, file: str) -> None:
            with self._staging.locked(key):
                compare(file)
                os.replace(temp, file)

        # A put that has lost already needn't write and sync a body first.
        return self._write(key, data, place, before=compare)

    def list(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> Listing:
        check_prefix(prefix)
        self._counters.add(list=1)
        with self._errors(prefix, "list"), no_collection():
            found = sorted(self._walk(prefix, after), key=attrgetter("key"))
        return Listing(tuple(found), atomic=False)

    def list_dirs(self, prefix: str) -> builtins.list[str]:
        check_directory(prefix)
        self._counters.add(list=1)
        with self._errors(prefix, "list"):
            names = [name for name in self._names(prefix) if self._is_dir(prefix + name)]
            return sorted(name for name in names if next(self._walk(f"{prefix}{name}/", None), None))

    def delete(self, key: str) -> None:
        self.delete_many([key])

    def get_many(self, keys: Sequence[str]) -> builtins.list[Blob | None]:
        # No threads: opening a small file takes microseconds, and most of them under the GIL.
        blobs: builtins.list[Blob | None] = []
        for key in keys:
            try:
                blobs.append(self._read(key, self._file(key)))
            except ObjectNotFoundError:
                blobs.append(None)
        self._counters.add(get=len(keys), bytes_in=sum(len(blob.data) for blob in blobs if blob))
        return blobs

    def put_many(self, items: Sequence[tuple[str, BytesLike]]) -> builtins.list[str]:
        # Threads: one journal flush of the file system serves all syncs that wait for it.
        return in_flight(lambda item: self.put(*item), items)

    def delete_many(self, keys: Iterable[str]) -> None:
        parents: dict[str, str] = {}
        for key in dict.fromkeys(keys):
            file = self._file(key)
            self._counters.add(delete=1)
            with self._errors(key, "delete"):
                if not os.path.lexists(file):
                    continue
                with self._staging.locked(key), contextlib.suppress(*_NOT_THERE, IsADirectoryError):
                    os.unlink(file)
                    parents.setdefault(os.path.dirname(file), key)
        for parent, key in parents.items():
            with self._errors(key, "delete"):
                sync_dir(self._prune(parent))

    def _file(self, key: str) -> str:
        return f"{self._base}/{check_key(key)}"

    def _read(self, key: str, file: str) -> Blob:
        # Without context managers: they would double the time of a small read.
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError(errno.ENOENT, "not a file", file)
                return Blob(read_all(fd, 0, status.st_size), _info(key, status))
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failure(error, key, "read") from error

    def _stat(self, key: str, file: str) -> ObjectInfo | None:
        try:
            status = os.stat(file)
        except _NOT_THERE:
            return None
        except OSError as error:
            raise self._failure(error, key, "read") from error
        return _info(key, status) if stat.S_ISREG(status.st_mode) else None

    def _write(
        self,
        key: str,
        data: BytesLike,
        place: Callable[[str, str], None],
        before: Callable[[str], None] | None = None,
    ) -> str:
        file = self._file(key)
        self._counters.add(put=1, bytes_out=memoryview(data).nbytes)
        with self._errors(key, "write"):
            if before is not None:
                before(file)
            temp, etag = self._staging.write(data)
            try:
                self._move(temp, file, place)
            except BaseException:
                self._staging.discard(temp)
                raise
        try:
            sync_dir(os.path.dirname(file))
        except OSError as error:
            raise OutcomeUnknownError(
                f"{self.uri(key)} is written, but its directory cannot be synced ({error.strerror}): it may "
                "be lost with the power"
            ) from error
        return etag

    def _move(self, temp: str, file: str, place: Callable[[str, str], None]) -> None:
        for attempt in range(_MOVE_TRIES):
            try:
                return place(temp, file)
            except FileNotFoundError:
                # The directory isn't there yet, or a delete that emptied it has just removed it again.
                if attempt == _MOVE_TRIES - 1:
                    raise
                with contextlib.suppress(FileNotFoundError):
                    make_dirs(os.path.dirname(file))
            except IsADirectoryError:
                if attempt == _MOVE_TRIES - 1:
                    raise
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(file)  # refuses unless it is an empty leftover
        return None

    def _prune(self, directory: str) -> str:
        """Remove empty directories upward; the first that stays."""
        while len(directory) > len(self._base):
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                return directory
            directory = os.path.dirname(directory)
        return self._path

    def _names(self, directory: str, begin: str = "", after: str = "") -> builtins.list[str]:
        """What a directory has that begins so, and that sorts behind `after` or may hold what does; without what no
        key can name."""
        try:
            names = os.listdir(f"{self._base}/{directory}")
        except _NOT_THERE:
            return []
        if begin or not directory:
            names = [name for name in names if name.startswith(begin) and (directory or name != RESERVED)]
        if after:  # most of a log: nothing else is asked of these
            first = after.partition("/")[0]
            starts = {first[:n] for n in range(len(first))}
            names = [name for name in names if name >= first or name in starts]
        return [name for name in names if name.isascii() or _is_text(name)]

    def _lstat(self, key: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self._base}/{key}")
        except _NOT_THERE:
            return None

    def _is_dir(self, key: str) -> bool:
        status = self._lstat(key)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _walk(self, prefix: str, after: str | None) -> Iterator[ObjectInfo]:
        after = after or ""
        pending = [prefix[: prefix.rfind("/") + 1]]
        while pending:
            directory = pending.pop()
            begin = prefix[len(directory) :]  # nothing, below the first
            rest = after[len(directory) :] if after.startswith(directory) else ""
            for name in self._names(directory, begin, rest):
                key = directory + name
                status = self._lstat(key)
                if status is None:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    below = f"{key}/"
                    if below > after or after.startswith(below):
                        pending.append(below)
                elif key > after and stat.S_ISREG(status.st_mode):
                    yield _info(key, status)

    @contextlib.contextmanager
    def _errors(self, key: str, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(error, key, verb) from error

    def _failure(self, error: OSError, key: str, verb: str) -> FirnError:
        where, why = self.uri(key), error.strerror or str(error)
        if verb == "read" and (isinstance(error, _NOT_THERE) or error.errno == errno.EISDIR):
            return ObjectNotFoundError(f"{where} does not exist")
        if error.errno in _DENIED:
            return AccessDeniedError(f"{where}: no permission to {verb} ({why}); check its owner and mode")
        if error.errno in _BAD_NAME:
            return InvalidInputError(
                f"{where}: cannot {verb} ({why}); in a directory no object lies below another, and names "
                "have a limit"
            )
        return StoreUnavailableError(f"{where}: cannot {verb} ({why}); retry when that is mended")


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, status.st_size, etag_of(status), status.st_mtime_ns // 1_000_000)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
