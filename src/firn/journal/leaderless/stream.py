"""Reading the log as a stream of appends, each delivered exactly once (rule 20).

Appends may land late, with a time in their name that has passed: by at most the retry window R and the
landing delay Z, plus what clocks are off. So an offset is a watermark and the names delivered above it:

    (W, names with ms ≥ W),   W = clock − (R + Z) − 2 × max skew

Maintenance logs are skipped: they rearrange rows that were delivered. A reader from the log's beginning first
takes all live files of one snapshot, as older append logs may have been merged and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from firn.errors import CorruptObjectError, SnapshotTooOldError
from firn.journal.leaderless.format.codec import Log
from firn.journal.leaderless.format.layout import parse_log_name
from firn.journal.leaderless.replay.horizon import read_horizon
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import DataFile, Delivered, Delivery, StreamStart
from firn.journal.naming import Naming

RENEW_PART = 4
"""An idle stream moves its offset on after this part of the time that it may rest, so that a restart finds it
fresh."""


@dataclass(frozen=True)
class StreamOffset:
    """Where a stream stands: everything below `watermark` and the logs `names` are delivered.

    `polled_ms` is when it was made; 0 for one that was given by hand (an explicit starting time). `count`
    is how many logs were delivered in all, by which a batch read again is known to be whole.
    """

    watermark: int
    names: tuple[str, ...] = ()
    polled_ms: int = 0
    count: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"w": self.watermark, "names": list(self.names), "polled": self.polled_ms, "count": self.count}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> StreamOffset:
        try:
            return StreamOffset(int(raw["w"]), tuple(raw["names"]), int(raw["polled"]), int(raw["count"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(f"not an offset of a Firn stream: {raw!r}") from error


def _after(
    table: TableLog,
    offset: StreamOffset,
    delivered: Sequence[Log],
    now: int,
    *,
    fresh: int,
    below: int | None = None,
) -> StreamOffset:
    """The offset once `delivered` are; its watermark stays at or under the oldest log left for later."""
    watermark = now - _landing_ms(table)
    if below is not None:
        watermark = min(watermark, below)
    watermark = max(watermark, offset.watermark)
    names = tuple(sorted(log.name for log in delivered if log.t >= watermark))
    return StreamOffset(watermark, names, now, offset.count + fresh)


def _landing_ms(table: TableLog) -> int:
    """How long after its time an append may appear, by any clock."""
    return table.lasting().landing_ms


def _longest_rest_ms(table: TableLog) -> int:
    s = table.lasting(least_grace=True)
    return s.grace_ms - s.retry_window_ms - s.landing_delay_ms


def _check_age(table: TableLog, offset: StreamOffset) -> None:
    longest = _longest_rest_ms(table)
    age = table.clock.now_ms() - offset.polled_ms
    if offset.polled_ms and age > longest:
        raise SnapshotTooOldError(
            f"the stream last looked at {table.layout.prefix} {age / 1000:.0f} s ago; appends of that time may "
            f"have been merged and swept since (after {longest / 1000:.0f} s). Start it anew from a "
            "snapshot, and raise the table's tombstone_grace if streams rest for longer."
        )


def _is_append(log: Log) -> bool:
    parsed = parse_log_name(log.name)
    return parsed is not None and not parsed.maintenance


def _live(log: Log) -> tuple[DataFile, ...]:
    return tuple(file for file in log.files if file.path not in log.dead)


class LeaderlessStream:
    """One table's log as streams know a journal; see `firn.journal.model.JournalStream`."""

    def __init__(self, table: TableLog, naming: Naming | None = None) -> None:
        self._table, self._naming = table, naming

    @property
    def name(self) -> str:
        return self._table.layout.prefix

    def parse(self, raw: Mapping[str, Any]) -> StreamOffset:
        return StreamOffset.from_json(raw)

    def since(self, time_ms: int) -> StreamOffset:
        return StreamOffset(time_ms)

    def target(self) -> frozenset[str]:
        """The append logs there are now."""
        return frozenset(log.name for log in self._table.append_logs(self._naming))

    def start(self) -> StreamStart[StreamOffset]:
        """All live files now, and the offset after them."""
        table = self._table
        now = table.clock.now_ms()
        logs = table.loader.load(scope=Scope.ALL).logs
        snapshot = table.fold(logs, self._naming).snapshot()
        appended = [log for log in logs if _is_append(log)]
        offset = _after(table, StreamOffset(0), appended, now, fresh=0)
        return StreamStart(snapshot.version, snapshot.files, offset, snapshot.in_files)

    def restart(self, version: str, offset: StreamOffset) -> Delivered:
        """The files of `start` again, after a crash, without logs that landed late since then."""
        table = self._table
        loaded = table.loader.load(bound=table.bound(version), scope=Scope.ALL)
        _check_age(table, offset)
        logs = [
            log
            for log in loaded.logs
            if not _is_append(log) or log.t < offset.watermark or log.name in offset.names
        ]
        snapshot = table.fold(logs, self._naming).snapshot()
        return Delivered(snapshot.files, (snapshot.in_files,))

    def poll(
        self, offset: StreamOffset, *, limit: int | None = None, among: AbstractSet[str] | None = None
    ) -> Delivery[StreamOffset]:
        """The appends that came since `offset`; at most `limit` logs, the oldest first, and only `among` these names.

        Raises:
            SnapshotTooOldError: the last poll is so old that appends may have come, been merged and been deleted
                in between. Nothing is skipped in silence.
        """
        table = self._table
        now = table.clock.now_ms()
        logs = table.append_logs(self._naming, since_ms=offset.watermark)
        appended = [log for log in logs if log.t >= offset.watermark]
        # After the LIST: this process may have stalled before it. With a limit, logs may have waited for many polls,
        # so the age of the last one doesn't tell whether they are still there; the record of sweeps does.
        _check_age(table, offset)
        horizon = read_horizon(table.log_bucket, table.layout).ms
        if horizon > offset.watermark:
            wait = horizon - (now - _landing_ms(table))
            when = f"; do so {-(-wait // 60_000)} min from now" if wait > 0 else ""  # an older_than was short
            raise SnapshotTooOldError(
                f"{table.layout.prefix} can't be streamed on from {offset.watermark} ms: appends since then may have "
                "been merged and swept. Start anew from a snapshot (or at a later time), and raise the table's "
                f"tombstone_grace{when}."
            )
        seen = set(offset.names)
        fresh = [log for log in appended if log.name not in seen and (among is None or log.name in among)]
        if limit is not None:
            fresh = fresh[:limit]
        delivered = [log for log in appended if log.name in seen] + fresh
        chosen = {log.name for log in delivered}
        undelivered = [log.t for log in appended if log.name not in chosen]
        after = _after(table, offset, delivered, now, fresh=len(fresh), below=min(undelivered, default=None))
        renew = table.clock.now_ms() - offset.polled_ms > _longest_rest_ms(table) // RENEW_PART
        return Delivery(tuple(_live(log) for log in fresh), after, renew)

    def between(self, begin: StreamOffset, end: StreamOffset) -> Delivered:
        """The files of one batch again: of the logs in `end` and not in `begin`."""
        table = self._table
        wanted = set(end.names) - set(begin.names)
        logs = [
            log
            for log in table.append_logs(self._naming, since_ms=begin.watermark)
            if log.name in wanted
            or (begin.watermark <= log.t < end.watermark and log.name not in begin.names)
        ]
        if len(logs) != end.count - begin.count:
            raise SnapshotTooOldError(
                f"this stream's batch read {end.count - begin.count} logs of {table.layout.prefix}, and "
                f"{len(logs)} of them are left: the others have been swept. Start the stream anew from a snapshot, "
                "and poll more often than the table's tombstone_grace."
            )
        return Delivered(
            tuple(file for log in logs for file in _live(log)), tuple(log.columns for log in logs)
        )
