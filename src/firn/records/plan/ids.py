"""Which ids of a record table predicates leave, and what the names of their rows begin with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from firn.predicate.column_bounds import points_of, tests_of
from firn.predicate.predicate import Predicate
from firn.records.documents.documents import ID
from firn.records.names.names import name_prefix

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
