"""Overwrite: new rows take the place of all rows, of those of their partitions, or of those that a predicate says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import evolve
from firn.journal.model import ColumnTypes, DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.maintain.change import FileChange, by_owner, planned, publish, refuse_keys
from firn.lake.maintain.delete import delete_rows, files_of
from firn.lake.partition.partition import directory_of
from firn.lake.partition.placement import refuse_moves, scattered_by
from firn.lake.prune.prune import Pruner
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.read.read import read_file
from firn.lake.results import ChangeResult
from firn.lake.write.append import directories_of, write
from firn.lake.write.new_rows import beside
from firn.predicate.predicate import outline


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
                change = delete_rows(table, session, snapshot, where)
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
        return planned("overwrite", files_of(table, snapshot, where) if snapshot.columns else FileChange())
    return planned(
        "overwrite", _replaceable(table, snapshot, directories_of(table, data) if touched else None)
    )


def _refuse_scattered(table: LakeContext, snapshot: Snapshot, written: ColumnTypes) -> None:
    """Raise where own rows of one partition stand in two directories, or would: only one would be touched."""
    spec, widened = table.partition_spec, {**snapshot.columns, **written}
    mine, _ = by_owner(table, snapshot.files)
    if spec.older and len({file.spec for file in mine} | {spec.id}) > 1:
        raise UnsupportedError(
            f"{table.name}: some files are of an older partitioning, and rows of one partition may stand in several "
            "of them. Nothing was changed. Run merge(respec=True) first."
        )
    field = scattered_by(spec, mine, snapshot.columns, snapshot.naming)
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
