"""Facts about one column of a file, and what they say about comparisons with it.

Each test is a pair of functions of statistics, partition and Bloom filters: *may* some row satisfy it, and do
*all* surely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from firn.lake.partition.bounds import NOTHING, PartitionBounds
from firn.lake.partition.transforms import bucket_of
from firn.predicate.bloom import NO_BLOOMS, Blooms, Points
from firn.predicate.domain import DAY, Bounds, Interval, decoder, family_of, written_as
from firn.predicate.stats import Entry

Stats = Mapping[str, Entry]


class Known(NamedTuple):
    """Facts about a file or a row group; columns that aren't there may hold anything."""

    stats: Stats
    rows: int | None
    part: PartitionBounds = NOTHING
    blooms: Blooms = NO_BLOOMS


Test = Callable[[Known], bool]


class Pair(NamedTuple):
    may: Test
    all: Test


def _yes(known: Known) -> bool:
    return True


def _no(known: Known) -> bool:
    return False


UNKNOWN = Pair(_yes, _no)
NEVER = Pair(_no, _no)
ALWAYS = Pair(_yes, _yes)

_NONE_NULL, _MAYBE_NULL, _ALL_NULL = range(3)

# -- combining


def both(pairs: Sequence[Pair]) -> Pair:
    mays = tuple(p.may for p in pairs if p.may is not _yes)
    alls = tuple(p.all for p in pairs if p.all is not _yes)
    return Pair(_conjunction(mays), _no if _no in alls else _conjunction(alls))


def either(pairs: Sequence[Pair]) -> Pair:
    mays = tuple(p.may for p in pairs if p.may is not _no)
    alls = tuple(p.all for p in pairs if p.all is not _no)
    return Pair(_yes if _yes in mays else _disjunction(mays), _disjunction(alls))


