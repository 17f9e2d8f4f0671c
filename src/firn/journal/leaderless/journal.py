"""`LeaderlessJournal`: the lake's view of the leaderless log. The protocol's parts live beside it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from firn.errors import CorruptObjectError, FirnError, InvalidInputError
from firn.journal.leaderless.append import OpenAppend, counted_batch, seen_batch
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.leaderless.maintain.known_log import KnownLog
from firn.journal.leaderless.maintain.lease import Sighting
from firn.journal.leaderless.maintain.session import MaintenanceSession, exclusive
from firn.journal.leaderless.maintain.sweep import sweep
from firn.journal.leaderless.maintain.unlocked import UnlockedMerge
from firn.journal.leaderless.replay import damaged_logs
from firn.journal.leaderless.replay.checkpoint_writer import BEHIND, write_checkpoint, write_if_behind
from firn.journal.leaderless.replay.damaged_logs import DamagedLog, SortedLogs
from firn.journal.leaderless.replay.horizon import read_horizon, replace_horizon
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.leaderless.stream import LeaderlessStream
from firn.journal.model import Counted, KnownColumns, Namer, SweepReport
from firn.journal.naming import Naming

log = logging.getLogger("firn")


class LeaderlessJournal(TableLog):
    """IceDB's log: any number of writers append by one PUT each and never conflict."""

    _look_after = BEHIND
    """So many logs that came are worth a look at the log checkpoint."""

    def checkpoint(self) -> int:
        """Write a replay cache; the number of logs it covers."""
        return write_checkpoint(self)

    def mend_horizon(self, *, dry_run: bool) -> str | None:
        """Write the record of sweeps anew where it is damaged: no version before the newest maintenance log can be
        read then. Its URL, if it was. 1 GET."""
        try:
            read_horizon(self.log_bucket, self.layout)
            return None
        except CorruptObjectError:
            if not dry_run:
                names = self.layout.logs_in(self.log_bucket.list(self.layout.log_prefix).objects)
                replace_horizon(
                    self.log_bucket,
                    self.layout,
                    max((n.ms or 0 for n in names if n.maintenance), default=0),
                )
            return self.log_bucket.uri(self.layout.horizon_key)

    def mend_logs(self, *, dry_run: bool) -> list[str]:
        """See `damaged_logs.mend_logs`."""
        return damaged_logs.mend_logs(self, dry_run=dry_run)

    def is_log(self, path: str) -> bool:
        """Whether a key or URL is that of one of the table's logs."""
        return self._log_key(path).startswith(self.layout.log_prefix)

    def forget_logs(self, paths: Sequence[str], *, dry_run: bool) -> list[DamagedLog]:
        """Delete damaged logs, whatever they said. 1 LIST, 1 GET a log; the lock, 1 DELETE each.

        Raises:
            InvalidInputError: one isn't there, or can be read; nothing was changed.
        """
        if dry_run:
            return self._damaged(damaged_logs.sort_logs(self), paths)
        with self.exclusive("forget"):
            found = damaged_logs.sort_logs(self)
            gone = self._damaged(found, paths)
            damaged_logs.delete_logs(self, found, gone)
        return gone

    def _damaged(self, found: SortedLogs, paths: Sequence[str]) -> list[DamagedLog]:
        damaged = {log.key: log for log in found.damaged}
        keys = list(dict.fromkeys(map(self._log_key, paths)))
        for key in keys:
            if key not in damaged:
                raise InvalidInputError(
                    f"{self.log_bucket.uri(key)} isn't there, or can be read: nothing was changed. Only damaged logs "
                    "are let go of."
                )
        return [damaged[key] for key in keys]

    def _log_key(self, path: str) -> str:
        return path.removeprefix(self.log_bucket.uri(""))

    def stream(self, naming: Naming | None = None) -> LeaderlessStream:
        """The table as a stream of appends (rule 20)."""
        return LeaderlessStream(self, naming)

    @property
    def soft_deletes(self) -> bool:
        """False: the reference, which reads the same logs, would show the rows."""
        return False

    @property
    def revives(self) -> bool:
        """True: a tombstone of a path goes when a later log adds it."""
        return True

    @property
    def places(self) -> TableLayout:
        return self.layout

    def owns(self, path: str) -> bool:
        """True: the holder of the table's lock maintains all of it."""
        return True

    # -- appending

    def begin_append(self, namer: Namer | None = None) -> OpenAppend:
        """Start an append: before its first data PUT. Its files say nothing of it, so whose `namer` it was is all
        the same."""
        return OpenAppend(self)

    def begin_staging(self, what: str) -> OpenAppend:
        """Start to write files that no log is to name. They have names of appends: sweep takes parts of maintenance
        that no log names at once, whatever their age."""
        return OpenAppend(self, what)

    def known(self, *, since: float | None = None) -> KnownColumns:
        """The table's columns as appenders know them; see `ColumnsMemory`. Where its LIST shows that many logs came
        since the log checkpoint, that is written anew in the background (rule 26)."""
        found = self.known_columns.get(since=since)
        if self.known_columns.seen >= self._look_after and self.windowed:
            self.known_columns.seen = 0
            threading.Thread(target=self._catch_up, name="firn-checkpoint", daemon=True).start()
        return found

    def _catch_up(self) -> None:
        """Whatever fails here costs requests of others alone; who appends is told by its own."""
        try:
            self._look_after = write_if_behind(self).wait
        except FirnError as error:
            log.info("%s: the log checkpoint wasn't written: %s", self.layout.prefix, error)

    def moment(self) -> float:
        return self.clock.monotonic()

    def seen_batch(self, batch_id: str) -> str | None:
        """The version that committed this batch, or None. 1 GET for a new id, 2 for one just committed."""
        return seen_batch(self, batch_id)

    def counted_batch(self, batch_id: str) -> Counted | None:
        """See `append.counted_batch`."""
        return counted_batch(self, batch_id)

    # -- maintenance

    def exclusive(
        self, op: str, *, once: Sighting | None = None, known: KnownLog | None = None
    ) -> AbstractContextManager[MaintenanceSession]:
        """Hold the table's lock; see `session.exclusive`."""
        return exclusive(self, op, once=once, known=known)

    def begin_merge(self) -> UnlockedMerge | None:
        """Start a merge that holds the lock only to publish: before its first data PUT. None under a lock from
        outside, and without conditional puts: that lock protects all of what its holder does."""
        if self.lock is not None or not self.log_bucket.capabilities.conditional_put:
            return None
        return UnlockedMerge(self)

    def sweep(
        self,
        *,
        grace_ms: int | None = None,
        orphan_age_ms: int | None = None,
        margin: bool | None = None,
        dry_run: bool = False,
        orphans: bool = True,
        once: Sighting | None = None,
    ) -> SweepReport:
        """Delete what nothing may read; see `sweep.sweep`, and `session.exclusive` for `once`."""
        with self.exclusive("sweep", once=once) as session:
            return sweep(
                session,
                grace_ms=grace_ms,
                orphan_age_ms=orphan_age_ms,
                margin=margin,
                dry_run=dry_run,
                orphans=orphans,
            )
