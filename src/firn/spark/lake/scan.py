"""Files of a lake as a Spark DataFrame: read by Spark's own Parquet reader where it can, by Python tasks elsewhere.

Spark's reader prunes columns and row groups itself and is three to four times faster for aggregations. Tasks
read anywhere (no jars) and anything (types and names that Spark's reader fails on, or silently misreads);
one DataFrame may be a union of both. Either way it is bound to one snapshot, whatever happens later.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from firn.journal.model import DataFile
from firn.lake.plan.read import LakeRead, file_units, lean_group
from firn.lake.prune.nans import may_hold_nan
from firn.lake.prune.soft_deletes import predicates
from firn.predicate.predicate import Predicate
from firn.reads import Unit
from firn.spark.frames import frame_of_tasks
from firn.spark.native.agreement import runs_in_spark
from firn.spark.native.parquet import guard, native_paths, parquet_frame, quote, reads_natively
from firn.spark.session.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("firn")

MAX_GROUPS = 8
"""Spark plans each set of soft deletes by itself: files of rarer sets go through tasks."""


@dataclass(frozen=True)
class NativeGroup:
    """Files with the same soft deletes, by path. `guarded` are the columns that hide from Spark's filters, as
    some file may hold a NaN there."""

    paths: tuple[str, ...]
    deletes: tuple[Predicate, ...] = ()
    guarded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SparkPlan:
    """Which files Spark reads itself, and which go through tasks."""

    groups: tuple[NativeGroup, ...]
    tasks: tuple[DataFile, ...]

    @property
    def native(self) -> tuple[str, ...]:
        """The paths of the files that Spark reads itself."""
        return tuple(path for group in self.groups for path in group.paths)


def read_to_spark(read: LakeRead, spark: SparkSession) -> DataFrame:
    """The rows, which stay readable as long as the snapshot does: for the table's tombstone_grace after the last
    commit that replaced one of its files.

    Groups that hold nothing twice are read like any file, natively too; each of the others is one task's, which needs
    the memory that `firn.lake.read.latest` tells.

    Raises:
        UnsupportedError: a column whose type Spark lacks.

    Cost: Spark's reader asks for each file's footer and column chunks; a task makes 1 GET a small file, or a few
    ranged ones.
    """
    if read.keys is None:
        return files_to_spark(read, read.files, spark)
    groups = read.groups()
    plain = [file for group in groups if group.plain for file in group.files if file.path in group.shown]
    rest = [Unit(lean_group(group), group.bytes) for group in groups if not group.plain]
    if not rest:
        return files_to_spark(read, plain, spark)
    newest = frame_of_tasks(read, rest, spark)
    return files_to_spark(read, plain, spark).unionByName(newest) if plain else newest


def files_to_spark(read: LakeRead, files: Sequence[DataFile], spark: SparkSession) -> DataFrame:
    """These files of a lake table's read as one lazy DataFrame: a union of what Spark reads and what tasks do."""
    plan = plan_files(read, files, spark)
    parts = [_native(read, group, spark) for group in plan.groups]
    if plan.tasks:
        parts.append(frame_of_tasks(replace(read, keys=None), file_units(plan.tasks), spark))
    if not parts:
        return spark.createDataFrame([], spark_schema(read.columns))
    return reduce(lambda frame, part: frame.unionByName(part), parts)


def plan_files(read: LakeRead, files: Sequence[DataFile], spark: SparkSession) -> SparkPlan:
    """Decide for each file who reads it. Pure but for the settings it asks the session for."""
    paths = native_paths(read.bucket, [file.path for file in files], spark) if read.columns else None
    if paths is None:
        return SparkPlan((), tuple(files))
    if read.predicate is not None and not runs_in_spark(read.predicate, read.known, spark):
        _log.info(
            "Spark reads %s through Python tasks: only DuckDB knows what %r means",
            read.table,
            read.predicate.sql,
        )
        return SparkPlan((), tuple(files))
    known = read.known
    tasks: list[DataFile] = []
    sets: dict[tuple[str, ...], list[tuple[DataFile, str]]] = {}
    for file, path in zip(files, paths, strict=True):
        sets.setdefault(file.deletes, []).append((file, path))
    groups: list[NativeGroup] = []
    for texts, members in sorted(sets.items(), key=lambda one: -sum(file.size for file, _ in one[1])):
        deletes = predicates(texts, known, read.bucket.uri(members[0][0].path))
        if len(groups) == MAX_GROUPS or not all(runs_in_spark(p, known, spark) for p in deletes):
            tasks += [file for file, _ in members]
            continue
        needed = needed_columns(read, deletes)
        chosen = []
        guarded: set[str] = set()
        for file, path in members:
            if reads_natively(file, needed, read.places, read.spec):
                chosen.append(path)
                guarded |= may_hold_nan(file, needed)
            else:
                tasks.append(file)
        if chosen:
            groups.append(NativeGroup(tuple(chosen), deletes, frozenset(guarded)))
    if tasks:
        _log.info(
            "Spark reads %d of %d files of %s through Python tasks: its own reader would misread their types, names "
            "or soft deletes",
            len(tasks),
            len(files),
            read.table,
        )
    return SparkPlan(tuple(groups), tuple(tasks))


def needed_columns(read: LakeRead, deletes: Sequence[Predicate] = ()) -> dict[str, str]:
    """The read's columns and those that its predicate and soft deletes read, with the table's types."""
    needed = dict(read.columns)
    for predicate in (read.predicate, *deletes):
        if predicate is not None:
            needed.update({name: read.known[name] for name in sorted(predicate.columns)})
    return needed


def _native(read: LakeRead, group: NativeGroup, spark: SparkSession) -> DataFrame:
    needed = needed_columns(read, group.deletes)
    naming = read.spec.naming
    schema = spark_schema(naming.in_files(needed))
    frame = parquet_frame(spark, schema, group.paths)
    if group.guarded or naming.stored:
        columns = [
            guard(naming.physical(name), kind, name)
            if name in group.guarded
            else f"{quote(naming.physical(name))} AS {quote(name)}"
            for name, kind in needed.items()
        ]
        frame = frame.selectExpr(*columns)
    for delete in group.deletes:
        frame = frame.where(f"({delete.spark_sql}) IS NOT TRUE")
    if read.predicate is not None:
        frame = frame.where(read.predicate.spark_sql)
    return frame.select(*[quote(name) for name in read.columns])
