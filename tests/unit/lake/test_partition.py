from __future__ import annotations

import datetime as dt
import pickle
import struct
import uuid
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import DataFile
from firn.lake.partition.partition import (
    PartitionSpec,
    dir_of,
    is_told_by_path,
    match_partitions,
    parse_dir,
    single_partition,
    told_values,
    values_of,
)
from firn.lake.partition.transforms import _hash, _hash_longs, encode, time_range, time_text

COLUMNS = {
    "id": "BIGINT",
    "origin": "VARCHAR",
    "date": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "price": "DECIMAL(9,2)",
    "x": "DOUBLE",
    "ok": "BOOLEAN",
    "raw": "BLOB",
    "Flight Date": "DATE",
    "l": "BIGINT[]",
    "uid": "UUID",
}


# -- parsing


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("origin", ("origin", "identity", None, "origin")),
        (" ORIGIN ", ("origin", "identity", None, "origin")),
        ("identity(origin)", ("origin", "identity", None, "origin")),
        ("year(date)", ("date", "year", None, "date_year")),
        ("MONTH( date )", ("date", "month", None, "date_month")),
        ("day(ts)", ("ts", "day", None, "ts_day")),
        ("hour(tz)", ("tz", "hour", None, "tz_hour")),
        ("bucket(16, id)", ("id", "bucket", 16, "id_bucket")),
        ("bucket(id, 16)", ("id", "bucket", 16, "id_bucket")),
        ("truncate(4,origin)", ("origin", "truncate", 4, "origin_trunc")),
        ('month("Flight Date")', ("Flight Date", "month", None, "Flight Date_month")),
        ("month(`flight date`)", ("Flight Date", "month", None, "Flight Date_month")),
        ('"Flight Date"', ("Flight Date", "identity", None, "Flight Date")),
        ("bucket(8, raw)", ("raw", "bucket", 8, "raw_bucket")),
        ("uid", ("uid", "identity", None, "uid")),
    ],
)
def test_parse_a_field(text: str, field: tuple[Any, ...]) -> None:
    spec = PartitionSpec.parse([text], COLUMNS)
    (found,) = spec.fields
    assert (found.source, found.transform, found.argument, found.name) == field
    assert PartitionSpec.parse([str(found)], COLUMNS) == spec
    assert PartitionSpec.parse(text, COLUMNS) == spec


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (["nope"], "no column 'nope'; there are: id"),
        (["month(nope)"], "no column 'nope'"),
        (["week(date)"], "no transform 'week'; there are identity, year"),
        (["month(origin)"], "'origin', which is VARCHAR"),
        (["hour(date)"], "'date', which is DATE"),
        (["bucket(4, x)"], "DOUBLE"),
        (["truncate(4, date)"], "DATE"),
        (["l"], r"BIGINT\[\]"),
        (["raw"], "BLOB"),
        (["bucket(id)"], "whole number"),
        (["bucket(0, id)"], "whole number"),
        (["bucket(-1, id)"], "whole number"),
        (["truncate(x, origin)"], "whole number"),
        (["month(3, date)"], "nothing but a column"),
        (["origin", "identity(ORIGIN)"], "'origin', which is the name of another"),
        (["bucket(4, id)", "bucket(8, id)"], "'id_bucket', which is the name"),
        (["month(date"], "neither a column"),
        ([""], "neither a column"),
        (["a b"], "neither a column"),
        (['""'], "names no column"),
        ([7], "takes texts"),
    ],
)
def test_parse_refuses_and_says_why(fields: list[Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        PartitionSpec.parse(fields, COLUMNS)


def test_a_derived_name_that_is_a_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'date_month'"):
        PartitionSpec.parse(["month(date)"], {"date": "DATE", "Date_Month": "VARCHAR"})


def test_columns_may_come_with_the_first_rows() -> None:
    spec = PartitionSpec.parse(["month(date)", "Origin"], {})
    parts = spec.split(pa.table({"date": [dt.date(2001, 1, 5)], "origin": ["DTW"]}))
    assert [p.directory for p in parts] == ["date_month=2001-01/Origin=DTW"]
    with pytest.raises(InvalidInputError, match=r"'date'.*month can't partition values of type string"):
        spec.split(pa.table({"date": ["x"], "origin": ["DTW"]}))
    with pytest.raises(InvalidInputError, match=r"lack the column 'Origin'.*date"):
        spec.split(pa.table({"date": [dt.date(2001, 1, 5)]}))


def test_specs_have_stable_ids_and_survive_json_and_pickle() -> None:
    spec = PartitionSpec.parse(["month(date)", "bucket(16, id)"], COLUMNS)
    assert spec.id == "1e016a62"
    for again in (PartitionSpec.from_json(spec.to_json()), pickle.loads(pickle.dumps(spec))):
        assert again == spec
        assert again.id == spec.id
    assert PartitionSpec.parse(["month(date)"], COLUMNS).id != spec.id
    assert PartitionSpec(()).id == ""
    raw = spec.to_json()
    raw["fields"][0]["transform"] = "zorder"
    with pytest.raises(UnsupportedError, match="'zorder'"):
        PartitionSpec.from_json(raw)


# -- transforms


@pytest.mark.parametrize(
    ("value", "hashed"),
    [
        (34, 2017239379),
        ("iceberg", 1210000089),
        ((dt.date(2017, 11, 16) - dt.date(1970, 1, 1)).days, -653330422),
        (
            (dt.datetime(2017, 11, 16, 22, 31, 8) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1),
            -2047944441,
        ),
        (((22 * 60 + 31) * 60 + 8) * 1_000_000, -662762989),
        (Decimal("14.20"), -500754589),
        (bytes([0, 1, 2, 3]), -188683207),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
    ],
)
def test_bucket_hashes_are_those_that_iceberg_publishes(value: Any, hashed: int) -> None:
    assert _hash(value) == hashed


def test_integers_hash_all_at_once_as_they_do_one_by_one() -> None:
    numbers = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 1000, dtype=np.int64)
    numbers[:4] = [0, -1, 2**63 - 1, -(2**63)]
    one_by_one = [mmh3.hash(struct.pack("<q", n)) for n in numbers.tolist()]
    assert _hash_longs(numbers).view(np.int32).tolist() == one_by_one


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (34, pa.int8()),
        (34, pa.uint64()),
        (dt.date(2017, 11, 16), pa.date32()),
        (dt.date(2017, 11, 16), pa.date64()),
        (dt.datetime(2017, 11, 16, 22, 31, 8), pa.timestamp("s")),
        (dt.datetime(2017, 11, 16, 22, 31, 8), pa.timestamp("ns")),
        (dt.datetime(2017, 11, 16, 22, 31, 8), pa.timestamp("us", "America/New_York")),
        (dt.time(22, 31, 8), pa.time32("ms")),
        (dt.time(22, 31, 8), pa.time64("ns")),
        ("iceberg", pa.string()),
        ("iceberg", pa.string_view()),
        ("iceberg", pa.dictionary(pa.int8(), pa.string())),
        (Decimal("14.20"), pa.decimal128(9, 2)),
        (b"\0\1\2\3", pa.binary()),
        (b"\0\1\2\3", pa.binary(4)),
    ],
)
def test_buckets_of_arrow_columns(value: Any, kind: pa.DataType) -> None:
    plain = {dt.date: 17486, dt.datetime: 1510871468000000, dt.time: 81068000000}.get(type(value), value)
    codes, texts = encode("bucket", 1000, pa.chunked_array([pa.array([value, None], kind)]))
    assert [texts[c] for c in codes] == [str((_hash(plain) & 0x7FFFFFFF) % 1000), None]


