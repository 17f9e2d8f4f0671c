"""`KeyedWriter`: the one process that changes a keyed table, until another opens it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from firn.keyed.batch import WriteBatch
from firn.keyed.reader import KeyedReader
from firn.keyed.scan import KeyedScan

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable

Duration = float | str | timedelta


class KeyedWriter:
    """Reads and writes a table. Made by `KeyedTable.open`; safe to share between threads; a context manager."""

    def __init__(self, table: KeyedTable) -> None:
        self.table = table

    def put(self, key: Any, value: Any, *, ttl: Duration | None = None, durable: bool = True) -> None:
        """Set a key's value. With `durable`, returns when no crash can undo it; else at once."""

    def delete(self, key: Any, *, durable: bool = True) -> None:
        """Remove a key; one that isn't there is fine."""

    def merge(self, key: Any, operand: Any, *, ttl: Duration | None = None, durable: bool = True) -> None:
        """Combine an operand with the key's value by the table's merge operator, without reading it."""

    def write(self, batch: WriteBatch, *, durable: bool = True) -> None:
        """Make all changes of a batch, or none."""

    def get(self, key: Any, *, durable: bool = False) -> Any:
        """The value of a key, or None; this writer's own puts included, unless `durable` leaves out what a crash
        could still undo."""

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        """The values of keys, in their order; None for each that isn't there."""
        return [self.get(key) for key in keys]

    def scan(self, start: Any = None, end: Any = None, *, reverse: bool = False) -> KeyedScan:
        """The entries with `start` ≤ key < `end`."""
        return KeyedScan(lambda: iter(()))

    def scan_prefix(self, prefix: Any, *, reverse: bool = False) -> KeyedScan:
        """The entries whose key begins with `prefix`."""
        return KeyedScan(lambda: iter(()))

    def snapshot(self) -> KeyedReader:
        """This moment's entries, in this process; nothing is written for it."""
        return KeyedReader(self.table, None, follow=None)

    def flush(self) -> None:
        """Returns when everything that was put before is durable."""

    def compact(self) -> Any:
        """See `KeyedTable.compact`; what was put before is flushed first."""

    def close(self) -> None:
        """Flush everything and stop."""

    def __enter__(self) -> KeyedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
