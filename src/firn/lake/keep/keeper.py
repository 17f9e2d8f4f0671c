"""The keeper of a process that appends: one thread for all its tables that keep themselves.

It begins with the first append. A forked child has none until it appends itself.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

from firn.concurrency.at_exit import ThreadedHandle, is_ending, unclosed
from firn.concurrency.background import Background
from firn.concurrency.forked import after_fork, unheld
from firn.keeping import rest_after
from firn.lake.context import LakeContext
from firn.lake.keep.policy import LOOK_CHANCE, OLDEST_MS
from firn.lake.keep.table_keeper import TableKeeper
from firn.runner import Engines

FORGET_S = 600.0
"""A table that nobody has appended to for so long is forgotten, with what is known of it."""


@dataclass
class _Kept:
    """A table, and when it is to be looked at: None if nobody has appended since. Never sooner than `not_before`,
    whatever is appended: after an error, and while somebody holds the lock."""

    keeper: TableKeeper
    used: float
    due: float | None = None
    not_before: float = 0.0
    ended: bool = False
    """Whether it is done with: its connection was closed, or an error won't go away."""
    refused: WeakSet[Engines] = field(default_factory=WeakSet)
    """Connections by which that error was met: of each it is told once, however they take turns."""
    other: LakeContext | None = None
    """The table of another connection that has appended since: it goes on where the owner is closed."""

    @property
    def owner(self) -> Engines:
        """Of the connection that appended first. Others that append to the table have it kept by that one."""
        return self.keeper.table.engines


class _Connection(ThreadedHandle):
    """What the end of a connection, or of the process, ends: the keeping of its tables."""

    def __init__(self, keeper: Keeper, owner: Engines) -> None:
        self._keeper, self._owner = keeper, owner

    @property
    def owner(self) -> Engines:
        return self._owner

    def begin_closing(self) -> None:
        self._keeper.forget(self._owner)

    def close_within(self, seconds: float) -> None:
        """A round that takes longer is left to its thread: it ends after the commit under way, or with the process,
        and then leaves nothing visible."""
        self._keeper.wait_for(self._owner, seconds)

    def _orphaned(self) -> None:
        """The child has a keeper of its own, once it appends."""