@pytest.mark.parametrize(
    ("moment", "year", "month", "day", "hour"),
    [
        (dt.datetime(2001, 1, 5, 13, 59), "2001", "2001-01", "2001-01-05", "2001-01-05-13"),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "1969", "1969-12", "1969-12-31", "1969-12-31-23"),
        (dt.datetime(1970, 1, 1), "1970", "1970-01", "1970-01-01", "1970-01-01-00"),
        (dt.datetime(1900, 2, 28, 1), "1900", "1900-02", "1900-02-28", "1900-02-28-01"),
        (dt.datetime(2000, 2, 29), "2000", "2000-02", "2000-02-29", "2000-02-29-00"),
        (dt.datetime(1, 1, 1), "1", "0001-01", "0001-01-01", "0001-01-01-00"),
        (dt.datetime(9999, 12, 31, 23), "9999", "9999-12", "9999-12-31", "9999-12-31-23"),
    ],
)
def test_times(moment: dt.datetime, year: str, month: str, day: str, hour: str) -> None:
    wanted = {"year": year, "month": month, "day": day, "hour": hour}
    exact = pa.array([moment], pa.timestamp("us"))
    arrays = (
        [exact]
        if moment.microsecond
        else [exact, exact.cast(pa.timestamp("s")), exact.cast(pa.timestamp("ms"))]
    )
    arrays.append(pa.array([moment.replace(tzinfo=dt.timezone.utc)], pa.timestamp("us", "Asia/Tokyo")))
    if 1700 < moment.year < 2200:
        arrays.append(pa.array([moment], pa.timestamp("ns")))
    for transform, text in wanted.items():
        for array in arrays:
            assert encode(transform, None, pa.chunked_array([array]))[1] == [text]
    for transform in ("year", "month", "day"):
        for kind in (pa.date32(), pa.date64()):
            days = pa.array([moment.date()], kind)
            assert encode(transform, None, pa.chunked_array([days]))[1] == [wanted[transform]]


