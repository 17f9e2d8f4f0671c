"""Verbs that replace or remove files: merge, delete, rewrite, overwrite, partition removal, restore.

Each holds the table's lock, plans over one snapshot, maps tasks where files must be read, and publishes one
commit. A crash anywhere before that leaves nothing but parts that sweep deletes. Files are read through the soft
deletes on them, so what is written in their place needs none.

Only files that the connection owns are touched; other writers' that match are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import evolve, widens_to
from firn.journal.entries import DROP, NAME
from firn.journal.model import ColumnTypes, DataFile, KnownColumns, Session, Snapshot, SoftDelete
from firn.lake.context import LakeContext
from firn.lake.maintain import key_verbs
from firn.lake.maintain.change import (
    FileChange,
    by_owner,
    completed,
    counted,
    in_partitions,
    nothing,
    planned,
    publish,
    refuse_keys,
    removable,
    rewritten,
)
from firn.lake.maintain.plan import MergeGroup, plan_folds, plan_merge
from firn.lake.maintain.tasks import (
    DeleteContext,
    MergeContext,
    MergeTask,
    RewriteContext,
    delete_task,
    merge_task,
    rewrite_task,
)
from firn.lake.partition.partition import directory_of
from firn.lake.partition.placement import is_scattered, refuse_moves, scattered_by
from firn.lake.prune.prune import Pruner
from firn.lake.prune.soft_deletes import can_be_kept, frozen
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.read.read import read_file
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.append import directories_of, write
from firn.lake.write.new_rows import beside
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
    respec: bool,
    only: Literal["inlined"] | None,
    dry_run: bool,
) -> ChangeResult:
    """See `LakeTable.merge`."""
    if only is not None and (query is not None or respec):
        raise InvalidInputError(
            "merge(only='inlined') writes rows of logs as they are: leave query and respec out."
        )
    given = None if target_size is None else parse_size(target_size)
    if given is not None and given <= 0:
        raise InvalidInputError(f"target_size is {target_size!r}; it must be positive.")
    if query is not None:
        refuse_keys(table, "merge(query=…)", "merge keeps the newest version of each row by itself")
    text = None if query is None else Query.parse(query, "source_files").sql
    if query is not None and respec:
        raise InvalidInputError(
            "merge takes a query or respec=True, not both: the query sees one partition at a time."
        )
    whole = query is not None
    op = "merge" if only is None else "fold"
    if dry_run:
        snapshot = table.journal.snapshot()
        table = table.at(snapshot)
        snapshot = placed(table, snapshot)
        groups, inlined, foreign = _merge_groups(table, snapshot, given, partitions, whole, respec, only)
        files = {f.path: f for f in (*(f for g in groups for f in g.files), *inlined)}
        return planned(op, FileChange(removes=list(files.values()), foreign=foreign))
    with table.journal.exclusive(op) as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        snapshot = placed(table, snapshot)
        groups, inlined, foreign = _merge_groups(table, snapshot, given, partitions, whole, respec, only)
        if not groups and not inlined and (only or session.log_length < LOGS_WORTH_FOLDING):
            return nothing(op, foreign)
        spec = WriteSpec.of(table, snapshot.columns, session.namer, target_size=given, aside=snapshot.aside)
        context = MergeContext(
            write=spec if text is None else spec.checking(table.definition, snapshot.columns),
            read=ReadSpec.of(snapshot),
            query=text,
            keys=table.keys,
            forget_before=table.journal.now_ms() - int(table.definition.delete_retention * 1000),
        )
        members: Counter[str | None] = Counter(directory_of(f, table.places) for f in snapshot.files)
        members[None] = len(snapshot.files)
        tasks = [MergeTask(g.directory, g.files, len(g.files) == members[g.directory]) for g in groups]
        inputs = [g.files for g in groups]
        change = rewritten(table, session, op, merge_task, tasks, inputs, context, foreign)
        if query is not None:
            change = replace(change, fresh=change.adds)
        change = completed(table, session, snapshot, change, inlined)
        result = publish(table, session, snapshot, op, change)
        # Rows that soft deletes took, and older versions of rows with a key, were gone before.
        return result if query is not None else replace(result, rows_deleted=0)


def _merge_groups(
    table: LakeContext,
    snapshot: Snapshot,
    target_size: int | None,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    whole: bool,
    respec: bool,
    only: str | None,
) -> tuple[list[MergeGroup], list[DataFile], int]:
    """What is merged together, the placed rows of logs, which are written in any case, and how many files are other
    writers'."""
    files, foreign = by_owner(table, in_partitions(table, snapshot, partitions))
    inlined = [file for file in files if file.inlined is not None]
    if only is not None:
        return [], inlined, 0
    if table.keys is not None:
        scattered = is_scattered(table.partition_spec, snapshot.files, snapshot.columns, snapshot.naming)
        scattered = scattered or (respec and any(file.spec != table.partition_spec.id for file in files))
        return plan_folds(files, places=table.places, scattered=scattered), inlined, len(foreign)
    size = target_size or table.definition.target_size
    anew = table.partition_spec.id if respec else None
    groups = plan_merge(files, places=table.places, target_size=size, whole=whole, respec=anew)
    return groups, inlined, len(foreign)


