"""Listing and reading the log: which logs to fetch, and when what was fetched is one consistent view."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from firn.bucket.base import Bucket, Listing, ObjectInfo
from firn.clock import Clock
from firn.concurrency.forked import ForkedLock
from firn.errors import StoreUnavailableError
from firn.journal.leaderless.format.codec import Log, decode_many, replaced_names, with_part
from firn.journal.leaderless.format.layout import LogName, TableLayout, parse_log_name
from firn.journal.leaderless.format.settings import Window
from firn.journal.leaderless.replay import checkpoint
from firn.journal.leaderless.replay.checkpoint import Basis, Bodies, Checkpoint
from firn.pauses import no_collection

CHECKPOINT_FROM = 5
"""Below so many uncached logs the checkpoint isn't asked for: it may not exist, and they cost as little."""
MAX_ATTEMPTS = 50
BUILDING_ATTEMPTS = 5
"""After so many a view lists everything: an earlier one may count a log that is gone, and that nothing replaced."""
WHOLE, VIEW, TAIL, HELD = "whole", "view", "tail", "held"
"""What a load lists: everything, what is behind an earlier view, or what a stream may deliver; or logs that a fold
has read beside."""


class Scope(Enum):
    """Which of the listed logs are read: `LIVE` those that no complete log replaces, `MAINTENANCE` also all of
    maintenance, which say when something died, `ALL` every one."""

    LIVE = auto()
    MAINTENANCE = auto()
    ALL = auto()


@dataclass(frozen=True)
class Bound:
    """Up to where the log is read: all logs of order ≤ (`ms`, `name`), `name` None for the whole of `ms`."""

    ms: int
    name: str | None = None

    def covers(self, ms: int, name: str) -> bool:
        return ms < self.ms or (ms == self.ms and (self.name is None or name <= self.name))


@dataclass(frozen=True)
class Loaded:
    """Logs of one consistent view, with what the LIST said of every log that it saw (read or not).

    `at_ms` is a clock before that LIST. A view that was built on a `basis` listed what is behind its start alone; of
    older logs it knows those that counted then.
    """

    logs: tuple[Log, ...]
    listed: dict[str, ObjectInfo]
    at_ms: int
    basis: Basis | None = None

    @property
    def shown(self) -> Collection[str]:
        """The names that the LIST itself has shown."""
        return self.listed if self.basis is None else [n for n in self.listed if n >= self.basis.start]


