"""`WriteBatch`: changes of several keys that become visible, and durable, together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from firn.keyed.encoding.entries import DELETE, MERGE, PUT


class WriteBatch:
    """Changes to be made at once by `KeyedWriter.write`; of two for one key the later counts.

    Example:
        >>> batch = WriteBatch()
        >>> batch.put(b"a", b"1"); batch.delete(b"b")
        >>> len(batch)
        2
    """

    def __init__(self) -> None:
        self.changes: list[tuple[int, Any, Any, Any]] = []
        """Kind, key, value and ttl (seconds, or None for the table's)."""

    def put(self, key: Any, value: Any, *, ttl: float | str | timedelta | None = None) -> None:
        self.changes.append((PUT, key, value, ttl))

    def delete(self, key: Any) -> None:
        self.changes.append((DELETE, key, None, None))

    def merge(self, key: Any, operand: Any, *, ttl: float | str | timedelta | None = None) -> None:
        self.changes.append((MERGE, key, operand, ttl))

    def __len__(self) -> int:
        return len(self.changes)
