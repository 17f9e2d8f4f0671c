"""Parts of a sort order, as users write them."""

from __future__ import annotations

from collections.abc import Iterable

from firn.names import fold


def split_order(text: str, columns: Iterable[str] = ()) -> tuple[str, str]:
    """A part of a sort order as its column and "asc" or "desc". `columns` may have names that end so.

    >>> split_order("delay DESC"), split_order("a desc", ["a desc"])
    (('delay', 'desc'), ('a desc', 'asc'))
    """
    head, _, direction = text.rpartition(" ")
    if fold(text) in map(fold, columns) or not head or direction.lower() not in ("asc", "desc"):
        return text, "asc"
    return head.strip(), direction.lower()