class LogLoader:
    """Reads a table's logs, keeping decoded ones by (name, etag) for the next load.

    Args:
        window: how far behind a basis, of a time or of now, a view has to look; None where it has to list everything.
        clocked: the table has a key.
    """

    def __init__(
        self,
        bucket: Bucket,
        layout: TableLayout,
        clock: Clock,
        window: Callable[[int | None], Window | None],
        *,
        clocked: bool = False,
    ) -> None:
        self.bucket, self.layout, self.clock, self.window = bucket, layout, clock, window
        self.clocked = clocked
        self._cache: dict[tuple[str, str], Log] = {}
        self._kept: dict[str, frozenset[str]] = {}
        self._last: Basis | None = None
        self._mutex = ForkedLock()
        self.highest_ms = 0
        """The latest time of a log that this process has seen."""

    def saw(self, ms: int) -> None:
        """Take note of a log's time."""
        with self._mutex:
            self.highest_ms = max(self.highest_ms, ms)

    def load(
        self,
        *,
        bound: Bound | None = None,
        scope: Scope = Scope.LIVE,
        whole: bool = False,
        raw: dict[tuple[str, str], bytes] | None = None,
    ) -> Loaded:
        """One consistent view of the log.

        Cost: 1 LIST sequence + 1 GET a log of the scope that isn't cached, in parallel; with a checkpoint 1 GET for
        all that it holds. A log that changes or vanishes meanwhile: again.

        Where the table has a window, the LIST begins there, behind the last view or the checkpoint: 1 GET more for
        the latter, in a new process and after a rest. Not with a bound, another scope, or `whole`. `raw` gets the
        bytes of logs that are read from the store, by name and ETag.
        """

        def attempt(number: int) -> Loaded | None:
            alone = bound is not None or scope is not Scope.LIVE or whole or number >= BUILDING_ATTEMPTS
            found = Checkpoint() if alone else self._basis()
            loaded = self._attempt(bound, scope, found, raw=raw)
            return loaded if loaded is not None and self.counts(loaded) else None

        loaded = self._until_consistent(attempt)
        if bound is None:
            self._build_on(loaded)
        return loaded

    def load_from(self, since_ms: int) -> Loaded:
        """Every log that is named from a time on, replaced or not. Cost: a LIST from there on, 1 GET a log not
        cached."""
        tail = Checkpoint(basis=Basis(since_ms, 0, {}, frozenset()))
        return self._until_consistent(lambda _: self._attempt(None, Scope.ALL, tail, TAIL))

    def replaced_by(self, names: Sequence[LogName], listed: dict[str, ObjectInfo]) -> set[str] | None:
        """What these maintenance logs replace, and those that they replace; None if one changed since the LIST. 1 GET
        a log that isn't known, and that no other of them replaces."""
        with self._mutex:
            cache = self._cache
        attempt = LogReading(self, listed, cache)
        if not attempt.fetch_replacers(names):
            return None
        with self._mutex:
            found = {(name, listed[name].etag): log for name, log in attempt.logs.items()}
            self._cache = {**self._cache, **found}
        return attempt.replaced()

    def _until_consistent(self, attempt: Callable[[int], Loaded | None]) -> Loaded:
        """What an attempt finds while nothing changes meanwhile."""
        for number in range(MAX_ATTEMPTS):
            if (loaded := attempt(number)) is not None:
                return loaded
            self.clock.sleep(random.random() * min(0.05 * 2**number, 2.0))
        raise StoreUnavailableError(
            f"{self.bucket.uri(self.layout.log_prefix)} changed {MAX_ATTEMPTS} times while it was read. "
            "Is cleanup run in a loop? Retry."
        )

    def _build_on(self, loaded: Loaded) -> None:
        """Let the next view build on this one."""
        window = self.window(None)
        if window is None:
            return
        replaced = replaced_names(loaded.logs)
        live = (log.name for log in loaded.logs if log.name not in replaced)
        basis = Basis.of(loaded.at_ms, window.width_ms, loaded.listed, live)
        with self._mutex:
            self._last = basis

    def forget(self) -> None:
        """Build on no view of this process."""
        with self._mutex:
            self._last = None

    def counts(self, loaded: Loaded) -> bool:
        """Whether a view still holds, by what is known of the table's times by now: cleanup may have taken back what
        replaced logs of an old basis (rule 23)."""
        return loaded.basis is None or self._may_build_on(loaded.basis)

    def _may_build_on(self, basis: Basis) -> bool:
        window = self.window(basis.at_ms)
        if window is None or basis.window_ms != window.width_ms:
            return False
        age = self.clock.now_ms() - basis.at_ms
        return -window.skew_ms <= age <= window.lasts_ms  # a basis of the future: this clock was set back

    def _basis(self) -> Checkpoint:
        """The newest basis there is: this process's last view, or the checkpoint, which has bodies too."""
        window = self.window(None)
        if window is None:
            return Checkpoint()
        with self._mutex:
            last = self._last
        if last is not None and not self._may_build_on(last):
            last = None
        if last is not None and self.clock.now_ms() - last.at_ms <= window.width_ms:
            return Checkpoint(basis=last)
        stored = checkpoint.read(self.bucket, self.layout)
        basis = stored.basis
        if basis is not None and not self._may_build_on(basis):
            basis = None
        if last is not None and (basis is None or basis.at_ms < last.at_ms):
            basis = last
        return Checkpoint(stored.bodies, basis)

    def _attempt(
        self,
        bound: Bound | None,
        scope: Scope,
        found: Checkpoint,
        kind: str = VIEW,
        raw: dict[tuple[str, str], bytes] | None = None,
    ) -> Loaded | None:
        with self._mutex:
            cache = self._cache
        at_ms = self.clock.now_ms()
        start = "" if found.basis is None else found.basis.start
        listing, listed, names = self._list(found.basis, start)
        if bound is not None:
            names = [n for n in names if n.ms is None or bound.covers(n.ms, n.name)]
        attempt = LogReading(self, listed, cache, found.bodies or None, raw)
        there = True
        if scope is Scope.MAINTENANCE:
            there = attempt.fetch([n for n in names if n.maintenance])
        elif scope is Scope.LIVE and all(n.ms is not None for n in names):
            there = attempt.fetch_replacers(names)
        replaced = attempt.replaced()
        names = [n for n in names if n.name in attempt.logs or n.name not in replaced]
        if not (there and attempt.fetch(names)):
            return None
        if scope is Scope.LIVE:  # of maintenance logs that were got at once, one may replace another
            replaced = attempt.replaced()
            names = [n for n in names if n.name not in replaced]
        if not listing.atomic and attempt.used_cache and attempt.new_maintenance:
            # Rule 19: a LIST of several pages can show a cached log that cleanup has deleted since, beside
            # the cleaned log that no longer buries its files. One that was known before the LIST can't do that.
            again = {info.key for info in self._listing(start).objects}
            if any(name >= start and listed[name].key not in again for name in attempt.used_cache):
                return None
        self._remember(attempt.logs, listed, WHOLE if found.basis is None else kind)
        logs = tuple(attempt.logs[n.name] for n in names)
        if bound is not None:
            logs = tuple(log for log in logs if bound.covers(log.t, log.name))
        return Loaded(logs, listed, at_ms, found.basis)

    def _list(self, basis: Basis | None, start: str) -> tuple[Listing, dict[str, ObjectInfo], list[LogName]]:
        """What a LIST from `start` on shows, and the basis before it: names, and those to be read."""
        # Rule 17: the LIST is finished before the first GET.
        listing = self._listing(start)
        listed = {} if basis is None else {n: i for n, i in basis.logs.items() if n < start}
        names = [parsed for name in listed if (parsed := parse_log_name(name)) is not None]
        replaced: frozenset[str] = frozenset() if basis is None else basis.replaced
        with no_collection():
            for parsed, info in self.layout.logs_in(listing.objects).items():
                if parsed.name >= start:
                    listed[parsed.name] = info
                    if parsed.name not in replaced:
                        names.append(parsed)
        self.saw(max((n.ms for n in names if n.ms is not None), default=0))
        return listing, listed, names

    def _listing(self, start: str) -> Listing:
        """The log's objects, from a name on."""
        after = self.layout.log_key(start)[:-1] if start else None
        return self.bucket.list(self.layout.log_prefix, after=after)

    def hold(self, logs: Mapping[str, Log], listed: Mapping[str, ObjectInfo]) -> None:
        """Keep logs that were read beside, until everything is listed again: maintenance will ask for them."""
        with self._mutex:
            self._kept[HELD] = self._kept.get(HELD, frozenset()) | logs.keys()
            self._cache = self._cache | {(name, listed[name].etag): log for name, log in logs.items()}

    def _remember(self, logs: Mapping[str, Log], listed: Mapping[str, ObjectInfo], kind: str) -> None:
        """Keep these logs and what else was listed. Logs that were listed by the last load of another kind stay, too,
        until everything is listed: a stream reads older logs than a view, and a view some that no stream reads."""
        with self._mutex:
            if kind == WHOLE:
                self._kept.clear()
            self._kept[kind] = frozenset(listed)
            kept = {
                k: v
                for k, v in self._cache.items()
                if (
                    listed[k[0]].etag == k[1]
                    if k[0] in listed
                    else any(k[0] in names for names in self._kept.values())
                )
            }
            kept.update({(name, listed[name].etag): log for name, log in logs.items()})
            self._cache = kept


