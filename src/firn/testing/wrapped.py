"""The same faults and interleavings over any real bucket: a directory, a server, another simulated one.

The real bucket answers; its directory's or server's own concurrency is not under control here, only when
each request is sent to it. Times of last modification are virtual for what was written through these
wrappers, and the inner bucket's own for the rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from firn.bucket.base import Blob, Bucket, ObjectInfo
from firn.testing.client import Client, Solo, Timeline
from firn.testing.faults import FaultPlan
from firn.testing.gated import GatedBucket, ListPage


class BucketBacking:
    """A real bucket as a `Backing`. `page_size` cuts its LISTs into pages, each a request of its own."""

    def __init__(self, inner: Bucket, timeline: Timeline, *, page_size: int | None = None) -> None:
        self.inner = inner
        self.time = timeline
        self.page_size = page_size
        self._written: dict[str, tuple[str, int]] = {}

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def conditional_put(self) -> bool:
        return self.inner.capabilities.conditional_put

    def fetch(self, key: str) -> Blob:
        blob = self.inner.get(key)
        return Blob(blob.data, self._virtual(blob.info))

    def fetch_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def stat(self, key: str) -> ObjectInfo:
        return self._virtual(self.inner.head(key))

    def write(self, key: str, data: bytes, *, absent: bool = False, match: str | None = None) -> str:
        if absent:
            etag = self.inner.put_if_absent(key, data)
        elif match is not None:
            etag = self.inner.put_if_match(key, data, match)
        else:
            etag = self.inner.put(key, data)
        self._written[key] = (etag, self.time.now_ms)
        return etag

    def remove(self, key: str) -> None:
        self.inner.delete(key)

    def page(self, prefix: str, after: str | None) -> ListPage:
        listing = self.inner.list(prefix, after=after)
        objects = [self._virtual(info) for info in listing.objects[: self.page_size]]
        return ListPage(objects, len(objects) < len(listing.objects), listing.atomic)

    def dirs_page(self, prefix: str, start: str) -> tuple[Sequence[str], str | None]:
        return self.inner.list_dirs(prefix), None

    def _virtual(self, info: ObjectInfo) -> ObjectInfo:
        written = self._written.get(info.key)
        if written is None or written[0] != info.etag:
            return info
        return replace(info, modified_ms=written[1])


class FaultBucket(GatedBucket):
    """Any bucket, failing as `plan` says. A request takes 1 ms of `clock`, and sleeping takes no real time.

    Requests are sent one after the other, those of `get_many` and its like too. A request that `delayed` or
    `duplicated` holds back lands when `clock` has come so far, or at `settle`.

    Example:
        >>> from firn.testing import CRASH_AFTER, Crashed, FaultBucket, Rule, Script, SimStore
        >>> inner = SimStore().bucket()     # or firn.bucket.open_bucket("./directory")
        >>> bucket = FaultBucket(inner, Script(Rule(CRASH_AFTER, nth=1)))
        >>> _ = bucket.put("a", b"1")
        >>> try:
        ...     bucket.put("b", b"2")
        ... except Crashed as crash:
        ...     print(crash)
        client crashed
        >>> inner.get("b").data
        b'2'
    """

    def __init__(
        self, inner: Bucket, plan: FaultPlan | None = None, *, name: str = "client", skew_ms: int = 0
    ) -> None:
        timeline = Timeline(time.time_ns() // 1_000_000)
        super().__init__(BucketBacking(inner, timeline), Solo(name, timeline, plan, skew_ms=skew_ms))
        self.inner = inner

    def settle(self) -> None:
        """Land everything that is still under way."""
        self.client.time.settle()


class InterleavedBucket(GatedBucket):
    """One client's view of a real bucket inside a `World`, which decides when each request is sent.

    `World(seed, store=bucket)` hands these to its clients.
    """

    def __init__(self, backing: BucketBacking, client: Client) -> None:
        super().__init__(backing, client)
        self.inner = backing.inner
