"""Each rule of the log of record tables, left out: objects, beginning, committing. See `records_mutations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from firn.errors import ObjectExistsError, OutcomeUnknownError, StoreUnavailableError
from firn.journal.sequence import (
    Catalog,
    Head,
    Horizon,
    LogRecord,
    LogTransaction,
    SequenceLog,
    log,
    opening,
    proposal,
    truncation,
)
from firn.journal.sequence.codec import encode_horizon, encode_pack, encode_record
from firn.journal.sequence.model import Pack
from firn.journal.sequence.opening import OpenedLog, Probed, open_log
from firn.journal.sequence.store import SequenceStore
from firn.records.maintain import collection
from firn.records.names.layout import RecordLayout
from firn.records.objects.staged import staged_ref
from firn.records.objects.store import RecordStore, Table
from firn.records.read.snapshot import SeenRow
from firn.records.write import transaction, uniqueness, validation, writes
from firn.records.write.transaction import Transaction as Open

Mutation = Callable[[pytest.MonkeyPatch], None]

FIRST = 8
"""The commit with the first rows."""


# -- objects


def say_that_all_is_applied(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: all up to A are applied."""
    sound = SequenceLog.next_record

    def next_record(self: SequenceLog, head: Head, group: Any) -> LogRecord:
        return replace(sound(self, head, group), applied=head.number, done=())

    patch.setattr(SequenceLog, "next_record", next_record)


