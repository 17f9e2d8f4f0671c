"""Lake tables, as Spark's source and queries ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.lake.table import LakeTable
from firn.spark.lake.follow import LakeFollower
from firn.spark.lake.read import LakeRead
from firn.spark.plan import SparkKind
from firn.spark.reads import Moment, TableRead


class LakeOnSpark(SparkKind):
    def read(
        self,
        table: LakeTable,
        *,
        columns: Sequence[str] | None,
        where: str | None,
        at: Any,
        moment: Moment | None,
        fields: ColumnTypes | None,
    ) -> LakeRead:
        return LakeRead.of(table.scan(columns=columns, where=where, at=at))

    def changes(
        self, table: LakeTable, *, columns: Sequence[str] | None, where: str | None, since: Any, upto: Any
    ) -> TableRead:
        raise InvalidInputError(f"changes are told of keyed and record tables; {table.name} is a lake table.")

    def follow(self, table: LakeTable, plan: TableRead, *, narrowed: bool) -> LakeFollower:
        assert isinstance(plan, LakeRead)
        return LakeFollower(table, plan, narrowed=narrowed)

    def sink(self, table: LakeTable) -> LakeTable:
        return table


PART: SparkKind = LakeOnSpark()
