"""Small cases, every schedule of two clients with up to four preemptions; and with one of them crashed or asleep at
any of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from firn.errors import ConflictError, ObjectNotFoundError, OutcomeUnknownError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit
from firn.testing import (
    CRASH_AFTER,
    CRASH_BEFORE,
    LOST_ACK,
    Fault,
    Rule,
    Script,
    Seed,
    SimClient,
    SimStore,
    SimulationFailure,
    World,
    delayed,
    explore,
    slow,
    stalled,
)
from regressions.journals import GRACE_AND_MARGIN_S, append, merge, pass_time
from simulation import mutations as without
from simulation.leaderless_table import SETTINGS, clean, journal_of, put_rows, read_all

pytestmark = pytest.mark.long

IMPATIENT = replace(SETTINGS, lease_ms=10_000, lock_wait_ms=60_000)
ROWS = [1, 2, 3]
CALLS = 14
"""No operation here makes more calls; one of them is struck in each test."""


@cache
def _table() -> SimStore:
    """Three appends, two of them merged so long ago that their files and logs may go."""
    store = SimStore(etags="counter")
    bucket = store.bucket()
    journal = journal_of(bucket, bucket.clock)
    append(journal, [1])
    append(journal, [2])
    merge(journal)
    append(journal, [3])
    pass_time(journal, GRACE_AND_MARGIN_S)
    return store


def _journal(client: SimClient) -> LeaderlessJournal:
    return journal_of(client.bucket, client.clock, IMPATIENT)


def merger(client: SimClient) -> str:
    return merge(_journal(client))


def remover(client: SimClient) -> str:
    """Removes row 3, if it is in a file of its own."""
    journal = _journal(client)
    with journal.exclusive("remove") as session:
        files = [f for f in session.snapshot.files if f.rows == 1]
        return session.publish(Commit("remove", [], [f.path for f in files])) if files else ""


def cleaner(client: SimClient) -> None:
    clean(_journal(client))


def sweeper(client: SimClient) -> None:
    s = IMPATIENT
    _journal(client).sweep(grace_ms=s.grace_ms, orphan_age_ms=s.orphan_age_ms, margin=True, dry_run=False)


def reader(client: SimClient) -> list[int]:
    journal = _journal(client)
    while True:
        try:
            return sorted(read_all(journal, journal.snapshot()))
        except ObjectNotFoundError:
            continue


def batch(client: SimClient) -> str:
    journal = _journal(client)
    ticket = journal.begin_append()
    file = put_rows(journal, "p=b", [9], maintenance=False)
    return ticket.commit(Commit("append", [file], batch_id="nine"))


Program = Callable[[SimClient], object]


def _world(seed: Seed, programs: dict[str, Program], expected: list[list[int]], fault: Rule | None) -> World:
    """One client a program. At the end the table must hold one of `expected`, and be maintainable."""
    world = World(seed, store=_table().copy(), faults=Script(fault) if fault else None)
    clients = {
        name: world.spawn(name, program, expected=(ConflictError, OutcomeUnknownError, ObjectNotFoundError))
        for name, program in programs.items()
    }

    @world.check
    def rows_are_right() -> None:
        bucket = world.observer()
        journal = journal_of(bucket, bucket.clock, IMPATIENT)
        seen = sorted(read_all(journal, journal.snapshot()))
        assert seen in expected, f"rows {seen}"
        for name, client in clients.items():
            if name == "reader":
                assert client.result in expected, f"the reader saw {client.result}"
            if name.startswith("batch") and client.result:
                assert 9 in seen, "an acknowledged batch is lost"
            if name == "remover" and client.result:
                assert 3 not in seen, "an acknowledged removal is undone"
        merge(journal)
        bucket.clock.sleep(2 * GRACE_AND_MARGIN_S)
        journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
        assert sorted(read_all(journal, journal.snapshot())) == seen
        data = {i.key for i in bucket.list(journal.layout.data_prefix).objects}
        assert data == {f.path for f in journal.snapshot().files}

    return world


def _explored(
    programs: dict[str, Program],
    expected: list[list[int]],
    *,
    preemptions: int,
    fault: Callable[[], Rule] | None = None,
) -> int:
    """Every schedule; how many there were."""
    found = explore(
        lambda seed: _world(seed, programs, expected, fault() if fault else None),
        preemptions=preemptions,
        limit=20_000,
    )
    assert found.complete
    return found.schedules


@pytest.mark.parametrize(
    ("programs", "expected", "preemptions", "least"),
    [
        ({"a": merger, "b": merger}, [ROWS], 4, 300),
        ({"merger": merger, "cleaner": cleaner}, [ROWS], 3, 1000),
        ({"merger": merger, "sweeper": sweeper}, [ROWS], 4, 400),
        ({"a": cleaner, "b": cleaner}, [ROWS], 3, 800),
        ({"cleaner": cleaner, "reader": reader}, [ROWS], 4, 700),
        ({"remover": remover, "reader": reader}, [ROWS, [1, 2]], 4, 500),
        ({"batch-a": batch, "batch-b": batch}, [[*ROWS, 9]], 4, 800),
    ],
    ids=lambda value: " and ".join(value) if isinstance(value, dict) else "",
)
def test_two_beside_one_another(
    programs: dict[str, Program], expected: list[list[int]], preemptions: int, least: int
) -> None:
    """In more schedules than `least`, or they'd hardly meet."""
    assert _explored(programs, expected, preemptions=preemptions) > least


