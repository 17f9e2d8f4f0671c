"""Parts of a sort order, as users write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from firn.names import fold


def split_order(text: str, columns: Iterable[str] = ()) -> tuple[str, str]:
    """A part of a sort order as its column and "asc" or "desc". `columns` may have names that end so.

    >>> split_order("delay DESC"), split_order("a desc", ["a desc"]), split_order(" a asc", [" a"])
    (('delay', 'desc'), ('a desc', 'asc'), (' a', 'asc'))
    """
    known = {fold(name) for name in columns}
    head, _, direction = text.rpartition(" ")
    if fold(text) in known or not head or direction.lower() not in ("asc", "desc"):
        return text, "asc"
    return head if fold(head) in known else head.strip(), direction.lower()


def shown_order(text: str, columns: Iterable[str], shown: Callable[[str], str]) -> str:
    """A part of a sort order with the name that its column, one of `columns`, has by now; as it is if it names none.

    >>> shown_order("a DESC", ["a"], str.upper), shown_order(" b desc", ["a"], str.upper)
    ('A desc', ' b desc')
    """
    name, way = split_order(text, columns)
    if fold(name) not in map(fold, columns):
        return text
    return written_order(shown(name), way)


def written_order(name: str, way: str) -> str:
    """A column and "asc" or "desc" as a part of a sort order."""
    return name + (" desc" if way == "desc" else "")
