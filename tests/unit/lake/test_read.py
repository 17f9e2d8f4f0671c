"""Reading data files: rows, types, predicates, damage, and the requests it takes."""

from __future__ import annotations

import math
import pickle
import secrets
from datetime import datetime, timezone
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
from firn.errors import CorruptObjectError, InvalidInputError, ObjectNotFoundError
from firn.journal.model import DataFile
from firn.lake.parquet import footer, source
from firn.lake.read.read import (
    ReadSpec,
    count_rows,
    file_footer,
    inspect_file,
    read_file,
    read_files,
    read_table,
)


@pytest.fixture(params=["memory", "ranged", "directory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """`ranged` reads every object by ranges, as large ones are read."""
    if request.param == "ranged":
        monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    return open_bucket(str(tmp_path) if request.param == "directory" else "memory://")


@pytest.fixture
def ranged(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    return open_bucket("memory://")


def put(bucket: Bucket, table: pa.Table, key: str = "t/_data/x.parquet", **options: Any) -> DataFile:
    """A file as any program may write it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"write_page_checksum": True, **options})
    return put_bytes(bucket, sink.getvalue().to_pybytes(), key)


def put_bytes(bucket: Bucket, data: bytes, key: str = "t/_data/x.parquet") -> DataFile:
    bucket.put(key, data)
    return DataFile(key, len(data), 0, None)


def rows(bucket: Bucket, file: DataFile, spec: ReadSpec) -> pa.Table:
    return read_table(bucket, [file], spec)


def requests(bucket: Bucket) -> int:
    return bucket.counters.get


PEOPLE = pa.table({"id": [1, 2, 3, 4], "name": ["ann", "bob", None, "dan"], "age": [30, None, 50, 60]})
PEOPLE_COLUMNS = columns_of(PEOPLE.schema)


def test_columns_come_in_the_order_asked_for(bucket: Bucket) -> None:
    file = put(bucket, PEOPLE)
    spec = ReadSpec({"age": "BIGINT", "id": "BIGINT"})
    assert rows(bucket, file, spec).to_pydict() == {"age": [30, None, 50, 60], "id": [1, 2, 3, 4]}


def test_a_predicate_may_use_columns_that_are_not_asked_for(bucket: Bucket) -> None:
    file = put(bucket, PEOPLE)
    spec = ReadSpec({"name": "VARCHAR"}, "age > 40", PEOPLE_COLUMNS)
    assert rows(bucket, file, spec).to_pydict() == {"name": [None, "dan"]}
    spec = ReadSpec(
        {"name": "VARCHAR", "age": "BIGINT", "id": "BIGINT"}, "age > 40 OR id = 1", PEOPLE_COLUMNS
    )
    assert rows(bucket, file, spec).to_pydict() == {
        "name": ["ann", None, "dan"],
        "age": [30, 50, 60],
        "id": [1, 3, 4],
    }


@pytest.mark.parametrize(("where", "count"), [("1 = 1", 4), ("1 = 0", 0), ("NULL", 0), ("true", 4)])
def test_predicates_without_columns(bucket: Bucket, where: str, count: int) -> None:
    file = put(bucket, PEOPLE)
    assert rows(bucket, file, ReadSpec({"age": "BIGINT"}, where, PEOPLE_COLUMNS)).num_rows == count


def test_columns_that_the_file_lacks_are_null(bucket: Bucket) -> None:
    file = put(bucket, PEOPLE.select(["id"]))
    spec = ReadSpec({"name": "VARCHAR", "id": "BIGINT"}, "name IS NULL AND id > 2", PEOPLE_COLUMNS)
    assert rows(bucket, file, spec).to_pydict() == {"name": [None, None], "id": [3, 4]}
    assert rows(bucket, file, ReadSpec({"name": "VARCHAR"})).to_pydict() == {"name": [None] * 4}
    assert rows(bucket, file, ReadSpec({"x": "DATE"}, "y IS NULL", {"x": "DATE", "y": "DATE"})).num_rows == 4
    assert rows(bucket, file, ReadSpec({"x": "DATE"}, "y = 'a'", {"x": "DATE", "y": "VARCHAR"})).num_rows == 0


