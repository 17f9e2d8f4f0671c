"""Which ranges of encoded keys a predicate leaves of a keyed table. Pure.

The first columns of a typed key decide: as long as they are compared with single values, each of these makes a
range of its own, and the first column that is compared otherwise bounds them. A term that isn't understood (an OR,
a function) bounds nothing; ranges never leave out a key whose row could match.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from sqlglot import exp

from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.keyed.encoding.key_cells import TERMINATOR
from firn.keyed.encoding.keys import Keys, successor
from firn.predicate.constants import constant_of
from firn.predicate.domain import DAY, Interval, family_of, intervals
from firn.predicate.predicate import Predicate, conjuncts

MAX_RANGES = 1000
"""Ranges that single values may make; beyond, the columns that would make more bound nothing."""

_EPOCH = datetime(1970, 1, 1)
_BELOW = {exp.LT, exp.LTE}
_ABOVE = {exp.GT, exp.GTE}
_MIRRORED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class KeyRange:
    """Encoded keys from `start` on, up to but without `end`; None is no bound."""

    start: bytes | None = None
    end: bytes | None = None

    def overlaps(self, low: bytes, high: bytes) -> bool:
        """Whether keys from `low` up to and with `high` may lie in it."""
        return (self.end is None or low < self.end) and (self.start is None or high >= self.start)

    def within(self, start: bytes | None, end: bytes | None) -> KeyRange | None:
        """The keys that it shares with the range from `start` up to `end`; None if there are none.

        >>> KeyRange(b"b", b"d").within(b"c", None), KeyRange(b"b", b"d").within(b"d", None)
        (KeyRange(start=b'c', end=b'd'), None)
        """
        low = self.start if start is None else start if self.start is None else max(start, self.start)
        high = self.end if end is None else end if self.end is None else min(end, self.end)
        return None if low is not None and high is not None and low >= high else KeyRange(low, high)


EVERYTHING = (KeyRange(),)


def common(left: Iterable[KeyRange], right: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The ranges that two sets of ranges, each ascending and disjoint, have in common."""
    right = tuple(right)
    found = [one.within(other.start, other.end) for one in left for other in right]
    return _united(r for r in found if r is not None)


def key_ranges(predicates: Sequence[Predicate], columns: ColumnTypes, keys: Keys) -> tuple[KeyRange, ...]:
    """The ranges of keys that may satisfy all predicates, ascending and disjoint; none at all if none can.

    Args:
        columns: the key's columns and their types, in order.

    Example:
        >>> columns = {"state": "VARCHAR", "year": "BIGINT"}
        >>> keys = Keys(columns)
        >>> found = key_ranges([Predicate.parse("state = 'MI' AND year >= 2001", columns)], columns, keys)
        >>> [found[0].start == keys.encode(("MI", 2001)), found[0].end == keys.prefix("MI")[1]]
        [True, True]
    """
    tests = [test for predicate in predicates for test in tests_of(predicate, columns)]
    prefixes: list[tuple[Any, ...]] = [()]
    for name in columns:
        mine = [test for test in tests if test.column == name]
        points = points_of(mine)
        if points is not None and len(prefixes) * len(points) <= MAX_RANGES:
            prefixes = [(*prefix, point) for prefix in prefixes for point in points]
            continue
        ranges = [_bounded(prefix, mine, keys) for prefix in prefixes]
        break
    else:
        ranges = [_bounded(prefix, [], keys) for prefix in prefixes]
    return _united(r for r in ranges if r.start is None or r.end is None or r.start < r.end)


