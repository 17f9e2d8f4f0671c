"""All schedules, many seeds, and whether they find a planted bug."""

from __future__ import annotations

from math import comb

import pytest

from counting import count_by_swapping, count_once
from firn.errors import InvalidInputError
from firn.testing import (
    MakeWorld,
    Replay,
    Seed,
    SimClient,
    SimStore,
    SimulationFailure,
    World,
    explore,
    simulate,
)
from firn.testing.world import Program


def _apart(calls: tuple[int, ...], orders: list[str]) -> MakeWorld:
    """Clients that never meet: one schedule a distinct order of their calls."""

    def make(seed: Seed) -> World:
        world = World(seed)
        for name, n in zip("abc", calls, strict=False):

            def program(client: SimClient, n: int = n) -> None:
                for i in range(n):
                    client.bucket.put(f"{client.name}{i}", b"")

            world.spawn(name, program)
        world.check(lambda: orders.append("".join(call.client for call in world.trace)))
        return world

    return make


@pytest.mark.parametrize(
    ("calls", "schedules"),
    [((3, 3), 20), ((1, 1), 2), ((4, 2), comb(6, 2)), ((2, 2, 2), 90), ((5,), 1)],
)
def test_each_order_is_visited_once(calls: tuple[int, ...], schedules: int) -> None:
    orders: list[str] = []
    done = explore(_apart(calls, orders))
    assert (done.schedules, done.complete) == (schedules, True)
    assert done.calls == schedules * sum(calls)
    assert len(orders) == len(set(orders)) == schedules


def test_the_limit_ends_it() -> None:
    done = explore(_apart((3, 3), []), limit=7)
    assert (done.schedules, done.complete) == (7, False)
    exactly = explore(_apart((3, 3), []), limit=20)
    assert (exactly.schedules, exactly.complete) == (20, True)
    with pytest.raises(InvalidInputError):
        explore(_apart((1,), []), limit=0)


def test_preemptions_are_bounded() -> None:
    orders: list[str] = []
    make = _apart((3, 3), orders)
    assert explore(make, preemptions=0).schedules == 2
    assert set(orders) == {"aaabbb", "bbbaaa"}
    orders.clear()
    assert explore(make, preemptions=1).schedules == 6
    # After a preemption the other runs to its end, and then the first goes on.
    assert set(orders) == {"aaabbb", "bbbaaa", "abbbaa", "aabbba", "baaabb", "bbaaab"}
    assert explore(make, preemptions=6).schedules == 20


def _counter(program: Program) -> MakeWorld:
    def make(seed: Seed) -> World:
        world = World(seed, store=SimStore())
        world.observer().put("n", b"0")
        for name in ("a", "b"):
            world.spawn(name, program)

        @world.check
        def both_are_counted() -> None:
            assert world.store.contents() == {"n": b"2"}

        return world

    return make


def test_seeds_find_the_lost_update_and_find_it_again() -> None:
    with pytest.raises(SimulationFailure, match="both_are_counted") as failure:
        simulate(_counter(count_once), range(1000))
    seed = failure.value.seed
    assert isinstance(seed, int)
    with pytest.raises(SimulationFailure) as again:
        simulate(_counter(count_once), [seed])
    assert again.value.trace == failure.value.trace


def test_exploring_finds_the_lost_update_and_replays_it() -> None:
    with pytest.raises(SimulationFailure, match=r"Replay\(\[") as failure:
        explore(_counter(count_once))
    replay = failure.value.seed
    assert isinstance(replay, Replay)
    printed = eval(repr(replay), {"Replay": Replay})
    with pytest.raises(SimulationFailure) as again:
        _counter(count_once)(printed).run()
    assert again.value.trace == failure.value.trace
    with pytest.raises(SimulationFailure):
        explore(_counter(count_once), preemptions=1)


def test_compare_and_swap_loses_nothing() -> None:
    assert simulate(_counter(count_by_swapping), range(300)).seeds == 300
    done = explore(_counter(count_by_swapping))
    assert done.complete
    assert done.schedules > 2


def test_sleepers_may_wake_at_every_moment_when_explored() -> None:
    """A lease that is only checked, not fenced: it breaks if the holder is slow, and only then."""

    def make(seed: Seed, wake: str) -> World:
        world = World(seed, wake="any" if wake == "any" else "idle")

        def holder(client: SimClient) -> None:
            client.bucket.put("lease", b"")
            client.bucket.put("written", b"by the holder")

        def takes_over(client: SimClient) -> bool:
            client.clock.sleep(60)
            if client.bucket.get_many(["lease"]) == [None]:
                return False
            client.bucket.put("written", b"by the heir")
            return True

        world.spawn("holder", holder)
        heir = world.spawn("heir", takes_over)

        @world.check
        def the_heir_is_the_last() -> None:
            if heir.result:
                assert world.store.contents("written")["written"] == b"by the heir"

        return world

    assert explore(lambda seed: make(seed, "idle")).complete
    with pytest.raises(SimulationFailure, match="the_heir_is_the_last"):
        explore(lambda seed: make(seed, "any"))
    # Nobody interrupts the holder: one schedule. One interruption is enough to break the lease.
    assert explore(lambda seed: make(seed, "any"), preemptions=0).schedules == 1
    with pytest.raises(SimulationFailure, match="the_heir_is_the_last"):
        explore(lambda seed: make(seed, "any"), preemptions=1)


def test_a_program_that_differs_from_run_to_run_is_noticed() -> None:
    runs = []

    def make(seed: Seed) -> World:
        runs.append(seed)
        world = World(seed)
        for name in ("a", "b") if len(runs) % 2 else ("a",):
            world.spawn(name, _put_once)
        return world

    with pytest.raises(InvalidInputError, match="schedule 2 can't be explored"):
        explore(make)


def _put_once(client: SimClient) -> None:
    client.bucket.put(client.name, b"")
