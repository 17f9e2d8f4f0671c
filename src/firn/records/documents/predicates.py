"""The predicates of rows: equality, a prefix, a range, an element; whether a value matches, and what to list.

Everything here is pure. An index is listed by `spans_of`, its names are sifted by `may_match`, and rows by
`matches`, which alone decides: a name may be of an older version, or end in a hash.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.records.names.index_values import (
    EMPTY,
    IndexValue,
    encode_value,
    level_of,
    level_text,
    normal,
    text_after,
    text_head,
    text_prefix,
    value_path,
    zoned,
)
from firn.records.names.names import HASHED, name_prefix


def conditions_of(where: Mapping[str, Any] | None, equalities: Mapping[str, Any]) -> dict[str, Any]:
    """The predicates on fields, given by position and by keyword.

    Raises:
        InvalidInputError: it isn't a mapping of fields.
    """
    if where is not None and not isinstance(where, Mapping):
        raise InvalidInputError(
            f"{shown(where)} isn't a condition: give fields and values, like city='Oslo' or {{'city': 'Oslo'}}"
        )
    return {**(where or {}), **equalities}


_BEFORE_TEXT = "!~"  # behind all values that aren't text, before all that are


@dataclass(frozen=True)
class Equal:
    """The values that equal `value`; None is what is null or missing.

    Text is compared in normal form (NFC), numbers by their value, times by the moment; nothing equals a value of
    another kind, so True isn't 1.

    >>> Equal(1).matches(1.0), Equal(1).matches(True), Equal(None).matches(None)
    (True, False, True)
    """

    value: IndexValue

    def __post_init__(self) -> None:
        encode_value(self.value)

    @cached_property
    def key(self) -> tuple[int, Any]:
        return sort_key(self.value)

    def matches(self, value: IndexValue) -> bool:
        return sort_key(value) == self.key


@dataclass(frozen=True)
class Prefix:
    """The texts that begin with `text`, both in normal form (NFC). Case counts.

    >>> Prefix("Det").matches("Detroit"), Prefix("det").matches("Detroit"), Prefix("").matches(None)
    (True, False, False)
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidInputError(f"Prefix takes text, not {shown(self.text)}.")
        normal(self.text)

    @cached_property
    def key(self) -> str:
        return normal(self.text)

    def matches(self, value: IndexValue) -> bool:
        return isinstance(value, str) and normal(value).startswith(self.key)


@dataclass(frozen=True)
class Range:
    """The values from `start` up to, not including, `end`, as Python's ranges and the scans of keyed tables have it.

    Args:
        start: the first value; None for no bound.
        end: the value behind the last; None for no bound.
        closed: whether `end` itself is in the range.

    Only values of the bounds' kind are in a range: numbers, decimals, dates, times, bytes, or text, which sorts
    by code points of its normal form (NFC). Null is in none.

    >>> Range(1, 3).matches(3), Range(1, 3, closed=True).matches(3), Range(end=3).matches(None)
    (False, True, False)
    >>> Range("DTW", "DTX").matches("DTWA"), Range(1).matches("2")
    (True, False)
    """

    start: IndexValue = None
    end: IndexValue = None
    closed: bool = False

    def __post_init__(self) -> None:
        encode_value(self.start)
        encode_value(self.end)
        ranks = {sort_key(bound)[0] for bound in (self.start, self.end) if bound is not None}
        if not ranks:
            raise InvalidInputError("Range needs a start or an end. To find all rows, use scan.")
        if len(ranks) > 1:
            raise InvalidInputError(
                f"Range from {shown(self.start)} to {shown(self.end)}: both bounds must be of one kind."
            )

    @cached_property
    def low(self) -> tuple[int, Any]:
        return sort_key(self.end)[:1] if self.start is None else sort_key(self.start)  # type: ignore[return-value]

    @cached_property
    def high(self) -> tuple[int, Any]:
        return (self.low[0] + 1,) if self.end is None else sort_key(self.end)  # type: ignore[return-value]

    @property
    def empty(self) -> bool:
        """Whether no value can be in it."""
        return not self.low < self.high and not (self.closed and self.low == self.high)

    def matches(self, value: IndexValue) -> bool:
        key = sort_key(value)
        return self.low <= key < self.high or (self.closed and self.low <= key and key == self.high)


Scalar: TypeAlias = Equal | Prefix | Range
"""A predicate on one value."""