def _united(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The ranges ascending and disjoint: a key that lies in two of them must not be read twice."""
    found: list[KeyRange] = []
    for one in sorted(ranges, key=lambda r: r.start or b""):
        last = found[-1] if found else None
        if last is None or (last.end is not None and one.start is not None and one.start > last.end):
            found.append(one)
        else:
            end = None if last.end is None or one.end is None else max(last.end, one.end)
            found[-1] = KeyRange(last.start, end)
    return tuple(found)


class Test(NamedTuple):
    """One conjunct over one column: it is one of `points`, or from `low` to `high` (None: unbounded), or text that
    begins with `prefix`."""

    column: str
    points: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    prefix: str | None = None


def tests_of(predicate: Predicate, columns: ColumnTypes) -> Iterator[Test]:
    for tree in conjuncts(predicate.ast):
        found = _test(tree, columns)
        if found is not None:
            yield found


def _test(node: exp.Expression, columns: ColumnTypes) -> Test | None:
    if type(node) in _MIRRORED:
        kind = type(node)
        column, value = _column(node.this, columns), node.expression
        if column is None:
            column, value, kind = _column(node.expression, columns), node.this, _MIRRORED[kind]
        placed = None if column is None else _placed([value], columns[column])
        if column is None or placed is None:
            return None
        if kind in _BELOW:
            return Test(column, high=_value(placed[0].high, columns[column], math.floor))
        if kind in _ABOVE:
            return Test(column, low=_value(placed[0].low, columns[column], math.ceil))
        return _equal(column, placed, columns[column])
    column = _column(node.this, columns) if isinstance(node.this, exp.Expression) else None
    if column is None:
        return None
    if isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field")):
        placed = _placed(node.expressions, columns[column])
        return None if placed is None else _equal(column, placed, columns[column])
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        placed = _placed([node.args["low"], node.args["high"]], columns[column])
        if placed is None:
            return None
        low = _value(placed[0].low, columns[column], math.ceil)
        return Test(column, low=low, high=_value(placed[1].high, columns[column], math.floor))
    if isinstance(node, (exp.Like, exp.StartsWith)) and columns[column] == "VARCHAR":
        return _beginning(node, column)
    return None


def _column(node: exp.Expression, columns: ColumnTypes) -> str | None:
    node = node.unnest()
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in columns:
        return str(node.name)
    return None


def _placed(values: Sequence[exp.Expression], kind: str) -> list[Interval] | None:
    constants = [constant_of(value) for value in values]
    known = [constant for constant in constants if constant is not None]
    return intervals(known, kind) if known and len(known) == len(constants) else None


def _equal(column: str, placed: Sequence[Interval], kind: str) -> Test | None:
    """One of several values; a range around them where a cast may round one."""
    if all(one.low == one.high for one in placed):
        points = [_value(one.low, kind, None) for one in placed]
        if None not in points:
            return Test(column, points=tuple(dict.fromkeys(points)))
    low = _value(min(one.low for one in placed), kind, math.ceil)
    return Test(column, low=low, high=_value(max(one.high for one in placed), kind, math.floor))


def _beginning(node: exp.Expression, column: str) -> Test | None:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or node.args.get("negate"):
        return None
    if isinstance(node, exp.StartsWith):
        return Test(column, prefix=pattern.name)
    text = pattern.name
    if "\\" in text:
        return None
    ends = [at for at in (text.find("%"), text.find("_")) if at >= 0]
    return Test(column, prefix=text[: min(ends)]) if ends else Test(column, points=(text,))


def _value(value: Any, kind: str, rounded: Any) -> Any:
    """A value of the domain as a key has it; None where there is no such, which bounds nothing."""
    family = family_of(kind)
    if family == "integer" and isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float):
            return rounded(value) if rounded is not None and math.isfinite(value) else None
        return value
    if family in ("string", "binary", "boolean"):
        return value
    if family == "decimal" and isinstance(value, Decimal):
        return value
    if family in ("date", "timestamp", "timestamptz"):
        try:
            if family == "date":
                if value % DAY and rounded is None:
                    return None
                return date(1970, 1, 1) + timedelta(
                    days=value // DAY + (rounded is math.ceil and value % DAY > 0)
                )
            moment = _EPOCH + timedelta(microseconds=value)
        except OverflowError:
            return None
        return moment if family == "timestamp" else moment.replace(tzinfo=timezone.utc)
    return None


def points_of(tests: Sequence[Test]) -> tuple[Any, ...] | None:
    """The values that a column may have, if its tests name them."""
    found: tuple[Any, ...] | None = None
    for test in tests:
        if test.points is not None:
            found = test.points if found is None else tuple(p for p in found if p in test.points)
    return found


def _bounded(prefix: tuple[Any, ...], tests: Sequence[Test], keys: Keys) -> KeyRange:
    """The keys that begin with `prefix` and whose next column passes the tests."""
    whole = _exactly(prefix, keys)
    start, end = whole.start, whole.end
    for test in tests:
        if test.prefix is not None:
            encoded = _encoded((*prefix, test.prefix), keys)
            if encoded is not None:
                start = _later(start, encoded[: -len(TERMINATOR)])
                end = _earlier(end, successor(encoded[: -len(TERMINATOR)]))
        if test.low is not None and (encoded := _encoded((*prefix, test.low), keys)) is not None:
            start = _later(start, encoded)
        if test.high is not None and (encoded := _encoded((*prefix, test.high), keys)) is not None:
            end = _earlier(end, _behind(encoded, keys))
    return KeyRange(start, end)


def _exactly(prefix: tuple[Any, ...], keys: Keys) -> KeyRange:
    if not prefix:
        return KeyRange()
    encoded = _encoded(prefix, keys)
    if encoded is None:
        return KeyRange()
    return KeyRange(encoded, _behind(encoded, keys))


def _encoded(parts: tuple[Any, ...], keys: Keys) -> bytes | None:
    """None where no key of the table has such values: out of its type's range, for example."""
    try:
        return keys.bound(parts if keys.typed else parts[0])
    except InvalidInputError:
        return None


def _behind(encoded: bytes, keys: Keys) -> bytes | None:
    """The first byte string behind all keys with these first columns; if keys are bytes, behind this one."""
    return successor(encoded) if keys.typed else encoded + b"\0"


def _later(known: bytes | None, bound: bytes) -> bytes:
    return bound if known is None else max(known, bound)


def _earlier(known: bytes | None, bound: bytes | None) -> bytes | None:
    return known if bound is None else bound if known is None else min(known, bound)
