"""Files that `write_batches` makes: their rows, places, sizes and markers."""

from __future__ import annotations

import math
import pickle
import secrets
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from firn.arrow.types import columns_of
from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, SchemaConflictError, StoreUnavailableError
from firn.journal.model import DataFile
from firn.lake.parquet.footer import footer_crc
from firn.lake.partition.partition import PartitionSpec
from firn.lake.read.read import ReadSpec, read_table
from firn.lake.write.write import WriteSpec, write_batches, write_partition

DATA = Path(__file__).parents[3] / "data"


@dataclass(frozen=True)
class Names:
    """Keys as the journals make them."""

    prefix: str = "t/_data/"

    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        return f"{self.prefix}{partition + '/' if partition else ''}{secrets.token_hex(8)}.parquet"

    def metadata(self, partition: str, columns: Any, **options: Any) -> dict[str, str]:
        return {}


@pytest.fixture(params=["memory", "directory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return open_bucket("memory://" if request.param == "memory" else str(tmp_path))


def spec_for(table: pa.Table, *partition_by: str, **options: object) -> WriteSpec:
    columns = columns_of(table.schema)
    return replace(
        WriteSpec(Names(), columns, PartitionSpec.parse(list(partition_by), columns)),
        **options,  # type: ignore[arg-type]
    )


def opened(bucket: Bucket, file: DataFile) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(bucket.get(file.path).data))


def read_back(bucket: Bucket, files: list[DataFile], spec: WriteSpec) -> pa.Table:
    return read_table(bucket, files, ReadSpec(spec.columns))


def numbers(count: int) -> pa.Table:
    return pa.table({"id": range(count), "group": [f"g{i % 3}" for i in range(count)]})


def directory(file: DataFile) -> str:
    return file.path.removeprefix("t/_data/").rpartition("/")[0]


def test_rows_come_back_and_each_file_costs_one_put(bucket: Bucket) -> None:
    table = numbers(1000)
    spec = spec_for(table, "group")
    files = write_batches(bucket, spec, table.to_batches(max_chunksize=70))
    assert bucket.counters.as_dict() | {"bytes_out": 0} == {
        "get": 0, "put": 3, "list": 0, "head": 0, "delete": 0, "bytes_in": 0, "bytes_out": 0,
    }  # fmt: skip
    assert sorted(directory(f) for f in files) == ["group=g0", "group=g1", "group=g2"]
    assert read_back(bucket, files, spec).sort_by("id").equals(table)


def test_partition_columns_stay_inside_of_files_and_other_rows_out(bucket: Bucket) -> None:
    table = numbers(30)
    for file in write_batches(bucket, spec_for(table, "group"), [table]):
        inside = opened(bucket, file).read()
        assert inside.column_names == ["id", "group"]
        assert {f"group={value}" for value in inside["group"].to_pylist()} == {directory(file)}


def test_markers_hold_rows_stats_and_spec(bucket: Bucket) -> None:
    table = numbers(10)
    spec = spec_for(table, "bucket(1, id)")
    (file,) = write_batches(bucket, spec, [table])
    assert file.size == len(bucket.get(file.path).data)
    assert file.extra == {
        "crc": footer_crc(bucket.get(file.path).data),
        "rows": 10,
        "stats": {"id": [0, 9, 0], "group": ["g0", "g2", 0]},
        "spec": spec.partition.id,
    }
    assert file.created_ms > 0


def test_a_file_without_partition_says_nothing_of_a_spec(bucket: Bucket) -> None:
    table = numbers(10)
    (file,) = write_batches(bucket, spec_for(table), [table])
    assert file.extra is not None
    assert file.extra.keys() == {"rows", "stats", "crc"}


HOSTILE = [
    "a/b", "..", ".", "", "___", "%2F", "a=b", "Gr\u00fc\u00dfe", "Gru\u0308\u00dfe", "\U0001f9ca", " ", "a b",
    "__HIVE_DEFAULT_PARTITION__", "\\", "'\"", "x" * 1000, "x" * 1001, "\u00e9" * 100,
]  # fmt: skip


def test_hostile_partition_values_stay_apart_and_below_the_prefix(bucket: Bucket) -> None:
    table = pa.table({"v": [*HOSTILE, None] * 2, "n": range(2 * len(HOSTILE) + 2)})
    spec = spec_for(table, "v")
    files = write_batches(bucket, spec, [table])
    assert len({directory(f) for f in files}) == len(files) == len(HOSTILE) + 1
    assert {len(read_back(bucket, [f], spec)["v"].unique()) for f in files} == {1}
    assert read_back(bucket, files, spec).sort_by("n").equals(table)
    hashed = [f for f in files if "part" in (f.extra or {})]
    assert sorted((f.extra or {})["part"]["v"] for f in hashed) == sorted(
        v for v in HOSTILE if len(v.encode()) > 60 and len(v) > 60
    )


def test_column_names_with_spaces_and_dollars(bucket: Bucket) -> None:
    table = pyarrow.csv.read_csv(DATA / "birdstrikes.csv")
    spec = spec_for(table, '"Time of day"', sort_by=("Cost Total $ desc", "Flight Date"))
    files = write_batches(bucket, spec, [table])
    rows = read_back(bucket, files, spec)
    order = [(name, "ascending") for name in table.column_names]
    assert rows.column_names == table.column_names
    assert rows.sort_by(order).equals(table.sort_by(order).cast(rows.schema))
    for file in files:
        costs = opened(bucket, file).read()["Cost Total $"].to_pylist()
        assert costs == sorted(costs, reverse=True)


def test_files_are_closed_at_the_target_size(bucket: Bucket) -> None:
    noise = pa.table({"x": [secrets.token_hex(50) for _ in range(20_000)]})
    spec = spec_for(noise, target_size=200_000)
    files = write_batches(bucket, spec, noise.to_batches(max_chunksize=500))
    assert len(files) > 4
    assert all(200_000 <= f.size < 420_000 for f in files[:-1])
    assert sum(f.rows or 0 for f in files) == 20_000
    assert read_back(bucket, files, spec).equals(noise)


def test_small_batches_share_row_groups_of_even_size(bucket: Bucket) -> None:
    table = numbers(1000)
    (file,) = write_batches(bucket, spec_for(table, row_group_rows=300), table.to_batches(max_chunksize=7))
    metadata = opened(bucket, file).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(sizes) == 1000
    assert max(sizes) <= 301
    assert min(sizes[:-1]) > 140


def test_wide_rows_make_short_row_groups(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.lake.write.write.ROW_GROUP_BYTES", 100_000)
    table = pa.table({"x": ["y" * 10_000] * 100})
    (file,) = write_batches(bucket, spec_for(table), [table])
    metadata = opened(bucket, file).metadata
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) <= 10


@pytest.mark.parametrize("partition_by", [[], ["group"]])
def test_each_file_is_sorted_nulls_last(bucket: Bucket, partition_by: list[str]) -> None:
    values = [5, None, 3, 9, 3, None, 1, 7] * 50
    table = pa.table({"x": values, "y": range(len(values)), "group": ["a", "b"] * (len(values) // 2)})
    spec = spec_for(table, *partition_by, sort_by=("x desc", "y"), row_group_rows=60)
    files = write_batches(bucket, spec, table.to_batches(max_chunksize=33))
    for file in files:
        rows = opened(bucket, file).read()
        keys = [
            (-math.inf if x is None else x, -y)
            for x, y in zip(*rows.select(["x", "y"]).to_pydict().values(), strict=True)
        ]
        assert keys == sorted(keys, reverse=True)
        sorting = opened(bucket, file).metadata.row_group(0).sorting_columns
        assert [(s.column_index, s.descending, s.nulls_first) for s in sorting] == [
            (0, True, False),
            (1, False, False),
        ]
    order = [("y", "ascending")]
    assert read_back(bucket, files, spec).sort_by(order).equals(table.sort_by(order))


def test_few_partitions_fill_one_file_each_over_many_gathers(bucket: Bucket) -> None:
    table = pa.table({"id": range(50_000), "group": [f"g{i % 5}" for i in range(50_000)]})
    spec = spec_for(table, "group", memory_budget=100_000, row_group_rows=4000)
    files = write_batches(bucket, spec, table.to_batches(max_chunksize=1000))
    assert len(files) == 5
    for file in files:
        metadata = opened(bucket, file).metadata
        assert metadata.num_rows == 10_000
        assert metadata.num_row_groups <= 10  # 8 gathers of 1,250 rows a partition would make more
        ids = opened(bucket, file).read()["id"].to_pylist()
        assert len(set(ids)) == 10_000
    assert read_back(bucket, files, spec).sort_by("id").equals(table)


def test_many_partitions_are_written_and_closed_gather_by_gather(bucket: Bucket) -> None:
    table = pa.table({"id": range(20_000), "group": [i % 100 for i in range(20_000)]})
    spec = spec_for(table, "group", memory_budget=100_000)
    files = write_batches(bucket, spec, table.to_batches(max_chunksize=1000))
    assert len({directory(f) for f in files}) == 100
    gathers = len(files) / 100
    assert gathers == math.ceil(table.nbytes / 112_000)
    assert read_back(bucket, files, spec).sort_by("id").equals(table)


def test_open_files_beyond_the_budget_are_closed_largest_first(bucket: Bucket) -> None:
    noise = pa.table(
        {"x": [secrets.token_bytes(100) for _ in range(6000)], "g": [i % 3 for i in range(6000)]}
    )
    spec = spec_for(noise, "g", memory_budget=150_000, row_group_rows=100)
    files = write_batches(bucket, spec, noise.to_batches(max_chunksize=300))
    assert len(files) > 3
    assert sum(f.size for f in files) > 4 * 150_000
    assert sum(f.rows or 0 for f in files) == 6000


def test_batches_that_lack_columns_or_have_narrower_ones_fit_in(bucket: Bucket) -> None:
    spec = WriteSpec(Names(), {"a": "BIGINT", "b": "DOUBLE"}, PartitionSpec(()))
    batches = [
        pa.table({"b": pa.array([1.5], pa.float32()), "a": pa.array([1], pa.int8())}),
        pa.table({"a": pa.array([2], pa.int32())}),
        pa.record_batch({"A": pa.array([3], pa.int64()), "c": pa.nulls(1)}),
    ]
    files = write_batches(bucket, spec, batches)
    assert read_back(bucket, files, spec).to_pydict() == {"a": [1, 2, 3], "b": [1.5, None, None]}


def test_values_of_a_column_that_nobody_announced_are_not_dropped(bucket: Bucket) -> None:
    spec = WriteSpec(Names(), {"a": "BIGINT"}, PartitionSpec(()))
    batches = [
        pa.table({"a": [1]}),
        pa.table({"a": [1], "b": pa.nulls(1, pa.int64())}),
        pa.table({"a": [1], "b": [2]}),
    ]
    with pytest.raises(SchemaConflictError, match="'b'"):
        write_batches(bucket, spec, batches)
    assert bucket.counters.put == 0


def test_a_value_that_does_not_fit_is_refused(bucket: Bucket) -> None:
    spec = WriteSpec(Names(), {"a": "INTEGER"}, PartitionSpec(()))
    with pytest.raises(InvalidInputError, match="4294967296"):
        write_batches(bucket, spec, [pa.table({"a": [2**32]})])
    assert bucket.counters.put == 0


def test_rows_of_nothing_are_refused(bucket: Bucket) -> None:
    spec = WriteSpec(Names(), {}, PartitionSpec(()))
    with pytest.raises(InvalidInputError, match="2 rows"):
        write_batches(bucket, spec, [pa.table({"a": pa.nulls(2)})])
    assert write_batches(bucket, spec, [pa.table({"a": pa.nulls(0)})]) == []


def test_nan_hides_the_maximum_and_only_that(bucket: Bucket) -> None:
    table = pa.table({"x": [1.0, math.nan, 3.0], "y": [1.0, 2.0, 3.0]})
    (file,) = write_batches(bucket, spec_for(table), [table])
    assert file.stats == {"x": [1.0, None, 0], "y": [1.0, 3.0, 0]}


def test_statistics_begin_with_the_columns_that_matter(bucket: Bucket) -> None:
    table = pa.table({f"c{i}": [i] for i in range(10)})
    spec = spec_for(table, "c8", sort_by=("c9",), stats_columns=3)
    (file,) = write_batches(bucket, spec, [table])
    assert file.stats.keys() == {"c0", "c8", "c9"}


def test_nothing_makes_no_file(bucket: Bucket) -> None:
    table = numbers(10)
    for spec in (spec_for(table), spec_for(table, "group"), spec_for(table, sort_by=("id",))):
        assert write_batches(bucket, spec, []) == []
        assert write_batches(bucket, spec, [table.slice(0, 0)]) == []
    assert write_partition(bucket, spec_for(table), [], "", {}, order="keep") == []
    assert bucket.counters.put == 0


def test_a_partition_is_written_where_told_whatever_its_rows_say(bucket: Bucket) -> None:
    table = numbers(9)
    spec = spec_for(table, "group", sort_by=("id desc",))
    (kept,) = write_partition(bucket, spec, [table], "group=other", {"spec": "old"}, order="keep")
    (ordered,) = write_partition(bucket, spec, [table], "group=other", {"spec": "old"}, order="sort")
    assert directory(kept) == directory(ordered) == "group=other"
    assert (kept.extra or {})["spec"] == "old"
    assert opened(bucket, kept).read()["id"].to_pylist() == list(range(9))
    assert not opened(bucket, kept).metadata.row_group(0).sorting_columns
    assert opened(bucket, ordered).read()["id"].to_pylist() == list(range(8, -1, -1))


def test_files_carry_checksums_page_index_and_no_pandas_metadata(bucket: Bucket) -> None:
    table = pa.Table.from_pandas(numbers(1000).to_pandas())
    (file,) = write_batches(bucket, spec_for(table), [table])
    parquet = opened(bucket, file)
    column = parquet.metadata.row_group(0).column(0)
    assert (column.compression, column.has_offset_index, column.has_column_index) == ("ZSTD", True, True)
    assert b"pandas" not in (parquet.metadata.metadata or {})
    damaged = bytearray(bucket.get(file.path).data)
    damaged[column.data_page_offset + 60] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(damaged)), page_checksum_verification=True).read()


def test_dictionaries_go_to_the_columns_that_repeat(bucket: Bucket) -> None:
    table = pa.table(
        {
            "unique": [secrets.token_hex(8) for _ in range(5000)],
            "repeated": ["x", "y"] * 2500,
            "nested": [{"a": [1, 2]}] * 5000,
        }
    )
    (file,) = write_batches(bucket, spec_for(table), [table])
    group = opened(bucket, file).metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("codec", "name"), [("snappy", "SNAPPY"), ("none", "UNCOMPRESSED"), ("gzip", "GZIP")]
)
def test_codecs(bucket: Bucket, codec: str, name: str) -> None:
    table = numbers(100)
    (file,) = write_batches(bucket, spec_for(table, codec=codec), [table])
    assert opened(bucket, file).metadata.row_group(0).column(0).compression == name


def test_decimals_of_up_to_18_digits_are_integers(bucket: Bucket) -> None:
    value = Decimal("-12.50")
    kinds = [pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(19, 2)]
    table = pa.table({f"x{i}": pa.array([value, None], kind) for i, kind in enumerate(kinds)})
    spec = spec_for(table)
    (file,) = write_batches(bucket, spec, [table])
    leaves = opened(bucket, file).schema
    assert [leaves.column(i).physical_type for i in range(3)] == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert file.stats["x1"] == ["-12.50", "-12.50", 1, "decimal"]
    assert read_back(bucket, [file], spec).equals(table)


def test_an_unknown_codec_is_refused(bucket: Bucket) -> None:
    with pytest.raises(InvalidInputError, match="'middle-out'"):
        write_batches(bucket, spec_for(numbers(1), codec="middle-out"), [numbers(1)])


def test_a_spec_travels(bucket: Bucket) -> None:
    spec = spec_for(numbers(1), "group", sort_by=("id",))
    assert pickle.loads(pickle.dumps(spec)) == spec


class Failing:
    """A bucket whose puts fail from the second lump on."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.puts = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._bucket, name)

    def put_many(self, items: object) -> object:
        self.puts += 1
        if self.puts > 1:
            raise StoreUnavailableError("the store is down")
        return self._bucket.put_many(items)  # type: ignore[arg-type]


def test_a_failed_put_comes_out_and_nothing_is_deleted(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firn.lake.write.upload.LUMP_FILES", 10)
    table = pa.table({"id": range(1000), "group": [i % 100 for i in range(1000)]})
    failing = Failing(bucket)
    with pytest.raises(StoreUnavailableError, match="down"):
        write_batches(failing, spec_for(table, "group"), [table])  # type: ignore[arg-type]
    assert (bucket.counters.put, bucket.counters.delete) == (10, 0)


def test_an_error_of_the_rows_comes_out(bucket: Bucket) -> None:
    def batches() -> object:
        yield numbers(10)
        raise ConnectionError("the source is gone")

    with pytest.raises(ConnectionError, match="gone"):
        write_batches(bucket, spec_for(numbers(10), "group"), batches())  # type: ignore[arg-type]
    assert bucket.counters.delete == 0