@dataclass(frozen=True)
class Contains:
    """The lists that have such an element: a value, or one that a `Prefix` or a `Range` matches.

    Only lists contain anything; lists and objects within them are passed over. An index with `each=True` finds them.

    >>> Contains("sea").matches(["sea", "sun"]), Contains("sea").matches("sea"), Contains(None).matches([])
    (True, False, False)
    >>> Contains(Prefix("s")).matches(["sun"]), Contains(Range(1, 3)).matches([0, 3])
    (True, False)
    """

    element: Any

    def __post_init__(self) -> None:
        _ = self.predicate

    @cached_property
    def predicate(self) -> Scalar:
        """The predicate on an element."""
        found = predicate_of(self.element)
        if isinstance(found, Contains):
            raise InvalidInputError(f"Contains({shown(self.element)}): lists in lists can't be looked into.")
        return found

    def matches(self, value: Any) -> bool:
        return isinstance(value, list) and any(
            self.predicate.matches(element) for element in value if not isinstance(element, Mapping | list)
        )


Predicate: TypeAlias = Scalar | Contains


def predicate_of(given: Any) -> Predicate:
    """What `find(field=given)` asks for: a predicate as it is, any other value as equality.

    Raises:
        InvalidInputError: not a value that an index can hold.
    """
    return given if isinstance(given, Equal | Prefix | Range | Contains) else Equal(given)


def of_values(predicate: Predicate) -> Scalar:
    """The predicate on the values in an index: on elements, where lists are asked for."""
    return predicate.predicate if isinstance(predicate, Contains) else predicate


def sort_key(value: IndexValue) -> tuple[int, Any]:
    """By which values of all kinds are ordered: null, bools, dates, decimals, numbers, times, bytes, text.

    Equal values have equal keys. It is the order of the names in an index, but for text, which is ordered by its
    code points.

    >>> sorted(["b", 2, None, "a", 1.5, True], key=sort_key)
    [None, True, 1.5, 2, 'a', 'b']
    """
    if isinstance(value, str):
        return 7, normal(value)
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 4, value
    if isinstance(value, dt.datetime):
        return 5, zoned(value)
    if isinstance(value, dt.date):
        return 2, value
    if isinstance(value, Decimal):
        return 3, value
    return 6, value


_MISSING = object()


def value_at(document: Mapping[str, Any], field: str) -> Any:
    """The value of a document under a field or a dotted path; None where there is nothing.

    A key that is spelled like the whole path comes first.

    >>> value_at({"address": {"city": "Ann Arbor"}}, "address.city")
    'Ann Arbor'
    """
    found = document.get(field, _MISSING)
    if found is not _MISSING or "." not in field:
        return None if found is _MISSING else found
    part: Any = document
    for name in field.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


@dataclass(frozen=True)
class Ids:
    """The ids from `start` up to, not including, `end`, or with it where `closed`; compared code point by code point.

    >>> Ids("a", "b").matches("abc"), Ids.of(Prefix("user/")).matches("user/ada"), Ids.of("ada").matches("adam")
    (True, True, False)
    """

    start: str = ""
    end: str | None = None
    closed: bool = False

    @staticmethod
    def of(given: Any) -> Ids:
        """What `_id=given` asks for: an id, a prefix, or a range."""
        if isinstance(given, Prefix):
            return Ids(given.text, text_after(given.text) if given.text else None)
        if isinstance(given, Range):
            if any(not isinstance(bound, str | None) for bound in (given.start, given.end)):
                raise InvalidInputError(f"_id={shown(given)}: ids are text, so give bounds that are.")
            return Ids(given.start or "", given.end, given.closed)  # type: ignore[arg-type]
        if not isinstance(given, str):
            raise InvalidInputError(
                f"_id={shown(given)}: give an id, which is text, firn.Prefix or firn.Range."
            )
        return Ids(given, given, closed=True)

    @property
    def name_prefix(self) -> str:
        """The prefix of their rows' names."""
        if self.end is None:
            return ""
        if self.end == text_after(self.start):
            return name_prefix(self.start)
        return name_prefix(_common(self.start, self.end))

    def matches(self, id: str) -> bool:
        if id < self.start:
            return False
        return self.end is None or id < self.end or (self.closed and id == self.end)

    def may_match(self, name: str) -> bool:
        """Whether a part of a name may stand for one of them."""
        known, hashed, _ = name.partition(HASHED)
        text = unquote(known, errors="replace")
        if not hashed:
            return self.matches(text)
        return self.start < text_after(text) and (self.end is None or text <= self.end)


Where = Mapping[str, "Predicate | Ids"]
"""Predicates by field; `_id` for ids."""


