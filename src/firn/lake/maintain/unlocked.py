"""Merges that hold the lock only to publish, so that others go on meanwhile: folds, deletes, other merges.

Files are read and written without the lock. Under it, what was made of files that others have replaced or removed
since is left out, and then deleted. Sweep deletes what a process has left that was killed, once it is as old as an
append may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from firn.errors import ConflictError
from firn.journal.model import DataFile, Replacing, Snapshot, UnlockedMerge
from firn.lake.context import LakeContext
from firn.lake.maintain.change import change_of, completed, nothing, publish, run_tasks
from firn.lake.maintain.plan import MergeGroup
from firn.lake.maintain.tasks import MergeContext, MergeTask, TaskResult, merge_task
from firn.lake.partition.partition import directory_of
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.results import ChangeResult
from firn.lake.write.write import WriteSpec


def merge_context(
    table: LakeContext, snapshot: Snapshot, work: Replacing, target_size: int | None
) -> MergeContext:
    """How the tasks of a merge of a table, as it is in a snapshot, read and write."""
    return MergeContext(
        write=WriteSpec.of(
            table, snapshot.columns, work.namer, target_size=target_size, aside=snapshot.aside
        ),
        read=ReadSpec.of(snapshot),
        keys=table.keys,
        forget_before=table.journal.now_ms() - int(table.definition.delete_retention * 1000),
    )


def merge_tasks(table: LakeContext, snapshot: Snapshot, groups: Iterable[MergeGroup]) -> list[MergeTask]:
    """A task a group."""
    members: Counter[str | None] = Counter(directory_of(f, table.places) for f in snapshot.files)
    members[None] = len(snapshot.files)
    return [MergeTask(g.directory, g.files, len(g.files) == members[g.directory]) for g in groups]


def merge_unlocked(
    table: LakeContext,
    work: UnlockedMerge,
    *,
    choose: Callable[[LakeContext, Snapshot], Sequence[MergeGroup]],
    fold: Callable[[LakeContext, Snapshot], Sequence[DataFile]] = lambda table, snapshot: (),
    target_size: int | None = None,
    op: str = "merge",
) -> tuple[ChangeResult, int]:
    """One merge, and one commit of what others have left of it; also how many of its groups they have overtaken.

    Args:
        table: as `work` was begun of; no method of it holds its lock.
        choose: which files are merged together, of a table and a snapshot of it with its logs' rows placed.
        fold: which placed rows of logs are written into files too, under the lock.

    Raises:
        LockHeldError: others held the lock for as long as the merge took, and at least for `lock_wait`.
        AppendExpiredError: the merge took so long that a sweep might have deleted its first files.
        ConflictError: a sweep by a shorter age did.

    Cost: that of a merge, and 1 LIST, 1 GET a new log, 2 GETs more; 1 DELETE a file that others have overtaken.
    """
    read = table.at(work.snapshot)
    snapshot = placed(read, work.snapshot)
    tasks = merge_tasks(read, snapshot, choose(read, snapshot))
    context = merge_context(read, snapshot, work, target_size)
    weights = [sum(f.size for f in task.files) for task in tasks]
    results: Sequence[TaskResult] = run_tasks(read, work, merge_task, tasks, context, weights, op)
    written = [file for result in results for file in result.adds]
    try:
        with work.publishing(op) as session:
            table = table.at(session.snapshot)
            present = placed(table, session.snapshot)
            kept = [
                (task, result)
                for task, result in zip(tasks, results, strict=True)
                if session.holds(f.path for f in task.files)
                and _forgets_rightly(table, present, task, context)
            ]
            change = change_of([task.files for task, _ in kept], [result for _, result in kept], 0)
            change = completed(table, session, present, change, fold(table, present))
            done = nothing(op)
            if change.removes:
                # Rows that soft deletes took, and older versions of rows with a key, were gone before.
                done = replace(publish(table, session, present, op, change), rows_deleted=0)
    except ConflictError:  # nothing of it will ever be visible
        work.discard(written)
        raise
    published = {file.path for _, result in kept for file in result.adds}
    work.discard(file for file in written if file.path not in published)
    return done, len(tasks) - len(kept)


def _forgets_rightly(table: LakeContext, present: Snapshot, task: MergeTask, context: MergeContext) -> bool:
    """Whether a task that left out old deletions may have: no file is beside it by now, as a restore may have brought
    back, with rows older than these."""
    if context.keys is None or not task.whole:
        return True
    taken = {file.path for file in task.files}
    oldest = f"{context.forget_before:013d}"
    return all(
        file.path in taken
        or (task.directory is not None and directory_of(file, table.places) != task.directory)
        or (file.clocks is not None and file.clocks[0] > oldest)
        for file in present.files
    )
