"""Parts that all changes of a table share: the files that they may touch, their tasks, commit and answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from firn.errors import FirnError, InvalidInputError, UnsupportedError
from firn.journal.columns import evolve
from firn.journal.entries import Entries
from firn.journal.model import ColumnTypes, Commit, DataFile, Replacing, Session, Snapshot, SoftDelete
from firn.lake.context import LakeContext
from firn.lake.maintain.tasks import MergeContext, MergeTask, TaskResult, merge_task
from firn.lake.partition.partition import Place, directory_of, match_partitions, parse_dir, told_values
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import parts_of
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.write import WriteSpec


@dataclass(frozen=True)
class FileChange:
    """Files that come, and files that go.

    Attributes:
        columns: the types that the new files were written with, where a query chose them.
        replaced: those of the removed files that new ones say to replace.
        foreign: how many files of other writers match, which stay.
        aside: those of `columns` that hold what was set aside, if not now, before.
        fresh: those of `adds` whose rows are new; the others' stood in files that go.
        definition: the definition that the change makes, if it makes one.
    """

    adds: Sequence[DataFile] = ()
    removes: Sequence[DataFile] = ()
    columns: ColumnTypes = field(default_factory=dict)
    soft_deletes: Sequence[SoftDelete] = ()
    replaced: Sequence[DataFile] = ()
    foreign: int = 0
    aside: frozenset[str] = frozenset()
    fresh: Sequence[DataFile] = ()
    definition: Entries | None = None

    @property
    def rows_removed(self) -> int | None:
        """Rows of the files that go; None where nobody counted, as those that a soft delete takes."""
        return None if self.soft_deletes else _rows(self.removes)


def by_owner(table: LakeContext, files: Iterable[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """Files that this connection may replace or remove, and other writers'."""
    mine: list[DataFile] = []
    foreign: list[DataFile] = []
    for file in files:
        (mine if table.journal.owns(file.path) else foreign).append(file)
    return mine, foreign


def refuse_keys(table: LakeContext, what: str, instead: str) -> None:
    """Raise `UnsupportedError` on a table with a key, whose files hold versions of rows, not rows."""
    if table.keys is not None:
        raise UnsupportedError(
            f"{table.name} has a key, and {what} isn't supported on such tables: {instead}."
        )


def run_tasks(
    table: LakeContext,
    session: Replacing,
    fn: Callable[..., Any],
    tasks: Sequence[Any],
    context: Any,
    weights: Sequence[int],
    title: str,
) -> list[Any]:
    """Map tasks by the runner that fits the plan, giving up as soon as they can't be published any more."""
    if not tasks:
        return []
    report = table.engines.progress(f"{title} {table.name}")

    def progress(done: int, total: int) -> None:
        session.check()
        if report is not None:
            report(done, total)

    runner = table.engines.runner(sum(weights))
    return runner.map(fn, tasks, bucket=table.bucket, context=context, weights=weights, progress=progress)


def rewritten(
    table: LakeContext,
    session: Session,
    op: str,
    fn: Callable[..., TaskResult],
    tasks: Sequence[Any],
    inputs: Sequence[Sequence[DataFile]],
    context: Any,
    foreign: int,
) -> FileChange:
    """Map tasks that write the files of `inputs` anew, each one those of its place."""
    weights = [sum(f.size for f in files) for files in inputs]
    return change_of(inputs, run_tasks(table, session, fn, tasks, context, weights, op), foreign)


def change_of(
    inputs: Sequence[Sequence[DataFile]], results: Sequence[TaskResult], foreign: int
) -> FileChange:
    """What tasks made of the files of `inputs`, one after the other."""
    columns: ColumnTypes = {}
    for result in results:
        if result.columns != columns:  # one may have had to widen a column that another didn't
            columns = evolve(columns, result.columns, allow_widening=True)
    pairs = list(zip(inputs, results, strict=True))
    return FileChange(
        [f for r in results for f in r.adds],
        [f for files, r in pairs if r.changed for f in files],
        columns,
        replaced=[f for files, r in pairs if r.adds and r.in_place for f in files],
        foreign=foreign,
    )


