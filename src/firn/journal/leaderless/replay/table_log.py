"""A table's log: where it lies, and what it says now, at an earlier time, and of its past."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from firn.bucket.base import Bucket
from firn.bucket.presence import find
from firn.clock import Clock, SystemClock
from firn.concurrency.forked import ForkedLock
from firn.degraded import warn_degraded
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    NotFoundError,
    SnapshotTooOldError,
    TableNotFoundError,
)
from firn.journal.agreement import Agreement, Rules, Source, agree_streamed
from firn.journal.definition import definition_key, is_definition_of
from firn.journal.entries import FEATURE, Entries
from firn.journal.leaderless.format.codec import WINDOW, Log
from firn.journal.leaderless.format.layout import TableLayout, name_of, parse_log_name, version_of
from firn.journal.leaderless.format.settings import LeaderlessSettings, Window
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.journal.leaderless.replay.known_columns import ColumnsMemory
from firn.journal.leaderless.replay.loader import Bound, Loaded, LogLoader, Scope
from firn.journal.leaderless.replay.replay import EMPTY_VERSION, ReplayedState, fold, past_line
from firn.journal.leaderless.replay.skew import SkewCheck
from firn.journal.lock import ExclusiveLock
from firn.journal.model import Commit, CommitInfo, DataFile, Snapshot, with_types
from firn.journal.naming import Naming
from firn.units import parse_time

MAX_AHEAD_MS = 1_000
"""How far a process's appends are stamped ahead of its clock, each above the one before."""


