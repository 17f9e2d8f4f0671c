"""Every operation of a table whose small appends stand in their logs, struck at every request it makes.

As `test_crash`, which says what is checked; here the rows were partly merged into files and partly stand in logs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from firn.errors import LockHeldError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.replay import replay
from firn.lake.definition.definition import LakeDefinition
from firn.lake.keep.fold import Memory, fold
from firn.lake.maintain import change, delete
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import GatedBucket, SimStore, SimulationFailure
from simulation import test_crash as crash
from simulation.test_crash import BATCH, FIRST, NEW, PREFIX, Operation, visit, without

pytestmark = pytest.mark.long

SPEC = PartitionSpec.parse(["place"], {})
DEFINITION = LakeDefinition("t", partition=SPEC, properties={"inline": "64KB"}, windowed=True)


def lake(bucket: GatedBucket) -> LakeTable:
    journal = LeaderlessJournal(bucket, PREFIX, clock=bucket.clock, renew_in_background=False, windowed=True)
    return LakeTable(bucket, PREFIX, DEFINITION, journal, InProcess(LocalRunner(threads=1)))


@cache
def filled() -> SimStore:
    """The rows of `test_crash`: two appends were merged, one stands in its log."""
    store = SimStore()
    crash.fill(store.bucket())
    return store


@pytest.fixture(autouse=True)
def inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "lake", lake)
    monkeypatch.setattr(crash, "template", filled)


OPERATIONS = {
    **crash.OPERATIONS,
    "fold": Operation(lambda t: t.merge(only="inlined"), FIRST),
    "delete": Operation(
        lambda t: t.delete("n = 3 AND place = 'x'"), without(FIRST, lambda row: row == ("x", 3))
    ),
    "overwrite": Operation(
        lambda t: t.overwrite(BATCH, where="n >= 3"), [*without(FIRST, lambda row: row[1] >= 3), *NEW]
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation(name: str) -> None:
    assert OPERATIONS[name].visit() > 10


def test_a_fold_by_what_is_new() -> None:
    """A keeper's, which has folded before."""
    known: list[Memory] = []
    whole: set[bool] = set()

    def fold_before(bucket: GatedBucket) -> None:
        table, memory = lake(bucket), Memory()
        keep_folding(table, memory)
        table.append([{"place": "x", "n": 4}, {"place": "z", "n": 4}])
        known.append(memory)

    def keep_folding(table: LakeTable, memory: Memory) -> None:
        """As a keeper does that never waits for the lock."""
        clock = table.journal.clock  # type: ignore[attr-defined]
        for _ in range(10):
            try:
                whole.add(fold(table.context, memory).survey is not None)
                return
            except LockHeldError:
                clock.sleep(10)
        raise AssertionError("the lock is held for ever")

    def operate(table: LakeTable) -> None:
        now = table.journal.clock.monotonic()  # type: ignore[attr-defined]
        keep_folding(table, Memory(known[0].known, whole_at=now))

    rows = [*FIRST, ("x", 4), ("z", 4)]
    assert visit(operate, rows, before=rows, prepare=fold_before) > 40
    assert whole == {True, False}


def test_restore_of_rows_that_were_folded() -> None:
    crash.test_restore()


def test_a_sweep_after_a_fold_with_a_checkpoint() -> None:
    def fold(bucket: GatedBucket) -> None:
        table = lake(bucket)
        table.append([{"place": "x", "n": 4}])
        table.checkpoint()
        table.merge(only="inlined")
        bucket.clock.sleep(crash.DAY_S)

    rows = [*FIRST, ("x", 4)]
    assert visit(lambda t: t.sweep(), rows, before=rows, prepare=fold) > 50


def test_a_stream_starts_with_each_row_once() -> None:
    """It reads replaced logs, too."""
    bucket = SimStore().bucket()
    crash.fill(bucket)
    table = lake(bucket)
    assert any(file.inlined is not None for file in table.journal.stream().start().files)
    table.merge(only="inlined")
    start = table.journal.stream().start()
    assert sum(file.rows or 0 for file in start.files) == len(FIRST)


@pytest.mark.parametrize("rule", ["rows stay behind", "rows are left in a replaced log", "files alone"])
def test_a_fold_that_loses_or_doubles_rows_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rule == "rows stay behind":  # of other partitions, in the log that is replaced
        monkeypatch.setattr(change, "completed", lambda table, session, snapshot, change, also=(): change)
    elif rule == "files alone":  # are looked at by the verb
        monkeypatch.setattr(
            delete,
            "placed",
            lambda table, snapshot, where=None: replace(snapshot, files=snapshot.objects),
        )
    else:
        monkeypatch.setattr(replay, "_end_replaced_rows", lambda logs, files, dead: None)
    noticing = test_a_stream_starts_with_each_row_once if "replaced" in rule else OPERATIONS["delete"].visit
    with pytest.raises((SimulationFailure, AssertionError)):
        noticing()
