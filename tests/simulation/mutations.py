"""Each rule of the maintenance protocol, left out: a mutation patches the journal, and simulations must notice.

The rules are those of docs/format/leaderless-log.md, by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from firn.bucket.base import Bucket, ObjectInfo
from firn.bucket.conditional import create, swap
from firn.errors import ConflictError, ObjectNotFoundError, OutcomeUnknownError
from firn.journal.leaderless import append, stream
from firn.journal.leaderless.format.codec import Log, decode, decode_many, encode
from firn.journal.leaderless.format.layout import (
    DataNamer,
    TableLayout,
    new_log_name,
    parse_log_name,
    version_of,
)
from firn.journal.leaderless.journal import LeaderlessJournal
from firn.journal.leaderless.maintain import cleanup, known_log, lease, session, sweep, unlocked
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay import checkpoint, horizon, loader, replay
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import Commit
from simulation import leaderless_table

Mutation = Callable[[pytest.MonkeyPatch], None]
Listed = Mapping[str, ObjectInfo]


# -- rule 2


def stamp_by_own_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MaintenanceSession, "_stamp", lambda self: self.table.clock.now_ms())


# -- rules 3 and 4


def append_without_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(append.OpenAppend, "check_age", lambda self: None)
    patch.setattr(append.OpenAppend, "_check_files", lambda self, commit: None)


def retry_the_log_for_ever(patch: pytest.MonkeyPatch) -> None:
    def publish(self: append.OpenAppend, commit: Commit) -> str:
        log = append.append_log(commit, self.table.clock.now_ms())
        self.check_age()
        while True:
            try:
                self.table.log_bucket.put(self.table.layout.log_key(log.name), encode(log))
                return version_of(log.name)
            except OutcomeUnknownError:
                self.table.clock.sleep(3 * 3600)

    patch.setattr(append.OpenAppend, "_publish", publish)


def stamp_long_before_the_log(patch: pytest.MonkeyPatch) -> None:
    made = append.append_log

    def early(commit: Commit, ms: int) -> Log:
        return made(commit, min((f.created_ms for f in commit.adds), default=ms) - 1_800_000)

    patch.setattr(append, "append_log", early)


# -- rule 6


def no_settling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "settle_intent", lambda bucket, intent: None)


def settle_by_deleting(patch: pytest.MonkeyPatch) -> None:
    def delete(bucket: Bucket, intent: str) -> None:
        try:
            blob = bucket.get(intent)
        except ObjectNotFoundError:
            return
        if decode(intent.rpartition("/")[2], blob.data, where=intent).is_reservation:
            bucket.delete(intent)

    patch.setattr(lease, "settle_intent", delete)


def list_before_acquiring(patch: pytest.MonkeyPatch) -> None:
    exclusive = LeaderlessJournal.exclusive

    @contextmanager
    def early(self: LeaderlessJournal, op: str, **options: Any) -> Iterator[MaintenanceSession]:
        loaded = self.loader.load(scope=Scope.ALL)
        with exclusive(self, op, **options) as held:
            held._loaded = loaded
            yield held

    patch.setattr(LeaderlessJournal, "exclusive", early)


# -- rule 7


def believe_refusals(patch: pytest.MonkeyPatch) -> None:
    def plain(bucket: Bucket, key: str, data: bytes, etag: str, *, nonce: str, retry_for: Any = None) -> str:
        return bucket.put_if_match(key, data, etag, retry_for=retry_for)

    patch.setattr(session, "swap", plain)
    patch.setattr(MaintenanceSession, "_is_void", lambda self, key: True)


# -- rule 8


def check_the_lease_then_put(patch: pytest.MonkeyPatch) -> None:
    def publish(self: MaintenanceSession, lease: lease.Lease, log: Log, revived: Any) -> None:
        lease.renew()
        self.table.log_bucket.put(self.table.layout.log_key(log.name), encode(log))

    patch.setattr(MaintenanceSession, "_publish_fenced", publish)


def publish_without_reservation(patch: pytest.MonkeyPatch) -> None:
    def publish(self: MaintenanceSession, lease: lease.Lease, log: Log, revived: Any) -> None:
        key = self.table.layout.log_key(log.name)
        lease.announce(key)
        create(self.table.log_bucket, key, encode(log), nonce=log.nonce)

    patch.setattr(MaintenanceSession, "_publish_fenced", publish)


def announce_after_publishing(patch: pytest.MonkeyPatch) -> None:
    def publish(self: MaintenanceSession, lease: lease.Lease, log: Log, revived: Any) -> None:
        bucket, key = self.table.log_bucket, self.table.layout.log_key(log.name)
        lease.check()
        reservation = encode(Log(log.name, log.t, notes={"op": "reserve"}, nonce=log.nonce))
        etag = create(bucket, key, reservation, nonce=log.nonce)
        swap(bucket, key, encode(replace(log, nonce=log.nonce[::-1])), etag, nonce=log.nonce[::-1])
        lease.announce(key)

    patch.setattr(MaintenanceSession, "_publish_fenced", publish)


# -- rule 11


def _rebuilt(patch: pytest.MonkeyPatch, change: Callable[[replay.ReplayedState, Commit, Log], Log]) -> None:
    made = replay.maintenance_log

    def changed(state: replay.ReplayedState, commit: Commit, **options: Any) -> Log:
        return change(state, commit, made(state, commit, **options))

    patch.setattr(session, "maintenance_log", changed)


def carry_own_words(patch: pytest.MonkeyPatch) -> None:
    """Paths as the log that first named them has them: the reference's way."""

    def change(state: replay.ReplayedState, commit: Commit, log: Log) -> Log:
        first: dict[str, bool] = {}
        for earlier in state.logs:
            for file in earlier.files:
                first.setdefault(file.path, file.path in earlier.dead)
        dead = {p: t for p, t in log.dead.items() if p in commit.removes or first.get(p)}
        return replace(log, dead=dead)

    _rebuilt(patch, change)


