"""A merge into a lake table, struck at every request: all of it happened, or nothing, and it can run again."""

from __future__ import annotations

from typing import Any

import pytest

from firn.journal.leaderless import LeaderlessJournal
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import KeySpec
from firn.lake.maintain.matching import source as merge_source
from firn.lake.maintain.matching.clauses import MergeClause
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, crash_points
from simulation.outcomes import Outcome

pytestmark = pytest.mark.long

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
FIRST = [("x", 1, 1), ("x", 2, 1), ("y", 3, 1), ("y", 4, 1)]
AFTER = [("x", 1, 5), ("y", 3, 1), ("y", 5, 5), ("z", 2, 5)]
SOURCE = [{"place": "z", "id": 2}, {"place": "y", "id": 5}, {"place": "x", "id": 1}, {"place": "y", "id": 4}]
CLAUSES = [
    MergeClause("matched", "delete", "s.id = 4"),
    MergeClause("matched", "update", values={"place": "s.place", "n": "5"}),
    MergeClause("not matched", "insert", values={"place": "s.place", "id": "s.id", "n": "5"}),
]


def lake(bucket: GatedBucket, keys: KeySpec | None) -> LakeTable:
    journal = LeaderlessJournal(bucket, "db/t", clock=bucket.clock, renew_in_background=False)
    partition = PartitionSpec() if keys else PartitionSpec.parse(["place"], {})
    definition = LakeDefinition("t", partition=partition, keys=keys)
    return LakeTable(bucket, "db/t", definition, journal, InProcess(LocalRunner(threads=1)))


def content(table: LakeTable, at: str | None = None) -> list[tuple[Any, ...]]:
    return sorted((row["place"], row["id"], row["n"]) for row in table.scan(at=at).to_arrow().to_pylist())


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("keys", [None, KeySpec(("id",))], ids=["plain", "key"])
def test_struck_everywhere(keys: KeySpec | None, staged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if staged:
        monkeypatch.setattr(merge_source, "IN_MEMORY_BYTES", 0)
    store = SimStore()
    bucket = store.bucket()
    for rows in (FIRST[:2], FIRST[2:]):
        lake(bucket, keys).append([{"place": place, "id": id, "n": n} for place, id, n in rows])
        bucket.clock.sleep(60)
    version = lake(bucket, keys).snapshot().version
    outcome = Outcome()

    def merge(table: LakeTable) -> None:
        table.merge_into(SOURCE, on="t.id = s.id", clauses=CLAUSES)

    def operation(bucket: GatedBucket) -> None:
        with outcome.told():
            merge(lake(bucket, keys))

    def check(left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        table = lake(bucket, keys)
        assert content(table) in {"done": [AFTER], "failed": [FIRST]}.get(outcome.ended, [FIRST, AFTER])
        assert content(table, version) == FIRST
        merge(lake(bucket, keys))
        merge(lake(bucket, keys))
        assert [row for row in content(table) if row[1] != 4] == AFTER
        bucket.clock.sleep(86_400)
        table.sweep(older_than="0s", orphans="0s")
        assert [row for row in content(lake(bucket, keys)) if row[1] != 4] == AFTER
        assert {i.key for i in bucket.list(f"{table.prefix}/_data/").objects} == {
            f.path for f in table.snapshot().files
        }

    assert crash_points(lambda: store, operation, check, modes=MODES) > (25 if staged else 15)