class Keeper:
    """Looks after the tables that this process appends to.

    Args:
        chance: gives numbers from 0 to 1.
        threaded: False leaves calling `step` to the caller.
    """

    def __init__(
        self,
        *,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
        threaded: bool = True,
    ) -> None:
        self._chance, self._monotonic, self._threaded = chance, monotonic, threaded
        self._tables: dict[tuple[str, str], _Kept] = {}
        self._connections: dict[int, _Connection] = {}
        self._changed = threading.Condition()
        self._busy: _Kept | None = None
        self._thread: Background | None = None

    def appended(self, table: LakeContext) -> None:
        """Take note of an append: now and then, have a look at the table. No request."""
        now, owner = self._monotonic(), table.engines
        name = table.bucket.uri(table.prefix), table.created.id
        with self._changed:
            if owner.closed or is_ending():
                return
            kept = self._tables.get(name)
            if kept is None:
                kept = self._begin(name, _Kept(TableKeeper(table, chance=self._chance), now))
            elif kept.ended and owner not in kept.refused:  # a new connection may have the right
                kept = _Kept(TableKeeper(table, chance=self._chance), now, refused=kept.refused)
                self._begin(name, kept)
            kept.used = now
            if owner is not kept.owner:
                kept.other = table
            if self._chance() < LOOK_CHANCE:
                self._look_at(kept, now, table)
            elif table.definition.inline:
                self._look_at(kept, now + OLDEST_MS / 1000 * (1 + self._chance() / 4), table)

    def _begin(self, name: tuple[str, str], kept: _Kept) -> _Kept:
        self._tables[name] = kept
        if id(kept.owner) not in self._connections:
            self._connections[id(kept.owner)] = connection = _Connection(self, kept.owner)
            unclosed.add(connection)
        return kept

    def _look_at(self, kept: _Kept, at: float, table: LakeContext) -> None:
        """Have it looked at, at a time; `table` is what was appended to, which may know of later alterations."""
        at = max(at, kept.not_before)
        if kept.ended or (kept.due is not None and kept.due <= at):
            return
        kept.due = at
        kept.keeper.learn(table)
        self._wake()

    def _wake(self) -> None:
        """Have the thread see what is due, if there is one to be."""
        if not self._threaded:
            return
        if self._thread is None or not self._thread.running:
            self._thread = Background("firn-keeper", self.step, self._failed, first=0.0)
        else:
            self._thread.poke()

    def step(self) -> float | None:
        """Look at the table that has waited longest, if any is due; in how many seconds the next one is."""
        now = self._monotonic()
        with self._changed:
            kept = self._next(now)
            if kept is None:
                return self._pause(now)
            kept.due, self._busy = None, kept
        rest, failed = None, False
        try:
            if kept.keeper.table.definition.keeps_itself:  # it may have been altered
                failed = kept.keeper.round(ended=lambda: kept.ended).busy > 0
                rest = kept.keeper.rest_s
        except BaseException as error:
            rest, failed = rest_after(error, kept.keeper.table.name), True
            if rest is None:
                kept.ended = True
                kept.refused.add(kept.owner)
        finally:
            with self._changed:
                self._busy = None
                self._changed.notify_all()
                if rest is not None and not kept.ended:
                    again = now + rest
                    if failed:
                        kept.due = kept.not_before = again
                    else:
                        kept.due = again if kept.due is None else min(kept.due, again)
        return self._pause(self._monotonic())

    def _next(self, now: float) -> _Kept | None:
        due = [kept for kept in self._tables.values() if kept.due is not None and kept.due <= now]
        return min(due, key=lambda kept: kept.due or 0.0, default=None)

    def _pause(self, now: float) -> float | None:
        with self._changed:
            at_rest = {name: k.used + FORGET_S for name, k in self._tables.items() if k.due is None}
            for name in [name for name, until in at_rest.items() if until <= now]:
                del self._tables[name], at_rest[name]
            for owner in self._connections.keys() - {id(kept.owner) for kept in self._tables.values()}:
                del self._connections[owner]
            due = [kept.due for kept in self._tables.values() if kept.due is not None]
        return max(0.0, min((*due, *at_rest.values())) - now) if due or at_rest else None

    def forget(self, owner: Engines) -> None:
        """Begin no round of a connection's tables any more by it; one under way ends after its commit. Where it was
        closed, another that has appended goes on."""
        with self._changed:
            for name in [name for name, kept in self._tables.items() if kept.owner is owner]:
                kept = self._tables.pop(name)
                other = kept.other
                if other is not None and owner.closed and not (kept.ended or other.engines.closed):
                    now = self._monotonic()
                    due = now if self._busy is kept else kept.due
                    after = _Kept(TableKeeper(other, chance=self._chance), kept.used, due, kept.not_before)
                    self._begin(name, after)
                    self._wake()
                kept.ended = True
            self._connections.pop(id(owner), None)

    def wait_for(self, owner: Engines, seconds: float) -> None:
        """Wait until no round of a connection's tables is under way, or so long."""
        if not self._is_own_thread():
            with self._changed:
                self._changed.wait_for(lambda: self._busy is None or self._busy.owner is not owner, seconds)

    def _is_own_thread(self) -> bool:
        return threading.current_thread().name == "firn-keeper"

    def _failed(self, error: BaseException) -> None:
        rest_after(error, "tables")


_keepers: list[Keeper] = []
"""This process's, once it has one."""
_making = unheld(threading.Lock())


def appended(table: LakeContext) -> None:
    """Take note of an append to a table that keeps itself. No request."""
    with _making:
        if not _keepers:
            _keepers.append(Keeper())
        keeper = _keepers[0]
    keeper.appended(table)


after_fork(_keepers.clear)  # a child has none of its parent's threads
