"""Which ranges of encoded keys a predicate leaves of a keyed table. Pure.

The first columns of a typed key decide: as long as they are compared with single values, each of these makes a
range of its own, and the first column that is compared otherwise bounds them. A term that isn't understood (an OR,
a function) bounds nothing; ranges never leave out a key whose row could match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.keyed.encoding.key_cells import TERMINATOR
from firn.keyed.encoding.keys import Keys, successor
from firn.keyed.maintain.key_shares import KeyRange
from firn.predicate.column_bounds import Test, points_of, tests_of
from firn.predicate.predicate import Predicate

MAX_RANGES = 1000
"""Ranges that single values may make; beyond, the columns that would make more bound nothing."""


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
