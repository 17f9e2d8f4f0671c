"""Many clients on one leaderless table, for many seeds of each shape; and the same over a real directory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firn.bucket import open_bucket
from firn.testing import World, simulate
from simulation.leaderless_world import Shape, build
from simulation.seeds import first_seed, seeds, soak_seconds
from simulation.shapes import SHAPES
from simulation.soak import soak

pytestmark = pytest.mark.long

DEFAULT_SEEDS = {"mixed": 120, "appenders": 60, "streams": 60, "caches": 60, "whole-lists": 60}
ALWAYS = {"append", "merge", "read"}
"""What happens in any shape, or its simulation proves nothing."""
ALSO = {
    "mixed": {"remove", "rewrite", "overwrite", "restore", "sweep", "cleanup", "checkpoint", "streamed"},
    "restorers": {"restore", "remove", "cleanup"},
    "streams": {"delivered", "streamed", "lapsed", "cleanup"},
    "caches": {"checkpoint", "cleanup"},
    "unlocked": {"unlocked", "overtaken", "restore", "sweep", "cleanup"},
    "slow-unlocked": {"unlocked", "sweep"},
    "calm": {"restore", "sweep", "cleanup", "streamed", "delivered"},
    "wrong-clocks": {"refused", "streamed"},
    "outside-lock": {"restore", "sweep", "streamed"},
    "gatherers": {"gathered", "sent under another name", "sweep", "checkpoint"},
    "keepers": {"fold", "folded rows", "new view", "cleanup", "restore", "remove"},
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_client_sees_what_it_was_promised(name: str) -> None:
    happened: Counter[str] = Counter()

    def world(seed: object) -> World:
        built = build(seed, SHAPES[name])  # type: ignore[arg-type]
        worlds.append(built)
        return built

    worlds: list[World] = []
    chosen = seeds(DEFAULT_SEEDS.get(name, 40))
    assert simulate(world, chosen).seeds == len(chosen)
    for built in worlds:
        happened += built.model.happened  # type: ignore[attr-defined]
    if len(chosen) >= 30:
        expected = (ALWAYS - ({"read"} if not SHAPES[name].readers else set())) | ALSO.get(name, set())
        assert expected <= happened.keys(), f"never happened: {expected - happened.keys()}"
    if name == "calm":
        assert "lapsed" not in happened, "a stream that polls in time was told to give up"


def test_over_a_real_directory(tmp_path: Path) -> None:
    """The same protocol on a file system: its conditional puts, its walks instead of LISTs."""
    shape = Shape(appenders=3, readers=1, rounds=3)

    def world(seed: object) -> World:
        return build(seed, shape, store=open_bucket(str(tmp_path / f"{seed}")))  # type: ignore[arg-type]

    chosen = seeds(8)
    assert simulate(world, chosen).calls > 100 * len(chosen)


@pytest.mark.soak
def test_soak() -> None:
    """`make soak`: as many seeds as FIRN_SEEDS says, for at most FIRN_SECONDS."""
    failures = soak(seeds(1000), list(SHAPES), seconds=soak_seconds())
    assert not failures, f"{len(failures)} failures from seed {first_seed()} on; the first: {failures[0]}"
