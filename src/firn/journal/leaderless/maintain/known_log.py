"""A log by what is new: what a process knows of it from a view under the lock, and the next view, which lists only
what came since.

It is for folds, which take rows only of logs that this LIST shows. That is sound wherever the LIST begins, as long as
it is made under the lock: who replaced one of these logs has stamped above it (rule 2), so that the LIST shows that
log, too, in whatever state it will stay. What is known of files is true as long as no cleanup can have been over what
others have said since. See docs/design/0020-keeping.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firn.bucket.base import ObjectInfo
from firn.journal.leaderless.format.codec import Log, replaced_names
from firn.journal.leaderless.format.layout import parse_log_name
from firn.journal.leaderless.replay.loader import Loaded, LogLoader, LogReading
from firn.journal.leaderless.replay.replay import ReplayedState
from firn.journal.leaderless.replay.table_log import TableLog


@dataclass(frozen=True)
class KnownLog:
    """The logs that were seen under the lock and that no other log replaces, with what a LIST said of them.

    `after` is where the next LIST begins: before the oldest log that was taken last, or, if that is older than any
    append can land late, there. What lands below waits for a full view. `newest` is the newest maintenance log: if it
    isn't there any more, or the table is another one, only a full view will do. `at_ms` is a clock before the LIST.
    """

    at_ms: int
    after: str
    newest: str
    logs: tuple[Log, ...]
    listed: Mapping[str, ObjectInfo]

    def counts(self, loader: LogLoader) -> bool:
        """Whether it isn't so old that cleanup may have taken back what others said since. Looked at after the last
        GET, as rule 23 of the log has it: this process may have stalled."""
        window = loader.window(self.at_ms)
        if window is None:
            return False
        age_ms = loader.clock.now_ms() - self.at_ms
        return -window.skew_ms <= age_ms <= min(window.width_ms, window.lasts_ms)


def after_publishing(table: TableLog, state: ReplayedState, loaded: Loaded, log: Log, etag: str) -> KnownLog:
    """What is known once a session has published `log`."""
    gone = state.replaced() | replaced_names([log])
    taken = (parse_log_name(key.rpartition("/")[2]) for key, t in log.tombstones.items() if t == log.t)
    oldest = min((n.ms for n in taken if n is not None and n.ms and not n.maintenance), default=log.t)
    begin = max(oldest, log.t - table.settings.landing_ms)
    info = ObjectInfo(table.layout.log_key(log.name), 0, etag, log.t)
    stay = tuple(each for each in state.logs if each.name not in gone and each.name != log.name)
    listed = {each.name: loaded.listed[each.name] for each in stay}
    return KnownLog(loaded.at_ms, f"{begin:013d}", log.name, (*stay, log), {**listed, log.name: info})


def newer(loader: LogLoader, known: KnownLog) -> Loaded | None:
    """The known logs, and those that are listed behind them; None where only a full view will do. Must be called
    under the lock.

    Rows in logs that this LIST doesn't show are left out: nothing says that they are there still. Logs that a known
    or new log replaces aren't read. Cost: 1 LIST sequence of what is new, 1 GET a log that isn't known.
    """
    layout, after, at_ms = loader.layout, loader.layout.log_prefix + known.after, loader.clock.now_ms()
    listing = loader.bucket.list(layout.log_prefix, after=after)
    names = layout.logs_in(listing.objects)
    listed = {n.name: info for n, info in names.items()}
    if known.newest not in listed or any(n.ms is None for n in names):
        return None
    loader.saw(max(n.ms or 0 for n in names))
    cache = {(log.name, known.listed[log.name].etag): log for log in known.logs}
    attempt = LogReading(loader, listed, cache, bodies={})  # the log checkpoint is older than what is new
    if not attempt.fetch([n for n in names if n.maintenance]):
        return None
    below = [log for log in known.logs if log.name < known.after]
    replaced = replaced_names([*below, *attempt.logs.values()])
    if not attempt.fetch([n for n in names if n.name not in replaced]):
        return None
    if not listing.atomic and attempt.used_cache and attempt.new_maintenance:  # rule 19 of the log
        again = {info.key for info in loader.bucket.list(layout.log_prefix, after=after).objects}
        if any(listed[name].key not in again for name in attempt.used_cache):
            return None
    if not known.counts(loader):
        return None
    loader.hold(attempt.logs, listed)
    older = [_without_rows(log) for log in below]
    told = {log.name: known.listed[log.name] for log in older}
    return Loaded((*older, *attempt.logs.values()), {**told, **listed}, at_ms)


@dataclass(frozen=True)
class Waiting:
    """Append logs that no maintenance log is known to replace, as a LIST shows them: how many, their bytes, and the
    time of the oldest. `newest` is the newest maintenance log below which none of them is, and `last` the newest log
    of all."""

    logs: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    newest: str = ""
    last: str = ""


def waiting(loader: LogLoader, newest: str, known: KnownLog | None = None) -> Waiting:
    """Look what may be there to fold: behind `newest`, up to which nothing is counted, or behind what is `known`. It
    decides nothing: what is there is only certain under the lock.

    Cost: 1 LIST, and 1 GET a maintenance log of somebody else that isn't known yet: it may have taken these appends,
    or be about something else, an alteration or a deletion.
    """
    prefix = loader.layout.log_prefix
    after = prefix + (newest if known is None else known.after)
    logs = loader.layout.logs_in(loader.bucket.list(prefix, after=after).objects)
    names = [n for n in logs if n.ms is not None]
    listed = {n.name: logs[n] for n in names}
    settled: set[str] = set() if known is None else replaced_names(known.logs) | known.listed.keys()
    others = [n for n in names if n.maintenance and n.name not in settled]
    replaced = loader.replaced_by(others, listed)
    if replaced is None:  # one of them has changed meanwhile: count what it can't have taken
        last = max(n.name for n in others)
        settled |= {n.name for n in names if n.name < last}
    else:
        settled |= replaced
    found = [n for n in names if not n.maintenance and n.name not in settled]
    begin = min((n.name for n in found), default="~")
    newest = max([newest, *(n.name for n in names if n.maintenance and n.name < begin)])
    return Waiting(
        len(found),
        sum(listed[n.name].size for n in found),
        min((n.ms or 0 for n in found), default=0),
        newest,
        max(listed, default=""),
    )


def _without_rows(log: Log) -> Log:
    """The log without the rows that stand in it."""
    return log if log.inlined is None else replace(log, files=(), inlined=None)
