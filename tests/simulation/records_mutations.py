"""Each rule of record tables' protocol, left out: a mutation patches the journal or the tables, and simulations must
notice.

The rules are those of docs/format/record-log.md, by number. Those of the log itself are in `records_log_mutations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from firn.errors import ObjectChangedError, ObjectExistsError, OutcomeUnknownError
from firn.journal.sequence import Catalog, Head, Horizon, LogRecord, SequenceLog, TableState, truncation
from firn.journal.sequence.catalog import after
from firn.journal.sequence.store import SequenceStore
from firn.records.apply import apply as applying
from firn.records.apply import commit_applier, damage
from firn.records.documents.documents import Documents
from firn.records.maintain import collection, indexes
from firn.records.maintain import ddl as definitions
from firn.records.names.names import id_part
from firn.records.objects.row import Row, Version
from firn.records.objects.store import RecordStore, Table
from firn.records.read.candidates import candidates
from firn.records.read.order import ALL, Page
from firn.records.read.snapshot import RecordSnapshot, SeenRow, Where
from firn.records.write import transaction, uniqueness, validation
from firn.records.write.transaction import Transaction as Open

# -- read and find


def look_at_the_overlay_after_the_row(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: how far rows are applied is looked at before the GET."""

    def get(self: RecordSnapshot, table: Table, id: str) -> SeenRow | None:
        row = self.store.row(table.layout, id).row
        change = self.store.log.newest(table.name, id, self.number)
        if change is not None:
            return self._seen(table, id, *change)
        return self._at(table, id, row.at(self.number))

    patch.setattr(RecordSnapshot, "get", get)


