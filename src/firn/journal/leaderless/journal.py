"""`LeaderlessJournal`: the lake's view of the leaderless log. The protocol's parts live beside it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timezone

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.errors import InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.journal.leaderless.append import Append, claimed_log
from firn.journal.leaderless.codec import Log, decode
from firn.journal.leaderless.fold import EMPTY_VERSION, State, fold, past_line
from firn.journal.leaderless.layout import DataNamer, TableLayout, parse_log_name
from firn.journal.leaderless.loader import Bound, LogLoader, write_checkpoint
from firn.journal.leaderless.session import MaintenanceSession, exclusive
from firn.journal.leaderless.settings import Settings
from firn.journal.leaderless.sweep import read_horizon, sweep
from firn.journal.lock import ExclusiveLock
from firn.journal.model import ColumnTypes, Commit, CommitInfo, Snapshot, SweepReport
from firn.units import parse_time

SKEW_CHECK_EVERY_S = 600.0


class LeaderlessJournal:
    """IceDB's log: any number of writers append by one PUT each and never conflict.

    `renew_in_background=False` leaves renewing the lease to the caller: simulations have no threads.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        log_bucket: Bucket | None = None,
        log_root: str | None = None,
        declared: ColumnTypes | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        lock: ExclusiveLock | None = None,
        renew_in_background: bool = True,
    ) -> None:
        self.bucket = bucket
        self.log_bucket = log_bucket or bucket
        self.layout = TableLayout(prefix, log_root or prefix)
        self.declared = declared or {}
        self.settings = settings or Settings()
        self.clock = clock or SystemClock()
        self.lock = lock
        self.renew_in_background = renew_in_background
        self.loader = LogLoader(self.log_bucket, self.layout, self.clock)
        self._columns: ColumnTypes | None = None
        self._columns_after = ""
        self._own: set[str] = set()
        self._columns_at = 0.0
        self._skew_checked: float | None = None
        self._mutex = threading.Lock()

    # -- reading

    def fold(self, logs: Iterable[Log]) -> State:
        return fold(logs, declared=self.declared, on_conflict=self.settings.on_conflict)

    def snapshot(self, at: str | int | datetime | None = None) -> Snapshot:
        """The table now, or as of `at`: a version, a time (what was committed at that time is included).

        Cost: 1 LIST sequence + the logs that aren't cached; for an `at` 1 GET more.

        Raises:
            SnapshotTooOldError: sweep has deleted what that version needs.
        """
        if at is None:
            return self.fold(self.loader.load().logs).snapshot()
        bound = self.bound(at)
        loaded = self.loader.load(bound=bound)
        # After the LIST: a sweep that deleted one of these logs has recorded its horizon before.
        horizon = read_horizon(self).ms
        if bound.ms < horizon or (bound.ms == horizon and _precedes_maintenance(bound, loaded.listed)):
            since = datetime.fromtimestamp(horizon / 1000, timezone.utc).isoformat()
            raise SnapshotTooOldError(
                f"{self.layout.prefix} can't be read as of {at}: sweep has deleted files of versions before "
                f"{since}. Read a later version, or set a larger tombstone_grace for the future."
            )
        return self.fold(loaded.logs).snapshot()

    def bound(self, at: str | int | datetime) -> Bound:
        """The part of the log that `at` means."""
        if isinstance(at, str):
            if at == EMPTY_VERSION:
                return Bound(0, "")
            name = at if at.endswith(".jsonl") else at + ".jsonl"
            parsed = parse_log_name(name)
            if parsed is not None and parsed.ms is not None:
                return Bound(parsed.ms, name)
            log = next((log for log in self.loader.load(every=True).logs if log.name == name), None)
            if log is not None:
                return Bound(log.t, name)
        elif isinstance(at, int):
            raise InvalidInputError(
                f"at={at}: a table on the leaderless log has no numbered revisions. Pass a version as "
                "history() shows it, a datetime, or an ISO time."
            )
        return Bound(parse_time(at))

    def history(self) -> list[CommitInfo]:
        """All commits that the log still knows, oldest first. 1 LIST sequence + the logs not cached + 1 GET."""
        logs = self.loader.load(every=True).logs
        lines = {line[0]: line for log in logs for line in log.notes.get("past") or []}
        for log in logs:
            if not log.is_reservation and log.notes.get("op") != "fence":
                lines[log.name.removesuffix(".jsonl")] = past_line(log)
        commits = [
            CommitInfo(v, datetime.fromtimestamp(t / 1000, timezone.utc), op, a, r, rows, size, summary)
            for v, t, op, a, r, rows, size, summary in lines.values()
        ]
        for s in read_horizon(self).sweeps:
            when = datetime.fromtimestamp(s["t"] / 1000, timezone.utc)
            detail = {k: v for k, v in s.items() if k != "t"}
            commits.append(CommitInfo("", when, "sweep", 0, s["data_files"] + s["orphans"], None, 0, detail))
        return sorted(commits, key=lambda c: (c.time, c.op == "sweep", c.version))

    def append_logs(self) -> tuple[Log, ...]:
        """All append logs listed, in order, tombstoned ones too: what streams deliver (rule 20)."""
        loaded = self.loader.load(every=True)
        maintenance = {n for n in loaded.listed if (p := parse_log_name(n)) is not None and p.maintenance}
        # A void log may appear at any time, under a name that is long past.
        found = (g for g in loaded.logs if g.name not in maintenance and g.notes.get("op") != "fence")
        return tuple(sorted(found, key=lambda g: g.order))

    def checkpoint(self) -> int:
        """Write a replay cache; the number of logs it covers."""
        return write_checkpoint(self.loader)

    # -- appending

    def namer(self, *, maintenance: bool) -> DataNamer:
        return self.layout.namer(maintenance=maintenance)

    def begin_append(self) -> Append:
        """Start an append: before its first data PUT."""
        return Append(self)

    def columns(self) -> ColumnTypes:
        """The table's columns as appenders know them: refreshed by 1 LIST of newer logs, at most every
        `schema_refresh_ms`."""
        with self._mutex:
            now = self.clock.monotonic()
            if self._columns is None:
                loaded = self.loader.load()
                self._columns = self.fold(loaded.logs).columns
                self._columns_after = max(loaded.listed, default="")
            elif (now - self._columns_at) * 1000 >= self.settings.schema_refresh_ms:
                self._read_newer(self._columns)
            else:
                return self._columns
            self._columns_at = now
            return self._columns

    def _read_newer(self, known: ColumnTypes) -> None:
        after = self.layout.log_key(self._columns_after) if self._columns_after else None
        listed = self.log_bucket.list(self.layout.log_prefix, after=after).objects
        names = {name: info for info in listed if parse_log_name(name := self.layout.log_name(info.key))}
        others = [info for name, info in names.items() if name not in self._own]
        logs = [Log("known", 0, known)]
        for info, blob in zip(others, self.log_bucket.get_many([i.key for i in others]), strict=True):
            if blob is not None:
                name = self.layout.log_name(info.key)
                logs.append(decode(name, blob.data, where=self.log_bucket.uri(info.key)))
        self._columns_after = max(names, default=self._columns_after)
        self._own.clear()
        self._columns = self.fold(logs).columns

    def note_columns(self, columns: ColumnTypes, version: str | None = None) -> None:
        """What a commit of this process made known, without asking the store. The log of an append that is
        named by its `version` isn't read back."""
        with self._mutex:
            if self._columns is not None:
                if version is not None:
                    self._own.add(f"{version}.jsonl")
                logs = [Log("known", 0, self._columns), Log("new", 1, columns)]
                self._columns = self.fold(logs).columns

    def check_skew(self, commit: Commit, started_ms: int) -> None:
        """Refuse to append by a clock that is far off the store's: 1 HEAD, once in ten minutes; after a slow
        write, or where nothing was written, 1 PUT more, and before refusing too."""
        now = self.clock.monotonic()
        if not commit.adds or (
            self._skew_checked is not None and now - self._skew_checked < SKEW_CHECK_EVERY_S
        ):
            return
        allowed = self.settings.max_skew_ms
        written = next((f.path for f in reversed(commit.adds) if self.layout.owns(f.path)), None)
        # The clock is read before the HEAD, whose answer may take any time. The longer ago the write may have
        # been, the less its time tells.
        ended_ms = self.clock.now_ms()
        off = allowed + 1
        if written is not None and ended_ms - started_ms <= allowed:
            off = _clock_is_off(started_ms, ended_ms, self.bucket.head(written).modified_ms)
        if abs(off) > allowed:
            off = _clock_is_off(*self._probe())
        if abs(off) > allowed:
            raise InvalidInputError(
                f"this machine's clock is {abs(off) / 1000:.0f} s {'ahead of' if off > 0 else 'behind'} the clock of "
                f"{self.log_bucket.url}; at most {allowed / 1000:g} s are allowed (max_skew), as commits are "
                "ordered by time. Nothing was appended; set the clock."
            )
        self._skew_checked = now

    def _probe(self) -> tuple[int, int, int]:
        """Write a small object: own times around the write, and the store's of it. Again if that took long, or
        if somebody else wrote it meanwhile."""
        for _ in range(3):
            before = self.clock.now_ms()
            etag = self.log_bucket.put(self.layout.clock_key, secrets.token_bytes(16))
            after = self.clock.now_ms()
            found = self.log_bucket.head(self.layout.clock_key)
            if found.etag == etag and after - before <= self.settings.max_skew_ms:
                return before, after, found.modified_ms
        return before, self.clock.now_ms(), found.modified_ms

    def seen_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, or None. 1 GET for a new id, 2 for one just committed."""
        try:
            claim = self.log_bucket.get(self.layout.batch_key(batch_id))
        except ObjectNotFoundError:
            if self.log_bucket.capabilities.conditional_put:
                return None
            return self.carried_batch(batch_id)
        name = claimed_log(claim.data, batch_id, self.log_bucket.uri(claim.info.key))
        try:
            log = decode(name, self.log_bucket.get(self.layout.log_key(name)).data, where=name)
        except ObjectNotFoundError:
            return self.carried_batch(batch_id)
        return name.removesuffix(".jsonl") if log.notes.get("batch") == batch_id else None

    def carried_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, by the logs."""
        found = self.fold(self.loader.load().logs).batches().get(batch_id)
        return found[0] if found else None

    # -- maintenance

    def exclusive(self, op: str) -> AbstractContextManager[MaintenanceSession]:
        """Hold the table's lock; see `session.exclusive`."""
        return exclusive(self, op)

    def sweep(self, *, grace_ms: int, orphan_age_ms: int, margin: bool, dry_run: bool) -> SweepReport:
        """Delete what nothing may read; see `sweep.sweep`."""
        with self.exclusive("sweep") as session:
            return sweep(
                self,
                session,
                grace_ms=grace_ms,
                orphan_age_ms=orphan_age_ms,
                margin=margin,
                dry_run=dry_run,
            )


def _clock_is_off(before: int, after: int, modified: int) -> int:
    """Milliseconds, at least, that a clock is ahead of the store's: a write between its times `before` and
    `after` was `modified` by the store's. Negative for behind."""
    return max(before - modified, 0) or min(after - modified, 0)


def _precedes_maintenance(bound: Bound, names: Iterable[str]) -> bool:
    """Whether a maintenance log stands right behind the bound, in the same millisecond."""
    if bound.name is None:
        return False
    logs = (parsed for name in names if (parsed := parse_log_name(name)) is not None)
    return any(log.maintenance and log.ms == bound.ms and log.name > bound.name for log in logs)
