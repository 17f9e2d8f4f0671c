"""An object store that lives in memory and in one thread. It stays when every client is gone."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from hashlib import md5
from typing import Literal, NamedTuple

from firn.bucket.base import Blob, BytesLike, ObjectInfo
from firn.bucket.keys import check_directory, check_key, check_prefix
from firn.errors import InvalidInputError, ObjectChangedError, ObjectExistsError, ObjectNotFoundError
from firn.testing.client import Client, Solo, Timeline
from firn.testing.faults import FaultPlan
from firn.testing.gated import GatedBucket, ListPage

START_MS = 1_767_225_600_000
"""When a simulation begins unless told: 2026-01-01 00:00 UTC."""


class Stored(NamedTuple):
    """An object and the number of its write, counted over the whole store."""

    blob: Blob
    revision: int


class SimStore:
    """The durable state: key → bytes, ETag, time of the last write and revision.

    `etags="content"` makes them hashes of the content, as S3 does, so that A → B → A passes If-Match;
    "counter" gives each write its own. `page_size` is the number of keys (or directories) a LIST page;
    with 1, no LIST of two keys shows one moment. `conditional_put=False` is a store without conditional
    puts. `modified_step_ms=1000` keeps times in whole seconds, as S3 does.

    Example:
        >>> store = SimStore(page_size=1)
        >>> bucket = store.bucket()
        >>> _ = bucket.put("a", b"1"), bucket.put("b", b"2")
        >>> listing = bucket.list("")
        >>> [o.key for o in listing.objects], listing.atomic, bucket.counters.list
        (['a', 'b'], False, 2)
        >>> store.contents()
        {'a': b'1', 'b': b'2'}
    """

    def __init__(
        self,
        *,
        etags: Literal["content", "counter"] = "content",
        page_size: int = 1000,
        conditional_put: bool = True,
        start_ms: int = START_MS,
        modified_step_ms: int = 1,
        url: str = "sim://store",
    ) -> None:
        if page_size < 1:
            raise InvalidInputError(f"page_size must be at least 1, not {page_size}")
        self.etags = etags
        self.page_size = page_size
        self.conditional_put = conditional_put
        self.modified_step_ms = modified_step_ms
        self.url = url
        self.time = Timeline(start_ms)
        self._stored: dict[str, Stored] = {}
        self._keys: list[str] = []
        self._revision = 0

    def bucket(self, name: str = "client", *, plan: FaultPlan | None = None, skew_ms: int = 0) -> SimBucket:
        """A bucket for a client alone, whose calls nobody interleaves."""
        return SimBucket(self, Solo(name, self.time, plan, skew_ms=skew_ms))

    def copy(self) -> SimStore:
        """The same objects at the same time, and none of the puts under way."""
        other = SimStore(
            etags=self.etags,
            page_size=self.page_size,
            conditional_put=self.conditional_put,
            start_ms=self.time.now_ms,
            modified_step_ms=self.modified_step_ms,
            url=self.url,
        )
        other._stored = dict(self._stored)
        other._keys = list(self._keys)
        other._revision = self._revision
        return other

    def keys(self, prefix: str = "") -> list[str]:
        first, end = self._span(prefix, "")
        return self._keys[first:end]

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Everything below `prefix`, in key order."""
        return {key: self._stored[key].blob.data for key in self.keys(prefix)}

    def revision(self, key: str) -> int:
        """The number of the write that made the object; it grows even where A → B → A keeps the ETag."""
        return self._found(key).revision

    def __contains__(self, key: str) -> bool:
        return key in self._stored

    def __len__(self) -> int:
        return len(self._keys)

    def fetch(self, key: str) -> Blob:
        return self._found(key).blob

    def fetch_range(self, key: str, start: int, length: int) -> bytes:
        return self._found(key).blob.data[start : start + length]

    def stat(self, key: str) -> ObjectInfo:
        return self._found(key).blob.info

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        old = self._stored.get(key)
        if absent and old is not None:
            raise ObjectExistsError(f"{self.url}/{key} exists already; choose another name")
        if match is not None and (old is None or old.blob.info.etag != match):
            found = "is gone" if old is None else "has another version"
            raise ObjectChangedError(f"{self.url}/{key} {found}; read it again and retry")
        if old is None:
            check_key(key)
        body = bytes(data)
        self._revision += 1
        if self.etags == "content":
            etag = md5(body, usedforsecurity=False).hexdigest()
        else:
            etag = str(self._revision)
        modified_ms = self.time.now_ms - self.time.now_ms % self.modified_step_ms
        self._stored[key] = Stored(Blob(body, ObjectInfo(key, len(body), etag, modified_ms)), self._revision)
        if old is None:
            insort(self._keys, key)
        return etag

    def remove(self, key: str) -> None:
        if self._stored.pop(key, None) is None:
            check_key(key)
            return
        del self._keys[bisect_left(self._keys, key)]

    def page(self, prefix: str, after: str | None) -> ListPage:
        check_prefix(prefix)
        first, end = self._span(prefix, "" if after is None else after + "\0")
        last = min(end, first + self.page_size)
        stored = self._stored
        return ListPage([stored[key].blob.info for key in self._keys[first:last]], last < end, atomic=True)

    def dirs_page(self, prefix: str, start: str) -> tuple[Sequence[str], str | None]:
        check_directory(prefix)
        at, end = self._span(prefix, start)
        names: list[str] = []
        for _ in range(self.page_size):
            if at >= end:
                break
            key = self._keys[at]
            directory, slash, _rest = key[len(prefix) :].partition("/")
            if slash:
                names.append(directory)
            # "0" follows "/": the first key that isn't below this directory.
            start = f"{prefix}{directory}0" if slash else key + "\0"
            at = bisect_left(self._keys, start)
        return names, start if at < end else None

    def _found(self, key: str) -> Stored:
        stored = self._stored.get(key)
        if stored is None:
            check_key(key)
            raise ObjectNotFoundError(f"{self.url}/{key} doesn't exist")
        return stored

    def _span(self, prefix: str, start: str) -> tuple[int, int]:
        """Where keys with `prefix` that are ≥ `start` begin and end."""
        first = bisect_left(self._keys, max(prefix, start))
        end = bisect_left(self._keys, prefix + "\U0010ffff")
        while end < len(self._keys) and self._keys[end].startswith(prefix):
            end += 1
        return first, max(first, end)


class SimBucket(GatedBucket):
    """One client's view of a `SimStore`: the whole `Bucket` protocol, each request one call of the client.

    `World` hands these to its clients; `SimStore.bucket` makes one that stands alone.
    """

    def __init__(self, store: SimStore, client: Client) -> None:
        super().__init__(store, client)
        self.store = store
