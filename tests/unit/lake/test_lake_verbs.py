"""Every verb of a lake table, over each journal, on the memory store: what it does and what it refuses."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.lake.table import LakeTable
from lake_journals import Lake, abandon
from moments import next_millisecond

UTC = dt.timezone.utc


def rows(*months: int, origin: str = "DTW") -> list[dict[str, object]]:
    return [
        {"date": dt.datetime(2001, m, d, 12), "origin": origin, "delay": m * 100 + d, "note": None}
        for m in months
        for d in range(1, 11)
    ]


@pytest.fixture
def flights(lake: Lake) -> LakeTable:
    return lake.create("flights", partition_by=["month(date)"], sort_by=["delay"])


def values(table: LakeTable, column: str = "delay", **scan: object) -> list[object]:
    return sorted(table.scan(**scan).to_arrow()[column].to_pylist())  # type: ignore[arg-type]


# -- append


def test_append_unites_columns_over_all_rows(lake: Lake) -> None:
    table = lake.create("t")
    table.append([{"a": 1}, {"b": "x"}])
    table.append([{"c": 2.5}])
    assert sorted(table.schema().names) == ["a", "b", "c"]  # both may have the same millisecond
    assert table.scan().to_arrow().sort_by("a").to_pylist()[0] == {"a": 1, "b": None, "c": None}


def test_an_all_null_column_has_no_type_until_it_has_a_value(flights: LakeTable) -> None:
    flights.append(rows(1))
    assert "note" not in flights.schema().names
    flights.append([{"date": dt.datetime(2001, 1, 5), "note": "late"}])
    assert flights.schema().field("note").type == pa.string()
    assert flights.scan(where="note IS NULL").count() == 10


def test_a_conflict_is_refused_before_anything_is_uploaded(flights: LakeTable) -> None:
    flights.append(rows(1))
    before = flights.bucket.counters.put
    with pytest.raises(firn.SchemaConflictError, match=r"delay.*BIGINT.*VARCHAR|delay.*VARCHAR.*BIGINT"):
        flights.append([{"date": dt.datetime(2001, 1, 1), "delay": "much"}])
    assert flights.bucket.counters.put == before


@pytest.mark.parametrize(
    ("narrow", "wide", "name"),
    [
        (pa.int32(), pa.int64(), "BIGINT"),
        (pa.float32(), pa.float64(), "DOUBLE"),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), "DECIMAL(9,4)"),
    ],
)
def test_types_widen_and_old_files_are_read_by_the_new_type(
    lake: Lake, narrow: pa.DataType, wide: pa.DataType, name: str
) -> None:
    table = lake.create("t")
    table.append(pa.table({"x": pa.array([1.0, None]).cast(narrow)}))
    table.append(pa.table({"x": pa.array([2.0]).cast(wide)}))
    assert table.snapshot().columns == {"x": name}
    assert table.scan(where="x < 2").to_arrow()["x"].type == wide
    table.merge()
    assert values(table, "x", where="x IS NOT NULL") == [1, 2]


def test_texts_become_what_the_column_is_as_in_insert(lake: Lake) -> None:
    kinds = {"id": "UUID", "note": "JSON", "size": "ENUM('s', 'l')", "all": "UUID[]"}
    table = lake.create("t", schema=kinds)
    told = "6FA1C2E0-93B5-4C7E-8D21-5B0A9E4F7C38"
    rows = pa.table({"id": [told, None], "note": ["1", None], "size": ["s", None], "all": [[told], None]})
    table.append(rows)
    table.append(rows.to_reader())
    table.append([{"id": UUID(told), "all": [UUID(told)]}])
    table.append(rows, query="SELECT id, note, size FROM _rows")
    table.append(lake.db.sql("SELECT id, 's'::ENUM('s') AS size FROM t LIMIT 1"))
    assert dict(table.snapshot().columns) == kinds
    assert table.scan(where=f"id = '{told}'").count() == 5
    for name, text in {"id": "no", "note": "{no", "size": "m"}.items():
        with pytest.raises(firn.InvalidInputError, match=f"{name!r} is .*{text}' of the data"):
            table.append(pa.table({name: [told, text]} if name == "id" else {name: [text]}))
    with pytest.raises(firn.InvalidInputError, match=r"'all'.*'no' to UUID"):
        table.append(pa.table({"all": [["no"]]}))
    assert table.scan().count() == 8


def test_texts_are_taken_where_another_handle_lets_the_column_take_any(lake: Lake) -> None:
    table = lake.create("t", schema={"id": "UUID"})
    table.append([{"id": UUID(int=1)}])
    lake.connect("other").table("t").alter(types={"id": "VARCHAR"})
    table.append([{"id": "no"}])
    assert values(table, "id") == [str(UUID(int=1)), "no"]


def test_append_passes_rows_through_a_query_before_partitioning(flights: LakeTable) -> None:
    flights.append(rows(1, 2), query="SELECT date, origin, delay * 2 AS delay FROM _rows WHERE delay > 105")
    assert [p.values["date_month"] for p in flights.partitions()] == ["2001-01", "2001-02"]
    assert min(values(flights)) == 212  # type: ignore[type-var]


def test_a_batch_id_makes_a_retry_a_no_op_even_after_merge_and_sweep(lake: Lake, flights: LakeTable) -> None:
    first = flights.append(rows(1), batch_id="job/1")
    again = flights.append(rows(1), batch_id="job/1")
    assert again.duplicate and again.version == first.version
    flights.append(rows(1), batch_id="job/2")
    flights.merge()
    lake.forget(flights)
    late = flights.append(rows(1), batch_id="job/1")
    assert late.duplicate and flights.scan().count() == 20


def test_racing_retries_of_one_batch_make_one_commit(lake: Lake, flights: LakeTable) -> None:
    results: list[firn.AppendResult] = []

    def retry() -> None:
        results.append(lake.db.table("flights").append(rows(1), batch_id="same"))

    threads = [threading.Thread(target=retry) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert flights.scan().count() == 10
    assert len({r.version for r in results}) == 1


def test_an_append_without_rows_commits_nothing(lake: Lake, flights: LakeTable) -> None:
    flights.append(rows(1))
    result = flights.append([])
    assert result.files == 0 and len(lake.commits(flights)) == 1


def test_a_row_without_its_partition_column_lands_in_the_null_partition(flights: LakeTable) -> None:
    flights.append(rows(1))
    flights.append([{"delay": 7}])
    assert {p.values["date_month"] for p in flights.partitions()} == {"2001-01", None}
    assert flights.remove_partitions("date_month IS NULL").rows_deleted == 1


# -- reading


def test_a_predicate_prunes_partitions_and_statistics(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    assert len(flights.scan(where="date >= '2001-03-01'").files()) == 1
    assert len(flights.scan(where="delay < 150").files()) == 1
    assert values(flights, where="delay BETWEEN 109 AND 202") == [109, 110, 201, 202]
    assert "1 of 3" in flights.scan(where="delay < 150").explain()


@pytest.mark.parametrize("where", ["h // 2 = 3", "h & 3 = 3", "h > 6.5 AND h < 7.5"])
def test_a_condition_sees_the_types_of_the_columns(lake: Lake, where: str) -> None:
    table = lake.create("t", schema={"h": "HUGEINT"})
    table.append([{"h": 7}, {"h": 8}])
    assert [int(row["h"]) for row in table.scan(where=where).to_arrow().to_pylist()] == [7]
    table.delete(where)
    assert [int(row["h"]) for row in table.scan().to_arrow().to_pylist()] == [8]


def test_outputs_agree(flights: LakeTable) -> None:
    flights.append(rows(1))
    scan = flights.scan(columns=["delay"], where="delay > 105")
    expected = [106, 107, 108, 109, 110]
    assert sorted(scan.to_arrow()["delay"].to_pylist()) == expected
    assert sorted(scan.to_pandas()["delay"].tolist()) == expected
    assert sorted(scan.to_polars()["delay"].to_list()) == expected
    assert sorted(r[0] for r in scan.to_duckdb().fetchall()) == expected
    assert sorted(v for b in scan.to_batches() for v in b["delay"].to_pylist()) == expected
    assert scan.count() == 5


def test_a_snapshot_can_be_exported_to_other_engines(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t", partition_by=["bucket(2, x)"])
    table.append([{"x": x} for x in range(10)])
    version = table.snapshot().version
    next_millisecond()
    table.append([{"x": 10, "y": 1.5}])
    read = duckdb.read_parquet(table.scan(at=version).uris(), union_by_name=True, hive_partitioning=False)
    assert sorted(read.fetchall()) == [(x,) for x in range(10)]
    assert len(table.scan(where="x = 10").uris()) == 1


def test_columns_come_in_the_order_asked_for_and_unknown_ones_are_named(flights: LakeTable) -> None:
    flights.append(rows(1))
    assert flights.scan(columns=["origin", "DELAY"]).to_arrow().column_names == ["origin", "delay"]
    with pytest.raises(firn.InvalidInputError, match="no column 'dely'"):
        flights.scan(columns=["dely"]).to_arrow()
    with pytest.raises(firn.InvalidInputError, match="dely"):
        flights.scan(where="dely > 1").to_arrow()


def test_time_travel_by_version_time_and_text(flights: LakeTable) -> None:
    flights.append(rows(1))
    version = flights.snapshot().version
    moment = flights.snapshot().time
    assert moment is not None
    next_millisecond()
    flights.append(rows(2))
    flights.merge()
    flights.delete("delay < 105")
    assert flights.scan(at=version).count() == 10
    assert flights.scan(at=moment).count() == 10
    assert flights.scan(at=moment.isoformat()).count() == 10
    assert flights.scan(at=moment.replace(tzinfo=None)).count() == 10
    with pytest.raises(firn.NotFoundError, match="as of"):
        flights.scan(at=moment - dt.timedelta(seconds=5)).count()
    assert flights.scan().count() == 16


def test_a_reader_whose_files_were_swept_looks_again(lake: Lake, flights: LakeTable) -> None:
    flights.append(rows(1))
    flights.append(rows(1))
    scan = flights.scan()
    assert len(scan.files()) == 2
    flights.merge()
    lake.forget(flights)
    assert scan.to_arrow().num_rows == 20
    pinned = flights.scan(at=flights.snapshot().version)
    assert len(pinned.files()) == 1
    flights.overwrite(rows(2))
    lake.forget(flights)
    with pytest.raises(firn.SnapshotTooOldError, match="sweep deleted it"):
        pinned.to_arrow()


def test_a_version_that_sweep_deleted_is_refused_with_a_reason(lake: Lake, flights: LakeTable) -> None:
    first = flights.append(rows(1)).version
    flights.append(rows(1))
    flights.merge()
    lake.forget(flights)
    with pytest.raises(firn.SnapshotTooOldError, match=lake.too_old):
        flights.scan(at=first).count()


# -- maintenance


def test_merge_keeps_rows_order_columns_and_partitions(flights: LakeTable) -> None:
    for _ in range(5):
        flights.append(rows(1, 2))
    before = values(flights)
    result = flights.merge()
    assert (result.files_removed, result.files_added) == (10, 2)
    assert values(flights) == before
    assert flights.schema().names == ["date", "origin", "delay"]
    for file in flights.snapshot().files:
        stored = pq.read_table(pa.BufferReader(flights.bucket.get(file.path).data))
        assert stored.column_names == ["date", "origin", "delay"]
        assert stored["delay"].to_pylist() == sorted(stored["delay"].to_pylist())


def test_merge_of_one_partition(flights: LakeTable) -> None:
    for _ in range(3):
        flights.append(rows(1, 2))
    january = next(p for p in flights.partitions() if p.values["date_month"] == "2001-01")
    assert flights.merge(partitions=[january]).files_added == 1
    assert {p.values["date_month"]: p.files for p in flights.partitions()} == {"2001-01": 1, "2001-02": 3}
    assert flights.merge(partitions=[{"date_month": "2001-02"}]).files_removed == 3
    with pytest.raises(firn.InvalidInputError, match="no partition"):
        flights.merge(partitions=[{"date_month": "1999-01"}])


def test_merge_with_a_query_aggregates_what_it_merges(lake: Lake) -> None:
    table = lake.create("hits", partition_by=["day"])
    for _ in range(4):
        table.append([{"day": "mon", "page": "a", "n": 1}, {"day": "mon", "page": "b", "n": 2}])
    table.merge(query="SELECT day, page, sum(n) AS n FROM source_files GROUP BY ALL")
    assert table.scan().to_arrow().sort_by("page").to_pylist() == [
        {"day": "mon", "page": "a", "n": 4},
        {"day": "mon", "page": "b", "n": 8},
    ]
    assert table.snapshot().columns["n"] == "BIGINT"


def test_merge_does_not_rewrite_a_big_file_with_a_tiny_one(lake: Lake) -> None:
    table = lake.create("t")
    table.append(pa.table({"x": pa.array(range(200_000))}))
    table.append([{"x": 1}])
    assert table.merge().version is None
    table.append([{"x": 2}])
    assert table.merge().files_removed == 2


def test_merge_dry_run_changes_nothing(flights: LakeTable) -> None:
    flights.append(rows(1))
    flights.append(rows(1))
    version = flights.snapshot().version
    plan = flights.merge(dry_run=True)
    assert plan.dry_run and len(plan.files) == 2 and plan.version is None
    assert flights.snapshot().version == version


def test_delete_rewrites_only_files_that_may_match(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    plan = flights.delete("delay = 105", dry_run=True)
    assert len(plan.files) == 1
    result = flights.delete("delay = 105", soft=False)
    assert (result.files_removed, result.files_added) == (1, 1)
    assert result.rows_deleted == 1 and result.rows_inserted == 0
    assert flights.scan(where="delay = 105").count() == 0
    assert flights.delete("delay = 105", soft=False).version is None


def test_a_dry_run_of_a_rewrite_names_the_files_that_it_would_look_into(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    before = flights.snapshot()
    plan = flights.rewrite("delay <> 105", dry_run=True)
    (path,) = plan.files
    assert plan.dry_run and plan.version is None and plan.bytes_removed > 0
    assert len(flights.rewrite("SELECT * FROM _rows", dry_run=True).files) == 3
    first = [p for p in flights.partitions() if p.values == {"date_month": "2001-01"}]
    assert len(flights.rewrite("SELECT * FROM _rows", partitions=first, dry_run=True).files) == 1
    assert flights.rewrite("delay >= 0", dry_run=True).files == ()
    with pytest.raises(firn.InvalidInputError):
        flights.rewrite("no_such_column = 1", dry_run=True)
    assert flights.snapshot() == before
    flights.rewrite("delay <> 105")
    assert {file.path for file in before.files} - {file.path for file in flights.snapshot().files} == {path}


def test_deletes_are_soft_where_the_journal_keeps_them(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    result = flights.delete("delay = 105")
    assert flights.scan(where="delay = 105").count() == 0
    softly = flights.journal.soft_deletes
    assert (result.files_marked, result.files_removed, result.files_added) == (
        (1, 0, 0) if softly else (0, 1, 1)
    )
    assert flights.delete("delay = 105").version is None
    flights.merge()
    flights.delete("delay > 109", soft=False)
    assert all(not file.deletes for file in flights.snapshot().files if file.rows != 10)
    assert values(flights) == [101, 102, 103, 104, 106, 107, 108, 109]


def test_delete_keeps_rows_for_which_the_predicate_is_null(lake: Lake) -> None:
    table = lake.create("t")
    table.append([{"x": 1}, {"x": None}, {"x": 3}])
    table.delete("x > 2")
    assert values(table, "x", where="x IS NOT NULL") == [1]
    assert table.scan(where="x IS NULL").count() == 1


def test_delete_drops_whole_files_without_reading_them(flights: LakeTable) -> None:
    flights.append(rows(1, 2))
    flights.snapshot()
    before = flights.bucket.counters.bytes_in
    result = flights.delete("date < '2001-02-01'")
    assert (result.files_removed, result.files_added) == (1, 0)
    file_bytes = result.bytes_removed
    assert flights.bucket.counters.bytes_in - before < file_bytes + 4000


def test_rewrite_by_predicate_and_by_select(flights: LakeTable) -> None:
    flights.append(rows(1, origin="DTW") + rows(2, origin="HNL"))
    result = flights.rewrite("origin <> 'DTW'")
    assert (result.files_removed, result.files_added) == (1, 0)
    assert flights.scan().count() == 10
    flights.rewrite("SELECT * REPLACE (delay + 1000 AS delay) FROM _rows")
    assert min(values(flights)) == 1201  # type: ignore[type-var]
    flights.merge()
    assert flights.scan().count() == 10


def test_rewrite_of_chosen_partitions(flights: LakeTable) -> None:
    flights.append(rows(1, 2))
    flights.rewrite("delay % 2 = 0", partitions=[{"date_month": "2001-02"}])
    assert {p.values["date_month"]: p.rows for p in flights.partitions()} == {"2001-01": 10, "2001-02": 5}


def test_remove_partitions_reads_no_data_and_is_one_commit(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    assert len(flights.remove_partitions("date_month < '2001-03'", dry_run=True).files) == 2
    result = flights.remove_partitions("date_month < '2001-03'")
    assert result.files_removed == 2 and result.files_added == 0
    assert [p.values["date_month"] for p in flights.partitions()] == ["2001-03"]
    flights.remove_partitions([flights.partitions()[0]])
    assert flights.scan().count() == 0
    assert flights.scan(at=result.version).count() == 10


def test_removed_rows_stay_removed_over_merge_and_sweep(lake: Lake, flights: LakeTable) -> None:
    for _ in range(3):
        flights.append(rows(1, 2, 3))
    flights.remove_partitions("date_month = '2001-01'")
    flights.merge(partitions=[{"date_month": "2001-02"}])
    lake.forget(flights)
    assert {p.values["date_month"]: p.rows for p in flights.partitions()} == {"2001-02": 30, "2001-03": 30}


def test_overwrite_whole_predicate_and_touched_partitions(flights: LakeTable) -> None:
    flights.append(rows(1, 2, 3))
    flights.overwrite(rows(2, origin="NEW"), partitions="touched")
    assert flights.scan(where="origin = 'NEW'").count() == 10 and flights.scan().count() == 30
    flights.overwrite([{"date": dt.datetime(2001, 3, 3), "delay": 999}], where="delay > 300")
    assert flights.scan().count() == 21
    with pytest.raises(firn.InvalidInputError, match="don't satisfy"):
        flights.overwrite([{"date": dt.datetime(2001, 3, 3), "delay": 1}], where="delay > 300")
    assert flights.scan().count() == 21
    flights.overwrite(rows(5))
    assert [p.values["date_month"] for p in flights.partitions()] == ["2001-05"]


def test_restore_brings_rows_back_and_can_itself_be_undone(lake: Lake, flights: LakeTable) -> None:
    flights.append(rows(1))
    version = flights.snapshot().version
    flights.append(rows(2))
    flights.merge()
    flights.delete("delay < 200")
    after_delete = flights.snapshot().version
    assert flights.scan().count() == 10
    flights.restore(version)
    assert values(flights) == list(range(101, 111))
    flights.restore(after_delete)
    assert values(flights) == list(range(201, 211))
    again = flights.restore(after_delete).version
    assert (again is None) == flights.journal.revives, "what can't be revived is written anew"
    assert values(flights) == list(range(201, 211))
    flights.restore(version)
    lake.forget(flights)
    assert values(flights) == list(range(101, 111))
    with pytest.raises(firn.SnapshotTooOldError):
        flights.restore(after_delete)


def test_expire_removes_old_partitions_by_their_age(lake: Lake) -> None:
    table = lake.create("t", partition_by=["day(at)"], properties={"retention": "30d"})
    now = dt.datetime.now(UTC).replace(tzinfo=None)
    table.append([{"at": now - dt.timedelta(days=d), "d": d} for d in (0, 10, 29, 33, 400)])
    assert len(table.expire(dry_run=True).files) == 2
    table.expire()
    assert values(table, "d") == [0, 10, 29]
    table.expire("5d")
    assert values(table, "d") == [0]
    with pytest.raises(firn.InvalidInputError, match="isn't partitioned by a time"):
        lake.create("u").expire("1d")


def test_sweep_leaves_live_objects_only_and_dry_run_nothing_changed(lake: Lake, flights: LakeTable) -> None:
    for _ in range(3):
        flights.append(rows(1, 2))
    orphans = abandon(flights, rows(1, 3))
    flights.merge()
    live = {f.path for f in flights.snapshot().files}
    lake.age()
    before = lake.stored("flights")
    assert orphans < before and len(before) == 6 + 2 + 2
    plan = flights.sweep(older_than="0s", orphans="0s", dry_run=True)
    assert plan.dry_run and {*plan.data_files, *plan.orphans} == before - live
    assert flights.sweep().data_files == (), "the grace keeps them"
    assert lake.stored("flights") == before
    report = flights.sweep(older_than="0s", orphans="0s")
    assert (report.data_files, report.logs, report.orphans) == (plan.data_files, plan.logs, plan.orphans)
    assert lake.stored("flights") == live == {f.path for f in flights.snapshot().files}
    assert flights.scan().count() == 60


def test_history_survives_merge_and_sweep(lake: Lake, flights: LakeTable) -> None:
    flights.append(rows(1))
    flights.append(rows(1))
    flights.merge()
    flights.delete("delay = 101")
    flights.sweep(older_than="0s", orphans="0s")
    history = lake.commits(flights)
    assert [c.op for c in history] == ["append", "append", "merge", "delete"]
    assert [c.rows_added for c in history[:3]] == [10, 10, 20]
    assert history[3].summary["where"] == '"delay" = ?', "the log must not keep what an erasure was about"


def test_a_checkpoint_changes_nothing_and_can_be_lost(lake: Lake, flights: LakeTable) -> None:
    for _ in range(3):
        flights.append(rows(1))
    assert flights.checkpoint() == len(flights.history())
    assert flights.checkpoint() in (0, 3), "it covers no more than before"
    flights.append(rows(2))
    keys = lake.checkpoints(flights)
    assert keys and lake.connect().table("flights").scan().count() == 40
    for key in keys:
        lake.db.bucket.put(key, b"damaged")
    assert lake.connect().table("flights").scan().count() == 40


# -- register


def test_register_makes_existing_files_part_of_the_table_without_rewriting(lake: Lake) -> None:
    table = lake.create("t", partition_by=["month(date)"])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"date": [dt.datetime(2001, 1, 3)], "delay": [5]}), sink)
    lake.db.bucket.put("landing/jan.parquet", sink.getvalue().to_pybytes())
    result = table.register("landing/")
    assert result.rows == 1 and table.partitions()[0].values == {"date_month": "2001-01"}
    assert table.scan(where="date < '2001-02-01'").to_arrow()["delay"].to_pylist() == [5]
    with pytest.raises(firn.InvalidInputError, match="double"):
        table.register("landing/jan.parquet")
    table.append([{"date": dt.datetime(2001, 1, 4), "delay": 6}])
    table.merge()
    report = lake.forget(table)
    assert "landing/jan.parquet" not in (*report.data_files, *report.orphans)
    assert lake.db.bucket.head("landing/jan.parquet").size > 0
    assert values(table) == [5, 6]


def test_register_refuses_what_it_cant_place(lake: Lake) -> None:
    table = lake.create("t", partition_by=["month(date)"])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"date": [dt.datetime(2001, 1, 3), dt.datetime(2001, 2, 3)]}), sink)
    lake.db.bucket.put("landing/two.parquet", sink.getvalue().to_pybytes())
    lake.db.bucket.put("landing/bad.parquet", b"no parquet")
    with pytest.raises(firn.InvalidInputError, match=r"two\.parquet"):
        table.register("landing/two.parquet")
    with pytest.raises(firn.CorruptObjectError, match=r"bad\.parquet"):
        table.register("landing/bad.parquet")
    with pytest.raises(firn.ObjectNotFoundError):
        table.register("landing/none.parquet")
    with pytest.raises(firn.InvalidInputError, match="own"):
        table.register(sorted(abandon(table, [{"date": dt.datetime(2001, 1, 3)}])))
    assert table.scan().count() == 0


def test_register_refuses_values_that_no_read_could_give(lake: Lake) -> None:
    table = lake.create("t")
    for name, at in (("whole", 1_000), ("finer", 1_001)):
        sink = pa.BufferOutputStream()
        stays = pa.array([{"at": at}], pa.struct([("at", pa.timestamp("ns", "UTC"))]))
        pq.write_table(pa.table({"stay": stays}), sink)
        lake.db.bucket.put(f"landing/{name}.parquet", sink.getvalue().to_pybytes())
    with pytest.raises(firn.InvalidInputError, match=r"finer\.parquet: column 'stay.at'.*correct the data"):
        table.register("landing/")
    table.register("landing/whole.parquet")
    assert table.scan().count() == 1


# -- the database


def test_tables_are_listed_created_once_and_dropped(lake: Lake) -> None:
    lake.create("a")
    lake.create("b").append([{"x": 1}])
    assert lake.db.tables() == ["a", "b"]
    with pytest.raises(firn.TableExistsError, match="'a'"):
        lake.create("a")
    lake.erase("b")
    assert lake.db.tables() == ["a"] and lake.stored("b") == set()
    with pytest.raises(firn.TableNotFoundError, match="Did you mean 'a'"):
        lake.db.table("aa")
    assert lake.create("b").scan().count() == 0


@pytest.mark.parametrize(
    "name", ["", "_x", "a/b", "..", ".", "a\0b", "x" * 101, "a b", "é", "___", "%2F", "🙂", "a\nb"]
)
def test_names_that_could_leave_the_prefix_are_refused(lake: Lake, name: str) -> None:
    for call in (lake.db.create_table, lake.db.table, lake.db.drop_table):
        with pytest.raises(firn.InvalidInputError, match="can't name a table"):
            call(name)
    assert lake.db.bucket.list("").objects == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "cube"}, "kind='cube'"),
        ({"journal": "raft"}, "journal='raft'"),
        ({"partition_by": ["week(date)"]}, "week"),
        ({"partition_by": ["month(x)"], "schema": {"x": "VARCHAR"}}, "month"),
        ({"sort_by": ["y"], "schema": {"x": "BIGINT"}}, "'y'"),
        ({"schema": {"x": "NUMBERISH"}}, "NUMBERISH"),
        ({"properties": {"target": "1MB"}}, "'target'"),
        ({"properties": {"target_size": "big"}}, "big"),
        ({"properties": {"orphan_age": "soon"}}, "soon"),
        ({"properties": {"on_conflict": "panic"}}, "panic"),
        ({"properties": {"codec": "zip"}}, "zip"),
        ({"properties": {"stats_columns": "some"}}, "some"),
        ({"properties": {"row_group_rows": 0}}, "row_group_rows"),
    ],
)
def test_what_a_table_cant_be_is_refused_before_it_exists(
    lake: Lake, options: dict[str, object], message: str
) -> None:
    with pytest.raises(firn.InvalidInputError, match=message):
        lake.create("t", **options)  # type: ignore[arg-type]
    assert lake.db.tables() == []
