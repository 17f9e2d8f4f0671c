"""Delete: rows by a predicate, by writing files anew or by soft deletes, and whole partitions by the log alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from firn.errors import UnsupportedError
from firn.journal.model import DataFile, Session, Snapshot, SoftDelete
from firn.lake.context import LakeContext
from firn.lake.maintain import key_verbs
from firn.lake.maintain.change import FileChange, by_owner, nothing, planned, publish, removable, rewritten
from firn.lake.maintain.tasks import DeleteContext, delete_task
from firn.lake.prune.prune import Pruner
from firn.lake.prune.soft_deletes import can_be_kept, frozen
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed, with_rows_of
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.write import WriteSpec
from firn.predicate.predicate import outline


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
            return planned("delete", _soft_change(table, with_rows_of(table, snapshot, where), where))
        return planned("delete", files_of(table, placed(table, snapshot, where), where))
    with table.journal.exclusive("delete") as session:
        snapshot = session.snapshot
        table = table.at(snapshot)
        if _is_soft(table, snapshot, where, soft):
            change = _soft_change(table, with_rows_of(table, snapshot, where), where)
        else:
            snapshot = placed(table, snapshot, where)
            change = delete_rows(table, session, snapshot, where)
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


def files_of(table: LakeContext, snapshot: Snapshot, where: str) -> FileChange:
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


def delete_rows(table: LakeContext, session: Session, snapshot: Snapshot, where: str) -> FileChange:
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
