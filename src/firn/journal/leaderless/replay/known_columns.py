"""The table's columns as a process that appends knows them, without reading the log for each append."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from firn.journal.agreement import Rules, Source, agree
from firn.journal.entries import Entries
from firn.journal.leaderless.format.codec import Log, decode
from firn.journal.leaderless.format.layout import name_of, parse_log_name
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.leaderless.replay.loader import LogLoader
from firn.journal.leaderless.replay.replay import ReplayedState
from firn.journal.model import ColumnTypes


class KnownColumns:
    """The union of all columns read so far and of those that this process wrote."""

    def __init__(
        self,
        loader: LogLoader,
        fold: Callable[[Iterable[Log]], ReplayedState],
        settings: Callable[[], LeaderlessSettings],
        check_there: Callable[[Collection[str]], None],
    ) -> None:
        self.loader, self.bucket, self.layout, self.clock = loader, loader.bucket, loader.layout, loader.clock
        self._fold = fold
        self._settings = settings
        self._check_there = check_there
        self._columns: ColumnTypes | None = None
        self._definition = Entries()
        self._after = ""
        self._own: set[str] = set()
        self._read_at = 0.0
        self._mutex = threading.Lock()

    def get(self, *, since: float | None = None) -> ColumnTypes:
        """The table's columns as appenders know them: refreshed by 1 LIST of newer logs, at most every
        `refresh_ms`, or if they weren't read after the moment `since`."""
        with self._mutex:
            now = self.clock.monotonic()
            if self._columns is None:
                self._read_all()
            elif (since is not None and self._read_at < since) or (
                now - self._read_at
            ) * 1000 >= self._settings().schema_refresh_ms:
                self._read_newer(self._columns)
            else:
                return self._columns
            self._read_at = now
            assert self._columns is not None
            return self._columns

    def _read_all(self) -> None:
        loaded = self.loader.load()
        self._check_there(loaded.listed)
        found = self._fold(loaded.logs)
        self._columns, self._definition = found.columns, found.definition
        self._after = max(loaded.listed, default="")

    def _read_newer(self, known: ColumnTypes) -> None:
        # From the last one on that was seen: it is there, or maintenance has put a later one.
        after = self.layout.log_key(self._after)[:-1] if self._after else None
        listed = self.bucket.list(self.layout.log_prefix, after=after).objects
        last = parse_log_name(self._after)
        if self._own or (last is not None and last.ms is not None):  # else names don't sort by time
            self._check_there(
                [name for info in listed if parse_log_name(name := self.layout.log_name(info.key))]
            )
        listed = tuple(info for info in listed if self.layout.log_name(info.key) > self._after)
        parsed = {info.key: parse_log_name(self.layout.log_name(info.key)) for info in listed}
        names = {found.name: info for info in listed if (found := parsed[info.key]) is not None}
        self.loader.saw(max((found.ms or 0 for found in parsed.values() if found is not None), default=0))
        others = [info for name, info in names.items() if name not in self._own]
        logs = [Log("known", 0, known)]
        for info, blob in zip(others, self.bucket.get_many([i.key for i in others]), strict=True):
            if blob is not None:
                name = self.layout.log_name(info.key)
                logs.append(decode(name, blob.data, where=self.bucket.uri(info.key)))
        self._after = max(names, default=self._after)
        self._own.clear()
        state = self._fold(logs)
        if state.agreement.plain and self._definition.joined(state.definition) == self._definition:
            self._columns = state.columns
        else:  # who has a column is for all logs to say
            self._read_all()

    def note(self, columns: ColumnTypes, version: str | None = None) -> None:
        """Learn from a commit of this process, without a request. The log of an append that is named by its
        `version` isn't read back."""
        with self._mutex:
            if self._columns is not None:
                if version is not None:
                    self._own.add(name_of(version))
                known = agree(Rules(), [Source("known", self._columns), Source("new", columns)])
                self._columns = known.columns