class TableLog:
    """The log of one table, as every part of the protocol reads it.

    Args:
        bucket: holds the data files.
        prefix: the table's whole key prefix; `generation` and `shared`: see `TableLayout`.
        log_bucket: holds the log, below `log_root`; by default the same one, and the same prefix.
        lock: a lock from outside, which maintenance takes before the lease.
        renew_in_background: False leaves renewing the lease to the caller: simulations have no threads.
        definition: what `table.json` says, for logs to keep a copy of. An `undefined` table was opened without.
        times: when the protocol times of a definition that is altered in place were set; `read_times` reads anew
            what they are and were, None if nothing says so.
        windowed: the table was created with the feature `window`.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        log_bucket: Bucket | None = None,
        log_root: str | None = None,
        rules: Rules | None = None,
        settings: LeaderlessSettings | None = None,
        clock: Clock | None = None,
        lock: ExclusiveLock | None = None,
        renew_in_background: bool = True,
        definition: Mapping[str, Any] | None = None,
        undefined: bool = False,
        generation: int = 0,
        shared: bool = False,
        times: Entries | None = None,
        read_times: Callable[[], tuple[LeaderlessSettings, Entries] | None] | None = None,
        windowed: bool = False,
    ) -> None:
        self.bucket = bucket
        self.log_bucket = log_bucket or bucket
        self.layout = TableLayout(prefix, log_root or prefix, generation, shared)
        self.rules = rules or Rules()
        self._definition = times or Entries()
        self._settings = self.created_settings = settings or LeaderlessSettings()
        self.clock: Clock = clock or SystemClock()
        self.lock, self.renew_in_background = lock, renew_in_background
        self._windowed = windowed
        self.loader = LogLoader(
            self.log_bucket, self.layout, self.clock, self.window, clocked=bool(self.rules.key)
        )
        self.known_columns = ColumnsMemory(
            self.loader, self.view, lambda: self.rules, lambda: self.settings, self.check_there
        )
        self.skew = SkewCheck(bucket, self.log_bucket, self.layout, self.clock, lambda: self.settings)
        self.created = definition
        self.undefined = undefined
        self._remembered = False
        self._opened = self.clock.monotonic()
        self._read_times = read_times
        self._times_read_at = self._opened
        self._last_listed = ""
        self._stamping = ForkedLock()
        self._last_stamp_ms = self._last_behind_ms = 0

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def stamp_ms(self, commit: Commit) -> int:
        """The time of an append: above this process's last one, so that its version doesn't show a later one. Where
        the clock was set back by more than `MAX_AHEAD_MS`, above the last one since.

        That of rows with a key is above all that this process has seen of the table: they replace what it may have
        read, and its own earlier ones, whatever the clocks say.
        """
        with self._stamping:
            now, least = self.clock.now_ms(), self._last_stamp_ms + 1
            if commit.clocked:
                least = max(least, self.loader.highest_ms + 1)
            elif least > now + MAX_AHEAD_MS:  # the clock was set back, or threads append faster than it ticks
                behind = self._last_behind_ms + 1
                self._last_behind_ms = behind if now < behind <= now + MAX_AHEAD_MS else now
                return self._last_behind_ms
            self._last_stamp_ms = max(now, least)
            return self._last_stamp_ms

    def with_definition(self, log: Log) -> Log:
        """The log with a copy of the table's definition: each maintenance log, and this process's first append."""
        first, self._remembered = not self._remembered, True
        if self.created is None or not (first or log.notes.get("complete")):
            return log
        return replace(log, notes={**log.notes, "table": self.created})

    def fold(self, logs: Iterable[Log], naming: Naming | None = None) -> ReplayedState:
        """The state that logs describe, by the names that they say, or these; from now on the table's definition is
        known from them, too."""
        if self.undefined:
            logs = tuple(logs)
            if any("table" in g.notes or any(f.clocks or f.key_deletes for f in g.files) for g in logs):
                raise CorruptObjectError(
                    f"{self.bucket.uri(definition_key(self.layout.prefix))} is missing: without it, rows that were "
                    "replaced or deleted would be shown. `firn mend TABLE` writes it anew from the copy in the "
                    "table's log; or copy it back from a backup."
                )
        state = fold(logs, self.rules if naming is None else replace(self.rules, naming=naming))
        self.learn(state.definition)
        return state

    def learn(self, definition: Entries) -> None:
        """Take note of what was changed of the table's definition."""
        found = self._definition.joined(definition)
        if found is not self._definition:
            self._definition, self._settings = found, self.created_settings.altered(found)

    @property
    def definition(self) -> Entries:
        """The changes of the table's definition since its creation, as far as this process has read."""
        return self._definition

    @property
    def settings(self) -> LeaderlessSettings:
        """The protocol's times as they are by now."""
        return self._settings

    @settings.setter
    def settings(self, settings: LeaderlessSettings) -> None:
        self.created_settings = settings
        self._settings = settings.altered(self._definition)

    @property
    def altered_in_place(self) -> bool:
        """Whether the definition is altered where it stands, so that the log says nothing of it."""
        return self._read_times is not None

    def define(self, settings: LeaderlessSettings, times: Entries) -> None:
        """Go by what the definition says of the protocol's times."""
        self._definition = self._definition.joined(times)
        self.settings = settings

    def refresh_times(self) -> None:
        """Look what the protocol's times are, where the log doesn't tell: 1 GET at most every `schema_refresh`."""
        now = self.clock.monotonic()
        if self._read_times is None or (now - self._times_read_at) * 1000 < self.settings.schema_refresh_ms:
            return
        if (found := self._read_times()) is not None:
            self.define(*found)
        self._times_read_at = now

    def lasting(self, *, least_grace: bool = False) -> LeaderlessSettings:
        """The times that others may still go by; see `LeaderlessSettings.lasting`. Cost: that of `refresh_times`."""
        self.refresh_times()
        now = self.clock.now_ms()
        return self.created_settings.lasting(self._definition, now, least_grace=least_grace)

    def check_there(self, listed: Collection[str]) -> None:
        """Refuse a table that was dropped: its log is empty, or holds only what came late, of this process too.

        A listing that has the last log of the one before is of the same table, and so is the first one of a handle
        that was just opened. Else the definition tells: 1 GET.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        if self._last_listed:
            same = self._last_listed in listed
        else:
            same = (self.clock.monotonic() - self._opened) * 1000 < self.settings.schema_refresh_ms
        if (not listed and self.loader.highest_ms) or not (same or self._defined()):
            raise TableNotFoundError(
                f"{self.bucket.uri(self.layout.prefix)} was dropped since this process opened it: nothing was read "
                "or written. Open it again with db.table(…) if there is a table of the name by now."
            )
        self._last_listed = max(listed, default="")

    def _defined(self) -> bool:
        """Whether the name's definition is still this table's; one that can't be told is."""
        if self.created is None:
            return True
        blob = find(self.bucket, definition_key(self.layout.prefix))
        return blob is not None and is_definition_of(blob.data, self.created["id"])

    @property
    def windowed(self) -> bool:
        """Whether all that maintain the table keep what a view needs that builds on an earlier one (rules 21, 25)."""
        return self._windowed or bool(self._definition.of(FEATURE).get(WINDOW))

    def window(self, since_ms: int | None = None) -> Window | None:
        """How a view may build on an earlier one, of that time or of now; None if it has to list the whole log."""
        if not self.windowed:
            return None
        width, skew = self.lasting().window_ms, 2 * self.settings.max_skew_ms
        since_ms = self.clock.now_ms() if since_ms is None else since_ms
        grace = self.created_settings.least_grace_ms(self.definition, since_ms)
        return Window(width, grace - width - skew, skew)

    def view(
        self, *, whole: bool = False, raw: dict[tuple[str, str], bytes] | None = None
    ) -> tuple[Loaded, ReplayedState]:
        """The log now, and what it says. `whole`: by a LIST of everything; `raw`: see `LogLoader.load`.

        Cost: 1 LIST sequence + the logs that aren't cached; 1 GET for the log checkpoint where there is a window.
        """
        loaded = self.loader.load(whole=whole, raw=raw)
        self.check_there(loaded.shown)
        state = self.fold(loaded.logs)
        if not self.loader.counts(loaded):  # the log says that times were altered
            self.loader.forget()
            loaded = self.loader.load(whole=True, raw=raw)
            state = self.fold(loaded.logs)
        return loaded, state

    def snapshot(self, at: str | int | datetime | None = None) -> Snapshot:
        """The table now, or as of `at`: a version, a time (what was committed at that time is included).

        Cost: 1 LIST sequence + the logs that aren't cached; for an `at` 1 GET more.

        Raises:
            SnapshotTooOldError: sweep has deleted what that version needs.
            NotFoundError: there is no such version, or no commit as of that time.
        """
        if at is None:
            return self.view()[1].snapshot()
        bound = self.bound(at)
        loaded = self.loader.load(bound=bound)
        self.check_there(loaded.listed)
        # After the LIST: a sweep that deleted one of these logs has recorded its horizon before.
        horizon = read_horizon(self.log_bucket, self.layout).ms
        swept = horizon > 0
        if swept and (
            bound.ms < horizon or (bound.ms == horizon and _precedes_maintenance(bound, loaded.listed))
        ):
            since = datetime.fromtimestamp(horizon / 1000, timezone.utc).isoformat()
            raise SnapshotTooOldError(
                f"{self.layout.prefix} can't be read as of {at}: sweep has deleted files of versions before "
                f"{since}. Read a later version, or set a larger tombstone_grace for the future."
            )
        if at != EMPTY_VERSION:
            self._check_there(at, bound, loaded)
        return self.fold(loaded.logs).snapshot()

    def _check_there(self, at: str | int | datetime, bound: Bound, loaded: Loaded) -> None:
        """A version that isn't there would be answered from what was before it; a time before the first commit, by
        an empty table."""
        where, names = self.log_bucket.uri(self.layout.log_root), sorted(loaded.listed)
        if bound.name is not None and bound.name not in loaded.listed:
            place = bisect(names, bound.name)
            near = [version_of(name) for name in names[max(place - 1, 0) : place + 1]]
            raise NotFoundError(
                f"{where} has no version {at!r}. Near it are: {' and '.join(near) or 'none'}; history() and "
                "`firn log` show them all."
            )
        if bound.name is None and not loaded.logs and names:
            raise NotFoundError(
                f"{where} has no commit as of {at}: its first one that is left is {version_of(names[0])}. Name a "
                "later time, or a version that history() or `firn log` shows."
            )

    def bound(self, at: str | int | datetime) -> Bound:
        """The part of the log that `at` means."""
        if isinstance(at, str):
            if at == EMPTY_VERSION:
                return Bound(0, "")
            name = name_of(version_of(at))  # a log's name is as good
            parsed = parse_log_name(name)
            if parsed is not None and parsed.ms is not None:
                return Bound(parsed.ms, name)
            log = next((log for log in self.loader.load(scope=Scope.ALL).logs if log.name == name), None)
            if log is not None:
                return Bound(log.t, name)
        elif isinstance(at, int):
            raise InvalidInputError(
                f"at={at}: a table on the leaderless log has no numbered revisions. Pass a version as "
                "history() shows it, a datetime, or an ISO time."
            )
        try:
            return Bound(parse_time(at))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"at={at!r} is no version of {self.layout.prefix}, as history() shows them, and no time: write a "
                "datetime, a date, or a string like '2026-01-01T12:30Z'."
            ) from error

    def recent_history(self) -> list[CommitInfo]:
        """All of `history`: later logs carry it."""
        return self.history()

    def history(self) -> list[CommitInfo]:
        """All commits that the log still knows, oldest first. 1 LIST sequence + the logs not cached + 1 GET."""
        loaded = self.loader.load(scope=Scope.ALL)
        self.check_there(loaded.listed)
        logs = loaded.logs
        lines = {line[0]: line for log in logs for line in log.notes.get("past") or []}
        for log in logs:
            if log.is_commit:
                lines[version_of(log.name)] = past_line(log)
        commits = [
            CommitInfo(v, datetime.fromtimestamp(t / 1000, timezone.utc), op, a, r, rows, size, summary)
            for v, t, op, a, r, rows, size, summary in lines.values()
        ]
        for s in read_horizon(self.log_bucket, self.layout).sweeps:
            when = datetime.fromtimestamp(s["t"] / 1000, timezone.utc)
            detail = {k: v for k, v in s.items() if k != "t"}
            commits.append(CommitInfo("", when, "sweep", 0, s["data_files"] + s["orphans"], None, 0, detail))
        return sorted(commits, key=lambda c: (c.time, c.op == "sweep", c.version))

    def append_logs(self, naming: Naming | None = None, *, since_ms: int = 0) -> tuple[Log, ...]:
        """All listed append logs, in order, tombstoned ones too: streams deliver these (rule 20). Values that don't
        fit the table's columns are set aside, though no live file may have them any more. `naming`: as `fold`.
        `since_ms`: those from that time on will do; where there is a window, no others are listed."""
        if since_ms and self.windowed:
            _, state = self.view()
            loaded = self.loader.load_from(since_ms)
        else:
            loaded = self.loader.load(scope=Scope.ALL)
            self.check_there(loaded.listed)
            state = self.fold(loaded.logs)
        maintenance = {n for n in loaded.listed if (p := parse_log_name(n)) is not None and p.maintenance}
        # A void log may appear at any time, under a name that is long past.
        found = [g for g in loaded.logs if g.name not in maintenance and not g.is_void]
        rules = replace(self.rules.altered(state.definition), noted=state.noted, naming=naming)
        agreement = agree_streamed(
            rules,
            state.agreement,
            self.layout.prefix,
            (Source(g.name, g.columns) for g in found),
        )
        for conflict in agreement.conflicts:
            warn_degraded(self.bucket.uri(self.layout.prefix), str(conflict))
        if not agreement.plain:
            found = [replace(g, files=tuple(_as_read(g, agreement))) for g in found]
        return tuple(sorted(found, key=lambda g: g.order))

    def carried_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, by the logs."""
        found = self.view()[1].batches().get(batch_id)
        return found[0] if found else None


def _as_read(log: Log, agreement: Agreement) -> Iterable[DataFile]:
    """The log's files as readers need them."""
    types = agreement.differing(log.columns)
    return (agreement.as_read(with_types(file, types)) for file in log.files)


def _precedes_maintenance(bound: Bound, names: Iterable[str]) -> bool:
    """Whether a maintenance log stands right behind the bound, in the same millisecond."""
    if bound.name is None:
        return False
    logs = (parsed for name in names if (parsed := parse_log_name(name)) is not None)
    return any(log.maintenance and log.ms == bound.ms and log.name > bound.name for log in logs)