def completed(
    table: LakeContext,
    session: Session,
    snapshot: Snapshot,
    change: FileChange,
    also: Iterable[DataFile] = (),
) -> FileChange:
    """The change, with files of the rows that stand in the same logs as rows that go: these logs are replaced, and no
    other log takes rows over. `also` are placed rows that are to be written in any case."""
    going = {file.path for file in change.removes}
    waiting = [f for f in snapshot.files if f.inlined is not None and f.path not in going]
    if not waiting:
        return change
    taken = {path for f in (*change.removes, *also) if f.inlined is not None for path in parts_of(f)}
    rest: list[DataFile] = []
    while found := [f for f in waiting if not taken.isdisjoint(parts_of(f))]:
        rest += found
        # Before more is taken: what shares rows with that comes next.
        waiting = [f for f in waiting if taken.isdisjoint(parts_of(f))]
        taken.update(path for f in found for path in parts_of(f))
    if not rest:
        return change
    context = MergeContext(
        write=WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside),
        read=ReadSpec.of(snapshot),
        keys=table.keys,
    )
    tasks = [MergeTask(directory_of(f, table.places), (f,)) for f in rest]
    more = rewritten(table, session, "merge", merge_task, tasks, [[f] for f in rest], context, 0)
    columns = change.columns and evolve(snapshot.columns, change.columns, allow_widening=True)
    return replace(
        change,
        adds=[*change.adds, *more.adds],
        removes=[*change.removes, *more.removes],
        columns=columns,
        replaced=[*change.replaced, *more.replaced],
    )


def publish(
    table: LakeContext,
    session: Session,
    snapshot: Snapshot,
    op: str,
    change: FileChange,
    summary: Mapping[str, Any] | None = None,
) -> ChangeResult:
    """Commit the change, of a table as the session's snapshot has it; `snapshot` is that one, where the change takes
    rows of logs with these placed."""
    change = completed(table, session, snapshot, change)
    removed = {"rows_removed": change.rows_removed, "bytes_removed": sum(f.size for f in change.removes)}
    naming = table.definition.naming
    commit = Commit(
        op,
        change.adds,
        list(dict.fromkeys(path for f in change.removes for path in parts_of(f))),
        naming.in_files(change.columns),
        summary={**(summary or {}), **removed},
        soft_deletes=change.soft_deletes,
        replaced=list(dict.fromkeys(path for f in change.replaced for path in parts_of(f))),
        clocked=table.keys is not None,
        aside=frozenset(map(naming.physical, change.aside)),
        names=naming.brought(change.columns),
        definition=change.definition,
    )
    return replace(counted(op, change), dry_run=False, version=session.publish(commit))


def nothing(op: str, foreign: int = 0) -> ChangeResult:
    """The answer where no file is touched."""
    return ChangeResult(op, foreign_files=foreign)


def planned(op: str, change: FileChange) -> ChangeResult:
    """The answer of a dry run: these files would go, and the soft deletes come. Nobody knows what is written."""
    found = counted(op, change)
    whole = op == "remove"  # which writes nothing
    return found if whole else replace(found, rows_inserted=None, rows_updated=None, rows_deleted=None)


def counted(op: str, change: FileChange) -> ChangeResult:
    """The answer of a dry run that knows which files would come."""
    adds, removes = change.adds, change.removes
    marked = tuple(path for soft in change.soft_deletes for path in soft.paths)
    inserted = _rows(change.fresh)
    went, came = change.rows_removed, _rows(adds)
    deleted = None if inserted is None or went is None or came is None else went - (came - inserted)
    return ChangeResult(
        op,
        rows_inserted=inserted,
        rows_deleted=deleted,
        files_added=len(adds),
        files_removed=sum(f.inlined is None for f in removes),
        bytes_added=sum(f.size for f in adds),
        bytes_removed=sum(f.size for f in removes),
        files=tuple(dict.fromkeys([*(path for f in removes for path in parts_of(f)), *marked])),
        dry_run=True,
        files_marked=len(marked),
        foreign_files=change.foreign,
    )


