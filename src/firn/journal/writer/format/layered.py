"""A mapping whose next version costs only its changes: a base that versions share, and the changes since. Order is
that of a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

FEWEST = 64
"""Changes that are never worth a new base."""


class Layered(Mapping[K, V], Generic[K, V]):
    """What `Layered.next` gives can be changed until it is handed on; from then on it stays as it is.

    With n entries a version holds up to √n changes, and makes a new base of more: a change costs O(√n).

    >>> old = Layered({"a": 1, "b": 2})
    >>> new = old.next()
    >>> new["c"] = 3
    >>> del new["a"]
    >>> dict(old), dict(new)
    ({'a': 1, 'b': 2}, {'b': 2, 'c': 3})
    """

    __slots__ = ("_added", "_base", "_changed", "_gone")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base: Mapping[K, V] = base
        self._changed: dict[K, V] = {}
        self._added: dict[K, V] = {}
        self._gone: set[K] = set()

    @staticmethod
    def after(mapping: Mapping[K, V]) -> Layered[K, V]:
        """A version to be changed that begins as `mapping`, which nobody changes any more."""
        return mapping.next() if isinstance(mapping, Layered) else Layered(mapping)

    def next(self) -> Layered[K, V]:
        """The same, to be changed."""
        if len(self._changed) + len(self._added) + len(self._gone) > FEWEST + isqrt(len(self._base)):
            return Layered(dict(self.items()))
        found = Layered(self._base)
        found._changed = self._changed.copy()
        found._added = self._added.copy()
        found._gone = self._gone.copy()
        return found

    def __setitem__(self, key: K, value: V) -> None:
        if key in self._base and key not in self._gone:
            self._changed[key] = value
        else:
            self._added[key] = value

    def __delitem__(self, key: K) -> None:
        if key in self._added:
            del self._added[key]
            return
        if key not in self:
            raise KeyError(key)
        self._gone.add(key)
        self._changed.pop(key, None)

    def __getitem__(self, key: K) -> V:
        if key in self._added:
            return self._added[key]
        if key in self._gone:
            raise KeyError(key)
        return self._changed[key] if key in self._changed else self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._added or (key in self._base and key not in self._gone)

    def __iter__(self) -> Iterator[K]:
        gone = self._gone
        yield from (key for key in self._base if key not in gone) if gone else self._base
        yield from self._added

    def __len__(self) -> int:
        return len(self._base) - len(self._gone) + len(self._added)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mapping) or len(self) != len(other):
            return False
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(dict(self.items()))
