"""Mend rows whose objects are damaged, by hand: put them back from the log, or let them go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    OutcomeUnknownError,
    SnapshotTooOldError,
)
from firn.records.applying import apply
from firn.records.damage import damaged_row, put_anew
from firn.records.names import check_id, shown_id
from firn.records.store import RecordStore, Table
from firn.records.transaction import begin

CHUNK: Final = 128
"""Commits that are looked through at once."""


@dataclass(frozen=True, slots=True)
class RowRepairReport:
    """What became of rows: `repaired` from the log, `forgotten`, or `whole`, as nothing was wrong with them."""

    repaired: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    dry_run: bool = False


def repair_rows(
    store: RecordStore, name: str, ids: Iterable[str], *, forget: bool, dry_run: bool
) -> RowRepairReport:
    """See `RecordTable.repair_rows`."""
    wanted = sorted({check_id(id) for id in ids})
    head = store.log.refresh()
    table = store.table(name, head.catalog)
    if not dry_run:
        apply(store)
    damaged = [id for id in wanted if damaged_row(store, table.layout, id) is not None]
    known = _last_writes(store, table, damaged, head.number)
    lost = tuple(id for id in damaged if id not in known)
    if lost and not forget:
        raise CorruptObjectError(
            f"{store.bucket.uri(table.layout.row(lost[0]))} is damaged, and the log has none of its changes any more."
            f" Copy the object back from a backup, or delete the row with repair_rows([{lost[0]!r}], forget=True)"
        )
    if not dry_run:
        for id, number in known.items():
            _repair(store, table, id, number)
        if lost:
            _forget(store, name, lost)
    whole = tuple(id for id in wanted if id not in damaged)
    return RowRepairReport(tuple(id for id in damaged if id in known), lost, whole, dry_run)


def _last_writes(store: RecordStore, table: Table, ids: Iterable[str], upto: int) -> Mapping[str, int]:
    """The last commit that wrote each row, as far as the log and its packs reach back."""
    found: dict[str, int] = {}
    missing, at, step = set(ids), upto, CHUNK
    while missing and at > table.state.since:
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
                    if write.table == table.name and write.id in missing:
                        found[write.id] = record.number
                        missing.discard(write.id)
        at = below
    return found


def _repair(store: RecordStore, table: Table, id: str, number: int) -> None:
    backoff = store.backoff()
    while True:
        try:
            put_anew(store, table.layout, id, after=number - 1)
            return
        except (ObjectChangedError, OutcomeUnknownError) as error:
            if not backoff.wait():
                raise ConflictError(
                    f"row {shown_id(id)} of {table.name!r} is changed by others all the time: {error}; retry"
                ) from error


def _forget(store: RecordStore, name: str, ids: Iterable[str]) -> None:
    """Delete rows without a look at them: the commit is what their objects are put anew from."""
    tx = begin(store)
    tx.put_bodies(name, [(id, None) for id in ids])
    tx.commit()
    apply(store)