def test_other_spellings_of_a_column_are_that_column(bucket: Bucket) -> None:
    file = put(bucket, pa.table({"ID": [1, 2], "extra": [None, "x"]}), row_group_size=1)
    assert rows(bucket, file, ReadSpec({"id": "BIGINT"}, "id = 2", {"id": "BIGINT"})).to_pydict() == {
        "id": [2]
    }


UTC_NOON = datetime(2001, 2, 3, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("stored", "name", "expected"),
    [
        (pa.array([1], pa.int8()), "BIGINT", 1),
        (pa.array([1], pa.uint32()), "BIGINT", 1),
        (pa.array([1.5], pa.float32()), "DOUBLE", 1.5),
        (pa.array([7], pa.int32()), "DECIMAL(12,2)", Decimal("7.00")),
        (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), "DECIMAL(10,2)", Decimal("1.50")),
        (pa.array(["a"], pa.large_string()), "VARCHAR", "a"),
        (pa.array(["a"], pa.string_view()), "VARCHAR", "a"),
        (pa.array(["a"]).dictionary_encode(), "VARCHAR", "a"),
        (pa.array([b"a"], pa.large_binary()), "BLOB", b"a"),
        (pa.array([[1]], pa.large_list(pa.int8())), "BIGINT[]", [1]),
        (pa.array([{"a": 1}]), "STRUCT(a BIGINT, b VARCHAR)", {"a": 1, "b": None}),
        (pa.array([UTC_NOON], pa.timestamp("ms", "UTC")), "TIMESTAMP WITH TIME ZONE", UTC_NOON),
        (pa.array([UTC_NOON], pa.timestamp("us", "Europe/Berlin")), "TIMESTAMP WITH TIME ZONE", UTC_NOON),
        (pa.nulls(1), "DATE", None),
    ],
)
def test_types_become_the_tables(bucket: Bucket, stored: pa.Array, name: str, expected: object) -> None:
    file = put(bucket, pa.table({"x": stored}))
    assert rows(bucket, file, ReadSpec({"x": name})).to_pydict() == {"x": [expected]}


def test_int96_timestamps_are_microseconds(bucket: Bucket) -> None:
    times = pa.array([datetime(1600, 1, 1), datetime(2500, 12, 31)], pa.timestamp("us"))
    file = put(bucket, pa.table({"t": times}), use_deprecated_int96_timestamps=True, store_schema=False)
    columns, _ = inspect_file(bucket, file.path, file.size)
    assert columns == {"t": "TIMESTAMP"}
    assert rows(bucket, file, ReadSpec(columns))["t"].combine_chunks().equals(times)


def test_a_value_that_does_not_fit_names_the_file(bucket: Bucket) -> None:
    file = put(bucket, pa.table({"x": ["text"]}))
    with pytest.raises(InvalidInputError, match=r"x\.parquet.*'x'.*'text'"):
        rows(bucket, file, ReadSpec({"x": "BIGINT"}))
    assert rows(bucket, put(bucket, pa.table({"x": [7]})), ReadSpec({"x": "VARCHAR"}, loose=frozenset("x")))[
        "x"
    ].to_pylist() == ["7"]