def delete(table: LakeContext, where: str, *, soft: bool | None, dry_run: bool) -> ChangeResult:
    """See `LakeTable.delete`."""
    if table.keys is not None:
        return key_verbs.delete(table, where, soft=soft, dry_run=dry_run)
    if soft and not table.journal.soft_deletes:
        raise UnsupportedError(
            f"{table.name} can't keep soft deletes: other readers of its log would show the rows. Use "
            "delete(where, soft=False), which rewrites the files that hold them; tables of writer catalogs can."
        )
    if dry_run:
        snapshot = table.journal.snapshot()
        table, softly = table.at(snapshot), _is_soft(table, snapshot, where, soft)
        if softly:
            return planned("delete", _soft_change(table, snapshot, where))
        return planned("delete", _files_of(table, placed(table, snapshot, where), where))
    with table.journal.exclusive("delete") as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        if _is_soft(table, snapshot, where, soft):
            change = _soft_change(table, snapshot, where)
        else:
            snapshot = placed(table, snapshot, where)
            change = _delete_rows(table, session, snapshot, where)
        if not change.removes and not change.soft_deletes:
            return nothing("delete", change.foreign)
        return publish(table, session, snapshot, "delete", change, {"where": outline(where)})


def _is_soft(table: LakeContext, snapshot: Snapshot, where: str, soft: bool | None) -> bool:
    """Whether a delete keeps its predicate; where nobody said so, if the journal and the predicate allow it."""
    if not (table.journal.soft_deletes if soft is None else soft):
        return False
    kept = can_be_kept(table.predicate(where, snapshot.columns))
    if soft and not kept:
        raise UnsupportedError(
            f"the predicate {where!r} has ANY or ALL, which no soft delete can keep: write IN […] or NOT IN […], or "
            "use delete(where, soft=False), which rewrites the files that hold the rows."
        )
    return kept


def _files_of(table: LakeContext, snapshot: Snapshot, where: str) -> FileChange:
    """The files that a delete would replace, or look into."""
    whole, partial, foreign = _split_by_predicate(table, snapshot, where)
    return FileChange(removes=[*whole, *partial], foreign=foreign)


def _split_by_predicate(
    table: LakeContext, snapshot: Snapshot, where: str
) -> tuple[list[DataFile], list[DataFile], int]:
    """Files all of whose rows match for certain, files that may hold some, and how many of other writers may."""
    predicate = table.predicate(where, snapshot.columns)
    pruner = Pruner(predicate, snapshot.columns, table.partition_spec)
    whole: list[DataFile] = []
    partial: list[DataFile] = []
    files, foreign = by_owner(table, [file for file in snapshot.files if pruner.may_match(file)])
    for file in files:
        (whole if pruner.certainly_all(file) else partial).append(file)
    return whole, partial, len(foreign)


def _soft_change(table: LakeContext, snapshot: Snapshot, where: str) -> FileChange:
    """Files to be removed, and the predicate on the others that may hold matching rows, once for each group of files
    that are read alike."""
    whole, partial, foreign = _split_by_predicate(table, snapshot, where)
    predicate = table.predicate(where, snapshot.columns)
    alike: dict[str, list[str]] = {}
    texts: dict[tuple[tuple[str, Sequence[str]], ...], str] = {}
    for file in partial:
        reads = tuple((name, tuple(own)) for name, own in file.reads.items() if name in predicate.columns)
        text = texts.get(reads)
        if text is None:
            defaults = snapshot.naming.defaults
            text = texts[reads] = frozen(predicate, snapshot.columns, dict(reads), defaults)
        if text not in file.deletes:
            alike.setdefault(text, []).append(file.path)
    soft_deletes = [SoftDelete(text, tuple(paths)) for text, paths in alike.items()]
    return FileChange(removes=whole, soft_deletes=soft_deletes, foreign=foreign)


