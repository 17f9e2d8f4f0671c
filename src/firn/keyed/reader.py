"""`KeyedReader`: reads a keyed table without writing anything to the bucket; any number of them, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from firn.keyed.scan import KeyedScan

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable


class KeyedReader:
    """A table's entries, as of its newest flush or of one moment. Made by `KeyedTable.reader`."""

    def __init__(self, table: KeyedTable, view: Any, *, follow: float | None) -> None:
        self.table, self.view, self.follow = table, view, follow

    @property
    def version(self) -> str:
        """What `KeyedTable.reader(at=…)` and `changes(since)` take."""
        return str(self.view.version)

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        """The values of keys, in their order; None for each that isn't there."""
        return [self.get(key) for key in keys]

    def scan(self, start: Any = None, end: Any = None, *, reverse: bool = False) -> KeyedScan:
        """The entries with `start` ≤ key < `end`."""
        return KeyedScan(lambda: iter(()))

    def scan_prefix(self, prefix: Any, *, reverse: bool = False) -> KeyedScan:
        """The entries whose key begins with `prefix`."""
        return KeyedScan(lambda: iter(()))

    def refresh(self) -> str:
        """Take in what was flushed since; the version. 1 LIST + 1 GET."""
        return self.version

    def close(self) -> None:
        """Let go of what it holds. Nothing is written."""

    def __enter__(self) -> KeyedReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
