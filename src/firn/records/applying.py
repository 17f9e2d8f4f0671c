"""Apply commits to rows and indices (rules 20 and 21). Anyone may, any number at once, and again."""

from __future__ import annotations

from typing import Final

from firn.bucket.flight import in_flight
from firn.errors import ConflictError, ObjectChangedError, ObjectExistsError, OutcomeUnknownError
from firn.journal.sequence import Horizon, Record, TableState
from firn.records.store import RecordStore

CHUNK: Final = 32
"""Commits whose rows are brought up to date at once."""


def apply(store: RecordStore) -> int:
    """Bring rows and indices up to the end of the log as it is known; how many records that took.

    1 GET and 1 PUT a row that the records wrote, however often, and 1 PUT an index entry. A row that is dropped with
    its table is left as it is.
    """
    pending = store.log.pending()
    if not pending:
        return 0
    upto = pending[-1].number
    catalog = store.log.head().catalog
    settled: set[tuple[str, str]] = set()
    for start in range(0, len(pending), CHUNK):
        records = pending[start : start + CHUNK]
        rows: dict[tuple[str, str], TableState] = {}
        for record in records:
            for table, id in _rows(record):
                state = catalog.get(table)
                if state is not None and record.number > state.since and (table, id) not in settled:
                    rows[table, id] = state
        in_flight(
            lambda row: _apply_row(store, *row, upto), [(*row, rows[row]) for row in rows], store.in_flight
        )
        settled |= rows.keys()
        for record in records:
            store.log.mark_applied(record.number)
    return len(pending)


def keep_up(store: RecordStore) -> None:
    """Apply, if more than `max_lag` records wait for it (rule 21)."""
    if store.log.lag > store.max_lag:
        apply(store)


def settle(store: RecordStore) -> Horizon:
    """Apply all that was committed, and tell everybody (rule 21). As `refresh` and `apply`; 1 GET, 1 PUT."""
    store.log.refresh()
    apply(store)
    return store.log.store.raise_horizon(Horizon(applied=store.log.applied))


def _rows(record: Record) -> list[tuple[str, str]]:
    return [(write.table, write.id) for member in record.group for write in member.writes]


def _apply_row(store: RecordStore, table: str, id: str, state: TableState, upto: int) -> None:
    """GET the row, put the entries of all its versions that are due, then the row."""
    layout, backoff = store.layout(table, state.generation), store.backoff()
    while True:
        due = [change for change in store.log.unapplied(table, id, upto) if change[0] > state.since]
        stored = store.row(layout, id)
        row = stored.row.extended(due)
        if row is stored.row:
            return
        fresh = [version for version in row.versions if version.seq > stored.row.newest]
        try:
            # Entries first: who finds a version in the row takes its entries for there.
            store.bucket.put_many(
                [
                    (layout.entry_of_stem(stem, version.seq), b"")
                    for version in fresh
                    for stem in version.entries
                ]
            )
            store.put_row(layout, row, stored.etag)
            return
        except (ObjectChangedError, ObjectExistsError, OutcomeUnknownError) as error:
            if not backoff.wait():
                raise ConflictError(
                    f"{store.bucket.uri(layout.row(id))} can't be brought up to date: {error}; retry"
                ) from error
