"""Record tables for tests of asyncio: each request to their bucket is told before it is made."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from firn.bucket import open_bucket
from firn.concurrency.aio import Threads
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.records.aio import AsyncTransactions

REQUESTS = frozenset(
    ("get", "put", "put_if_absent", "put_if_match", "delete", "list", "list_dirs", "get_many", "put_many")
)


class Watched:
    """A bucket. `before` is called with the verb and the key, in the thread that makes the request."""

    def __init__(self, bucket: Any) -> None:
        self.bucket = bucket
        self.before: Callable[[str, Any], object] = lambda verb, key: None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.bucket, name)
        if name not in REQUESTS:
            return found

        def request(key: Any, *args: Any, **options: Any) -> Any:
            self.before(name, key)
            return found(key, *args, **options)

        return request


class Process:
    """A process with the record tables `t`, which has an index on `n`, and `rows`, one by one."""

    def __init__(self, bucket: Any = None, *, calls: int = 128) -> None:
        self.bucket = Watched(bucket or open_bucket("memory://"))
        self.tables = RecordTables(self.bucket, "db", "memory://db", background=False)  # type: ignore[arg-type]
        self.session = self.tables.session
        self.session.threads = Threads(calls)
        self.aio = AsyncTransactions(self.session)
        made = []
        for name, options in (("t", RecordOptions(indices=["n"])), ("rows", RecordOptions(isolation="row"))):
            definition = self.tables.describe(name, options)
            made.append(self.tables.open(definition) if bucket else self.tables.create(definition))
        self.t: Any
        self.rows: Any
        self.t, self.rows = made

    def other(self) -> Process:
        """Another process over the same bucket."""
        return Process(self.bucket.bucket)

    @property
    def found(self) -> dict[str, Any]:
        """All rows of `t`, as another process sees them."""
        return {row.id: row.document for row in self.other().t.scan()}


class Gate:
    """Holds the first request that is `chosen` back until it is opened."""

    def __init__(self, process: Process, chosen: Callable[[str, Any], object]) -> None:
        self._chosen = chosen
        self.arrived, self._open = threading.Event(), threading.Event()
        process.bucket.before = self._before

    def open(self) -> None:
        self._open.set()

    async def reached(self) -> None:
        await until(self.arrived.is_set)

    def _before(self, verb: str, key: Any) -> None:
        if not self.arrived.is_set() and self._chosen(verb, key):
            self.arrived.set()
            assert self._open.wait(30)


def is_commit(verb: str, key: Any) -> bool:
    return verb == "put_if_absent" and "/_commits/" in f"/{key}"


async def until(condition: Callable[[], object]) -> None:
    """Let others go on until it holds."""
    last = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < last
        await asyncio.sleep(0.001)
