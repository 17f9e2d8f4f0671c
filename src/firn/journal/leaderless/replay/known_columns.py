"""The table's columns as a process that appends knows them, without reading the log for each append."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from firn.concurrency.forked import ForkedLock
from firn.journal.agreement import Agreement, Rules, Source, agree
from firn.journal.entries import Entries
from firn.journal.leaderless.format.codec import decode
from firn.journal.leaderless.format.layout import mark_of, name_of, parse_log_name
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.leaderless.replay.loader import Loaded, LogLoader
from firn.journal.leaderless.replay.replay import ReplayedState, definition_in, names_of
from firn.journal.model import ColumnTypes, Commit, KnownColumns


class ColumnsMemory:
    """The union of all columns read so far and of those that this process wrote."""

    def __init__(
        self,
        loader: LogLoader,
        view: Callable[[], tuple[Loaded, ReplayedState]],
        rules: Callable[[], Rules],
        settings: Callable[[], LeaderlessSettings],
        check_there: Callable[[Collection[str]], None],
    ) -> None:
        self.loader, self.bucket, self.layout, self.clock = loader, loader.bucket, loader.layout, loader.clock
        self._view = view
        self._rules = rules
        self._settings = settings
        self._check_there = check_there
        self._known: Agreement | None = None
        self._definition = Entries()
        self._noted: Mapping[str, str] = {}
        self._after = ""
        self._own: set[str] = set()
        self._marks: set[str] = set()
        self._read_at = 0.0
        self._mutex = ForkedLock()
        self.seen = 0
        """Logs that came since somebody asked last, as this process's LISTs have shown."""

    def get(self, *, since: float | None = None) -> KnownColumns:
        """The table's columns as appenders know them: refreshed by 1 LIST of newer logs, at most every
        `refresh_ms`, or if they weren't read after the moment `since`. 1 GET for each new schema, and for each
        maintenance log."""
        with self._mutex:
            now = self.clock.monotonic()
            if self._known is None or self._mutex.was_held:
                self._mutex.was_held = False
                self._read_all()
            elif (since is not None and self._read_at < since) or (
                now - self._read_at
            ) * 1000 >= self._settings().schema_refresh_ms:
                self._read_newer(self._known)
            else:
                return self._answer()
            self._read_at = now
            return self._answer()

    def _answer(self) -> KnownColumns:
        assert self._known is not None
        known = self._known
        return KnownColumns(known.columns, known.naming, self._definition, known.set_aside)

    def _read_all(self) -> None:
        loaded, found = self._view()
        self._known, self._definition, self._noted = found.agreement, found.definition, found.noted
        self._after = max(loaded.listed, default="")
        self._marks.update(mark for name in loaded.listed if (mark := mark_of(name)) is not None)

    def _read_newer(self, known: Agreement) -> None:
        # From the last one on that was seen: it is there, or maintenance has put a later one.
        after = self.layout.log_key(self._after)[:-1] if self._after else None
        shown = self.layout.logs_in(self.bucket.list(self.layout.log_prefix, after=after).objects)
        last = parse_log_name(self._after)
        if self._own or (last is not None and last.ms is not None):  # else names don't sort by time
            self._check_there([found.name for found in shown])
        fresh = {found: info for found, info in shown.items() if found.name > self._after}
        names = {found.name: info for found, info in fresh.items()}
        self.loader.saw(max((found.ms or 0 for found in fresh), default=0))
        # A log whose schema was seen before brings nothing new.
        others = [
            info
            for name, info in names.items()
            if name not in self._own and ((mark := mark_of(name)) is None or mark not in self._marks)
        ]
        logs = []
        for info, blob in zip(others, self.bucket.get_many([i.key for i in others]), strict=True):
            if blob is not None:
                name = self.layout.log_name(info.key)
                logs.append(decode(name, blob.data, where=self.bucket.uri(info.key)))
        self.seen += len(names)
        self._after = max(names, default=self._after)
        self._marks.update(mark for name in names if (mark := mark_of(name)) is not None)
        self._own.clear()
        if self._definition.joined(definition_in(logs)) != self._definition:
            self._read_all()
            return
        noted = {physical: name for log in logs for physical, name in names_of(log).items()}
        union = self._with([(log.name, log.columns) for log in logs], noted)
        if known.settled and union.settled:
            self._known = union
        else:  # who has a column is for all logs to say
            self._read_all()

    def _with(self, sources: Iterable[tuple[str, ColumnTypes]], noted: Mapping[str, str]) -> Agreement:
        """What is known, with columns that commits have brought."""
        assert self._known is not None
        self._noted = {**noted, **self._noted}
        rules = replace(self._rules().altered(self._definition), noted=self._noted)
        return agree(
            rules,
            [Source("known", self._known.stored), *(Source(name, columns) for name, columns in sources)],
        )

    def note(self, commit: Commit, version: str | None = None) -> None:
        """Learn from a commit of this process, without a request. The log of an append that is named by its
        `version` isn't read back."""
        with self._mutex:
            if self._known is None or self._mutex.was_held:
                return
            if version is not None:
                self._own.add(name_of(version))
            if commit.definition is not None:
                self._definition = self._definition.joined(commit.definition)
            found = self._with([("new", commit.columns)], commit.names)
            if self._known.settled and found.settled:
                self._known = found
            elif commit.definition is not None:  # who has a column is for all logs to say
                self._known = None