class LogReading:
    """The logs that one attempt has read so far. `bodies` are those of the log checkpoint; None where it is asked for
    when that pays. `raw` gets the bytes of others."""

    def __init__(
        self,
        loader: LogLoader,
        listed: dict[str, ObjectInfo],
        cache: Mapping[tuple[str, str], Log],
        bodies: Bodies | None = None,
        raw: dict[tuple[str, str], bytes] | None = None,
    ) -> None:
        self.loader, self.listed, self.cache = loader, listed, cache
        self.logs: dict[str, Log] = {}
        self.used_cache: list[str] = []
        self.new_maintenance = False
        self._bodies, self._raw = bodies, raw

    def replaced(self) -> set[str]:
        return replaced_names(self.logs.values())

    def fetch_replacers(self, names: Sequence[LogName]) -> bool:
        """Get the maintenance logs that nothing replaces: usually the newest tells what need not be read."""
        maintenance = sorted((n for n in names if n.maintenance), key=lambda n: (n.ms, n.name), reverse=True)
        for newest in maintenance:
            if not self.fetch([newest]):
                return False
            if self.logs[newest.name].tombstones:
                break
        replaced = self.replaced()
        return self.fetch([n for n in maintenance if n.name not in replaced])

    def fetch(self, names: Sequence[LogName]) -> bool:
        """Get these logs from the caches or the store; False if one changed since the LIST."""
        missing: list[LogName] = []
        for n in names:
            if n.name in self.logs:
                continue
            log = self.cache.get((n.name, self.listed[n.name].etag))
            if log is None:
                missing.append(n)
                self.new_maintenance |= n.maintenance
            else:
                self.logs[n.name] = log
                self.used_cache.append(n.name)
        if self._bodies is None and len(missing) >= CHECKPOINT_FROM:
            self._bodies = checkpoint.read(self.loader.bucket, self.loader.layout).bodies
        if self._bodies:
            missing = self._from_checkpoint(missing)
        blobs = self.loader.bucket.get_many([self.listed[n.name].key for n in missing]) if missing else []
        fetched = []
        for n, blob in zip(missing, blobs, strict=True):
            if blob is None or blob.info.etag != self.listed[n.name].etag:
                return False
            fetched.append((n.name, blob.data, self.loader.bucket.uri(blob.info.key)))
            if self._raw is not None:
                self._raw[n.name, blob.info.etag] = blob.data
        self._keep(fetched)
        return True

    def _from_checkpoint(self, names: Sequence[LogName]) -> list[LogName]:
        """Take what the checkpoint holds in the listed version; the rest is returned."""
        found, rest = [], []
        for n in names:
            info = self.listed[n.name]
            body = (self._bodies or {}).get((n.name, info.etag))
            if body is None:
                rest.append(n)
            else:
                found.append((n.name, body, self.loader.bucket.uri(info.key)))
                self.used_cache.append(n.name)
        self._keep(found)
        return rest

    def _keep(self, bodies: Sequence[tuple[str, bytes, str]]) -> None:
        prefix, clocked = self.loader.layout.log_prefix, self.loader.clocked
        with no_collection():
            for log in decode_many(bodies):
                self.logs[log.name] = with_part(log, prefix + log.name, clocked=clocked)
