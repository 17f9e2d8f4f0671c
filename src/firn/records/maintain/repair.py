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
from firn.records.objects.single_version_row import NEVER, LoneRow, encode_row
from firn.records.objects.single_version_store import RowStore
from firn.records.objects.store import RecordStore, Table
from firn.records.write.transaction import begin

CHUNK: Final = 128
"""Commits that are looked through at once."""


@dataclass(frozen=True, slots=True)
class RowRepairReport:
    """The outcome for rows: `repaired` from the log, `forgotten`, or `whole`, as nothing was wrong with them."""

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
    """Mend rows whose objects are damaged, deleted or older than they were: what the log still has of a row is
    put back. Snapshots from before that can't read the row any more. The damaged object stays below
    `_firn/bodies/` until a sweep takes it, as orphans go.

    Commits after the damage mend a row by themselves, so `upsert` does, too.

    Args:
        ids: the rows'. `firn fsck` names their objects. Whole ones are left alone.
        forget: delete the rows of which the log has nothing any more.
        dry_run: only say what would become of them.

    Raises:
        CorruptObjectError: the log has nothing of a row, and it isn't to be forgotten. Nothing is changed.

    Cost: 1 GET a row; 1 GET for the horizon; 1 GET a commit up to the last one of each row that this process
    doesn't remember, or a pack; 1 LIST sequence of index entries. For each row that is mended 2 GETs and 2 PUTs,
    and 1 PUT an index entry.

    Example:
        >>> import firn
        >>> people = firn.connect("memory://").create_table("people", kind="records")
        >>> _ = people.insert("ada", {"born": 1815})
        >>> people.repair_rows(["ada"])
        RowRepairReport(repaired=(), forgotten=(), whole=('ada',), dry_run=False)
    """
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
            for write in record.writes:
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


def forget_rows(rows: RowStore, ids: Iterable[str], *, forget: bool, dry_run: bool) -> RowRepairReport:
    """Let rows go whose objects are damaged: `forget` deletes them. No log has their content.

    Args:
        ids: the rows'. `firn fsck` names their objects. Whole ones are left alone.
        forget: that they may go.
        dry_run: only say what would become of them.

    Raises:
        CorruptObjectError: a row is damaged, and isn't to be forgotten. Nothing is changed.

    Cost: 1 GET a row, and 1 PUT a damaged one.
    """
    wanted = sorted({check_id(id) for id in ids})
    by_key = {rows.layout.row(id): id for id in wanted}
    lost: dict[str, str] = {}
    for blob in rows.bucket.get_many(list(by_key)):
        try:
            _ = blob and rows.decoded(blob)
        except CorruptObjectError:
            if not forget:
                raise
            assert blob is not None
            lost[by_key[blob.info.key]] = blob.info.etag
    for id, etag in lost.items() if not dry_run else ():
        with suppress(ObjectChangedError):  # by somebody who mended it
            gone = LoneRow(id, NEVER.next(), None)
            rows.bucket.put_if_match(rows.layout.row(id), encode_row(gone), etag)
    whole = tuple(id for id in wanted if id not in lost)
    return RowRepairReport((), tuple(lost), whole, dry_run)