def _conjunction(tests: tuple[Test, ...]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def test(known: Known) -> bool:
        for each in tests:  # noqa: SIM110 (a generator would double the cost)
            if not each(known):
                return False
        return True

    return test if tests else _yes


def _disjunction(tests: tuple[Test, ...]) -> Test:
    if len(tests) == 1:
        return tests[0]

    def test(known: Known) -> bool:
        for each in tests:  # noqa: SIM110
            if each(known):
                return True
        return False

    return test if tests else _no


# -- one column

Read = Callable[[Known], tuple[Any, Any, int]]


def reader(name: str, kind: str) -> Read:
    """Reads a column's (low, high, nulls) from statistics and partition, None being unknown."""
    decode = decoder(kind)

    def read(known: Known) -> tuple[Any, Any, int]:
        stats, rows, part, _ = known
        entry = stats.get(name)
        if entry is None:
            low, high = None, None
            nulls = _MAYBE_NULL
        else:
            low, high = decode(entry)
            count = entry[2]
            if count is None:
                nulls = _MAYBE_NULL
            elif count == 0:
                nulls = _NONE_NULL
            else:
                nulls = _ALL_NULL if count == rows else _MAYBE_NULL
        if part is not NOTHING and name in part.bounds:
            return _narrowed(low, high, nulls, part.bounds[name], _family_then(entry, name, part), kind)
        return low, high, nulls

    return read


def _family_then(entry: Entry | None, name: str, part: PartitionBounds) -> str | None:
    """The column's family when the file was written; None if its statistics don't tell and it doesn't matter."""
    found = None if entry is None else written_as(entry)
    return "unknown" if found is None and name in part.prefixes else found


def _narrowed(
    low: Any, high: Any, nulls: int, bounds: Bounds | None, then: str | None, kind: str
) -> tuple[Any, Any, int]:
    """The bounds of statistics and partition together.

    If the statistics show that the file was written under a type of another family, its directory was, too,
    and says nothing in this one's domain.
    """
    if bounds is None:
        return None, None, _ALL_NULL
    if then is not None and then != family_of(kind):
        return low, high, nulls
    if low is None or (bounds[0] is not None and bounds[0] > low):
        low = bounds[0]
    if high is None or (bounds[1] is not None and bounds[1] < high):
        high = bounds[1]
    return low, high, _NONE_NULL


def null_test(read: Read, negate: bool) -> Pair:
    if negate:
        return Pair(lambda known: read(known)[2] != _ALL_NULL, lambda known: read(known)[2] == _NONE_NULL)
    return Pair(lambda known: read(known)[2] != _NONE_NULL, lambda known: read(known)[2] == _ALL_NULL)


def compared(read: Read, operator: str, point: Interval) -> Pair:
    """`<`, `<=`, `>` and `>=` with a value that lies in `point`."""
    bottom, top = point
    less, equal = operator[0] == "<", len(operator) == 2

    def may(known: Known) -> bool:
        low, high, nulls = read(known)
        if nulls == _ALL_NULL:
            return False
        end = low if less else high
        if end is None:
            return True
        if equal:
            return bool(end <= top if less else end >= bottom)
        return bool(end < top if less else end > bottom)

    def every(known: Known) -> bool:
        low, high, nulls = read(known)
        end = high if less else low
        if nulls != _NONE_NULL or end is None:
            return False
        if equal:
            return bool(end <= bottom if less else end >= top)
        return bool(end < bottom if less else end > top)

    return Pair(may, every)


def among(name: str, kind: str, points: Sequence[Interval]) -> Pair:
    """Equality of a column of type `kind` with one of several values."""
    points = sorted(points)
    read, in_buckets, hashed = reader(name, kind), bucket_test(name, kind, points), Points(kind, points)
    lows, highs = [p.low for p in points], [p.high for p in points]
    exact = {p.low for p in points if p.low == p.high}

    def may(known: Known) -> bool:
        low, high, nulls = read(known)
        if nulls == _ALL_NULL:
            return False
        at = 0 if low is None else bisect_left(highs, low)
        if at == len(highs) or (high is not None and lows[at] > high):
            return False
        if known.part.buckets and not in_buckets(known):
            return False
        return name not in known.blooms or hashed.may_be_in(known.blooms[name], at, high)

    def every(known: Known) -> bool:
        low, high, nulls = read(known)
        return bool(nulls == _NONE_NULL and low is not None and low == high and low in exact)

    return Pair(may, every)


def not_among(read: Read, points: Sequence[Interval]) -> Pair:
    points = sorted(points)
    lows, highs = [p.low for p in points], [p.high for p in points]
    exact = {p.low for p in points if p.low == p.high}

    def may(known: Known) -> bool:
        low, high, nulls = read(known)
        return nulls != _ALL_NULL and not (low is not None and low == high and low in exact)

    def every(known: Known) -> bool:
        low, high, nulls = read(known)
        if nulls != _NONE_NULL:
            return False
        at = 0 if low is None else bisect_left(highs, low)
        return at == len(highs) or (high is not None and lows[at] > high)

    return Pair(may, every)


def prefixed(read: Read, prefix: str, negate: bool, exact: bool) -> Pair:
    """Text that begins with `prefix`; where not `exact`, more is asked of it than that."""
    length = len(prefix)

    def some(low: str | None, high: str | None) -> bool:
        return (low is None or low[:length] <= prefix) and (high is None or high >= prefix)

    def each(low: str | None, high: str | None) -> bool:
        return exact and (
            not length
            or (low is not None and high is not None and low[:length] == prefix and high[:length] == prefix)
        )

    def may(known: Known) -> bool:
        low, high, nulls = read(known)
        return nulls != _ALL_NULL and (not each(low, high) if negate else some(low, high))

    def every(known: Known) -> bool:
        low, high, nulls = read(known)
        return nulls == _NONE_NULL and (not some(low, high) if negate else each(low, high))

    return Pair(may, every)


def bucket_test(name: str, kind: str, points: Sequence[Interval]) -> Test:
    """Whether one of the values hashes into the file's bucket.

    Only where the statistics show that the file was hashed as a type of the column's present family: 5 and
    5.00 have different hashes.
    """
    family = family_of(kind)
    values = [p.low for p in points if p.low == p.high]
    if len(values) < len(points) or family not in ("integer", "string", "date", "timestamp", "timestamptz"):
        return _yes
    if kind == "TIMESTAMP_NS" or (family == "integer" and kind in ("HUGEINT", "UHUGEINT")):
        return _yes
    if family == "date":
        values = [value // DAY for value in values]
    by_count: dict[int, frozenset[int]] = {}

    def test(known: Known) -> bool:
        entry = known.stats.get(name)
        if entry is None or written_as(entry) != family:
            return True
        for count, bucket in known.part.buckets.get(name, ()):
            if count not in by_count:
                by_count[count] = frozenset(bucket_of(value, count) for value in values)
            if bucket not in by_count[count]:
                return False
        return True

    return test
