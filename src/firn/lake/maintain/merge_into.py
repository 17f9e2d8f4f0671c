"""MERGE INTO a lake table: update, insert and delete rows by those of a source, in one commit.

The lock comes first, then the snapshot. A first pass reads the columns that decide, and tells for each file which of
its rows change, and which source rows match any. A second pass writes the files that change anew. Source rows that no
file of the table matches, other writers' files included, may be inserted. Appends go on meanwhile: their rows weren't
seen, stay, and aren't matched. See docs/design/0014-merge-into.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.inputs import InputRows, to_reader
from firn.arrow.pyvalues import python_rows
from firn.arrow.types import conform
from firn.errors import CardinalityError, InvalidInputError, UnsupportedError
from firn.journal.columns import evolve
from firn.journal.model import ColumnTypes, DataFile, Session, Snapshot
from firn.lake.context import LakeContext
from firn.lake.definition.keys import DELETED, HIDDEN, KeySpec
from firn.lake.maintain.change import FileChange, by_owner, nothing, publish, rewritten, run_tasks
from firn.lake.maintain.matching.binding import (
    check_bound,
    equal_condition,
    named_clause,
    refuse_own_names,
    settable,
)
from firn.lake.maintain.matching.clauses import MergeClause
from firn.lake.maintain.matching.files import (
    deciding_columns,
    equal_columns,
    looked_at,
    may_match,
    source_keys,
)
from firn.lake.maintain.matching.matching import (
    CLAUSE,
    ROW,
    MatchContext,
    Matching,
    error_of,
    match_task,
    numbered,
)
from firn.lake.maintain.matching.source import (
    SOURCE_ROW,
    Staging,
    counted,
    lazily,
    source_data,
)
from firn.lake.maintain.tasks import InsertContext, ReplaceContext, insert_task, replace_task
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.read.scan import Scan
from firn.lake.results import ChangeResult
from firn.lake.write.append import write
from firn.lake.write.checks import Checks
from firn.lake.write.write import WriteSpec, write_batches
from firn.names import fold
from firn.predicate.words import outline_of

Source = Callable[[Snapshot | None], Any]
"""Gives the source's rows, of the snapshot that is changed where it reads the table itself; None before the lock."""


def merge_into(
    table: LakeContext,
    source: Source | None,
    *,
    on: str | Sequence[str],
    clauses: Sequence[MergeClause],
    target: str = "t",
    source_name: str = "s",
    op: str = "merge_into",
    summary: Mapping[str, Any] | None = None,
    before_lock: bool = False,
) -> ChangeResult:
    """See `LakeTable.merge_into`. `op` is "merge_into", "update" or "delete", which differ by name; a row may be
    deleted by several source rows. `summary` is what the log keeps besides the counts, by default the condition.
    `before_lock`: the source doesn't read the table, so that nobody has to wait while it is computed."""
    if source is not None and fold(target) == fold(source_name):
        raise InvalidInputError(
            f"{table.name}: the table and the source are both called {target!r}, so nobody could tell whose columns "
            "are meant: give one of them another alias, as in MERGE INTO … AS t USING … AS s."
        )
    condition = on if isinstance(on, str) else equal_condition(on, target, source_name)
    names = equal_columns(on, target, source_name) if isinstance(on, str) else on
    if source is not None and table.keys is not None and _is_upsert(table.keys, names, clauses):
        return _upserted(table, table.keys, source, source_name)
    for clause in clauses:
        clause.check()
    with ExitStack() as stack:
        staging = stack.enter_context(Staging(table, op))
        rows = staging.keep(source(None)) if source is not None and before_lock else None
        session = stack.enter_context(table.journal.exclusive(op))
        snapshot = session.snapshot
        table = table.at(snapshot)
        if source is not None and not before_lock:
            rows = staging.keep(source(snapshot))
        columns = dict(snapshot.columns)
        if not columns:
            raise InvalidInputError(
                f"{table.name} has no columns yet: give it rows by append, or a schema when it is created."
            )
        refuse_own_names(table, [*columns, *(rows.types if rows is not None else ())])
        named = [named_clause(table, settable(snapshot), rows, clause, source_name) for clause in clauses]
        checks = Checks.of(table.definition, columns)
        matching = Matching(target, source_name, condition, named, rows, columns, checks)
        check_bound(matching)
        said = {"on": outline_of(condition)} if summary is None else summary
        if table.keys is not None:
            return _by_key(table, session, staging, op, matching, table.keys.bound(columns), said)
        return _by_file(table, session, staging, op, matching, said)


