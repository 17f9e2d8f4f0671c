"""What a find or a scan gives: rows in an order, a page of them, and as Arrow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from firn.arrow.inputs import to_reader
from firn.arrow.pyvalues import shown
from firn.arrow.types import arrow_schema, conform
from firn.errors import InvalidInputError
from firn.records.documents import ID, Documents, Record
from firn.records.in_order import ALL, Page
from firn.records.predicates import sort_key, value_at

OrderBy = str | Sequence[str]

_PLACES: Final = {"asc": False, "desc": True}


class Rows(list[Record]):
    """The rows that were found: a list of `Record`."""

    def __init__(self, rows: Iterable[Record] = (), columns: Mapping[str, str] | None = None) -> None:
        super().__init__(rows)
        self._columns = columns

    @staticmethod
    def of(rows: Iterable[Record], documents: Documents) -> Rows:
        return Rows(rows, documents.columns)

    def to_arrow(self) -> pa.Table:
        """An Arrow table: `_id`, then the declared columns; without these, the fields that the rows have, with the
        types that all their values fit in.

        Raises:
            InvalidInputError: a field has values of several types; the message names two rows by their place.
        """
        known = {ID: "VARCHAR", **(self._columns or {})}
        if not self:
            return arrow_schema(known).empty_table()
        read = to_reader([{**dict.fromkeys(known), **row} for row in self], known=known)
        found = pa.Table.from_batches(read.batches(), schema=read.schema)
        typed = conform(found.select(list(known)), known)
        for name in found.column_names:
            if name not in known:
                typed = typed.append_column(found.schema.field(name), found.column(name))
        return typed


class _Down:
    """A key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Down) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]


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
        self._fields = [_parsed(item) for item in given]

    @property
    def by_id(self) -> bool:
        """Whether that is the order of ids, which no two rows share."""
        return not self._fields or self._fields[0] == (ID, False)

    def known_to(self, documents: Documents) -> Order:
        """The same, if a table's documents may have all of its fields; `InvalidInputError` if not."""
        for field, _ in self._fields:
            if field != ID:
                documents.must_know(field)
        return self

    def wanted(self, limit: int | None, after: Record | str | None) -> Page:
        """The page in the order of ids that is enough to be read: in any other order all rows."""
        check_limit(limit)
        _check_after(after)
        return Page(after.id if isinstance(after, Record) else after, limit) if self.by_id else ALL

    def page(
        self, rows: Iterable[Record], *, limit: int | None = None, after: Record | str | None = None
    ) -> list[Record]:
        """The first `limit` rows in this order, of those behind `after`: a row, which may have gone since, or in the
        order of ids an id."""
        check_limit(limit)
        keyed = [(self._key(row), row) for row in rows]
        _check_after(after)
        if after is not None:
            start = self._key(Record(after, {}, "") if isinstance(after, str) else after)
            keyed = [(key, row) for key, row in keyed if start < key]
        keyed.sort(key=lambda item: item[0])
        return [row for _, row in keyed[:limit]]

    def _key(self, row: Record) -> tuple[Any, ...]:
        return (*(_Down(key) if down else key for key, down in self._keys(row)), row.id)

    def _keys(self, row: Record) -> Iterable[tuple[Any, bool]]:
        for field, down in self._fields:
            if field == ID:
                yield row.id, down  # code point by code point, as everywhere
                continue
            value = value_at(row.document, field)
            if isinstance(value, list | Mapping):
                raise InvalidInputError(f"order_by {field!r}: row {row.id!r} has {shown(value)} there.")
            yield sort_key(value), down


def check_limit(limit: int | None) -> None:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidInputError(f"limit={shown(limit)}: give a number of rows, or None for all.")


def _check_after(after: Any) -> None:
    if after is not None and not isinstance(after, str | Record):
        raise InvalidInputError(f"after={shown(after)}: give the last row of the page before, or its id.")


def _parsed(item: str) -> tuple[str, bool]:
    field, _, direction = item.strip().rpartition(" ")
    if field and direction.lower() in _PLACES:
        return field.strip(), _PLACES[direction.lower()]
    return item.strip(), False