def _delete_rows(table: LakeContext, session: Session, snapshot: Snapshot, where: str) -> FileChange:
    """Rewrite the files of a snapshot that hold matching rows."""
    whole, partial, foreign = _split_by_predicate(table, snapshot, where)
    context = DeleteContext(
        write=WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside),
        read=ReadSpec.of(snapshot),
        where=table.predicate(where, snapshot.columns).sql,
    )
    inputs = [[f] for f in partial]
    change = rewritten(table, session, "delete", delete_task, partial, inputs, context, foreign)
    return replace(change, removes=[*whole, *change.removes])


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
        table = table.at(snapshot)
        snapshot = placed(table, snapshot)
        parsed = parse_rewrite(query, snapshot.columns)
        files, foreign = _to_rewrite(table, snapshot, parsed, partitions)
        return planned("rewrite", FileChange(removes=files, foreign=len(foreign)))
    with table.journal.exclusive("rewrite") as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        snapshot = placed(table, snapshot)
        parsed = parse_rewrite(query, snapshot.columns)
        files, foreign = _to_rewrite(table, snapshot, parsed, partitions)
        spec = WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside)
        context = RewriteContext(
            write=spec
            if isinstance(parsed, Predicate)
            else spec.checking(table.definition, snapshot.columns),
            read=ReadSpec.of(snapshot),
            keep=parsed.sql if isinstance(parsed, Predicate) else None,
            query=parsed.sql if isinstance(parsed, Query) else None,
        )
        inputs = [[f] for f in files]
        change = rewritten(table, session, "rewrite", rewrite_task, files, inputs, context, len(foreign))
        if not change.removes:
            return nothing("rewrite", len(foreign))
        if isinstance(parsed, Query):
            change = replace(change, fresh=change.adds)
        return publish(table, session, snapshot, "rewrite", change, {"query": without_values(parsed.ast)})


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
        table = table.at(session.snapshot)
        present = placed(table, session.snapshot)
        written, _ = write(table, data, session.namer, by=present)
        if where is not None:
            # The new rows may bring columns, all of them the first time, and wider types.
            snapshot, fresh = beside(present, written)
            change = FileChange()
            if snapshot.columns:
                _check_all_match(table, fresh, snapshot, where)
                change = _delete_rows(table, session, snapshot, where)
        elif partitions is not None:
            _refuse_scattered(table, present, written.columns)
            touched = {directory_of(f, table.places) for f in written.files}
            change = _replaceable(table, present, touched)
        else:
            change = _replaceable(table, present, None)
        # Files that are written anew keep columns that the new rows lack.
        kept = present.columns if change.adds else {}
        change = replace(
            change,
            adds=[*change.adds, *written.files],
            columns=evolve(kept, written.columns, allow_widening=True),
            fresh=written.files,
        )
        summary = {} if where is None else {"where": outline(where)}
        return publish(table, session, present, "overwrite", change, summary)


def _replaceable(table: LakeContext, snapshot: Snapshot, touched: set[str] | None) -> FileChange:
    """The files in these directories go; all, if None."""
    files = [f for f in snapshot.files if touched is None or directory_of(f, table.places) in touched]
    mine, others = by_owner(table, files)
    return FileChange(removes=mine, foreign=len(others))


def _planned_overwrite(table: LakeContext, data: Any, where: str | None, *, touched: bool) -> ChangeResult:
    """The files that would be replaced, or looked into. It looks only at the partitions of the new rows."""
    snapshot = table.journal.snapshot()
    table = table.at(snapshot)
    snapshot = placed(table, snapshot)
    if where is not None:
        return planned("overwrite", _files_of(table, snapshot, where) if snapshot.columns else FileChange())
    return planned(
        "overwrite", _replaceable(table, snapshot, directories_of(table, data) if touched else None)
    )


def _refuse_scattered(table: LakeContext, snapshot: Snapshot, written: ColumnTypes) -> None:
    """Raise where rows of one partition stand in two directories, or would: only one would be touched."""
    spec, widened = table.partition_spec, {**snapshot.columns, **written}
    if spec.older and len({file.spec for file in snapshot.files} | {spec.id}) > 1:
        raise UnsupportedError(
            f"{table.name}: some files are of an older partitioning, and rows of one partition may stand in several "
            "of them. Nothing was changed. Run merge(respec=True) first."
        )
    field = scattered_by(spec, snapshot.files, snapshot.columns, snapshot.naming)
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
    predicate = table.predicate(where, snapshot.columns)
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

    def chosen(table: LakeContext, snapshot: Snapshot) -> tuple[FileChange, int]:
        files, moved = removable(table, snapshot, where)
        mine, foreign = by_owner(table, files)
        return FileChange(removes=mine, foreign=len(foreign)), moved

    if dry_run:
        snapshot = table.journal.snapshot()
        table = table.at(snapshot)
        change, moved = chosen(table, placed(table, snapshot))
        return replace(planned("remove", change), moved_files=moved)
    with table.journal.exclusive("remove") as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        snapshot = placed(table, snapshot)
        change, moved = chosen(table, snapshot)
        if not change.removes:
            return replace(nothing("remove", change.foreign), moved_files=moved)
        summary = {"where": outline(where)} if isinstance(where, str) else {}
        return replace(publish(table, session, snapshot, "remove", change, summary), moved_files=moved)


