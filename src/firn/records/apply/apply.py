"""Apply commits to rows and indices (rules 20 and 21). Anyone may, any number at once, and again."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from firn.concurrency.parallel import in_flight
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
)
from firn.journal.sequence import Horizon, LogRecord, TableState
from firn.records.apply.damage import put_anew
from firn.records.names.layout import RecordLayout
from firn.records.objects.row import Version
from firn.records.objects.store import RecordStore

RowKey = tuple[str, str]

CHUNK: Final = 32
"""Commits whose rows are brought up to date at once."""


def apply(store: RecordStore) -> int:
    """Bring rows and indices up to the end of the log as it is known; how many records that took.

    1 GET and 1 PUT a row that the records wrote, however often, and 1 PUT an index entry. A row that is up to date
    costs its GET; one that is dropped with its table is left as it is. One thread of a process does it at a time.

    A row whose object is damaged, gone or older than it was is put anew, with what is pending: see `put_anew`.
    """
    with store.applying:
        return _apply(store, store.log.pending())


def apply_own(store: RecordStore) -> int:
    """The same for the records that this process has committed, and no others: as long as all do that, no row is
    brought up to date by more than one. Rows get the versions that others have committed before, too."""
    with store.applying:
        return _apply(store, store.log.pending(own=True))


def apply_only(store: RecordStore, numbers: Container[int]) -> int:
    """The same for the records of these numbers."""
    with store.applying:
        return _apply(store, [record for record in store.log.pending() if record.number in numbers])


def keep_up(store: RecordStore) -> None:
    """Apply, if more than `max_lag` records wait for it (rule 21)."""
    if store.log.lag > store.max_lag:
        apply(store)


def settle(store: RecordStore) -> Horizon:
    """Apply all that was committed, and tell everybody (rule 21). As `refresh` and `apply`; 1 GET, 1 PUT."""
    store.log.refresh()
    apply(store)
    return store.log.store.raise_horizon(Horizon(applied=store.log.applied))


def _apply(store: RecordStore, pending: Sequence[LogRecord]) -> int:
    if not pending:
        return 0
    upto = pending[-1].number
    catalog = store.log.head().catalog
    settled: set[RowKey] = set()
    for start in range(0, len(pending), CHUNK):
        records = pending[start : start + CHUNK]
        rows: dict[RowKey, TableState] = {}
        for record in records:
            for row in _rows(record):
                state = catalog.get(row[0])
                if state is not None and record.number > state.since and row not in settled:
                    rows[row] = state
        in_flight(lambda row: _apply_row(store, *row[0], row[1], upto), list(rows.items()), store.in_flight)
        settled |= rows.keys()
        for record in records:
            store.log.mark_applied(record.number)
    return len(pending)


def drop_entries(store: RecordStore, layout: RecordLayout, dropped: Sequence[Version]) -> int:
    """Delete the entries of versions that are about to go from their row (rule 23); how many. They go first: then the
    row tells which have to, whoever is interrupted."""
    entries = [layout.entry_of_stem(stem, old.seq) for old in dropped for stem in old.entries]
    store.bucket.delete_many(entries)
    return len(entries)


def drop_bodies(store: RecordStore, dropped: Sequence[Version]) -> None:
    """Delete the staged bodies of versions that have gone from their row."""
    bodies = [old.ref for old in dropped if old.ref is not None]
    store.bucket.delete_many(store.log.store.layout.body_key(ref) for ref in bodies)


def _rows(record: LogRecord) -> list[RowKey]:
    return [(write.table, write.id) for write in record.writes]


def _apply_row(store: RecordStore, table: str, id: str, state: TableState, upto: int) -> None:
    """GET the row, put the entries of all its versions that are due, then the row. Where many of its versions are
    read by nobody any more, these go, as in a collection (rule 23): 1 DELETE an entry of theirs."""
    layout, backoff = store.layout(table, state.generation), store.backoff()
    while True:
        horizon = store.log.horizon
        due = [change for change in store.log.unapplied(table, id, upto) if change[0] > state.since]
        written = store.log.written(table, id)
        try:
            try:
                stored = store.row(layout, id)
            except CorruptObjectError:
                if not due or put_anew(store, layout, id, after=due[0][0] - 1, since=state.since) is not None:
                    return
                continue  # it was whole at the second look
            # Gone, or older than it was? What is in memory tells what it lacks.
            if (
                stored.row.newest < written > state.since
                and put_anew(store, layout, id, after=store.log.remembered, since=state.since) is not None
            ):
                return
            row = stored.row.extended(due)
            if row is stored.row:
                return
            fresh = row.versions[: len(row.versions) - len(stored.row.versions)]
            # A row that changes often is written with all of its versions each time: those go that nobody reads.
            pruned, dropped = row.pruned(horizon)
            if len(dropped) >= store.drops:
                row = pruned
                drop_entries(store, layout, dropped)
            else:
                dropped = ()
            # Entries first: who finds a version in the row takes its entries for there.
            store.put_entries(layout, fresh)
            store.put_row(layout, row, stored.etag)
            drop_bodies(store, dropped)
            store.widest = max(store.widest, len(row.versions))
            return
        except (ObjectChangedError, ObjectExistsError, OutcomeUnknownError) as error:
            if not backoff.wait():
                raise ConflictError(
                    f"{store.bucket.uri(layout.row(id))} can't be brought up to date: {error}; retry"
                ) from error
