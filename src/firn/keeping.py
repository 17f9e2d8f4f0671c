"""Keeping, whatever kind of table: what a keeper reports, how it rests, and which errors it goes on after."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from firn.errors import (
    AccessDeniedError,
    CorruptObjectError,
    FirnError,
    InvalidInputError,
    LockHeldError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.units import Duration, parse_duration

log = logging.getLogger("firn")

AFTER_ERROR_S = 60.0
"""How long a table rests after an error that may pass."""
LOOK_S = 0.25
"""How often a resting keeper looks whether it is to stop."""
Interval = str | float | timedelta | tuple[Duration, Duration]
REST_S = 1.0, 60.0
"""How long a keeper in a process of its own rests: after work, and at most, when there is none."""


@dataclass(frozen=True)
class KeepReport:
    """What a keeper did for a table.

    Attributes:
        folds: how often rows of logs were written into files, or files merged with them.
        commits: those whose rows these folds took, and `rows` how many these are.
        files_merged: files that went into larger ones; of keyed tables, those that were compacted.
        deleted: objects that a sweep deleted.
        busy: tries that met a lock somebody else held.
        error: what kept it from working, if something did.
    """

    table: str
    folds: int = 0
    commits: int = 0
    rows: int = 0
    files_merged: int = 0
    deleted: int = 0
    busy: int = 0
    error: str | None = None

    @property
    def worked(self) -> bool:
        """Whether anything was there to do."""
        return bool(self.folds or self.files_merged or self.deleted)

    def __add__(self, later: KeepReport) -> KeepReport:
        names = [f.name for f in fields(self) if f.name not in ("table", "error")]
        sums = {name: getattr(self, name) + getattr(later, name) for name in names}
        return replace(self, **sums, error=later.error)


def rest_after(error: BaseException, table: str) -> float | None:
    """For how many seconds a keeper leaves a table alone after an error, which is logged; None for ever."""
    if isinstance(error, TableNotFoundError):
        return None
    if isinstance(error, AccessDeniedError):
        log.warning("%s isn't kept: this process may not maintain it. %s", table, error)
        return None
    if isinstance(error, UnsupportedError):
        log.warning("%s isn't kept: this process can't. %s", table, error)
        return None
    if isinstance(error, CorruptObjectError):
        log.error("%s isn't kept any more: %s", table, error)
        return None
    if isinstance(error, FirnError):
        log.warning("keeping %s failed, trying again in %g s: %s", table, AFTER_ERROR_S, error)
        return AFTER_ERROR_S
    log.error("keeping %s failed: %r", table, error, exc_info=error)
    return None


def never() -> bool:
    """It isn't ended yet."""
    return False


class RoundKeeper(Protocol):
    """Keeps one table, or what several share."""

    def round(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """Do what is due; with `force` also what would be soon, as nobody comes back. Once it is `ended`, only the
        commit under way is."""
        ...


@dataclass
class Turns:
    """A keeper's turns: after an error it rests, and after some it gets none any more. `gone` says that the table was
    dropped."""

    name: str
    keeper: RoundKeeper
    monotonic: Callable[[], float] = time.monotonic
    gone: bool = False
    _from: float | None = 0.0

    def take(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """A round, if it may have one; errors are logged and reported."""
        if self._from is None or self.monotonic() < self._from:
            return KeepReport(self.name)
        try:
            return self.keeper.round(force=force, ended=ended)
        except LockHeldError:
            return KeepReport(self.name, busy=1)
        except Exception as error:  # of that table alone, whatever it is
            rest = rest_after(error, self.name)
            self._from = None if rest is None else self.monotonic() + rest
            self.gone = isinstance(error, TableNotFoundError)
            return KeepReport(self.name, error=str(error) if isinstance(error, FirnError) else repr(error))


def parse_interval(text: Interval | None) -> tuple[float, float]:
    """The rests of a keeper: one duration, or the least and the greatest with two dots between.

    >>> parse_interval("1s..60s"), parse_interval("5s"), parse_interval(None)
    ((1.0, 60.0), (5.0, 5.0), (1.0, 60.0))
    """
    if text is None:
        return REST_S
    if isinstance(text, tuple):
        least, most = map(parse_duration, text)
    elif isinstance(text, str) and ".." in text:
        first, _, last = text.partition("..")
        least, most = parse_duration(first), parse_duration(last)
    else:
        least = most = parse_duration(text)
    if not 0 < least <= most:
        raise InvalidInputError(f"interval is {text!r}; it can be a duration, or two like '1s..60s'.")
    return least, most


def keep_on(work: Callable[[], bool], stop: threading.Event, rests: tuple[float, float] = REST_S) -> None:
    """Call `work` again and again until `stop` is set; it says whether there was anything to do."""
    least, most = rests
    rest = least
    while not stop.is_set():
        rest = least if work() else min(most, 2 * rest)
        pause(stop, rest)


def pause(stop: threading.Event, seconds: float) -> None:
    """Rest for so long, or until about `stop` is set, which a signal handler of this thread may do. `Event.wait`
    holds the event's lock for moments, and in one of them the handler's `Event.set` would wait for ever."""
    until = time.monotonic() + seconds
    while not stop.is_set() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_S))


@dataclass
class Keeping:
    """What a call of `keep` was asked for, by the verbs of tables and databases.

    Args:
        once: one round, instead of rounds until `stop` is set.
        budget: no table's turn begins later than so long after its round did.
        tell: given the report of each turn in which there was anything to do, or that failed.
    """

    once: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    rests: tuple[float, float] = REST_S
    budget_s: float | None = None
    tell: Callable[[KeepReport], None] = lambda report: None
    monotonic: Callable[[], float] = time.monotonic
    total: dict[str, KeepReport] = field(default_factory=dict)

    @staticmethod
    def asked(
        once: bool,
        stop: threading.Event | None,
        interval: Interval | None,
        budget: Duration | None,
        tell: Callable[[KeepReport], None] | None = None,
    ) -> Keeping:
        """`InvalidInputError` for what can't be."""
        if stop is not None and not isinstance(stop, threading.Event):
            raise InvalidInputError(f"stop is {stop!r}; it must be a threading.Event.")
        if tell is not None and not callable(tell):
            raise InvalidInputError(f"tell is {tell!r}; it must be a function that takes a report.")
        return Keeping(
            once,
            stop or threading.Event(),
            parse_interval(interval),
            None if budget is None else parse_duration(budget),
            tell or (lambda report: None),
        )

    def run(self, turns: Callable[[], Iterable[Turns]]) -> dict[str, KeepReport]:
        """Give each its turn, in any order, round after round; the sum of their reports."""

        def work() -> bool:
            began, worked = self.monotonic(), False
            ended = partial(self._is_ended, began)
            shuffled = list(turns())
            random.shuffle(shuffled)
            for each in shuffled:
                if ended():
                    break
                report = each.take(force=self.once, ended=ended)
                worked |= report.worked
                found = self.total.get(each.name)
                self.total[each.name] = report if found is None else found + report
                if report.worked or report.error is not None:
                    self.tell(report)
            return worked

        if self.once:
            work()
        else:
            keep_on(work, self.stop, self.rests)
        return self.total

    def _is_ended(self, began: float) -> bool:
        over = self.budget_s is not None and self.monotonic() - began >= self.budget_s
        return over or self.stop.is_set()
