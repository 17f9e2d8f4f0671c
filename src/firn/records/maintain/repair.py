"""Mend rows whose objects are damaged, gone or older than they were, by hand: put them back from the log, or let them
go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
    SnapshotTooOldError,
)
from firn.records.apply.apply import apply
from firn.records.apply.damage import put_anew, read_anyway
from firn.records.names.names import check_id, id_part, shown_id
from firn.records.objects.row import Row
from firn.records.objects.store import RecordStore, Table
from firn.records.write.transaction import begin

CHUNK: Final = 128
"""Commits that are looked through at once."""


@dataclass(frozen=True, slots=True)
class RowRepairReport:
    """What became of rows: `repaired` from the log, `forgotten`, or `whole`, as nothing was wrong with them."""

    repaired: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Written:
    """The commits that wrote a row, of all those behind `after`."""

    numbers: tuple[int, ...]
    after: int


def repair_rows(
    store: RecordStore, name: str, ids: Iterable[str], *, forget: bool, dry_run: bool
) -> RowRepairReport:
    """See `RecordTable.repair_rows`."""
    wanted = sorted({check_id(id) for id in ids})
    head = store.log.refresh()
    table = store.table(name, head.catalog)
    store.log.learn(store.log.store.horizon())
    if not dry_run:
        apply(store)
    applied = store.log.applied
    found = {id: read_anyway(store, table.layout, id)[0] for id in wanted}
    written = _written(store, table, wanted, head.number)
    wrong = {
        id
        for id, row in found.items()
        if row is None or row.lacks(number for number in written[id].numbers if number <= applied)
    }
    lost = {id for id in wrong if not written[id].numbers}
    lost |= _older_than_entries(
        store, table, {id: row for id, row in found.items() if row and id not in wrong}
    )
    if lost and not forget:
        id = min(lost)
        raise CorruptObjectError(
            f"{store.bucket.uri(table.layout.row(id))} is damaged or lost, and the log has none of its changes any "
            "more. Copy the object back from a backup, put the row anew with upsert, or delete it with "
            f"repair_rows([{id!r}], forget=True)"
        )
    repaired = sorted(wrong - lost)
    if not dry_run:
        for id in repaired:
            _repair(store, table, id, written[id].after)
        if lost:
            _forget(store, table, sorted(lost))
    whole = tuple(id for id in wanted if id not in wrong | lost)
    return RowRepairReport(tuple(repaired), tuple(sorted(lost)), whole, dry_run)


def _written(store: RecordStore, table: Table, ids: Collection[str], upto: int) -> Mapping[str, _Written]:
    """The commits that wrote each row: all that a snapshot may see, as far as the log and its packs reach back."""
    found: dict[str, list[int]] = {id: [] for id in ids}
    done: dict[str, _Written] = {}
    at, step = upto, CHUNK
    while len(done) < len(found) and at > table.state.since:
        below = max(at - step, table.state.since)
        try:
            records = store.log.records(below, at)
        except SnapshotTooOldError:
            if at - below == 1:
                break
            step = (at - below) // 2
            continue
        for record in reversed(records):
            for member in record.group:
                for write in member.writes:
                    if write.table == table.name and write.id in found and write.id not in done:
                        found[write.id].append(record.number)
                        if record.number <= store.log.horizon:
                            done[write.id] = _Written(tuple(reversed(found[write.id])), record.number - 1)
        at = below
    return {id: done.get(id) or _Written(tuple(reversed(numbers)), at) for id, numbers in found.items()}


def _older_than_entries(store: RecordStore, table: Table, rows: Mapping[str, Row]) -> set[str]:
    """Rows that lack the version of an index entry. 1 LIST sequence of all entries of the table."""
    applied, names = store.log.applied, {id_part(id): id for id in rows}
    older = set()
    for info in store.bucket.list(table.layout.indices).objects if rows else ():
        entry = table.layout.entry_anywhere(info.key)
        id = None if entry is None else names.get(entry.id_name)
        if entry is not None and id is not None and rows[id].newest < entry.seq <= applied:
            older.add(id)
    return older


def _repair(store: RecordStore, table: Table, id: str, after: int) -> None:
    backoff = store.backoff()
    while True:
        try:
            put_anew(store, table.layout, id, after=after, since=table.state.since)
            return
        except (ObjectChangedError, ObjectExistsError, OutcomeUnknownError) as error:
            if not backoff.wait():
                raise ConflictError(
                    f"row {shown_id(id)} of {table.name!r} is changed by others all the time: {error}; retry"
                ) from error


def _forget(store: RecordStore, table: Table, ids: Collection[str]) -> None:
    """Delete rows without a look at them: the commit is what their objects are put anew from. Versions before it are
    what nobody can tell any more."""
    tx = begin(store)
    tx.put_bodies(table.name, [(id, None) for id in ids])
    number = tx.commit()
    apply(store)
    for id in ids:
        stored = store.row(table.layout, id)
        row, dropped = stored.row.pruned(number)
        if dropped:
            with suppress(ObjectChangedError, OutcomeUnknownError):  # then a collection takes them
                store.put_row(table.layout, row, stored.etag)
