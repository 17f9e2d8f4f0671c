"""A connection that had read an old version before a prune couldn't read as of any time after it."""

from __future__ import annotations

import pytest

from firn.database.writer_tables import WriterTables
from firn.errors import SnapshotTooOldError
from firn.journal.writer.maintain.prune import prune
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import GatedBucket, SimStore


def tables(bucket: GatedBucket, writer: str | None = None) -> WriterTables:
    engines = InProcess(LocalRunner(threads=1))
    return WriterTables(bucket, "db", "sim://db", engines, writer=writer, strict=True, clock=bucket.clock)


def reader_of(bucket: GatedBucket) -> LakeTable:
    found = tables(bucket).find("t")
    assert found is not None
    return found


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("before", ["version", "time", "history"])
def test_an_open_reader_reads_as_of_a_time_after_a_prune(claims: bool, before: str) -> None:
    bucket = SimStore(conditional_put=claims).bucket()
    made = tables(bucket, "w")
    table = made.define(LakeDefinition("t", journal="writer"))
    for number in range(8):
        bucket.clock.sleep(60)
        table.append([{"id": number}])
        if number == 6:
            table.checkpoint()
    reader, times = reader_of(bucket), [line.time for line in table.history()]
    if before == "version":
        assert reader.scan(at="w=3").count() == 2
    elif before == "time":
        assert reader.scan(at=times[3]).count() == 3
    else:
        reader.history()
    bucket.clock.sleep(60)
    assert prune(made.own.history, older_than_ms=240_000).floor == 6
    assert [reader.scan(at=time).count() for time in times[5:]] == [5, 6, 7, 8]
    assert [reader.scan(at=f"w={revision}").count() for revision in range(6, 10)] == [5, 6, 7, 8]
    for at in ("w=3", times[2]):
        with pytest.raises(SnapshotTooOldError):
            reader.scan(at=at).count()
