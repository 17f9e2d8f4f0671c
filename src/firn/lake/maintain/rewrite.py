"""Rewrite: files become the rows to keep, or what a query makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from firn.journal.model import DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.maintain.change import (
    FileChange,
    by_owner,
    in_partitions,
    nothing,
    planned,
    publish,
    refuse_keys,
    rewritten,
)
from firn.lake.maintain.tasks import RewriteContext, rewrite_task
from firn.lake.prune.prune import Pruner
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.results import ChangeResult, Partition
from firn.lake.write.write import WriteSpec
from firn.predicate.dialect import without_values
from firn.predicate.predicate import Predicate, Query, parse_rewrite


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