def restore(table: LakeContext, at: Any, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.restore`."""
    if at is None:
        raise InvalidInputError("restore needs a version or a time; see history().")
    if dry_run:
        back, anew, gone, foreign = _to_restore(table, table.journal.snapshot(at), table.journal.snapshot())
        return counted("restore", FileChange([*back, *anew], gone, foreign=foreign, fresh=[*back, *anew]))
    with table.journal.exclusive("restore") as session:
        past, present = session.revivable(at), session.snapshot
        back, anew, gone, foreign = _to_restore(table, past, present)
        now = {f.path for f in present.files}
        needed = table.at(present).definition.required_columns
        changes = {} if table.created.shared else _names_of_then(past, present, needed)
        if not back and not gone and not anew and not changes:
            return nothing("restore", foreign)
        columns = _columns_of_today(past, present, changes)
        # Files are written under the names of then, by all else that the table has today.
        naming = replace(past.naming, lackable=present.naming.lackable)
        table = table.at(KnownColumns(columns, naming, present.definition))
        anew = list(placed(table, replace(past, columns=columns, files=tuple(anew))).files)
        context = MergeContext(
            write=WriteSpec.of(table, columns, session.namer, aside=past.aside),
            read=ReadSpec.of(replace(past, columns=columns)),
            keys=table.keys,
        )
        tasks = [MergeTask(directory_of(f, table.places), (f,)) for f in anew]
        change = rewritten(
            table, session, "restore", merge_task, tasks, [[f] for f in anew], context, foreign
        )
        change = replace(
            change,
            adds=[*back, *change.adds],
            removes=gone,
            columns=columns if anew else {},
            replaced=[f for f in change.replaced if f.path in now],
            aside=past.aside,
            fresh=[*back, *change.adds],
            definition=present.definition.changed(changes, session.writer) if changes else None,
        )
        return publish(table, session, present, "restore", change, {"to": past.version})


def _columns_of_today(
    past: Snapshot, present: Snapshot, changes: Mapping[tuple[str, str], Any]
) -> ColumnTypes:
    """The columns as which files of an older version are written anew: today's, where values of then fit these, under
    the names of then. Only that version knows what is set aside in its files."""
    then = {fold(past.naming.physical(name)): name for name in past.columns}
    dropped = {name for (kind, name), value in changes.items() if kind == DROP and value}
    columns = {}
    for name, kind in present.columns.items():
        physical = present.naming.physical(name)
        was = then.get(fold(physical))
        if name not in present.aside and physical not in dropped:
            had = kind if was is None else past.columns[was]
            columns[was or name] = kind if widens_to(had, kind) else had
    return columns | {name: kind for name, kind in past.columns.items() if name not in columns}


def _names_of_then(past: Snapshot, present: Snapshot, needed: Collection[str]) -> dict[tuple[str, str], Any]:
    """The entries by which columns are called as they were, and those that came since aren't shown. Columns that hold
    what is set aside stay: an append that lands meanwhile may have written them. So do those that are `needed`, as
    rows find their place by them. Where no alter has touched a column, columns that came since stay, too."""
    if not (past.naming or present.naming):
        return {}
    then = {past.naming.physical(name): name for name in past.columns if name not in past.aside}
    now = {present.naming.physical(name): name for name in present.columns}
    staying = {present.naming.physical(name) for name in (*present.aside, *needed)}
    changes: dict[tuple[str, str], Any] = {}
    for physical, name in then.items():
        if physical in present.naming.hidden:
            changes[DROP, physical] = False
        if now.get(physical, physical) != name or physical not in now:
            changes[NAME, physical] = name
    for physical in now.keys() - then.keys() - staying:
        changes[DROP, physical] = True
    entries = present.definition.map
    return {
        key: value
        for key, value in changes.items()
        if (entries[key].value if key in entries else _unaltered(key)) != value
    }


def _unaltered(key: tuple[str, str]) -> Any:
    """The value of an entry that isn't there."""
    return key[1] if key[0] == NAME else False


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
    anew += [f for f in missing if not f.deletes and (f.inlined is not None or not table.journal.revives)]
    stay = {f.path for f in then} - {f.path for f in anew}
    back = [f for f in missing if f.path in stay]
    gone = [f for f in today if f.path not in stay]
    return back, anew, gone, len({path for path, _ in differing})
