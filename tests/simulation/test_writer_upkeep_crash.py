"""Pruning, collecting and repairing a writer's catalog, struck at every request they make: run again, each ends its
work, nothing committed is lost, and no retained revision loses a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from unittest.mock import patch

import pytest

from firn.errors import FirnError, HandleClosedError, OutcomeUnknownError
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.unclaimed.repair import repair
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, SimulationFailure, crash_points
from simulation import writer_mutations as without
from simulation.writer_catalog import LAYOUT, handle_of, history_of
from simulation.writer_upkeep import (
    Change,
    check_copies,
    data_of,
    inlined,
    paths_of,
    readable,
    retained,
    rows_of,
    second_copies,
    told,
)

pytestmark = pytest.mark.long

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
HOUR = 3600 * 1000
KINDS = (
    Change.append,
    Change.append,
    Change.merge,
    Change.append,
    Change.remove,
    Change.merge,
    Change.append,
)
WITH_ROWS = (
    Change.inline,
    Change.append,
    Change.merge,
    Change.inline,
    Change.inline,
    Change.remove,
    Change.append,
)
"""The floor of what follows has rows in the catalog; the first of them were folded."""


def _grown(store: SimStore, kinds: Sequence[Callable[[Change], Change]], first: int) -> SimStore:
    store = store.copy()
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    for number, kind in enumerate(kinds, first):
        store.time.advance(HOUR)
        kind(Change(bucket, handle, number)).commit()
    return store


@cache
def _filled(claims: bool, checkpoints: tuple[int, ...], rows: bool = False) -> SimStore:
    """Seven commits of all kinds, with these checkpoints."""
    store = _grown(SimStore(conditional_put=claims), WITH_ROWS if rows else KINDS, 1)
    for revision in checkpoints:
        assert add_checkpoint(history_of(store.bucket()), revision) is not None
    return store


@cache
def _forked(claims: bool, longer: int, shorter: int) -> tuple[SimStore, str, str]:
    """A fork of two sides with so many commits, and the uuids of their first. The longer one has a checkpoint if
    it has more than one; with claims, the shorter one has been committed by them."""
    shared = (
        SimStore(conditional_put=False) if claims else _grown(SimStore(conditional_put=False), KINDS[:2], 1)
    )
    one = _grown(shared, (KINDS[2:] + KINDS)[:longer], 10)
    if longer > 1:
        assert add_checkpoint(history_of(one.bucket())) is not None
    store = _grown(SimStore(conditional_put=True) if claims else shared, KINDS[:shorter], 20)
    first = 1 if claims else 3
    uuids = [history_of(side.bucket()).at(first).head.uuid or "" for side in (one, store)]
    for key, data in one.contents().items():
        if key not in store:
            store.write(key, data)
    store.remove(LAYOUT.hint_key)
    fork = history_of(store.bucket()).load().fork
    assert fork is not None and (fork.revision, fork.hard) == (first, longer > 1)
    return store, uuids[0], uuids[1]


def _states(store: SimStore) -> dict[int, CatalogState]:
    return dict(readable(store.bucket()))


def _whole(store: SimStore) -> None:
    """No retained revision has lost a file."""
    there = data_of(store)
    for revision, paths in retained(store.bucket()).items():
        assert paths <= there, f"revision {revision} has lost files"


def _goes_on(store: SimStore) -> None:
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    head = Change(bucket, handle, 99).append().commit()
    assert history_of(store.bucket()).load().head == head


# -- prune


def _prune(bucket: GatedBucket) -> None:
    assert prune(history_of(bucket), older_than_ms=2 * HOUR).deleted


def _check_pruned(before: dict[int, CatalogState], floor: int) -> Callable[[SimStore, CrashPoint], None]:
    def check(store: SimStore, point: CrashPoint) -> None:
        shown = _states(store)
        assert shown.items() <= before.items(), "a revision shows something else"
        assert before.keys() - shown.keys() <= set(range(1, floor)), "a retained revision is gone"
        assert prune(history_of(store.bucket()), older_than_ms=2 * HOUR).floor == floor
        assert _states(store) == {revision: s for revision, s in before.items() if revision >= floor}
        revisions = [int(key.rpartition("/")[2][:20]) for key in store.keys(LAYOUT.transactions_prefix)]
        claims = [int(key.rpartition("/")[2]) for key in store.keys(LAYOUT.claims_prefix)]
        kept = min([floor, *(live.revision for _, live in inlined(before[floor]))])
        assert min(revisions) == floor and min(claims, default=kept) == kept
        check_copies(store)
        _goes_on(store)

    return check


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize(("checkpoints", "floor"), [((), 5), ((2, 5, 6), 5)])
@pytest.mark.parametrize("rows", [False, True])
def test_a_prune_struck_anywhere(claims: bool, checkpoints: tuple[int, ...], floor: int, rows: bool) -> None:
    store = _filled(claims, checkpoints, rows)
    check = _check_pruned(_states(store), floor)
    assert crash_points(store.copy, _prune, check, modes=MODES) > 40


def test_a_prune_that_drops_claims_of_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 22."""
    store = _filled(True, (), rows=True)
    without.prune_claims_of_rows(monkeypatch)
    with pytest.raises(SimulationFailure):
        crash_points(store.copy, _prune, _check_pruned(_states(store), 5), modes=("before",))


@cache
def _repaired() -> SimStore:
    """A history whose fork was decided against the longer side, and grew since."""
    forked, _, shorter = _forked(False, 4, 2)
    store = forked.copy()
    repair(store.bucket(), LAYOUT, shorter)
    return _grown(store, KINDS[:4], 30)


