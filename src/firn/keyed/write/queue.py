"""The memtables of an open writer: the one that takes puts, and the frozen ones that aren't in the bucket yet.

One lock guards everything that puts change. It says when a put must wait, and when a memtable is to be flushed.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from firn.concurrency.single_flight import again
from firn.errors import InvalidInputError
from firn.journal.manifest import View
from firn.keyed.merge.memtable import Memtable
from firn.keyed.sst.reader import SstReader
from firn.keyed.write.pressure import PACE_BYTES, Pressure
from firn.keyed.write.tree import WriterTree

MOST_BYTES = 1 << 30
"""Bytes of a memtable at most, whatever the properties say: it is to be one batch of Arrow."""

SHORTEST_WAIT_S = 0.01
"""Shorter waits of puts are put together: on a busy machine each wait takes much longer than it should."""


class Flush:
    """A frozen memtable on its way."""

    __slots__ = ("bytes", "memtable", "reader", "taken")

    def __init__(self, memtable: Memtable) -> None:
        self.memtable, self.bytes = memtable, memtable.bytes
        self.reader: SstReader | None = None
        """Reads its L0 object, once that is up."""
        self.taken = False

    @property
    def number(self) -> int:
        return self.memtable.number


class MemtableQueue:
    """The memtables that aren't in the bucket yet, the oldest first. `number` is that of the first L0 object."""

    def __init__(self, tree: WriterTree, number: int) -> None:
        self.tree = tree
        self.name, self.clock = tree.table.bucket.uri(tree.table.prefix), tree.table.clock
        self.lock = threading.Lock()
        self.work, self.done = threading.Condition(self.lock), threading.Condition(self.lock)
        """Notified of what there is to flush, and of what is flushed."""
        self.error: BaseException | None = None
        """The error that ended the writer."""
        self.closing = self.ended = False
        """Whether it takes no more puts, and whether it flushes nothing any more."""
        self.active = self._empty(number)
        self.frozen: deque[Flush] = deque()
        self.limit = 0
        """Bytes of the active memtable at which a put asks for room first; 0 while puts must wait."""
        self.flushes = self.flushed_bytes = self.stalls = 0
        self._wanted = number - 1
        self._since = self._frozen_at = self._paced_to = 0.0
        self._paced_bytes = self._frozen_bytes = 0
        with self.lock:
            self.grow_locked()
            self._limit_locked()

    # -- puts

    def check_locked(self) -> None:
        """Raise the error that ended the writer."""
        if self.error is not None:
            raise again(self.error)
        if self.closing:
            raise InvalidInputError(f"the writer of {self.name} is closed. Open the table again to go on.")

    def make_room_locked(self, need: int = 0) -> Memtable:
        """The memtable that takes a put. Freeze the active one if it is full, or would be by `need` bytes more; slow
        down while much is unflushed or L0 is large, and wait while it is too much."""
        self.check_locked()
        active = self.active
        if len(active) and (active.bytes >= self._memtable_bytes or active.bytes + need > MOST_BYTES):
            self._freeze_locked()
        if self._pressure_locked.full:
            self.stalls += 1
            while self._pressure_locked.full:
                if len(self.active) and not self.frozen:
                    self._freeze_locked()
                self.done.wait()
                self.check_locked()
        else:
            self._slow_down_locked()
        self._limit_locked()
        return self.active

    def begun_locked(self) -> None:
        """The active memtable gets its first entry: `flush_ms` counts from now."""
        self._since = self.clock.monotonic()
        self.work.notify()

    def want_locked(self, number: int) -> None:
        """Flush `number` is waited for: it begins at once if none is under way."""
        if number > self._wanted:
            self._wanted = number
            self.work.notify()

    # -- flushes

    @property
    def unflushed(self) -> int:
        """Bytes that aren't durable, about."""
        return self._frozen_bytes + self.active.bytes

    @property
    def durable(self) -> int:
        """All flushes up to this number are acknowledged."""
        return (self.frozen[0] if self.frozen else self.active).number - 1

    def up_locked(self) -> int:
        """The number up to which all flushes are up."""
        return next((flush.number for flush in self.frozen if flush.reader is None), self.active.number) - 1

    def take_locked(self) -> Flush | None:
        """The oldest memtable that nobody has taken, as soon as there is one; None at the end."""
        while self.error is None:
            due = self._due_locked()
            if due == 0.0:
                self._freeze_locked()
            for flush in self.frozen:
                if not flush.taken:
                    flush.taken = True
                    return flush
            if self.ended:
                break
            self.work.wait(due)
        return None

    def land_locked(self, number: int) -> None:
        """All flushes up to a number are durable."""
        landed = False
        while self.frozen and self.frozen[0].number <= number:
            flush, landed = self.frozen.popleft(), True
            assert flush.reader is not None
            self._frozen_bytes -= flush.bytes
            self.flushes += 1
            self.flushed_bytes += flush.reader.size
            self.tree.land(flush.number, flush.reader)
        if landed:
            self.grow_locked()
            self._limit_locked()
            self.done.notify_all()

    # -- the table

    def grow_locked(self) -> None:
        """Let reads begin from what there is now. Puts are slowed down, wait or go on by how large L0 is."""
        before, waited = self.tree.pressure, self._pressure_locked.full
        self.tree.grow(self.active, [flush.memtable for flush in self.frozen])
        if self.tree.pressure != before:
            self._limit_locked()
            if waited and not self._pressure_locked.full:
                self.done.notify_all()

    def install_locked(self, view: View) -> None:
        """Read by the manifest of a view, and go by the definition that it tells. What was put before keeps the
        columns that the table had then, in a memtable of its own."""
        before = self.tree.table
        self.tree.install(view)
        table = self.tree.table
        if table is before:
            self.grow_locked()
            return
        if not table.values.same(before.values):
            if len(self.active):
                self._freeze_locked()
            else:
                self.active = self._empty(self.active.number)
        self._limit_locked()
        self.grow_locked()
        self._notify_locked()

    # -- the end

    def close_locked(self) -> None:
        """Take no more puts; all that was put is flushed."""
        self.closing, self.limit = True, 0
        self._notify_locked()

    def end_locked(self) -> None:
        """Flush nothing any more."""
        self.ended = True
        self._notify_locked()

    def fail(self, error: BaseException) -> None:
        """End the writer: all who wait, and all who come, get the error."""
        with self.lock:
            if self.error is None:
                self.error, self.limit = error, 0
            self.end_locked()

    def orphaned(self) -> None:
        """In a forked child: its parent's threads, which would flush, aren't there, and a lock may never be free."""
        self.error = InvalidInputError(
            f"the writer of {self.name} belongs to the process that this one was forked from. Open the table here, "
            "which fences that one, or put through it."
        )
        self.limit, self.ended = 0, True
        self.lock = threading.Lock()
        self.work, self.done = threading.Condition(self.lock), threading.Condition(self.lock)

    # -- bounds

    def _slow_down_locked(self) -> None:
        """One short wait for what was put since the last one, for all threads together."""
        put = self.active.bytes - self._paced_bytes
        now = self.clock.monotonic()
        self._paced_to = max(now, self._paced_to) + self._pressure_locked.wait_s(max(put, 0))
        self._paced_bytes = self.active.bytes
        end = self._paced_to
        if end - now < SHORTEST_WAIT_S:
            return  # owed: it is waited for together with what comes
        while (left := end - self.clock.monotonic()) > 0 and self._pressure_locked.wait_s(PACE_BYTES):
            self.done.wait(left)
            self.check_locked()

    def _due_locked(self) -> float | None:
        """Seconds until the active memtable is to be flushed; None while nothing asks for it."""
        if not len(self.active):
            return None
        if self.closing:
            return 0.0
        now, next_s = self.clock.monotonic(), self._frozen_at + self.tree.pressure.pause_s()
        if self._wanted < self.active.number or self.frozen:
            next_s = max(next_s, self._since + self.tree.table.settings.flush_ms / 1000)
        return min(threading.TIMEOUT_MAX, max(0.0, next_s - now))

    def _freeze_locked(self) -> None:
        """The active memtable joins the queue; another takes its place."""
        flush = Flush(self.active)
        self.frozen.append(flush)
        self._frozen_bytes += flush.bytes
        self.active = self._empty(flush.number + 1)
        self._frozen_at, self._paced_bytes = self.clock.monotonic(), 0
        self._limit_locked()
        self.grow_locked()
        self.work.notify()

    def _empty(self, number: int) -> Memtable:
        table = self.tree.table
        return Memtable(number, table.values, table.operator, seqs=table.definition.seqs)

    @property
    def _memtable_bytes(self) -> int:
        return min(self.tree.table.settings.memtable_size, MOST_BYTES)

    @property
    def _pressure_locked(self) -> Pressure:
        """How much of the bounds is used."""
        return replace(self.tree.pressure, unflushed=self.unflushed / self.tree.table.settings.max_unflushed)

    def _limit_locked(self) -> None:
        """Set `limit`."""
        pressure, room = self._pressure_locked, self.tree.table.settings.max_unflushed
        if self.error is not None or self.closing or pressure.full:
            self.limit = 0
            return
        calm = room // 2 - self._frozen_bytes
        if self.active.bytes >= calm or pressure.wait_s(PACE_BYTES):
            calm = self.active.bytes + min(PACE_BYTES, room // 16)
        self.limit = min(self._memtable_bytes, room - self._frozen_bytes, calm)

    def _notify_locked(self) -> None:
        self.work.notify_all()
        self.done.notify_all()
