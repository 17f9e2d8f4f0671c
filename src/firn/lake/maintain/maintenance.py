"""What replaces or removes files: merge, delete, rewrite, overwrite, partition removal, restore.

Each holds the table's lock, plans over one snapshot, maps tasks where files must be read, and publishes one
commit. A crash anywhere before that leaves nothing but parts that sweep deletes. Files are read through the soft
deletes on them, so what is written in their place needs none.

Only files that the connection owns are touched; other writers' that match are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import evolve, join
from firn.journal.model import ColumnTypes, DataFile, Session, Snapshot, SoftDelete
from firn.lake.context import LakeContext
from firn.lake.maintain import key_verbs
from firn.lake.maintain.change import (
    by_owner,
    in_partitions,
    nothing,
    planned,
    publish,
    refuse_keys,
    removable,
    run_tasks,
)
from firn.lake.maintain.plan import MergeGroup, plan_folds, plan_merge
from firn.lake.maintain.tasks import (
    DeleteContext,
    MergeContext,
    MergeTask,
    RewriteContext,
    TaskResult,
    delete_task,
    merge_task,
    rewrite_task,
)
from firn.lake.partition.partition import directory_of
from firn.lake.partition.placement import refuse_moves, scattered_by
from firn.lake.prune.prune import Pruner
from firn.lake.prune.soft_deletes import frozen
from firn.lake.read.decode import ReadSpec
from firn.lake.read.read import read_file
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.append import directories_of, write
from firn.lake.write.write import WriteSpec
from firn.names import fold
from firn.predicate.dialect import without_values
from firn.predicate.predicate import Predicate, Query, outline, parse_rewrite
from firn.units import parse_size

LOGS_WORTH_FOLDING = 10
"""A merge that has no data to merge still replaces the log from so many log objects on."""


def merge(
    table: LakeContext,
    *,
    target_size: int | str | None,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    query: str | None,
    dry_run: bool,
) -> ChangeResult:
    """See `LakeTable.merge`."""
    given = None if target_size is None else parse_size(target_size)
    if given is not None and given <= 0:
        raise InvalidInputError(f"target_size is {target_size!r}; it must be positive.")
    if query is not None:
        refuse_keys(table, "merge(query=…)", "merge keeps the newest version of each row by itself")
    text = None if query is None else Query.parse(query, "source_files").sql
    if dry_run:
        snapshot = table.journal.snapshot()
        size = given or table.descriptor.target_size
        groups, foreign = _merge_groups(table, snapshot, size, partitions, query is not None)
        return planned("merge", [f for g in groups for f in g.files], foreign=foreign)
    with table.journal.exclusive("merge") as session:
        snapshot = session.snapshot
        size = given or table.descriptor.target_size
        groups, foreign = _merge_groups(table, snapshot, size, partitions, query is not None)
        if not groups and not _log_is_long(session):
            return nothing("merge", foreign)
        context = MergeContext(
            write=WriteSpec.of(
                table, snapshot.columns, session.namer, target_size=size, aside=snapshot.aside
            ),
            read=ReadSpec.of(snapshot),
            query=text,
            keys=table.keys,
            forget_before=table.journal.now_ms() - int(table.descriptor.delete_retention * 1000),
        )
        members: Counter[str | None] = Counter(directory_of(f, table.places) for f in snapshot.files)
        members[None] = len(snapshot.files)
        tasks = [MergeTask(g.directory, g.files, len(g.files) == members[g.directory]) for g in groups]
        results = run_tasks(table, session, merge_task, tasks, context, [g.bytes for g in groups], "merge")
        adds = [f for r in results for f in r.adds]
        columns = _joined(r.columns for r in results)
        removes = [f for g in groups for f in g.files]
        replaced = _replaced([g.files for g in groups], results)
        return publish(table, session, "merge", adds, removes, columns, replaced=replaced, foreign=foreign)


def _log_is_long(session: Session) -> bool:
    return session.log_length >= LOGS_WORTH_FOLDING


def _merge_groups(
    table: LakeContext,
    snapshot: Snapshot,
    target_size: int,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    whole: bool,
) -> tuple[list[MergeGroup], int]:
    files, foreign = by_owner(table, in_partitions(table, snapshot, partitions))
    if table.keys is not None:
        return plan_folds(files, places=table.places, scattered=_is_scattered(table, snapshot)), len(foreign)
    return plan_merge(files, places=table.places, target_size=target_size, whole=whole), len(foreign)


def _is_scattered(table: LakeContext, snapshot: Snapshot) -> bool:
    return scattered_by(table.partition_spec, snapshot.files, snapshot.columns) is not None


def delete(table: LakeContext, where: str, *, soft: bool | None, dry_run: bool) -> ChangeResult:
    """See `LakeTable.delete`."""
    if table.keys is not None:
        return key_verbs.delete(table, table.keys, where, soft=soft, dry_run=dry_run)
    if soft and not table.journal.soft_deletes:
        raise UnsupportedError(
            f"{table.name} can't keep soft deletes: other readers of its log would show the rows. Use "
            "delete(where, soft=False), which rewrites the files that hold them; tables of writer catalogs can."
        )
    softly = table.journal.soft_deletes if soft is None else soft
    if dry_run:
        snapshot = table.journal.snapshot()
        if softly:
            return planned("delete", *_split_softly(table, snapshot, where))
        whole, partial, foreign = _split_by_predicate(table, snapshot, where)
        return planned("delete", [*whole, *partial], foreign=foreign)
    with table.journal.exclusive("delete") as session:
        if softly:
            removes, soft_deletes, foreign = _split_softly(table, session.snapshot, where)
            change = _Rewritten([], removes, [], foreign)
        else:
            change = _delete_rows(table, session, session.snapshot, where)
            soft_deletes = []
        if not change.removes and not soft_deletes:
            return nothing("delete", change.foreign)
        return publish(
            table,
            session,
            "delete",
            change.adds,
            change.removes,
            summary={"where": outline(where)},
            soft_deletes=soft_deletes,
            replaced=change.replaced,
            foreign=change.foreign,
        )


def _split_by_predicate(
    table: LakeContext, snapshot: Snapshot, where: str
) -> tuple[list[DataFile], list[DataFile], int]:
    """Files all of whose rows match for certain, files that may hold some, and how many of other writers may."""
    predicate = Predicate.parse(where, snapshot.columns)
    pruner = Pruner(predicate, snapshot.columns, table.partition_spec)
    whole: list[DataFile] = []
    partial: list[DataFile] = []
    files, foreign = by_owner(table, [file for file in snapshot.files if pruner.may_match(file)])
    for file in files:
        (whole if pruner.certainly_all(file) else partial).append(file)
    return whole, partial, len(foreign)


def _split_softly(
    table: LakeContext, snapshot: Snapshot, where: str
) -> tuple[list[DataFile], list[SoftDelete], int]:
    """Files to be removed, the predicate on the others that may hold matching rows, once for each group of files that
    are read alike, and how many of other writers may."""
    whole, partial, foreign = _split_by_predicate(table, snapshot, where)
    predicate = Predicate.parse(where, snapshot.columns)
    alike: dict[str, list[str]] = {}
    texts: dict[tuple[tuple[str, Sequence[str]], ...], str] = {}
    for file in partial:
        reads = tuple((name, tuple(own)) for name, own in file.reads.items() if name in predicate.columns)
        text = texts.get(reads)
        if text is None:
            text = texts[reads] = frozen(predicate, snapshot.columns, dict(reads))
        if text not in file.deletes:
            alike.setdefault(text, []).append(file.path)
    return whole, [SoftDelete(text, tuple(paths)) for text, paths in alike.items()], foreign


def _delete_rows(table: LakeContext, session: Session, snapshot: Snapshot, where: str) -> _Rewritten:
    """Rewrite the files of a snapshot that hold matching rows."""
    whole, partial, foreign = _split_by_predicate(table, snapshot, where)
    context = DeleteContext(
        write=WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside),
        read=ReadSpec.of(snapshot),
        where=Predicate.parse(where, snapshot.columns).sql,
    )
    results = run_tasks(table, session, delete_task, partial, context, [f.size for f in partial], "delete")
    adds = [f for r in results for f in r.adds]
    changed = [f for f, r in zip(partial, results, strict=True) if r.changed]
    return _Rewritten(adds, [*whole, *changed], _replaced([[f] for f in partial], results), foreign)


def rewrite(
    table: LakeContext,
    query: str,
    *,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    dry_run: bool,
) -> ChangeResult:
    """See `LakeTable.rewrite`."""
    refuse_keys(table, "rewrite", "use update or delete, and merge to be rid of older versions")
    if dry_run:
        snapshot = table.journal.snapshot()
        files, foreign = _to_rewrite(table, snapshot, parse_rewrite(query, snapshot.columns), partitions)
        return planned("rewrite", files, foreign=len(foreign))
    with table.journal.exclusive("rewrite") as session:
        snapshot = session.snapshot
        parsed = parse_rewrite(query, snapshot.columns)
        files, foreign = _to_rewrite(table, snapshot, parsed, partitions)
        context = RewriteContext(
            write=WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside),
            read=ReadSpec.of(snapshot),
            keep=parsed.sql if isinstance(parsed, Predicate) else None,
            query=parsed.sql if isinstance(parsed, Query) else None,
        )
        results = run_tasks(table, session, rewrite_task, files, context, [f.size for f in files], "rewrite")
        removes = [f for f, r in zip(files, results, strict=True) if r.changed]
        if not removes:
            return nothing("rewrite", len(foreign))
        adds = [f for r in results for f in r.adds]
        columns = _joined(r.columns for r in results)
        summary = {"query": without_values(parsed.ast)}
        replaced = _replaced([[f] for f in files], results)
        return publish(
            table,
            session,
            "rewrite",
            adds,
            removes,
            columns,
            summary,
            replaced=replaced,
            foreign=len(foreign),
        )


def _to_rewrite(
    table: LakeContext,
    snapshot: Snapshot,
    query: Predicate | Query,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
) -> tuple[list[DataFile], list[DataFile]]:
    """The files that a rewrite has to look into, and those of other writers."""
    files = in_partitions(table, snapshot, partitions)
    if isinstance(query, Predicate):
        pruner = Pruner(query, snapshot.columns, table.partition_spec)
        files = [f for f in files if f.deletes or not pruner.certainly_all(f)]
    return by_owner(table, files)


def overwrite(
    table: LakeContext,
    data: Any,
    *,
    where: str | None,
    partitions: Literal["touched"] | None,
    dry_run: bool,
) -> ChangeResult:
    """See `LakeTable.overwrite`."""
    if where is not None and partitions is not None:
        raise InvalidInputError("overwrite takes a predicate or partitions='touched', not both.")
    if where is not None:
        refuse_keys(table, "overwrite(where=…)", "delete first, then upsert")
    if partitions not in (None, "touched"):
        raise InvalidInputError(f"partitions={partitions!r}: overwrite only knows 'touched'.")
    if dry_run:
        return _planned_overwrite(table, data, where, touched=partitions is not None)
    with table.journal.exclusive("overwrite") as session:
        written, _ = write(table, data, session.namer, aside=session.snapshot.aside)
        if where is not None:
            # The new rows may bring columns, all of them the first time, and wider types.
            snapshot = replace(session.snapshot, columns={**session.snapshot.columns, **written.columns})
            change = _Rewritten([], [], [], 0)
            if snapshot.columns:
                _check_all_match(table, written.files, snapshot, where)
                change = _delete_rows(table, session, snapshot, where)
        else:
            files = list(session.snapshot.files)
            if partitions == "touched":
                _refuse_scattered(table, session.snapshot, written.columns)
                touched = {directory_of(f, table.places) for f in written.files}
                files = [f for f in files if directory_of(f, table.places) in touched]
            removes, others = by_owner(table, files)
            change = _Rewritten([], removes, [], len(others))
        return publish(
            table,
            session,
            "overwrite",
            [*change.adds, *written.files],
            change.removes,
            written.columns,
            {"where": outline(where)} if where is not None else {},
            replaced=change.replaced,
            foreign=change.foreign,
        )


def _planned_overwrite(table: LakeContext, data: Any, where: str | None, *, touched: bool) -> ChangeResult:
    """The files that would be replaced, or looked into; of the new rows only their partitions are looked at."""
    snapshot = table.journal.snapshot()
    if where is not None:
        whole, partial, foreign = (
            _split_by_predicate(table, snapshot, where) if snapshot.columns else ([], [], 0)
        )
        return planned("overwrite", [*whole, *partial], foreign=foreign)
    files = list(snapshot.files)
    if touched:
        directories_touched = directories_of(table, data)
        files = [f for f in files if directory_of(f, table.places) in directories_touched]
    mine, others = by_owner(table, files)
    return planned("overwrite", mine, foreign=len(others))


def _refuse_scattered(table: LakeContext, snapshot: Snapshot, written: ColumnTypes) -> None:
    """Raise where rows of one partition stand in two directories, or would: only one would be touched."""
    spec, widened = table.partition_spec, {**snapshot.columns, **written}
    field = scattered_by(spec, snapshot.files, snapshot.columns)
    if field is not None:
        mend = "merge()" if table.keys is not None else 'rewrite("SELECT * FROM _rows")'
        raise UnsupportedError(
            f"{table.name}: some files have {field.source!r} under another type than the table, and rows of one "
            f"{field} may stand in two partitions. Nothing was changed. Run {mend} first: it deals all rows out "
            "anew."
        )
    if snapshot.files:
        refuse_moves(table.name, spec, snapshot.columns, widened)


def _check_all_match(table: LakeContext, files: Sequence[DataFile], snapshot: Snapshot, where: str) -> None:
    """New rows that the predicate doesn't cover would be doubled by the next overwrite of the same kind."""
    predicate = Predicate.parse(where, snapshot.columns)
    pruner = Pruner(predicate, snapshot.columns, table.partition_spec)
    spec = ReadSpec.of(snapshot, where=f"({predicate.sql}) IS NOT TRUE")
    for file in files:
        if not pruner.certainly_all(file) and any(b.num_rows for b in read_file(table.bucket, file, spec)):
            raise InvalidInputError(
                f"{table.name}: some of the new rows don't satisfy the predicate that they should replace: "
                f"{where}. Nothing was changed; mend the rows or the predicate."
            )


