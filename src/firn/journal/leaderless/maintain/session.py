"""Exclusive maintenance: hold the lock, read every log, publish one log (rules 8 to 11).

Publishing is three conditional PUTs and a release, in this order:

    (a) put-if-absent X, a reservation: an empty log with a nonce
    (b) swap the lock: intent = X
    (c) put-if-match X, the reservation's version: the real log
    (d) swap the lock: released

A holder that takes the lock over in between finds X in the lock and makes a mere reservation void, so that (c) of a
holder that slept always fails. A check of the lease and then a put would double rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

from firn.bucket.conditional import create, swap
from firn.errors import (
    FirnError,
    LockLostError,
    ObjectChangedError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.journal.entries import Entries
from firn.journal.leaderless.format.codec import Log, decode, encode
from firn.journal.leaderless.format.layout import DataNamer, new_log_name, version_of
from firn.journal.leaderless.maintain.known_log import KnownLog, after_publishing, newer
from firn.journal.leaderless.maintain.lease import Lease, Sighting, acquire, settle_intent
from firn.journal.leaderless.replay.loader import Loaded, Scope
from firn.journal.leaderless.replay.replay import ReplayedState, maintenance_log
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.lock import ExclusiveLock
from firn.journal.model import Commit, DataFile, Snapshot

SessionT = TypeVar("SessionT", bound="MaintenanceSession")


class MaintenanceSession:
    """The lock held, and every log read after it was acquired; with `known` only what is new since. Whether all were
    is in `whole`, once they are read."""

    def __init__(
        self,
        table: TableLog,
        op: str,
        lease: Lease | None,
        outer: tuple[ExclusiveLock, Any] | None,
        known: KnownLog | None = None,
    ) -> None:
        self.table, self.op, self.lease = table, op, lease
        self._outer = outer
        self._known = known
        self.whole = True
        self._loaded: Loaded | None = None
        self._state: ReplayedState | None = None
        self._stamped = 0.0
        self.published: tuple[Log, str] | None = None
        """The last log that it has published, and its version in the store."""
        self.outcome_unknown = False

    @property
    def loaded(self) -> Loaded:
        if self._loaded is None and self._known is not None:
            self._loaded = newer(self.table.loader, self._known)
            self.whole = self._loaded is None
        if self._loaded is None:
            self._loaded = self.table.loader.load(scope=Scope.MAINTENANCE)
            self.table.check_there(self._loaded.listed)
        return self._loaded

    def known(self) -> KnownLog:
        """What this process knows of the log since this session has published, for later ones to read only what is
        new."""
        if self.published is None:
            raise ValueError("the session has published nothing")
        return after_publishing(self.table, self.state, self.loaded, *self.published)

    def look_again(self) -> None:
        """Look once more: at what is new since this session has published."""
        self._known, self._loaded, self._state = self.known(), None, None

    @property
    def state(self) -> ReplayedState:
        if self._state is None:
            self._state = self.table.fold(self.loaded.logs)
            if not self.whole and self._known is not None and not self._known.counts(self.table.loader):
                self._known = self._loaded = None  # the log says that times were altered
                self.whole = True
                self._state = self.table.fold(self.loaded.logs)
        return self._state

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot()

    writer = ""

    @property
    def namer(self) -> DataNamer:
        return self.table.layout.namer(maintenance=True)

    @property
    def log_length(self) -> int:
        """Logs that no other log carries."""
        replaced = self.state.replaced()
        return sum(1 for log in self.state.logs if log.name not in replaced)

    def revivable(self, at: str | int | datetime) -> Snapshot:
        """The snapshot at `at`, if none of its files may be in the eyes of a cleanup by now.

        A cleanup needs no lock: one that has listed the log before this session publishes may still delete
        what was dead for a whole grace. So files dead for longer than grace − R − Z stay dead; `publish` looks
        at that once more.
        """
        past = self.table.snapshot(at)
        oldest = self._oldest_revivable()
        for file in past.files:
            if self.state.dead.get(file.path, oldest) < oldest:
                raise SnapshotTooOldError(
                    f"{self.table.layout.prefix} can't be restored to {at}: {file.path} was removed longer "
                    "ago than the tombstone_grace allows for, and cleanup may be deleting it. Read that "
                    "version and overwrite the table with it instead."
                )
        self._check_there(past, at)
        return past

    def _check_there(self, past: Snapshot, at: str | int | datetime) -> None:
        """1 LIST of the data, if any file isn't live."""
        layout, live = self.table.layout, {f.path for f in self.snapshot.files}
        missing = [f.path for f in past.files if layout.owns(f.path) and f.path not in live]
        there = {i.key for i in self.table.bucket.list(layout.data_prefix).objects} if missing else set()
        for path in missing:
            if path not in there:
                raise SnapshotTooOldError(
                    f"{layout.prefix} can't be restored to {at}: {self.table.bucket.uri(path)} is gone. Nothing "
                    "was changed; choose a later version."
                )

    def check(self) -> None:
        """Raise `LockLostError` as soon as a renewal was refused. No request with the bucket's lease."""
        if self.lease is not None:
            self.lease.check()
        elif self._outer is not None:
            lock, token = self._outer
            lock.renew(token)

    def confirm(self) -> None:
        """Make sure that the lock is held still, and so was at every moment until now: 1 PUT.

        Raises:
            LockLostError: it isn't.
        """
        if self.lease is not None:
            self.lease.renew()
        else:
            self.check()

    def publish(self, commit: Commit) -> str:
        """Make `commit` visible at once; the version. 3 PUTs (1 where the lock is from outside).

        Raises:
            LockLostError: somebody took over; nothing of the commit will ever be visible.
            OutcomeUnknownError: the log was sent and no answer came; the next maintenance settles it.
            SnapshotTooOldError: a file that the commit brings back has been dead for too long by now.
            UnsupportedError: the commit has soft deletes, which a leaderless log can't keep.
        """
        if commit.soft_deletes:
            raise UnsupportedError(
                f"{self.table.layout.prefix}: a leaderless log keeps no soft deletes; rewrite the files instead."
            )
        t = self._stamp()
        name = new_log_name(t, maintenance=True)
        log = maintenance_log(
            self.state,
            commit,
            name=name,
            t=t,
            nonce=secrets.token_hex(16),
            log_key={n: info.key for n, info in self.loaded.listed.items()},
            modified={n: info.modified_ms for n, info in self.loaded.listed.items()},
        )
        log = self.table.with_definition(log)
        revived = [file for file in commit.adds if file.path in self.state.dead]
        if self.lease is not None:
            etag = self._publish_fenced(self.lease, log, revived)
        else:
            etag = self._publish_plain(log, revived)
        self.published = log, etag
        self.table.known_columns.note(commit)
        self.table.learn(commit.definition or Entries())
        self.table.loader.saw(t)
        return version_of(name)

    def _stamp(self) -> int:
        """Rule 2: above everything listed, so that appends that come late sort below and stay visible."""
        self._stamped = self.table.clock.monotonic()
        highest = max((log.t for log in self.state.logs), default=0)
        listed = max((int(n[:13]) for n in self.loaded.listed if n[:13].isdigit()), default=0)
        return max(self.table.clock.now_ms(), highest + 1, listed + 1)

    def _window_left(self) -> float:
        """For how many seconds the log may still be sent (rule 21)."""
        elapsed = self.table.clock.monotonic() - self._stamped
        left = self.table.settings.sending_ms / 1000 - elapsed
        if left <= 0:
            raise StoreUnavailableError(
                f"{self.table.log_bucket.uri(self.table.layout.log_root)}: publishing this {self.op} took longer "
                "than the table's retry_window. Nothing of it is visible; run it again."
            )
        return left

    def _publish_fenced(self, lease: Lease, log: Log, revived: Sequence[DataFile]) -> str:
        bucket = self.table.log_bucket
        key = self.table.layout.log_key(log.name)
        nonce = secrets.token_hex(16)
        lease.check()
        reservation = encode(Log(log.name, log.t, notes={"op": "reserve"}, nonce=nonce))
        etag = create(bucket, key, reservation, nonce=nonce)  # (a)
        lease.announce(key)  # (b)
        self._check_ages(revived)
        body, left = encode(log), self._window_left()
        try:
            return swap(bucket, key, body, etag, nonce=log.nonce, retry_for=left)  # (c)
        except ObjectChangedError as error:
            if self._is_void(key):
                raise LockLostError(
                    f"{bucket.uri(key)} was made void by another process that took over the lock of this "
                    f"{self.op}. Nothing of it is visible; run it again."
                ) from error
            raise self._unknown(key) from error
        except OutcomeUnknownError as error:
            self.outcome_unknown = (
                True  # the lock must keep the intent: it lapses, and the next one settles it
            )
            raise self._unknown(key) from error
        except KeyboardInterrupt:  # the log may be on its way still
            self.outcome_unknown = True
            with suppress(FirnError):
                settle_intent(bucket, key)
                self.outcome_unknown = False
            raise

    def _is_void(self, key: str) -> bool:
        """The error for a log that was refused and isn't ours. A log that is gone may have been published by a
        first attempt whose answer was lost, merged by the next holder, and swept since."""
        try:
            body = self.table.log_bucket.get(key).data
        except (ObjectNotFoundError, StoreError):
            return False
        name = self.table.layout.log_name(key)
        return decode(name, body, where=self.table.log_bucket.uri(key)).is_void

    def _unknown(self, key: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self.table.log_bucket.uri(key)} was sent and no answer came: this {self.op} may be visible, now "
            "or later. The next maintenance of the table settles it; look with `firn log`."
        )

    def _check_ages(self, revived: Sequence[DataFile]) -> None:
        """Right before the log is sent: refuse one whose files a sweep or cleanup may have its eyes on."""
        self._check_revived(revived)

    def _check_revived(self, revived: Sequence[DataFile]) -> None:
        """Refuse to bring back files that a cleanup may have its eyes on by the time that the log lands."""
        for file in revived:
            if self.state.dead[file.path] < self._oldest_revivable():
                raise SnapshotTooOldError(
                    f"{self.table.bucket.uri(file.path)} was removed longer ago than the tombstone_grace allows "
                    f"for by now, and cleanup may be deleting it. Nothing of this {self.op} is visible; read "
                    "that version and overwrite the table with it instead."
                )

    def _oldest_revivable(self) -> int:
        settings = self.table.lasting(least_grace=True)
        margin = settings.retry_window_ms + settings.landing_delay_ms
        return self.table.clock.now_ms() - max(settings.grace_ms - margin, 0)

    def _publish_plain(self, log: Log, revived: Sequence[DataFile]) -> str:
        bucket = self.table.log_bucket
        self.check()
        self._check_revived(revived)
        body, left = encode(log), self._window_left()
        return bucket.put(self.table.layout.log_key(log.name), body, retry_for=left)


