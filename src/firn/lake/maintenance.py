"""What replaces or removes files: merge, delete, rewrite, overwrite, partition removal, restore.

Each holds the table's lock, plans over one snapshot, maps tasks where files must be read, and publishes one
commit. A crash anywhere before that leaves nothing but parts that sweep deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from firn.errors import FirnError, InvalidInputError, SnapshotTooOldError
from firn.journal.columns import evolve
from firn.journal.model import ColumnTypes, Commit, DataFile, Session, Snapshot
from firn.lake.append import write
from firn.lake.dialect import without_values
from firn.lake.partition import match_partitions
from firn.lake.plan import directory_of, plan_merge
from firn.lake.predicate import Predicate, Query
from firn.lake.prune import Pruner
from firn.lake.read import read_file
from firn.lake.results import ChangeResult, Partition
from firn.lake.tasks import (
    DeleteContext,
    MergeContext,
    MergeTask,
    RewriteContext,
    delete_task,
    merge_task,
    rewrite_task,
)

if TYPE_CHECKING:
    from firn.lake.table import LakeTable

LOGS_WORTH_FOLDING = 10
"""A merge that has no data to merge still replaces the log from so many log objects on."""


def merge(
    table: LakeTable,
    *,
    target_size: int,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    query: str | None,
    dry_run: bool,
) -> ChangeResult:
    """See `LakeTable.merge`."""
    text = None if query is None else Query.parse(query, "source_files").sql
    if dry_run:
        groups = _merge_groups(table, table.snapshot(), target_size, partitions, query is not None)
        return _planned("merge", [f for g in groups for f in g.files])
    with table.journal.exclusive("merge") as session:
        snapshot = session.snapshot
        groups = _merge_groups(table, snapshot, target_size, partitions, query is not None)
        if not groups and not _log_is_long(session):
            return ChangeResult("merge", None, 0, 0, 0, 0, 0, 0)
        context = MergeContext(
            write=table.write_spec(snapshot.columns, maintenance=True, target_size=target_size),
            read=table.read_spec(snapshot),
            query=text,
        )
        tasks = [MergeTask(g.directory, g.files) for g in groups]
        results = _run(table, session, merge_task, tasks, context, [g.bytes for g in groups], "merge")
        adds = [f for r in results for f in r.adds]
        columns = _joined(r.columns for r in results)
        return _publish(session, "merge", adds, [f for g in groups for f in g.files], columns)


def _log_is_long(session: Session) -> bool:
    return session.log_length >= LOGS_WORTH_FOLDING


def _merge_groups(
    table: LakeTable, snapshot: Snapshot, target_size: int, partitions: Any, whole: bool
) -> list[Any]:
    files: Iterable[DataFile] = snapshot.files
    if partitions is not None:
        wanted = _directories(table, snapshot, partitions)
        files = [f for f in files if directory_of(f, table.data_prefix) in wanted]
    return plan_merge(files, data_prefix=table.data_prefix, target_size=target_size, whole=whole)


def delete(table: LakeTable, where: str, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.delete`."""
    if dry_run:
        snapshot = table.snapshot()
        whole, partial = _split_by_predicate(table, snapshot, where)
        return _planned("delete", [*whole, *partial])
    with table.journal.exclusive("delete") as session:
        adds, removes = _delete_rows(table, session, where)
        if not removes:
            return ChangeResult("delete", None, 0, 0, 0, 0, 0, 0)
        return _publish(session, "delete", adds, removes, summary={"where": without_values(where)})


def _split_by_predicate(
    table: LakeTable, snapshot: Snapshot, where: str
) -> tuple[list[DataFile], list[DataFile]]:
    """Files all of whose rows match for certain, and files that may hold some."""
    predicate = Predicate.parse(where, snapshot.columns)
    pruner = Pruner(predicate, snapshot.columns, table.pruning_spec)
    whole: list[DataFile] = []
    partial: list[DataFile] = []
    for file in snapshot.files:
        if pruner.may_match(file):
            (whole if pruner.certainly_all(file) else partial).append(file)
    return whole, partial


def _delete_rows(table: LakeTable, session: Session, where: str) -> tuple[list[DataFile], list[DataFile]]:
    """Rewrite the files that hold matching rows: (files that appear, files that go)."""
    snapshot = session.snapshot
    whole, partial = _split_by_predicate(table, snapshot, where)
    context = DeleteContext(
        write=table.write_spec(snapshot.columns, maintenance=True),
        read=table.read_spec(snapshot),
        where=Predicate.parse(where, snapshot.columns).sql,
    )
    results = _run(table, session, delete_task, partial, context, [f.size for f in partial], "delete")
    adds = [f for r in results for f in r.adds]
    return adds, [*whole, *(f for f, r in zip(partial, results, strict=True) if r.changed)]


