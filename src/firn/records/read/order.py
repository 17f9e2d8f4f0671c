"""In which order rows come, and which page of them is wanted. Pure.

An order compares keys. The name of a row or of an index entry tells a span of a key: the key is at or behind `low`,
and not behind `high`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.records.documents.documents import ID, Documents, Record
from firn.records.documents.predicates import value_at
from firn.records.names.index_values import order_key, order_keys_of, text_after
from firn.records.names.names import HASHED

OrderBy = str | Sequence[str]
Key = tuple[Any, ...]

_PLACES: Final = {"asc": False, "desc": True}


class HasDocument(Protocol):
    """A row."""

    @property
    def id(self) -> str: ...

    @property
    def document(self) -> Mapping[str, Any]: ...


class KeySpan(NamedTuple):
    """A name of which a row's key is known only in part: it is from `low` to `high`."""

    low: Key
    high: Key
    name: str


class _Down:
    """A key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: object) -> bool:
        return bool(other.key < self.key) if isinstance(other, _Down) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return bool(other.key > self.key) if isinstance(other, _Down) else NotImplemented

    def __le__(self, other: object) -> bool:
        return bool(other.key <= self.key) if isinstance(other, _Down) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return bool(other.key >= self.key) if isinstance(other, _Down) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]


class _Last:
    """A key behind all others."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __le__(self, other: object) -> bool:
        return self is other

    def __ge__(self, other: object) -> bool:
        return True


_LAST: Final = _Last()


class Order:
    """An order of rows: by fields, then by id.

    Args:
        order_by: a field or dotted path, or a list of them, each with `asc` or `desc` behind it if need be; None for
            ids alone, which sort code point by code point. Nulls, and fields that a row doesn't have, come first,
            last with `desc`.

    Raises:
        InvalidInputError: anything else.

    >>> rows = [Record(id, {"n": n}, "") for id, n in (("a", 1), ("b", None), ("c", 2), ("d", 2))]
    >>> [row.id for row in Order("n desc").page(rows)]
    ['c', 'd', 'a', 'b']
    >>> [row.id for row in Order("n desc").page(rows, limit=2, after=rows[2])]
    ['d', 'a']
    """

    def __init__(self, order_by: OrderBy | None = None) -> None:
        given = [order_by] if isinstance(order_by, str) else order_by or []
        if not isinstance(given, Sequence) or not all(
            isinstance(item, str) and item.strip() for item in given
        ):
            raise InvalidInputError(
                f"order_by={shown(order_by)}: give a field like 'city', 'n desc', or a list."
            )
        fields = [_parsed(item) for item in given]
        places = [at for at, (field, _) in enumerate(fields) if field == ID]
        # No two rows share an id: what is behind it doesn't count.
        self._fields = fields[: places[0] + 1] if places else [*fields, (ID, False)]

    @property
    def by_id(self) -> bool:
        """Whether that is the order of ids."""
        return self._fields == [(ID, False)]

    @property
    def first(self) -> str:
        """The field that comes first."""
        return self._fields[0][0]

    def known_to(self, documents: Documents) -> Order:
        """The same, if a table's documents may have all of its fields; `InvalidInputError` if not."""
        for name, _ in self._fields:
            if name != ID:
                documents.must_know(name)
        return self

    def wanted(self, limit: int | None, after: HasDocument | str | None) -> Page:
        """The page behind a row, or in the order of ids behind an id."""
        check_limit(limit)
        check_after(after)
        if isinstance(after, str):
            after = Record(after, {}, "")
        return Page(self, None if after is None else self.key(after), limit)

    def page(
        self, rows: Iterable[Record], *, limit: int | None = None, after: Record | str | None = None
    ) -> list[Record]:
        """The first `limit` rows in this order, of those behind `after`: a row, which may have gone since, or in the
        order of ids an id."""
        page = self.wanted(limit, after)
        return sorted((row for row in rows if row in page), key=self.key)[:limit]

    def key(self, row: HasDocument) -> Key:
        """By which rows compare."""
        return tuple(self._keys(row))

    def of_row(self, name: str) -> KeySpan:
        """The span of a row's name, where ids come first."""
        low, high = _ids_of(name)
        if self._fields[0][1]:
            return KeySpan((_Down(high),), (_Down(low),), name)
        return KeySpan((low,), (high,), name)

    def of_entry(self, value: str, name: str) -> KeySpan:
        """The span of an index entry of the first field, by the segment of its value and the name of its row."""
        low, high = order_keys_of(value)
        down = self._fields[0][1]
        if low == high and len(self._fields) == 2:
            first = _Down(low) if down else low
            ids = self._of_ids(name)
            return KeySpan((first, ids[0]), (first, ids[1]), name)
        if down:
            return KeySpan((_Down(high),), (_Down(low), _LAST), name)
        return KeySpan((low,), (high, _LAST), name)

    def _of_ids(self, name: str) -> tuple[Any, Any]:
        low, high = _ids_of(name)
        return (_Down(high), _Down(low)) if self._fields[1][1] else (low, high)

    def _keys(self, row: HasDocument) -> Iterator[Any]:
        for name, down in self._fields:
            key: Any = row.id
            if name != ID:
                value = value_at(row.document, name)
                if isinstance(value, list | Mapping):
                    raise InvalidInputError(f"order_by {name!r}: row {row.id!r} has {shown(value)} there.")
                key = order_key(value)
            yield _Down(key) if down else key


