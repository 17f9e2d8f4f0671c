"""The table's columns as a process that appends knows them, without reading the log for each append."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from firn.journal.leaderless.codec import Log, decode
from firn.journal.leaderless.fold import State
from firn.journal.leaderless.layout import name_of, parse_log_name
from firn.journal.leaderless.loader import LogLoader
from firn.journal.leaderless.settings import Settings
from firn.journal.model import ColumnTypes


class KnownColumns:
    """The union of all columns read so far and of those that this process wrote."""

    def __init__(self, loader: LogLoader, fold: Callable[[Iterable[Log]], State], settings: Settings) -> None:
        self.loader, self.bucket, self.layout, self.clock = loader, loader.bucket, loader.layout, loader.clock
        self._fold = fold
        self._refresh_s = settings.schema_refresh_ms / 1000
        self._columns: ColumnTypes | None = None
        self._after = ""
        self._own: set[str] = set()
        self._read_at = 0.0
        self._mutex = threading.Lock()

    def get(self) -> ColumnTypes:
        """The table's columns as appenders know them: refreshed by 1 LIST of newer logs, at most every
        `refresh_ms`."""
        with self._mutex:
            now = self.clock.monotonic()
            if self._columns is None:
                loaded = self.loader.load()
                self._columns = self._fold(loaded.logs).columns
                self._after = max(loaded.listed, default="")
            elif now - self._read_at >= self._refresh_s:
                self._read_newer(self._columns)
            else:
                return self._columns
            self._read_at = now
            return self._columns

    def _read_newer(self, known: ColumnTypes) -> None:
        after = self.layout.log_key(self._after) if self._after else None
        listed = self.bucket.list(self.layout.log_prefix, after=after).objects
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
        self._columns = self._fold(logs).columns

    def note(self, columns: ColumnTypes, version: str | None = None) -> None:
        """What a commit of this process made known, without asking the store. The log of an append that is
        named by its `version` isn't read back."""
        with self._mutex:
            if self._columns is not None:
                if version is not None:
                    self._own.add(name_of(version))
                logs = [Log("known", 0, self._columns), Log("new", 1, columns)]
                self._columns = self._fold(logs).columns
