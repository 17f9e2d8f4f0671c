"""Garbage collection: what no snapshot sees any more (rules 23 and 24), and old records (22)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from firn.bucket.keys import key_below
from firn.concurrency.parallel import in_flight
from firn.errors import CorruptObjectError, ObjectChangedError, OutcomeUnknownError
from firn.journal.sequence import Horizon, truncate
from firn.journal.sequence.history import chunks
from firn.records.apply.apply import drop_bodies, drop_entries, settle
from firn.records.apply.damage import is_there, lost_row
from firn.records.names.layout import RecordLayout, index_part
from firn.records.names.names import id_part
from firn.records.objects.listing import row_objects
from firn.records.objects.row import Row
from firn.records.objects.store import RecordStore
from firn.units import Duration, parse_duration

BATCH: Final = 1000
"""Rows that are read at once."""

Damaged = dict[str, CorruptObjectError]
"""The damage of rows, by their keys."""

_STEP_MS: Final = 1000
"""Times of objects are kept in whole seconds by some stores."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection: the oldest snapshot that it left readable, how many versions of rows it dropped and
    how many index entries with them, and up to where it packed the log."""

    horizon: int
    versions: int
    entries: int
    lo: int
    damaged: Mapping[str, CorruptObjectError] = field(default_factory=dict)


def collect(store: RecordStore, *, retention_s: float, dry_run: bool = False) -> Collected:
    """Give up snapshots that nobody can have begun at within `retention_s`, and that nobody in this process reads at;
    drop what only these see, and truncate.

    As `refresh`; PUT and HEAD for the store's time, 1 LIST sequence, 1 GET and 1 PUT for the horizon; 1 GET a record
    that isn't in memory, 1 GET a row that these wrote, 1 PUT a row that has old versions, 1 DELETE an entry of
    these; then as `truncate`. With `dry_run` nothing is written, and the time is this machine's.
    """
    log = store.log
    head = log.refresh()
    catalog = head.catalog
    horizon = log.learn(log.store.horizon())
    before_ms = _before_ms(store, max(retention_s, log.freshness_s), dry_run)
    unneeded = _newest_unneeded(store, horizon, before_ms)
    oldest = store.oldest_read()
    reached = max(horizon.horizon, unneeded if oldest is None else min(unneeded, oldest))
    if not dry_run:
        # First all are told, then anything goes.
        horizon = log.store.raise_horizon(Horizon(horizon=reached, applied=log.applied))
    rows = {
        (write.table, write.id): record.number
        for record in chunks(log, horizon.lo, reached)
        for write in record.writes
        if write.table in catalog and record.number > catalog[write.table].since
    }
    layouts = {table: store.layout(table, catalog[table].generation) for table, _ in rows}
    dropped = in_flight(
        lambda row: _prune(store, layouts[row[0]], row[1], reached, rows[row], dry_run),
        sorted(rows),
        store.in_flight,
    )
    damaged = {
        layouts[table].row(id): found
        for (table, id), found in zip(sorted(rows), dropped, strict=True)
        if isinstance(found, CorruptObjectError)
    }
    counts = [found for found in dropped if not isinstance(found, CorruptObjectError)]
    versions, entries = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
    if dry_run:
        return Collected(
            reached, versions, entries, max(horizon.lo, min(reached, log.applied, head.number - 1)), damaged
        )
    return Collected(reached, versions, entries, truncate(log, largest_bytes=store.pack_bytes).lo, damaged)


def _before_ms(store: RecordStore, age_s: float, dry_run: bool) -> int:
    """The moment `age_s` ago, by the store's clock, less a second."""
    now_ms = store.clock.now_ms() if dry_run else store.log.store.now_ms()
    return now_ms - round(age_s * 1000) - _STEP_MS


def _newest_unneeded(store: RecordStore, horizon: Horizon, before_ms: int) -> int:
    """The greatest applied number whose successor is a record from before then: nobody who began since then, or
    validated the end of the log since then, is at an older snapshot (rule 23)."""
    log = store.log
    start = log.store.layout.record_key(horizon.horizon) if horizon.horizon else None
    reached = horizon.horizon
    for info in log.store.bucket.list(log.store.layout.records_prefix, after=start).objects:
        number = log.store.layout.parse_record(info.key)
        if number is not None and number - 1 <= log.applied and info.modified_ms < before_ms:
            reached = max(reached, number - 1)
    return reached