def _rows(files: Sequence[DataFile]) -> int | None:
    rows = [f.live_rows for f in files]
    return None if None in rows else sum(r for r in rows if r is not None)


def in_partitions(
    table: LakeContext,
    snapshot: Snapshot,
    partitions: Sequence[Partition | Mapping[str, Any]] | None,
    *,
    may_be_gone: bool = False,
) -> list[DataFile]:
    """The files of these partitions; all, if None. One that isn't there is an error, unless it may be gone."""
    if partitions is None:
        return list(snapshot.files)
    wanted = places_of(table, snapshot, partitions, may_be_gone=may_be_gone)
    return [f for f in snapshot.files if table.partition_spec.place_of(f, table.places)[0] in wanted]


def removable(
    table: LakeContext, snapshot: Snapshot, where: str | Sequence[Partition | Mapping[str, Any]]
) -> tuple[list[DataFile], int]:
    """The files of the partitions that are wanted; and how many others stay that lie in directories of such
    partitions, with rows of others, or whose partitions don't tell."""
    spec, places = table.partition_spec, table.places
    wanted, untold = (
        matching_places(table, snapshot, where)
        if isinstance(where, str)
        else (places_of(table, snapshot, where), frozenset())
    )
    chosen: list[DataFile] = []
    moved: Counter[Place] = Counter()
    for file in snapshot.files:
        own, (place, _) = Place(file.spec, directory_of(file, places)), spec.place_of(file, places)
        if place in wanted:
            chosen.append(file)
        elif place != own or place in untold:
            moved[own] += 1
    if isinstance(where, str):
        for own in moved:  # one by one: their values are of several types
            with suppress(InvalidInputError):
                values = told_values(own.directory, parse_dir(own.directory))
                if match_partitions(where, spec, [values], snapshot.columns) == [True]:
                    wanted.add(own)
    return chosen, sum(count for own, count in moved.items() if own in wanted or own in untold)


def places_of(
    table: LakeContext,
    snapshot: Snapshot,
    partitions: Sequence[Partition | Mapping[str, Any]],
    *,
    may_be_gone: bool = False,
) -> set[Place]:
    """Places of partitions given by their values; naming one that isn't there is an error."""
    by_values: dict[frozenset[tuple[str, str | None]], set[Place]] = {}
    for place, partition in table.partitions_of(snapshot).items():
        by_values.setdefault(frozenset(partition.values.items()), set()).add(place)
    found: set[Place] = set()
    for wanted in partitions:
        values = wanted.values if isinstance(wanted, Partition) else wanted
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"a partition is given as its values, like {{'date_month': '2001-01'}}, not {values!r}."
            )
        key = frozenset((k, None if v is None else str(v)) for k, v in values.items())
        if key not in by_values and not may_be_gone:
            raise InvalidInputError(
                f"{table.name} has no partition {dict(values)!r}; see partitions() for those it has."
            )
        found |= by_values.get(key, set())
    return found


def matching_places(
    table: LakeContext, snapshot: Snapshot, where: str
) -> tuple[set[Place], frozenset[Place]]:
    """Places of the partitions whose values satisfy a predicate, and those of older specs that lack a field which it
    asks for."""
    partitions = table.partitions_of(snapshot)
    present = table.partition_spec
    matching: set[Place] = set()
    untold: set[Place] = set()
    for spec in (present, *present.older):
        ours = [place for place in partitions if present.of_id(place.spec) is spec]
        if not ours and spec is not present:
            continue
        values = [told_values(place.directory, partitions[place].values) for place in ours]
        try:
            hits = match_partitions(where, spec, values, snapshot.columns)
        except FirnError as error:
            if spec is present:
                raise type(error)(f"{table.name}: {error}") from error
            untold.update(ours)
            continue
        matching.update(place for place, hit in zip(ours, hits, strict=True) if hit)
    return matching, frozenset(untold)
