"""Logs that the reference implementation wrote: an import, a partition's removal, a merge of another one."""

from __future__ import annotations

from pathlib import Path

import icedb_reader
import pytest

from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.errors import SnapshotTooOldError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format.codec import decode, encode
from firn.journal.leaderless.format.layout import parse_log_name
from firn.journal.leaderless.replay.replay import fold
from firn.journal.model import Commit, DataFile

LOGS = Path(__file__).parent / "icedb-logs"
IMPORT, REMOVAL, MERGE = sorted(path.name for path in LOGS.iterdir())

JUNE = "tenant/_data/cust=test/d=2023-06-07/d9cf1db1-1b2a-4364-a2fd-2004ace12694.parquet"
JUNE_MERGED = "tenant/_data/cust=test/d=2023-06-07/a1c0d438-27b6-4f65-962d-0f61f1275ca1.parquet"
FEBRUARY = "tenant/_data/cust=test/d=2023-02-11/6d53e4dd-9024-46e4-9eb3-ddc4e225688d.parquet"
COLUMNS = {"ts": "BIGINT", "event": "VARCHAR", "user_id": "VARCHAR", "properties": "VARCHAR"}


def log(name: str):
    return decode(name, (LOGS / name).read_bytes(), where=name)


@pytest.fixture
def bucket() -> Bucket:
    bucket = open_bucket("memory://")
    for name in (IMPORT, REMOVAL, MERGE):
        bucket.put(f"tenant/_log/{name}", (LOGS / name).read_bytes())
    for path in (JUNE, JUNE_MERGED, FEBRUARY):
        bucket.put(path, b"parquet")
    return bucket


def test_import_is_decoded():
    found = log(IMPORT)
    assert found.t == 1795224444056
    assert found.columns == COLUMNS
    assert found.files == [DataFile(JUNE, 1323, 1795224441920), DataFile(FEBRUARY, 1341, 1795224443013)]
    assert (found.dead, found.tombstones, found.notes, found.nonce) == ({}, {}, {}, "")


def test_removal_is_decoded():
    found = log(REMOVAL)
    assert found.tombstones == {f"tenant/_log/{IMPORT}": 1795224444083}
    assert found.files == [DataFile(FEBRUARY, 1341, 1795224443013)]
    assert found.dead == {FEBRUARY: 1795224444083}


def test_merge_is_decoded_and_the_first_time_of_a_repeated_tombstone_counts():
    found = log(MERGE)
    assert found.tombstones == {f"tenant/_log/{IMPORT}": 1795224444083}
    assert [f.path for f in found.files] == [JUNE, FEBRUARY, JUNE_MERGED]
    assert found.dead == {JUNE: 1795224444100, FEBRUARY: 1795224444083}


def test_names_tell_time_and_kind():
    for name in (IMPORT, REMOVAL, MERGE):
        parsed = parse_log_name(name)
        assert parsed is not None
        assert parsed.ms == icedb_reader.timestamp(name)
        assert parsed.maintenance is icedb_reader.is_merged(name) is True


@pytest.mark.parametrize(
    ("names", "alive"),
    [
        ([], set()),
        ([IMPORT], {JUNE, FEBRUARY}),
        ([IMPORT, REMOVAL], {JUNE}),
        ([IMPORT, REMOVAL, MERGE], {JUNE_MERGED}),
        # Read in any order, the last marker in the order of names wins.
        ([MERGE, IMPORT, REMOVAL], {JUNE_MERGED}),
    ],
)
def test_the_fold_is_the_references(names, alive):
    state = fold([log(name) for name in names])
    theirs = icedb_reader.read({f"tenant/_log/{n}": (LOGS / n).read_bytes() for n in names}, "tenant")
    assert {f.path for f in state.live} == theirs.alive == alive
    assert dict(state.agreement.columns) == theirs.schema
    assert dict(state.dead) == {p: m.tombstone for p, m in theirs.markers.items() if m.tombstone is not None}


def test_a_log_that_was_tombstoned_but_not_carried_still_counts():
    # The removal names February alone, yet tombstones the import, which alone names June.
    state = fold([log(IMPORT), log(REMOVAL)])
    assert state.replaced() == set()
    assert [f.path for f in state.live] == [JUNE]


def test_time_travel_finds_each_of_its_versions(bucket):
    journal = LeaderlessJournal(bucket, "tenant")
    alive = {name: {f.path for f in journal.snapshot(name).files} for name in (IMPORT, REMOVAL, MERGE)}
    assert alive == {IMPORT: {JUNE, FEBRUARY}, REMOVAL: {JUNE}, MERGE: {JUNE_MERGED}}
    assert journal.snapshot().version == MERGE.removesuffix(".jsonl")


def test_history_tells_what_its_logs_did(bucket):
    history = LeaderlessJournal(bucket, "tenant").history()
    assert [(c.op, c.files_added, c.files_removed) for c in history] == [
        ("merge", 2, 0),
        ("merge", 0, 1),
        ("merge", 1, 2),
    ]


def test_encoding_what_was_decoded_keeps_its_meaning():
    for name in (IMPORT, REMOVAL, MERGE):
        before = log(name)
        data = encode(before)
        after = decode(name, data, where=name)
        assert (after.t, after.columns, after.files) == (before.t, before.columns, before.files)
        assert (after.dead, after.tombstones) == (before.dead, before.tombstones)
        theirs = icedb_reader.read({f"tenant/_log/{name}": data}, "tenant")
        assert theirs.alive == {f.path for f in fold([before]).live}


def test_sweep_after_a_removal_by_the_reference_loses_no_other_partition(bucket):
    """The reference's own cleanup would delete the import, and June with it."""
    bucket.delete(f"tenant/_log/{MERGE}")
    bucket.delete(JUNE_MERGED)
    journal = LeaderlessJournal(bucket, "tenant")
    first = journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
    assert (first.data_files, first.logs) == ((), ())  # the import alone names June, and February alive
    with journal.exclusive("merge") as session:
        session.publish(Commit("merge"))
    second = journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
    assert second.data_files == (FEBRUARY,)
    assert second.logs == (f"tenant/_log/{IMPORT}", f"tenant/_log/{REMOVAL}")
    assert [f.path for f in LeaderlessJournal(bucket, "tenant").snapshot().files] == [JUNE]
    assert bucket.get(JUNE).data == b"parquet"


def test_sweep_after_its_merge_leaves_what_is_live(bucket):
    journal = LeaderlessJournal(bucket, "tenant")
    report = journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
    assert set(report.data_files) == {JUNE, FEBRUARY}
    assert report.logs == (f"tenant/_log/{IMPORT}",)
    after = LeaderlessJournal(bucket, "tenant")
    assert [f.path for f in after.snapshot().files] == [JUNE_MERGED]
    with pytest.raises(SnapshotTooOldError, match="tombstone_grace"):
        after.snapshot(IMPORT)
    remaining = {info.key for info in bucket.list("tenant/_data/").objects}
    assert remaining == {JUNE_MERGED}
