"""A bucket whose every single request passes through a `Client` first, where it may wait, fail or crash.

A `Backing` stands behind it: a simulated store, or any real bucket (`wrapped`).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from firn.bucket.base import Blob, BytesLike, Capabilities, Counters, Listing, ObjectInfo
from firn.bucket.ranges import fetch
from firn.errors import (
    FirnError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.testing.client import Call, Client, SimClock
from firn.testing.faults import Fault
from firn.testing.verbs import WRITES, Verb

T = TypeVar("T")


class ListPage(NamedTuple):
    """One page of a LIST: its objects, whether there are more, and whether these are of one moment."""

    objects: Sequence[ObjectInfo]
    more: bool
    atomic: bool


class Backing(Protocol):
    """Single requests, each atomic, without faults: what the store does once a request has reached it."""

    @property
    def url(self) -> str: ...

    @property
    def conditional_put(self) -> bool: ...

    def fetch(self, key: str) -> Blob: ...

    def fetch_range(self, key: str, start: int, length: int) -> bytes: ...

    def stat(self, key: str) -> ObjectInfo: ...

    def write(self, key: str, data: bytes, *, absent: bool = False, match: str | None = None) -> str: ...

    def remove(self, key: str) -> None: ...

    def page(self, prefix: str, after: str | None) -> ListPage:
        """The first objects with keys > `after`."""
        ...

    def dirs_page(self, prefix: str, start: str) -> tuple[Sequence[str], str | None]:
        """Directories at or after `start`, and where the next page starts, None at the end."""
        ...


class GatedBucket:
    """The whole `Bucket` protocol for one client; each request is one call of `client`.

    `get_many`, `put_many` and `delete_many` are as many calls as there are keys, and each page of a LIST is
    one, so other clients come in between. `clock` is the client's.
    """

    def __init__(self, backing: Backing, client: Client) -> None:
        self._backing = backing
        self._client = client
        self._counters = Counters()
        self._capabilities = Capabilities(conditional_put=backing.conditional_put, shareable=False)

    @property
    def clock(self) -> SimClock:
        return self._client.clock

    @property
    def client(self) -> Client:
        return self._client

    @property
    def url(self) -> str:
        return self._backing.url

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def counters(self) -> Counters:
        return self._counters

    def get(self, key: str) -> Blob:
        self._counters.get += 1
        blob = self._do("get", key, lambda: self._backing.fetch(key))
        self._counters.bytes_in += len(blob.data)
        return blob

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get_ranges(key, [(start, length)])[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return fetch(ranges, partial(self._get_span, key))

    def head(self, key: str) -> ObjectInfo:
        self._counters.head += 1
        return self._do("head", key, lambda: self._backing.stat(key))

    def put(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        return self._put("put", key, data, retry_for)

    def put_if_absent(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        return self._put("put_if_absent", key, data, retry_for, absent=True)

    def put_if_match(self, key: str, data: BytesLike, etag: str, *, retry_for: float | None = None) -> str:
        return self._put("put_if_match", key, data, retry_for, match=etag)

    def delete(self, key: str) -> None:
        self._counters.delete += 1
        self._do("delete", key, lambda: self._backing.remove(key))

    def list(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> Listing:
        objects: list[ObjectInfo] = []
        while True:
            self._counters.list += 1
            page = self._do("list", prefix, partial(self._backing.page, prefix, after))
            first = not objects
            objects.extend(page.objects)
            enough = limit is not None and len(objects) >= limit
            if enough or not page.more:
                return Listing(tuple(objects), atomic=first and page.atomic, more=page.more)
            after = page.objects[-1].key

    def list_dirs(self, prefix: str) -> builtins.list[str]:
        names: list[str] = []
        start: str | None = prefix
        while start is not None:
            self._counters.list += 1
            entries, start = self._do("list_dirs", prefix, partial(self._backing.dirs_page, prefix, start))
            names.extend(entries)
        return names

    def get_many(self, keys: Sequence[str]) -> builtins.list[Blob | None]:
        return self._each([partial(self._get_or_none, key) for key in keys])

    def put_many(self, items: Sequence[tuple[str, BytesLike]]) -> builtins.list[str]:
        return self._each([partial(self.put, *item) for item in items])

    def delete_many(self, keys: Iterable[str]) -> None:
        self._each([partial(self.delete, key) for key in keys])

    def local_path(self, key: str) -> str | None:
        """Always None: a file read past the bucket would be a request that nobody sees."""
        return None

    def uri(self, key: str) -> str:
        return f"{self.url}/{key}"

    def _get_span(self, key: str, start: int, length: int) -> bytes:
        self._counters.get += 1
        data = self._do("get_range", key, lambda: self._backing.fetch_range(key, start, length))
        self._counters.bytes_in += len(data)
        return data

    def _get_or_none(self, key: str) -> Blob | None:
        try:
            return self.get(key)
        except ObjectNotFoundError:
            return None

    def _each(self, requests: Sequence[Callable[[], T]]) -> builtins.list[T]:
        answers: dict[int, T] = {}
        for i in self._client.order(len(requests)):
            answers[i] = requests[i]()
        return [answers[i] for i in range(len(requests))]

    def _sending(self, data: BytesLike) -> bytes:
        self._counters.put += 1
        self._counters.bytes_out += len(data)
        return bytes(data)

    def _put(self, verb: Verb, key: str, data: BytesLike, retry_for: float | None, **condition: Any) -> str:
        if condition and not self._backing.conditional_put:
            raise UnsupportedError(
                f"{self.uri(key)}: this store has no conditional puts, so {verb} can't be honoured; "
                "use a store that has them"
            )
        body = self._sending(data)
        return self._do(verb, key, lambda: self._backing.write(key, body, **condition), body, retry_for)

    def _do(
        self,
        verb: Verb,
        key: str,
        perform: Callable[[], T],
        body: bytes = b"",
        retry_for: float | None = None,
    ) -> T:
        call = self._client.call(verb, key)
        if call.fault is not None:
            return self._faulted(call, call.fault, perform, body, retry_for)
        return self._answer(call, perform)

    def _answer(self, call: Call, perform: Callable[[], T]) -> T:
        try:
            answer = perform()
        except FirnError as error:
            call.outcome = error.kind
            raise
        if call.verb in WRITES:
            self._client.changed()
        return answer

    def _faulted(
        self, call: Call, fault: Fault, perform: Callable[[], T], body: bytes, retry_for: float | None
    ) -> T:
        client, kind = self._client, fault.kind
        if kind == "crash_before":
            call.outcome = "crashed before"
            client.crash()
        if kind == "failed":
            call.outcome = StoreUnavailableError.kind
            raise StoreUnavailableError(
                f"{self.uri(call.key)}: {call.verb} failed after all retries, nothing happened; retry later"
            )
        if kind == "lost":
            raise self._unknown(call)
        if kind == "slow":
            client.pause(fault.seconds)
            return self._answer(call, perform)
        if kind == "delayed":
            self._land_later(call, fault.seconds, perform)
            raise self._unknown(call)
        if kind == "duplicated":
            self._land_later(call, fault.seconds, perform)
            return self._answer(call, perform)
        if kind == "truncated":
            return self._truncated(call, perform)
        return self._landed_first(call, fault, perform, body, retry_for)

    def _landed_first(
        self, call: Call, fault: Fault, perform: Callable[[], T], body: bytes, retry_for: float | None
    ) -> T:
        """Faults that strike on the way back, whatever the store answered."""
        answer: T | None = None
        refusal: FirnError | None = None
        try:
            answer = self._answer(call, perform)
        except FirnError as error:
            refusal = error
        if fault.kind == "crash_after":
            call.outcome += ", then crashed"
            self._client.crash()
        if fault.kind == "lost_ack":
            raise self._unknown(call)
        self._client.pause(fault.seconds)
        if fault.kind == "retried":
            if retry_for is not None and fault.seconds >= retry_for:
                raise self._unknown(call)
            left = None if retry_for is None else retry_for - fault.seconds
            return self._resend(call, perform, body, left)
        if refusal is not None:
            raise refusal
        return answer  # type: ignore[return-value]

    def _resend(self, call: Call, perform: Callable[[], T], body: bytes, retry_for: float | None) -> T:
        if call.verb == "delete":
            self._counters.delete += 1
        else:
            self._sending(body)
        try:
            return self._do(call.verb, call.key, perform, body, retry_for)
        except StoreUnavailableError as error:
            # The second attempt is known to have failed; the first isn't.
            raise self._unknown(call) from error

    def _unknown(self, call: Call) -> OutcomeUnknownError:
        call.outcome += ", unanswered"
        return OutcomeUnknownError(
            f"{self.uri(call.key)}: {call.verb} was sent and no answer came; read it to learn the outcome"
        )

    def _land_later(self, call: Call, seconds: float, perform: Callable[[], object]) -> None:
        def land() -> None:
            try:
                perform()
            except FirnError as error:
                self._client.note(call.verb, call.key, f"late landing of call {call.number}: {error.kind}")
                return
            self._client.note(call.verb, call.key, f"late landing of call {call.number}")
            self._client.changed()

        self._client.time.after(round(seconds * 1000), land)

    def _truncated(self, call: Call, perform: Callable[[], T]) -> T:
        answer = self._answer(call, perform)
        call.outcome = "truncated"
        if isinstance(answer, Blob):
            return Blob(answer.data[: len(answer.data) // 2], answer.info)  # type: ignore[return-value]
        if isinstance(answer, bytes):
            return answer[: len(answer) // 2]  # type: ignore[return-value]
        return answer
