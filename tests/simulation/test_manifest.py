"""Processes that share a keyed table, for many seeds of each shape."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from firn.testing import World, simulate
from simulation.manifest_world import MANIFEST_SHAPES, build
from simulation.seeds import seeds, soak_seconds

pytestmark = pytest.mark.long

ENOUGH = 25
ALWAYS = {"opened", "acknowledged", "read", "compacted", "fenced in flight", "left in flight"}
ALSO = {
    "mixed": {
        "snapshot",
        "snapshot read",
        "refreshed",
        "collected l0",
        "collected ssts",
        "collected manifests",
    },
    "rivals": {"fenced", "tried again"},
    "compactors": {"compactor fenced", "merged", "collected ssts", "collected manifests", "collected fences"},
    "snapshots": {"snapshot expired", "refreshed", "refreshed too late", "collected snapshots", "polled"},
    "late": {"deleted looked for", "landed after its deletion", "refreshed", "collected snapshots"},
    "collectors": {"compactor fenced", "snapshot read", "collected l0", "collected fences", "merged"},
}


@pytest.mark.parametrize("name", MANIFEST_SHAPES)
def test_every_process_sees_what_it_was_promised(name: str) -> None:
    happened: Counter[str] = Counter()
    worlds: list[World] = []

    def world(seed: object) -> World:
        built = build(seed, MANIFEST_SHAPES[name])  # type: ignore[arg-type]
        worlds.append(built)
        return built

    chosen = seeds(ENOUGH)
    assert simulate(world, chosen).seeds == len(chosen)
    for built in worlds:
        happened += built.model.happened  # type: ignore[attr-defined]
    if len(chosen) >= ENOUGH:
        expected = ALSO.get(name, set()) | (ALWAYS if MANIFEST_SHAPES[name].readers else set())
        assert expected <= happened.keys(), f"never happened: {expected - happened.keys()}"


@pytest.mark.soak
def test_soak() -> None:
    """`make soak`: as many seeds of each shape as FIRN_SEEDS says, for at most FIRN_SECONDS."""
    ends = time.monotonic() + soak_seconds()
    for seed in seeds(1000):
        for shape in MANIFEST_SHAPES.values():
            simulate(lambda chosen, shape=shape: build(chosen, shape), [seed])  # type: ignore[misc]
        if time.monotonic() > ends:
            break