def test_a_prune_across_a_repaired_fork_struck_anywhere() -> None:
    store = _repaired()
    check = _check_pruned(_states(store), 9)
    assert crash_points(store.copy, _prune, check, modes=("before", "after")) > 60


@pytest.mark.parametrize("mutation", [without.prune_lost_branches_in_order])
def test_a_prune_that_cuts_a_branch_is_noticed(
    mutation: without.Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _repaired()
    check = _check_pruned(_states(store), 9)
    mutation(monkeypatch)
    with pytest.raises((SimulationFailure, FirnError)):
        crash_points(store.copy, _prune, check, modes=("before",))


def _stale(store: SimStore, claims: bool) -> Handle:
    """A handle of a process that has slept since the third revision."""
    history = history_of(store.bucket())
    history._version = CatalogVersion(history_of(_filled(claims, ()).bucket()).at(3).state)
    with patch.object(History, "load", lambda self: self._version):
        return Handle(history, clock=store.bucket().clock)


def _check_nobody_wins_the_past(store: SimStore, point: CrashPoint) -> None:
    """Rule 16: a pruned number can be won again, and whoever does notices."""
    handle = _stale(store, True)
    try:
        Change(store.bucket(), handle, 99).append().commit()
    except (HandleClosedError, OutcomeUnknownError):
        return
    raise AssertionError("somebody has won the past")


def test_nobody_wins_a_claim_of_the_past() -> None:
    store = _filled(True, ())
    assert crash_points(store.copy, _prune, _check_nobody_wins_the_past, modes=("before", "after")) > 40


def test_claims_that_are_pruned_from_above_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 22."""
    store = _filled(True, ())
    without.prune_claims_from_above(monkeypatch)
    with pytest.raises(SimulationFailure, match="won the past"):
        crash_points(store.copy, _prune, _check_nobody_wins_the_past, modes=("before",))


# -- collect


@cache
def _wasteful(claims: bool, rows: bool = False) -> SimStore:
    """A pruned history whose garbage is still there, and an orphan."""
    kinds = (*WITH_ROWS[:-1], Change.merge) if rows else KINDS
    store = _grown(SimStore(conditional_put=claims), (*kinds, *kinds), 1)
    bucket = store.bucket()
    Change(bucket, handle_of(bucket, bucket.clock), 98).append()
    store = _grown(store, WITH_ROWS[:2] if rows else KINDS[:2], 20)
    assert prune(history_of(store.bucket()), older_than_ms=0).floor == 15
    return store


def _collect(bucket: GatedBucket) -> None:
    assert collect(history_of(bucket), orphan_age_ms=0).data_files


def _check_collected(alive: set[str]) -> Callable[[SimStore, CrashPoint], None]:
    def check(store: SimStore, point: CrashPoint) -> None:
        _whole(store)
        check_copies(store)
        untold = (data_of(store) | second_copies(store)) - alive - told(store) - _orphans()
        assert not untold, f"rebuild would bring back {untold}"
        collect(history_of(store.bucket()), orphan_age_ms=0)
        assert data_of(store) == set().union(*retained(store.bucket()).values())
        _goes_on(store)

    return check


@cache
def _orphans() -> frozenset[str]:
    found: set[str] = set()
    for claims, rows in product((False, True), (False, True)):
        store = _wasteful(claims, rows)
        found.update(collect(history_of(store.bucket()), orphan_age_ms=0, dry_run=True).orphans)
    assert len(found) == 8
    return frozenset(found)


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_a_collection_struck_anywhere(claims: bool, rows: bool) -> None:
    store = _wasteful(claims, rows)
    state = history_of(store.bucket()).load().state
    alive = paths_of(state) | rows_of(state)
    assert crash_points(store.copy, _collect, _check_collected(alive), modes=MODES) > 60


@pytest.mark.parametrize("mutation", [without.collect_in_any_order])
def test_a_collection_out_of_order_is_noticed(
    mutation: without.Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 26."""
    store = _wasteful(False)
    alive = paths_of(history_of(store.bucket()).load().state)
    check = _check_collected(alive)
    _orphans()
    mutation(monkeypatch)
    with pytest.raises(SimulationFailure, match="rebuild would bring back"):
        crash_points(store.copy, _collect, check, modes=("before",))


def test_files_that_go_before_the_rows_that_they_replaced_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 26."""
    store = _wasteful(False, rows=True)
    state = history_of(store.bucket()).load().state
    check = _check_collected(paths_of(state) | rows_of(state))
    _orphans()
    without.collect_rows_last(monkeypatch)
    with pytest.raises(SimulationFailure, match="rebuild would bring back"):
        crash_points(store.copy, _collect, check, modes=("before",))


# -- repair


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("lengths", [(1, 1), (4, 2)])
@pytest.mark.parametrize("side", [1, 2])
def test_a_repair_struck_anywhere(claims: bool, lengths: tuple[int, int], side: int) -> None:
    forked = _forked(claims, *lengths)
    store, keep = forked[0], str(forked[side])
    before = history_of(store.bucket()).load()
    decided = store.copy()
    repair(decided.bucket(), LAYOUT, keep)
    after = history_of(decided.bucket()).load()

    def operation(bucket: GatedBucket) -> None:
        repair(bucket, LAYOUT, keep)

    def check(store: SimStore, point: CrashPoint) -> None:
        version = history_of(store.bucket()).load()
        assert version.state.tables in (before.state.tables, after.state.tables)
        repair(store.bucket(), LAYOUT, keep)
        assert history_of(store.bucket()).load().state == after.state
        _whole(store)
        _goes_on(store)

    assert crash_points(store.copy, operation, check, modes=MODES) > 25