def test_times_before_year_zero_read_back() -> None:
    days = pa.array([-800_000, -719_529, 3_000_000], pa.int32()).cast(pa.date32())
    for transform in ("year", "month", "day"):
        _, texts = encode(transform, None, pa.chunked_array([days]))
        for day, text in zip([-800_000, -719_529, 3_000_000], texts, strict=True):
            assert text is not None
            bounds = time_range(transform, text)
            assert bounds is not None
            assert bounds[0] <= day * 86_400_000_000 < bounds[1]
    assert time_text("month", -12 * 1971) == "-0001-01"


@pytest.mark.parametrize(
    "text", ["", "2001-13", "2001-00", "2001-02-30", "2001-1", "x", "2001-01-05-24", "2001-01-00"]
)
def test_what_isnt_a_time_has_no_range(text: str) -> None:
    assert all(time_range(transform, text) is None for transform in ("month", "day", "hour"))


@pytest.mark.parametrize(
    ("kind", "width", "values", "texts"),
    [
        (pa.int64(), 10, [0, 9, 10, -1, -10, -11, None], ["0", "0", "10", "-10", "-10", "-20", None]),
        (pa.int64(), 10, [-(2**63), 2**63 - 1], ["-9223372036854775810", "9223372036854775800"]),
        (pa.int8(), 1000, [5, -5], ["0", "-1000"]),
        (pa.uint64(), 10, [2**64 - 1], ["18446744073709551610"]),
        (pa.string(), 2, ["", "a", "abc", "é\U0001f600z", None], ["", "a", "ab", "é\U0001f600", None]),
        (pa.decimal128(9, 2), 50, ["10.65", "-0.01", "0.49"], ["10.50", "-0.50", "0.00"]),
        (pa.decimal128(38, 5), 3, ["9" * 33 + ".99999"], ["9" * 33 + ".99999"]),
    ],
)
def test_truncate(kind: pa.DataType, width: int, values: list[Any], texts: list[str | None]) -> None:
    if pa.types.is_decimal(kind):
        values = [Decimal(v) for v in values]
    codes, found = encode("truncate", width, pa.chunked_array([pa.array(values, kind)]))
    assert [found[c] for c in codes] == texts


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.bool_(), [True, False, None], ["true", "false", None]),
        (pa.int16(), [-5, 5], ["-5", "5"]),
        (pa.float64(), [0.0, -0.0, float("nan"), 1.5], ["0", "0", "nan", "1.5"]),
        (pa.date32(), [dt.date(1969, 1, 2)], ["1969-01-02"]),
        (pa.timestamp("ms"), [dt.datetime(2001, 1, 5, 13, 0, 0, 500_000)], ["2001-01-05 13:00:00.5"]),
        (
            pa.timestamp("us", "Asia/Tokyo"),
            [dt.datetime(2001, 1, 5, tzinfo=dt.timezone.utc)],
            ["2001-01-05 00:00:00+00"],
        ),
        (pa.decimal128(5, 2), [Decimal("1.50")], ["1.50"]),
        (pa.decimal128(38, 0), [Decimal(10) ** 37], ["1" + "0" * 37]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], ["a", None, "a"]),
    ],
)
def test_identity(kind: pa.DataType, values: list[Any], texts: list[str | None]) -> None:
    codes, found = encode("identity", None, pa.chunked_array([pa.array(values, kind)]))
    assert [found[c] for c in codes] == texts
    assert len(set(found)) == len(found)


