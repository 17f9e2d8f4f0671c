"""Which rows may match, by the entries of indices (rule 11).

Where several fields have an index, a page of each is listed in turn. The rows of an index that came to its end are a
bound for all; more is listed as long as that costs less than to read the rows that it may spare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from firn.bucket.base import Bucket, ObjectInfo
from firn.records.documents.predicates import IndexSpan, Range, Scalar, level_may_match, may_match, spans_of
from firn.records.names.layout import IndexEntry
from firn.records.objects.store import Table

PAGE: Final = 1000
"""Entries of one page."""

LIST_COST: Final = 12
"""A page of a LIST costs about as much as so many GETs, in the stores that charge for them."""


def candidates(
    bucket: Bucket, table: Table, number: int, where: Mapping[str, Scalar], fields: Sequence[str]
) -> dict[str, int]:
    """The parts of names that stand for ids, of all rows that may match at commit `number`: those that each index
    that was listed to its end has; with each the number of its newest entry that was listed. 1 LIST sequence of the
    index that has the fewest, and at most as many pages of the others, or pages that cost no more than its rows."""
    listings = [_Listing(bucket, table, number, field, where[field]) for field in fields]
    names: dict[str, int] | None = None
    since = 0
    while True:
        for listing in listings:
            if names is not None and (since + 1) * LIST_COST >= len(names):
                return names
            since += names is not None
            if listing.turn(whole=len(fields) == 1):
                names = newest(listing.entries, names)
        listings = [listing for listing in listings if not listing.ended]
        if not listings:
            assert names is not None
            return names


def entries(
    bucket: Bucket, table: Table, number: int, field: str, predicate: Scalar | None, most: int | None
) -> list[IndexEntry] | None:
    """The entries of an index that may count at commit `number`, and may match if a predicate is given; None if they
    are more than `most` pages. 1 LIST sequence."""
    listing = _Listing(bucket, table, number, field, predicate)
    pages = 0
    while not listing.ended:
        if most is not None and pages >= most:
            return None
        listing.turn(whole=most is None)
        pages += 1
    return listing.entries


def newest(entries: Iterable[IndexEntry], among: Mapping[str, int] | None = None) -> dict[str, int]:
    """The greatest number of each name that entries are of; of those `among` others only, whose numbers count too."""
    found: dict[str, int] = {}
    for entry in entries:
        if among is None or entry.id_name in among:
            least = 0 if among is None else among[entry.id_name]
            found[entry.id_name] = max(entry.seq, least, found.get(entry.id_name, 0))
    return found


class _Listing:
    """The entries of one index that may match, a page at a time."""

    def __init__(
        self, bucket: Bucket, table: Table, number: int, field: str, predicate: Scalar | None
    ) -> None:
        self._bucket, self._table, self._number = bucket, table, number
        self._field, self._predicate = field, predicate
        self._generation = table.state.fields[field].generation
        self._directory = table.layout.index(field, self._generation)
        self._spans = self._spanned()
        self._span = next(self._spans, None)
        self._after: str | None = None
        self.entries: list[IndexEntry] = []

    @property
    def ended(self) -> bool:
        return self._span is None

    def turn(self, *, whole: bool) -> bool:
        """List one page, or all; whether this was the last. At most 1 LIST, or 1 LIST sequence a span."""
        while self._span is not None:
            after = self._after or (self._directory + self._span.after if self._span.after else None)
            page = self._bucket.list(
                self._directory + self._span.prefix, after=after, limit=None if whole else PAGE
            )
            self._take(page.objects)
            if page.more:
                self._after = page.objects[-1].key
            else:
                self._span, self._after = next(self._spans, None), None
            if not whole:
                break
        return self.ended

    def _take(self, entries: Sequence[ObjectInfo]) -> None:
        for info in entries:
            entry = self._table.layout.parse_entry(self._field, info.key, self._generation)
            if (
                entry is not None
                and self._table.state.since < entry.seq <= self._number
                and (self._predicate is None or may_match(entry.value, self._predicate))
            ):
                self.entries.append(entry)

    def _spanned(self) -> Iterator[IndexSpan]:
        if self._predicate is None:
            yield IndexSpan("")
            return
        spans = spans_of(self._predicate)
        if spans is not None:
            yield from spans
            return
        assert isinstance(self._predicate, Range)
        for level in self._bucket.list_dirs(self._directory):
            if level_may_match(level, self._predicate):
                yield IndexSpan(f"{level}/")