def carry_touched_paths(patch: pytest.MonkeyPatch) -> None:
    def change(state: replay.ReplayedState, commit: Commit, log: Log) -> Log:
        touched = {*commit.removes, *(f.path for f in commit.adds)}
        return replace(log, files=[f for f in log.files if f.path in touched])

    _rebuilt(patch, change)


def tombstone_nothing(patch: pytest.MonkeyPatch) -> None:
    _rebuilt(patch, lambda state, commit, log: replace(log, tombstones={}))


# -- rules 12 and 13


def age_from_the_stamp(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "effective_time", lambda t, log, modified_ms: t)


def no_margin_for_skew(patch: pytest.MonkeyPatch) -> None:
    planned = cleanup.plan_cleanup

    def plan(state: Any, listed: Any, *, before_ms: int, **more: Any) -> cleanup.CleanupPlan:
        return planned(state, listed, before_ms=before_ms + 120_000, **more)

    patch.setattr(sweep, "plan_cleanup", plan)
    patch.setattr(leaderless_table, "plan_cleanup", plan)


# -- rule 14


def _cleaned_by(patch: pytest.MonkeyPatch, run: Callable[..., None]) -> None:
    patch.setattr(sweep, "run_cleanup", run)
    patch.setattr(leaderless_table, "run_cleanup", run)


def replace_before_deleting(patch: pytest.MonkeyPatch) -> None:
    run = cleanup.run_cleanup

    def reversed_order(table: TableLog, plan: cleanup.CleanupPlan, listed: Listed) -> None:
        run(table, replace(plan, data=(), logs=()), listed)
        run(table, replace(plan, rewrites=()), listed)

    _cleaned_by(patch, reversed_order)


