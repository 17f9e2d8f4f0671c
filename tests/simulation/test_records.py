"""Processes that share a database of record tables, for many seeds of each shape: 20,000 transactions."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from firn.testing import World, simulate
from simulation.records_world import RECORDS_SHAPES, build
from simulation.seeds import seeds, soak_seconds

ENOUGH = 40
LEAST = {"truncated": 1_300}
"""Transactions of a shape, 1,560 of the others: more than 20,000 in all."""
ALWAYS = {"committed", "applied", "truncated", "versions dropped"}
ALSO = {
    "mixed": {"stale_object", "duplicate_key", "store_unavailable"},
    "bank": {"bank: stale_object", "bank: duplicate_key"},
    "users": {"users: duplicate_key", "index built", "index dropped", "index used", "entries swept"},
    "unique": {"badges: duplicate_key", "index built", "index refused", "index dropped"},
    "sleepers": {"transaction_timed_out", "snapshot_too_old"},
    "locks": {"object_locked"},
    "serializable": {"doctors: stale_object", "lists: stale_object"},
    "owners": {"applied for others"},
    "movers": {"moves: stale_object", "moves: duplicate_key"},
}


@pytest.mark.parametrize("name", RECORDS_SHAPES)
def test_every_transaction_was_what_it_was_promised(name: str) -> None:
    happened: Counter[str] = Counter()
    transactions = 0
    worlds: list[World] = []

    def world(seed: object) -> World:
        built = build(seed, RECORDS_SHAPES[name])  # type: ignore[arg-type]
        worlds.append(built)
        return built

    chosen = seeds(ENOUGH)
    for seed in chosen:
        simulate(world, [seed])
        model = worlds.pop().model  # type: ignore[attr-defined]
        happened += model.happened
        transactions += len(model.observed)
    if len(chosen) >= ENOUGH:
        assert transactions >= LEAST.get(name, 1_560)
        expected = ALWAYS | ALSO.get(name, set())
        assert expected <= happened.keys(), f"never happened: {expected - happened.keys()}"


@pytest.mark.soak
def test_soak() -> None:
    """`make soak`: as many seeds of each shape as FIRN_SEEDS says, for at most FIRN_SECONDS."""
    ends = time.monotonic() + soak_seconds()
    transactions = 0
    for seed in seeds(1000):
        for name, shape in RECORDS_SHAPES.items():
            world = build(seed, shape)
            world.run()
            transactions += len(world.model.observed)  # type: ignore[attr-defined]
            if time.monotonic() > ends:
                print(f"record tables: {transactions:,} transactions, seed {seed} of {name} was the last")
                return
    print(f"record tables: {transactions:,} transactions")