def forget_what_is_done_above(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: what is done above A has no holes below."""
    sound = SequenceLog._learn_applied

    def learn(self: SequenceLog, applied: int, done: Any) -> None:
        sound(self, max([applied, *done]), ())

    patch.setattr(SequenceLog, "_learn_applied", learn)


def stage_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: large bodies are staged first."""
    commit = Open.commit

    def name_only(self: writes.Buffer, store: RecordStore, inline: Mapping[str, int]) -> None:
        self.late = (store, [])  # type: ignore[attr-defined]
        for n, (key, write) in enumerate(self._writes.items()):
            if write.body is not None and len(write.body) > inline[write.table]:
                ref = staged_ref(self._txid, n, write.body)
                self.late[1].append((store.log.store.layout.body_key(ref), write.body))  # type: ignore[attr-defined]
                self._writes[key] = replace(write, ref=ref)

    def committed(self: Open) -> int:
        number = commit(self)
        if self._writes:
            store, bodies = self._writes.late  # type: ignore[attr-defined]
            for key, body in bodies:
                store.bucket.put(key, body)
        return number

    patch.setattr(writes.Buffer, "stage", name_only)
    patch.setattr(Open, "commit", committed)


def set_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: fields are only raised, by If-Match."""

    def raise_horizon(self: SequenceStore, wanted: Horizon) -> Horizon:
        found = self.horizon()
        changed = Horizon(
            wanted.horizon or found.horizon, wanted.lo or found.lo, wanted.applied or found.applied
        )
        self.bucket.put(self.layout.horizon_key, encode_horizon(changed))
        return changed

    patch.setattr(SequenceStore, "raise_horizon", raise_horizon)


def put_packs_over_one_another(patch: pytest.MonkeyPatch) -> None:
    """Rules 3 and 22: put-if-absent, and adopt the `hi` of the pack that is there."""

    def pack(log: SequenceLog, first: int, last: int, largest_bytes: int) -> LogRecord | None:
        records = log.store.records(range(first, last + 1))
        if len(records) <= last - first:
            return None
        log.store.bucket.put(
            log.store.layout.pack_key(first), encode_pack(Pack(tuple(records[n] for n in sorted(records))))
        )
        return records[last]

    patch.setattr(truncation, "_pack", pack)


def delete_rows(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: never, as a stalled applier would bring them back."""
    sound = collection._prune

    def prune(
        store: RecordStore, layout: RecordLayout, id: str, horizon: int, written: int, dry_run: bool
    ) -> tuple[int, int]:
        done = sound(store, layout, id, horizon, written, dry_run)
        row = store.row(layout, id).row
        if len(row.versions) == 1 and row.versions[0].deleted and row.newest <= horizon:
            store.bucket.delete(layout.row(id))
        return done

    patch.setattr(collection, "_prune", prune)


def use_entries_again(patch: pytest.MonkeyPatch) -> None:
    """Rule 5: entries end in their version's number."""
    sound = RecordLayout.entry_of_stem
    patch.setattr(RecordLayout, "entry_of_stem", lambda self, stem, seq: sound(self, stem, FIRST))


# -- begin


def never_ask_for_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rules 6 and 17: what is beyond a truncated log is no record."""
    patch.setattr(SequenceLog, "is_ghost", lambda self, known, number: False)


def ask_for_the_horizon_first(patch: pytest.MonkeyPatch) -> None:
    """Rule 6: probe, then the horizon."""

    def refresh(self: SequenceLog, *, taken: int = 0, far: int | None = None) -> Head:
        while True:
            known = self._known()
            if known is None:
                opened = open_log(self.store, 0, self.now_s)
                if opened is not None:
                    return self._replace(opened)
                continue
            if not self.is_ghost(known, known.number + 1):
                probed = self._probe(known.number)
                return self._adopt(probed.records, probed.began_s or 0.0)

    patch.setattr(SequenceLog, "refresh", refresh)


def use_what_was_probed_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: only after the horizon was asked for."""
    sound = SequenceLog._probe

    def probe(self: SequenceLog, known: int, **options: Any) -> Probed:
        found = sound(self, known, **options)
        if self._head is not None and found.began_s is not None:
            self._adopt(found.records, found.began_s)
        return found

    patch.setattr(SequenceLog, "_probe", probe)


def judge_a_snapshot_by_the_newest_head(patch: pytest.MonkeyPatch) -> None:
    """Rule 8: capture head and time together."""
    sound = SequenceLog.is_fresh

    def is_fresh(self: SequenceLog, head: Head) -> bool:
        return sound(self, self._head or head)

    patch.setattr(SequenceLog, "is_fresh", is_fresh)


def validate_by_the_time_of_the_answer(patch: pytest.MonkeyPatch) -> None:
    """Rule 8: the time before the probe was sent."""
    sound = log.probe

    def probe(store: SequenceStore, known: int, now_s: Callable[[], float], **options: Any) -> Probed:
        found = sound(store, known, now_s, **options)
        return found if found.began_s is None else replace(found, began_s=now_s())

    for module in (log, opening):
        patch.setattr(module, "probe", probe)


def open_without_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: GET the horizon last, and begin again if the greatest number was truncated."""

    def opened(store: SequenceStore, behind: int, now_s: Callable[[], float]) -> OpenedLog | None:
        class Blind(SequenceStore):
            def horizon(self) -> Horizon:
                return replace(super().horizon(), lo=0)

        return open_log(Blind(store.bucket, store.layout, store.clock), behind, now_s)

    patch.setattr(log, "open_log", opened)


def open_with_an_old_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: last, not first."""

    def opened(store: SequenceStore, behind: int, now_s: Callable[[], float]) -> OpenedLog | None:
        old = store.horizon()

        class First(SequenceStore):
            def horizon(self) -> Horizon:
                return old

        return open_log(First(store.bucket, store.layout, store.clock), behind, now_s)

    patch.setattr(log, "open_log", opened)


def take_what_is_applied_for_the_end(patch: pytest.MonkeyPatch) -> None:
    """Rule 9: look behind it, and for all that isn't applied."""

    def opened(store: SequenceStore, behind: int, now_s: Callable[[], float]) -> OpenedLog | None:
        found = open_log(store, behind, now_s)
        return found and replace(found, records=[])

    patch.setattr(log, "open_log", opened)


# -- catalogs


def refer_to_a_catalog_that_has_changed(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: a record refers to another only if no definition was changed since."""
    patch.setattr(LogRecord, "base_after", property(lambda self: self.base or self.number))


def truncate_a_catalog_that_is_needed(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: the horizon has the catalog that records refer to which stay."""
    patch.setattr(truncation, "is_large", lambda catalog, whole_bytes: False)


def take_any_catalog_of_the_horizon(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: only for a record that is behind what was truncated."""

    def catalog(self: SequenceStore, base: int, number: int) -> Catalog:
        found = self.record(base)
        return found.catalog if found is not None else self.horizon().catalog or {}

    patch.setattr(SequenceStore, "_catalog", catalog)


# -- commit


def forget_own_commits(patch: pytest.MonkeyPatch) -> None:
    """Rule 13: own txid → it had succeeded."""
    patch.setattr(proposal, "find", lambda txid, records: None)


def overwrite_others(patch: pytest.MonkeyPatch) -> None:
    """Rule 13: overlapping writes."""
    sound = transaction.conflict
    patch.setattr(
        transaction,
        "conflict",
        lambda footprint, others, matches, *, serializable: sound(
            validation.Footprint(footprint.reads, footprint.predicates),
            others,
            matches,
            serializable=serializable,
        ),
    )


def ignore_claims(patch: pytest.MonkeyPatch) -> None:
    """Rules 13 and 26: a claimed unique value."""
    patch.setattr(uniqueness, "check_claims", lambda claims, others: None)


def forget_reads(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: ids read."""
    sound = transaction.conflict
    patch.setattr(
        transaction,
        "conflict",
        lambda footprint, others, matches, *, serializable: sound(
            validation.Footprint(set(), footprint.predicates, footprint.writes),
            others,
            matches,
            serializable=serializable,
        ),
    )


def forget_predicates(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: predicates, against new bodies."""
    sound = transaction.conflict
    patch.setattr(
        transaction,
        "conflict",
        lambda footprint, others, matches, *, serializable: sound(
            validation.Footprint(footprint.reads, [], footprint.writes),
            others,
            matches,
            serializable=serializable,
        ),
    )


def forget_misses(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: misses too."""
    sound = Open._read

    def read(self: Open, table: Table, id: str) -> SeenRow | None:
        seen = sound(self, table, id)
        if seen is None:
            self._footprint.reads.discard((table.name, id))
        return seen

    patch.setattr(Open, "_read", read)


def admit_all_into_a_group(patch: pytest.MonkeyPatch) -> None:
    """Rule 15: against the earlier members."""
    sound = proposal.Moment
    patch.setattr(proposal, "Moment", lambda head, since, earlier, *shared: sound(head, since, (), *shared))


def use_the_indices_of_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: take the definitions afresh."""
    patch.setattr(Open, "_written_table", lambda self, name, catalog: self._at.table(name))


def check_at_the_first_attempt_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: re-check at every attempt."""
    sound = Open.admit

    def admit(self: Open, moment: Any) -> LogTransaction:
        if not hasattr(self, "_admitted"):
            self._admitted = sound(self, moment)  # type: ignore[attr-defined]
        return self._admitted  # type: ignore[attr-defined, no-any-return]

    patch.setattr(Open, "admit", admit)


def acknowledge_ghosts(patch: pytest.MonkeyPatch) -> None:
    """Rule 17: the horizon after the PUT."""
    patch.setattr(proposal, "_counts", lambda log, head, record: True)


def go_on_at_the_next_number(patch: pytest.MonkeyPatch) -> None:
    """Rule 18: after an unknown outcome the same number."""

    def put(log: SequenceLog, record: LogRecord) -> float | None:
        sent_s = log.now_s()
        while True:
            try:
                key = log.store.layout.record_key(record.number)
                log.store.bucket.put_if_absent(key, encode_record(record))
                return sent_s
            except ObjectExistsError:
                return None
            except OutcomeUnknownError:
                record = replace(record, number=record.number + 1)

    patch.setattr(proposal, "_put", put)


def give_up_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    """Rules 18 and 19: an unanswered commit hasn't failed."""

    def put(log: SequenceLog, record: LogRecord) -> float | None:
        sent_s = log.now_s()
        try:
            log.store.bucket.put_if_absent(log.store.layout.record_key(record.number), encode_record(record))
        except ObjectExistsError:
            return None
        except OutcomeUnknownError as error:
            raise StoreUnavailableError("failed") from error
        return sent_s

    patch.setattr(proposal, "_put", put)


def report_failures_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 19: settle every attempted number first."""
    patch.setattr(proposal, "_settled", lambda log, txid, sent, error: error)
