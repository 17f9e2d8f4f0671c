"""Commits and checkpoints of a writer's catalog, struck at every request they make."""

from __future__ import annotations

from functools import cache

import pytest

from firn.errors import HandleClosedError, OutcomeUnknownError
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, crash_points
from simulation.writer_catalog import LAYOUT, commit, handle_of, history_of, numbers

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")


@cache
def _filled(claims: bool, rows: bool = False) -> SimStore:
    """Three commits and a checkpoint of the second; of rows the last two."""
    store = SimStore(conditional_put=claims)
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    for number in (1, 2, 3):
        commit(handle, number, row=rows and number > 1)
        if number == 2:
            assert handle.checkpoint()
    return store


def _read(store: SimStore) -> CatalogState:
    """The catalog, which must read the same without its checkpoints."""
    bare = store.copy()
    for key in bare.keys(LAYOUT.root):
        if key.endswith(".checkpoint") or key == LAYOUT.hint_key:
            bare.remove(key)
    version = history_of(store.bucket()).load()
    assert version == history_of(bare.bucket()).load()
    assert version.fork is None
    return version.state


def _goes_on(store: SimStore, number: int) -> None:
    """The next process can commit; at the second try where it has to finish a claim first."""
    bucket = store.bucket()
    for last in (False, True):
        try:
            commit(handle_of(bucket, bucket.clock), number)
            break
        except HandleClosedError:
            assert not last
    assert number in numbers(_read(store)).values()


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_a_commit_struck_anywhere(claims: bool, empty: bool, rows: bool) -> None:
    """With `rows` it upgrades an empty catalog."""
    outcome: list[str] = []
    before = {} if empty else {1: 1, 2: 2, 3: 3}
    after = {1: 4} if empty else {1: 1, 2: 2, 3: 3, 4: 4}

    def operation(bucket: GatedBucket) -> None:
        outcome[:] = ["crashed"]
        handle = handle_of(bucket, bucket.clock)
        try:
            commit(handle, 4, row=rows)
            outcome[:] = ["done"]
        except OutcomeUnknownError:
            handle.settle()
            outcome[:] = ["done"]

    def check(store: SimStore, point: CrashPoint) -> None:
        shown = numbers(_read(store))
        assert shown in (before, after)
        if outcome == ["done"]:
            assert shown == after
        _goes_on(store, 5)
        finished = numbers(_read(store))
        assert before.items() <= finished.items() and shown.items() <= finished.items()

    def setup() -> SimStore:
        return SimStore(conditional_put=claims) if empty else _filled(claims, rows).copy()

    assert crash_points(setup, operation, check, modes=MODES) > 12


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("revision", [None, 1])
@pytest.mark.parametrize("rows", [False, True])
def test_a_checkpoint_struck_anywhere(claims: bool, revision: int | None, rows: bool) -> None:
    before = _read(_filled(claims, rows))

    def operation(bucket: GatedBucket) -> None:
        add_checkpoint(history_of(bucket), revision)

    def check(store: SimStore, point: CrashPoint) -> None:
        assert _read(store) == before
        for past in (1, 2, 3):
            assert history_of(store.bucket()).at(past).head.revision == past
        assert add_checkpoint(history_of(store.bucket()), revision) is not None
        _goes_on(store, 4)

    assert crash_points(lambda: _filled(claims, rows).copy(), operation, check, modes=MODES) > 12
