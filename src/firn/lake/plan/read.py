"""Reads of a lake table: files, or, if the table has a key, groups of files that may share keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from firn.bucket.base import Bucket
from firn.journal.model import ColumnTypes, DataFile, Places
from firn.lake.definition.keys import KeySpec
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.lake.read.latest import LatestSpec, VersionGroup, plan_groups, read_latest
from firn.lake.read.read import ReadSpec, read_files
from firn.predicate.predicate import Predicate
from firn.reads import QueryMoment, ReadPlanner, Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.lake.read.scan import Scan
    from firn.lake.table import LakeTable


@dataclass(frozen=True)
class LakeRead:
    """A snapshot's files, those that are still to be read.

    If the table has a key, `files` are all of them, and pruning waits for the whole predicate: `hints` are the
    predicates to prune by besides `spec.where`.
    """

    bucket: Bucket
    table: str
    version: str
    files: tuple[DataFile, ...]
    spec: ReadSpec
    partition: PartitionSpec
    places: Places
    keys: KeySpec | None = None
    hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    table_id: str = ""

    kind = "lake"
    kept_by = "the table's tombstone_grace or, of writers' catalogs, by prune's older_than"

    @staticmethod
    def of(scan: Scan) -> LakeRead:
        """Pin a scan's snapshot and prune its files. Cost: the snapshot's requests."""
        snapshot = scan.snapshot
        table = scan.table
        return LakeRead(
            table.bucket,
            table.name,
            snapshot.version,
            tuple(scan.files() if table.keys is None else scan.placed_files),
            scan.read_spec(),
            table.partition_spec,
            table.places,
            table.keys,
            warnings=scan.snapshot.warnings,
            table_id=table.created.id,
        )

    @property
    def columns(self) -> ColumnTypes:
        return self.spec.columns

    @property
    def known(self) -> ColumnTypes:
        return self.spec.table_columns

    @cached_property
    def predicate(self) -> Predicate | None:
        """Which of the files' rows are wanted."""
        return None if self.spec.where is None else Predicate.parse(self.spec.where, self.known)

    def select(self, names: Sequence[str]) -> LakeRead:
        return replace(self, spec=replace(self.spec, columns={name: self.known[name] for name in names}))

    def where(self, sql: str) -> LakeRead:
        both = sql if self.spec.where is None else f"({self.spec.where}) AND ({sql})"
        pruned = self.pruned([Predicate.parse(sql, self.known)])
        return replace(pruned, spec=replace(self.spec, where=both))

    def pruned(self, predicates: Sequence[Predicate]) -> LakeRead:
        if self.keys is not None:
            return replace(self, hints=(*self.hints, *(predicate.sql for predicate in predicates)))
        pruners = [Pruner(predicate, self.known, self.partition) for predicate in predicates]
        return replace(
            self, files=tuple(f for f in self.files if all(pruner.may_match(f) for pruner in pruners))
        )

    def groups(self) -> list[VersionGroup]:
        """Groups of files that may share keys, pruned by all predicates so far. For tables with a key."""
        assert self.keys is not None
        asked = [sql for sql in (self.spec.where, *self.hints) if sql is not None]
        both = " AND ".join(f"({sql})" for sql in asked)
        return plan_groups(
            self.files,
            places=self.places,
            keys=self.keys,
            predicate=Predicate.parse(both, self.known) if asked else None,
            columns=self.known,
            spec=self.partition,
            naming=self.spec.naming,
        )

    def scope(self) -> Hashable:
        if self.keys is None:
            return tuple(file.path for file in self.files)
        return tuple((tuple(f.path for f in group.files), group.shown) for group in self.groups())

    def units(self) -> list[Unit]:
        if self.keys is None:
            return file_units(self.files)
        return [Unit(lean_group(group), group.bytes) for group in self.groups()]

    def for_tasks(self) -> LakeRead:
        return replace(self, files=(), warnings=())

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        if self.keys is None:
            yield from read_files(self.bucket, works, self.spec)
            return
        for group in works:
            yield from read_latest(self.bucket, group, LatestSpec(self.keys, self.spec))


def lean_group(group: VersionGroup) -> VersionGroup:
    """A group for tasks."""
    return replace(group, files=tuple(without_stats(file) for file in group.files))


def file_units(files: Sequence[DataFile]) -> list[Unit]:
    """Files for tasks, which need no statistics: planning has used them, and they are most of an entry's size."""
    return [Unit(without_stats(file), file.size) for file in files]


def without_stats(file: DataFile) -> DataFile:
    if file.extra is None or "stats" not in file.extra:
        return file
    return file._replace(extra={key: value for key, value in file.extra.items() if key != "stats"})


def plan(
    table: LakeTable,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    at: Any,
    moment: QueryMoment | None,
    fields: ColumnTypes | None,
    indexed: bool,
) -> LakeRead:
    """See `firn.reads.plan_read`."""
    return LakeRead.of(table.scan(columns=columns, where=where, at=at))


PART: ReadPlanner = plan