def matches(document: Mapping[str, Any], where: Where, id: str = "") -> bool:
    """Whether a row matches every predicate, by field. Lists match none but `Contains`, objects none."""
    for field, predicate in where.items():
        if isinstance(predicate, Ids):
            if not predicate.matches(id):
                return False
            continue
        value = value_at(document, field)
        is_list = isinstance(value, list)
        if isinstance(value, Mapping) or is_list != isinstance(predicate, Contains):
            return False
        if not predicate.matches(value):
            return False
    return True


@dataclass(frozen=True)
class IndexSpan:
    """One LIST of an index, below its directory: the names that begin with `prefix`.

    `after` is where it may start ("" for the beginning), and the names whose value is greater than `last` are
    behind what is looked for ("" for none).
    """

    prefix: str
    after: str = ""
    last: str = ""


def spans_of(predicate: Scalar) -> tuple[IndexSpan, ...] | None:
    """The spans to list to find all names that may match.

    None for a range of texts whose bounds have no common beginning: `list_dirs` of the index gives its first
    levels, `level_may_match` says which may hold any, and each of them is a `IndexSpan(level + "/")`.

    >>> spans_of(Equal("Ann Arbor")), spans_of(Prefix("Ann"))
    ((IndexSpan(prefix='An/Ann%20Arbor/', after='', last=''),), (IndexSpan(prefix='An/Ann', after='', last=''),))
    >>> spans_of(Range("2026-01", "2026-07"))
    (IndexSpan(prefix='20/2026-0', after='', last=''),)
    """
    if isinstance(predicate, Equal):
        return (IndexSpan(value_path(predicate.value) + "/"),)
    if isinstance(predicate, Prefix):
        return _beginning_with(predicate.key)
    if predicate.empty:
        return ()
    bound = predicate.end if predicate.start is None else predicate.start
    if isinstance(bound, str):
        if predicate.start is None or predicate.end is None:
            return None
        common = _common(predicate.low[1], predicate.high[1])
        return _beginning_with(common) if common else None
    directory = encode_value(bound)[:2] + "/"
    after = "" if predicate.start is None else directory + _lowest(predicate.start)
    return (IndexSpan(directory, after, "" if predicate.end is None else _highest(predicate.end)),)


def level_may_match(level: str, predicate: Range) -> bool:
    """Whether a first level of an index may hold texts in the range."""
    text = level_text(level)
    if text is None:
        return level == EMPTY and predicate.matches("")
    return _may_hold(predicate, text, text.rstrip("_"))


def may_match(segment: str, predicate: Scalar) -> bool:
    """Whether a value's directory is of a value that may match: False only if none does."""
    if isinstance(predicate, Equal):
        return segment == encode_value(predicate.value)
    known = text_head(segment)
    if known is None:
        return isinstance(predicate, Range) and _in_range(segment, predicate)
    text, whole = known
    if whole:
        return predicate.matches(text)
    if isinstance(predicate, Prefix):
        return text.startswith(predicate.key) or predicate.key.startswith(text)
    return _may_hold(predicate, text, text)


def _beginning_with(text: str) -> tuple[IndexSpan, ...]:
    if not text:
        return IndexSpan(f"{EMPTY}/{EMPTY}/"), IndexSpan("", after=_BEFORE_TEXT)
    if len(text) == 1:
        return (IndexSpan(text_prefix(text)),)
    return (IndexSpan(f"{level_of(text[:2])}/{text_prefix(text)}"),)


def _common(one: str, other: str) -> str:
    """The beginning that both share."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return one[:length]


def _may_hold(predicate: Range, text: str, first: str) -> bool:
    """Whether the range may hold a text that begins with `text`, or one from `first` up to that."""
    rank = sort_key("")[0]
    low = predicate.low
    if low > (rank, text) and not (low[0] == rank and low[1].startswith(text)):
        return False
    return predicate.high >= (rank, first)


def _in_range(segment: str, predicate: Range) -> bool:
    bound = predicate.end if predicate.start is None else predicate.start
    kind = encode_value(bound)[:2]
    if isinstance(bound, str) or not segment.startswith(kind):
        return False
    if predicate.start is not None and segment < _lowest(predicate.start):
        return False
    if predicate.end is None:
        return True
    end = encode_value(predicate.end)
    return segment <= _highest(predicate.end) and (segment != end or predicate.closed or HASHED in end)


def _lowest(bound: IndexValue) -> str:
    """A name at or before those of all values from `bound` on."""
    return encode_value(bound).partition(HASHED)[0]


def _highest(bound: IndexValue) -> str:
    """A name at or behind those of all values up to `bound`."""
    kept, hashed, _ = encode_value(bound).partition(HASHED)
    return kept + HASHED + HASHED if hashed else kept