@dataclass(frozen=True, slots=True)
class Page:
    """The rows in an order, behind a key, and how many of them are wanted; all by default."""

    order: Order = field(default_factory=Order)
    start: Key | None = None
    limit: int | None = None

    def __contains__(self, row: HasDocument) -> bool:
        return self.start is None or self.order.key(row) > self.start

    def may_have(self, span: KeySpan) -> bool:
        """Whether the row of a name may be on it."""
        return self.start is None or span.high > self.start


ALL: Final = Page()


def check_limit(limit: int | None) -> None:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInputError(f"limit={shown(limit)}: give a number of rows, or None for all.")


def check_after(after: Any) -> None:
    if after is not None and not isinstance(after, str | Record):
        raise InvalidInputError(f"after={shown(after)}: give the last row of the page before, or its id.")


def _ids_of(name: str) -> tuple[str, str]:
    """From which id to which a part of a name may stand for: most tell the id, the others how it begins."""
    known, hashed, _ = name.partition(HASHED)
    text = unquote(known, errors="replace")
    return text, text_after(text) if hashed else text


def _parsed(item: str) -> tuple[str, bool]:
    field, _, direction = item.strip().rpartition(" ")
    if field and direction.lower() in _PLACES:
        return field.strip(), _PLACES[direction.lower()]
    return item.strip(), False


WIDEST: Final = 1024
"""Rows that are read at once at most."""

R = TypeVar("R", bound=HasDocument)


def in_order(of: Iterable[KeySpan], read: Callable[[Sequence[str]], Iterable[R]], page: Page) -> Iterator[R]:
    """The rows of these names that are on the page, and those behind it for as long as they are asked for.

    A row's name is its id with `%XX` for much of it, so names don't sort as ids do: `é` is after `z`, and its name
    before `z`'s. Those that end in a hash tell how the id begins. An entry of an index tells a value that the row
    has, or had.

    `read` gives the rows that there are of some names. It is asked for as many as are wanted first, then for as many
    as it was so far, and for none that can't be on the page: for less than twice as many as are needed. Each row has
    its key in a span of its name; it may have others, and is read once.
    """
    waiting = sorted((span for span in of if page.may_have(span)), key=lambda span: span.low)
    width = WIDEST if page.limit is None else max(1, min(page.limit, WIDEST))
    here: list[tuple[Key, int, R]] = []
    known: set[str] = set()
    at = 0
    while at < len(waiting) or here:
        # All that wait are at or behind the low end of the next of them.
        while here and (at == len(waiting) or here[0][0] <= waiting[at].low):
            yield heappop(here)[2]
        if at < len(waiting):
            names: list[str] = []
            while at < len(waiting) and len(names) < width:
                if waiting[at].name not in known:
                    known.add(waiting[at].name)
                    names.append(waiting[at].name)
                at += 1
            for row in read(names) if names else ():
                if row in page:
                    heappush(here, (page.order.key(row), len(here), row))
            width = min(len(known), WIDEST)
