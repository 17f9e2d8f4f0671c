"""Listing and reading the log: which logs to fetch, and when what was fetched is one consistent view."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.bucket.base import Bucket, ObjectInfo
from firn.clock import Clock
from firn.errors import StoreUnavailableError
from firn.journal.leaderless.format.codec import Log, decode_many, replaced_names, with_part
from firn.journal.leaderless.format.layout import LogName, TableLayout, parse_log_name
from firn.journal.leaderless.replay import checkpoint

CHECKPOINT_FROM = 5
"""Below so many uncached logs the checkpoint isn't asked for: it may not exist, and they cost as little."""
MAX_ATTEMPTS = 50


@dataclass(frozen=True)
class Bound:
    """Up to where the log is read: all logs of order ≤ (`ms`, `name`), `name` None for the whole of `ms`."""

    ms: int
    name: str | None = None

    def covers(self, ms: int, name: str) -> bool:
        return ms < self.ms or (ms == self.ms and (self.name is None or name <= self.name))


@dataclass(frozen=True)
class Loaded:
    """Logs of one consistent view, with what the LIST said of every log that it saw (read or not)."""

    logs: tuple[Log, ...]
    listed: dict[str, ObjectInfo]


class LogLoader:
    """Reads a table's logs, keeping decoded ones by (name, etag) for the next load. `clocked`: it has a key."""

    def __init__(self, bucket: Bucket, layout: TableLayout, clock: Clock, *, clocked: bool = False) -> None:
        self.bucket, self.layout, self.clock, self.clocked = bucket, layout, clock, clocked
        self._cache: dict[tuple[str, str], Log] = {}
        self._mutex = threading.Lock()
        self.highest_ms = 0
        """The latest time of a log that this process has seen."""

    def saw(self, ms: int) -> None:
        """Take note of a log's time."""
        with self._mutex:
            self.highest_ms = max(self.highest_ms, ms)

    def load(self, *, bound: Bound | None = None, every: bool = False) -> Loaded:
        """One consistent view of the log.

        Readers skip logs that a newer maintenance log replaces and carries whole; `every` reads those
        too, as maintenance must (rule 10). Cost: 1 LIST sequence + 1 GET a log not cached, in parallel; with
        a checkpoint 1 GET for all that it holds. A log that changes or vanishes meanwhile: again.
        """
        for attempt in range(MAX_ATTEMPTS):
            loaded = self._attempt(bound, every)
            if loaded is not None:
                return loaded
            self.clock.sleep(random.random() * min(0.05 * 2**attempt, 2.0))
        raise StoreUnavailableError(
            f"{self.bucket.uri(self.layout.log_prefix)} changed {MAX_ATTEMPTS} times while it was read. "
            "Is cleanup run in a loop? Retry."
        )

    def _attempt(self, bound: Bound | None, every: bool) -> Loaded | None:
        with self._mutex:
            cache = self._cache
        # Rule 17: the LIST is finished before the first GET.
        listing = self.bucket.list(self.layout.log_prefix)
        listed: dict[str, ObjectInfo] = {}
        names: list[LogName] = []
        for info in listing.objects:
            parsed = parse_log_name(info.key[len(self.layout.log_prefix) :])
            if parsed is not None:
                listed[parsed.name] = info
                names.append(parsed)
        self.saw(max((n.ms for n in names if n.ms is not None), default=0))
        if bound is not None:
            names = [n for n in names if n.ms is None or bound.covers(n.ms, n.name)]
        attempt = _Attempt(self, listed, cache)
        if not every and all(n.ms is not None for n in names):
            # Newest first, until one that replaces others: usually one GET tells what need not be read.
            for newest in sorted(
                (n for n in names if n.maintenance), key=lambda n: (n.ms, n.name), reverse=True
            ):
                if not attempt.fetch([newest]):
                    return None
                if attempt.logs[newest.name].tombstones:
                    break
            names = [n for n in names if n.name in attempt.logs or n.name not in attempt.replaced()]
        if not attempt.fetch(names):
            return None
        if not listing.atomic and attempt.used_cache and attempt.new_maintenance:
            # Rule 19: a LIST of several pages can show a cached log that cleanup has deleted since, beside
            # the cleaned log that no longer buries its files. One that was known before the LIST can't do that.
            again = {info.key for info in self.bucket.list(self.layout.log_prefix).objects}
            if any(listed[name].key not in again for name in attempt.used_cache):
                return None
        self._remember(attempt.logs, listed)
        logs = tuple(attempt.logs[n.name] for n in names)
        if bound is not None:
            logs = tuple(log for log in logs if bound.covers(log.t, log.name))
        return Loaded(logs, listed)

    def _remember(self, logs: dict[str, Log], listed: dict[str, ObjectInfo]) -> None:
        with self._mutex:
            kept = {k: v for k, v in self._cache.items() if k[0] in listed and listed[k[0]].etag == k[1]}
            kept.update({(name, listed[name].etag): log for name, log in logs.items()})
            self._cache = kept


class _Attempt:
    """The logs that one attempt has read so far."""

    def __init__(
        self, loader: LogLoader, listed: dict[str, ObjectInfo], cache: Mapping[tuple[str, str], Log]
    ) -> None:
        self.loader, self.listed, self.cache = loader, listed, cache
        self.logs: dict[str, Log] = {}
        self.used_cache: list[str] = []
        self.new_maintenance = False
        self._bodies: dict[tuple[str, str], bytes] | None = None

    def replaced(self) -> set[str]:
        return replaced_names(self.logs.values())

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
            self._bodies = dict(checkpoint.read(self.loader.bucket, self.loader.layout.checkpoint_key))
        if self._bodies:
            missing = self._from_checkpoint(missing)
        blobs = self.loader.bucket.get_many([self.listed[n.name].key for n in missing]) if missing else []
        fetched = []
        for n, blob in zip(missing, blobs, strict=True):
            if blob is None or blob.info.etag != self.listed[n.name].etag:
                return False
            fetched.append((n.name, blob.data, self.loader.bucket.uri(blob.info.key)))
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
        key, clocked = self.loader.layout.log_key, self.loader.clocked
        self.logs.update(
            (log.name, with_part(log, key(log.name), clocked=clocked)) for log in decode_many(bodies)
        )


def write_checkpoint(loader: LogLoader) -> int:
    """Read every log and store the bytes of all of them: 1 LIST + 1 GET a log + 1 PUT. The number covered.

    Encoded anew from the bodies as they are in the store: a log checkpoint holds bytes, not decoded logs, so that
    it keeps the additions of later versions.
    """
    bucket, layout = loader.bucket, loader.layout
    listing = bucket.list(layout.log_prefix)
    chosen = [i for i in listing.objects if parse_log_name(i.key[len(layout.log_prefix) :]) is not None]
    have = checkpoint.read(bucket, layout.checkpoint_key)
    missing = [i for i in chosen if (layout.log_name(i.key), i.etag) not in have]
    fresh = {
        (layout.log_name(i.key), blob.info.etag): blob.data
        for i, blob in zip(missing, bucket.get_many([i.key for i in missing]), strict=True)
        if blob is not None
    }
    triples = []
    for info in chosen:
        name = layout.log_name(info.key)
        body = have.get((name, info.etag)) or fresh.get((name, info.etag))
        if body is not None:
            triples.append((name, info.etag, body))
    bucket.put(layout.checkpoint_key, checkpoint.encode(triples))
    return len(triples)
