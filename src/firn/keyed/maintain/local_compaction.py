"""The compactor beside an open writer, in its process: it compacts when the policy asks for it, and doesn't take that
work away from a compactor that is under way elsewhere.

A compactor takes the compactor's epoch, which makes void what another one has under way. A person who calls
`compact` means that; a thread that nobody has called must not. So it looks for signs of another: an epoch that has
committed nothing yet, or SSTs that no manifest has settled. It takes over when these haven't changed for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from firn.concurrency.background import Background
from firn.errors import FencedError
from firn.journal.manifest import CompactorSession, View
from firn.keyed.context import OpenWriter
from firn.keyed.maintain.compaction import CompactionReport, compact, compact_once, policy_of
from firn.keyed.maintain.policy import plan_compaction
from firn.runner import LocalRunner

T = TypeVar("T")

RUNNER = LocalRunner(1)
"""A writer's own compaction stays in its process, and in one thread: it takes turns with puts and flushes, and its
memory is part of theirs."""

PATIENCE_S = 60.0
"""For how long another compactor may give no sign before its work is taken over."""

CROWDED_PATIENCE_S = 15.0
"""The same while puts wait for a compaction."""

LONGEST_PATIENCE_S = 3600.0
"""It doubles each time that another takes over, up to this; after as long without that it begins anew."""


class Turns:
    """Whether the compactor's epoch may be taken from another.

    Args:
        uncommitted: how many SSTs of the compactor's epoch no manifest has settled, by a view.
        monotonic: seconds.
        crowded: whether puts wait for a compaction.
    """

    def __init__(
        self, uncommitted: Callable[[View], int], monotonic: Callable[[], float], crowded: Callable[[], bool]
    ) -> None:
        self._uncommitted, self._monotonic, self._crowded = uncommitted, monotonic, crowded
        self._mine = -1
        self._signs: object = None
        self._since = 0.0
        self._waiting = False
        self._fences, self._fenced_at = 0, 0.0

    def may_take(self, view: View) -> bool:
        """By a view of now. 1 LIST if the epoch is another's."""
        pointer, now = view.pointer, self._monotonic()
        if pointer.compactor_epoch < pointer.first_epoch or pointer.compactor_epoch == self._mine:
            return True
        uncommitted = self._uncommitted(view)
        if not self._fences and not uncommitted and pointer.compactor_epoch == view.manifest.compactor_epoch:
            return True
        signs = (pointer.compactor_epoch, view.manifest.name, uncommitted)
        if signs != self._signs:
            self._signs, self._since = signs, now
        self._waiting = now - self._since < self._patience()
        return not self._waiting

    def pause(self) -> float | None:
        """Seconds until it is worth asking again; None where nobody is waited for, or was for long enough."""
        left = self._since + self._patience() - self._monotonic()
        self._waiting = self._waiting and left > 0
        return left if self._waiting else None

    def mine(self, epoch: int) -> None:
        """An epoch that this process has taken itself."""
        self._mine = epoch

    def fenced(self) -> None:
        """Another compactor has taken over from this one: it is alive."""
        now = self._monotonic()
        if now - self._fenced_at >= LONGEST_PATIENCE_S:
            self._fences = 0
        self._fences, self._fenced_at = self._fences + 1, now

    def _patience(self) -> float:
        first = CROWDED_PATIENCE_S if self._crowded() else PATIENCE_S
        return min(LONGEST_PATIENCE_S, first * 2.0 ** max(0, min(self._fences, 20) - 1))


class OwnCompaction:
    """Compacts by hand, and once it is started in a thread of its own. Never both at once: they'd fence each other.

    `writer` is the table's, in this process.
    """

    def __init__(self, writer: OpenWriter) -> None:
        self._writer, table = writer, writer.table
        self._session: CompactorSession | None = None
        self._one = threading.Lock()
        self._thread: Background | None = None
        self.turns = Turns(table.journal.uncommitted, table.clock.monotonic, lambda: writer.crowded)
        self.count = 0
        """Compactions in the background so far."""

    def start(self, wanted: threading.Event, failed: Callable[[BaseException], None]) -> None:
        """Compact in the background from now on, whenever `wanted` is set. `failed`: it has ended by an error."""
        name = f"firn-compact-{self._writer.table.name}"
        self._thread = Background(name, self.work, failed, first=0.0, wake=wanted)

    def beside(self, work: Callable[[], T]) -> T:
        """Work that takes the compactor's epoch, while nothing is compacted here; one elsewhere is fenced."""
        with self._one:
            done = work()
            self._session = None
        self._writer.poll()
        self.turns.mine(self._writer.view.pointer.compactor_epoch)
        return done

    @property
    def last_error(self) -> BaseException | None:
        return None if self._thread is None else self._thread.last_error

    def stop(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.stop(timeout)

    def by_hand(self, *, full: bool) -> CompactionReport:
        """Compact now, and take over from another compactor."""
        return self.beside(lambda: compact(self._writer.table, full=full, runner=RUNNER))

    def work(self) -> float | None:
        """Compact for as long as the policy asks for it; the seconds after which to look again, None: when poked."""
        policy = policy_of(self._writer.table)
        while not self._writer.ended and plan_compaction(self._writer.view, policy) is not None:
            if self._session is None and (pause := self.turns.pause()) is not None:
                return pause
            try:
                with self._one:
                    self._session, view = compact_once(
                        self._writer.table,
                        self._session,
                        runner=RUNNER,
                        may_take=self.turns.may_take,
                        seen=self._writer,
                    )
            except FencedError:
                self._session = None
                self.turns.fenced()
                continue
            if view is None:
                if (pause := self.turns.pause()) is None:
                    self._writer.poll()  # another process has compacted, and this one doesn't know yet
                return pause
            self.turns.mine(view.pointer.compactor_epoch)
            self.count += 1
            self._writer.poll()
        return None