def replace_under_a_new_name(patch: pytest.MonkeyPatch) -> None:
    run = cleanup.run_cleanup

    def renamed(table: TableLog, plan: cleanup.CleanupPlan, listed: Listed) -> None:
        run(table, replace(plan, rewrites=()), listed)
        for log in plan.rewrites:
            name = new_log_name(log.t, maintenance=True)
            table.log_bucket.put(table.layout.log_key(name), encode(replace(log, name=name)))
            table.log_bucket.delete(table.layout.log_key(log.name))

    _cleaned_by(patch, renamed)


def replace_by_plain_put(patch: pytest.MonkeyPatch) -> None:
    run = cleanup.run_cleanup

    def plain(table: TableLog, plan: cleanup.CleanupPlan, listed: Listed) -> None:
        run(table, replace(plan, rewrites=()), listed)
        for log in plan.rewrites:
            table.log_bucket.put(table.layout.log_key(log.name), encode(log))

    _cleaned_by(patch, plain)


# -- rule 15


def delete_whatever_is_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cleanup, "_named_alive", lambda logs: set())


# -- rule 16


def sweep_without_lock(patch: pytest.MonkeyPatch) -> None:
    def unlocked(self: LeaderlessJournal, **options: Any) -> Any:
        return sweep.sweep(MaintenanceSession(self, "sweep", None, None), **options)

    patch.setattr(LeaderlessJournal, "sweep", unlocked)


def sweep_young_orphans(patch: pytest.MonkeyPatch) -> None:
    orphans = sweep._orphans
    patch.setattr(sweep, "_orphans", lambda parts, named, before_ms: orphans(parts, named, None))


def sweep_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MaintenanceSession, "confirm", lambda self: None)


# -- rows in logs (docs/design/0018-inlined-rows.md)


def rows_outlive_their_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "_end_replaced_rows", lambda logs, files, dead: None)


def leave_rows_of_other_partitions(patch: pytest.MonkeyPatch) -> None:
    whole = leaderless_table.rows_that_stay

    def first(journal: Any, files: Any, erased: Any = ()) -> dict[str, list[int]]:
        found = whole(journal, files, erased)
        return dict(list(found.items())[:1])

    patch.setattr(leaderless_table, "rows_that_stay", first)


def merge_logs_with_rows(patch: pytest.MonkeyPatch) -> None:
    """A merge replaces every log, also those whose rows it doesn't write."""
    made = replay.maintenance_log

    def careless(state: replay.ReplayedState, commit: Commit, **options: Any) -> Log:
        dead = {**state.dead, **{path: 0 for path, f in state.files.items() if f.inlined is not None}}
        return made(replace(state, dead=dead), commit, **options)

    patch.setattr(session, "maintenance_log", careless)


# -- rules 27 and 28


def name_unlocked_parts_as_maintenance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableLayout, "unlocked_namer", lambda self: DataNamer(self.data_prefix, "m"))


def merge_without_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unlocked.UnlockedMerge, "check", lambda self: None)
    patch.setattr(unlocked.UnlockedMerge, "orphans_went", lambda self: False)


def replace_what_is_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unlocked.PublishingSession, "are_live", lambda self, paths: True)


def merge_under_other_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unlocked.PublishingSession, "reads_alike", lambda self: True)


# -- rule 17


def _fetching(patch: pytest.MonkeyPatch, accept: Callable[[Any, ObjectInfo], bool]) -> None:
    def fetch(self: Any, names: Sequence[Any]) -> bool:
        missing = [n for n in names if n.name not in self.logs]
        for n in list(missing):
            log = self.cache.get((n.name, self.listed[n.name].etag))
            if log is not None:
                self.logs[n.name] = log
                self.used_cache.append(n.name)
                missing.remove(n)
        blobs = self.loader.bucket.get_many([self.listed[n.name].key for n in missing])
        for n, blob in zip(missing, blobs, strict=True):
            if not accept(blob, self.listed[n.name]):
                return False
            void = Log(n.name, n.ms)
            self.logs[n.name] = void if blob is None else decode(n.name, blob.data, where=n.name)
            self.new_maintenance |= n.maintenance
        return True

    patch.setattr(loader.LogReading, "fetch", fetch)


