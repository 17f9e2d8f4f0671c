"""Things that are worked on together, up to a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def lumps(items: Iterable[T], size: Callable[[T], int], most: int) -> list[list[T]]:
    """The items in their order, in lumps of `most` at most by their sizes. A larger item is alone in its lump.

    >>> lumps(["a", "bb", "ccc", "d"], len, 3)
    [['a', 'bb'], ['ccc'], ['d']]
    """
    found: list[list[T]] = []
    room = 0
    for item in items:
        needed = size(item)
        if not found or needed > room:
            found.append([])
            room = most
        found[-1].append(item)
        room -= needed
    return found
