"""The bucket protocol: all that Firn asks of an object store.

Keys are relative to the bucket's root, `/`-separated, without a leading slash. Every call is atomic for
one object and nothing more. A version token (`etag`) is opaque; two bodies that differ in an id of their
own never share one, which is why everything that is compare-and-swapped carries a nonce.
"""

from __future__ import annotations

import builtins
import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firn.concurrency.forked import unheld
from firn.concurrency.parallel import MAX_IN_FLIGHT

BytesLike = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The answer of a LIST or HEAD for one object; `modified_ms` is the store's clock, Unix milliseconds."""

    key: str
    size: int
    etag: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Blob:
    """An object's bytes with the version they belong to."""

    data: bytes
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects in key order. `atomic` is False where they may come from more than one moment:
    several pages, or a directory walk. `more`: there may be others behind the last."""

    objects: tuple[ObjectInfo, ...]
    atomic: bool
    more: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`conditional_put`: put_if_absent and put_if_match are both honoured under races.
    `shareable`: the bucket can be pickled to another process and sees the same objects there."""

    conditional_put: bool
    shareable: bool


_counting = unheld(threading.Lock())


@dataclass(slots=True)
class Counters:
    """Requests by verb and bytes by direction. Exact: one LIST page is one request; a retry counts again."""

    get: int = 0
    put: int = 0
    list: int = 0
    head: int = 0
    delete: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, **amounts: int) -> None:
        with _counting:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def as_dict(self) -> dict[str, int]:
        with _counting:
            return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """The counts since `before`, an earlier `as_dict()`; `add` takes them as they are.

        >>> counters = Counters()
        >>> counters.add(get=1, bytes_in=10)
        >>> before = counters.as_dict()
        >>> counters.add(get=2, bytes_in=5)
        >>> counters.since(before)
        {'get': 2, 'put': 0, 'list': 0, 'head': 0, 'delete': 0, 'bytes_in': 5, 'bytes_out': 0}
        """
        return {name: count - before[name] for name, count in self.as_dict().items()}

    @property
    def requests(self) -> int:
        return self.get + self.put + self.list + self.head + self.delete


class Bucket(Protocol):
    """One store, from its root. All methods are safe to call from several threads.

    Errors, all from `firn.errors`: `ObjectNotFoundError` (get, head of a missing key),
    `ObjectExistsError` (put_if_absent), `ObjectChangedError` (put_if_match: other version, or none),
    `AccessDeniedError`, `StoreUnavailableError` (known not to have happened) and
    `OutcomeUnknownError` (a write was sent, no answer came, and retrying it could not settle it).
    """

    @property
    def url(self) -> str:
        """The root, for messages: never contains credentials."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def counters(self) -> Counters: ...

    def get(self, key: str) -> Blob: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Ranges as (start, length); neighbours may be fetched by one request."""
        ...

    def head(self, key: str) -> ObjectInfo: ...

    def put(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        """Write whole, unconditionally; the etag. Retried, so only for bodies that may land twice.
        `retry_for`: seconds after which no attempt is begun any more."""
        ...

    def put_if_absent(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        """Create; the etag. A refusal may be the echo of one's own success: see `conditional.create`."""
        ...

    def put_if_match(self, key: str, data: BytesLike, etag: str, *, retry_for: float | None = None) -> str:
        """Replace exactly the version `etag`; the new etag. See `conditional.swap`."""
        ...

    def list(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> Listing:
        """All objects whose key begins with `prefix`, in key order, keys > `after`. With a `limit`, those of as many
        pages as it takes to have so many; all where a page isn't what the store is asked for."""
        ...

    def list_dirs(self, prefix: str) -> builtins.list[str]:
        """Names (no slashes) of the directories directly below `prefix`, which ends in '/' or is ''."""
        ...

    def delete(self, key: str) -> None:
        """Remove; a missing key is fine."""
        ...

    def get_many(self, keys: Sequence[str]) -> builtins.list[Blob | None]:
        """Like get, with many requests in flight; None for a missing key."""
        ...

    def put_many(self, items: Sequence[tuple[str, BytesLike]]) -> builtins.list[str]: ...

    def delete_many(self, keys: Iterable[str]) -> None: ...

    def local_path(self, key: str) -> str | None:
        """The file's path where the bucket is a directory of this machine, else None."""
        ...

    def uri(self, key: str) -> str:
        """The object's full URL, as Spark or a person would name it."""
        ...


def at_once(bucket: Bucket) -> int:
    """How many requests are sent at once; a bucket in this process's memory answers none later than asked."""
    return MAX_IN_FLIGHT if bucket.capabilities.shareable else 1
