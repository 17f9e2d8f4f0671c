"""The uploader: makes an L0 object of a frozen memtable and puts it up, however often the store must be asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from firn.bucket.base import BytesLike
from firn.concurrency.background import TRANSIENT, pauses
from firn.journal.manifest import WriterSession
from firn.keyed.memory import release
from firn.keyed.write.queue import Flush, MemtableQueue

ENCODED_BYTES = 16 << 20
"""L0 objects that wait for their PUT have no more than this together, or are one: one after the other is encoded."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 10.0

log = logging.getLogger("firn.keyed")


class L0Uploader:
    """Puts the memtables of a queue up. Safe for several threads, each with a flush of its own."""

    def __init__(self, session: WriterSession, queue: MemtableQueue) -> None:
        self._session, self._queue = session, queue
        self.retries = 0
        self.last_error: BaseException | None = None
        """The error of the last try that failed and was made again."""
        self._encoding = threading.Lock()
        self._encoded = 0

    def put_up(self, flush: Flush) -> None:
        """Put a flush's L0 object where none is. 1 PUT."""
        queue, table = self._queue, self._queue.tree.table
        data = self._encoded_in_turn(flush)
        try:
            self.insist(lambda: self._session.put_l0(flush.number, data), f"flush {flush.number}")
            reader = table.sst(table.journal.layout.l0_key(self._session.epoch, flush.number), len(data))
            reader.seed(data)  # its first reads need no request
        finally:
            with queue.lock:
                self._encoded -= len(data)
                queue.work.notify_all()
        with queue.lock:
            flush.reader = reader

    def insist(self, call: Callable[[], None], what: str) -> None:
        """Call until the store answers, with rising pauses and jitter."""
        for pause in pauses(_FIRST_PAUSE, _LONGEST_PAUSE):
            try:
                call()
                return
            except TRANSIENT as error:
                if self._queue.ended:
                    raise
                self.retries += 1
                self.last_error = error
                log.warning("%s: %s failed, trying again: %s", self._queue.name, what, error)
            self._queue.clock.sleep(pause)

    def _encoded_in_turn(self, flush: Flush) -> BytesLike:
        """A flush's bytes: encoding takes several times their memory, so no two are encoded at once."""
        queue = self._queue
        with self._encoding:
            with queue.lock:
                while self._encoded and self._encoded + flush.bytes > ENCODED_BYTES and queue.error is None:
                    queue.work.wait()
            sst = queue.tree.table.definition.sst_writer(values=flush.memtable.values)
            sst.add(flush.memtable.freeze())
            data = sst.finish().data
            release()
            with queue.lock:
                self._encoded += len(data)
            return data