def _prune(
    store: RecordStore, layout: RecordLayout, id: str, horizon: int, written: int, dry_run: bool
) -> tuple[int, int] | CorruptObjectError:
    """Drop the old versions of a row, which commit `written` wrote; how many, and how many entries they had, or what
    is wrong with the row. The entries go first: then the row tells which have to, whoever is interrupted."""
    backoff = store.backoff()
    while True:
        try:
            stored = store.row(layout, id)
        except CorruptObjectError as error:
            return error
        if stored.row.newest < written and is_there(store, layout):
            return lost_row(store.bucket.uri(layout.row(id)), stored.row.newest, written)
        row, dropped = stored.row.pruned(horizon)
        if not dropped:
            return 0, 0
        if dry_run:
            return len(dropped), sum(len(old.entries) for old in dropped)
        entries = drop_entries(store, layout, dropped)
        try:
            store.put_row(layout, row, stored.etag)
        except (ObjectChangedError, OutcomeUnknownError):
            if not backoff.wait():
                return 0, entries
            continue
        drop_bodies(store, dropped)
        return len(dropped), entries


@dataclass(frozen=True, slots=True)
class Swept:
    """The objects that a sweep deleted: index entries, staged bodies and packs."""

    entries: int
    bodies: int
    packs: int
    damaged: Mapping[str, CorruptObjectError] = field(default_factory=dict)


def sweep(
    store: RecordStore,
    *,
    orphan_age_s: float,
    dry_run: bool = False,
    known: Mapping[str, CorruptObjectError] | None = None,
) -> Swept:
    """Delete what was left behind: entries of versions that rows don't have (rule 24), staged bodies that nothing
    refers to and packs, both older than `orphan_age_s`. Objects that may belong to a damaged row stay, and so do all
    packs as long as there is one. `known` are damaged rows that were found already.

    1 LIST sequence of all entries and 1 GET a row that has any at or before the horizon; where there are old staged
    bodies, all rows. With `dry_run` nothing is written, and the time is this machine's.
    """
    log = store.log
    catalog = log.refresh().catalog
    horizon = log.learn(log.store.horizon())
    before_ms = _before_ms(store, orphan_age_s, dry_run)
    layouts = [
        store.layout(table, state.generation)
        for table, state in sorted(catalog.items())
        if state.isolation == "snapshot"
    ]
    damaged: Damaged = dict(known or {})
    entries = [key for layout in layouts for key in _old_entries(store, layout, horizon.horizon, damaged)]
    bodies = _old_bodies(store, layouts, horizon, before_ms, damaged)
    packs = [
        info.key
        for info in store.bucket.list(log.store.layout.packs_prefix).objects
        if not damaged and info.modified_ms < before_ms and log.store.layout.parse_pack(info.key) is not None
    ]
    if not dry_run:
        store.bucket.delete_many([*entries, *bodies, *packs])
    return Swept(len(entries), len(bodies), len(packs), damaged)


def _old_entries(store: RecordStore, layout: RecordLayout, horizon: int, damaged: Damaged) -> list[str]:
    """Those with a number up to the horizon, whose version is in its row by now or never will be again; all such of
    indices that no snapshot from the horizon on has. None above: the version may be about to come. An entry that is
    newer than its row tells that the row's object was lost."""
    old: dict[str, list[tuple[int, str]]] = {}
    garbage: list[str] = []
    listed = store.bucket.list(layout.indices).objects
    # Looked at after the LIST: an index whose entries are in that is in these, or was dropped.
    used = _indices_since(store, layout.table, horizon)
    for info in listed:
        entry = layout.entry_anywhere(info.key)
        if entry is None or entry.seq > horizon:
            continue
        if info.key.removeprefix(layout.indices).partition("/")[0] in used:
            old.setdefault(entry.id_name, []).append((entry.seq, info.key))
        else:
            garbage.append(info.key)
    names = sorted(old)
    for start in range(0, len(names), BATCH):
        keys = [layout.row_named(name) for name in names[start : start + BATCH]]
        rows, unreadable = store.whole_rows(keys)
        there = {(id_part(row.id), version.seq) for row in rows for version in row.versions}
        newest = {layout.row(row.id): row.newest for row in rows}
        for name, key in zip(names[start : start + BATCH], keys, strict=True):
            written = max(seq for seq, _ in old[name])
            if key not in unreadable and newest.get(key, 0) < written and is_there(store, layout):
                unreadable[key] = lost_row(store.bucket.uri(key), newest.get(key, 0), written)
        damaged |= unreadable
        garbage += [
            key
            for name in names[start : start + BATCH]
            if layout.row_named(name) not in unreadable
            for seq, key in old[name]
            if (name, seq) not in there
        ]
    return garbage


