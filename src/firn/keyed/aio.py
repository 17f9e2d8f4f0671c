"""What users of a keyed table hold, for asyncio: the same verbs, awaited.

Each call runs the synchronous verb in a thread, so the event loop never waits for the bucket. Nothing is decided here
but one thing: durable writes that wait at the same time share one flush and one thread, however many tasks there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from firn.concurrency.aio import AsyncVerbs, Threads, awaited, each
from firn.keyed.read.reader import KeyedReader, KeyedSnapshot
from firn.keyed.read.reads import KeyedScan, Reads
from firn.keyed.results import ReaderStats, WriterStats
from firn.keyed.write.writer import KeyedWriter

if TYPE_CHECKING:
    from typing_extensions import Self

_CALLS = 32
"""Calls of one handle that are under way at once; more wait for a thread."""
_FLUSHES = 4
_PAIRS = 1000
"""Pairs of a scan that one step into its thread gives."""
_CLOSED = "this handle of a keyed table is closed. Open the table again."


class SharedFlush:
    """One flush for all callers that wait: those before it begins are in it, the next one begins another."""

    def __init__(self, threads: Threads, flush: Callable[[], None]) -> None:
        self._threads, self._flush = threads, flush
        self._turn: Future[None] | None = None

    async def wait(self) -> None:
        """Return when everything that was put before this call is durable; raise what the flush raised."""
        turn = self._turn
        if turn is None or turn.running() or turn.done():
            turn = self._turn = self._threads.begin(self._flush)
        # A caller that is cancelled must not cancel the others.
        await asyncio.shield(asyncio.wrap_future(turn))


class AsyncKeyedScan:
    """The live entries of a range, by key; see `KeyedScan`.

    `async for key, value in kv.scan(…)`, or `to_batches()` as Arrow, or `await to_arrow()`.
    """

    def __init__(self, threads: Threads, scan: Callable[[], KeyedScan]) -> None:
        # Making one may already look for newer flushes.
        self._threads, self._make = threads, scan

    def __aiter__(self) -> AsyncIterator[tuple[Any, Any]]:
        return each(self._threads, self._make, _PAIRS)

    def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow batches: `key`, or the key's columns, then `value`, or the value's columns."""
        return each(self._threads, lambda: self._make().to_batches(), 1)

    async def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table."""
        return await self._threads.run(lambda: self._make().to_arrow())


H = TypeVar("H", bound=Reads)
P = ParamSpec("P")


class _AsyncHandle(AsyncVerbs[H]):
    """The verbs of writers, readers and snapshots alike."""

    _threads: Threads

    def __init__(self, sync: H) -> None:
        super().__init__(sync, Threads(_CALLS, closed=_CLOSED))

    get = awaited(Reads.get)
    multi_get = awaited(Reads.multi_get)

    def scan(
        self, start: Any = None, end: Any = None, *, reverse: bool = False, durable: bool = False
    ) -> AsyncKeyedScan:
        """The entries with `start` ≤ key < `end`. Nothing is read yet."""
        sync = partial(self.sync.scan, start, end, reverse=reverse, durable=durable)
        return AsyncKeyedScan(self._threads, sync)

    def scan_prefix(self, prefix: Any, *, reverse: bool = False, durable: bool = False) -> AsyncKeyedScan:
        """The entries whose key begins with `prefix`. Nothing is read yet."""
        return AsyncKeyedScan(
            self._threads, partial(self.sync.scan_prefix, prefix, reverse=reverse, durable=durable)
        )

    async def close(self) -> None:
        """As the synchronous verb. Closing again is fine."""
        if self._threads.stopped:
            return
        try:
            await self._threads.run(self.sync.close)
        finally:
            self._threads.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class AsyncKeyedReader(_AsyncHandle[KeyedReader]):
    """See `KeyedReader`."""

    refresh = awaited(KeyedReader.refresh)

    @property
    def version(self) -> str:
        return self.sync.version

    def stats(self) -> ReaderStats:
        """Figures of now. No request."""
        return self.sync.stats()


class AsyncKeyedSnapshot(_AsyncHandle[KeyedSnapshot]):
    """See `KeyedSnapshot`."""


def _durably(
    verb: Callable[Concatenate[KeyedWriter, P], None],
) -> Callable[Concatenate[AsyncKeyedWriter, P], Coroutine[Any, Any, None]]:
    """A verb that writes, for tasks: those that want it durable share a flush."""

    @wraps(verb, assigned=("__name__", "__qualname__", "__doc__"))
    async def call(self: AsyncKeyedWriter, /, *args: P.args, **options: P.kwargs) -> None:
        durable = options.pop("durable", True)
        write: Callable[..., None] = getattr(self.sync, verb.__name__)
        await self._threads.run(write, *args, **options, durable=False)
        if durable:
            await self._shared.wait()

    return call


class AsyncKeyedWriter(_AsyncHandle[KeyedWriter]):
    """See `KeyedWriter`. Durable writes of tasks that run at the same time share flushes.

    Example:
        >>> import asyncio, firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
        >>> async def main():
        ...     async with table.aio.open() as kv:
        ...         await asyncio.gather(*(kv.put(b"key %d" % n, b"value") for n in range(100)))
        ...         return await kv.get(b"key 99"), [key async for key, _ in kv.scan(b"key 97")]
        >>> asyncio.run(main())
        (b'value', [b'key 97', b'key 98', b'key 99'])
    """

    def __init__(self, sync: KeyedWriter) -> None:
        super().__init__(sync)
        # Flushes have threads of their own: calls may be waiting for one.
        self._flushes = Threads(_FLUSHES, "firn-aio-flush", closed=_CLOSED)
        self._shared = SharedFlush(self._flushes, sync.flush)

    put = _durably(KeyedWriter.put)
    delete = _durably(KeyedWriter.delete)
    merge = _durably(KeyedWriter.merge)
    write = _durably(KeyedWriter.write)

    async def snapshot(self) -> AsyncKeyedSnapshot:
        """This moment's entries, in this process; no request."""
        return AsyncKeyedSnapshot(await self._threads.run(self.sync.snapshot))

    async def flush(self) -> None:
        """Return when everything that was put before is durable."""
        await self._shared.wait()

    poll = awaited(KeyedWriter.poll)
    compact = awaited(KeyedWriter.compact)

    def stats(self) -> WriterStats:
        """Figures of now. No request."""
        return self.sync.stats()

    @property
    def epoch(self) -> int:
        return self.sync.epoch

    @property
    def version(self) -> str:
        return self.sync.version

    async def close(self) -> None:
        """Flush, then let go of the table. Closing again is fine."""
        try:
            await super().close()
        finally:
            self._flushes.stop()
