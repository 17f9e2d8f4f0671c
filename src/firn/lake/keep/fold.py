"""A fold: rows that stand in logs become files, and files of a size larger ones, by what is new in the log since the
last fold.

    1 LIST + 1 GET a log + 1 PUT a partition + the lock's 1 GET and 2 PUTs + 3 PUTs to publish + 1 LIST
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.maintain import work_note
from firn.journal.leaderless.maintain.known_log import KnownLog, waiting
from firn.journal.leaderless.maintain.lease import Sighting
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.model import DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.keep.policy import AT_ONCE, LARGE_MERGE, NOTE_S, Pace, wants_whole_view
from firn.lake.keep.survey import Survey, surveyed
from firn.lake.maintain.change import completed, publish, rewritten
from firn.lake.maintain.plan import MergeGroup, plan_keeping
from firn.lake.maintain.tasks import merge_task
from firn.lake.maintain.unlocked import merge_context, merge_tasks, merge_unlocked
from firn.lake.partition.partition import directory_of
from firn.lake.read.placed import parts_of, placed


@dataclass
class Memory:
    """What a keeper knows of a table from one fold to the next.

    Attributes:
        known: the log as it was under the lock.
        whole_at: when all logs were read last, by the monotonic clock.
        since_whole: the folds since then.
        counted: what is up to this log's name isn't counted any more.
        partitions: into how many the last fold wrote.
        touched: the directories that got rows since all logs were read last, and `before` in the time before that;
            None until all of it was seen.
        at_once: up to how many bytes of a partition the last fold merged under the lock.
        large: whether files wait for a merge that takes long.
    """

    known: KnownLog | None = None
    lock: Sighting = field(default_factory=Sighting)
    whole_at: float = 0.0
    since_whole: int = 0
    counted: str = ""
    partitions: int = 0
    pace: Pace = field(default_factory=Pace)
    touched: set[str] = field(default_factory=set)
    before: set[str] | None = None
    at_once: int = AT_ONCE
    large: bool = False

    def idle(self, directories: set[str]) -> set[str]:
        """Those of the directories that got nothing for so long that they are merged to the end."""
        return set() if self.before is None else directories - self.before - self.touched


@dataclass(frozen=True)
class Fold:
    """What a fold did: the commits and rows that it took, files that it merged with them, those that it wrote and
    their bytes, and for how many seconds it held the lock. `found` are the commits that it met first; `survey` is
    what it saw of the table before, if it read all logs."""

    commits: int = 0
    rows: int = 0
    merged: int = 0
    files: int = 0
    bytes: int = 0
    found: int = 0
    times: int = 0
    held_s: float = 0.0
    survey: Survey | None = None

    def __add__(self, later: Fold) -> Fold:
        return replace(
            self,
            commits=self.commits + later.commits,
            rows=self.rows + later.rows,
            merged=self.merged + later.merged,
            files=self.files + later.files,
            bytes=self.bytes + later.bytes,
            times=self.times + later.times,
        )


def fold(table: LakeContext, memory: Memory, *, whole: bool = False) -> Fold:
    """Write all rows that stand in logs into files, and merge files of a size with them, if the lock is free; if as
    many as make a fold came meanwhile, these too. `memory` is kept up to date. With `whole` all logs are read.

    Raises:
        LockHeldError: somebody else maintains the table.
        LockLostError: this process stalled and another took over; nothing of it is visible.
    """
    journal = _journal_of(table)
    clock, known = journal.clock, memory.known
    age_s = clock.monotonic() - memory.whole_at
    if whole or wants_whole_view(age_s, memory.since_whole, journal.settings):
        known = None
    if memory.known is None:
        journal.loader.load(scope=Scope.MAINTENANCE)  # then there is little left to read under the lock
    began = clock.monotonic()
    with journal.exclusive("fold", once=memory.lock, known=known) as session:
        done = _fold(table, session, memory)
        seen = (session.state, session.loaded) if session.whole else None
        _note(session, memory, clock.monotonic())
        usual = table.definition.fold_at
        if done.commits:
            memory.pace = memory.pace.found(done.found, usual)
            more = waiting(journal.loader, memory.counted, memory.known)
            if more.logs >= memory.pace.fold_at(usual):
                session.look_again()
                done += _fold(table, session, memory)
                _note(session, memory, clock.monotonic())
    held_s = clock.monotonic() - began
    return replace(done, held_s=held_s, survey=None if seen is None else surveyed(journal, *seen))


def _fold(table: LakeContext, session: MaintenanceSession, memory: Memory) -> Fold:
    """Fold once in a session."""
    snapshot = session.snapshot
    table = table.at(snapshot)
    found = sum(file.inlined is not None for file in snapshot.files)
    snapshot = placed(table, snapshot)
    rows = [file for file in snapshot.files if file.inlined is not None]
    _note_places(table, session, memory, rows)
    memory.at_once = _limit(table, len(rows))
    groups = _groups(table, snapshot, memory)
    memory.large = any(group.bytes > memory.at_once and not _has_rows(group) for group in groups)
    at_once = _bounded(groups, memory.at_once, _limit(table, 1))
    if not at_once:
        return Fold()
    tasks = merge_tasks(table, snapshot, at_once)
    if not session.whole:  # what came late may have older versions of a key
        tasks = [replace(task, whole=False) for task in tasks]
    context = merge_context(table, snapshot, session, None)
    inputs = [group.files for group in at_once]
    change = rewritten(table, session, "fold", merge_task, tasks, inputs, context, 0)
    change = completed(table, session, snapshot, change, rows)
    publish(table, session, snapshot, "fold", change)
    memory.partitions = len({directory_of(file, table.places) for file in change.adds})
    commits = {path for file in change.removes if file.inlined is not None for path in parts_of(file)}
    return Fold(
        len(commits),
        sum(file.rows or 0 for file in rows),
        sum(file.inlined is None for file in change.removes),
        len(change.adds),
        sum(file.size for file in change.adds),
        found,
        1,
    )


def merge_large(table: LakeContext, memory: Memory, *, alone: bool) -> int:
    """Merge files without the lock that are too many bytes to hold it for; how many files were taken. Others that are
    at the same work are left alone.

    Raises:
        LockHeldError: others held the lock for as long as that took.
    """
    journal = _journal_of(table)
    work = journal.begin_merge()
    memory.large = False
    if work is None:
        return 0
    layout, bucket = journal.layout, journal.log_bucket
    with ExitStack() as notes:

        def chosen(table: LakeContext, snapshot: Snapshot) -> list[MergeGroup]:
            found: list[MergeGroup] = []
            files = [file for file in snapshot.files if file.inlined is None]
            for group in _groups(table, replace(snapshot, files=tuple(files)), memory):
                taken = sum(other.bytes for other in found) + group.bytes
                if group.bytes <= memory.at_once or not (alone or taken <= LARGE_MERGE):
                    continue
                key = layout.work_key(group.directory or "")
                note = work_note.take(bucket, key, clock_key=layout.clock_key, seconds=NOTE_S)
                if note is not None:
                    notes.enter_context(note)
                    found.append(group)
            return found

        result, _ = merge_unlocked(table, work, choose=chosen, op="fold")
    return result.files_removed


def wants_whole(table: LakeContext, snapshot: Snapshot, memory: Memory) -> bool:
    """Whether a fold of all that a snapshot shows has anything to do."""
    if any(file.inlined is not None for file in snapshot.files):
        return True
    return bool(_groups(table.at(snapshot), snapshot, memory))


def _groups(table: LakeContext, snapshot: Snapshot, memory: Memory) -> list[MergeGroup]:
    directories = {directory_of(file, table.places) for file in snapshot.files}
    return plan_keeping(
        snapshot.files,
        places=table.places,
        target_size=table.definition.target_size,
        at_once=memory.at_once,
        idle=memory.idle(directories),
        keyed=table.keys is not None,
    )


def _limit(table: LakeContext, partitions: int) -> int:
    """Up to how many bytes of each of so many partitions are merged under the lock: however many, where it is needed
    for all of a merge."""
    journal = _journal_of(table)
    if not journal.log_bucket.capabilities.conditional_put or journal.lock is not None:
        return LARGE_MERGE
    return max(AT_ONCE // max(1, partitions), AT_ONCE // 8)


def _bounded(groups: Sequence[MergeGroup], largest: int, total: int) -> list[MergeGroup]:
    """The groups with rows of logs, and of the others so many that the lock isn't held for long: the rest waits."""
    chosen: list[MergeGroup] = []
    for group in groups:
        if not _has_rows(group):
            if group.bytes > min(largest, total):
                continue
            total -= group.bytes
        chosen.append(group)
    return chosen


def _has_rows(group: MergeGroup) -> bool:
    return any(file.inlined is not None for file in group.files)


def _note_places(
    table: LakeContext, session: MaintenanceSession, memory: Memory, rows: Sequence[DataFile]
) -> None:
    """Remember which directories get rows."""
    if session.whole:
        memory.before = None if memory.whole_at == 0.0 else memory.touched
        memory.touched = set()
    memory.touched |= {directory_of(file, table.places) for file in rows}


def _note(session: MaintenanceSession, memory: Memory, now: float) -> None:
    """Remember what a session has read under the lock, and published."""
    whole = session.whole
    if session.published is not None:
        memory.known = session.known()
        memory.counted = memory.known.newest
    else:
        memory.counted = max(session.loaded.listed, default="")
    if whole:
        memory.whole_at, memory.since_whole = now, 0
    else:
        memory.since_whole += 1


def _journal_of(table: LakeContext) -> LeaderlessJournal:
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    return journal
