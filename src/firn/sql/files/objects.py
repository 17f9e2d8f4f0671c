"""Objects of a bucket as files that DuckDB opens: exactly those of a snapshot, and for reading only.

DuckDB takes a file system of fsspec's, which is why this one is. It asks the store for nothing but ranges of objects:
sizes come from the log, and there is no directory to be listed. A range costs 1 GET; of each file the first is its
footer, or all of a small file, and these are fetched ahead, many at once.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fsspec import AbstractFileSystem

from firn.concurrency.parallel import MAX_IN_FLIGHT

if TYPE_CHECKING:
    from firn.sql.relation import BucketFile

TAIL_BYTES: Final = 128 << 10
"""As many bytes as DuckDB reads of a file's end, for its footer."""

WHOLE_BYTES: Final = 1 << 20
"""Files up to this size are fetched whole: a second request would take longer than their other columns."""

KEPT_BYTES: Final = 64 << 20
"""Bytes of fetched footers and small files that are kept. Dropped ones are asked for anew, range by range."""

_ALWAYS = datetime(1970, 1, 1, tzinfo=timezone.utc)


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]
    """The objects by the paths that a query gives them; any other path is a `FileNotFoundError`.

    Args:
        files: in the order in which DuckDB is told of them.
        failures: gets the errors of reads, as DuckDB passes on their text alone.
    """

    protocol = "firn"
    cachable = False

    def __init__(self, files: Mapping[str, BucketFile], failures: list[BaseException]) -> None:
        super().__init__()
        self._files, self._failures = dict(files), failures
        self._paths = list(files)
        self._places = {path: place for place, path in enumerate(files)}
        self._lock = threading.Lock()
        self._coming: dict[str, Future[tuple[int, bytes]]] = {}
        self._asked: set[str] = set()
        self._kept: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Fetch nothing more."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    # -- what DuckDB asks

    def open(self, path: str, mode: str = "rb", **options: Any) -> io.RawIOBase:
        if mode != "rb":
            raise PermissionError(f"{path} is for reading only")
        return _Handle(self, path, self._file(path).size)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "size": self._file(path).size, "type": "file"}

    def exists(self, path: str, **options: Any) -> bool:
        return path in self._files

    def modified(self, path: str) -> datetime:
        self._file(path)
        return _ALWAYS

    def glob(self, path: str, **options: Any) -> list[str]:
        """The path itself: letters of patterns mean themselves."""
        self._file(path)
        return [path]

    def ls(self, path: str, detail: bool = True, **options: Any) -> NoReturn:
        raise FileNotFoundError(path)

    # -- how

    def read(self, path: str, start: int, length: int) -> bytes:
        """Bytes of a file, from memory where they are there."""
        try:
            known = self._first(path)
            if known is not None and known[0] <= start:
                return known[1][start - known[0] : start - known[0] + length]
            return self._file(path).read(start, length)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _file(self, path: str) -> BucketFile:
        found = self._files.get(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def _first(self, path: str) -> tuple[int, bytes] | None:
        """Where the piece of a file that is fetched first begins, and the piece; None if it was dropped since."""
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
            if path in self._asked and path not in self._coming:
                return None
            place = self._places[path]
            for near in self._paths[place : place + MAX_IN_FLIGHT]:
                if near not in self._asked:
                    self._asked.add(near)
                    self._coming[near] = self._threads().submit(self._fetch, near)
            coming = self._coming[path]
        found = coming.result()
        with self._lock:
            if self._coming.pop(path, None) is not None:
                self._kept[path] = found
                self._bytes += len(found[1])
                while self._bytes > KEPT_BYTES:
                    _, (_, dropped) = self._kept.popitem(last=False)
                    self._bytes -= len(dropped)
        return found

    def _fetch(self, path: str) -> tuple[int, bytes]:
        file = self._files[path]
        start = 0 if file.size <= WHOLE_BYTES else file.size - TAIL_BYTES
        return start, file.read(start, file.size - start)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="firn-bucket")
        return self._pool


class _Handle(io.RawIOBase):
    """An open file; used by one thread."""

    def __init__(self, files: BucketFiles, path: str, size: int) -> None:
        self._files, self._path, self._size = files, path, size
        self._position = 0

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._files.read(self._path, self._position, length) if length else b""
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
