"""Verbs for asyncio: calls wait for the bucket in threads, so that the event loop never does."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from firn.concurrency.at_exit import unclosed
from firn.concurrency.cancelling import Call
from firn.errors import InvalidInputError

T = TypeVar("T")
P = ParamSpec("P")

AGAIN_S = 0.1


class Threads:
    """Threads of one handle, or of one database. `run` is the only way from the event loop to a synchronous verb.

    Making them starts none. A forked child has threads of its own.

    Args:
        most: calls that are under way at once; more wait for a thread.
        name: the threads' name.
        closed: the message of the error that a call after `stop` raises.
        owner: whose end lets the threads go.
    """

    def __init__(
        self,
        most: int,
        name: str = "firn-aio",
        *,
        closed: str = "this handle is closed. Open it again.",
        owner: object = None,
    ) -> None:
        self.owner = owner
        self._most, self._name, self._closed = most, name, closed
        self._mutex = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self.stopped = False

    async def run(self, call: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Run the call, and give its result or raise its error. A cancelled task leaves the call to end by itself,
        but for a query that DuckDB runs in it, which is interrupted. If the call hasn't begun yet, the task takes it
        back."""
        return await _ended(self.begin, partial(call, *args, **options))

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Have it done in a thread; nobody needs to wait for it."""
        if self._pid != os.getpid():  # the parent's threads aren't here, and somebody may have had the lock
            self._mutex, self._pool, self._pid = threading.Lock(), None, os.getpid()
        with self._mutex:
            if self.stopped:
                raise InvalidInputError(self._closed)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._most, self._name)
                unclosed.add(self)
            return self._pool.submit(call)

    def stop(self) -> None:
        """Begin nothing more; calls under way end by themselves."""
        self.stopped = True
        self.close()

    def close(self) -> None:
        """Let the threads go, once calls under way have ended. A later call begins with new ones."""
        with self._mutex:
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.shutdown(wait=False)

    def _close_at_exit(self) -> None:
        """Nothing: the interpreter waits for calls under way."""

    def _orphaned(self) -> None:
        """Nothing: the next call finds out."""


class Strand:
    """Calls one after the other, as they were made, whichever tasks made them: for what bears one thread at a
    time. They take one of the threads while there are any."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._mutex = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._at_work = False

    async def run(self, call: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """See `Threads.run`. A call that was left to end by itself ends before the next one begins."""
        return await _ended(self.begin, partial(call, *args, **options))

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Have it done when those before it are; nobody needs to wait for it."""
        future: Future[T] = Future()
        with self._mutex:
            self._waiting.append((future, call))
            if not self._at_work:
                try:
                    self._threads.begin(self._work)
                except BaseException:
                    self._waiting.clear()
                    raise
                self._at_work = True
        return future

    def _work(self) -> None:
        while True:
            with self._mutex:
                if not self._waiting:
                    self._at_work = False
                    return
                future, call = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            # An error's traceback holds this frame: it mustn't hold the error in turn.
            del future, call


async def _ended(begin: Callable[[Callable[[], T]], Future[T]], call: Callable[[], T]) -> T:
    """The end of a call that is begun so."""
    made = Call()
    future = begin(partial(made.run, call))
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        _cancel(made, future)
        raise


def _cancel(call: Call, future: Future[Any]) -> None:
    """Cancel a call, and again as long as it goes on: DuckDB forgets an interrupt that comes before a query runs."""
    if not future.done():
        call.cancel()
        asyncio.get_running_loop().call_later(AGAIN_S, _cancel, call, future)


W = TypeVar("W")


class AsyncVerbs(Generic[W]):
    """Has the verbs of another object, to be awaited."""

    def __init__(self, sync: W, threads: Threads | Strand) -> None:
        self.sync = sync
        """The one that does it."""
        self._threads = threads


class TableLike(Protocol):
    """A table, of whichever kind."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=TableLike)


class AsyncTableVerbs(AsyncVerbs[N]):
    """The verbs of a table that users get as `table.aio`."""

    def __repr__(self) -> str:
        return f"{self.sync!r}.aio"

    @property
    def kind(self) -> str:
        return self.sync.kind

    @property
    def name(self) -> str:
        return self.sync.name

    async def run(self, verb: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Any verb, in a thread."""
        return await self._threads.run(verb, *args, **options)


def awaited(
    verb: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A synchronous verb, awaited, with its parameters and docstring: `get = awaited(RecordTable.get)`."""

    # Not `__module__`: the docstring's examples are run where the verb stands.
    @wraps(verb, assigned=("__name__", "__qualname__", "__doc__"))
    async def call(self: AsyncVerbs[Any], /, *args: P.args, **options: P.kwargs) -> T:
        bound: Callable[..., T] = getattr(self.sync, verb.__name__)
        return await self._threads.run(bound, *args, **options)

    return call


async def each(threads: Threads | Strand, make: Callable[[], Iterable[T]], at_once: int) -> AsyncIterator[T]:
    """The items of an iterable whose making and steps wait: `at_once` of them for each time in a thread."""
    items = iter(await threads.run(make))
    while some := await threads.run(_some, items, at_once):
        for item in some:
            yield item


def _some(items: Iterator[T], count: int) -> list[T]:
    return list(islice(items, count))


class Held(Protocol):
    """A resource that `async with` lets go of."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


H = TypeVar("H", bound=Held, covariant=True)


class Opening(Awaitable[H]):
    """A handle that is being opened: `await` it, or use it in `async with`, which also lets go of it."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, H]]) -> None:
        self._make = make
        self._made: H | None = None

    def __await__(self) -> Generator[Any, None, H]:
        return self._make().__await__()

    async def __aenter__(self) -> H:
        self._made = await self._make()
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._made is not None
        await self._made.__aexit__(kind, error, trace)
