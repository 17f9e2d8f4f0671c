"""Run a simulation for many seeds, or for every schedule there is.

Both take a function from a seed to a `World` that is ready to run, checks included:

    >>> from firn.testing import World, explore, simulate
    >>> def counter(seed):
    ...     world = World(seed)
    ...     _ = world.observer().put("n", b"0")
    ...     def increment(client):
    ...         while True:
    ...             seen = client.bucket.get("n")
    ...             body = b"%d" % (int(seen.data) + 1)
    ...             try:
    ...                 return client.bucket.put_if_match("n", body, seen.info.etag)
    ...             except ObjectChangedError:
    ...                 pass
    ...     _ = world.spawn("a", increment), world.spawn("b", increment)
    ...     @world.check
    ...     def both_count():
    ...         assert world.store.contents() == {"n": b"2"}
    ...     return world
    >>> from firn.errors import ObjectChangedError
    >>> simulate(counter, range(100)).seeds
    100
    >>> explore(counter).schedules
    6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firn.errors import InvalidInputError
from firn.testing.schedule import Choice, Replay, Seed
from firn.testing.world import World

MakeWorld = Callable[[Seed], World]


@dataclass(frozen=True)
class Simulation:
    """The runs that `simulate` went through."""

    seeds: int
    calls: int


@dataclass(frozen=True)
class Exploration:
    """The runs that `explore` went through; `complete` is False if the limit ended it."""

    schedules: int
    calls: int
    complete: bool


def simulate(make_world: MakeWorld, seeds: Iterable[int]) -> Simulation:
    """Run the world of each seed. The first failure is raised: a `SimulationFailure` that names its seed."""
    runs = calls = 0
    for seed in seeds:
        world = make_world(seed)
        world.run()
        runs += 1
        calls += len(world.trace)
    return Simulation(runs, calls)


def explore(make_world: MakeWorld, *, limit: int = 100_000, preemptions: int | None = None) -> Exploration:
    """Run every schedule, depth first, at most `limit` of them; each run starts anew from `make_world`.

    Two clients of n and m calls have (n + m)! / (n! m!) schedules, so keep it small; `preemptions` bounds
    how often a client that could go on is interrupted, and most bugs need two or three. Latency is
    1 ms a call. The first failure is raised: a `SimulationFailure` whose `seed` replays it.
    """
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, not {limit}")
    expected: list[Choice] = []
    schedules = calls = 0
    while schedules < limit:
        replay = Replay([choice.chosen for choice in expected], preemptions=preemptions)
        world = make_world(replay)
        world.run()
        schedules += 1
        calls += len(world.trace)
        taken = list(replay.taken)
        if replay.diverged or taken[: len(expected)] != expected:
            raise InvalidInputError(
                f"schedule {schedules} can't be explored: with the choices of the one before, the program "
                "did something else; start anew in make_world, and take names and times from the world"
            )
        while taken and taken[-1].chosen + 1 >= taken[-1].options:
            taken.pop()
        if not taken:
            return Exploration(schedules, calls, complete=True)
        expected = [*taken[:-1], Choice(taken[-1].chosen + 1, taken[-1].options)]
    return Exploration(schedules, calls, complete=False)
