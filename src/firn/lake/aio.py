"""What users of a lake table hold for asyncio: rows are appended by threads, and the event loop never waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from firn.arguments import checked
from firn.concurrency.aio import AsyncTableVerbs, Opening, TableLike, Threads
from firn.lake.appender.aio import AsyncAppender
from firn.lake.appender.batches import Limits
from firn.lake.appender.queue import RowQueue

if TYPE_CHECKING:
    from firn.errors import FirnError
    from firn.lake.context import LakeContext
    from firn.lake.results import AppendResult
    from firn.units import Duration, Size

_CALLS = 32
"""Calls that are under way at once; more wait for a thread."""


class Appendable(TableLike, Protocol):
    """The verbs of `LakeTable` that are awaited here."""

    @property
    def context(self) -> LakeContext: ...

    def append(self, data: Any, *, batch_id: str | None = None, query: str | None = None) -> AppendResult: ...

    def upsert(self, data: Any, *, batch_id: str | None = None, query: str | None = None) -> AppendResult: ...


@checked
class AsyncLakeTable(AsyncTableVerbs[Appendable]):
    """See `LakeTable`. Get it as `table.aio`; `run` calls a verb that isn't here in a thread."""

    def __init__(self, sync: Appendable) -> None:
        super().__init__(sync, Threads(_CALLS, owner=sync.context.engines))

    async def append(
        self, data: Any, *, batch_id: str | None = None, query: str | None = None
    ) -> AppendResult:
        """As `LakeTable.append`."""
        return await self.run(self.sync.append, data, batch_id=batch_id, query=query)

    async def upsert(
        self, data: Any, *, batch_id: str | None = None, query: str | None = None
    ) -> AppendResult:
        """As `LakeTable.upsert`."""
        return await self.run(self.sync.upsert, data, batch_id=batch_id, query=query)

    def appender(
        self,
        *,
        seconds: Duration = 1.0,
        rows: int = 10_000,
        bytes: Size = "1MB",
        max_pending: Size = "64MB",
        batch_ids: str | Callable[[Any], str | None] | None = None,
        on_retry: Callable[[FirnError], object] | None = None,
        on_reject: Callable[[Sequence[dict[str, Any]], Exception], object] | None = None,
    ) -> Opening[AsyncAppender]:
        """Take rows one by one: `async with table.aio.appender() as out`, or `out = await table.aio.appender()`.
        Arguments, errors and cost as `LakeTable.appender`. `on_retry` and `on_reject` are called in the appender's
        thread."""
        limits = Limits.of(seconds, rows, bytes, max_pending)
        make = partial(
            RowQueue, self.sync.context, limits, batch_ids=batch_ids, on_retry=on_retry, on_reject=on_reject
        )

        queues: list[RowQueue] = []
        unwanted = threading.Event()

        def open_queue() -> None:
            queues.append(make())
            if unwanted.is_set():
                queues[0].begin_closing()

        async def made() -> AsyncAppender:
            try:
                await self.run(open_queue)
            except asyncio.CancelledError:  # nobody has it to close it
                unwanted.set()
                for queue in queues:
                    queue.begin_closing()
                raise
            return AsyncAppender(queues[0])

        return Opening(made)
