"""The verbs of a table with a key, struck at every request they make: each key is there once, in its version from
before or after, the verb can be run again, and a sweep leaves exactly the live objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.journal.leaderless import LeaderlessJournal
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import KeySpec
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, crash_points
from simulation.outcomes import Outcome

pytestmark = pytest.mark.long

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
KEYS = KeySpec(("place", "id"))
FIRST = {("x", 1): 3, ("x", 2): 1, ("y", 1): 3, ("y", 2): 1}


def lake(bucket: GatedBucket) -> LakeTable:
    journal = LeaderlessJournal(bucket, "db/t", clock=bucket.clock, renew_in_background=False)
    definition = LakeDefinition("t", partition=PartitionSpec.parse(["place"], {}), keys=KEYS)
    return LakeTable(bucket, "db/t", definition, journal, InProcess(LocalRunner(threads=1)))


def content(table: LakeTable, at: str | None = None) -> dict[tuple[str, int], int]:
    rows = table.scan(at=at).to_arrow().to_pylist()
    found = {(row["place"], row["id"]): row["n"] for row in rows}
    assert len(found) == len(rows) == table.scan(at=at).count()
    return found


def filled() -> SimStore:
    store = SimStore()
    bucket = store.bucket()
    table = lake(bucket)
    table.upsert([{"place": p, "id": id, "n": 1} for p in ("x", "y") for id in (1, 2, 3)])
    bucket.clock.sleep(60)
    table.upsert([{"place": p, "id": 1, "n": 2} for p in ("x", "y")])
    table.merge()
    table.delete("id = 3")
    table.update("id = 1", {"n": "n + 1"})
    bucket.clock.sleep(60)
    return store


@pytest.mark.parametrize(
    ("operate", "after"),
    [
        (lambda t: t.upsert([{"place": "x", "id": 2, "n": 9}]), {**FIRST, ("x", 2): 9}),
        (lambda t: t.update("n = 3 OR n = 8", {"n": "8"}), {**FIRST, ("x", 1): 8, ("y", 1): 8}),
        (lambda t: t.delete("n = 3"), {("x", 2): 1, ("y", 2): 1}),
        (lambda t: t.delete_keys([{"place": "y", "id": 2}]), {k: FIRST[k] for k in FIRST if k != ("y", 2)}),
        (lambda t: t.merge(), FIRST),
    ],
    ids=["upsert", "update", "delete", "delete_keys", "merge"],
)
def test_struck_everywhere(operate: Callable[[LakeTable], object], after: dict[tuple[str, int], int]) -> None:
    store = filled()
    version = lake(store.bucket()).snapshot().version
    outcome = Outcome()

    def operation(bucket: GatedBucket) -> None:
        with outcome.told():
            operate(lake(bucket))

    def check(left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        table = lake(bucket)
        assert content(table) in {"done": [after], "failed": [FIRST]}.get(outcome.ended, [FIRST, after])
        assert content(table, version) == FIRST
        operate(lake(bucket))
        assert content(table) == after
        bucket.clock.sleep(86_400)
        table.sweep(older_than="0s", orphans="0s")
        assert content(lake(bucket)) == after
        assert {i.key for i in bucket.list(f"{table.prefix}/_data/").objects} == {
            f.path for f in table.snapshot().files
        }

    assert crash_points(lambda: store, operation, check, modes=MODES) > 20
