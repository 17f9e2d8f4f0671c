"""`AsyncAppender`: the same for asyncio. Rows are taken in the event loop itself, which costs microseconds; only
commits wait, and these are the appender's own thread's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any

from firn.concurrency.at_exit import log
from firn.errors import AppenderError, FirnError
from firn.lake.appender.queue import RowQueue
from firn.lake.results import AppenderStats
from firn.units import Duration, parse_duration

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncAppender:
    """See `Appender`. Get it by `async with table.aio.appender(…) as out`.

    A task that is cancelled while its row waits for room hasn't added it. One that is cancelled as it waits for a
    commit leaves the rows where they are: they are appended.
    """

    def __init__(self, queue: RowQueue) -> None:
        self._queue = queue

    async def add(
        self,
        row: Mapping[str, Any],
        *,
        position: Any = None,
        wait: bool = False,
        timeout: Duration | None = None,
    ) -> None:
        """As `Appender.add`."""
        queue = self._queue
        taken, ends = queue.ends.checked(row), queue.ends.id_at(position, wait)
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + parse_duration(timeout)
        while isinstance(found := queue.take(taken, ends, wait=wait), Future):
            if not await _ended(found, None if deadline is None else deadline - loop.time()):
                raise queue.no_room()
        if wait:
            await _ended(found.done)
            queue.check_outcome(found, taken)

    async def flush(self) -> None:
        """As `Appender.flush`."""
        last, is_open = self._queue.begin_flush()
        if last is not None:
            await _ended(last.done)
        self._queue.check_flushed(last, is_open)

    async def close(self, timeout: Duration | None = None) -> None:
        """As `Appender.close`. A task that is cancelled meanwhile leaves the appender to append what it has."""
        await self._close(None if timeout is None else parse_duration(timeout), complete=True)

    async def _close(self, seconds: float | None, *, complete: bool) -> None:
        self._queue.begin_closing(complete=complete)
        await _ended(self._queue.ended, seconds)
        self._queue.end(seconds)

    @property
    def stats(self) -> AppenderStats:
        """What it has done so far."""
        return self._queue.stats()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(None, complete=error is None)
        except FirnError as failure:
            if error is None:
                raise
            if not isinstance(error, AppenderError):
                log.error("%s", failure)


async def _ended(future: Future[Any], seconds: float | None = None) -> bool:
    """Wait for what others wait for, too: whoever is cancelled mustn't cancel it. Whether it came in time. A task
    that is cancelled just as it comes stays cancelled, which `asyncio.wait_for` forgets before Python 3.12."""
    done, _ = await asyncio.wait({asyncio.wrap_future(future)}, timeout=seconds)
    return bool(done)