def rewrite(
    table: LakeTable, query: str, *, partitions: Sequence[Partition | Mapping[str, Any]] | None
) -> ChangeResult:
    """See `LakeTable.rewrite`."""
    with table.journal.exclusive("rewrite") as session:
        snapshot = session.snapshot
        files = list(snapshot.files)
        if partitions is not None:
            wanted = _directories(table, snapshot, partitions)
            files = [f for f in files if directory_of(f, table.data_prefix) in wanted]
        select, keep = None, None
        if Query.looks_like(query):
            select = Query.parse(query, "_rows").sql
        else:
            predicate = Predicate.parse(query, snapshot.columns)
            keep = predicate.sql
            pruner = Pruner(predicate, snapshot.columns, table.pruning_spec)
            files = [f for f in files if not pruner.certainly_all(f)]
        context = RewriteContext(
            write=table.write_spec(snapshot.columns, maintenance=True),
            read=table.read_spec(snapshot),
            keep=keep,
            query=select,
        )
        results = _run(table, session, rewrite_task, files, context, [f.size for f in files], "rewrite")
        removes = [f for f, r in zip(files, results, strict=True) if r.changed]
        if not removes:
            return ChangeResult("rewrite", None, 0, 0, 0, 0, 0, 0)
        adds = [f for r in results for f in r.adds]
        columns = _joined(r.columns for r in results)
        return _publish(session, "rewrite", adds, removes, columns, summary={"query": without_values(query)})


def overwrite(
    table: LakeTable, data: Any, *, where: str | None, partitions: Literal["touched"] | None
) -> ChangeResult:
    """See `LakeTable.overwrite`."""
    if where is not None and partitions is not None:
        raise InvalidInputError("overwrite takes a predicate or partitions='touched', not both.")
    if partitions not in (None, "touched"):
        raise InvalidInputError(f"partitions={partitions!r}: overwrite only knows 'touched'.")
    with table.journal.exclusive("overwrite") as session:
        written, _ = write(table, data, query=None, maintenance=True)
        if where is not None:
            _check_all_match(table, written.files, written.columns, session.snapshot, where)
            adds, removes = _delete_rows(table, session, where)
        elif partitions == "touched":
            touched = {directory_of(f, table.data_prefix) for f in written.files}
            adds = []
            removes = [f for f in session.snapshot.files if directory_of(f, table.data_prefix) in touched]
        else:
            adds, removes = [], list(session.snapshot.files)
        summary = {"where": without_values(where)} if where is not None else {}
        return _publish(session, "overwrite", [*adds, *written.files], removes, written.columns, summary)


def _check_all_match(
    table: LakeTable, files: Sequence[DataFile], columns: ColumnTypes, snapshot: Snapshot, where: str
) -> None:
    """New rows that the predicate doesn't cover would be doubled by the next overwrite of the same kind."""
    known = {**snapshot.columns, **columns}
    predicate = Predicate.parse(where, known)
    pruner = Pruner(predicate, known, table.pruning_spec)
    merged = replace(snapshot, columns=known)
    spec = table.read_spec(merged, where=f"({predicate.sql}) IS NOT TRUE")
    for file in files:
        if not pruner.certainly_all(file) and any(b.num_rows for b in read_file(table.bucket, file, spec)):
            raise InvalidInputError(
                f"{table.name}: some of the new rows don't satisfy the predicate that they should replace: "
                f"{where}. Nothing was changed; mend the rows or the predicate."
            )


def remove_partitions(
    table: LakeTable, where: str | Sequence[Partition | Mapping[str, Any]], *, dry_run: bool
) -> ChangeResult:
    """See `LakeTable.remove_partitions`."""

    def chosen(snapshot: Snapshot) -> list[DataFile]:
        if isinstance(where, str):
            wanted = _matching_directories(table, snapshot, where)
        else:
            wanted = _directories(table, snapshot, where)
        return [f for f in snapshot.files if directory_of(f, table.data_prefix) in wanted]

    if dry_run:
        return _planned("remove", chosen(table.snapshot()))
    with table.journal.exclusive("remove") as session:
        removes = chosen(session.snapshot)
        if not removes:
            return ChangeResult("remove", None, 0, 0, 0, 0, 0, 0)
        summary = {"where": without_values(where)} if isinstance(where, str) else {}
        return _publish(session, "remove", [], removes, summary=summary)


