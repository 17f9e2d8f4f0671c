"""The writes of the latest records, which a reader lays over rows and indices that lag behind the log. Pure."""

from __future__ import annotations

from bisect import bisect_right

from firn.journal.sequence.model import LogRecord, RowWrite

Change = tuple[int, RowWrite]
"""A write and its record's number, which is the version's."""


class Overlay:
    """The writes of records in ascending order, by table and id."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, list[Change]]] = {}

    def add(self, record: LogRecord) -> None:
        """The next record."""
        for write in record.writes:
            rows = self._tables.setdefault(write.table, {})
            rows.setdefault(write.id, []).append((record.number, write))

    def forget(self, record: LogRecord) -> None:
        """The oldest record."""
        for write in record.writes:
            rows = self._tables[write.table]
            changes = rows[write.id]
            changes.pop(0)
            if not changes:
                del rows[write.id]

    def newest(self, table: str, id: str, after: int, upto: int) -> Change | None:
        """The row's last write in (after, upto]."""
        return _newest(self._tables.get(table, {}).get(id, []), after, upto)

    def history(self, table: str, id: str, after: int, upto: int) -> list[Change]:
        """All of the row's writes in (after, upto], ascending."""
        return [c for c in self._tables.get(table, {}).get(id, []) if after < c[0] <= upto]

    def changes(self, table: str, after: int, upto: int) -> dict[str, Change]:
        """The last write in (after, upto] of each row of a table that has one, by id."""
        found = {}
        for id, changes in self._tables.get(table, {}).items():
            change = _newest(changes, after, upto)
            if change is not None:
                found[id] = change
        return found


def _newest(changes: list[Change], after: int, upto: int) -> Change | None:
    at = bisect_right(changes, upto, key=lambda change: change[0])
    return changes[at - 1] if at and changes[at - 1][0] > after else None