def test_names_with_dots_spaces_quotes_and_nested_leaves(bucket: Bucket) -> None:
    table = pa.table(
        {
            "a": [{"b": 1, "c d": [1, 2]}, None],
            "a.b": ["x", "y"],
            'say "hi"': [True, False],
            "Cost $": [1, 2],
            "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        }
    )
    file = put(bucket, table)
    columns = columns_of(table.schema)
    for name in table.column_names:
        assert (
            rows(bucket, file, ReadSpec({name: columns[name]})).to_pydict()
            == table.select([name]).to_pydict()
        )
    where = '"say ""hi""" AND "a.b" = \'x\' AND "a"."b" = 1'
    assert rows(bucket, file, ReadSpec(columns, where, columns)).to_pylist() == table.slice(0, 1).to_pylist()


def test_columns_named_like_the_internals(bucket: Bucket) -> None:
    table = pa.table({"rows": [1, 2], "keep": [False, True], "_rows": [3, 4], "source_files": [5, 6]})
    columns = columns_of(table.schema)
    file = put(bucket, table)
    found = rows(bucket, file, ReadSpec(columns, "rows = 1 AND NOT keep AND _rows = 3", columns))
    assert found.to_pylist() == table.slice(0, 1).to_pylist()


PREDICATES = [
    "n < 100",
    "n BETWEEN 4990 AND 5010",
    "s LIKE 'v1%' AND n % 7 = 3",
    "f > 0.5 OR f IS NULL",
    "isnan(f)",
    "s IS NULL",
    "n IN (1, 9999, 20000)",
    "NOT (n > 10)",
    "n = -1",
    "d >= DATE '2001-02-01'",
]


@pytest.mark.parametrize("where", PREDICATES)
def test_predicates_agree_with_duckdb_over_many_row_groups(bucket: Bucket, where: str) -> None:
    count = 10_000
    table = pa.table(
        {
            "n": range(count),
            "s": [None if i % 11 == 0 else f"v{i % 97}" for i in range(count)],
            "f": [None if i % 13 == 0 else math.nan if i % 17 == 0 else (i % 10) / 10 for i in range(count)],
            "d": pa.array([11_300 + i // 100 for i in range(count)], pa.int32()).cast(pa.date32()),
        }
    )
    file = put(bucket, table, row_group_size=700)
    columns = columns_of(table.schema)
    with duckdb.connect() as connection:
        expected = connection.from_arrow(table).filter(where).order("n").to_arrow_table()
    found = rows(bucket, file, ReadSpec({"s": "VARCHAR", "n": "BIGINT"}, where, columns))
    assert found.equals(expected.select(["s", "n"]).cast(found.schema))


def test_tables_are_bounded_though_the_row_group_is_not(bucket: Bucket) -> None:
    file = put(bucket, pa.table({"x": range(300_000)}), row_group_size=300_000)
    sizes = [t.num_rows for t in read_file(bucket, file, ReadSpec({"x": "BIGINT"}))]
    assert sum(sizes) == 300_000
    assert max(sizes) <= 131_072
    spec = ReadSpec({"x": "BIGINT"}, "x >= 0", {"x": "BIGINT"})
    assert max(t.num_rows for t in read_file(bucket, file, spec)) <= 131_072


def test_no_table_is_empty(bucket: Bucket) -> None:
    empty = put(bucket, PEOPLE.slice(0, 0))
    assert list(read_file(bucket, empty, ReadSpec(PEOPLE_COLUMNS))) == []
    assert list(read_file(bucket, empty, ReadSpec(PEOPLE_COLUMNS, "id = 1", PEOPLE_COLUMNS))) == []
    full = put(bucket, PEOPLE, row_group_size=1)
    assert [
        t.num_rows for t in read_file(bucket, full, ReadSpec(PEOPLE_COLUMNS, "id = 3", PEOPLE_COLUMNS))
    ] == [1]


@pytest.mark.parametrize(
    ("where", "start", "stop"),
    [("n BETWEEN 710 AND 719", 710, 720), ("n = 715", 715, 716), ("n IN (-1, 716, 1000)", 716, 717)],
)
def test_row_groups_that_cannot_match_are_not_read(bucket: Bucket, where: str, start: int, stop: int) -> None:
    table = pa.table({"n": range(1000), "noise": [secrets.token_hex(20) for _ in range(1000)]})
    file = put(bucket, table, row_group_size=100)
    body = bytearray(bucket.get(file.path).data)
    metadata = file_footer(bucket, file.path, file.size)
    for group in range(metadata.num_row_groups):
        if group != 7:
            for column in map(metadata.row_group(group).column, (0, 1)):
                body[column.dictionary_page_offset + column.total_compressed_size - 3] ^= 255
    put_bytes(bucket, bytes(body), file.path)
    columns = columns_of(table.schema)
    found = rows(bucket, file, ReadSpec(columns, where, columns))
    assert found.equals(table.slice(start, stop - start))
    with pytest.raises(CorruptObjectError):
        rows(bucket, file, ReadSpec(columns, where.replace("71", "61"), columns))


# -- requests


def test_a_small_object_is_one_get_whatever_is_read() -> None:
    bucket = open_bucket("memory://")
    file = put(bucket, PEOPLE, row_group_size=1)
    rows(bucket, file, ReadSpec(PEOPLE_COLUMNS, "id > 1", PEOPLE_COLUMNS))
    assert (requests(bucket), bucket.counters.bytes_in) == (1, file.size)


def test_a_large_object_is_its_footer_and_one_range(ranged: Bucket) -> None:
    file = put(ranged, PEOPLE, row_group_size=1)
    assert rows(ranged, file, ReadSpec(PEOPLE_COLUMNS)).equals(PEOPLE)
    assert requests(ranged) == 2
    assert rows(ranged, file, ReadSpec(PEOPLE_COLUMNS, "age > 40", PEOPLE_COLUMNS)).num_rows == 2
    assert requests(ranged) == 4


def test_only_wanted_columns_are_fetched(ranged: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "GAP_BYTES", 100)
    monkeypatch.setattr("firn.bucket.ranges.MAX_GAP", 100)
    monkeypatch.setattr(footer, "FOOTER_BYTES", 4096)
    noise = [secrets.token_hex(500) for _ in range(1000)]
    table = pa.table({"a": range(1000), "noise": noise, "z": range(1000)})
    file = put(ranged, table)
    assert rows(ranged, file, ReadSpec({"z": "BIGINT", "a": "BIGINT"})).num_rows == 1000
    assert requests(ranged) == 3
    assert ranged.counters.bytes_in < 40_000 < 500_000 < file.size


def test_runs_of_row_groups_are_fetched_one_by_one(ranged: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.lake.read.decode.RUN_BYTES", 1)
    file = put(ranged, PEOPLE, row_group_size=1)
    assert rows(ranged, file, ReadSpec(PEOPLE_COLUMNS)).equals(PEOPLE)
    assert requests(ranged) == 1 + 4


def test_a_footer_that_is_longer_than_the_guess_takes_a_second_get(
    ranged: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footer, "FOOTER_BYTES", 64)
    file = put(ranged, PEOPLE)
    assert file_footer(ranged, file.path, file.size).num_rows == 4
    assert requests(ranged) == 2


def test_small_files_are_fetched_together_and_keep_their_order() -> None:
    bucket = open_bucket("memory://")
    files = [put(bucket, pa.table({"x": [i, -i]}), f"t/_data/{i % 7}/{i}.parquet") for i in range(200)]
    tables = list(read_files(bucket, files, ReadSpec({"x": "BIGINT"})))
    assert [t["x"].to_pylist() for t in tables] == [[i, -i] for i in range(200)]
    assert requests(bucket) == 200


def test_row_counts_come_from_the_log_or_the_footer(bucket: Bucket) -> None:
    file = put(bucket, PEOPLE)
    assert count_rows(bucket, file._replace(extra={"rows": 4})) == 4
    assert requests(bucket) == 0
    assert count_rows(bucket, file) == 4
    assert requests(bucket) == 1


# -- several files


@pytest.mark.parametrize("threads", [None, 1, 4])
def test_read_table_keeps_the_order_of_files(bucket: Bucket, threads: int | None) -> None:
    files = [put(bucket, pa.table({"x": [i] * 100}), f"t/_data/{99 - i}.parquet") for i in range(30)]
    found = read_table(bucket, files, ReadSpec({"x": "BIGINT"}), threads)
    assert found["x"].to_pylist() == [i for i in range(30) for _ in range(100)]


def test_no_files_are_no_rows_of_the_right_schema(bucket: Bucket) -> None:
    found = read_table(bucket, [], ReadSpec({"x": "DECIMAL(5,2)"}))
    assert (found.num_rows, found.schema) == (0, pa.schema({"x": pa.decimal128(5, 2)}))


@pytest.mark.parametrize("read", [read_table, lambda *a: list(read_files(*a))])
def test_a_missing_file_is_named(bucket: Bucket, read: Any) -> None:
    files = [put(bucket, PEOPLE, f"t/_data/{i}.parquet") for i in range(5)]
    bucket.delete("t/_data/3.parquet")
    with pytest.raises(ObjectNotFoundError, match=r"t/_data/3\.parquet"):
        read(bucket, files, ReadSpec(PEOPLE_COLUMNS))


# -- damage


@pytest.mark.parametrize("kept", [0, 3, 11, 100, -1, -200])
def test_truncated_objects_are_corrupt(bucket: Bucket, kept: int) -> None:
    file = put(bucket, PEOPLE)
    put_bytes(bucket, bucket.get(file.path).data[:kept], file.path)
    with pytest.raises(CorruptObjectError, match=r"t/_data/x\.parquet"):
        rows(bucket, file, ReadSpec(PEOPLE_COLUMNS))
    with pytest.raises(CorruptObjectError, match=r"t/_data/x\.parquet"):
        inspect_file(bucket, file.path, len(bucket.get(file.path).data))


def test_what_is_not_parquet_is_corrupt(bucket: Bucket) -> None:
    for data in (b"hello, I am a text file", b"PAR1" * 5, b"PAR1\xff\xff\xff\x7fPAR1"):
        file = put_bytes(bucket, data)
        with pytest.raises(CorruptObjectError, match=r"t/_data/x\.parquet"):
            rows(bucket, file, ReadSpec(PEOPLE_COLUMNS))


@pytest.mark.parametrize("bit", [1, 0x40, 0x80])
def test_every_flipped_bit_is_noticed_or_harmless(bucket: Bucket, bit: int) -> None:
    unmarked = put(bucket, PEOPLE, write_page_index=True)
    _, file = inspect_file(bucket, unmarked.path, unmarked.size)
    whole = bucket.get(file.path).data
    noticed = 0
    for at in range(len(whole)):
        put_bytes(bucket, whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :], file.path)
        try:
            found = rows(bucket, file, ReadSpec(PEOPLE_COLUMNS))
        except CorruptObjectError:
            noticed += 1
        else:
            assert found.equals(PEOPLE), at
    assert noticed > len(whole) // 2


def test_a_renamed_column_in_a_footer_without_checksum_is_null_and_with_one_corrupt(bucket: Bucket) -> None:
    unmarked = put(bucket, PEOPLE, store_schema=False)
    _, file = inspect_file(bucket, unmarked.path, unmarked.size)
    whole = bucket.get(file.path).data
    assert whole.count(b"name") == 2
    put_bytes(bucket, whole.replace(b"name", b"nome"), file.path)
    assert rows(bucket, unmarked, ReadSpec({"name": "VARCHAR"}))["name"].null_count == 4
    with pytest.raises(CorruptObjectError, match="checksum"):
        rows(bucket, file, ReadSpec({"name": "VARCHAR"}))


# -- registering


def test_inspect_tells_columns_rows_and_statistics(bucket: Bucket) -> None:
    table = PEOPLE.append_column("score", pa.array([1.0, 2.0, 1.5, None]))
    file = put(bucket, table, row_group_size=2)
    before = requests(bucket)
    columns, found = inspect_file(bucket, file.path, file.size)
    assert requests(bucket) == before + 1
    assert columns == {**PEOPLE_COLUMNS, "score": "DOUBLE"}
    assert (found.path, found.size, found.rows) == (file.path, file.size, 4)
    assert found.stats == {
        "id": [1, 4, 0],
        "name": ["ann", "dan", 1],
        "age": [30, 60, 1],
        "score": [1.0, None, 1],  # NaN is above all bounds, and nobody has looked for one
    }


def test_a_spec_travels() -> None:
    spec = ReadSpec({"a": "BIGINT"}, "a > 1", {"a": "BIGINT"}, loose=frozenset("a"))
    assert pickle.loads(pickle.dumps(spec)) == spec
