"""A batch of an appender is committed exactly once, whatever the store does with its requests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest

from firn.journal.leaderless import LeaderlessJournal, append
from firn.journal.leaderless.append import OpenAppend
from firn.journal.model import Counted
from firn.lake.appender.batch_writer import BatchWriter
from firn.lake.appender.batches import Batch
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import (
    FAILED,
    LOST_ACK,
    Fault,
    FaultPlan,
    GatedBucket,
    RandomFaults,
    Rule,
    Script,
    SimStore,
    delayed,
)
from firn.testing.verbs import Request

INLINE = {"inline": "64KB"}


def lake(bucket: GatedBucket, **properties: Any) -> LakeTable:
    journal = LeaderlessJournal(bucket, "t", clock=bucket.clock, renew_in_background=False, windowed=True)
    definition = LakeDefinition("t", properties={**INLINE, **properties})
    return LakeTable(bucket, "t", definition, journal, InProcess(LocalRunner(threads=1)))


class Run:
    """One process that appends batches to a store that fails, and one beside it whose requests don't."""

    def __init__(
        self, plan: FaultPlan | None = None, *, beside: Callable[[Run], object] = lambda run: None
    ) -> None:
        self.store = SimStore()
        self.other = lake(self.store.bucket("beside"))
        self.other.append([{"n": -1}])
        self.bucket = self.store.bucket(plan=plan)
        self.table = lake(self.bucket)
        self.told: list[str] = []
        self.beside = beside
        self.writer = self.new_writer()

    def new_writer(self) -> BatchWriter:
        return BatchWriter(
            self.table.context, wait=self.wait, on_retry=lambda error: self.told.append(error.kind)
        )

    def wait(self, seconds: float) -> None:
        self.bucket.clock.sleep(seconds)
        self.beside(self)

    def write(self, *numbers: int, id: str | None = None) -> str | None:
        return self.writer.write(Batch([{"n": n} for n in numbers], id=id))

    @property
    def found(self) -> list[int]:
        """Once everything has landed."""
        self.store.time.settle()
        return self.found_now

    @property
    def found_now(self) -> list[int]:
        rows = lake(self.store.bucket("at last")).scan().to_arrow().column("n").to_pylist()
        return sorted(n for n in rows if n >= 0)

    @property
    def logs(self) -> int:
        return sum(call.verb == "put" and fnmatch(call.key, LOGS) for call in self.bucket.client.trace)


LOGS = "*/_log/*.jsonl"


def log_put(fault: Any, **more: Any) -> Script:
    return Script(Rule(fault, verb="put", key=LOGS, **more))


