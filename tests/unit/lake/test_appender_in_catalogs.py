"""A batch of an appender is committed exactly once to a writer's catalog, too, whatever the store does."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from firn.database.writer_tables import WriterTables
from firn.errors import FirnError
from firn.journal.writer.journal import WriterAppend
from firn.lake.appender.batch_writer import BatchWriter
from firn.lake.appender.batches import Batch
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import GatedBucket, RandomFaults, SimStore

FAULTS = {"lost_ack": 0.1, "delayed": 0.1, "duplicated": 0.1, "failed": 0.15, "retried": 0.05, "slow": 0.02}
LANDS_S = 8


def tables(bucket: GatedBucket, writer: str | None = "w") -> WriterTables:
    engines = InProcess(LocalRunner(threads=1))
    return WriterTables(bucket, "db", "sim://db", engines, writer=writer, strict=True, clock=bucket.clock)


def opened(bucket: GatedBucket) -> LakeTable:
    while True:
        with suppress(FirnError):
            found = tables(bucket).find("t")
            assert found is not None
            return found


def random_run(seed: int, *, claims: bool) -> Counter[int]:
    store = SimStore(conditional_put=claims)
    properties = {"inline": "64KB" if seed % 2 else 0}
    tables(store.bucket("setup")).define(LakeDefinition("t", journal="writer", properties=properties))
    plan = RandomFaults(seed, delay_s=LANDS_S, stall_s=LANDS_S, **FAULTS)
    bucket = store.bucket("writer", plan=plan)
    writer = BatchWriter(opened(bucket).context, wait=bucket.clock.sleep, on_retry=lambda error: None)
    for batch in range(10):
        rows = [{"n": 2 * batch}, {"n": 2 * batch + 1}]
        writer.write(Batch(rows, id=f"b/{batch}" if seed % 3 == 0 else None))
    store.time.settle()
    found = tables(store.bucket("at last"), None).find("t")
    assert found is not None
    return Counter(found.scan().to_arrow().column("n").to_pylist())


@pytest.mark.parametrize("claims", [True, False], ids=["claims", "PUT and LIST"])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_there_once_over_a_store_that_fails(seed: int, claims: bool) -> None:
    assert random_run(seed, claims=claims) == Counter(range(20))


def test_the_runs_show_what_isnt_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 7 of docs/design/0019-appenders.md: the next commit has settled the one in doubt, which may be there."""
    monkeypatch.setattr(WriterAppend, "settle", lambda self, wait: None)
    seeds = [seed for seed in range(12) if seed % 3]
    assert any(random_run(seed, claims=True) != Counter(range(20)) for seed in seeds)


@pytest.mark.long
@pytest.mark.parametrize("claims", [True, False], ids=["claims", "PUT and LIST"])
def test_every_row_is_there_once_in_many_runs(claims: bool) -> None:
    for seed in range(100, 150):
        assert random_run(seed, claims=claims) == Counter(range(20)), seed
