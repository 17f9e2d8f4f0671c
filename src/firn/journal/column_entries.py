"""Statistics and Bloom filters of a file, by the names under which its columns are read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NULLS = ""
"""In the place of a file's own column: null in all rows."""


class ColumnEntries(Mapping[str, Any]):
    """Statistics or filters of a file's columns, under the names that these are read by. `stored` has them by their
    names in the file.

    >>> ColumnEntries({"a": [1, 2, 0]}, {"b": "a", "a": NULLS}, [None, None, 3])["a"]
    [None, None, 3]
    """

    __slots__ = ("_null", "_places", "stored")

    def __init__(self, stored: Mapping[str, Any], places: Mapping[str, str | None], null: Any) -> None:
        self.stored, self._places, self._null = stored, places, null

    def get(self, name: str, default: Any = None) -> Any:
        own = self._places.get(name, name)
        found = self._null if own == NULLS else None if own is None else self.stored.get(own)
        return default if found is None else found

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self.stored, *self._places])
        return (name for name in names if self.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