def believe_any_etag(patch: pytest.MonkeyPatch) -> None:
    _fetching(patch, lambda blob, info: blob is not None)


def pass_over_missing_logs(patch: pytest.MonkeyPatch) -> None:
    _fetching(patch, lambda blob, info: blob is None or blob.info.etag == info.etag)


def get_before_the_list_ends(patch: pytest.MonkeyPatch) -> None:
    class Hasty:
        """Reads each log of the first half of a LIST before it goes on to the second."""

        def __init__(self, bucket: Bucket) -> None:
            self.bucket, self.early = bucket, dict[str, Any]()

        def list(self, prefix: str, *, after: str | None = None) -> Any:
            listing = self.bucket.list(prefix, after=after)
            if not prefix.endswith("_log/") or len(listing.objects) < 2:
                return listing
            half = listing.objects[: len(listing.objects) // 2]
            keys = [i.key for i in half]
            self.early = dict(zip(keys, self.bucket.get_many(keys), strict=True))
            rest = self.bucket.list(prefix, after=keys[-1])
            return replace(listing, objects=(*half, *rest.objects))

        def get_many(self, keys: Sequence[str]) -> list[Any]:
            late = iter(self.bucket.get_many([k for k in keys if self.early.get(k) is None]))
            return [self.early.get(k) or next(late) for k in keys]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.bucket, name)

    made = loader.LogLoader.__init__

    def init(self: Any, bucket: Bucket, *rest: Any, **more: Any) -> None:
        made(self, Hasty(bucket), *rest, **more)  # type: ignore[arg-type]

    patch.setattr(loader.LogLoader, "__init__", init)


# -- rules 18 and 19


def checkpoint_by_name(patch: pytest.MonkeyPatch) -> None:
    def take(self: Any, names: Sequence[Any]) -> list[Any]:
        bodies = {name: body for (name, _), body in self._bodies.items()}
        found = [n for n in names if n.name in bodies]
        self.used_cache += [n.name for n in found]
        self._keep([(n.name, bodies[n.name], n.name) for n in found])
        return [n for n in names if n.name not in bodies]

    patch.setattr(loader.LogReading, "_from_checkpoint", take)


def checkpoint_beyond_the_list(patch: pytest.MonkeyPatch) -> None:
    load = loader.LogLoader.load

    def trusting(self: loader.LogLoader, **options: Any) -> loader.Loaded:
        loaded = load(self, **options)
        bodies = checkpoint.read(self.bucket, self.layout).bodies
        known = {log.name for log in loaded.logs}
        more = [
            (name, body, name) for (name, _), body in bodies.items() if name not in {*known, *loaded.listed}
        ]
        listed = {name: ObjectInfo(self.layout.log_key(name), len(body), "", 0) for name, body, _ in more}
        if options.get("bound") is not None:
            return loaded
        return replace(loaded, logs=(*loaded.logs, *decode_many(more)), listed={**loaded.listed, **listed})

    patch.setattr(loader.LogLoader, "load", trusting)


def no_second_list(patch: pytest.MonkeyPatch) -> None:
    never = property(lambda self: False, lambda self, value: None)
    patch.setattr(loader.LogReading, "new_maintenance", never, raising=False)


# -- rule 20


def stream_maintenance(patch: pytest.MonkeyPatch) -> None:
    def every(self: LeaderlessJournal, naming: Any = None, *, since_ms: int = 0) -> tuple[Log, ...]:
        logs = self.loader.load(scope=Scope.ALL).logs
        return tuple(sorted((g for g in logs if not g.is_reservation), key=lambda g: g.order))

    patch.setattr(LeaderlessJournal, "append_logs", every)


