"""Where a table is shared with the reference, its definition alone tells that a protocol time was changed: a sweep
that goes by another `orphan_age` than a slow append takes its files, and what the append publishes can't be read."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import pytest

import firn
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.append import OpenAppend
from firn.journal.model import Commit, DataFile
from firn.lake.definition.definition import LakeDefinition, create_definition, read_definition, read_times
from firn.lake.table import LakeTable
from firn.testing import SimStore
from firn.testing.gated import GatedBucket
from simulation.leaderless_table import put_rows

HOUR = 3600.0


@pytest.fixture
def store() -> SimStore:
    return made(orphan_age="7d")


def made(**properties: str) -> SimStore:
    store = SimStore()
    create_definition(store.bucket(), "t", LakeDefinition("t", properties={"shared": "icedb", **properties}))
    return store


def opened(store: SimStore, bucket: GatedBucket | None = None) -> LakeTable:
    """As a process opens the table."""
    bucket = bucket or store.bucket()
    found = read_definition(bucket, "t")
    assert found is not None
    journal = LeaderlessJournal(
        bucket,
        "t",
        rules=found.rules,
        settings=LeaderlessSettings.from_properties(found.properties),
        clock=bucket.clock,
        renew_in_background=False,
        times=found.time_entries,
        read_times=partial(read_times, bucket, "t"),
    )
    return LakeTable(bucket, "t", found, journal)


def journal_of(table: LakeTable) -> LeaderlessJournal:
    assert isinstance(table.journal, LeaderlessJournal)
    return table.journal


def begin(table: LakeTable) -> tuple[OpenAppend, DataFile]:
    journal = journal_of(table)
    return journal.begin_append(), put_rows(journal, "p=a", [1], maintenance=False)


def commit(ticket: OpenAppend, file: DataFile) -> None:
    ticket.commit(Commit("append", [file], columns={"id": "BIGINT"}))


def rest(store: SimStore, seconds: float) -> None:
    store.bucket().clock.sleep(seconds)


def lost(store: SimStore) -> set[str]:
    """Live files that aren't there."""
    there = {key for key in store.contents() if key.startswith("t/_data/")}
    return {file.path for file in opened(store).snapshot().files} - there


def test_a_sweep_keeps_what_an_append_under_a_longer_age_wrote(store: SimStore) -> None:
    appender = opened(store)
    ticket, file = begin(appender)
    rest(store, 5 * HOUR)
    opened(store).alter(set_properties={"orphan_age": "1h"})
    rest(store, HOUR)
    assert opened(store).sweep().orphans == ()
    commit(ticket, file)
    assert not lost(store)


def test_the_shorter_age_counts_once_nobody_goes_by_the_longer_one(store: SimStore) -> None:
    begin(opened(store))
    opened(store).alter(set_properties={"orphan_age": "1h"})
    rest(store, 7 * 24 * HOUR - 60)
    assert opened(store).sweep().orphans == ()
    rest(store, 600)
    assert len(opened(store).sweep().orphans) == 1


def test_an_append_of_a_process_that_knows_the_old_age_looks_for_it(store: SimStore) -> None:
    stale = opened(store)
    opened(store).alter(set_properties={"orphan_age": "1h"})
    rest(store, 8 * 24 * HOUR)
    ticket, file = begin(stale)
    rest(store, 2 * HOUR)
    assert opened(store).sweep().orphans == (file.path,)
    with pytest.raises(firn.AppendExpiredError):
        commit(ticket, file)


def test_a_sweep_of_a_process_that_knows_a_shorter_age_looks_for_it() -> None:
    store = made(orphan_age="1h")
    stale = opened(store)
    opened(store).alter(set_properties={"orphan_age": "7d"})
    rest(store, 600)
    ticket, file = begin(opened(store))
    rest(store, 5 * HOUR)
    assert stale.sweep().orphans == ()
    commit(ticket, file)
    assert not lost(store)


def test_an_append_that_began_under_a_shorter_age_goes_by_it() -> None:
    """The sweep that is under way may know nothing of the longer one."""
    store = made(orphan_age="1h")
    ticket, file = begin(opened(store))
    rest(store, HOUR)
    opened(store).alter(set_properties={"orphan_age": "7d"})
    right_after = begin(opened(store))
    with pytest.raises(firn.AppendExpiredError):
        commit(ticket, file)
    rest(store, HOUR)
    with pytest.raises(firn.AppendExpiredError):
        commit(*right_after)


def test_a_stream_and_a_restore_go_by_the_least_grace() -> None:
    store = made(tombstone_grace="2d")
    stale = journal_of(opened(store))
    opened(store).alter(set_properties={"tombstone_grace": "1h"})
    rest(store, 60)
    assert stale.lasting().grace_ms == 2 * 24 * 3_600_000
    assert stale.lasting(least_grace=True).grace_ms == 3_600_000
    rest(store, 3 * 24 * HOUR)
    assert stale.lasting().grace_ms == 3_600_000


@pytest.mark.parametrize(("seconds", "gets"), [(0, 0), (250, 0), (HOUR, 1)])
def test_slow_appends_cost_a_get_and_others_what_they_did(store: SimStore, seconds: float, gets: int) -> None:
    table = opened(store)
    for _ in range(3):
        rest(store, HOUR)
        ticket, file = begin(table)
        rest(store, seconds)
        before = table.bucket.counters.as_dict()
        commit(ticket, file)
        spent = table.bucket.counters.since(before)
        assert spent["get"] == gets


@pytest.mark.parametrize("seed", range(120))
def test_no_change_of_ages_loses_a_file(seed: int) -> None:
    """Processes that opened the table at any time append, while others sweep and change the age."""
    rng = random.Random(seed)
    ages = ["11m", "1h", "5h", "2d"]
    store = made(orphan_age=rng.choice(ages))
    tables = [opened(store) for _ in range(2)]
    appenders = tables if seed % 2 else [opened(store) for _ in range(2)]
    under_way: list[tuple[OpenAppend, DataFile]] = []
    commit(*begin(tables[0]))
    for _ in range(80):
        match rng.choice(["open", "alter", "begin", "begin", "commit", "commit", "sweep", "rest", "rest"]):
            case "open":
                rng.choice([tables, appenders])[rng.randrange(2)] = opened(store)
            case "alter":
                rng.choice(tables).alter(set_properties={"orphan_age": rng.choice(ages)})
            case "begin":
                under_way.append(begin(rng.choice(appenders)))
            case "commit" if under_way:
                ticket, file = under_way.pop(rng.randrange(len(under_way)))
                with suppress(firn.AppendExpiredError):
                    commit(ticket, file)
            case "sweep":
                rng.choice(tables).sweep()
                assert not lost(store)
            case "rest":
                rest(store, rng.choice([1, 60, 400, 1000, HOUR, 4 * HOUR, 30 * HOUR, 90 * HOUR]))
    assert not lost(store)