# -- directories

TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [
            "",
            ".",
            "..",
            "/",
            "a/b",
            "%2F",
            "%",
            "=",
            "a=b",
            " ",
            "~",
            "~sha256-0",
            "é",
            "é",
            "\x00",
            "\n",
            "__HIVE_DEFAULT_PARTITION__",
            "%5F_HIVE_DEFAULT_PARTITION__",
            "x" * 200,
            "x" * 201,
            "é" * 34,
            "😀",
        ]
    ),
)


@given(st.dictionaries(st.text(min_size=1, max_size=10), st.one_of(st.none(), TEXTS), max_size=3))
@settings(max_examples=300)
def test_directories_read_back_and_are_safe(values: dict[str, str | None]) -> None:
    directory = dir_of(values)
    segments = directory.split("/") if values else []
    assert len(segments) == len(values)
    for segment in segments:
        assert segment.isascii()
        assert segment.isprintable()
        assert not set(segment) & set(' /\\"*?[]{}:<>|#')
        assert segment not in (".", "..")
    found = parse_dir(directory)
    if is_told_by_path(values):
        assert found == values
    else:
        assert len(directory) < 100 * 3 * len(values) + 220 * len(values)
        file = DataFile(f"db/t/_data/{directory}/x.parquet", 1, 0, {"part": values})
        assert values_of(file, TableLayout("db/t", "db/t")) == values


@given(TEXTS, TEXTS)
def test_different_values_have_different_directories(a: str, b: str) -> None:
    assert (dir_of({"x": a}) == dir_of({"x": b})) == (a == b)
    assert dir_of({"x": a}) != dir_of({"x": None})


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("t/_data/cust=test/d=2023-06-07/x.parquet", {"cust": "test", "d": "2023-06-07"}),
        ("t/_data/x.parquet", {}),
        ("t/_data/a=b c&d/x.parquet", {"a": "b c&d"}),
        ("t/_data/a=50%/x.parquet", {"a": "50%"}),
        ("t/_data/a=%zz/x.parquet", {"a": "%zz"}),
        ("t/_data/a=%ff/x.parquet", {"a": "%ff"}),
        ("t/_data/a=b=c/x.parquet", {"a": "b=c"}),
        ("t/_data/2023/06/x.parquet", {}),
        ("t/_data/_data/a=1/x.parquet", {"a": "1"}),
        ("elsewhere/a=1/x.parquet", {}),
        ("t/_data2/a=1/x.parquet", {}),
    ],
)
def test_paths_of_other_writers(path: str, values: dict[str, str]) -> None:
    assert values_of(DataFile(path, 1, 0), TableLayout("t", "t")) == values


def test_a_prefix_that_looks_like_a_data_directory() -> None:
    file = DataFile("x=1/my_data/_data/a=2/x.parquet", 1, 0)
    assert values_of(file, TableLayout("x=1/my_data", "x=1/my_data")) == {"a": "2"}


# -- splitting


