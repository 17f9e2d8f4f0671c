"""`RowQueue`: the rows of an appender, and the thread that appends them batch by batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING

from firn.concurrency.at_exit import ThreadedHandle, unclosed
from firn.concurrency.single_flight import again
from firn.errors import (
    AppenderError,
    BackPressureError,
    DatabaseClosedError,
    InvalidInputError,
)
from firn.journal.model import Counted
from firn.lake.appender.batch_writer import BatchWriter, OnReject, OnRetry
from firn.lake.appender.batches import ROW_BYTES, Batch, BatchEnds, BatchIds, Limits, Row, bytes_of
from firn.lake.results import AppenderStats
from firn.units import size_text

if TYPE_CHECKING:
    from firn.lake.context import LakeContext


class _GivenUp(Exception):
    """Nobody waits for the batch under way any longer."""


class RowQueue(ThreadedHandle):
    """Rows on their way into a table, in order: the batch under way, those that have ended, and the open one. What
    has to be waited for is a future, for threads and tasks alike."""

    def __init__(
        self,
        table: LakeContext,
        limits: Limits,
        *,
        batch_ids: BatchIds | None = None,
        on_retry: OnRetry | None = None,
        on_reject: OnReject | None = None,
    ) -> None:
        if table.engines.closed:
            raise DatabaseClosedError(f"{table.name}: the connection is closed: connect again.")
        if not table.journal.begin_append().lasting:
            raise InvalidInputError(
                f"{table.name}: a transaction has no appender, as its rows aren't durable before its end. Use "
                "append() in it; or open an appender on the database's own table."
            )
        self._table, self._limits, self._ids = table, limits, batch_ids
        self.ends = BatchEnds(table.name, batch_ids)
        self._writer = BatchWriter(table, wait=self._pause, on_retry=on_retry, on_reject=on_reject)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._open = Batch()
        self._closed: deque[Batch] = deque()
        self._under_way: Batch | None = None
        self._room: Future[None] | None = None
        self._weight = self._pending = 0
        self._rows = self._commits = self._rejected = self._batches = 0
        self._version: str | None = None
        self._due = self._closing = self._forked = self._told = False
        self._failure: BaseException | None = None
        self._unsent: tuple[Row, ...] = ()
        self._given_up = threading.Event()
        self.ended: Future[None] = Future()
        """When its thread has."""
        self._thread = threading.Thread(target=self._run, name=f"firn-append-{table.name}", daemon=True)
        self._thread.start()
        unclosed.add(self)

    @property
    def where(self) -> str:
        return self._table.bucket.uri(self._table.prefix)

    @property
    def owner(self) -> object:
        """The engines of the database that opened it, with which it ends."""
        return self._table.engines

    # -- adding

    def take(self, row: Row, ends: str | None, *, wait: bool = False) -> Batch | Future[None]:
        """Put a row into a batch; or, if there is no room, what becomes done when another try is worth it."""
        size = bytes_of(row)
        self._check_fork()
        with self._lock:
            if self._failure is not None or self._closing or self._table.engines.closed:
                self._check_locked()
            if wait and self._is_own_thread():
                raise self._waits_in_own_thread("add(wait=True)")
            if self._ids is not None and self._is_own_thread():
                raise self._added_in_own_thread()
            if self._weight >= self._limits.max_pending and not self._is_own_thread():
                return self._no_room_locked()  # its own thread makes the room
            batch = self._open
            if not batch.rows:
                batch.since = time.monotonic()
                self._changed.notify_all()
            batch.add(row, size)
            self._weight += size + ROW_BYTES
            self._pending += 1
            if self._ids is None:
                if batch.is_full(self._limits):
                    self._changed.notify_all()
            elif ends is not None or (isinstance(self._ids, str) and len(batch.rows) >= self._limits.rows):
                self._end_batch_locked(ends)
            return batch

    def _no_room_locked(self) -> Future[None]:
        if self._ids is not None and not self._closed and self._under_way is None:
            raise InvalidInputError(
                f"{self._table.name}: the batch that is open has {size_text(self._open.weight)} of rows, which is "
                "all that may be unsent. End batches sooner, or raise max_pending."
            )
        if self._open.rows:
            self._due = True
            self._changed.notify_all()
        if self._room is None:
            self._room = Future()
        return self._room

    def _end_batch_locked(self, id: str | None = None) -> None:
        batch, self._open = self._open, Batch()
        batch.id = f"{self._ids}{self._batches}" if id is None else id
        if id is None:
            batch.counted = Counted(len(batch.rows), self._limits.rows)
            batch.tells = self._batches == 0 or len(batch.rows) < self._limits.rows
        self._batches += 1
        self._closed.append(batch)
        self._changed.notify_all()

    # -- waiting

    def check_flushed(self, last: Batch | None, is_open: bool) -> None:
        """Raise what became of a flush, if not all rows are durable."""
        if last is not None:
            self.check_outcome(last)
        if is_open:
            raise self._still_open()

    def begin_flush(self) -> tuple[Batch | None, bool]:
        """The last batch to be waited for, and whether rows are in one that hasn't ended."""
        self._check_fork()
        with self._lock:
            if self._is_own_thread():
                raise self._waits_in_own_thread("flush()")
            self._check_locked()
            return self._send_open_locked(), self._ids is not None and bool(self._open.rows)

    def _send_open_locked(self) -> Batch | None:
        """Have the open rows committed, if the appender may end their batch; the last batch there is."""
        if self._open.rows and self._ids is None:
            self._due = True
            self._changed.notify_all()
            return self._open
        return self._closed[-1] if self._closed else self._under_way

    def check_outcome(self, batch: Batch, row: Row | None = None) -> None:
        """Raise what became of a batch that is done, or of a row of it, if it isn't durable."""
        if not batch.done.result():
            raise self._failed()
        if row is not None and (error := batch.error_of(row)) is not None:
            raise again(error)

    def no_room(self) -> BackPressureError:
        """The error of a row that found no room in time."""
        error = self._writer.last_error
        why = "" if error is None else f" The last try to append some failed: {error}"
        return BackPressureError(
            f"{self.where}: {self._pending} rows wait to be appended, {size_text(self._weight)} in memory, which is "
            f"all that may (max_pending). The row wasn't taken: add it again later.{why}"
        )

    def stats(self) -> AppenderStats:
        """What the appender has done so far."""
        self._check_fork()
        error = self._failure or self._writer.last_error
        with self._lock:
            return AppenderStats(
                rows=self._rows,
                commits=self._commits,
                pending=self._pending,
                retries=self._writer.retries,
                rejected=self._rejected,
                version=self._version,
                last_error=None if error is None else str(error),
            )

    # -- ending

    def begin_closing(self, *, complete: bool = False) -> None:
        """Begin to end. A source that is `complete` has given all of its rows: its last batch, if a text calls them,
        may be a shorter one. Else it would be another batch when the source is read again."""
        self._check_fork()
        with self._lock:
            if not self._closing:
                self._send_open_locked()
                if complete and self._open.rows and isinstance(self._ids, str):
                    self._end_batch_locked()
                self._closing = True
                self._changed.notify_all()

    def close_within(self, seconds: float) -> None:
        if not self._told:
            self.close(seconds, complete=False)

    def close(self, seconds: float | None, *, complete: bool = True) -> None:
        """See `Appender.close`."""
        if self._is_own_thread():
            raise self._waits_in_own_thread("close()")
        self.begin_closing(complete=complete)
        with suppress(FutureTimeoutError):
            self.ended.result(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        self.end(seconds)

    def end(self, seconds: float | None = None) -> None:
        """Say what is left, when its thread has ended or the time has passed."""
        if not self.ended.done():
            late = BackPressureError(f"{self.where}: not all rows were appended within {seconds or 0:g} s.")
            late.__cause__ = self._writer.last_error
            self._fail(late)
        elif self._failure is None and self._open.rows:
            self._fail(self._still_open())
        unclosed.discard(self)
        if self._failure is not None:
            raise self._failed()

    def _orphaned(self) -> None:
        """Refuse everything in a forked child: it has the appender without its thread, and its rows are the
        parent's."""
        self._forked = True

    # -- the thread

    def _run(self) -> None:
        try:
            self._append_all()
        finally:
            self.ended.set_result(None)

    def _append_all(self) -> None:
        while (batch := self._next()) is not None:
            try:
                version = self._writer.write(batch)
            except _GivenUp:
                return
            except BaseException as error:  # whatever it is, the rows are still here
                self._fail(error)
                return
            self._sent(batch, version)

    def _next(self) -> Batch | None:
        """The next batch, when it is due; None at the end."""
        with self._lock:
            while self._failure is None:
                left = None
                if self._closed:
                    self._under_way = self._closed.popleft()
                    return self._under_way
                if self._open.rows and self._ids is None:
                    due = self._due or self._closing
                    left = 0.0 if due else self._open.wait(self._limits, time.monotonic())
                    if left <= 0:
                        self._under_way, self._open, self._due = self._open, Batch(), False
                        return self._under_way
                elif self._closing:
                    return None
                self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            return None

    def _sent(self, batch: Batch, version: str | None) -> None:
        with self._lock:
            if self._failure is not None:  # given up meanwhile, and its rows told as unsent
                return
            self._under_way = None
            self._weight -= batch.weight
            self._pending -= batch.there + len(batch.rows) + len(batch.rejected)
            self._rows += batch.there + len(batch.rows)
            self._rejected += len(batch.rejected)
            if version is not None:
                self._commits += 1
                self._version = version
            room, self._room = self._room, None
        batch.done.set_result(True)
        if room is not None:
            room.set_result(None)

    def _fail(self, error: BaseException) -> None:
        """End it: rows that aren't durable are `unsent` from now on."""
        with self._lock:
            if self._failure is not None:
                return
            batches = [*([self._under_way] if self._under_way else ()), *self._closed, self._open]
            self._unsent = tuple(row for batch in batches for row in batch.rows)
            self._failure = error
            room, self._room = self._room, None
            self._changed.notify_all()
        self._given_up.set()
        for batch in batches:
            batch.done.set_result(False)
        if room is not None:
            room.set_result(None)

    def _pause(self, seconds: float) -> None:
        if self._given_up.wait(seconds):
            raise _GivenUp

    # -- errors

    def _check_fork(self) -> None:
        if self._forked:  # its lock may be held for ever
            raise InvalidInputError(
                f"the appender of {self.where} belongs to the process that this one was forked from, which appends "
                "its rows. Open another one here."
            )

    def _check_locked(self) -> None:
        if self._failure is not None:
            raise self._failed()
        if self._is_own_thread():  # what on_reject mends is taken to the last
            return
        if self._table.engines.closed:
            raise DatabaseClosedError(
                f"the appender of {self.where} was closed with its connection: connect again."
            )
        if self._closing:
            raise InvalidInputError(f"the appender of {self.where} is closed: open another one.")

    def _failed(self) -> AppenderError:
        cause, unsent = self._failure, self._unsent
        assert cause is not None
        self._told = True
        why = (str(cause) or type(cause).__name__).removesuffix(".")
        error = AppenderError.of(
            f"the appender of {self.where} has ended, and {len(unsent)} rows of it aren't known to be appended: "
            f"{why}. This error's `unsent` has them. Mend the cause, and add them to another appender.",
            unsent,
        )
        error.__cause__ = cause
        return error

    def _still_open(self) -> InvalidInputError:
        left = f"{self._table.name}: {len(self._open.rows)} rows are in a batch that hasn't ended, and "
        if isinstance(self._ids, str):
            return InvalidInputError(
                f"{left}that ends with {self._limits.rows} rows, or with the source: call close() when it has given "
                "all of its rows. Else it has these still: add all of them again, from its beginning."
            )
        return InvalidInputError(
            f"{left}only batch_ids says where. Their source has them still: end with a row for whose position it "
            "gives an id."
        )

    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _waits_in_own_thread(self, call: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._table.name}: {call} in on_retry or on_reject would wait for itself. add(row) is fine there."
        )

    def _added_in_own_thread(self) -> InvalidInputError:
        return InvalidInputError(
            f"{self._table.name}: a row that on_reject adds is in no batch of the source: when that is read again, "
            "it would be in another one, or in none. Append it by table.append(), or add it to another appender."
        )