def watermark_at_the_clock(patch: pytest.MonkeyPatch) -> None:
    after = stream._after

    def now(journal: LeaderlessJournal, offset: Any, delivered: Any, now: int, **options: Any) -> Any:
        s = journal.settings
        ahead = s.retry_window_ms + s.landing_delay_ms + 2 * s.max_skew_ms
        return replace(after(journal, offset, delivered, now + ahead, **options), polled_ms=now)

    patch.setattr(stream, "_after", now)


def stream_at_any_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stream, "_check_age", lambda journal, offset: None)
    patch.setattr(stream, "read_horizon", lambda bucket, layout: horizon.SweepHorizon())


# -- what goes beyond the rules' numbers


def restore_at_any_age(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MaintenanceSession, "_check_revived", lambda self, revived: None)


def take_batches_over_unvoided(patch: pytest.MonkeyPatch) -> None:
    def look(self: Any, name: str) -> bool:
        try:
            self.bucket.get(self.layout.log_key(name))
        except ObjectNotFoundError:
            return True
        return False

    patch.setattr(append._BatchCommit, "_void", look)


def forget_batches_when_merging(patch: pytest.MonkeyPatch) -> None:
    def change(state: replay.ReplayedState, commit: Commit, log: Log) -> Log:
        notes: Mapping[str, Any] = {k: v for k, v in log.notes.items() if k != "batches"}
        return replace(log, notes=notes)

    _rebuilt(patch, change)


def skip_logs_that_are_not_carried(patch: pytest.MonkeyPatch) -> None:
    """A reader that passes over every log below the newest maintenance log, as if nobody appended late."""

    def replaced(self: Any) -> set[str]:
        newest = max((log.order for log in self.logs.values() if log.tombstones), default=(0, ""))
        return {
            n for n in self.listed if (p := parse_log_name(n)) and p.ms is not None and (p.ms, n) < newest
        }

    patch.setattr(loader.LogReading, "replaced", replaced)


def settle_by_presence(patch: pytest.MonkeyPatch) -> None:
    def present(journal: LeaderlessJournal, key: str, nonce: str, error: OutcomeUnknownError) -> bool:
        try:
            journal.log_bucket.head(key)
        except ObjectNotFoundError:
            raise error from None
        return True

    patch.setattr(append, "settle_append", present)


def wake_up_fenced(patch: pytest.MonkeyPatch) -> None:
    """A holder whose lock was taken over goes on all the same."""

    def write(self: lease.Lease, *, intent: str | None, holder: str | None) -> None:
        state = replace(self._state, intent=intent, holder=holder, nonce=self._state.nonce + ".")
        try:
            self._etag = swap(self.bucket, self.key, state.encode(), self._etag, nonce=state.nonce)
            self._state = state
        except ConflictError:
            return

    patch.setattr(lease.Lease, "_write", write)


# -- keeping (docs/design/0020-keeping.md)


def fold_what_was_listed_before_the_lock(patch: pytest.MonkeyPatch) -> None:
    exclusive = LeaderlessJournal.exclusive

    @contextmanager
    def early(self: LeaderlessJournal, op: str, **options: Any) -> Iterator[MaintenanceSession]:
        known = options.get("known")
        loaded = None if known is None else known_log.newer(self.loader, known)
        with exclusive(self, op, **options) as held:
            held._loaded, held.whole = loaded, loaded is None
            yield held

    patch.setattr(LeaderlessJournal, "exclusive", early)


def forget_what_a_fold_replaced(patch: pytest.MonkeyPatch) -> None:
    """What is known after a fold lacks what the fold itself says."""
    known = known_log.after_publishing

    def without(*given: Any) -> known_log.KnownLog:
        found = known(*given)
        return replace(found, logs=(*found.logs[:-1], replace(found.logs[-1], tombstones={})))

    patch.setattr(session, "after_publishing", without)