def restore(table: LakeTable, at: Any) -> ChangeResult:
    """See `LakeTable.restore`."""
    with table.journal.exclusive("restore") as session:
        past = session.revivable(at)
        now = {f.path for f in session.snapshot.files}
        then = {f.path for f in past.files}
        back = [f for f in past.files if f.path not in now]
        there = {info.key for info in table.bucket.list(table.data_prefix).objects} if back else set()
        for file in back:
            if file.path.startswith(table.data_prefix) and file.path not in there:
                raise SnapshotTooOldError(
                    f"{table.name} can't be restored to {at}: {table.bucket.uri(file.path)} is gone. Nothing "
                    "was changed; choose a later version."
                )
        gone = [f for f in session.snapshot.files if f.path not in then]
        if not back and not gone:
            return ChangeResult("restore", None, 0, 0, 0, 0, 0, 0)
        return _publish(session, "restore", back, gone, summary={"to": past.version})


# -- shared steps


def _joined(each: Iterable[ColumnTypes]) -> ColumnTypes:
    """The types of what tasks wrote: one may have had to widen a column that another didn't."""
    columns: ColumnTypes = {}
    for found in each:
        if found != columns:
            columns = evolve(columns, found, allow_widening=True)
    return columns


def _run(
    table: LakeTable,
    session: Session,
    fn: Callable[..., Any],
    tasks: Sequence[Any],
    context: Any,
    weights: Sequence[int],
    title: str,
) -> list[Any]:
    """Map tasks by the runner that fits the plan, giving up as soon as the lock is lost."""
    if not tasks:
        return []
    report = table.engines.progress(f"{title} {table.name}")

    def progress(done: int, total: int) -> None:
        session.check()
        if report is not None:
            report(done, total)

    runner = table.engines.runner(sum(weights))
    return runner.map(fn, tasks, bucket=table.bucket, context=context, weights=weights, progress=progress)


def _publish(
    session: Session,
    op: str,
    adds: Sequence[DataFile],
    removes: Sequence[DataFile],
    columns: ColumnTypes | None = None,
    summary: Mapping[str, Any] | None = None,
) -> ChangeResult:
    detail = {
        **(summary or {}),
        "rows_removed": _rows(removes),
        "bytes_removed": sum(f.size for f in removes),
    }
    commit = Commit(op, adds, [f.path for f in removes], columns or {}, summary=detail)
    version = session.publish(commit)
    return ChangeResult(
        op,
        version,
        len(removes),
        len(adds),
        _rows(removes),
        _rows(adds),
        sum(f.size for f in removes),
        sum(f.size for f in adds),
        tuple(f.path for f in removes),
    )


def _planned(op: str, files: Sequence[DataFile]) -> ChangeResult:
    size = sum(f.size for f in files)
    paths = tuple(f.path for f in files)
    return ChangeResult(op, None, len(files), 0, _rows(files), None, size, 0, paths, dry_run=True)


def _rows(files: Sequence[DataFile]) -> int | None:
    rows = [f.rows for f in files]
    return None if None in rows else sum(r for r in rows if r is not None)


def _directories(
    table: LakeTable, snapshot: Snapshot, partitions: Sequence[Partition | Mapping[str, Any]]
) -> set[str]:
    """Directories of partitions given by their values; naming one that isn't there is an error."""
    by_values = {
        frozenset(p.values.items()): directory for directory, p in table.partitions_of(snapshot).items()
    }
    found = set()
    for wanted in partitions:
        values = wanted.values if isinstance(wanted, Partition) else wanted
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"a partition is given as its values, like {{'date_month': '2001-01'}}, not {values!r}."
            )
        key = frozenset((k, None if v is None else str(v)) for k, v in values.items())
        if key not in by_values:
            raise InvalidInputError(
                f"{table.name} has no partition {dict(values)!r}; see partitions() for those it has."
            )
        found.add(by_values[key])
    return found


def _matching_directories(table: LakeTable, snapshot: Snapshot, where: str) -> set[str]:
    partitions = table.partitions_of(snapshot)
    try:
        matches = match_partitions(
            where, table.partition_spec, [p.values for p in partitions.values()], snapshot.columns
        )
    except FirnError as error:
        raise type(error)(f"{table.name}: {error}") from error
    return {d for d, hit in zip(partitions, matches, strict=True) if hit}
