"""The flusher: memtables become L0 objects in the background, and whoever waits for one is told.

One lock guards everything that puts change. Worker threads take frozen memtables, encode them and put them up,
several at once; a flush counts as durable once it may be acknowledged (rules 6 and 7), in the order of
numbers. A failing store is tried again for as long as it takes; what can't be mended by that ends the writer,
and everyone is told.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from firn.bucket.base import BytesLike
from firn.clock import Clock
from firn.concurrency.background import TRANSIENT
from firn.concurrency.single_flight import again
from firn.errors import FencedError, InvalidInputError, OutcomeUnknownError
from firn.keyed.definition.settings import KeyedSettings
from firn.keyed.memory import LetGo, give_back, release
from firn.keyed.merge.memtable import Memtable
from firn.keyed.sst.reader import SstReader
from firn.keyed.write.pressure import CALM, PACE_BYTES, Pressure

MAX_IN_FLIGHT = 4
"""Flushes under way at once."""

ENCODED_BYTES = 16 << 20
"""L0 objects that wait for their PUT have no more than this together, or are one: one after the other is encoded."""

MOST_BYTES = 1 << 30
"""Of a memtable that is to be one batch of Arrow, whatever the properties say."""

SHORTEST_WAIT_S = 0.01
"""Of a put that is slowed down: on a busy machine each wait takes much longer than it should."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 10.0

log = logging.getLogger("firn.keyed")


class FlushSession(Protocol):
    """What the flusher needs of the journal's `WriterSession`."""

    def put_l0(self, number: int, data: BytesLike) -> None: ...

    def confirm(self, number: int) -> None: ...


class Flush:
    """A frozen memtable on its way."""

    __slots__ = ("bytes", "memtable", "reader", "taken")

    def __init__(self, memtable: Memtable) -> None:
        self.memtable, self.bytes = memtable, memtable.bytes
        self.reader: SstReader | None = None
        """Of its L0 object, once that is up."""
        self.taken = False

    @property
    def number(self) -> int:
        return self.memtable.number