def _check_split(spec: PartitionSpec, table: pa.Table) -> None:
    parts = spec.split(table)
    assert len({p.directory for p in parts}) == len(parts)
    assert all(p.rows.num_rows and p.directory == dir_of(p.values) for p in parts)
    order = sorted(n for p in parts for n in p.rows["row"].to_pylist())
    assert order == list(range(table.num_rows))
    for part in parts:
        numbers = part.rows["row"].to_pylist()
        assert numbers == sorted(numbers)
        assert part.rows.equals(table.take(numbers))
        for each in spec.fields:
            column = part.rows.column(each.source)
            codes, texts = encode(each.transform, each.argument, column)
            assert {texts[c] for c in codes} == {part.values[each.name]}


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-30, 30)),
            st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "a/b"])),
            st.one_of(st.none(), st.dates(dt.date(1969, 11, 1), dt.date(1970, 3, 1))),
        ),
        max_size=40,
    ),
    st.lists(
        st.sampled_from(
            [
                "id",
                "bucket(3, id)",
                "truncate(7, id)",
                "origin",
                "truncate(1, origin)",
                "month(date)",
                "day(date)",
            ]
        ),
        max_size=3,
        unique=True,
    ),
    st.booleans(),
)
def test_split_deals_every_row_to_its_partition(rows: list[Any], fields: list[str], chunked: bool) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    table = pa.table(
        {
            "id": pa.array(columns[0], pa.int64()),
            "origin": pa.array(columns[1], pa.string()),
            "date": pa.array(columns[2], pa.date32()),
            "row": range(len(rows)),
            "nested": [[n] for n in range(len(rows))],
        }
    )
    if chunked and len(rows) > 2:
        table = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    _check_split(PartitionSpec.parse(fields, COLUMNS), table)


def test_split_with_more_combinations_than_a_table_of_codes_holds() -> None:
    count = 3000
    table = pa.table(
        {
            "id": [n * 7919 % count for n in range(count)],
            "origin": [str(n) for n in range(count)],
            "row": range(count),
        }
    )
    spec = PartitionSpec.parse(["id", "origin"], COLUMNS)
    parts = spec.split(table)
    assert len(parts) == count
    assert all(p.values == {"id": str(p.rows["id"][0]), "origin": p.rows["origin"][0].as_py()} for p in parts)


def test_rows_that_stand_together_are_not_copied() -> None:
    table = pa.table({"origin": ["b", "b", "a"], "x": [1, 2, 3]})
    parts = PartitionSpec.parse(["origin"], COLUMNS).split(table)
    assert [(p.directory, p.rows["x"].to_pylist()) for p in parts] == [
        ("origin=b", [1, 2]),
        ("origin=a", [3]),
    ]
    shared = table["x"].chunk(0).buffers()[1].address
    assert all(p.rows["x"].chunk(0).buffers()[1].address == shared for p in parts)


def test_unpartitioned_tables_are_one_part() -> None:
    table = pa.table({"x": [1]})
    assert PartitionSpec(()).split(table) == [("", {}, table)]
    assert PartitionSpec.parse(["x"], {}).split(table.slice(0, 0)) == []


# -- predicates over values


def test_match_partitions_types_values_by_their_transform() -> None:
    spec = PartitionSpec.parse(
        ["year(date)", "id", "bucket(4, origin)", "truncate(10, price)", "ok"], COLUMNS
    )
    names = [f.name for f in spec.fields]
    rows = [
        ("2001", "9", "3", "10.00", "true"),
        ("2010", "10", "11", "9.50", None),
        (None, None, "0", None, "false"),
    ]
    partitions = [dict(zip(names, row, strict=True)) for row in rows]

    def matching(where: str) -> list[bool]:
        return match_partitions(where, spec, partitions, COLUMNS)

    assert matching("date_year < 2010") == [True, False, False]
    assert matching("id < 10") == [True, False, False]
    assert matching("origin_bucket IN (3, 11)") == [True, True, False]
    assert matching("price_trunc >= 9.75") == [True, False, False]
    assert matching("ok") == [True, False, False]
    assert matching("id IS NULL OR NOT ok") == [False, False, True]
    assert spec.value_table(partitions, COLUMNS)["date_year"].type == pa.int32()


