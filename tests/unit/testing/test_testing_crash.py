"""crash_points: each call, each mode, and no point that proves nothing."""

from __future__ import annotations

import uuid

import pytest

from firn.errors import ObjectExistsError, OutcomeUnknownError
from firn.testing import CrashPoint, GatedBucket, SimStore, SimulationFailure, crash_points


def _setup() -> SimStore:
    store = SimStore()
    store.bucket().put("old", b"0")
    return store


def _commit(bucket: GatedBucket) -> None:
    name = uuid.uuid4().hex
    bucket.get("old")
    bucket.put(f"data/{name}", b"rows")
    bucket.put_if_absent("log/1", name.encode())
    bucket.delete("old")


def _names_only_what_exists(store: SimStore, _point: CrashPoint) -> None:
    for name in store.contents("log/").values():
        assert f"data/{name.decode()}" in store


def test_it_visits_every_call_in_every_mode_once() -> None:
    seen: list[tuple[int, str, str]] = []
    left: dict[tuple[int, str], set[str]] = {}

    def check(store: SimStore, point: CrashPoint) -> None:
        assert point.calls == 4
        seen.append((point.call, point.mode, point.verb))
        left[point.call, point.mode] = {key.partition("/")[0] for key in store.contents()}
        _names_only_what_exists(store, point)

    assert crash_points(_setup, _commit, check) == 14
    verbs = ["get", "put", "put_if_absent", "delete"]
    assert seen == [
        (i, mode, verb)
        for i, verb in enumerate(verbs)
        for mode in ("before", "after", "lost_ack", "retried")
        if verb != "get" or mode in ("before", "after")
    ]
    assert left[1, "before"] == left[0, "after"] == {"old"}
    assert left[1, "after"] == left[2, "before"] == {"old", "data"}
    assert left[2, "after"] == left[3, "before"] == {"old", "data", "log"}
    assert left[2, "lost_ack"] == left[2, "retried"] == {"old", "data", "log"}
    assert left[3, "after"] == left[3, "retried"] == {"data", "log"}


def test_the_state_is_fresh_at_each_point_and_the_check_may_go_on() -> None:
    def check(store: SimStore, _point: CrashPoint) -> None:
        for key in store.keys("log/"):
            store.bucket().delete(key)
        if "old" not in store:
            store.bucket().put("old", b"0")
        _commit(store.bucket())
        assert store.keys("log/") == ["log/1"]

    assert crash_points(_setup, _commit, check, modes=("before", "after", "failed")) == 12


def test_the_wrong_order_of_puts_is_caught_at_its_point() -> None:
    def log_first(bucket: GatedBucket) -> None:
        bucket.put("log/1", b"x")
        bucket.put("data/x", b"rows")

    with pytest.raises(SimulationFailure, match="after at call 0 of 2, put log/1"):
        crash_points(_setup, log_first, _names_only_what_exists)


def test_recovering_from_a_lost_answer_may_take_more_calls() -> None:
    def careful(bucket: GatedBucket) -> None:
        try:
            bucket.put_if_absent("log/1", b"mine")
        except (OutcomeUnknownError, ObjectExistsError):
            assert bucket.get("log/1").data == b"mine"
        bucket.put("done", b"")

    def check(store: SimStore, point: CrashPoint) -> None:
        if point.mode in ("lost_ack", "retried") and point.call == 0:
            assert "done" in store

    assert crash_points(SimStore, careful, check) == 8


def test_an_operation_whose_calls_differ_from_run_to_run_is_refused() -> None:
    runs = []

    def unstable(bucket: GatedBucket) -> None:
        runs.append(1)
        bucket.get("old")
        if len(runs) != 4:
            bucket.put("a", b"")
        bucket.delete("b")

    with pytest.raises(SimulationFailure, match="isn't stable, so before at call 1"):
        crash_points(_setup, unstable, lambda _store, _point: None)


def test_an_operation_that_makes_fewer_calls_is_refused() -> None:
    runs = []

    def shrinking(bucket: GatedBucket) -> None:
        runs.append(1)
        for i in range(3 if len(runs) == 1 else 1):
            bucket.put(f"{i}", b"")

    with pytest.raises(SimulationFailure, match="isn't stable"):
        crash_points(_setup, shrinking, lambda _store, _point: None)


def test_an_error_that_is_not_of_firn_is_a_bug_of_the_operation() -> None:
    def clumsy(bucket: GatedBucket) -> None:
        try:
            bucket.put("a", b"")
        except OutcomeUnknownError:
            raise KeyError("a") from None

    with pytest.raises(SimulationFailure, match="the operation raised KeyError, lost_ack at call 0"):
        crash_points(_setup, clumsy, lambda _store, _point: None)


def test_last_words_of_a_dead_process_do_not_count() -> None:
    def talkative(bucket: GatedBucket) -> None:
        try:
            bucket.put("a", b"")
        finally:
            raise ValueError("cleaning up failed")

    with pytest.raises(ValueError, match="cleaning up"):
        crash_points(_setup, talkative, lambda _store, _point: None)

    def talks_when_dying(bucket: GatedBucket) -> None:
        try:
            bucket.put("a", b"")
        except BaseException:
            raise ValueError("cleaning up failed") from None

    ignore = lambda _store, _point: None  # noqa: E731
    assert crash_points(_setup, talks_when_dying, ignore, modes=("before", "after")) == 2


def test_a_real_bucket_is_set_up_anew_for_each_point() -> None:
    buckets = []

    def setup() -> GatedBucket:
        buckets.append(_setup().bucket())
        return buckets[-1]

    def check(bucket: GatedBucket, point: CrashPoint) -> None:
        assert bucket is buckets[-1]
        there = [o.key for o in bucket.list("log/").objects]
        committed = point.call == 3 or (point.call == 2 and point.mode != "before")
        assert there == (["log/1"] if committed or (point.call, point.mode) == (1, "retried") else [])

    assert crash_points(setup, _commit, check) == 14
    # The first is the template; the unharmed run has one of its own, as each point has.
    assert len(buckets) == 16
