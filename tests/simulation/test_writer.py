"""Processes that share one writer's id, for many seeds of each shape, and small cases in every interleaving."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from unittest.mock import patch

import pytest

from firn.errors import ForkError, HandleClosedError
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.history.listing import Names
from firn.testing import Seed, SimClient, SimStore, SimulationFailure, World, explore, simulate
from simulation import writer_mutations as without
from simulation.noticed import must_be_noticed
from simulation.seeds import seeds, soak_seconds
from simulation.writer_catalog import commit, handle_of, history_of
from simulation.writer_model import Model
from simulation.writer_world import WRITER_SHAPES, WriterShape, build, final

pytestmark = pytest.mark.long

ALSO = {
    "plain": {"fork", "closed", "checkpoint", "time travel", "fork seen", "fork repaired", "unknown"},
    "crowd": {"fork", "closed", "refused at a fork", "cursor refused"},
    "paged": {"fork", "checkpoint"},
    "stalls": {"fork", "checkpoint", "unknown"},
    "claims": {"closed", "checkpoint", "time travel"},
    "claims-pruned": {"pruned", "closed"},
    "kept": {"pruned", "collected", "time travel"},
    "repaired": {"repaired", "fork"},
    "claims-kept": {"pruned", "collected", "closed"},
    "spoilt": {"pruned", "spoilt"},
    "overlapping": {"pruned", "collected", "overtaken"},
    "rows": {"pruned", "collected", "rows"},
    "claims-rows": {"pruned", "collected", "rows"},
}


@pytest.mark.parametrize("name", WRITER_SHAPES)
def test_every_process_sees_what_it_was_promised(name: str) -> None:
    happened: Counter[str] = Counter()
    worlds: list[World] = []

    def world(seed: object) -> World:
        built = build(seed, WRITER_SHAPES[name])  # type: ignore[arg-type]
        worlds.append(built)
        return built

    enough = 20 if WRITER_SHAPES[name].files else 60
    chosen = seeds(enough)
    assert simulate(world, chosen).seeds == len(chosen)
    for built in worlds:
        happened += built.model.happened  # type: ignore[attr-defined]
    if len(chosen) >= enough:
        expected = {"acknowledged", "read"} | ALSO.get(name, set())
        assert expected <= happened.keys(), f"never happened: {expected - happened.keys()}"


# -- every interleaving


@cache
def _template(claims: bool) -> tuple[SimStore, CatalogVersion]:
    """A catalog of one commit, and what a process that has opened it knows."""
    store = SimStore(conditional_put=claims, etags="counter")
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    commit(handle, 1)
    history = history_of(bucket)
    return store, history.load()


def _opened(client: SimClient, claims: bool) -> Handle:
    """A handle on the template, opened before the world began."""
    history = history_of(client.bucket)
    head = _template(claims)[1].head
    history._version = _template(claims)[1]
    history._names = Names(0, {1: (prefix_of(head.uuid or ""),)})
    handle = Handle.__new__(Handle)
    with patch.object(History, "load", lambda self: self._version):
        Handle.__init__(handle, history, clock=client.clock)
    return handle


def _world(seed: Seed, *, claims: bool, also: Sequence[str] = (), reopen: bool = False) -> World:
    """Two processes of two commits each, and whoever else. `reopen`: they go on after another was first."""
    world = World(seed, store=_template(claims)[0].copy())
    model = Model()
    model.issued = 1
    model.acknowledge(1, _template(claims)[1].head)

    def writer(client: SimClient) -> None:
        handle = _opened(client, claims)
        for _ in range(2):
            number = model.next()
            try:
                model.acknowledge(number, commit(handle, number))
            except (HandleClosedError, ForkError) as error:
                if isinstance(error, HandleClosedError):
                    model.failed(number)
                if not reopen:
                    return
                try:
                    handle = handle_of(client.bucket, client.clock)
                except ForkError:
                    return

    def reader(client: SimClient) -> None:
        before = frozenset(model.decided)
        model.saw(history_of(client.bucket).load(), before=before)

    def checkpointer(client: SimClient) -> None:
        with suppress(ForkError):
            add_checkpoint(history_of(client.bucket))

    world.spawn("a", writer)
    world.spawn("b", writer)
    for name in also:
        world.spawn(name, {"reader": reader, "checkpointer": checkpointer}[name])

    @world.check
    def everything_is_as_promised() -> None:
        final(model, world.observer(), world.store, WriterShape(claims=claims))

    return world


def _explored(
    *, claims: bool, also: Sequence[str] = (), reopen: bool = False, preemptions: int | None = None
) -> int:
    found = explore(
        lambda seed: _world(seed, claims=claims, also=also, reopen=reopen),
        preemptions=preemptions,
        limit=20_000,
    )
    assert found.complete
    return found.schedules


@pytest.mark.parametrize(("claims", "schedules"), [(False, 58), (True, 252)])
def test_two_processes_of_two_commits_each(claims: bool, schedules: int) -> None:
    """All of their interleavings. By PUT and LIST most of them end at the first conflict."""
    assert _explored(claims=claims) >= schedules


@pytest.mark.parametrize("claims", [False, True])
def test_two_processes_that_open_again(claims: bool) -> None:
    assert _explored(claims=claims, reopen=True, preemptions=4) > 300


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("also", ["reader", "checkpointer"])
def test_two_processes_and_another(claims: bool, also: str) -> None:
    assert _explored(claims=claims, also=[also], preemptions=2) > 100


MUTATIONS = [
    (without.report_at_once, "claims-pruned", 0),
    (without.choose_the_first, "crowd", 9),
    (without.believe_the_put, "plain", 5),
    (without.list_before_the_put, "plain", 0),
    (without.withdraw_at_a_fork, "crowd", 81),
    (without.believe_refused_claims, "claims", 2),
    (without.leave_foreign_claims, "claims", 2),
    (without.believe_any_claim, "claims-pruned", 28),
    (without.checkpoint_before_acknowledging, "crowd", 0),
    (without.trust_checkpoints, "spoilt", 5),
    (without.keep_one_checkpoint, "spoilt", 116),
    (without.trust_ones_own_clock, "kept", 0),
    (without.always_begin_at_the_empty_start, "kept", 9),
    (without.keep_only_what_is_live, "kept", 0),
    (without.forget_lost_branches, "kept", 42),
    (without.collect_of_any_revision, "claims-kept", 15),
    (without.collect_at_any_age, "overlapping", 20),
    (without.prune_claims_of_rows, "claims-rows", 0),
    (without.collect_rows_last, "rows", 0),
]


@pytest.mark.parametrize(("mutation", "shape", "hint"), MUTATIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_dropped_rule_is_noticed(
    mutation: without.Mutation, shape: str, hint: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = WRITER_SHAPES[shape]
    must_be_noticed(mutation, lambda seed: build(seed, chosen), hint, monkeypatch)


@pytest.mark.parametrize(
    "mutation",
    [without.believe_the_put, without.list_before_the_put, without.checkpoint_before_acknowledging],
)
def test_exploring_notices_a_dropped_rule(
    mutation: without.Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(SimulationFailure):
        _explored(claims=False)


@pytest.mark.soak
def test_soak() -> None:
    """`make soak`: as many seeds of each shape as FIRN_SEEDS says, for at most FIRN_SECONDS."""
    ends = time.monotonic() + soak_seconds()
    for seed in seeds(1000):
        for shape in WRITER_SHAPES.values():
            simulate(lambda chosen, shape=shape: build(chosen, shape), [seed])  # type: ignore[misc]
        if time.monotonic() > ends:
            break