def remove_partitions(
    table: LakeContext, where: str | Sequence[Partition | Mapping[str, Any]], *, dry_run: bool
) -> ChangeResult:
    """See `LakeTable.remove_partitions`."""

    def chosen(snapshot: Snapshot) -> tuple[list[DataFile], int, int]:
        files, moved = removable(table, snapshot, where)
        mine, foreign = by_owner(table, files)
        return mine, len(foreign), moved

    if dry_run:
        removes, foreign, moved = chosen(table.journal.snapshot())
        return replace(planned("remove", removes, foreign=foreign), moved_files=moved)
    with table.journal.exclusive("remove") as session:
        removes, foreign, moved = chosen(session.snapshot)
        if not removes:
            return replace(nothing("remove", foreign), moved_files=moved)
        summary = {"where": outline(where)} if isinstance(where, str) else {}
        result = publish(table, session, "remove", [], removes, summary=summary, foreign=foreign)
        return replace(result, moved_files=moved)


def restore(table: LakeContext, at: Any, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.restore`."""
    if at is None:
        raise InvalidInputError("restore needs a version or a time; see history().")
    if dry_run:
        back, anew, gone, foreign = _to_restore(table, table.journal.snapshot(at), table.journal.snapshot())
        result = planned("restore", gone, foreign=foreign)
        come = planned("restore", [*back, *anew])
        return replace(
            result,
            files_added=come.files_removed,
            rows_added=come.rows_removed,
            bytes_added=come.bytes_removed,
        )
    with table.journal.exclusive("restore") as session:
        past = session.revivable(at)
        back, anew, gone, foreign = _to_restore(table, past, session.snapshot)
        now = {f.path for f in session.snapshot.files}
        if not back and not gone and not anew:
            return nothing("restore", foreign)
        columns = _columns_of_today(past, session.snapshot)
        context = MergeContext(
            write=WriteSpec.of(table, columns, session.namer, aside=past.aside),
            read=ReadSpec.of(replace(past, columns=columns)),
            keys=table.keys,
        )
        tasks = [MergeTask(directory_of(f, table.places), (f,)) for f in anew]
        results = run_tasks(table, session, merge_task, tasks, context, [f.size for f in anew], "restore")
        adds = [*back, *(f for r in results for f in r.adds)]
        replaced = [f for f in _replaced([[f] for f in anew], results) if f.path in now]
        summary = {"to": past.version}
        return publish(
            table,
            session,
            "restore",
            adds,
            gone,
            columns if anew else None,
            summary,
            replaced=replaced,
            foreign=foreign,
            aside=past.aside,
        )


def _columns_of_today(past: Snapshot, present: Snapshot) -> ColumnTypes:
    """The columns as which files of an older version are written anew: today's, where values of then fit these. Only
    that version knows what is set aside in its files."""
    then = {fold(name): kind for name, kind in past.columns.items()}
    columns = {
        name: kind
        for name, kind in present.columns.items()
        if name not in present.aside and join(then.get(fold(name), kind), kind) == kind
    }
    taken = {fold(name) for name in columns}
    return columns | {name: kind for name, kind in past.columns.items() if fold(name) not in taken}


def _to_restore(
    table: LakeContext, past: Snapshot, present: Snapshot
) -> tuple[list[DataFile], list[DataFile], list[DataFile], int]:
    """Files that come back, that are written anew, and that go; and how many of other writers differ."""
    then, others_then = by_owner(table, past.files)
    today, others_today = by_owner(table, present.files)
    differing = {(f.path, f.deletes) for f in others_then} ^ {(f.path, f.deletes) for f in others_today}
    now = {f.path: f.deletes for f in today}
    missing = [f for f in then if f.path not in now]
    # No commit takes a soft delete back, and not every journal a removal: such files are written anew.
    anew = [f for f in then if f.deletes != now.get(f.path, ())]
    if not table.journal.revives:
        anew += [f for f in missing if not f.deletes]
    stay = {f.path for f in then} - {f.path for f in anew}
    back = [f for f in missing if f.path in stay]
    gone = [f for f in today if f.path not in stay]
    return back, anew, gone, len({path for path, _ in differing})


class _Rewritten(NamedTuple):
    """Files that appear, files that go, those of these that have successors, and how many of other writers match."""

    adds: list[DataFile]
    removes: list[DataFile]
    replaced: list[DataFile]
    foreign: int


def _replaced(inputs: Sequence[Sequence[DataFile]], results: Sequence[TaskResult]) -> list[DataFile]:
    """The files whose places others take, and these say so."""
    return [f for files, r in zip(inputs, results, strict=True) if r.adds and r.in_place for f in files]


def _joined(each: Iterable[ColumnTypes]) -> ColumnTypes:
    """The types of what tasks wrote: one may have had to widen a column that another didn't."""
    columns: ColumnTypes = {}
    for found in each:
        if found != columns:
            columns = evolve(columns, found, allow_widening=True)
    return columns