def _indices_since(store: RecordStore, table: str, horizon: int) -> set[str]:
    """The directories of all indices that a snapshot from the horizon on has."""
    head = store.log.refresh()
    catalogs = [head.catalog, *(record.catalog for record in chunks(store.log, horizon, head.number))]
    return {
        index_part(name, index.generation)
        for catalog in catalogs
        if table in catalog
        for name, index in catalog[table].fields.items()
    }


def _old_bodies(
    store: RecordStore, layouts: list[RecordLayout], horizon: Horizon, before_ms: int, damaged: Damaged
) -> list[str]:
    """Rows are read before the log: what is in neither is in nothing, as a body is put long before its commit."""
    log = store.log
    prefix = log.store.layout.bodies_prefix
    old = {
        info.key.removeprefix(prefix)
        for info in store.bucket.list(prefix).objects
        if info.modified_ms < before_ms
    }
    if not old:
        return []
    used: set[str | None] = set()
    for layout in layouts:
        rows, unreadable = _all_rows(store, layout)
        damaged |= unreadable
        used |= {version.ref for row in rows for version in row.versions}
    if damaged:
        return []
    for record in chunks(log, horizon.lo, log.refresh().number):
        used |= {write.ref for write in record.writes}
    return [log.store.layout.body_key(ref) for ref in sorted(old - used)]


def _all_rows(store: RecordStore, layout: RecordLayout) -> tuple[list[Row], Damaged]:
    return store.whole_rows([info.key for info in row_objects(store.bucket, layout)])


RETENTION: Final = "1h"
ORPHAN_AGE: Final = "7d"


@dataclass(frozen=True, slots=True)
class RecordSweepReport:
    """The result of a sweep of a database's record tables: the things it deleted, or would delete.

    `horizon` is the oldest commit that can still be read at, `versions` of rows went with their `entries`, commits up
    to `packed` are in packs; `left_over` entries, staged documents and old packs belonged to nothing. `damaged` are
    the objects of rows that couldn't be read, and stay as they are: `RecordTable.repair_rows` mends them.
    """

    horizon: int
    versions: int
    entries: int
    packed: int
    left_over: int
    dry_run: bool = False
    damaged: tuple[str, ...] = ()


def sweep_all(
    store: RecordStore,
    *,
    older_than: Duration = RETENTION,
    orphans: Duration = ORPHAN_AGE,
    dry_run: bool = False,
    table: str = "",
) -> RecordSweepReport:
    """Delete what no transaction reads any more, of all record tables of the database, which share a log: old
    versions of rows, index entries, commits. Those that are old are packed.

    Args:
        older_than: snapshots older than that can't be read afterwards; never less than 30 seconds. Above the
            longest transaction.
        orphans: how old an object must be that nothing refers to. Above the longest transaction: a large document
            is put before its commit.
        dry_run: only say what would be deleted.

    Raises:
        CorruptObjectError: a row of this table is damaged, and left alone; all else is swept. `repair_rows`
            mends it. Those of other tables are told in the report.

    Cost: see `firn.records.maintain.collection`: 1 GET a row that was written since the last sweep, 1 PUT a row
    with old versions, 1 DELETE an entry, 1 LIST sequence of all index entries and 1 GET a row with old ones.

    Example:
        >>> import firn
        >>> people = firn.connect("memory://").create_table("people", kind="records")
        >>> _ = people.insert("ada", {"n": 1})
        >>> people.sweep(dry_run=True).versions
        0
    """
    if not dry_run:
        settle(store)
    done = collect(store, retention_s=parse_duration(older_than), dry_run=dry_run)
    swept = sweep(store, orphan_age_s=parse_duration(orphans), dry_run=dry_run, known=done.damaged)
    left = swept.entries + swept.bodies + swept.packs
    damaged = {**done.damaged, **swept.damaged}
    own = key_below(store.prefix, table, "")
    for key, error in damaged.items():
        if table and key.startswith(own):
            raise error
    where = tuple(store.bucket.uri(key) for key in sorted(damaged))
    return RecordSweepReport(done.horizon, done.versions, done.entries, done.lo, left, dry_run, where)
