"""Tasks of a merge, delete or rewrite: files in, files that replace them out.

Module-level functions `fn(bucket, context, task)` for a `firn.runner.Runner`; contexts, tasks and results are
picklable. They only add files: nothing changes for readers until the caller commits the results. The files that
they write have no soft deletes: the rows that these took from the files read aren't in them.

Memory of a task: a few batches; with a sort order `2 × memory_budget` of Arrow rows (`firn.lake.write.write`); with
a query its whole result, and all its input if it mentions its source more than once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.engine import run_query
from firn.arrow.inputs import InputRows
from firn.arrow.types import arrow_schema, columns_of, conform
from firn.bucket.base import Bucket
from firn.concurrency.prefetch import ahead
from firn.errors import InvalidInputError
from firn.journal.columns import join
from firn.journal.model import ColumnTypes, DataFile
from firn.journal.typenames import quoted
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import CLOCK, HIDDEN, KeySpec
from firn.lake.parquet.source import WHOLE_BYTES, RowSource, open_rows
from firn.lake.partition.partition import directory_of
from firn.lake.partition.placement import scattered_by
from firn.lake.read.decode import FileMask, ReadSpec, rows_of
from firn.lake.read.latest import LatestSpec, clocks_of, fold_files
from firn.lake.read.placed import parts_of
from firn.lake.read.read import read_files
from firn.lake.write.append import target_columns
from firn.lake.write.sort import sort_keys
from firn.lake.write.write import Order, WriteSpec, marker_for, write_batches, write_partition
from firn.names import fold
from firn.predicate.predicate import outline

if TYPE_CHECKING:
    from firn.lake.maintain.matching.matching import Matching


@dataclass(frozen=True)
class MergeContext:
    """`read.columns` are all columns of the table; `query` is a SELECT over `source_files`, or None.

    With `keys` only the newest version of each row stays, and deletions from before `forget_before` (milliseconds
    since 1970) go where the task has all files of a directory.
    """

    write: WriteSpec
    read: ReadSpec
    query: str | None = None
    keys: KeySpec | None = None
    forget_before: int = 0


@dataclass(frozen=True)
class MergeTask:
    """Files of one partition directory, or of all (None) if they disagree on it; `whole` if there are no others."""

    directory: str | None
    files: tuple[DataFile, ...]
    whole: bool = False


@dataclass(frozen=True)
class DeleteContext:
    """Rows for which `where` is true go."""

    write: WriteSpec
    read: ReadSpec
    where: str


@dataclass(frozen=True)
class RewriteContext:
    """Rows for which `keep` is true stay; or the file becomes what `query`, a SELECT, makes of `_rows`."""

    write: WriteSpec
    read: ReadSpec
    keep: str | None = None
    query: str | None = None


@dataclass(frozen=True)
class ReplaceContext:
    """What `matching` changes is replaced."""

    write: WriteSpec
    read: ReadSpec
    matching: Matching


@dataclass(frozen=True)
class InsertContext:
    """What `matching` inserts is written, in the types that `target_columns` gives by the last two."""

    write: WriteSpec
    matching: Matching
    definition: LakeDefinition
    known: ColumnTypes


@dataclass(frozen=True)
class TaskResult:
    """`adds` replace the task's files where it `changed` them; else these stay. `columns` are the types that
    a query's result was written with: what the commit has to tell. `in_place`: the files say whose place they
    take."""

    adds: Sequence[DataFile] = ()
    columns: ColumnTypes = field(default_factory=dict)
    in_place: bool = True
    changed: bool = True


def merge_task(bucket: Bucket, context: MergeContext, task: MergeTask) -> TaskResult:
    """Write the rows of all files anew, in as few files as the target size allows (paper: "Merging").

    Columns are the union by name, in the table's types. The files stay in their directory; rows that a query
    makes go where their values say. No file comes of no rows.

    Cost: `read_files`, and 1 PUT a file. Raises its errors: a missing source file aborts the merge. Raises
    `InvalidInputError` for a query whose result lacks a column that the table is partitioned by.
    """
    if context.keys is not None:
        return _fold(bucket, context, context.keys, task)
    if context.query is None:
        context = replace(context, read=_had(context.read, task.files))
    rows = _read(bucket, task.files, context.read)
    write = _in_place_of(context.write, task.files)
    marker = _marker_of(task.files, write)
    if context.query is None:
        order: Order = "sort" if write.sort_by else "keep"
        spec = replace(write, columns=context.read.columns)
        return _write_in_place(bucket, spec, rows, task.files, task.directory, marker, order)
    known = context.read.columns
    result = _query(context.query, "source_files", rows, known)
    return _write_result(bucket, write, result, task.directory or "", marker, known)


def _fold(bucket: Bucket, context: MergeContext, keys: KeySpec, task: MergeTask) -> TaskResult:
    """Write the newest version of each row, with its clock: an older file may land yet, or be merged later."""
    deletes = any(file.key_deletes for file in task.files)
    hidden = HIDDEN if deletes else {CLOCK: HIDDEN[CLOCK]}
    context = replace(context, read=_had(context.read, task.files))
    columns = {**context.read.columns, **hidden}
    read = LatestSpec(keys, replace(context.read, columns=columns))
    rows = fold_files(bucket, task.files, read, forget_before=context.forget_before if task.whole else 0)
    clocks = [clocks_of(file) for file in task.files]
    marker = {
        **_marker_of(task.files, context.write),
        "clocks": [min(low for low, _ in clocks), max(high for _, high in clocks)],
        "fold": secrets.token_hex(8),
    }
    order: Order = "sort" if context.write.sort_by else "keep"
    spec = replace(_in_place_of(context.write, task.files), columns=columns)
    return _write_in_place(bucket, spec, rows, task.files, task.directory, marker, order)


def delete_task(bucket: Bucket, context: DeleteContext, file: DataFile) -> TaskResult:
    """Write the file without the rows for which the predicate is true, and without those that soft deletes
    took; none, if that is all of them. The file is left as it is if no row goes.

    Reads the predicate's columns first: files without a match cost no more than these.
    """
    write = _in_place_of(context.write, [file], context.where)
    return _filter(bucket, write, context.read, file, f"(\n{context.where}\n) IS NOT TRUE")


def rewrite_task(bucket: Bucket, context: RewriteContext, file: DataFile) -> TaskResult:
    """Write the file anew with the rows to keep, or with what a query makes of them (paper: "Partition
    rewrite"). Where no row is left no file is: its directory may have the very value that was to be erased. A
    predicate that keeps every row leaves the file as it is.
    """
    write = _in_place_of(context.write, [file])
    if context.keep is not None:
        return _filter(bucket, write, context.read, file, context.keep)
    if context.query is None:
        raise InvalidInputError("a rewrite needs a predicate of the rows to keep, or a query")
    known = context.read.columns
    result = _query(context.query, "_rows", _read(bucket, [file], context.read), known)
    marker = _marker_of([file], write)
    return _write_result(bucket, write, result, directory_of(file, write.namer), marker, known)


def replace_task(bucket: Bucket, context: ReplaceContext, task: tuple[DataFile, pa.Table]) -> TaskResult:
    """Write a file anew with the changes that a merge makes to its rows. A row whose partition changes goes where its
    values say. No file comes of no rows."""
    file, changes = task
    write = _in_place_of(context.write, [file])
    read = _had(context.read, [file])
    matching, changes = replace(context.matching, types=read.columns).with_rows_of(changes)
    set_ = matching.set_columns()
    spec = replace(write, columns=read.columns)
    marker = _marker_of([file], write)
    moves = not set_.isdisjoint(field.source for field in spec.partition.of(file).fields)
    directory = None if moves else directory_of(file, write.namer)
    with open_rows(bucket, file) as source:
        tables = matching.in_batches(rows_of(source, read), changes)
        resorts = not set_.isdisjoint(name for name, _ in sort_keys(spec.sort_by, spec.columns))
        order: Order = "sort" if resorts else _order(spec, source)
        return _write_in_place(bucket, spec, tables, [file], directory, marker, order)


def insert_task(bucket: Bucket, context: InsertContext, chosen: pa.Table) -> TaskResult:
    """Write the rows that a merge makes of source rows, as an append writes its own; `chosen` are of one part of the
    source."""
    rows = context.matching.insertions(chosen)
    given = InputRows(rows.schema, lambda: iter(rows.to_batches()), True, None, None, context.matching.types)
    # What holds nothing that tells its type, like an empty list, has the table's.
    incoming = {name: given.columns.get(name, context.matching.types[name]) for name in rows.column_names}
    columns = target_columns(context.definition, context.known, incoming)
    known = {**context.known, **columns}
    spec = replace(context.write, columns=columns).checking(context.definition, known)
    return TaskResult(write_batches(bucket, spec, given.batches()), columns)


def _filter(bucket: Bucket, write: WriteSpec, read: ReadSpec, file: DataFile, stays: str) -> TaskResult:
    read = _had(read, [file])
    with open_rows(bucket, file) as source:
        mask = FileMask(source, read, stays)
        if mask.kept == mask.rows:
            return TaskResult(changed=False)
        if not mask.kept:
            return TaskResult()
        directory, marker = directory_of(file, write.namer), _marker_of([file], write)
        spec = replace(write, columns=read.columns)
        return _write_in_place(bucket, spec, mask.tables(), [file], directory, marker, _order(spec, source))


def _write_in_place(
    bucket: Bucket,
    spec: WriteSpec,
    tables: Iterable[pa.Table],
    files: Sequence[DataFile],
    directory: str | None,
    marker: Mapping[str, Any],
    order: Order,
) -> TaskResult:
    """Write the rows of files where these are. The rows are dealt out anew if the files stand in several directories,
    or if a type by which some were placed has widened since, so that values belong elsewhere."""
    own, naming = spec.partition, spec.naming
    if directory is not None and scattered_by(own, files, spec.columns, naming) is None:
        return TaskResult(write_partition(bucket, spec, tables, directory, marker, order=order))
    told = {key: value for key, value in marker.items() if key not in ("spec", "part")}
    return TaskResult(write_batches(bucket, replace(spec, replaces=()), tables, marker=told), in_place=False)


def _order(spec: WriteSpec, source: RowSource) -> Order:
    """A part of a file that says it is sorted is sorted too."""
    if not spec.sort_by:
        return "keep"
    ours = sort_keys(spec.sort_by, spec.columns)
    wanted = (tuple(ours), "at_end")
    if any(source.sorting(group) != wanted for group in range(len(source.counts))):
        return "sort"
    return "sorted"


def _read(bucket: Bucket, files: Sequence[DataFile], spec: ReadSpec) -> Iterable[pa.Table]:
    tables = read_files(bucket, files, spec)
    # A directory of this machine has no latency to hide, and a little data none worth a thread.
    remote = bucket.local_path(files[0].path) is None
    return ahead(tables) if remote and sum(file.size for file in files) > WHOLE_BYTES else tables


def _query(query: str, source: str, tables: Iterable[pa.Table], columns: ColumnTypes) -> pa.Table:
    schema = arrow_schema(columns)
    batches = (batch for table in tables for batch in table.to_batches())
    return run_query(query, {source: pa.RecordBatchReader.from_batches(schema, batches)}, types=columns)


def _write_result(
    bucket: Bucket,
    write: WriteSpec,
    result: pa.Table,
    directory: str,
    marker: Mapping[str, Any],
    known: ColumnTypes,
) -> TaskResult:
    """Write what a query gave, as files of the partitions that its rows say."""
    columns = _result_columns(result.schema, known)
    try:
        rows = conform(result, columns)
    except InvalidInputError:
        # sum() of integers is wider than they are: the table's type grows only where a value asks for it.
        columns = _result_columns(result.schema, known, widen=True)
        rows = conform(result, columns)
    if lacking := [
        name for name in columns if name in write.aside and rows.column(name).null_count == len(rows)
    ]:
        columns = {name: kind for name, kind in columns.items() if name not in lacking}
        rows = rows.drop_columns(lacking)
    spec = replace(write, columns=columns)
    spec.checks.ask(rows, columns)
    order: Order = "sort" if spec.sort_by else "keep"
    if not spec.partition.fields:
        files = write_partition(bucket, spec, [rows], directory, marker, order=order)
        return TaskResult(files, columns)
    _require_sources(spec, columns)
    parts = spec.partition.split(rows)
    in_place = all(part.directory == directory for part in parts)
    if not in_place:
        # They would name paths with the partition's value, which the query may have been there to erase.
        spec = replace(spec, replaces=())
    files = []
    for part in parts:
        told = marker_for(spec.partition, part.values)
        files += write_partition(bucket, spec, [part.rows], part.directory, told, order=order)
    return TaskResult(files, columns, in_place)


def _require_sources(spec: WriteSpec, columns: ColumnTypes) -> None:
    """Refuse the result of a query that doesn't say which partitions its rows belong to. Left where they were, they
    would be null there and something else by their directory."""
    present = {fold(name) for name in columns}
    lacking = next((f for f in spec.partition.fields if fold(f.source) not in present), None)
    if lacking is not None:
        raise InvalidInputError(
            f"the query's result has no column {lacking.source!r}, so nobody could tell which partition "
            f"({lacking}) its rows belong to: select it too, or NULL AS {quoted(lacking.source)} for rows without a "
            "value of it. Nothing was changed."
        )


def _result_columns(schema: pa.Schema, known: ColumnTypes, *, widen: bool = False) -> dict[str, str]:
    """A query's columns under the table's names and types, or under types wide enough for both."""
    spelled = {fold(name): name for name in known}
    kinds = columns_of(schema)
    columns = {}
    for name in schema.names:
        there = spelled.get(fold(name), name)
        kind = kinds.get(name, known.get(there))
        if kind is None:
            continue  # NULL under a new name: a column without a type, nor anything in it
        table_type = known.get(there, kind)
        columns[there] = (join(table_type, kind) or table_type) if widen else table_type
    return columns


def _in_place_of(write: WriteSpec, files: Sequence[DataFile], *applied: str) -> WriteSpec:
    """The spec, by which the files written name the files that they replace, and the soft deletes and predicates that
    left rows of these out. Only the shape of a predicate is kept, as it outlives the rows."""
    texts = (*(text for file in files for text in file.deletes), *applied)
    shapes: dict[str, None] = {}
    for text in dict.fromkeys(texts):
        with suppress(InvalidInputError):  # reading the file says that its soft delete can't be evaluated
            shapes[outline(text)] = None
    replaces = dict.fromkeys(path for file in files for path in parts_of(file))
    return replace(write, replaces=tuple(replaces), applied=tuple(shapes))


def _had(read: ReadSpec, files: Sequence[DataFile]) -> ReadSpec:
    """The spec without the columns of what was set aside that no file has any of: they end with their last file."""
    lacking = {
        name
        for name in read.aside
        if not any(name in file.reads or name in ((file.extra or {}).get("types") or {}) for file in files)
    }
    columns = {name: kind for name, kind in read.columns.items() if name not in lacking}
    known = {**read.table_columns, **read.columns}
    return replace(read, columns=columns, table_columns=known) if lacking else read


def _marker_of(files: Sequence[DataFile], write: WriteSpec) -> dict[str, Any]:
    """The marks that replacements take over: how the partition's values are known, where all files agree on it. A
    directory says nothing any more of a column that was read otherwise than by its name when its rows were dealt
    out."""
    extras = [file.extra or {} for file in files]
    sources = {f.source for f in write.partition.of(files[0]).fields}
    keys = ("spec", "part") if all(sources.isdisjoint(file.odd) for file in files) else ("part",)
    return {
        key: extras[0][key]
        for key in keys
        if key in extras[0] and all(extra.get(key) == extras[0][key] for extra in extras)
    }
