"""Processes that share a database of record tables, for many seeds of each shape: 20,000 transactions."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter

import pytest

from firn.testing import World, simulate
from simulation.records_world import RECORDS_SHAPES, build
from simulation.seeds import seeds, soak_seconds, soak_seeds, soak_transactions

pytestmark = pytest.mark.long

PROGRESS_EVERY_S = 30.0

ENOUGH = 37
LEAST = {"truncated": 1_150}
"""Transactions of a shape, 1,440 of the others: more than 20,000 in all."""
ALWAYS = {"committed", "applied", "truncated", "versions dropped"}
ALSO = {
    "mixed": {"stale_object", "duplicate_key", "store_unavailable"},
    "bank": {"bank: stale_object", "bank: duplicate_key"},
    "users": {"users: duplicate_key", "index built", "index dropped", "index used", "entries swept"},
    "unique": {"badges: duplicate_key", "index built", "index refused", "index dropped"},
    "elements": {"tags: duplicate_key", "tags: stale_object", "index built", "index refused", "index used"},
    "sleepers": {"transaction_timed_out", "snapshot_too_old"},
    "locks": {"object_locked"},
    "serializable": {"doctors: stale_object", "lists: stale_object"},
    "owners": {"applied for others"},
    "movers": {"moves: stale_object", "moves: duplicate_key"},
    "altered": {
        "altered",
        "table dropped",
        "table created",
        "index dropped",
        "orders: table_not_found",
        "orders: stale_object",
    },
    "verbs": {"refused: duplicate_key", "refused: no_such_key", "verbs: stale_object"},
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
        assert transactions >= LEAST.get(name, 1_440)
        expected = ALWAYS | ALSO.get(name, set())
        assert expected <= happened.keys(), f"never happened: {expected - happened.keys()}"


@pytest.mark.soak
def test_soak() -> None:
    """`make soak`: as many seeds of each shape as FIRN_SEEDS says, for at most FIRN_SECONDS; `make soak-records`:
    until there were FIRN_TRANSACTIONS."""
    began = reported = time.monotonic()
    wanted = soak_transactions()
    happened: Counter[str] = Counter()
    transactions = calls = 0

    def report() -> str:
        counts = ", ".join(f"{happened[what]:,} {what}" for what in ("committed", "applied", "truncated"))
        return (
            f"record tables: {transactions:,} transactions in {time.monotonic() - began:,.0f} s, as promised each; "
            f"{counts}, {calls:,} requests; seed {seed} of {name} was the last"
        )

    for seed, name in itertools.product(soak_seeds(), RECORDS_SHAPES):
        world = build(seed, RECORDS_SHAPES[name])
        world.run()
        transactions += len(world.model.observed)  # type: ignore[attr-defined]
        happened += world.model.happened  # type: ignore[attr-defined]
        calls += len(world.trace)
        now = time.monotonic()
        if transactions >= wanted or now - began > soak_seconds():
            break
        if now - reported > PROGRESS_EVERY_S:
            reported = now
            print(report(), flush=True)
    print(report())
    assert wanted == math.inf or transactions >= wanted, "time or seeds were over before"