@contextmanager
def exclusive(
    table: TableLog,
    op: str,
    *,
    once: Sighting | None = None,
    known: KnownLog | None = None,
) -> Iterator[MaintenanceSession]:
    """Hold the table's lock for the body; see `locked`. With `known` only what is new since is read; see
    `known_log`."""

    def made(lease: Lease | None, outer: tuple[ExclusiveLock, Any] | None) -> MaintenanceSession:
        return MaintenanceSession(table, op, lease, outer, known)

    with locked(table, op, made, once=once) as session:
        yield session


@contextmanager
def locked(
    table: TableLog,
    op: str,
    made: Callable[[Lease | None, tuple[ExclusiveLock, Any] | None], SessionT],
    *,
    wait_ms: int | None = None,
    once: Sighting | None = None,
) -> Iterator[SessionT]:
    """Hold the table's lock for the body: the lock from outside first, where one is given, then the lease.

    Args:
        made: makes the session of the lease and the lock from outside.
        wait_ms: how long to wait for a holder, the table's `lock_wait` by default.
        once: try the lock a single time, and don't wait: 1 GET where it is held. It is what was seen of the lock
            before, and is kept up to date.

    Raises:
        LockHeldError: somebody else maintains the table.
        UnsupportedError: the store has no conditional puts, and no lock was given.
    """
    settings, layout, lock = table.settings, table.layout, table.lock
    if once is not None:
        wait_ms = 0
    elif wait_ms is None:
        wait_ms = settings.lock_wait_ms
    fenced = table.log_bucket.capabilities.conditional_put
    if not fenced and lock is None:
        raise UnsupportedError(
            f"{table.log_bucket.uri(layout.log_root)}: {op} needs an exclusive lock, and this store has no "
            "conditional puts to make one of. Pass one: firn.connect(url, lock=firn.FileLock(directory))."
        )
    outer = None
    if lock is not None:
        outer = (lock, lock.acquire(layout.log_root, timeout=wait_ms / 1000))
    lease = session = None
    try:
        if fenced:
            lease = acquire(
                table.log_bucket,
                layout.lock_key,
                table.clock,
                op=op,
                lease_ms=settings.lease_ms,
                wait_ms=wait_ms,
                seen=once,
            )
            if table.renew_in_background:
                lease.start_keeper()
        session = made(lease, outer)
        yield session
    finally:
        try:
            if lease is not None and session is not None and session.outcome_unknown:
                lease.stop_keeper()
            elif lease is not None:
                lease.release()
        finally:
            if outer is not None:
                outer[0].release(outer[1])