def forget_the_overlay(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: lay what isn't applied over rows."""
    patch.setattr(SequenceLog, "newest", lambda self, table, id, upto: None)


def forget_the_overlay_of_indices(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: and over indices."""
    patch.setattr(SequenceLog, "changes", lambda self, table, upto: {})


def read_the_newest_version(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: the newest that isn't newer than the snapshot."""
    patch.setattr(Row, "at", lambda self, snapshot: self.versions[0] if self.versions else None)


def take_cut_versions_for_none(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: none and `cut` beyond the snapshot is too old."""

    def at(self: Row, snapshot: int) -> Version | None:
        return next((version for version in self.versions if version.seq <= snapshot), None)

    patch.setattr(Row, "at", at)


def believe_old_indices(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: entries that are gone are missed silently, the horizon tells."""
    patch.setattr(SequenceLog, "must_reach", lambda self, head: None)


def ask_before_the_list(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: page the LIST to its end, then the horizon."""
    sound = RecordSnapshot.through
    must_reach = SequenceLog.must_reach

    def through(
        self: RecordSnapshot,
        table: Table,
        fields: Sequence[str],
        where: Where,
        page: Page = ALL,
        **options: Any,
    ) -> Iterator[SeenRow]:
        must_reach(self.store.log, self.head)
        return sound(self, table, fields, where, page, **options)

    patch.setattr(RecordSnapshot, "through", through)
    patch.setattr(SequenceLog, "must_reach", lambda self, head: None)


def believe_entries(patch: pytest.MonkeyPatch) -> None:
    """Rule 11: re-check the predicate against each row."""

    def through(
        self: RecordSnapshot,
        table: Table,
        fields: Sequence[str],
        where: Where,
        page: Page = ALL,
        **options: Any,
    ) -> Iterator[SeenRow]:
        changes = self.store.log.changes(table.name, self.number)
        names = candidates(self.store.bucket, table, self.number, where, fields)
        self.store.log.must_reach(self.head)
        some = {id: c for id, c in changes.items() if id_part(id) in names}
        return self._rows(table, names, some, {}, page)

    patch.setattr(RecordSnapshot, "through", through)


# -- insert


def move_without_looking_back(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: the snapshot moves only if nothing that the transaction knows was touched."""
    sound = Open._look

    def look(self: Open, table: Table, id: str, head: Head) -> None:
        kept, self._must_stand = self._must_stand, lambda others, serializable: None  # type: ignore[method-assign, assignment]
        try:
            sound(self, table, id, head)
        finally:
            self._must_stand = kept  # type: ignore[method-assign]

    patch.setattr(Open, "_look", look)


def commit_to_tables_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: what was read and written must be of tables that are still there."""
    patch.setattr(Open, "_tables_must_stand", lambda self, catalog: None)


def commit_what_the_old_schema_allowed(patch: pytest.MonkeyPatch) -> None:
    """Rule 29: documents must be judged by the schema that they are committed under."""
    patch.setattr(Open, "_rules_must_stand", lambda self, catalog, names: None)


def take_dropped_rows_for_lost(patch: pytest.MonkeyPatch) -> None:
    """Rows go with their table."""
    patch.setattr(damage, "is_there", lambda store, layout: True)


def move_for_commits_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 12: the whole snapshot moves, reads included."""
    sound = Open._look

    def look(self: Open, table: Table, id: str, head: Head) -> None:
        before = self._at
        sound(self, table, id, head)
        self._reads_at = before  # type: ignore[attr-defined]

    def get(self: Open, table: Table, id: str) -> SeenRow | None:
        at = getattr(self, "_reads_at", self._at)
        self._footprint.reads.add((table.name, id))
        found: SeenRow | None = at.get(table, id)
        return found

    patch.setattr(Open, "_look", look)
    patch.setattr(Open, "_read", get)


# -- apply


def rows_before_entries(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: entries, then the row."""

    def apply_row(store: RecordStore, table: str, id: str, state: TableState, upto: int) -> None:
        layout = store.layout(table, state.generation)
        while True:
            due = [change for change in store.log.unapplied(table, id, upto) if change[0] > state.since]
            stored = store.row(layout, id)
            row = stored.row.extended(due)
            if row is stored.row:
                return
            with suppress(ObjectChangedError, ObjectExistsError, OutcomeUnknownError):
                store.put_row(layout, row, stored.etag)
                fresh = [version for version in row.versions if version.seq > stored.row.newest]
                store.bucket.put_many(
                    [(layout.entry_of_stem(stem, v.seq), b"") for v in fresh for stem in v.entries]
                )
                return

    patch.setattr(applying, "_apply_row", apply_row)


def rows_without_a_condition(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: by If-Match or if-absent."""
    from firn.records.objects.row import encode_row

    patch.setattr(
        RecordStore,
        "put_row",
        lambda self, layout, row, etag: self.bucket.put(layout.row(row.id), encode_row(row)),
    )


def apply_one_version_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: all pending versions up to n."""
    sound = SequenceLog.unapplied
    patch.setattr(SequenceLog, "unapplied", lambda self, *args: sound(self, *args)[-1:])


def done_before_it_is(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: `done` after all acknowledgements."""
    sound = applying.apply

    def apply(store: RecordStore) -> int:
        pending = store.log.pending()
        mark, store.log.mark_applied = store.log.mark_applied, lambda number: None  # type: ignore[method-assign]
        try:
            before = list(pending)
            for record in before:
                mark(record.number)
            return sound(store)
        finally:
            store.log.mark_applied = mark  # type: ignore[method-assign]

    for module in (applying, transaction, indexes):
        if hasattr(module, "apply"):
            patch.setattr(module, "apply", apply)


def drop_what_is_still_seen(patch: pytest.MonkeyPatch) -> None:
    """Rules 20 and 23: appliers drop only what is before the horizon."""
    patch.setattr(SequenceLog, "horizon", property(lambda self: self.applied))


def own_commits_stand_for_others(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: a record is done when all of its own rows are, not when a later one is."""
    sound = applying.apply_own

    def apply_own(store: RecordStore) -> int:
        upto = max((record.number for record in store.log.pending(own=True)), default=0)
        count = sound(store)
        for record in store.log.pending():
            if record.number <= upto:
                store.log.mark_applied(record.number)
        return count

    patch.setattr(commit_applier, "apply_own", apply_own)


def leave_others_alone(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: what a process that crashed has committed is applied by another."""
    patch.setattr(commit_applier, "apply_only", lambda store, numbers: 0)


def never_apply(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: who sees that too much waits applies it first."""
    patch.setattr(transaction, "keep_up", lambda store: None)


# -- truncate and collect


def _limited(patch: pytest.MonkeyPatch, limit: Callable[[Horizon, SequenceLog, Head], int]) -> None:
    def truncate(log: SequenceLog, **_: Any) -> Any:
        store, head = log.store, log.refresh()
        while True:
            horizon = log.learn(store.horizon())
            last = limit(horizon, log, head)
            if horizon.lo < last:
                packed = truncation._pack(log, horizon.lo + 1, last, 1 << 30)
                if packed is not None:
                    horizon = store.raise_horizon(Horizon(lo=packed.number, catalog=after(packed)))
            truncation._sweep(log, horizon.lo)
            if horizon.lo >= last:
                return truncation.Truncated(horizon.lo, 0)

    patch.setattr(collection, "truncate", truncate)


def truncate_beyond_what_is_applied(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: lo ≤ A."""
    _limited(patch, lambda horizon, log, head: head.number - 1)


def truncate_beyond_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: lo ≤ H."""
    _limited(patch, lambda horizon, log, head: min(log.applied, head.number - 1))


def truncate_the_last_record(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: lo < head."""

    def newest(store: RecordStore, horizon: Horizon, age_s: float) -> int:
        return store.log.applied

    patch.setattr(collection, "_newest_unneeded", newest)
    _limited(patch, lambda horizon, log, head: min(horizon.horizon, log.applied, head.number))


def truncate_without_packs(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: write the pack."""
    patch.setattr(truncation, "_pack", lambda log, first, last, largest_bytes: log.store.record(last))


def delete_before_the_boundary(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: raise lo, then delete."""
    sound = truncation._pack

    def pack(log: SequenceLog, first: int, last: int, largest_bytes: int) -> LogRecord | None:
        packed = sound(log, first, last, largest_bytes)
        if packed is not None:
            truncation._sweep(log, packed.number)
        return packed

    patch.setattr(truncation, "_pack", pack)


def collect_what_is_not_applied(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: H ≤ A."""
    patch.setattr(
        collection,
        "_newest_unneeded",
        lambda store, horizon, age_s: max(horizon.horizon, store.log.head().number - 1),
    )


def delete_entries_before_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: raise H first."""
    raise_horizon, truncate = SequenceStore.raise_horizon, collection.truncate
    waiting: dict[int, Horizon] = {}

    def later(self: SequenceStore, wanted: Horizon) -> Horizon:
        if not wanted.horizon:
            return raise_horizon(self, wanted)
        waiting[id(self)] = wanted
        return replace(self.horizon(), horizon=wanted.horizon)

    def now(log: SequenceLog, **options: Any) -> Any:
        if id(log.store) in waiting:
            raise_horizon(log.store, waiting.pop(id(log.store)))
        return truncate(log, **options)

    patch.setattr(SequenceStore, "raise_horizon", later)
    patch.setattr(collection, "truncate", now)


def collect_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: only where record H + 1 is older than R."""
    sound = collection._newest_unneeded
    patch.setattr(
        collection, "_newest_unneeded", lambda store, horizon, before_ms: sound(store, horizon, 1 << 62)
    )


def prune_what_is_still_seen(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: keep the newest up to H."""

    def pruned(self: Row, horizon: int) -> tuple[Row, tuple[Version, ...]]:
        kept = tuple(version for version in self.versions if version.seq > horizon)
        if not kept or len(kept) == len(self.versions):
            return self, ()
        return replace(self, versions=kept, cut=kept[-1].seq), self.versions[len(kept) :]

    patch.setattr(Row, "pruned", pruned)


def prune_without_a_mark(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: with `cut`."""
    sound = Row.pruned

    def pruned(self: Row, horizon: int) -> tuple[Row, tuple[Version, ...]]:
        row, dropped = sound(self, horizon)
        return replace(row, cut=0), dropped

    patch.setattr(Row, "pruned", pruned)


def sweep_above_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 24: none above H."""
    sound = collection._old_entries
    patch.setattr(
        collection,
        "_old_entries",
        lambda store, layout, horizon, damaged: sound(store, layout, store.log.head().number, damaged),
    )


def sweep_nothing(patch: pytest.MonkeyPatch) -> None:
    """Rule 24: sweep what rows lack."""
    patch.setattr(collection, "_old_entries", lambda store, layout, horizon, damaged: [])


# -- locks, unique values, indices


def trust_locks(patch: pytest.MonkeyPatch) -> None:
    """Rule 25: 13 always runs."""
    sound = Open._must_stand

    def must_stand(self: Open, others: Any, **options: Any) -> None:
        if self._locks is None:
            sound(self, others, **options)

    patch.setattr(Open, "_must_stand", must_stand)


def end_locks_by_the_own_clock(patch: pytest.MonkeyPatch) -> None:
    """Rule 25: by the store's clock."""
    patch.setattr(SequenceStore, "now_ms", lambda self: self.clock.now_ms())


def lock_without_a_probe(patch: pytest.MonkeyPatch) -> None:
    """Rule 25: then probe, and fail at once if the row moved."""

    def lock(self: Open, key: validation.RowKey) -> None:
        if self._locks is not None:
            self._locks.take(self._at.table(key[0]).layout, key[1])

    patch.setattr(Open, "_lock", lock)


def look_for_no_holder(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: find each new value at the snapshot."""
    patch.setattr(RecordSnapshot, "holders", lambda *_: set())


def claim_nothing(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: claim it in the record."""
    sound = transaction.claims_of

    def claims_of(*args: Any) -> tuple[str, ...]:
        sound(*args)
        return ()

    patch.setattr(transaction, "claims_of", claims_of)


def claim_first_elements_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: claim each new element of a list."""
    sound = uniqueness._indexed
    patch.setattr(uniqueness, "_indexed", lambda *args: sound(*args)[:1])


def enter_first_elements_only(patch: pytest.MonkeyPatch) -> None:
    """An index of elements has an entry for each."""
    sound = Documents.index_values
    patch.setattr(Documents, "index_values", lambda *args, **options: sound(*args, **options)[:1])


def build_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: wait for A ≥ d1."""
    patch.setattr(indexes, "wait_until_applied", lambda store, number: None)


def build_without_filling(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: LIST rows and put entries."""
    patch.setattr(indexes, "backfill", lambda *args, **options: 0)


def fill_the_newest_versions_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: for all retained versions."""
    sound = RecordStore.rows
    backfill = indexes.backfill

    def filled(store: RecordStore, *args: Any, **options: Any) -> int:
        patched = RecordStore.rows
        RecordStore.rows = lambda self, keys: [replace(r, versions=r.versions[:1]) for r in sound(self, keys)]  # type: ignore[method-assign]
        try:
            return backfill(store, *args, **options)
        finally:
            RecordStore.rows = patched  # type: ignore[method-assign]

    patch.setattr(indexes, "backfill", filled)


def enter_ready_indices_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: writers after d1 add entries."""
    sound = Open._written_table

    def table(self: Open, name: str, catalog: Catalog) -> Table:
        found = sound(self, name, catalog)
        fields = {field: index for field, index in found.state.fields.items() if index.stage == "ready"}
        return replace(found, state=replace(found.state, fields=fields))

    patch.setattr(Open, "_written_table", table)


def use_an_index_while_it_is_built(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: use it from d2 on."""
    from firn.journal.sequence import catalog

    sound = catalog.changed

    def changed(definitions: Any, ddl: Any, number: int) -> Any:
        built = sound(definitions, ddl, number)
        if ddl.verb != "build":
            return built
        table = built[ddl.table]
        index = replace(table.fields[ddl.field], stage="ready", ready=number)
        return {**built, ddl.table: replace(table, fields={**table.fields, ddl.field: index})}

    patch.setattr(catalog, "changed", changed)


def believe_that_all_was_claimed(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: who is older than the index looks at what was written, too."""
    patch.setattr(uniqueness, "_unclaimed", lambda snapshot, table, others: ())


def end_a_build_without_a_look_back(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: at what was written since the look at all rows."""
    patch.setattr(indexes._Ready, "_check", lambda self, members, table: None)


def end_any_build(patch: pytest.MonkeyPatch) -> None:
    """Rule 27: of that very d1."""
    from firn.journal.sequence import catalog

    sound = catalog.changed
    for module in (catalog, definitions):
        patch.setattr(
            module, "changed", lambda before, ddl, number: sound(before, replace(ddl, built=0), number)
        )