@pytest.mark.parametrize(
    "fault", [CRASH_BEFORE, CRASH_AFTER, LOST_ACK, stalled(30), slow(30), delayed(30)], ids=str
)
def test_two_retries_of_a_batch_with_one_struck(fault: Fault) -> None:
    schedules = 0
    for nth in range(CALLS):
        schedules += _explored(
            {"batch-a": batch, "batch-b": batch},
            [ROWS, [*ROWS, 9]],
            preemptions=2,
            fault=lambda nth=nth: Rule(fault, client="batch-a", nth=nth),  # type: ignore[misc]
        )
    assert schedules > 200


@pytest.mark.parametrize("fault", [CRASH_BEFORE, CRASH_AFTER, stalled(30), slow(30), delayed(30)], ids=str)
def test_two_merges_with_one_struck(fault: Fault) -> None:
    """Crashed, or asleep for longer than the lease, at each of its calls: the other takes over."""
    schedules = 0
    for nth in range(CALLS):
        schedules += _explored(
            {"a": merger, "b": merger},
            [ROWS],
            preemptions=1,
            fault=lambda nth=nth: Rule(fault, client="a", nth=nth),  # type: ignore[misc]
        )
    assert schedules > 100


@pytest.mark.parametrize("fault", [stalled(30), slow(30), delayed(30)], ids=str)
def test_removal_struck_beside_a_merge(fault: Fault) -> None:
    for nth in range(CALLS):
        _explored(
            {"remover": remover, "merger": merger},
            [ROWS, [1, 2]],
            preemptions=1,
            fault=lambda nth=nth: Rule(fault, client="remover", nth=nth),  # type: ignore[misc]
        )


@pytest.mark.parametrize("fault", [CRASH_BEFORE, stalled(30), slow(30)], ids=str)
def test_sweep_struck_beside_a_merge(fault: Fault) -> None:
    for nth in range(3 * CALLS):
        _explored(
            {"sweeper": sweeper, "merger": merger},
            [ROWS],
            preemptions=1,
            fault=lambda nth=nth: Rule(fault, client="sweeper", nth=nth),  # type: ignore[misc]
        )


@pytest.mark.parametrize(
    ("mutation", "fault"),
    [
        (without.check_the_lease_then_put, stalled(30)),
        (without.no_settling, stalled(30)),
        (without.publish_without_reservation, slow(30)),
        (without.announce_after_publishing, slow(30)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_dropped_rule_is_noticed(
    mutation: without.Mutation, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(SimulationFailure):
        mutation(patch)
        for nth in range(CALLS):
            _explored(
                {"a": merger, "b": merger},
                [ROWS],
                preemptions=1,
                fault=lambda nth=nth: Rule(fault, client="a", nth=nth),  # type: ignore[misc]
            )