class Outage:
    """The first log is sent with a fault; then no request for a log is answered, until `end`."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.sent, self.ended = fault, False, False

    def decide(self, call: Request) -> Fault | None:
        if not fnmatch(call.key, LOGS) or self.ended or not (self.sent or call.verb == "put"):
            return None
        first, self.sent = not self.sent, True
        return self.fault if first else FAILED

    def end(self) -> None:
        self.ended = True


def test_a_batch_is_one_put_without_a_claim() -> None:
    run = Run()
    run.write(1)
    before = run.bucket.counters.as_dict()
    run.write(2, 3)
    spent = run.bucket.counters.since(before)
    assert (spent["put"], spent["get"], spent["list"], spent["head"]) == (1, 0, 0, 0)
    assert run.found == [1, 2, 3]


def test_a_lost_answer_is_found_at_once() -> None:
    run = Run(log_put(LOST_ACK))
    run.write(1)
    assert (run.found, run.told, run.logs) == ([1], [], 1)


def test_what_never_lands_is_sent_again_under_its_name() -> None:
    run = Run(log_put(delayed(100)))
    run.write(1)
    keys = [call.key for call in run.bucket.client.trace if call.verb == "put" and fnmatch(call.key, LOGS)]
    assert len(keys) == 2 and len(set(keys)) == 1 and run.told == ["outcome_unknown"]
    assert run.found == [1]


def test_no_other_name_is_taken_before_the_first_can_land_no_more() -> None:
    outage = Outage(delayed(10**6))  # so late that it is never
    run = Run(outage, beside=lambda run: run.bucket.clock.monotonic() > 425 and outage.end())
    run.write(1)
    puts = [call for call in run.bucket.client.trace if call.verb == "put" and fnmatch(call.key, LOGS)]
    again = [call for call in puts if call.key == puts[0].key]
    assert len(again) > 5 and again[-1].time_ms - puts[0].time_ms <= 120_000  # R
    assert len(puts) == len(again) + 1 and puts[-1].time_ms - puts[0].time_ms >= 420_000  # R + Z
    assert run.found_now == [1]


def merged_before_it_is_looked_for(swept: bool) -> list[int]:
    """It lands late and is merged, and perhaps a sweep deletes it, before the store answers again."""
    outage = Outage(delayed(200))

    def beside(run: Run) -> None:
        run.other.merge()
        if swept:
            run.other.sweep(older_than="0s")
        if run.bucket.clock.monotonic() > 425:
            outage.end()

    run = Run(outage, beside=beside)
    run.write(1)
    return run.found


@pytest.mark.parametrize("swept", [False, True])
def test_a_log_that_was_merged_before_it_was_looked_for_counts(swept: bool) -> None:
    assert merged_before_it_is_looked_for(swept) == [1]


def test_its_tombstone_tells_of_a_log_that_was_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "_is_replaced", lambda table, name: False)
    assert merged_before_it_is_looked_for(swept=True) == [1, 1]


def test_an_id_that_was_committed_is_a_no_op() -> None:
    run = Run()
    first = run.write(1, 2, id="topic-7/2")
    assert Run.write(run, 1, 2, id="topic-7/2") == first
    assert run.found == [1, 2]


FAULTS = {"lost_ack": 0.1, "delayed": 0.1, "duplicated": 0.1, "failed": 0.15, "retried": 0.05, "slow": 0.02}


def random_run(seed: int) -> Counter[int]:
    chance = random.Random(seed)

    def maintain(run: Run) -> None:
        drawn = chance.random()
        if drawn < 0.1:
            run.other.merge(only="inlined" if drawn < 0.05 else None)
        elif drawn < 0.15:
            run.other.sweep(older_than="0s" if drawn < 0.13 else None)

    run = Run(RandomFaults(seed, delay_s=300, stall_s=300, **FAULTS), beside=maintain)
    ids = seed % 3 == 0
    for batch in range(15):
        run.write(2 * batch, 2 * batch + 1, id=f"b/{batch}" if ids else None)
        maintain(run)
        if chance.random() < 0.2:
            run.bucket.clock.sleep(chance.choice([10, 4000]))
    return Counter(run.found)


@pytest.mark.parametrize("seed", range(12))
def test_every_row_is_there_once_over_a_store_that_fails(seed: int) -> None:
    assert random_run(seed) == Counter(range(30))


def test_the_runs_show_what_isnt_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAppend, "settle", lambda self, wait: None)
    assert any(random_run(seed) != Counter(range(30)) for seed in range(1, 12) if seed % 3)


def read_again(seed: int) -> tuple[Counter[int], int]:
    """A source that is read from its beginning six times, and ends anywhere: what is found, and its longest."""
    chance, longest = random.Random(seed), 0
    run = Run(RandomFaults(seed, delay_s=300, stall_s=300, **FAULTS))
    for _ in range(6):
        length = chance.randint(1, 12)
        longest = max(longest, length)
        run.writer = run.new_writer()
        for number, start in enumerate(range(0, length, 5)):
            rows = [{"n": n} for n in range(start, min(start + 5, length))]
            tells = number == 0 or len(rows) < 5
            run.writer.write(Batch(rows, id=f"s/{number}", counted=Counted(len(rows), 5), tells=tells))
        drawn = chance.random()
        if drawn < 0.5:
            run.other.merge()
        if drawn < 0.25:
            run.other.sweep(older_than="0s")
    return Counter(run.found), longest


@pytest.mark.parametrize("seed", range(8))
def test_a_source_that_was_cut_short_is_there_once(seed: int) -> None:
    found, longest = read_again(seed)
    assert found == Counter(range(longest))


def test_the_runs_show_what_isnt_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchWriter, "_continue", lambda self, batch: None)
    found = [read_again(seed) for seed in range(8)]
    assert any(rows != Counter(range(longest)) for rows, longest in found)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_every_row_is_there_once_in_many_runs(first: int) -> None:
    for seed in range(1000 + first, 1000 + first + 50):
        assert random_run(seed) == Counter(range(30)), seed
        found, longest = read_again(seed)
        assert found == Counter(range(longest)), seed