def test_match_partitions_of_paths_without_a_definition() -> None:
    partitions = [{"cust": "a", "d": "2023-06-07"}, {"cust": "b"}, {"d": "2023-06-08", "cust": None}]
    spec = PartitionSpec(())
    assert match_partitions("d <= '2023-06-07'", spec, partitions, {}) == [True, False, False]
    # a partition without the field says nothing about it
    assert match_partitions("d IS NULL", spec, partitions, {}) == [False, False, False]
    assert match_partitions("cust IS NULL", spec, partitions, {}) == [False, False, True]
    with pytest.raises(InvalidInputError, match=r"'date' isn't a column.*cust, d"):
        match_partitions("date < 'x'", spec, partitions, {})
    assert match_partitions("true", PartitionSpec(()), [], {}) == []


def test_a_value_that_was_hashed_and_lost_matches_nothing() -> None:
    spec = PartitionSpec.parse(["origin"], COLUMNS)
    directory = dir_of({"origin": "x" * 300})
    lost = told_values(directory, parse_dir(directory))
    assert match_partitions("origin <> 'DTW'", spec, [lost, {"origin": "x" * 300}], COLUMNS) == [False, True]


def test_values_that_dont_parse_stay_text() -> None:
    spec = PartitionSpec.parse(["id"], COLUMNS)
    assert match_partitions("id = 'x'", spec, [{"id": "x"}, {"id": "5"}], COLUMNS) == [True, False]


def test_upper_bounds_for_retention() -> None:
    def end(transform: str, value: str) -> int | None:
        return PartitionSpec.parse([f"{transform}(ts)"], COLUMNS).fields[0].upper_bound_ms(value)

    def ms(*date: int) -> int:
        return int(dt.datetime(*date, tzinfo=dt.timezone.utc).timestamp()) * 1000  # type: ignore[arg-type, misc]

    assert end("year", "2001") == ms(2002, 1, 1)
    assert end("month", "2001-12") == ms(2002, 1, 1)
    assert end("day", "2000-02-29") == ms(2000, 3, 1)
    assert end("hour", "1969-12-31-23") == 0
    assert end("month", "x") is None
    assert PartitionSpec.parse(["id"], COLUMNS).fields[0].upper_bound_ms("5") is None


# -- files that Firn didn't write


def test_single_partition_by_statistics() -> None:
    def partition(fields: list[str], stats: dict[str, Any], rows: int = 2) -> dict[str, str | None]:
        file = DataFile("elsewhere/x.parquet", 1, 0, {"rows": rows, "stats": stats})
        return single_partition(PartitionSpec.parse(fields, COLUMNS), file, COLUMNS, "s3://b/x.parquet")

    day = (dt.date(2001, 1, 5) - dt.date(1970, 1, 1)).days
    assert partition(["month(date)"], {"date": [day, day + 20, 0, "date"]}) == {"date_month": "2001-01"}
    assert partition(["origin"], {"origin": ["a", "a", 0]}) == {"origin": "a"}
    assert partition(["origin"], {"origin": [None, None, 2]}) == {"origin": None}
    assert partition(["bucket(4, id)"], {"id": [34, 34, 0]}) == {"id_bucket": str(2017239379 % 4)}
    assert partition(["truncate(10, price)"], {"price": ["0.12", "0.15", 0, "decimal"]}) == {
        "price_trunc": "0.10"
    }
    assert partition(["hour(tz)"], {"tz": [0, 3_599_999_999, 0, "timestamptz"]}) == {
        "tz_hour": "1970-01-01-00"
    }
    for fields, stats in [
        (["month(date)"], {"date": [day, day + 31, 0, "date"]}),
        (["origin"], {"origin": ["a", "a", 1]}),
        (["origin"], {"origin": ["a", None, 0]}),
        (["origin"], {}),
        # equal buckets at both ends say nothing about what lies between
        (["bucket(1, id)"], {"id": [1, 9, 0]}),
    ]:
        with pytest.raises(InvalidInputError, match=r"s3://b/x.parquet can't become part"):
            partition(fields, stats)
