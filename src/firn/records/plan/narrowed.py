"""The part of a read of a record table that predicates and columns narrow, at a commit and inside of a transaction
alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from firn.journal.model import ColumnTypes
from firn.predicate.column_bounds import points_of, tests_of
from firn.predicate.predicate import Predicate
from firn.records.documents.documents import ID, Documents
from firn.records.names.names import name_prefix

if TYPE_CHECKING:
    from typing_extensions import Self

_KINDS = {ID: "VARCHAR"}


@dataclass(frozen=True)
class IdBounds:
    """Bounds that predicates set on an id: it is one of `points` (None: any), and begins with `prefix`."""

    points: tuple[str, ...] | None = None
    prefix: str = ""

    @property
    def name_prefix(self) -> str:
        """The prefix that the names of their rows' objects share.

        >>> IdBounds(prefix="user/ada_").name_prefix, IdBounds(prefix="_x").name_prefix
        ('user%2Fada', '')
        """
        return name_prefix(self.prefix)


def ids_of(predicates: Sequence[Predicate]) -> IdBounds:
    """The bounds that hold for the ids of all rows for which all predicates are true.

    >>> kinds = {"_id": "VARCHAR", "n": "BIGINT"}
    >>> ids_of([Predicate.parse("_id IN ('a', 'b') AND n > 1", kinds)])
    IdBounds(points=('a', 'b'), prefix='')
    >>> ids_of([Predicate.parse("_id >= 'user/a' AND _id < 'user/b'", kinds)])
    IdBounds(points=None, prefix='user/')
    """
    tests = [test for predicate in predicates for test in tests_of(predicate, _KINDS)]
    points = points_of(tests)
    lows = [test.low for test in tests if test.low is not None]
    highs = [test.high for test in tests if test.high is not None]
    prefixes = [test.prefix for test in tests if test.prefix is not None]
    if lows and highs:
        # All between two texts, with these, begins as both do.
        same = takewhile(lambda pair: pair[0] == pair[1], zip(max(lows), min(highs), strict=False))
        prefixes.append("".join(character for character, _ in same))
    return IdBounds(points, max(prefixes, key=len, default=""))


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
    def table_id(self) -> str:
        return ""

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
