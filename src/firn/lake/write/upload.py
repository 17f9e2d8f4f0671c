"""Puts of finished files, many in flight, while the next ones are encoded."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from firn.bucket.base import Bucket, BytesLike

LUMP_BYTES = 16 << 20
LUMP_FILES = 256


class Uploader:
    """Gathers files into lumps of about 16 MiB and puts one lump in the background, each file by one PUT.

    Holds at most two lumps, or two files where these are larger. Little data is put by the caller's own
    thread at the end. The first error is raised by the next `add` or by `finish`. Files that were put
    stay where they are, unseen, until sweep deletes them.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lump: list[tuple[str, BytesLike]] = []
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None
        self._flying: Future[object] | None = None

    def __enter__(self) -> Uploader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, key: str, data: BytesLike) -> None:
        self._lump.append((key, data))
        self._size += len(data)
        if self._size >= LUMP_BYTES or len(self._lump) >= LUMP_FILES:
            self._land()
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="firn-put")
            self._flying = self._pool.submit(self._put, self._lump)
            self._lump, self._size = [], 0

    def finish(self) -> None:
        """Return once every file is in the bucket."""
        self._land()
        self._put(self._lump)
        self._lump, self._size = [], 0

    def _land(self) -> None:
        if self._flying is not None:
            self._flying.result()
            self._flying = None

    def _put(self, lump: list[tuple[str, BytesLike]]) -> None:
        if len(lump) == 1:
            self._bucket.put(*lump[0])
        elif lump:
            self._bucket.put_many(lump)
