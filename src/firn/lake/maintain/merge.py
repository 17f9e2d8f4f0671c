"""Merge: small files become large ones, and rows of logs become files.

A merge of few files holds the lock throughout; see `firn.lake.maintain.unlocked` for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from firn.errors import InvalidInputError
from firn.journal.model import DataFile, Session, Snapshot
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
from firn.lake.maintain.tasks import merge_task
from firn.lake.maintain.unlocked import merge_context, merge_tasks, merge_unlocked
from firn.lake.partition.placement import is_scattered
from firn.lake.read.placed import emptied, placed
from firn.lake.results import ChangeResult, Partition, joined
from firn.predicate.predicate import Query
from firn.units import parse_size

LOGS_WORTH_FOLDING = 10
"""A merge that has no data to merge still replaces the log from so many log objects on."""
UNLOCKED_BYTES = 32 << 20
"""A merge of more bytes of files takes the lock only to publish."""
UNLOCKED_ROUNDS = 3
"""So often a merge tries again without the lock what others have changed before it could publish."""


@dataclass(frozen=True)
class _Asked:
    """What a merge was asked for. `seen`: it has found its partitions, and others may have removed them since."""

    target_size: int | None
    partitions: Sequence[Partition | Mapping[str, Any]] | None
    query: str | None
    respec: bool
    only: str | None
    seen: bool = False

    @property
    def op(self) -> str:
        return "merge" if self.only is None else "fold"

    def files(self, table: LakeContext, snapshot: Snapshot) -> tuple[list[DataFile], int]:
        """The files that the merge may take, and how many are other writers'."""
        found = in_partitions(table, snapshot, self.partitions, may_be_gone=self.seen)
        files, foreign = by_owner(table, found)
        return files, 0 if self.only is not None else len(foreign)

    def inlined(self, table: LakeContext, snapshot: Snapshot) -> list[DataFile]:
        """The placed rows of logs that the merge writes into files."""
        return [file for file in self.files(table, snapshot)[0] if file.inlined is not None]

    def unlocked_groups(self, table: LakeContext, snapshot: Snapshot) -> list[MergeGroup]:
        """Which files are merged together without the lock: others write rows of logs into files meanwhile."""
        files = [file for file in self.files(table, snapshot)[0] if file.inlined is None]
        return self.groups(table, snapshot, files)

    def groups(self, table: LakeContext, snapshot: Snapshot, files: Sequence[DataFile]) -> list[MergeGroup]:
        """Which of these files are merged together."""
        if self.only is not None:
            return []
        if table.keys is not None:
            scattered = is_scattered(table.partition_spec, snapshot.files, snapshot.columns, snapshot.naming)
            scattered = scattered or (
                self.respec and any(file.spec != table.partition_spec.id for file in files)
            )
            return plan_folds(files, places=table.places, scattered=scattered)
        size = self.target_size or table.definition.target_size
        anew, whole = table.partition_spec.id if self.respec else None, self.query is not None
        return plan_merge(files, places=table.places, target_size=size, whole=whole, respec=anew)


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
    asked = _Asked(given, partitions, text, respec, only)
    if dry_run:
        return _planned(table, asked)
    done: list[ChangeResult] = []
    for _ in range(UNLOCKED_ROUNDS):
        # A query sees all of a partition. What only writes rows of logs into files is done soon.
        work = None if query is not None or only is not None else table.journal.begin_merge()
        with table.journal.exclusive(asked.op) as session:
            result = _merged(table, session, asked, small=work is not None)
        if result is not None or work is None:
            break
        asked = replace(asked, seen=True)
        result, overtaken = merge_unlocked(
            table, work, choose=asked.unlocked_groups, fold=asked.inlined, target_size=given
        )
        done.append(result)
        if not overtaken:
            return joined(done)
    else:  # so that it comes to an end
        with table.journal.exclusive(asked.op) as session:
            result = _merged(table, session, asked, small=False)
    assert result is not None
    return joined([*done, result])


def _planned(table: LakeContext, asked: _Asked) -> ChangeResult:
    snapshot = table.journal.snapshot()
    table = table.at(snapshot)
    snapshot = placed(table, snapshot)
    files, foreign = asked.files(table, snapshot)
    groups = asked.groups(table, snapshot, files)
    inlined = [file for file in files if file.inlined is not None]
    going = {f.path: f for f in (*(f for g in groups for f in g.files), *inlined)}
    return planned(asked.op, FileChange(removes=list(going.values()), foreign=foreign))


def _merged(table: LakeContext, session: Session, asked: _Asked, *, small: bool) -> ChangeResult | None:
    """Merge under the lock. None if it is to be a `small` merge, and the files are more than that."""
    table = table.at(session.snapshot)
    snapshot = placed(table, session.snapshot)
    files, foreign = asked.files(table, snapshot)
    if small and sum(g.bytes for g in asked.unlocked_groups(table, snapshot)) > UNLOCKED_BYTES:
        return None
    groups = asked.groups(table, snapshot, files)
    inlined = [file for file in files if file.inlined is not None]
    bare = emptied(table, session.snapshot, snapshot)
    if not (groups or inlined or bare) and (asked.only or session.log_length < LOGS_WORTH_FOLDING):
        return nothing(asked.op, foreign)
    context = merge_context(table, snapshot, session, asked.target_size)
    if asked.query is not None:
        checking = context.write.checking(table.definition, snapshot.columns)
        context = replace(context, write=checking, query=asked.query)
    tasks = merge_tasks(table, snapshot, groups)
    inputs = [g.files for g in groups]
    change = rewritten(table, session, asked.op, merge_task, tasks, inputs, context, foreign)
    if asked.query is not None:
        change = replace(change, fresh=change.adds)
    change = completed(table, session, snapshot, change, inlined)
    change = replace(change, removes=[*change.removes, *bare])
    result = publish(table, session, snapshot, asked.op, change)
    # Rows that soft deletes took, and older versions of rows with a key, were gone before.
    return result if asked.query is not None else replace(result, rows_deleted=0)
