"""Rows in the order of their ids, read a few at a time, by names that sort otherwise.

A row's name is its id with `%XX` for much of it, so names don't sort as ids do: `é` is after `z`, and its name before
`z`'s. Most names tell the id, though, and those that end in a hash tell how it begins: the least that it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from firn.records.names import HASHED

WIDEST: Final = 1024
"""Rows that are read at once at most."""


class HasId(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=HasId)


@dataclass(frozen=True, slots=True)
class Page:
    """The rows behind an id, and how many of them are wanted; all."""

    after: str | None = None
    limit: int | None = None

    def __contains__(self, id: str) -> bool:
        return self.after is None or id > self.after


ALL: Final = Page()


class _Named(NamedTuple):
    least: str
    name: str


def in_order(of: Iterable[str], read: Callable[[Sequence[str]], Iterable[R]], page: Page) -> Iterator[R]:
    """The rows of these names that are on the page, and those behind it for as long as they are asked for.

    `read` gives the rows that there are of some names. It is asked for as many as are wanted first, then for as many
    as it was so far, and for none that can't be on the page: for less than twice as many as are needed.
    """
    waiting = sorted(
        named for name in of if (named := _Named(_least(name), name)) and _may_be_on(named, page)
    )
    width = WIDEST if page.limit is None else max(1, min(page.limit, WIDEST))
    here: list[tuple[str, int, R]] = []
    at = 0
    while at < len(waiting) or here:
        # All that wait have greater ids than what the next of them begins with.
        while here and (at == len(waiting) or here[0][0] <= waiting[at].least):
            yield heappop(here)[2]
        if at < len(waiting):
            names = [name for _, name in waiting[at : at + width]]
            for n, row in enumerate(read(names), start=at):
                if row.id in page:
                    heappush(here, (row.id, n, row))
            at += len(names)
            width = min(at, WIDEST)


def _least(name: str) -> str:
    """The id that a name stands for, or what that begins with."""
    return unquote(name.partition(HASHED)[0], errors="replace")


def _may_be_on(named: _Named, page: Page) -> bool:
    if page.after is None or named.least > page.after:
        return True
    return HASHED in named.name and page.after.startswith(named.least)
