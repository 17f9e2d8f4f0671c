"""Merge: small files become large ones, and rows of logs become files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from firn.errors import InvalidInputError
from firn.journal.model import DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.maintain.change import (
    FileChange,
    by_owner,
    completed,
    in_partitions,
    nothing,
    planned,
    publish,
    refuse_keys,
    rewritten,
)
from firn.lake.maintain.plan import MergeGroup, plan_folds, plan_merge
from firn.lake.maintain.tasks import MergeContext, MergeTask, merge_task
from firn.lake.partition.partition import directory_of
from firn.lake.partition.placement import is_scattered
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.write import WriteSpec
from firn.predicate.predicate import Query
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
