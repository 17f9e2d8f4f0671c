"""The part of a read of a record table that predicates and columns narrow, at a commit and inside of a transaction
alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from firn.journal.model import ColumnTypes
from firn.predicate.predicate import Predicate
from firn.records.documents.documents import ID, Documents

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class NarrowedRead:
    """The columns `names` of the rows for which `sql` is true. `about_ids` are predicates over `_id` alone, by which
    names of rows have been left out. `indexed` are fields of documents without declared columns."""

    documents: Documents
    names: tuple[str, ...]
    sql: str | None = None
    about_ids: tuple[Predicate, ...] = field(default=())
    indexed: tuple[str, ...] = ()

    kind = "records"
    kept_by = "sweep's older_than"
    warnings = ()

    @property
    def table(self) -> str:
        return self.documents.table

    @property
    def known(self) -> ColumnTypes:
        raise NotImplementedError

    @property
    def columns(self) -> ColumnTypes:
        known = self.known
        return {name: known[name] for name in self.names}

    def select(self, names: Sequence[str]) -> Self:
        return replace(self, names=tuple(names))

    def where(self, sql: str) -> Self:
        parsed = Predicate.parse(sql, self.known)
        both = parsed.sql if self.sql is None else f"({self.sql}) AND ({parsed.sql})"
        return replace(self.pruned([parsed]), sql=both)

    def pruned(self, predicates: Sequence[Predicate]) -> Self:
        parts = [part for one in predicates for part in one.conjuncts() if part.columns == {ID}]
        return replace(self, about_ids=(*self.about_ids, *parts))

    def scope(self) -> Hashable:
        return tuple(sorted(one.sql for one in self.about_ids))
