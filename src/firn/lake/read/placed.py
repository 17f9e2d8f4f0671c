"""Rows of logs as files of their partitions, in memory alone: as changes and reads by key need them.

The rows of one log may be of many partitions, and many logs hold rows of one. `placed` decodes them all and deals
them out, so that each partition has one more file, which knows the parts that its rows are of. See
docs/design/0018-inlined-rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from firn.arrow.engine import row_mask
from firn.arrow.types import arrow_schema
from firn.deferred import DeferredModule
from firn.journal.model import ColumnTypes, DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.definition.keys import CLOCK, KeySpec, newest
from firn.lake.partition.partition import is_told_by_path
from firn.lake.read.decode import ReadSpec
from firn.lake.read.read import as_one, read_alike, read_file
from firn.predicate.predicate import Predicate
from firn.predicate.stats import of_values

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

_PART = "~part"
"""The column that says which part a row is of, by number. No column of a table is called so."""


def placed(table: LakeContext, snapshot: Snapshot, where: str | None = None) -> Snapshot:
    """The snapshot with the rows of its logs as files of their partitions, each of them once, other writers' apart.
    Rows that soft deletes took are left out. Free of requests.

    Args:
        table: as it is in the snapshot.
        where: only those of logs that have a row for which this is true; the rows of other logs are left out.
    """
    parts = [file for file in snapshot.files if file.inlined is not None]
    if not parts:
        return snapshot
    files = [file for file in snapshot.files if file.inlined is None]
    owned = [table.journal.owns(part.path) for part in parts]
    for mine in (True, False):
        some = [part for part, own in zip(parts, owned, strict=True) if own is mine]
        files += _placed(table, snapshot, some, where) if some else []
    return replace(snapshot, files=tuple(files))


def with_rows_of(table: LakeContext, snapshot: Snapshot, where: str) -> Snapshot:
    """The snapshot without rows of logs of which no row satisfies the predicate. Free of requests."""
    hit = {
        path
        for file in placed(table, snapshot, where).files
        if file.inlined is not None
        for path in parts_of(file)
    }
    return replace(
        snapshot, files=tuple(file for file in snapshot.files if file.inlined is None or file.path in hit)
    )


def emptied(table: LakeContext, snapshot: Snapshot, present: Snapshot) -> list[DataFile]:
    """The own rows of logs that soft deletes took altogether: they have no place in the snapshot's `placed` one."""
    left = {path for file in present.files if file.inlined is not None for path in parts_of(file)}
    return [
        file._replace(extra={**(file.extra or {}), "rows": 0, "deletes": []})
        for file in snapshot.files
        if file.inlined is not None and file.path not in left and table.journal.owns(file.path)
    ]


def _placed(
    table: LakeContext, snapshot: Snapshot, parts: Sequence[DataFile], where: str | None
) -> list[DataFile]:
    rows = _rows_of(table, parts, ReadSpec.of(snapshot))
    beside = [name for name in snapshot.aside if any(name in part.reads for part in parts)]
    columns = {n: kind for n, kind in snapshot.columns.items() if n not in snapshot.aside or n in beside}
    if where is not None:
        text = Predicate.parse(where, snapshot.columns).sql
        mask = row_mask(rows, text, types=snapshot.columns)
        hit = np.unique(rows[_PART].filter(mask).to_numpy())
        rows = rows.filter(pc.is_in(rows[_PART], pa.array(hit)))
    types = {name: columns[name] for name in beside}
    rows = rows.select([*columns, _PART])
    return [
        _file(table, parts, directory, values, here, columns, types)
        for directory, values, here in table.partition_spec.split(rows)
    ]


def parts_of(file: DataFile) -> tuple[str, ...]:
    """The paths that a commit removes with a file: of a placed one those of its parts."""
    return (file.extra or {}).get("parts") or (file.path,)


def _rows_of(table: LakeContext, parts: Sequence[DataFile], spec: ReadSpec) -> pa.Table:
    """The rows of all parts, with the numbers of these."""
    numbers = {part.path: at for at, part in enumerate(parts)}
    empty = arrow_schema(spec.columns).empty_table()
    tables = []
    for group in read_alike(parts):
        # Soft deletes take nobody knows how many rows of which part.
        for some in [[part] for part in group] if group[0].deletes else [group]:
            rows = pa.concat_tables([empty, *read_file(table.bucket, as_one(some), spec)])
            counts = [rows.num_rows] if len(some) == 1 else [part.rows or 0 for part in some]
            at = np.repeat([numbers[part.path] for part in some], counts)
            tables.append(rows.append_column(_PART, pa.array(at, pa.int64())))
    rows = pa.concat_tables(tables)
    return rows if len(tables) == 1 else rows.sort_by(_PART)


def _file(
    table: LakeContext,
    parts: Sequence[DataFile],
    directory: str,
    values: dict[str, str | None],
    rows: pa.Table,
    columns: ColumnTypes,
    types: ColumnTypes,
) -> DataFile:
    """The rows of one partition as a file."""
    mine = [parts[at] for at in np.unique(rows[_PART].to_numpy())]
    extra: dict[str, Any] = {"parts": tuple(part.path for part in mine), "directory": directory}
    if table.partition_spec.fields:
        extra["spec"] = table.partition_spec.id
        if not is_told_by_path(values):
            extra["part"] = values
    if types:
        extra["types"] = dict(types)
    if table.keys is not None:
        keys = table.keys.bound(columns)
        rows = _newest(rows, parts, keys)
        extra["stats"] = {name: of_values(rows[name]) for name in keys.key}
        clocks = [part.clocks[0] for part in mine if part.clocks is not None]
        extra["clocks"] = [min(clocks), max(clocks)]
    rows = rows.drop_columns([_PART])
    path = "/".join([mine[0].path, *([directory] if directory else []), "rows"])
    extra |= {"rows": rows.num_rows, "inlined": rows}
    return DataFile(path, rows.nbytes, mine[0].created_ms, extra)


def _newest(rows: pa.Table, parts: Sequence[DataFile], keys: KeySpec) -> pa.Table:
    """The newest version of each key, with its clock."""
    clocks = [part.clocks[1] if part.clocks is not None else "" for part in parts]
    order = np.argsort(np.argsort(np.array(clocks), kind="stable"), kind="stable")
    numbers = rows[_PART].to_numpy()
    flags = newest(rows, keys, order[numbers])
    clock = pa.array(clocks).take(pa.array(numbers))
    return rows.append_column(CLOCK, clock).filter(pa.array(flags))
