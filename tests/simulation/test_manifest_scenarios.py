"""Rules of the manifest that need several unlikely things at once: each a scenario that fails without its rule."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest

from firn.errors import FencedError, ObjectChangedError, SnapshotTooOldError
from firn.testing import Call, Fault, SimStore
from simulation import manifest_mutations as without
from simulation.manifest_table import BUFFER_S, L0_MIN_AGE_S, contents_of, create, journal_of, put_sst
from simulation.noticed import a_scenario_must_notice
from simulation.test_manifest_crash import collect, compact, flush


class Before:
    """A plan that has something happen just before the first call of a kind."""

    def __init__(self, verb: str, key: str, action: Callable[[], object]) -> None:
        self.verb, self.key, self.action, self.done = verb, key, action, False

    def decide(self, call: Call) -> Fault | None:
        if not self.done and call.verb == self.verb and fnmatchcase(call.key, self.key):
            self.done = True
            self.action()
        return None


def _table() -> SimStore:
    store = SimStore()
    bucket = store.bucket()
    create(bucket, bucket.clock)
    flush(bucket)
    return store


def _merge(store: SimStore) -> None:
    """All SSTs and L0 into one, and the old ones are garbage."""
    bucket = store.bucket()
    flush(bucket)
    journal = journal_of(bucket, bucket.clock)
    view = journal.read()
    entries = list(enumerate(contents_of(journal, view)))
    session = journal.open_compactor()
    old = session.view.manifest.ssts
    session.commit(adds=[put_sst(session, 1, 99, entries)], deletes=old, last_compacted=session.view.last_l0)


def late_fence_in_the_place_of_a_swept_flush() -> None:
    store = _table()
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    view = journal.read()
    before = contents_of(journal, view)
    compact(bucket)
    bucket.clock.sleep(L0_MIN_AGE_S + 1)
    collect(bucket)
    bucket.put(view.l0[-1].key, b"")
    bucket.put(view.l0[0].key, b"")
    assert journal.restarting(view, lambda chosen: contents_of(journal, chosen))[1] == before


def two_compactors_at_once() -> None:
    store = _table()
    others = []
    other = journal_of(store.bucket(), store.bucket().clock)
    plan = Before("put_if_match", "*", lambda: others.append(other.open_compactor()))
    bucket = store.bucket(plan=plan)
    session = journal_of(bucket, bucket.clock).open_compactor()
    assert session.epoch != others[0].epoch


def snapshot_of_a_view_that_has_passed() -> None:
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    view = journal.read()
    _merge(store)
    collect(store.bucket())
    with pytest.raises(ObjectChangedError):
        journal.snapshot(view)


def refresh_of_a_snapshot_that_goes() -> None:
    store = _table()
    bucket = store.bucket()
    ref = journal_of(bucket, bucket.clock).snapshot()
    other = journal_of(store.bucket(), bucket.clock)

    plan = Before("put_if_match", "*/snapshots/*", lambda: other.delete_snapshot(ref))
    plain = Before("put", "*/snapshots/*", lambda: other.delete_snapshot(ref))

    class Either:
        def decide(self, call: Call) -> Fault | None:
            return plan.decide(call) or plain.decide(call)

    struck = store.bucket(plan=Either())
    with pytest.raises(SnapshotTooOldError):
        journal_of(struck, struck.clock).refresh_snapshot(ref, None)


def _refreshed_before(verb: str) -> None:
    """An expired snapshot is refreshed just before a collector's call: it stays readable, or the refresh fails."""
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    ref = journal.snapshot(expires_ms=bucket.clock.now_ms())
    before = contents_of(journal, journal.view_of(ref))
    _merge(store)
    refreshed: list[bool] = []

    def refresh() -> None:
        try:
            journal.refresh_snapshot(ref, None)
            refreshed.append(True)
        except SnapshotTooOldError:
            refreshed.append(False)

    collect(store.bucket(plan=Before(verb, "*/snapshots/*", refresh)))
    if refreshed == [True]:
        assert contents_of(journal, journal.view_of(ref)) == before


def refreshed_before_the_tombstone() -> None:
    _refreshed_before("put_if_match")