class Flusher:
    """The memtables that aren't in the bucket yet.

    Args:
        number: of the first L0 object.
        new_memtable: makes an empty one.
        encode: a frozen memtable's L0 object.
        opened: the reader of an L0 object, by its number and bytes.
        changed: called with the lock held when a memtable was frozen (no flushes), or flushes became durable.
    """

    def __init__(
        self,
        session: FlushSession,
        number: int,
        settings: KeyedSettings,
        *,
        new_memtable: Callable[[int], Memtable],
        encode: Callable[[Memtable], BytesLike],
        opened: Callable[[int, BytesLike], SstReader],
        changed: Callable[[tuple[Flush, ...]], None],
        clock: Clock,
        name: str,
    ) -> None:
        self._session, self._settings, self._clock, self._name = session, settings, clock, name
        self._new_memtable, self._encode, self._changed = new_memtable, encode, changed
        self._opened = opened
        self.lock = threading.Lock()
        self._work = threading.Condition(self.lock)
        self._done = threading.Condition(self.lock)
        self._stop = threading.Event()
        self.active = new_memtable(number)
        self.limit = 0
        """Bytes of the active memtable at which a put asks for room first; 0 while puts must wait."""
        self.queue: deque[Flush] = deque()
        self.durable = number - 1
        """All flushes up to this number are acknowledged."""
        self._memtable_bytes = min(settings.memtable_size, MOST_BYTES)
        self.error: BaseException | None = None
        self.last_error: BaseException | None = None
        """Of the last try that failed and was made again."""
        self.flushes = self.flushed_bytes = self.retries = self.stalls = 0
        self._wanted = number - 1
        self._since = self._frozen_at = self._paced_to = 0.0
        self._paced_bytes = self._queued = 0
        self._l0 = CALM
        self._encoding = threading.Lock()
        self._encoded = 0
        self._let_go = LetGo()
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._random = random.Random()
        self._limit_locked()

    # -- for the writer

    def check_locked(self) -> None:
        """Raise what ended the writer."""
        if self.error is not None:
            raise again(self.error)
        if self._closing:
            raise InvalidInputError(f"the writer of {self._name} is closed. Open the table again to go on.")

    def begun_locked(self) -> None:
        """The active memtable got its first entry: `flush_ms` counts from now."""
        self._since = self._clock.monotonic()
        self._start_worker_locked()
        self._work.notify()

    def make_room_locked(self, need: int = 0) -> None:
        """Freeze the active memtable if it is full, or would be by `need` bytes more; slow down while much is
        unflushed or L0 is large, and wait while it is too much."""
        self.check_locked()
        active = self.active
        if len(active) and (active.bytes >= self._memtable_bytes or active.bytes + need > MOST_BYTES):
            self._freeze_locked()
        if self._pressure_locked.full:
            self.stalls += 1
            while self._pressure_locked.full:
                if len(self.active) and not self.queue:
                    self._freeze_locked()
                self._done.wait()
                self.check_locked()
        else:
            self._slow_down_locked()
        self._limit_locked()

    def _slow_down_locked(self) -> None:
        """One short wait for what was put since the last one, for all threads together."""
        put = self.active.bytes - self._paced_bytes
        now = self._clock.monotonic()
        self._paced_to = max(now, self._paced_to) + self._pressure_locked.wait_s(max(put, 0))
        self._paced_bytes = self.active.bytes
        end = self._paced_to
        if end - now < SHORTEST_WAIT_S:
            return  # owed: it is waited for together with what comes
        while (left := end - self._clock.monotonic()) > 0 and self._pressure_locked.wait_s(PACE_BYTES):
            self._done.wait(left)
            self.check_locked()

    def wait_locked(self, number: int, timeout: float | None = None) -> None:
        """Return when flush `number` is durable; it begins at once if none is under way."""
        if number > self._wanted:
            self._wanted = number
            self._work.notify()
        deadline = None if timeout is None else self._clock.monotonic() + min(timeout, threading.TIMEOUT_MAX)
        while self.durable < number:
            if self.error is not None:
                raise again(self.error)
            left = None if deadline is None else deadline - self._clock.monotonic()
            if left is not None and left <= 0:
                raise OutcomeUnknownError(
                    f"{self._name}: the flush of what was put isn't acknowledged after {timeout:g} s. It goes on in "
                    "the background: flush() waits for it again, and stats() has the errors of the store."
                )
            self._done.wait(left)

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything put so far is durable."""
        with self.lock:
            if self.error is not None:
                raise again(self.error)
            self.wait_locked(self.active.number if len(self.active) else self.active.number - 1, timeout)

    def lag_locked(self, l0: Pressure) -> None:
        """How far compaction lags behind: puts are slowed down, or wait, or go on."""
        waited = self._pressure_locked.full
        self._l0 = l0
        self._limit_locked()
        if waited and not self._pressure_locked.full:
            self._done.notify_all()

    def adopt_locked(self, settings: KeyedSettings) -> None:
        """Go by other settings from now on."""
        self._settings = settings
        self._memtable_bytes = min(settings.memtable_size, MOST_BYTES)
        self._limit_locked()
        self._work.notify_all()
        self._done.notify_all()

    @property
    def unflushed(self) -> int:
        """Bytes that aren't durable, about."""
        return self._queued + self.active.bytes

    def fail(self, error: BaseException) -> None:
        """End the writer: whoever waits, and whoever comes, gets the error."""
        with self.lock:
            if self.error is None:
                self.error = error
                self.limit = 0
            self._stop.set()
            self._work.notify_all()
            self._done.notify_all()

    def orphaned(self) -> None:
        """In a forked child: its parent's threads, which would flush, aren't there, and a lock may never be free."""
        self.error = InvalidInputError(
            f"the writer of {self._name} belongs to the process that this one was forked from. Open the table here, "
            "which fences that one, or put through it."
        )
        self.limit = 0
        self._stop.set()
        self.lock = threading.Lock()
        self._work, self._done = threading.Condition(self.lock), threading.Condition(self.lock)

    def close(self, timeout: float | None = None) -> None:
        """Take no more puts, flush all, and stop the threads; those stop even if the flush fails."""
        with self.lock:
            self._closing = True
            self.limit = 0
            self._work.notify_all()
            self._done.notify_all()
        try:
            self.flush(timeout)
        finally:
            self._stop.set()
            with self.lock:
                self._work.notify_all()
                threads = list(self._threads)
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            give_back()

    # -- the workers

    def _start_worker_locked(self) -> None:
        """Another thread, if all are busy and there may be more work."""
        if self._idle == 0 and len(self._threads) < MAX_IN_FLIGHT:
            name = f"firn-flush-{len(self._threads)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            self._idle += 1
            thread.start()

    def _run(self) -> None:
        try:
            while (flush := self._next()) is not None:
                self._put_up(flush)
                self._acknowledge()
                size, flush = flush.bytes, None  # or it would be held until the next one
                self._let_go.add(size)
        except BaseException as error:  # whatever it is, who waits for the flush must learn it
            if not isinstance(error, FencedError):
                log.error("the writer of %s ends: %s", self._name, error)
            self.fail(error)

    def _next(self) -> Flush | None:
        """The oldest memtable that nobody has taken, as soon as there is one; None at the end."""
        with self.lock:
            while True:
                if self.error is not None:
                    return None
                due = self._due_locked()
                if due == 0.0:
                    self._freeze_locked()
                for flush in self.queue:
                    if not flush.taken:
                        flush.taken = True
                        self._idle -= 1
                        return flush
                if self._stop.is_set():
                    return None
                self._work.wait(due)

    def _due_locked(self) -> float | None:
        """Seconds until the active memtable is to be flushed; None while nothing asks for it."""
        if not len(self.active):
            return None
        if self._closing:
            return 0.0
        now, next_s = self._clock.monotonic(), self._frozen_at + self._l0.pause_s()
        if self._wanted < self.active.number or self.queue:
            next_s = max(next_s, self._since + self._settings.flush_ms / 1000)
        return min(threading.TIMEOUT_MAX, max(0.0, next_s - now))

    def _freeze_locked(self) -> None:
        """The active memtable joins the queue; another takes its place."""
        flush = Flush(self.active)
        self.queue.append(flush)
        self._queued += flush.bytes
        self.active = self._new_memtable(flush.number + 1)
        self._frozen_at, self._paced_bytes = self._clock.monotonic(), 0
        self._limit_locked()
        self._changed(())
        self._start_worker_locked()
        self._work.notify()

    def _put_up(self, flush: Flush) -> None:
        data = self._encoded_in_turn(flush)
        try:
            self._insist(lambda: self._session.put_l0(flush.number, data), f"flush {flush.number}")
            reader = self._opened(flush.number, data)
        finally:
            with self.lock:
                self._encoded -= len(data)
                self._work.notify_all()
        with self.lock:
            flush.reader = reader

    def _encoded_in_turn(self, flush: Flush) -> BytesLike:
        """A flush's bytes: encoding takes several times their memory, so no two are encoded at once."""
        with self._encoding:
            with self.lock:
                while self._encoded and self._encoded + flush.bytes > ENCODED_BYTES and self.error is None:
                    self._work.wait()
            data = self._encode(flush.memtable)
            release()
            with self.lock:
                self._encoded += len(data)
            return data

    def _acknowledge(self) -> None:
        """Make durable what is up without a gap."""
        with self.lock:
            up = self.durable
            for flush in self.queue:
                if flush.reader is None:
                    break
                up = flush.number
        if up > self.durable:
            self._insist(lambda: self._session.confirm(up), f"acknowledging flush {up}")
        with self.lock:
            landed = []
            while self.queue and self.queue[0].number <= up:
                flush = self.queue.popleft()
                self._queued -= flush.bytes
                self.flushes += 1
                assert flush.reader is not None
                self.flushed_bytes += flush.reader.size
                landed.append(flush)
            self._idle += 1
            if landed:
                self.durable = max(self.durable, up)
                self._changed(tuple(landed))
                self._limit_locked()
                self._done.notify_all()
            self._work.notify()

    def _insist(self, call: Callable[[], None], what: str) -> None:
        """Call until the store answers, with rising pauses and jitter."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return call()
            except TRANSIENT as error:
                if self._stop.is_set():
                    raise
                self.retries += 1
                self.last_error = error
                log.warning("%s: %s failed, trying again: %s", self._name, what, error)
            self._clock.sleep(pause * (0.5 + self._random.random() / 2))
            pause = min(2 * pause, _LONGEST_PAUSE)

    @property
    def _pressure_locked(self) -> Pressure:
        """How much of the bounds is used."""
        return replace(self._l0, unflushed=self.unflushed / self._settings.max_unflushed)

    def _limit_locked(self) -> None:
        """Set `limit`."""
        pressure = self._pressure_locked
        if self.error is not None or self._closing or pressure.full:
            self.limit = 0
            return
        calm = self._settings.max_unflushed // 2 - self._queued
        if self.active.bytes >= calm or pressure.wait_s(PACE_BYTES):
            calm = self.active.bytes + min(PACE_BYTES, self._settings.max_unflushed // 16)
        self.limit = min(self._memtable_bytes, self._settings.max_unflushed - self._queued, calm)
