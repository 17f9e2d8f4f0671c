"""Faults and interleavings over a bucket that isn't simulated by this world."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from counting import count_by_swapping, count_once
from firn.bucket.base import Bucket
from firn.bucket.local import LocalBucket
from firn.errors import (
    InvalidInputError,
    ObjectChangedError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.testing import (
    CRASH_AFTER,
    CRASH_BEFORE,
    FAILED,
    LOST,
    LOST_ACK,
    Crashed,
    CrashPoint,
    FaultBucket,
    GatedBucket,
    InterleavedBucket,
    RandomFaults,
    Rule,
    Script,
    SimClient,
    SimStore,
    SimulationFailure,
    World,
    crash_points,
    delayed,
)
from firn.testing.store import START_MS
from firn.testing.world import Program


def _inner() -> Bucket:
    """Stands for a real bucket: it is used through the protocol only."""
    return SimStore(start_ms=0, url="real://bucket").bucket()


def _directories(tmp_path: Path) -> Iterator[Bucket]:
    return (LocalBucket(tmp_path / str(i)) for i in itertools.count())


def test_it_is_the_inner_bucket_where_nothing_fails() -> None:
    inner = _inner()
    bucket: Bucket = FaultBucket(inner)
    etag = bucket.put("d/a", b"hello")
    assert inner.get("d/a").data == bucket.get("d/a").data == b"hello"
    assert bucket.head("d/a").etag == etag == inner.head("d/a").etag
    assert bucket.get_range("d/a", 1, 2) == b"el"
    bucket.put_if_match("d/a", b"there", etag)
    with pytest.raises(ObjectChangedError):
        bucket.put_if_match("d/a", b"again", etag)
    bucket.put_if_absent("d/b", b"")
    assert [o.key for o in bucket.list("d/").objects] == ["d/a", "d/b"]
    assert [o.key for o in bucket.list("d/", after="d/a").objects] == ["d/b"]
    assert bucket.list("d/").atomic
    assert bucket.list_dirs("") == ["d"]
    bucket.delete_many(["d/a", "d/b"])
    assert inner.list("").objects == ()
    assert bucket.url == "real://bucket"
    assert bucket.capabilities.conditional_put
    assert not bucket.capabilities.shareable
    assert bucket.local_path("d/a") is None


def test_the_plan_strikes_at_the_kth_call() -> None:
    for k in range(3):
        inner = _inner()
        bucket = FaultBucket(inner, Script(Rule(CRASH_AFTER, nth=k)))
        with pytest.raises(Crashed):
            bucket.put_many([("0", b""), ("1", b""), ("2", b"")])
        assert len(inner.list("").objects) == k + 1
        with pytest.raises(Crashed):
            bucket.put("later", b"")
        assert len(inner.list("").objects) == k + 1


def test_failures_and_lost_answers_reach_the_caller() -> None:
    inner = _inner()
    bucket = FaultBucket(inner, Script(Rule(FAILED), Rule(LOST, nth=1), Rule(LOST_ACK, nth=2)))
    with pytest.raises(StoreUnavailableError):
        bucket.put("a", b"")
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"")
    assert inner.list("").objects == ()
    with pytest.raises(OutcomeUnknownError):
        bucket.put("a", b"")
    assert [o.key for o in inner.list("").objects] == ["a"]


def test_a_delayed_put_lands_with_time_or_when_settled() -> None:
    inner = _inner()
    bucket = FaultBucket(inner, Script(Rule(delayed(60), verb="put", nth=0, every=True)))
    for key in ("a", "b"):
        with pytest.raises(OutcomeUnknownError):
            bucket.put(key, b"")
        assert bucket.get_many([key]) == [None]
        if key == "a":
            bucket.clock.sleep(61)
    assert [o.key for o in inner.list("").objects] == ["a"]
    bucket.settle()
    assert [o.key for o in inner.list("").objects] == ["a", "b"]


def test_an_inner_bucket_without_conditional_puts_stays_one() -> None:
    bucket = FaultBucket(SimStore(conditional_put=False).bucket())
    with pytest.raises(UnsupportedError):
        bucket.put_if_absent("a", b"")


def _counted(seed: int, program: Program, inner: Bucket) -> World:
    world = World(seed, store=inner)
    world.observer().put("n", b"0")
    clients = [world.spawn(name, program) for name in ("a", "b")]
    assert all(isinstance(client.bucket, InterleavedBucket) for client in clients)

    @world.check
    def both_are_counted() -> None:
        assert inner.get("n").data == b"2"

    return world


def test_a_world_schedules_clients_of_a_real_bucket() -> None:
    failures = 0
    for seed in range(40):
        _counted(seed, count_by_swapping, _inner()).run()
        try:
            _counted(seed, count_once, _inner()).run()
        except SimulationFailure:
            failures += 1
    assert 0 < failures < 40


def test_a_world_schedules_clients_of_a_directory(tmp_path: Path) -> None:
    directories = _directories(tmp_path)
    for seed in range(5):
        _counted(seed, count_by_swapping, next(directories)).run()
    # Seed 2 is one that loses an update; the schedule is the same over any bucket.
    with pytest.raises(SimulationFailure, match="both_are_counted"):
        _counted(2, count_once, next(directories)).run()


def test_every_call_on_a_directory_can_crash(tmp_path: Path) -> None:
    directories = _directories(tmp_path)

    def append(bucket: GatedBucket) -> None:
        bucket.put_many([("data/1", b"rows"), ("data/2", b"rows")])
        bucket.put_if_absent("log/1", b"data/1 data/2")

    def check(bucket: Bucket, _point: CrashPoint) -> None:
        for log in bucket.list("log/").objects:
            for key in bucket.get(log.key).data.decode().split():
                assert bucket.get(key).data == b"rows"

    assert crash_points(lambda: next(directories), append, check) == 12


def test_a_seed_has_the_same_trace_in_memory_and_over_a_real_bucket(tmp_path: Path) -> None:
    def trace(store: SimStore | Bucket) -> list[tuple[str, str, str]]:
        faults = RandomFaults(11, crash=0.01, lost_ack=0.1, failed=0.1, delayed=0.1)
        world = World(11, store=store, faults=faults)

        def attempt(client: SimClient, i: int) -> None:
            try:
                client.bucket.put(f"{client.name}{i}", b"")
            except (OutcomeUnknownError, StoreUnavailableError):
                client.clock.sleep(1)

        def program(client: SimClient) -> None:
            for i in range(20):
                attempt(client, i)

        for name in ("a", "b", "c"):
            world.spawn(name, program, restarts=1)
        world.run()
        return [(call.client, call.key, call.outcome) for call in world.trace]

    assert trace(SimStore()) == trace(_inner()) == trace(next(_directories(tmp_path)))


def test_times_are_virtual_for_what_was_written_inside() -> None:
    inner = _inner()
    inner.put("before", b"")
    real_ms = inner.head("before").modified_ms
    world = World(1, store=inner)

    def program(client: SimClient) -> None:
        client.clock.sleep(3600)
        client.bucket.put("inside", b"")

    world.spawn("a", program)
    world.run()
    observer = world.observer()
    assert observer.head("before").modified_ms == real_ms
    at = observer.head("inside").modified_ms
    assert at >= START_MS + 3_600_000
    assert observer.get("inside").info.modified_ms == at
    assert {o.key: o.modified_ms for o in observer.list("").objects} == {"before": real_ms, "inside": at}


def test_a_real_bucket_can_be_listed_in_pages() -> None:
    world = World(1, store=_inner(), page_size=2)
    observer = world.observer()
    for key in ("a", "b", "c", "d", "e"):
        observer.put(key, b"")
    listing = observer.list("")
    assert [o.key for o in listing.objects] == ["a", "b", "c", "d", "e"]
    assert not listing.atomic
    assert observer.counters.list == 3


def test_there_is_no_simulated_store_over_a_real_bucket() -> None:
    with pytest.raises(InvalidInputError, match="observer"):
        _ = World(1, store=_inner()).store


def test_a_crash_before_a_request_keeps_it_from_a_real_bucket() -> None:
    inner = _inner()
    world = World(1, store=inner, faults=Script(Rule(CRASH_BEFORE, key="b")))

    def program(client: SimClient) -> None:
        client.bucket.put("a", b"")
        client.bucket.put("b", b"")

    client = world.spawn("a", program)
    world.run()
    assert client.crashed
    assert [o.key for o in inner.list("").objects] == ["a"]
