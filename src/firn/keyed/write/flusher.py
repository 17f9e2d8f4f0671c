"""The flusher: frozen memtables become durable in the background, and all who wait for one are told.

Worker threads take frozen memtables and have them put up, several at once; a flush counts as durable once it may be
acknowledged (rules 6 and 7), in the order of numbers. A failing store is tried again for as long as it takes; what
can't be mended by that ends the writer, and everyone is told.
"""

from __future__ import annotations

import logging
import threading

from firn.concurrency.single_flight import again
from firn.errors import FencedError, OutcomeUnknownError
from firn.journal.manifest import WriterSession
from firn.keyed.memory import LetGo, give_back
from firn.keyed.write.queue import MemtableQueue
from firn.keyed.write.uploader import L0Uploader

MAX_FLUSHES = 4
"""Flushes under way at once."""

log = logging.getLogger("firn.keyed")


class Flusher:
    """Makes the memtables of a queue durable, in threads of its own."""

    def __init__(self, session: WriterSession, queue: MemtableQueue) -> None:
        self._session, self._queue = session, queue
        self.uploader = L0Uploader(session, queue)
        self._let_go = LetGo()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def begin_locked(self) -> None:
        """The active memtable gets its first entry: a worker waits for when it is due."""
        self._start_worker_locked()
        self._queue.begun_locked()

    def wait_locked(self, number: int, timeout: float | None = None) -> None:
        """Return when flush `number` is durable; it begins at once if none is under way."""
        queue, monotonic = self._queue, self._queue.clock.monotonic
        queue.want_locked(number)
        deadline = None if timeout is None else monotonic() + min(timeout, threading.TIMEOUT_MAX)
        while queue.durable < number:
            if queue.error is not None:
                raise again(queue.error)
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise OutcomeUnknownError(
                    f"{queue.name}: the flush of what was put isn't acknowledged after {timeout:g} s. It goes on in "
                    "the background: flush() waits for it again, and stats() has the errors of the store."
                )
            queue.done.wait(left)

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything put so far is durable."""
        queue = self._queue
        with queue.lock:
            if queue.error is not None:
                raise again(queue.error)
            active = queue.active
            self.wait_locked(active.number if len(active) else active.number - 1, timeout)

    def close(self, timeout: float | None = None) -> None:
        """Take no more puts, flush all, and stop the threads; those stop even if the flush fails."""
        queue = self._queue
        with queue.lock:
            queue.close_locked()
        try:
            self.flush(timeout)
        finally:
            with queue.lock:
                queue.end_locked()
                threads = list(self._threads)
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            give_back()

    # -- the workers

    def _start_worker_locked(self) -> None:
        """Another thread, if all are busy and there may be more work."""
        if self._idle == 0 and len(self._threads) < MAX_FLUSHES:
            name = f"firn-flush-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            self._idle += 1
            thread.start()

    def _run(self) -> None:
        try:
            while (size := self._flush_next()) is not None:
                self._let_go.add(size)
        except BaseException as error:  # whatever it is, all who wait for the flush must learn it
            if not isinstance(error, FencedError):
                log.error("the writer of %s ends: %s", self._queue.name, error)
            self._queue.fail(error)

    def _flush_next(self) -> int | None:
        """Make the next memtable durable; its bytes, None at the end."""
        queue = self._queue
        with queue.lock:
            flush = queue.take_locked()
            if flush is None:
                return None
            self._idle -= 1
            if len(queue.active):
                self._start_worker_locked()
        self.uploader.put_up(flush)
        self._acknowledge()
        return flush.bytes

    def _acknowledge(self) -> None:
        """Make durable what is up without a gap."""
        queue = self._queue
        with queue.lock:
            up, durable = queue.up_locked(), queue.durable
        if up > durable:
            self.uploader.insist(lambda: self._session.confirm(up), f"acknowledging flush {up}")
        with queue.lock:
            queue.land_locked(up)
            self._idle += 1
            queue.work.notify()
