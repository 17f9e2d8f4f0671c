"""The holes that were reproduced in the reference implementation of the leaderless log, one by one.

Each test is what a user does, with rows that the reference loses, doubles or brings back. What happens in
thousands of interleavings is in tests/simulation; here are the shortest ways into each hole.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.bucket import open_bucket
from firn.clock import SystemClock
from firn.journal.model import Commit
from firn.lake.table import LakeTable
from firn.testing import Call, SimStore
from regressions.journals import Before, append, journal_on, merge, pass_time, rows
from simulation.leaderless_table import clean, journal_of, put_rows, read_all

Rows = list[dict[str, object]]
ALL = "0s"


def part(day: str, *ids: int) -> Rows:
    return [{"day": day, "id": i} for i in ids]


def ids(table: LakeTable, **scan: str) -> list[int]:
    found: list[int] = table.scan(**scan).to_arrow()["id"].to_pylist()
    return sorted(found)


def sweep(table: LakeTable) -> None:
    table.sweep(older_than=ALL, orphans=ALL)


@pytest.fixture
def table() -> LakeTable:
    return firn.connect("memory://").create_table("t", partition_by=["day"])


# -- 1. Whoever buries a log carries all of its markers on


def test_hole_1_other_partitions_of_a_log_survive_a_removal_and_cleanup(table: LakeTable) -> None:
    table.append(part("mon", 1) + part("tue", 2) + part("wed", 3))
    table.remove_partitions("day = 'mon'")
    sweep(table)
    assert ids(table) == [2, 3]
    assert len(table.bucket.list("t/_log/").objects) == 1, "the append's log is gone, its other markers not"


def test_hole_1_removed_rows_stay_removed_when_another_partition_merges(table: LakeTable) -> None:
    table.append(part("mon", 1) + part("tue", 2))
    table.append(part("mon", 3) + part("tue", 4))
    table.remove_partitions("day = 'mon'")
    table.merge(partitions=[{"day": "tue"}])
    assert ids(table) == [2, 4]
    sweep(table)
    assert ids(table) == [2, 4]


def test_hole_1_merging_one_partition_keeps_the_others_of_its_logs(table: LakeTable) -> None:
    table.append(part("mon", 1) + part("tue", 2))
    table.append(part("mon", 3) + part("tue", 4))
    table.merge(partitions=[{"day": "tue"}])
    sweep(table)
    assert ids(table) == [1, 2, 3, 4]
    table.remove_partitions("day = 'tue'")
    sweep(table)
    assert ids(table) == [1, 3]


# -- 2. and 3. Columns are the union: over files in a merge, over rows in an append


def test_hole_2_a_merge_keeps_a_column_that_its_first_file_lacks(table: LakeTable) -> None:
    table.append([{"day": "mon", "id": 1}])
    table.append([{"day": "mon", "id": 2, "note": "late"}])
    table.append([{"id": 3, "day": "mon"}])
    assert table.merge().files_added == 1
    sweep(table)
    stored = table.scan().to_arrow().sort_by("id")
    assert stored["note"].to_pylist() == [None, "late", None]


def test_hole_3_an_append_takes_the_columns_of_every_row(table: LakeTable) -> None:
    table.append([{"day": "mon", "id": 1}, {"day": "mon", "id": 2, "note": "late"}])
    assert table.schema().names == ["day", "id", "note"]
    assert table.scan().to_arrow().sort_by("id")["note"].to_pylist() == [None, "late"]


# -- 4. Cleanup racing a merge, and two merges


def test_hole_4_a_cleanup_during_a_merge_doubles_nothing() -> None:
    """Cleanup, which takes no lock, runs right before each call of a merge in turn."""
    for nth in range(40):
        store = SimStore()
        journal, cleaner = journal_on(store), journal_on(store, "cleaner")
        append(journal, [1])
        append(journal, [2])
        merge(journal)
        pass_time(journal, 5000)
        append(journal, [3])
        plan = Before(_nth(nth), lambda cleaner=cleaner: clean(cleaner))
        merge(journal_on(store, "merger", plan=plan))
        assert rows(journal) == [1, 2, 3], nth
        pass_time(journal, 5000)
        clean(cleaner)
        assert rows(journal) == [1, 2, 3], nth
        if not plan.done:
            assert nth > 10
            return
    pytest.fail("a merge of three files made more than forty calls")


def _nth(number: int) -> Callable[[Call], bool]:
    seen = itertools.count()
    return lambda call: next(seen) == number


def test_hole_4_of_two_merges_of_the_same_files_one_counts() -> None:
    """The holder sleeps while another waits for its lease to end, takes the lock over, and merges."""
    store = SimStore()
    slow, quick = journal_on(store, "slow"), journal_on(store, "quick")
    append(slow, [1])
    append(slow, [2])
    plan = Before(lambda call: call.verb == "put" and "/part-m-" in call.key, lambda: merge(quick))
    stalled = journal_on(store, "stalled", plan=plan)
    with pytest.raises(firn.LockLostError):
        merge(stalled)
    assert plan.done and rows(quick) == [1, 2]
    merge(quick)
    assert rows(quick) == [1, 2]


def test_hole_4_a_second_merge_is_refused_while_the_first_holds_the_lock() -> None:
    table = firn.connect("memory://").create_table("t", properties={"lock_wait": ALL})
    table.append([{"id": 1}])
    with table.journal.exclusive("merge"), pytest.raises(firn.LockHeldError):
        table.merge()


# -- 5. A snapshot inside the grace reads; a reader with an old listing looks again


def test_hole_5_versions_inside_the_grace_read_after_a_cleanup() -> None:
    store = SimStore()
    journal = journal_on(store)
    first = append(journal, [1])
    append(journal, [2])
    before = journal.snapshot().version
    merged = merge(journal)
    pass_time(journal, 600)
    clean(journal)
    assert (rows(journal, before), rows(journal, merged)) == ([1, 2], [1, 2])
    fresh = journal_on(store, "fresh")
    assert rows(fresh, before) == [1, 2]
    pass_time(journal, 5000)
    clean(journal)
    assert journal.bucket.list(first.path).objects == ()
    assert rows(fresh) == [1, 2]
    with pytest.raises(firn.SnapshotTooOldError):
        rows(fresh, before)


def test_hole_5_a_reader_whose_files_are_gone_lists_again(table: LakeTable) -> None:
    table.append(part("mon", 1))
    table.append(part("mon", 2))
    scan = table.scan()
    planned = [f.path for f in scan.files()]
    table.merge()
    sweep(table)
    assert all(table.bucket.list(path).objects == () for path in planned)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [1, 2]


# -- 6. Two writers on one host in one millisecond


class StoppedClock(SystemClock):
    """Every call falls into one millisecond: that in which it was made."""

    def __init__(self) -> None:
        self.moment = super().now_ms()

    def now_ms(self) -> int:
        return self.moment


def test_hole_6_writers_of_one_host_in_one_millisecond_lose_no_log() -> None:
    bucket, clock = open_bucket("memory://"), StoppedClock()
    journals = [journal_of(bucket, clock) for _ in range(8)]
    for n, journal in enumerate(journals):
        ticket = journal.begin_append()
        file = put_rows(journal, "p=a", [n], maintenance=False)
        ticket.commit(Commit("append", [file], columns={"id": "BIGINT"}))
    logs = [i.key.rpartition("/")[2] for i in bucket.list(journals[0].layout.log_prefix).objects]
    assert len(logs) == 8 and {name.partition("_")[0] for name in logs} == {str(clock.moment)}
    assert sorted(read_all(journals[0], journals[0].snapshot())) == list(range(8))


# -- 7. Shapes that crash or distort the reference's merge


def test_hole_7_a_partition_with_dead_files_only_merges(table: LakeTable) -> None:
    table.append(part("mon", 1) + part("tue", 2))
    table.append(part("tue", 3))
    table.delete("day = 'mon'")
    assert table.merge().files_added == 1
    assert table.merge().version is None
    assert ids(table) == [2, 3]


def test_hole_7_merged_files_have_the_columns_of_the_table_and_no_more() -> None:
    table = firn.connect("memory://").create_table("t", partition_by=["month(at)", "kind"])
    for n in range(3):
        table.append([{"at": dt.datetime(2001, 1, 1 + n), "kind": "a", "id": n}])
    table.merge()
    (file,) = table.snapshot().files
    stored = pq.read_table(pa.BufferReader(table.bucket.get(file.path).data))
    assert stored.column_names == ["at", "kind", "id"]
    assert table.schema().names == ["at", "kind", "id"]


def test_hole_7_a_merge_keeps_the_sort_order() -> None:
    table = firn.connect("memory://").create_table("t", sort_by=["id"])
    for first in (7, 1, 4):
        table.append([{"id": first + n} for n in (2, 0, 1)])
    table.merge()
    (file,) = table.snapshot().files
    stored = pq.read_table(pa.BufferReader(table.bucket.get(file.path).data))
    assert stored["id"].to_pylist() == list(range(1, 10))


def test_hole_7_a_big_file_is_not_rewritten_for_each_tiny_one() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append(pa.table({"id": pa.array(range(300_000))}))
    big = table.snapshot().files[0].path
    for n in range(6):
        table.append([{"id": -n}])
        table.merge()
    assert big in {f.path for f in table.snapshot().files}


def test_hole_7_any_column_name_survives_a_rewrite_and_a_merge(table: LakeTable) -> None:
    odd = ["n_rows", "count(*)", "_rows", "source_files", 'a "b"', "filename", "select", "É"]
    for n in range(2):
        table.append([{"day": "mon", "id": n, **dict.fromkeys(odd, n)}])
    table.rewrite("n_rows >= 0")
    table.rewrite("SELECT * FROM _rows WHERE id >= 0")
    table.merge()
    stored = table.scan().to_arrow().sort_by("id")
    assert stored.column_names == ["day", "id", *odd]
    assert stored["n_rows"].to_pylist() == [0, 1]


@pytest.mark.parametrize("prefix", ["b/x_data", "b/_data_/y", "b/_data"])
def test_hole_7_a_prefix_that_looks_like_a_data_directory(prefix: str) -> None:
    table = firn.connect(f"memory://{prefix}/").create_table("t_data", partition_by=["day"])
    table.append(part("mon", 1) + part("tue", 2))
    table.append(part("mon", 3))
    assert [p.values for p in table.partitions()] == [{"day": "mon"}, {"day": "tue"}]
    table.remove_partitions("day = 'tue'")
    table.merge()
    assert ids(table, where="day = 'mon'") == [1, 3]


def test_hole_7_a_conflict_of_types_uploads_nothing(table: LakeTable) -> None:
    table.append(part("mon", 1))
    before = {i.key for i in table.bucket.list("t/").objects}
    with pytest.raises(firn.SchemaConflictError, match="id"):
        table.append([{"day": "mon", "id": "one"}])
    assert {i.key for i in table.bucket.list("t/").objects} == before


# -- 8. Log amplification


def test_hole_8_one_merge_of_many_appends_fetches_each_log_once() -> None:
    db = firn.connect("memory://")
    table = db.create_table("t", partition_by=["day"])
    days = ("mon", "tue", "wed", "thu")
    for n in range(30):
        table.append([row for day in days for row in part(day, n)])
    fresh = db.table("t")
    before = fresh.bucket.counters.as_dict()
    fresh.merge()
    after = fresh.bucket.counters.as_dict()
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "head")}
    # 30 logs + 120 data files, the definition, checkpoint and lock; 4 parts + 1 log in 3 PUTs, lock in 2
    assert spent["get"] <= 30 + 120 + 5 and spent["put"] <= 4 + 3 + 3 and spent["list"] <= 2, spent


def test_hole_8_the_log_is_as_long_as_what_is_alive(table: LakeTable) -> None:
    for n in range(30):
        table.append(part("mon", n) + part("tue", n))
        if n % 10 == 9:
            table.merge()
    logs = [table.bucket.get(i.key).data for i in table.bucket.list("t/_log/").objects]
    buried = [orjson.loads(line)["p"] for log in logs for line in _tombstone_lines(log)]
    assert buried
    newest = max(logs, key=lambda log: orjson.loads(log.partition(b"\n")[0])["t"])
    own = [orjson.loads(line)["p"] for line in _tombstone_lines(newest)]
    assert len(own) == len(set(own)), "no tombstone is repeated in a log"
    sweep(table)
    (left,) = table.bucket.list("t/_log/").objects
    body = table.bucket.get(left.key).data
    assert not _tombstone_lines(body)
    assert sum(b'"b":' in line for line in body.splitlines()) == len(table.snapshot().files) == 2


def _tombstone_lines(log: bytes) -> list[bytes]:
    lines = log.split(b"\n")
    header = orjson.loads(lines[0])
    return lines[header["tmb"] : header["f"]] if "tmb" in header else []
