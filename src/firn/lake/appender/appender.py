"""`Appender`: what users hold. It takes rows one by one; `queue` has them and appends them in batches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import TYPE_CHECKING, Any

from firn.concurrency.at_exit import log
from firn.errors import AppenderError, FirnError
from firn.lake.appender.queue import RowQueue
from firn.lake.results import AppenderStats
from firn.units import Duration, parse_duration

if TYPE_CHECKING:
    from typing_extensions import Self


class Appender:
    """Rows on their way into a table. Made by `LakeTable.appender`; any thread may use it; a context manager.

    Rows of one thread are appended in its order. A row is what it was when it was added, whatever becomes of the
    dict."""

    def __init__(self, queue: RowQueue) -> None:
        self._queue = queue

    def __repr__(self) -> str:
        return f"<Appender {self._queue.where}>"

    def add(
        self,
        row: Mapping[str, Any],
        *,
        position: Any = None,
        wait: bool = False,
        timeout: Duration | None = None,
    ) -> None:
        """Take a row, to be appended with others. Nothing is converted here: a row that doesn't fit is found when its
        batch is appended.

        Waits while `max_pending` bytes of rows are unsent, for at most `timeout`.

        Args:
            row: values by column.
            position: where the row stands in its source, for a function `batch_ids`.
            wait: return when the row is durable: after the commit that `seconds`, `rows` or `bytes` begins.
            timeout: how long to wait for room; 0 not at all. Else as long as it takes.

        Raises:
            BackPressureError: there was no room in time; the row wasn't taken: add it again.
            InvalidInputError: it isn't a dict by column; with `wait`, it was rejected.
            AppenderError: the appender has failed; the row wasn't taken, or `unsent` has it.
        """
        queue = self._queue
        taken, ends = queue.ends.checked(row), queue.ends.id_at(position, wait)
        deadline = None if timeout is None else time.monotonic() + parse_duration(timeout)
        while isinstance(found := queue.take(taken, ends, wait=wait), Future):
            try:
                found.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except FutureTimeoutError:
                raise queue.no_room() from None
        if wait:
            found.done.result()
            queue.check_outcome(found, taken)

    def flush(self) -> None:
        """Return when all rows that were added before are durable.

        Raises:
            AppenderError: the appender has failed.
            InvalidInputError: by `batch_ids` the last batch hasn't ended yet; the ones before are durable.
        """
        last, is_open = self._queue.begin_flush()
        if last is not None:
            last.done.result()
        self._queue.check_flushed(last, is_open)

    @property
    def stats(self) -> AppenderStats:
        """What it has done so far."""
        return self._queue.stats()

    def close(self, timeout: Duration | None = None) -> None:
        """Flush and stop. Closing again is fine. By a text `batch_ids` this ends the last batch, too: the source has
        been read to its end. If it has more rows when it is read again, these are appended then.

        Args:
            timeout: how long that may take; else as long as the store fails.

        Raises:
            AppenderError: the appender has failed, or the time has passed. `unsent` has the rows that aren't known to
                be committed; by a function `batch_ids` those, too, of a batch that hasn't ended.
        """
        self._queue.close(None if timeout is None else parse_duration(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._queue.close(None, complete=error is None)
        except FirnError as failure:
            if error is None:  # else the block's own error is the one to see
                raise
            if not isinstance(error, AppenderError):
                log.error("%s", failure)