def refreshed_before_the_delete() -> None:
    _refreshed_before("delete")


def swept_before_the_list() -> None:
    store = _table()
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    before = contents_of(journal, journal.read())

    def compact_and_sweep() -> None:
        compact(store.bucket())
        bucket.clock.sleep(L0_MIN_AGE_S + 1)
        collect(store.bucket())

    slow = store.bucket(plan=Before("list", "*l0/*", compact_and_sweep))
    reader = journal_of(slow, slow.clock)
    assert contents_of(reader, reader.read()) == before


def read_while_it_is_replaced() -> None:
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    bucket.clock.sleep(L0_MIN_AGE_S + 1)
    flush(store.bucket())
    journal = journal_of(bucket, bucket.clock)
    view = journal.read()
    before = contents_of(journal, view)
    _merge(store)
    collect(store.bucket())
    assert contents_of(journal, view) == before


def copied_just_before_it_expires() -> None:
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    ref = journal.snapshot(expires_ms=bucket.clock.now_ms())
    before = contents_of(journal, journal.view_of(ref))
    _merge(store)
    bucket.clock.sleep(L0_MIN_AGE_S + 1)  # or what was replaced would be spared
    copies = []
    plan = Before("put_if_match", "*/snapshots/*", lambda: copies.append(journal.snapshot(like=ref)))
    collect(store.bucket(plan=plan))
    assert contents_of(journal, journal.view_of(copies[0])) == before


def taken_just_before_the_pointer_is_read() -> None:
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    before = contents_of(journal, journal.read())
    taken = []

    def keep_and_merge() -> None:
        taken.append(journal.snapshot())
        _merge(store)
        bucket.clock.sleep(L0_MIN_AGE_S + 1)  # or what was replaced would be spared

    collect(store.bucket(plan=Before("put", "*clock", keep_and_merge)))
    assert contents_of(journal, journal.view_of(taken[0])) == before


def fence_that_a_zombie_still_needs() -> None:
    store = _table()
    bucket = store.bucket()
    zombie = journal_of(bucket, bucket.clock).open_writer()
    flush(store.bucket())
    compact(store.bucket())
    collect(store.bucket())
    with pytest.raises(FencedError):
        zombie.put_l0(zombie.start, b"late")
        zombie.confirm(zombie.start)


def collector_whose_clock_is_ahead() -> None:
    store = _table()
    compact(store.bucket())
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    ref = journal.snapshot(expires_ms=bucket.clock.now_ms() + 30_000)
    before = contents_of(journal, journal.view_of(ref))
    _merge(store)
    ahead = store.bucket(skew_ms=60_000)
    journal_of(ahead, ahead.clock).collect(l0_min_age_s=L0_MIN_AGE_S, buffer_s=BUFFER_S)
    assert contents_of(journal, journal.view_of(ref)) == before


SCENARIOS = [
    (without.no_buffer_for_skew, collector_whose_clock_is_ahead),
    (without.take_a_fence_for_a_flush, late_fence_in_the_place_of_a_swept_flush),
    (without.believe_an_unanswered_epoch, two_compactors_at_once),
    (without.snapshot_without_a_second_look, snapshot_of_a_view_that_has_passed),
    (without.refresh_by_a_plain_put, refresh_of_a_snapshot_that_goes),
    (without.take_a_refreshed_one_for_dead, refreshed_before_the_tombstone),
    (without.expire_without_a_tombstone, refreshed_before_the_delete),
    (without.list_after_the_pointer, swept_before_the_list),
    (without.forget_what_was_replaced, read_while_it_is_replaced),
    (without.list_snapshots_once, copied_just_before_it_expires),
    (without.snapshots_before_the_lists, taken_just_before_the_pointer_is_read),
    (without.collect_l0_at_once, fence_that_a_zombie_still_needs),
]


@pytest.mark.parametrize(("mutation", "scenario"), SCENARIOS, ids=lambda value: value.__name__)
def test_a_scenario_notices(
    mutation: without.Mutation, scenario: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_scenario_must_notice(mutation, scenario, monkeypatch)