def update(table: LakeContext, where: str, set_: Mapping[str, str], *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.update`, of a table without a key."""
    if not set_:
        raise InvalidInputError(
            f"update of {table.name} says nothing to set: pass something like {{'n': 'n + 1'}}."
        )
    if dry_run:
        rows = Scan(table, where=where).count()
        return ChangeResult("update", rows_updated=rows, dry_run=True)
    clause = MergeClause("matched", "update", values=set_)
    return merge_into(table, None, on=where, clauses=[clause], target=table.name, op="update")


def _by_file(
    table: LakeContext,
    session: Session,
    staging: Staging,
    op: str,
    matching: Matching,
    said: Mapping[str, Any],
) -> ChangeResult:
    """Files with a change are replaced by files without it."""
    snapshot = placed(table, session.snapshot, looked_at(matching, matching.types))
    files = may_match(matching, snapshot, table.partition_spec)
    weights = [file.size for file in files]
    if matching.rows is not None:
        matching = replace(matching, rows=staging.for_tasks(matching.rows, sum(weights)))
    read = ReadSpec.of(snapshot)
    deciding = MatchContext(matching, ReadSpec.of(snapshot, columns=deciding_columns(matching)))
    found = run_tasks(table, session, match_task, files, deciding, weights, op)
    inserts = _inserts(table, matching, found)
    changes = {
        file.path: changed
        for file, pairs in zip(files, found, strict=True)
        if (changed := _changes(table, matching, pairs, op)).num_rows
    }
    mine, others = by_owner(table, [file for file in files if file.path in changes])
    counts = _counts(matching, [*(changes[file.path] for file in mine), *inserts.values()])
    spec = WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside)
    context = ReplaceContext(spec, read, matching)
    tasks = [(file, changes[file.path]) for file in mine]
    change = rewritten(table, session, op, replace_task, tasks, [[f] for f in mine], context, len(others))
    if inserts:
        change = _with_inserts(
            table,
            session,
            op,
            change,
            InsertContext(spec, matching, table.definition, snapshot.columns),
            inserts,
        )
    return _published(table, session, snapshot, staging, op, change, counts, said)


def _with_inserts(
    table: LakeContext,
    session: Session,
    op: str,
    change: FileChange,
    context: InsertContext,
    inserts: Mapping[int, pa.Table],
) -> FileChange:
    """The change with the files of inserted rows, written by a task a part of the source."""
    assert context.matching.rows is not None
    weights = [context.matching.rows.parts[part].weight for part in inserts]
    # Files that are written anew keep columns that nobody inserts.
    columns: ColumnTypes = context.matching.types if change.adds else {}
    adds = [*change.adds]
    for result in run_tasks(table, session, insert_task, [*inserts.values()], context, weights, op):
        adds += result.adds
        columns = evolve(columns, result.columns, allow_widening=True)
    return replace(change, adds=adds, columns=columns)


def _by_key(
    table: LakeContext,
    session: Session,
    staging: Staging,
    op: str,
    matching: Matching,
    keys: KeySpec,
    said: Mapping[str, Any],
) -> ChangeResult:
    """New versions of the rows that change, and deletions, come beside the old ones."""
    snapshot = session.snapshot
    named = source_keys(matching, keys.key)
    if named is not None and matching.rows is not None and op != "delete":
        by = list(dict.fromkeys(named))  # one column of the source may equal two of the key
        rows = matching.rows.read(by).select(by)
        _refuse_repeated(table, rows.drop_null(), by, "the source")
    where = looked_at(matching, matching.types)
    rows = numbered(iter([Scan(table, where=where, snapshot=snapshot).to_arrow()]), matching.types)
    pairs = matching.pairs(rows)
    chosen = _inserts(table, matching, [pairs])
    inserts = matching.insertions(pa.concat_tables(chosen.values())) if chosen else None
    changes = _changes(table, matching, pairs, op)
    counts = _counts(matching, [changes, *chosen.values()])
    of = {action: matching.with_action(changes, action) for action in ("update", "delete")}
    updated = None
    if of["update"].num_rows:
        taken = of["update"].set_column(0, ROW, counted(of["update"].num_rows))
        updated = matching.changed(rows.take(of["update"][ROW]), taken)
    spec = WriteSpec.of(table, snapshot.columns, session.namer, aside=snapshot.aside)
    adds: list[DataFile] = []
    columns: ColumnTypes = {}
    if inserts is not None:
        _refuse_repeated(table, inserts, keys.key, "what is inserted")
        written, _ = write(table, _insertable(inserts, matching), session.namer, by=snapshot)
        adds, columns = [*written.files], written.columns
    if updated is not None:
        adds += write_batches(table.bucket, spec, [conform(updated, matching.types)])
        columns = evolve(matching.types, columns, allow_widening=True)
    if of["delete"].num_rows:
        bound = {name: matching.types[name] for name in keys.columns}
        gone = conform(rows.take(of["delete"][ROW]).select(list(bound)), bound)
        if inserts is not None and keys.version_by is None:  # a new row takes the place of a deleted one
            gone = gone.join(
                conform(inserts.select(gone.column_names), bound), gone.column_names, join_type="left anti"
            )
        now = max(table.journal.now_ms(), snapshot.time_ms)
        gone = gone.append_column(DELETED, pa.repeat(pa.scalar(now, pa.int64()), gone.num_rows))
        lean = WriteSpec.of(table, {**bound, DELETED: HIDDEN[DELETED]}, session.namer)
        adds += write_batches(table.bucket, lean, [gone])
    change = FileChange(adds, columns=columns)
    return _published(table, session, snapshot, staging, op, change, counts, said)


def _inserts(table: LakeContext, matching: Matching, found: Sequence[pa.Table]) -> dict[int, pa.Table]:
    """The source rows to be inserted, which nothing matches, by their part: `SOURCE_ROW` and `CLAUSE`."""
    if matching.rows is None or not matching.of("not matched"):
        return {}
    numbers = [chunk for pairs in found for chunk in pairs[SOURCE_ROW].cast(pa.int64()).chunks]
    matched = pc.unique(pa.chunked_array(numbers, pa.int64()))
    chosen = {}
    for part, (first, rows, _) in enumerate(matching.rows.parts):
        here = pc.and_(pc.greater_equal(matched, first), pc.less(matched, first + rows))
        rest = matching.unmatched(matched.filter(here), part)
        for at in pc.unique(rest[CLAUSE]).to_pylist():
            if at >= 0 and matching.clauses[at].action == "error":
                raise error_of(table.name, at)
        if (mine := matching.with_action(rest, "insert")).num_rows:
            chosen[part] = mine
    return chosen


def _insertable(inserts: pa.Table, matching: Matching) -> InputRows:
    """Rows to be inserted as `append` takes them: with the types that they were cast to."""
    return replace(to_reader(inserts, known={}), types=matching.types)


def _changes(table: LakeContext, matching: Matching, pairs: pa.Table, op: str) -> pa.Table:
    """The pairs that change a row, one a row."""
    actions = [clause.action for clause in matching.clauses]
    chosen = pairs.filter(pc.greater_equal(pairs[CLAUSE], 0))
    present = {actions[at]: at for at in pc.unique(chosen[CLAUSE]).to_pylist()}
    if "error" in present:
        raise error_of(table.name, present["error"])
    chosen = matching.with_action(chosen, "update", "delete")
    counts = pc.value_counts(chosen[ROW].combine_chunks())
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if not len(twice):
        return chosen
    if op == "delete":  # by whichever source row
        first = chosen.group_by(ROW, use_threads=False).aggregate([(SOURCE_ROW, "min"), (CLAUSE, "min")])
        return first.select([ROW, f"{SOURCE_ROW}_min", f"{CLAUSE}_min"]).rename_columns(
            [ROW, SOURCE_ROW, CLAUSE]
        )
    row = twice[0].as_py()["values"]
    numbers = chosen.filter(pc.equal(chosen[ROW], row))[SOURCE_ROW].to_pylist()[:2]
    assert matching.rows is not None
    both = _told(matching.rows.take([*matching.rows.types], pa.array(numbers)).drop_columns([SOURCE_ROW]))
    raise CardinalityError(
        f"{table.name}: two rows of the source change one row of the table: {both[0]} and {both[1]}. Nothing was "
        "changed. Make the source's rows unique, for instance by GROUP BY, or add a condition."
    )


def _told(rows: pa.Table) -> list[Any]:
    """Rows for a message."""
    try:
        return python_rows(rows)
    except InvalidInputError:
        return ["a row with a value that Python has none for"] * rows.num_rows


def _counts(matching: Matching, changes: Sequence[pa.Table]) -> dict[str, int]:
    counts = {"insert": 0, "update": 0, "delete": 0}
    for table in changes:
        for found in pc.value_counts(table[CLAUSE].combine_chunks()).to_pylist():
            counts[matching.clauses[found["values"]].action] += found["counts"]
    return counts


def _published(
    table: LakeContext,
    session: Session,
    snapshot: Snapshot,
    staging: Staging,
    op: str,
    change: FileChange,
    counts: dict[str, int],
    said: Mapping[str, Any],
) -> ChangeResult:
    summary = {**said, **{f"rows_{verb}": counts[action] for action, verb in _VERBS.items()}}
    changed = bool(change.adds or change.removes)
    staging.check_age()
    result = (
        publish(table, session, snapshot, op, change, summary) if changed else nothing(op, change.foreign)
    )
    return replace(
        result,
        rows_inserted=counts["insert"],
        rows_updated=counts["update"],
        rows_deleted=counts["delete"],
    )


_VERBS = {"insert": "inserted", "update": "updated", "delete": "deleted"}


def _is_upsert(keys: KeySpec, equal: Sequence[str], clauses: Sequence[MergeClause]) -> bool:
    """Whether a merge does what `upsert` does: it needs no lock then, and reads nothing."""
    if {fold(name) for name in equal} != {fold(name) for name in keys.key}:
        return False
    plain = {(c.when, c.action) for c in clauses if c.condition is None and c.values is None}
    return len(clauses) == 2 and plain == {("matched", "update"), ("not matched", "insert")}


def _upserted(table: LakeContext, keys: KeySpec, source: Source, source_name: str) -> ChangeResult:
    from firn.lake.write.append import append

    with Staging(table, "merge_into") as staging:
        snapshot = table.journal.snapshot()
        data = lazily(source(snapshot))
        rows = staging.keep(data)
        refuse_own_names(table, rows.types)
        named_clause(table, settable(snapshot), rows, MergeClause("not matched", "insert"), source_name)
        parts = {fold(part) for part in keys.key}
        key = [name for name in rows.types if fold(name) in parts]
        _refuse_repeated(table, rows.read(key), keys.key, "the source")
        staging.check_age()
        on_spark = table.engines.is_dataframe(data)
        done = append(table, source_data(table, rows, [*keys.key, *snapshot.columns], on_spark=on_spark))
    return replace(
        ChangeResult("merge_into", done.version, None, None, 0),
        files_added=done.files,
        bytes_added=done.bytes,
    )


def _refuse_repeated(table: LakeContext, rows: pa.Table, key: Sequence[str], what: str) -> None:
    """Each key may stand once in what is written at the same time: nobody could tell which row is the newer."""
    names = [name for name in rows.column_names if fold(name) in {fold(part) for part in key}]
    if len(names) != len(key):
        raise UnsupportedError(f"{table.name}: {what} lacks columns of the key: {', '.join(key)}.")
    counted = rows.select(names).group_by(names).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1))
    if twice.num_rows:
        found = _told(twice.select(names).slice(0, 1))[0]
        raise CardinalityError(
            f"{table.name}: several rows of {what} have the key {found}. Nothing was changed. Make them unique, for "
            "instance by GROUP BY."
        )
