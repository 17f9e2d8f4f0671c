"""Reads of a lake table by Spark: files, or, if the table has a key, groups of files that may share keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.journal.model import ColumnTypes, DataFile, Places
from firn.lake.definition.keys import KeySpec
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.lake.read.latest import LatestSpec, VersionGroup, plan_groups, read_latest
from firn.lake.read.read import ReadSpec, read_files
from firn.predicate.predicate import Predicate
from firn.spark.lake.scan import file_units, files_to_spark, without_stats
from firn.spark.reads import Unit, frame_of_rows, frame_of_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firn.lake.read.scan import Scan


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

    kept_by = "the table's tombstone_grace or, of writers' catalogs, by prune's older_than"

    @staticmethod
    def of(scan: Scan) -> LakeRead:
        """Pin a scan's snapshot and prune its files. Cost: the snapshot's requests."""
        table = scan.table
        return LakeRead(
            table.bucket,
            table.name,
            scan.snapshot.version,
            tuple(scan.files() if table.keys is None else scan.snapshot.files),
            scan.read_spec(),
            table.partition_spec,
            table.places,
            table.keys,
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
        )

    def scope(self) -> Hashable:
        if self.keys is None:
            return tuple(file.path for file in self.files)
        return tuple((tuple(f.path for f in group.files), group.shown) for group in self.groups())

    def units(self) -> list[Unit]:
        if self.keys is None:
            return file_units(self.files)
        return [Unit(_lean(group), group.bytes) for group in self.groups()]

    def for_tasks(self) -> LakeRead:
        return replace(self, files=())

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        if self.keys is None:
            yield from read_files(self.bucket, works, self.spec)
            return
        for group in works:
            yield from read_latest(self.bucket, group, LatestSpec(self.keys, self.spec))

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows, which stay readable as long as the snapshot does: for the table's tombstone_grace after the last
        commit that replaced one of its files.

        Groups that hold nothing twice are read like any file, natively too; each of the others is one task's, which
        needs the memory that `firn.lake.read.latest` tells.

        Raises:
            UnsupportedError: a column whose type Spark lacks.

        Cost: Spark's reader asks for each file's footer and column chunks; a task makes 1 GET a small file, or a
        few ranged ones.
        """
        if not self.bucket.capabilities.shareable:
            return frame_of_rows(self, spark)
        if self.keys is None:
            return files_to_spark(self, self.files, spark)
        groups = self.groups()
        plain = [file for group in groups if group.plain for file in group.files if file.path in group.shown]
        rest = [Unit(_lean(group), group.bytes) for group in groups if not group.plain]
        if not rest:
            return files_to_spark(self, plain, spark)
        newest = frame_of_tasks(self, rest, spark)
        return files_to_spark(self, plain, spark).unionByName(newest) if plain else newest


def _lean(group: VersionGroup) -> VersionGroup:
    return replace(group, files=tuple(without_stats(file) for file in group.files))
