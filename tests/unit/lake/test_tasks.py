"""Tasks of merge, delete and rewrite: which files they make of which."""

from __future__ import annotations

import pickle
import secrets
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.arrow.types import columns_of
from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, ObjectNotFoundError
from firn.journal.leaderless.format.layout import DataNamer
from firn.journal.model import DataFile
from firn.lake.maintain.tasks import (
    DeleteContext,
    MergeContext,
    MergeTask,
    RewriteContext,
    TaskResult,
    delete_task,
    merge_task,
    rewrite_task,
)
from firn.lake.parquet import source
from firn.lake.partition.partition import PartitionSpec
from firn.lake.read.read import ReadSpec, read_table
from firn.lake.write.write import WriteSpec, write_batches, write_partition
from firn.runner import LocalRunner

PREFIX = "db/t_data/_data/"  # a table whose own name ends in _data


@pytest.fixture(params=["memory", "ranged", "directory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """`ranged` reads every object by ranges, as large ones are read."""
    if request.param == "ranged":
        monkeypatch.setattr(source, "WHOLE_BYTES", 0)
        monkeypatch.setattr("firn.lake.maintain.tasks.WHOLE_BYTES", 0)
    return open_bucket(str(tmp_path) if request.param == "directory" else "memory://")


def spec_for(columns: dict[str, str], *partition_by: str, **options: Any) -> WriteSpec:
    partition = PartitionSpec.parse(list(partition_by), columns)
    return replace(WriteSpec(DataNamer(PREFIX, "m"), columns, partition), **options)


def reading(columns: dict[str, str]) -> ReadSpec:
    return ReadSpec(columns, None, columns)


def directory(file: DataFile) -> str:
    return file.path.removeprefix(PREFIX).rpartition("/")[0]


def inside(bucket: Bucket, file: DataFile) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(bucket.get(file.path).data)).read()


COLUMNS = {"id": "BIGINT", "who": "VARCHAR", "n": "INTEGER"}
ROWS = pa.table(
    {
        "id": range(100),
        "who": [None if i % 10 == 0 else f"w{i % 3}" for i in range(100)],
        "n": pa.array([None if i % 7 == 0 else i % 5 for i in range(100)], pa.int32()),
    }
)


def a_file(bucket: Bucket, rows: pa.Table = ROWS, where: str = "", **options: Any) -> DataFile:
    spec = spec_for(columns_of(rows.schema), **options)
    (file,) = write_partition(bucket, spec, [rows], where, {"spec": "s1"}, order="keep")
    return file


def an_empty_file(bucket: Bucket, where: str = "") -> DataFile:
    """Others' files may have no rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS.slice(0, 0), sink)
    body = bytes(sink.getvalue())
    key = spec_for(COLUMNS).namer(where, crc=0, filters_crc=None)
    bucket.put(key, body)
    return DataFile(key, len(body), 0, {"rows": 0})


def selected(rows: pa.Table, condition: str) -> pa.Table:
    with duckdb.connect() as connection:
        found = connection.from_arrow(rows).filter(condition).order("id").to_arrow_table()
    return found.cast(rows.schema)


# -- merge


def merge(
    bucket: Bucket, files: list[DataFile], spec: WriteSpec, where: str = "", query: str | None = None
) -> TaskResult:
    context = MergeContext(spec, reading(dict(spec.columns)), query)
    context, task = pickle.loads(pickle.dumps((context, MergeTask(where, tuple(files)))))
    return pickle.loads(pickle.dumps(merge_task(bucket, context, task)))


def test_a_merge_makes_one_file_of_many(bucket: Bucket) -> None:
    files = [a_file(bucket, ROWS.slice(i, 10), "who=a") for i in range(0, 100, 10)]
    result = merge(bucket, files, spec_for(COLUMNS, "who"), "who=a")
    (merged,) = result.adds
    assert directory(merged) == "who=a"
    assert inside(bucket, merged).equals(ROWS)
    assert result.changed
    assert (merged.rows, (merged.extra or {})["spec"]) == (100, "s1")
    assert result.columns == {}


def test_a_merge_is_a_union_by_name_and_widens(bucket: Bucket) -> None:
    files = [
        a_file(bucket, pa.table({"b": pa.array([1], pa.int8())})),
        a_file(bucket, pa.table({"a": ["x"], "b": pa.array([2], pa.int32())})),
        a_file(bucket, pa.table({"c": [3.5], "a": ["y"]})),
    ]
    columns = {"a": "VARCHAR", "b": "BIGINT", "c": "DOUBLE"}
    (merged,) = merge(bucket, files, spec_for(columns)).adds
    assert inside(bucket, merged).to_pydict() == {
        "a": [None, "x", "y"],
        "b": [1, 2, None],
        "c": [None, None, 3.5],
    }


def test_a_merge_keeps_the_sort_order(bucket: Bucket) -> None:
    files = [a_file(bucket, ROWS.slice(i, 25)) for i in (50, 0, 75, 25)]
    for budget in (1, 2000, 10**9):
        spec = spec_for(COLUMNS, sort_by=("n desc", "id"), memory_budget=budget, row_group_rows=30)
        (merged,) = merge(bucket, files, spec).adds
        expected = ROWS.sort_by([("n", "descending"), ("id", "ascending")])
        assert inside(bucket, merged).equals(expected)


def test_a_merge_adds_no_partition_columns(bucket: Bucket) -> None:
    plain = pa.table({"id": [1, 2]})
    files = [a_file(bucket, plain, "day=2001-01-01"), a_file(bucket, plain, "day=2001-01-01")]
    (merged,) = merge(bucket, files, spec_for({"id": "BIGINT"}), "day=2001-01-01").adds
    assert inside(bucket, merged).column_names == ["id"]


def test_a_merge_of_much_makes_files_of_the_target_size(bucket: Bucket) -> None:
    noise = pa.table({"id": range(5000), "x": [secrets.token_hex(12) for _ in range(5000)]})
    files = [a_file(bucket, noise.slice(i, 500)) for i in range(0, 5000, 500)]
    result = merge(bucket, files, spec_for(columns_of(noise.schema), target_size=30_000))
    assert 2 <= len(result.adds) < 10
    assert all(f.size >= 30_000 for f in result.adds[:-1])
    assert pa.concat_tables(inside(bucket, f) for f in result.adds).equals(noise)


def test_a_merge_of_files_without_rows_leaves_no_file(bucket: Bucket) -> None:
    spec = spec_for(COLUMNS)
    files = [an_empty_file(bucket, "who=a") for _ in range(3)]
    result = merge(bucket, files, spec, "who=a")
    assert (list(result.adds), result.changed) == ([], True)
    (merged,) = merge(bucket, [*files, a_file(bucket)], spec, "who=a").adds
    assert inside(bucket, merged).equals(ROWS)


@pytest.mark.parametrize("query", [None, "SELECT * FROM source_files"])
def test_a_missing_file_aborts_the_merge(bucket: Bucket, query: str | None) -> None:
    files = [a_file(bucket) for _ in range(3)]
    bucket.delete(files[1].path)
    puts = bucket.counters.put
    with pytest.raises(ObjectNotFoundError, match=files[1].path):
        merge(bucket, files, spec_for(COLUMNS), query=query)
    assert bucket.counters.put == puts


def test_a_marker_survives_where_the_files_agree(bucket: Bucket) -> None:
    long = "x" * 300
    spec = spec_for(COLUMNS, "who")
    rows = ROWS.set_column(1, "who", pa.array([long] * 100))
    files = write_batches(bucket, spec, [rows]) + write_batches(bucket, spec, [rows])
    (merged,) = merge(bucket, files, spec, directory(files[0])).adds
    assert (merged.extra or {})["part"] == {"who": long}
    assert (merged.extra or {})["spec"] == spec.partition.id
    mixed = [files[0], files[1]._replace(extra=None)]
    (merged,) = merge(bucket, mixed, spec, directory(files[0])).adds
    assert merged.extra is not None
    assert not {"spec", "part"} & merged.extra.keys()


def test_a_query_aggregates_on_merge(bucket: Bucket) -> None:
    files = [a_file(bucket, ROWS.slice(0, 50)), a_file(bucket, ROWS.slice(50, 50))]
    query = "SELECT who, sum(n) AS n, max(id) AS ID, count(*) AS n_rows FROM source_files GROUP BY who"
    result = merge(bucket, files, spec_for(COLUMNS, sort_by=("who",)), query=query)
    (merged,) = result.adds
    assert result.columns == {"who": "VARCHAR", "n": "INTEGER", "id": "BIGINT", "n_rows": "BIGINT"}
    with duckdb.connect() as connection:
        connection.register("source_files", ROWS)
        expected = (
            connection.sql(f"{query} ORDER BY who").to_arrow_table().rename_columns(list(result.columns))
        )
    assert inside(bucket, merged).to_pylist() == expected.to_pylist()
    assert merged.rows == 4


def test_a_type_grows_only_where_a_result_asks_for_it(bucket: Bucket) -> None:
    file = a_file(bucket, pa.table({"n": pa.array([2**31 - 1] * 2, pa.int32())}))
    spec = spec_for({"n": "INTEGER"})
    assert merge(bucket, [file], spec, query="SELECT max(n) AS n FROM source_files").columns == {
        "n": "INTEGER"
    }
    wide = merge(bucket, [file], spec, query="SELECT sum(n)::BIGINT AS n FROM source_files")
    assert wide.columns == {"n": "BIGINT"}
    assert inside(bucket, wide.adds[0]).to_pydict() == {"n": [2**32 - 2]}
    with pytest.raises(InvalidInputError, match="'n'"):
        merge(bucket, [file], spec, query="SELECT 'text' AS n FROM source_files")


def test_a_query_moves_rows_to_the_partitions_that_they_say(bucket: Bucket) -> None:
    file = a_file(bucket, ROWS, "who=w1")
    spec = spec_for(COLUMNS, "who")
    moved = merge(bucket, [file], spec, "who=w1", "SELECT id, 'new' || id % 2 AS who FROM source_files")
    assert sorted(map(directory, moved.adds)) == ["who=new0", "who=new1"]
    assert {(f.extra or {})["spec"] for f in moved.adds} == {spec.partition.id}
    nobody = merge(bucket, [file], spec, "who=w1", "SELECT sum(id) AS id, NULL AS who FROM source_files")
    assert list(map(directory, nobody.adds)) == ["who=__HIVE_DEFAULT_PARTITION__"]
    with pytest.raises(InvalidInputError, match="has no column 'who'"):
        merge(bucket, [file], spec, "who=w1", "SELECT sum(id) AS id FROM source_files")


def test_a_query_without_rows_leaves_no_file(bucket: Bucket) -> None:
    result = merge(
        bucket, [a_file(bucket)], spec_for(COLUMNS), query="SELECT * FROM source_files WHERE id < 0"
    )
    assert (list(result.adds), result.changed) == ([], True)


def test_columns_named_like_the_internals(bucket: Bucket) -> None:
    names = ["n_rows", "_rows", "source_files", "rows", "keep", "filename"]
    table = pa.table({name: [i, i + 10] for i, name in enumerate(names)} | {"id": [0, 1]})
    columns = columns_of(table.schema)
    file = a_file(bucket, table)
    (merged,) = merge(
        bucket, [file], spec_for(columns, sort_by=("rows",)), query="SELECT * FROM source_files"
    ).adds
    assert inside(bucket, merged).equals(table)
    found = rewrite(bucket, file, columns, keep="n_rows = 0 AND _rows = 1 AND rows = 3 AND keep = 4")
    assert inside(bucket, found.adds[0]).equals(table.slice(0, 1))
    found = rewrite(bucket, file, columns, query="SELECT * FROM _rows WHERE _rows._rows = 11")
    assert inside(bucket, found.adds[0]).equals(table.slice(1, 1))


# -- delete and rewrite


def delete(
    bucket: Bucket, file: DataFile, where: str, columns: dict[str, str] = COLUMNS, **options: Any
) -> TaskResult:
    context = DeleteContext(spec_for(columns, **options), reading(columns), where)
    return delete_task(bucket, pickle.loads(pickle.dumps(context)), file)


def rewrite(
    bucket: Bucket,
    file: DataFile,
    columns: dict[str, str] = COLUMNS,
    *,
    keep: str | None = None,
    query: str | None = None,
    **options: Any,
) -> TaskResult:
    context = RewriteContext(spec_for(columns, **options), reading(columns), keep, query)
    return rewrite_task(bucket, pickle.loads(pickle.dumps(context)), file)


CONDITIONS = [
    "n > 2",
    "who = 'w1' OR n IS NULL",
    "id BETWEEN 37 AND 41",
    "NOT (n > 2)",
    "id % 10 = 3 AND who <> 'w0'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_delete_drops_what_is_true_and_a_rewrite_keeps_it(bucket: Bucket, condition: str) -> None:
    file = a_file(bucket, row_group_rows=9)
    match, rest = selected(ROWS, condition), selected(ROWS, f"({condition}) IS NOT TRUE")
    deleted, rewritten = delete(bucket, file, condition), rewrite(bucket, file, keep=condition)
    assert inside(bucket, deleted.adds[0]).equals(rest)
    assert inside(bucket, rewritten.adds[0]).equals(match)
    assert sum(f.rows or 0 for f in deleted.adds) == rest.num_rows
    assert sum(f.rows or 0 for f in rewritten.adds) == match.num_rows
    assert deleted.changed
    assert rewritten.changed
    assert (deleted.adds[0].extra or {})["spec"] == "s1"


def test_files_stay_where_no_row_changes(bucket: Bucket) -> None:
    file = a_file(bucket, row_group_rows=9)
    puts = bucket.counters.put
    for result in (
        delete(bucket, file, "id < 0"),
        delete(bucket, file, "n > 1000 OR NULL"),
        rewrite(bucket, file, keep="id >= 0"),
        delete(bucket, an_empty_file(bucket), "true"),
        rewrite(bucket, an_empty_file(bucket), keep="false"),
    ):
        assert (result.adds, result.changed) == ((), False)
    assert bucket.counters.put == puts + 2


def test_deleting_or_rewriting_all_rows_away_leaves_no_file(bucket: Bucket) -> None:
    file = a_file(bucket, ROWS, "who=a")
    for result in (
        delete(bucket, file, "id >= 0"),
        rewrite(bucket, file, keep="id < 0"),
        rewrite(bucket, file, query="SELECT * FROM _rows WHERE id < 0"),
        rewrite(bucket, file, query="SELECT id FROM _rows LIMIT 0"),
    ):
        assert (list(result.adds), result.changed) == ([], True)


def test_a_rewrite_by_query_makes_of_a_file_what_it_selects(bucket: Bucket) -> None:
    file = a_file(bucket, ROWS, "who=a")
    query = "SELECT * REPLACE (coalesce(n, -1) AS n), upper(who) AS loud FROM _rows"
    result = rewrite(bucket, file, query=query)
    (found,) = result.adds
    assert result.columns == {**COLUMNS, "loud": "VARCHAR"}
    rows = inside(bucket, found)
    assert rows["n"].to_pylist() == [-1 if n is None else n for n in ROWS["n"].to_pylist()]
    assert rows["loud"].to_pylist() == [None if w is None else w.upper() for w in ROWS["who"].to_pylist()]
    assert directory(found) == "who=a"


def test_a_rewrite_needs_something_to_do(bucket: Bucket) -> None:
    with pytest.raises(InvalidInputError, match="predicate"):
        rewrite(bucket, a_file(bucket))


def test_a_part_of_a_sorted_file_is_sorted_and_an_unsorted_one_becomes_so(bucket: Bucket) -> None:
    order = ("n desc", "id desc")
    expected = ROWS.filter(pa.compute.greater(ROWS["id"], 20)).sort_by(
        [("n", "descending"), ("id", "descending")]
    )
    (ordered,) = merge(bucket, [a_file(bucket)], spec_for(COLUMNS, sort_by=order)).adds
    for file in (ordered, a_file(bucket)):
        result = delete(bucket, file, "id <= 20", sort_by=order, row_group_rows=7)
        assert inside(bucket, result.adds[0]).equals(expected)
        metadata = pq.ParquetFile(pa.BufferReader(bucket.get(result.adds[0].path).data)).metadata
        assert len(metadata.row_group(0).sorting_columns) == 2


def test_a_registered_file_is_replaced_in_its_partition(bucket: Bucket) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink)
    bucket.put("elsewhere/x.parquet", sink.getvalue().to_pybytes())
    file = DataFile("elsewhere/x.parquet", sink.getvalue().size, 0, {"part": {"who": "a/b"}, "spec": "s1"})
    (found,) = delete(bucket, file, "id > 50").adds
    assert directory(found) == "who=a%2Fb"
    assert (found.extra or {})["part"] == {"who": "a/b"}


def test_missing_and_widened_columns_in_predicates(bucket: Bucket) -> None:
    file = a_file(bucket, pa.table({"id": pa.array([1, 2, 3], pa.int8())}))
    columns = {"id": "DECIMAL(12,2)", "new": "VARCHAR"}
    assert not delete(bucket, file, "new = 'x'", columns).changed
    (found,) = delete(bucket, file, "new IS NULL AND id = 2.00", columns).adds
    assert inside(bucket, found).to_pydict() == {
        "id": [Decimal("1.00"), Decimal("3.00")],
        "new": [None, None],
    }


def test_a_delete_that_changes_nothing_reads_no_more_than_the_predicates_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    monkeypatch.setattr(source, "GAP_BYTES", 100)
    monkeypatch.setattr("firn.lake.parquet.footer.FOOTER_BYTES", 4096)
    bucket = open_bucket("memory://")
    wide = pa.table(
        {"id": [i * 2 for i in range(3000)], "noise": [secrets.token_hex(30) for _ in range(3000)]}
    )
    file = a_file(bucket, wide)
    columns = columns_of(wide.schema)
    assert not delete(bucket, file, "id % 2 = 1", columns).changed
    assert bucket.counters.get == 2
    assert bucket.counters.bytes_in < file.size // 4


def test_tasks_run_in_threads(bucket: Bucket) -> None:
    files = [a_file(bucket, ROWS.slice(i, 10)) for i in range(0, 100, 10)]
    context = DeleteContext(spec_for(COLUMNS), reading(COLUMNS), "id % 2 = 0")
    weights = [f.size for f in files]
    results = LocalRunner(4).map(delete_task, files, bucket=bucket, context=context, weights=weights)
    adds = [f for r in results for f in r.adds]
    found = read_table(bucket, adds, ReadSpec({"id": "BIGINT"}))
    assert found["id"].to_pylist() == list(range(1, 100, 2))
