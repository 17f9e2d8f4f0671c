"""A bucket over obstore: S3, GCS, Azure, and memory."""

from __future__ import annotations

import builtins
import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from os import PathLike
from typing import Any, TypeVar

import obstore
import obstore.store
from obstore.exceptions import BaseError, UnknownConfigurationKeyError

from firn.bucket import runtime
from firn.bucket.base import Blob, BytesLike, Capabilities, Counters, Listing, ObjectInfo
from firn.bucket.conditional import check_conditional
from firn.bucket.failures import Meaning, classify, scrub
from firn.bucket.keys import check_directory, check_key, check_prefix
from firn.bucket.options import Options, sort_options
from firn.bucket.presence import find
from firn.bucket.ranges import check_range, fetch
from firn.bucket.retry import Retrier
from firn.bucket.urls import Address, Kind, parse_url
from firn.clock import Clock, SystemClock
from firn.concurrency.parallel import in_flight
from firn.errors import InvalidInputError, ObjectChangedError, UnsupportedError

T = TypeVar("T")

_PAGE: Mapping[Kind, int] = {"s3": 1000, "gcs": 1000, "azure": 5000, "memory": 2**31 - 1}
_BULK_DELETE = 1000
_MULTIPART_ABOVE = 32 * 2**20
_PART = 16 * 2**20
_UNCOPIED = 2**20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ObjectStoreBucket:
    """One bucket of S3, GCS or Azure, or a store in memory. Implements `Bucket`.

    Costs beyond the protocol's: a body above 32 MB is put in parts of 16 MB, each a request, and two
    requests more (one on Azure); put_if_match on GCS needs a HEAD before the PUT, since GCS compares
    generations, not ETags; delete_many on S3 is one request a thousand keys.
    """

    def __init__(
        self,
        url: str | PathLike[str],
        options: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Connect without a request. `clock` and `rng` are those of the retries."""
        address = parse_url(url)
        if address.prefix:
            raise InvalidInputError(
                f"{address.root} is a bucket, {address.prefix} a path inside; see split_url"
            )
        if address.kind == "directory":
            raise InvalidInputError(f"{address.root} is a directory; open it with LocalBucket")
        sorted_options = sort_options(address.kind, options)
        self._kind: Kind = address.kind
        self._root = address.root
        self._given = dict(options or {})
        self._options = sorted_options
        self._store = connect(address, sorted_options)
        self._retrier = Retrier(
            sorted_options.retry, clock or SystemClock(), rng or random.Random(), sorted_options.secrets
        )
        self._counters = Counters()

    def __repr__(self) -> str:
        return f"ObjectStoreBucket({self._root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._kind == "memory":
            raise UnsupportedError(
                f"{self._root} lives in this process and cannot go to another; use a directory or a bucket"
            )
        return ObjectStoreBucket, (self._root, self._given)

    @property
    def url(self) -> str:
        return self._root

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(conditional_put=self._options.conditional_put, shareable=self._kind != "memory")

    @property
    def counters(self) -> Counters:
        return self._counters

    def uri(self, key: str) -> str:
        return f"{self._root}{key}" if self._root.endswith("/") else f"{self._root}/{key}"

    def local_path(self, key: str) -> str | None:
        return None

    def get(self, key: str) -> Blob:
        check_key(key)

        def attempt() -> Blob:
            self._counters.add(get=1)
            result = obstore.get(self._store, key)
            data = bytes(result.bytes())
            self._counters.add(bytes_in=len(data))
            return Blob(data, _info(result.meta))

        return self._read(attempt, key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        check_range(start, length)
        if length == 0:
            return b""

        def attempt() -> bytes:
            self._counters.add(get=1)
            try:
                data = bytes(obstore.get_range(self._store, key, start=start, length=length))
            except Exception as error:
                if classify(error).meaning is not Meaning.BAD_RANGE:
                    raise
                return b""
            self._counters.add(bytes_in=len(data))
            return data

        return self._read(attempt, key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return fetch(ranges, partial(self.get_range, key), self._many)

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        return self._read(lambda: _info(self._head(key)), key)

    def put(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        return self._put(key, data, "overwrite", retry_for=retry_for)

    def put_if_absent(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        check_conditional(self)
        return self._put(key, data, "create", refusal=Meaning.EXISTS, retry_for=retry_for)

    def put_if_match(self, key: str, data: BytesLike, etag: str, *, retry_for: float | None = None) -> str:
        check_conditional(self)
        mode = (lambda: self._generation(key, etag)) if self._kind == "gcs" else {"e_tag": etag}
        return self._put(key, data, mode, refusal=Meaning.CHANGED, retry_for=retry_for)

    def list(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> Listing:
        check_prefix(prefix)
        if after is not None:
            check_prefix(after)
        found: list[ObjectInfo] = []
        # Where an attempt breaks off, the next goes on after the last key that came.
        first = reached = max(filter(None, (_just_before(prefix), _path_up_to(after))), default=None)
        attempts = pages = 0
        more = False

        def attempt() -> None:
            nonlocal reached, attempts, pages, more
            attempts += 1
            if self._kind == "azure" and attempts > 1:
                # With hierarchical namespaces its order isn't that of the keys: start over.
                found.clear()
                reached = first
            for chunk in self._pages(prefix.rpartition("/")[0], reached):
                pages += 1
                for meta in chunk:
                    key = meta["path"]
                    if key.startswith(prefix) and (after is None or key > after):
                        found.append(_info(meta))
                    elif key > prefix and not key.startswith(prefix) and self._kind != "azure":
                        return
                reached = max(reached or "", chunk[-1]["path"])
                if limit is not None and len(found) >= limit and self._kind != "azure":
                    more = len(chunk) >= _PAGE[self._kind]
                    return

        self._run(attempt, verb="list", target=self.uri(prefix))
        found.sort(key=lambda info: info.key)
        return Listing(tuple(found), atomic=attempts == 1 and pages <= 1, more=more)

    def list_dirs(self, prefix: str) -> builtins.list[str]:
        check_directory(prefix)

        def attempt() -> builtins.list[str]:
            try:
                result = obstore.list_with_delimiter(self._store, prefix.rstrip("/") or None)
            except BaseException:
                self._counters.add(list=1)
                raise
            entries = len(result["common_prefixes"]) + len(result["objects"])
            self._counters.add(list=max(1, -(-entries // _PAGE[self._kind])))
            return sorted(name.rstrip("/").rpartition("/")[2] for name in result["common_prefixes"])

        return self._run(attempt, verb="list", target=self.uri(prefix))

    def delete(self, key: str) -> None:
        self._delete([check_key(key)])

    def get_many(self, keys: Sequence[str]) -> builtins.list[Blob | None]:
        return self._many(partial(find, self), keys)

    def put_many(self, items: Sequence[tuple[str, BytesLike]]) -> builtins.list[str]:
        return self._many(lambda item: self.put(*item), items)

    def delete_many(self, keys: Iterable[str]) -> None:
        wanted = [check_key(key) for key in dict.fromkeys(keys)]
        step = _BULK_DELETE if self._options.bulk_delete else 1
        self._many(self._delete, [wanted[i : i + step] for i in range(0, len(wanted), step)])

    def _run(self, attempt: Callable[[], T], **told: Any) -> T:
        """Every request comes through here; see `Retrier.run`."""
        if self._kind == "memory":
            runtime.begin()
        else:
            runtime.use(self._root)
        return self._retrier.run(attempt, **told)

    def _read(self, attempt: Callable[[], T], key: str) -> T:
        return self._run(attempt, verb="read", target=self.uri(key))

    def _put(
        self,
        key: str,
        data: BytesLike,
        mode: Any,
        *,
        refusal: Meaning | None = None,
        retry_for: float | None,
    ) -> str:
        check_key(key)
        body = _body(data)
        in_parts = refusal is None and len(body) > _MULTIPART_ABOVE and self._kind != "memory"
        requests = -(-len(body) // _PART) + (1 if self._kind == "azure" else 2) if in_parts else 1

        def attempt() -> str:
            chosen = mode() if callable(mode) else mode
            self._counters.add(put=requests, bytes_out=len(body))
            result = obstore.put(
                self._store,
                key,
                body,
                mode=chosen,
                use_multipart=in_parts,
                chunk_size=_PART,
                max_concurrency=8,
            )
            return _token(result["e_tag"])

        return self._run(
            attempt, verb="write", target=self.uri(key), write=True, refusal=refusal, retry_for=retry_for
        )

    def _delete(self, keys: builtins.list[str]) -> None:
        def attempt() -> None:
            self._counters.add(delete=1)
            try:
                obstore.delete(self._store, keys if len(keys) > 1 else keys[0])
            except FileNotFoundError as error:
                if classify(error).meaning is not Meaning.MISSING:
                    raise

        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        self._run(attempt, verb="delete", target=self.uri(keys[0]) + more, write=True)

    def _many(self, fn: Callable[[Any], T], items: Sequence[Any]) -> builtins.list[T]:
        # Memory answers in microseconds: threads would only be in each other's way.
        return in_flight(fn, items, limit=1) if self._kind == "memory" else in_flight(fn, items)

    def _head(self, key: str) -> Mapping[str, Any]:
        self._counters.add(head=1)
        meta: Mapping[str, Any] = obstore.head(self._store, key)
        return meta

    def _generation(self, key: str, etag: str) -> dict[str, str]:
        try:
            meta = self._head(key)
        except FileNotFoundError as error:
            if classify(error).meaning is not Meaning.MISSING:
                raise
            meta = {"e_tag": None}
        if _token(meta["e_tag"]) != etag:
            raise ObjectChangedError(
                f"{self.uri(key)} is not at the expected version: changed or deleted meanwhile"
            )
        return {"e_tag": etag, "version": meta["version"]}

    def _pages(self, directory: str, after: str | None) -> Iterable[Sequence[Mapping[str, Any]]]:
        """Non-empty pages of the listing; each is counted, a failed or empty first one too."""
        chunks = obstore.list(self._store, directory or None, offset=after, chunk_size=_PAGE[self._kind])
        fetched = 0
        while True:
            try:
                chunk = next(chunks, None)
            except BaseException:
                self._counters.add(list=1)
                raise
            if not chunk:
                self._counters.add(list=0 if fetched else 1)
                return
            fetched += 1
            self._counters.add(list=1)
            yield chunk


def _body(data: BytesLike) -> BytesLike:
    """The bytes to put: a copy, unless they are large and can't change."""
    if isinstance(data, memoryview) and data.readonly and data.contiguous and data.nbytes >= _UNCOPIED:
        return data
    return bytes(data)


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    modified = (meta["last_modified"] - _EPOCH) // timedelta(milliseconds=1)
    return ObjectInfo(meta["path"], meta["size"], _token(meta["e_tag"]), modified)


def _token(etag: str | None) -> str:
    # Azure's LIST leaves out the quotes that its other answers have.
    return f'"{etag}"' if etag and not etag.endswith('"') else etag or ""


def _path_up_to(after: str | None) -> str | None:
    """The place to begin a LIST at: obstore takes no `x/.`, the beginning of a key like `x/.hidden`."""
    if after is None or after.rpartition("/")[2] not in (".", ".."):
        return after
    return after.rpartition("/")[0] or None


def _just_before(prefix: str) -> str | None:
    """A place in key order shortly before the first key with this prefix, to begin a LIST at.

    obstore lists whole directories; without it, `logs/2026` would be a walk over all years. It may be
    too early, never too late.
    """
    if not prefix or prefix.endswith("/"):
        return None
    last = ord(prefix[-1]) - 1
    while last > 0x20 and (chr(last) == "/" or last == 0x7F or 0xD800 <= last <= 0xDFFF):
        last -= 1
    return f"{prefix[:-1]}{chr(last)}~" if last > 0x20 else None


_named: dict[str, Any] = {}
_named_lock = threading.Lock()


def connect(address: Address, options: Options) -> Any:
    """The store behind an address. No request is made.

    Raises:
        InvalidInputError: an option that the store doesn't have, or a value it can't take.
    """
    if address.kind == "memory":
        return _memory(address.name)
    config = dict(options.store)
    if address.account is not None:
        config.setdefault("account_name", address.account)
    arguments = {
        "config": config,
        "client_options": dict(options.client),
        "retry_config": {"max_retries": 0},
    }
    try:
        if address.kind == "s3":
            return obstore.store.S3Store(address.name, **arguments)
        if address.kind == "gcs":
            return obstore.store.GCSStore(address.name, **arguments)
        return obstore.store.AzureStore(address.name, **arguments)
    except UnknownConfigurationKeyError as error:
        found = re.search(r"'([^']*)'", str(error))
        problem = f"unknown option {found[1] if found else ''}"
    except (BaseError, ValueError, TypeError) as error:
        problem = scrub(str(error).partition("\n")[0], options.secrets)
    raise InvalidInputError(f"cannot open {address.root}: {problem}; see the names of obstore's options")


def _memory(name: str) -> Any:
    if not name:
        return obstore.store.MemoryStore()
    with _named_lock:
        return _named.setdefault(name, obstore.store.MemoryStore())
