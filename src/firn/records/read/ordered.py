"""Rows in an order, read a few at a time, by names that tell of their keys as much as names can.

A row's name is its id with `%XX` for much of it, so names don't sort as ids do: `é` is after `z`, and its name before
`z`'s. Those that end in a hash tell how the id begins. An entry of an index tells a value that the row has, or had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, TypeVar

from firn.records.read.order import HasDocument, Key, KeySpan, Page

WIDEST: Final = 1024
"""Rows that are read at once at most."""

R = TypeVar("R", bound=HasDocument)


def in_order(of: Iterable[KeySpan], read: Callable[[Sequence[str]], Iterable[R]], page: Page) -> Iterator[R]:
    """The rows of these names that are on the page, and those behind it for as long as they are asked for.

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
