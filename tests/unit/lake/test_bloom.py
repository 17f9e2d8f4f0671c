"""Bloom filters: their hash and layout, that they never deny a value that is there, damage, and the property."""

from __future__ import annotations

import base64
import datetime as dt
import random
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

import firn
from firn.arrow.bloom import Bloom, false_positive_rate
from firn.arrow.types import arrow_schema
from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import DataFile
from firn.lake.definition.properties import check_properties, parse_bloom_filters
from firn.lake.parquet import bloom as parquet_bloom
from firn.lake.parquet import source
from firn.lake.parquet.encode import bloom_columns
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.lake.read.read import ReadSpec, file_footer, read_file
from firn.lake.write.write import WriteSpec, write_batches
from firn.predicate.bloom import (
    COLUMN_BYTES,
    FILE_BYTES,
    MOST_RATE,
    RATE,
    Points,
    from_text,
    has_filters,
    hash_of,
    to_text,
)
from firn.predicate.domain import Interval
from firn.predicate.predicate import Predicate
from moments import next_millisecond

DAY = 86_400_000_000
EPOCH = dt.datetime(1970, 1, 1)


class Names:
    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        return f"t/_data/{partition + '/' if partition else ''}{secrets.token_hex(8)}.parquet"

    def metadata(self, partition: str, columns: Any, **options: Any) -> dict[str, str]:
        return {}


def write(
    columns: dict[str, str],
    data: dict[str, list[Any]],
    *,
    bucket: Bucket | None = None,
    **options: Any,
) -> DataFile:
    """One file with filters of all columns that can have them."""
    spec = WriteSpec(Names(), columns, PartitionSpec(()), bloom_filters=tuple(columns), **options)
    rows = pa.table(data, schema=arrow_schema(columns))
    (file,) = write_batches(bucket or open_bucket("memory://"), spec, [rows])
    return file


def entry(file: DataFile, name: str) -> list[Any]:
    found: list[Any] = (file.extra or {})["bloom"][name]
    return found


def may_hold(found: Any, kind: str, *values: Any) -> bool:
    return Points(kind, sorted(Interval(v, v) for v in values)).may_be_in(found, 0, None)


# -- the hash


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"xxhash", 0x32DD38952C4BC720),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_published_values_of_the_hash(data: bytes, expected: int) -> None:
    assert xxh64_intdigest(data) == expected


def test_arrow_hashes_alike_at_every_length() -> None:
    texts = ["".join(chr(97 + (i * 7 + n) % 26) for i in range(n)) for n in range(200)]
    for text in texts:
        found = entry(write({"s": "VARCHAR"}, {"s": [text]}), "s")
        assert [may_hold(found, "VARCHAR", each) for each in (text, text + "x")] == [True, False]


def test_the_layout_is_frozen() -> None:
    file = write({"i": "BIGINT", "s": "VARCHAR"}, {"i": [1, 2, None], "s": ["a", "é", ""]})
    assert entry(file, "i") == ["BIGINT", ["y2d9mAAAEAgAAAQCAAQAAgAABgAAAEAEAAAAiEAAACAgAQAA"]]
    assert entry(file, "s") == ["VARCHAR", ["PaCKvwAAJCABAAMAAwAAAgQQABAAQCIAAABgAQBAACgAAADA"]]


# -- values


def moments(zone: dt.timezone | None = None) -> st.SearchStrategy[dt.datetime]:
    found = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
    return found if zone is None else found.map(lambda each: each.replace(tzinfo=zone))


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}E-{scale}"))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INTEGER": integers(32),
    "BIGINT": integers(64),
    "UTINYINT": integers(8, signed=False),
    "USMALLINT": integers(16, signed=False),
    "UINTEGER": integers(32, signed=False),
    "UBIGINT": integers(64, signed=False),
    "VARCHAR": st.text(),
    "BLOB": st.binary(max_size=100),
    "DATE": st.dates(),
    "TIMESTAMP": moments(),
    "TIMESTAMP WITH TIME ZONE": moments(dt.timezone.utc),
    "DECIMAL(4,0)": decimals(4, 0),
    "DECIMAL(9,2)": decimals(9, 2),
    "DECIMAL(18,5)": decimals(18, 5),
}


def in_domain(value: Any) -> Any:
    """A value as `firn.predicate.domain` has it."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days * DAY
    return value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_value_that_is_there_is_denied(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(KINDS[kind] | st.none(), min_size=1, max_size=50))
    group_rows = data.draw(st.sampled_from([1, 7, 100]))
    file = write({"c": kind}, {"c": values}, row_group_rows=group_rows)
    found = entry(file, "c")
    assert found[0] == kind
    assert len(found[1]) == -(-len(values) // group_rows)
    even = -(-len(values) // len(found[1]))
    for at, value in enumerate(values):
        if value is not None:
            assert may_hold(found, kind, in_domain(value))
            assert may_hold([kind, [found[1][at // even]]], kind, in_domain(value))


def test_types_without_filters() -> None:
    for kind in (
        "DOUBLE",
        "FLOAT",
        "BOOLEAN",
        "TIME",
        "HUGEINT",
        "DECIMAL(19,0)",
        "UUID",
        "JSON",
        "TIMESTAMP_NS",
    ):
        assert not has_filters(kind)
        with pytest.raises(InvalidInputError, match="have no Bloom filters"):
            hash_of(1, kind)
    assert not has_filters("BIGINT[]")
    assert all(map(has_filters, KINDS))


@pytest.mark.parametrize(
    ("stored", "now", "value", "expected"),
    [
        ("INTEGER", "BIGINT", 5, True),
        ("INTEGER", "BIGINT", 2**40, False),
        ("TINYINT", "HUGEINT", 5, True),
        ("UINTEGER", "BIGINT", -1, False),
        ("INTEGER", "DECIMAL(12,2)", Decimal("5.00"), True),
        ("INTEGER", "DECIMAL(12,2)", Decimal("5.01"), False),
        ("DECIMAL(4,1)", "DECIMAL(12,4)", Decimal("5"), True),
        ("DECIMAL(4,1)", "DECIMAL(12,4)", Decimal("5.0"), True),
        ("DECIMAL(4,1)", "DECIMAL(12,4)", Decimal("5.01"), False),
        ("DECIMAL(4,1)", "DECIMAL(12,4)", Decimal("500000000"), False),
        # where equality may mean something else, a filter says nothing
        ("INTEGER", "DOUBLE", 7.0, True),
        ("INTEGER", "VARCHAR", "7", True),
        ("DECIMAL(4,1)", "DECIMAL(12,0)", Decimal("7"), True),
        ("DATE", "VARCHAR", "1970-01-01", True),
        ("VARCHAR", "BLOB", b"7", True),
    ],
)
def test_other_types_now(stored: str, now: str, value: Any, expected: bool) -> None:
    number: Any = {"VARCHAR": "5", "DATE": dt.date(1970, 1, 6)}.get(stored, 5)
    if stored.startswith("DECIMAL"):
        number = Decimal("5.0")
    assert may_hold(entry(write({"c": stored}, {"c": [number]}), "c"), now, value) is expected


def test_a_value_that_is_not_known_exactly_may_be_there() -> None:
    found = entry(write({"c": "BIGINT"}, {"c": [5]}), "c")
    points = Points("BIGINT", [Interval(7, 7), Interval(8, 9), Interval(11, 11)])
    assert points.may_be_in(found, 0, None)
    assert not points.may_be_in(found, 0, 7)  # those above the file's greatest value don't count
    assert not points.may_be_in(found, 2, None)


def test_more_values_than_it_pays_to_look_for() -> None:
    found = entry(write({"c": "BIGINT"}, {"c": [-1]}), "c")
    few, many = ([Interval(v, v) for v in range(n)] for n in (200, 201))
    assert [Points("BIGINT", points).may_be_in(found, 0, None) for points in (few, many)] == [False, True]
    assert not Points("BIGINT", many).may_be_in(found, 1, None)


# -- how good, how big


@pytest.mark.parametrize("count", [1, 30, 100, 1000, 3000, 6000])
def test_absent_values_are_denied_at_the_promised_rate(count: int) -> None:
    rng = random.Random(count)
    file = write(
        {"i": "BIGINT", "s": "VARCHAR"},
        {
            "i": [rng.getrandbits(62) for _ in range(count)],
            "s": [f"{rng.getrandbits(99):x}" for _ in range(count)],
        },
    )
    absent = 4000
    for name, make in (("i", lambda: rng.getrandbits(62)), ("s", lambda: f"{rng.getrandbits(99):x}")):
        kind, (text,) = entry(file, name)
        bits = from_text(kind, text)
        assert bits is not None and len(bits) <= COLUMN_BYTES
        assert false_positive_rate(bits) <= MOST_RATE
        wrong = sum(Bloom(bits).may_contain(hash_of(make(), kind) or 0) for _ in range(absent))
        assert wrong <= absent * (false_positive_rate(bits) * 1.5 + 0.003)
        assert len(bits) <= max(32, 4 * count)


def test_the_rate_is_told_from_the_bits() -> None:
    assert false_positive_rate(bytes(64)) == 0
    assert false_positive_rate(b"\xff" * 64) == 1
    assert false_positive_rate(bytes(32) + b"\xff" * 32) == 0.5
    assert 0 < RATE < MOST_RATE


def test_large_filters_stay_in_the_parquet_file() -> None:
    file = write({"i": "BIGINT"}, {"i": list(range(20_000))})
    kind, filters = entry(file, "i")
    assert kind == "BIGINT" and [type(each) for each in filters] == [int]
    pruner = Pruner(Predicate.parse("i = 700", {"i": "BIGINT"}), {"i": "BIGINT"})
    assert pruner.may_match(file._replace(extra={"rows": 20_000, "bloom": {"i": [kind, filters]}}))


def test_all_filters_of_a_file_together_are_bounded() -> None:
    columns = {f"c{i}": "BIGINT" for i in range(5)}
    data = {name: [hash(name) % 1000 + 3 * i for i in range(6000)] for name in columns}
    file = write(columns, data)
    inside = [name for name in columns if isinstance(entry(file, name)[1][0], str)]
    assert inside == ["c0", "c1"]  # the first ones, as they were asked for
    assert sum(len(base64.b64decode(entry(file, name)[1][0])) - 4 for name in inside) <= FILE_BYTES


def test_files_without_rows_or_values() -> None:
    file = write({"a": "BIGINT", "b": "VARCHAR"}, {"a": [None, None], "b": [None, "x"]})
    assert not may_hold(entry(file, "a"), "BIGINT", 5)
    assert may_hold(entry(file, "b"), "VARCHAR", "x")


def test_other_engines_read_the_filters_of_files(tmp_path: Path) -> None:
    bucket = open_bucket(str(tmp_path))
    file = write({"i": "BIGINT", "s": "VARCHAR"}, {"i": [4, None, 9], "s": ["é", "b", ""]}, bucket=bucket)
    path = str(bucket.local_path(file.path))

    def excluded(name: str, value: object) -> bool:
        (found,) = duckdb.execute(f"FROM parquet_bloom_probe(?, '{name}', ?)", [path, value]).fetchall()
        return bool(found[-1])

    assert [excluded("i", value) for value in (4, 9, 5)] == [False, False, True]
    assert [excluded("s", value) for value in ("é", "b", "", "c")] == [False, False, False, True]


# -- damage


def test_one_flipped_bit_says_nothing() -> None:
    found = entry(write({"i": "BIGINT"}, {"i": [5, 6, 7]}), "i")
    assert not may_hold(found, "BIGINT", 1000)
    kind, (text,) = found
    for at in range(len(text)):
        for bit in range(8):
            damaged = text[:at] + chr(ord(text[at]) ^ 1 << bit) + text[at + 1 :]
            if from_text(kind, damaged) != from_text(kind, text):
                assert may_hold([kind, [damaged]], kind, 1000)
    for at in range(len(kind)):
        for bit in range(8):
            damaged = kind[:at] + chr(ord(kind[at]) ^ 1 << bit) + kind[at + 1 :]
            assert may_hold([damaged, [text]], kind, 1000)
    assert may_hold(["INTEGER", [text]], kind, 1000)


ZEROS = to_text("BIGINT", bytes(32))


@pytest.mark.parametrize(
    "found",
    [
        None,
        5,
        "text",
        [],
        {},
        ["BIGINT"],
        ["BIGINT", []],
        ["BIGINT", None],
        ["BIGINT", ZEROS],
        ["BIGINT", [None]],
        ["BIGINT", [5]],
        ["BIGINT", [ZEROS, 5]],
        ["BIGINT", [ZEROS, None]],
        ["BIGINT", [""]],
        ["BIGINT", ["AAAA"]],
        ["BIGINT", ["not base 64, é"]],
        ["BIGINT", [to_text("BIGINT", bytes(31))]],
        ["BIGINT", [to_text("BIGINT", b"")]],
        ["BIGINT", [ZEROS], "more"],
        ["no type (", [ZEROS]],
        ["DOUBLE", [to_text("DOUBLE", bytes(32))]],
        [5, [ZEROS]],
    ],
)
def test_what_is_no_filter_says_nothing(found: Any) -> None:
    assert may_hold(found, "BIGINT", 5)
    columns = {"i": "BIGINT"}
    pruner = Pruner(Predicate.parse("i = 5", columns), columns)
    assert pruner.may_match(DataFile("x", 1, 0, {"rows": 1, "bloom": {"i": found}}))
    assert pruner.may_match(DataFile("x", 1, 0, {"rows": 1, "bloom": found}))
    assert not pruner.may_match(DataFile("x", 1, 0, {"rows": 1, "bloom": {"i": ["BIGINT", [ZEROS]]}}))


HEADER = bytes.fromhex("15401c1c00001c1c00001c1c000000")


def test_only_parquets_own_layout_is_read() -> None:
    assert parquet_bloom.parse(HEADER + bytes(32)) == bytes(32)
    for at in range(len(HEADER)):
        for bit in range(8):
            damaged = bytearray(HEADER + bytes(32))
            damaged[at] ^= 1 << bit
            assert parquet_bloom.parse(bytes(damaged)) is None
    for length in range(len(HEADER) + 32):
        assert parquet_bloom.parse((HEADER + bytes(32))[:length]) is None
    assert parquet_bloom.parse(HEADER + bytes(33)) is None
    assert parquet_bloom.parse(b"\x15" + b"\xff" * 60) is None


# -- row groups


@pytest.fixture(params=["memory", "ranged", "directory"])
def bucket(request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    if request.param == "ranged":
        monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    return open_bucket(str(tmp_path) if request.param == "directory" else "memory://")


COLUMNS = {"id": "VARCHAR", "n": "BIGINT", "pad": "VARCHAR"}
GROUPS, GROUP_ROWS = 5, 8000


def wide(bucket: Bucket) -> tuple[DataFile, list[str]]:
    """A file of five row groups, whose filters are too large for the marker."""
    rng = random.Random(5)
    ids = [f"{rng.getrandbits(120):030x}" for _ in range(GROUPS * GROUP_ROWS)]
    data = {
        "id": ids,
        "n": [rng.getrandbits(40) for _ in ids],
        "pad": [f"{rng.getrandbits(400):x}" for _ in ids],
    }
    spec = WriteSpec(
        Names(), COLUMNS, PartitionSpec(()), row_group_rows=GROUP_ROWS, bloom_filters=("id", "n")
    )
    (file,) = write_batches(bucket, spec, [pa.table(data, schema=arrow_schema(COLUMNS))])
    assert all(isinstance(each, int) for each in entry(file, "id")[1])
    return file, ids


def groups_read(
    bucket: Bucket, file: DataFile, where: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[dict[str, Any]]]:
    """Which row groups were decoded, and the rows."""
    seen: set[int] = set()
    batches = source.ParquetSource.batches

    def watched(self: Any, row_groups: Any, names: Any) -> Any:
        seen.update(row_groups)
        return batches(self, row_groups, names)

    with monkeypatch.context() as patched:
        patched.setattr(source.ParquetSource, "batches", watched)
        tables = list(read_file(bucket, file, ReadSpec(COLUMNS, where, COLUMNS)))
    return sorted(seen), [row for table in tables for row in table.to_pylist()]


def test_only_row_groups_that_may_hold_the_value_are_read(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ids = wide(bucket)
    for at in (0, 17_000, len(ids) - 1):
        groups, found = groups_read(bucket, file, f"id = '{ids[at]}'", monkeypatch)
        assert [row["id"] for row in found] == [ids[at]]
        assert at // GROUP_ROWS in groups and len(groups) <= 2
    groups, found = groups_read(bucket, file, f"id IN ('{ids[1]}', '{ids[-1]}')", monkeypatch)
    assert {0, GROUPS - 1} <= set(groups) and len(groups) <= 3 and len(found) == 2
    absent = [groups_read(bucket, file, f"id = '{n:030x}'", monkeypatch) for n in range(10**30, 10**30 + 40)]
    assert not any(found for _, found in absent)
    assert sum(len(groups) for groups, _ in absent) <= 0.05 * 40 * GROUPS


def test_filters_of_a_remote_file_cost_one_more_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    bucket = open_bucket("memory://")
    file, ids = wide(bucket)
    spec = ReadSpec(COLUMNS, f"id = '{ids[30_000]}'", COLUMNS)

    def cost(which: DataFile) -> tuple[int, int]:
        before = bucket.counters.as_dict()
        assert sum(table.num_rows for table in read_file(bucket, which, spec)) == 1
        after = bucket.counters.as_dict()
        return after["get"] - before["get"], after["bytes_in"] - before["bytes_in"]

    plain = {key: value for key, value in (file.extra or {}).items() if key != "bloom"}
    gets, size = cost(file._replace(extra=plain))
    gets_filtered, size_filtered = cost(file)
    assert gets_filtered <= gets + 1
    assert size_filtered < size / 2


def test_filters_are_not_fetched_where_they_spare_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WHOLE_BYTES", 0)
    bucket = open_bucket("memory://")
    file, _ = wide(bucket)
    columns = {"n": "BIGINT"}
    fetched = []
    read = source.ParquetSource.read_ranges
    monkeypatch.setattr(
        source.ParquetSource, "read_ranges", lambda self, ranges: fetched.append(ranges) or read(self, ranges)
    )
    list(read_file(bucket, file, ReadSpec(columns, "n = 5", columns)))
    assert fetched == []  # a number has 8 bytes, of which a filter has one and a half


def test_filters_inside_of_files_are_believed_by_their_checksum_alone(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = wide(bucket)
    where = f"id = '{10**35:030x}'"
    assert groups_read(bucket, file, where, monkeypatch) == ([], [])
    everything = list(range(GROUPS))
    extra = dict(file.extra or {})
    kind, sums = entry(file, "id")

    def with_entry(found: Any) -> list[int]:
        bloom = {**extra["bloom"], "id": found}
        changed = file._replace(extra={**extra, "bloom": bloom})
        return groups_read(bucket, changed, where, monkeypatch)[0]

    assert with_entry(None) == everything  # their ranges of values all hold it
    assert with_entry([kind, [0, *sums[1:]]]) == [0]
    assert with_entry([kind, sums[:-1]]) == everything
    assert with_entry([kind, [None] * GROUPS]) == everything
    assert with_entry(["BIGINT", sums]) == everything


def test_flipped_bits_of_a_filter_in_a_file_say_nothing(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ids = wide(bucket)
    body = bytearray(bucket.get(file.path).data)
    footer = file_footer(bucket, file.path, file.size)
    starts = [
        footer.row_group(group).column(column).bloom_filter_offset
        for group in range(GROUPS)
        for column in (0, 1)
    ]
    for start in starts:
        body[start + 100 : start + 4000] = bytes(3900)
    bucket.put(file.path, bytes(body))
    for at in (3, 20_000, 39_999):
        _, found = groups_read(bucket, file, f"id = '{ids[at]}'", monkeypatch)
        assert [row["id"] for row in found] == [ids[at]]


# -- tables


def people(start: int, count: int = 50) -> list[dict[str, Any]]:
    return [
        {"id": f"{(start + i) * 7919 % 10**6:06}", "n": (start + i) * 7919 % 10**6, "w": 0.5}
        for i in range(count)
    ]


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_a_point_lookup_opens_the_files_that_may_hold_it(journal: str) -> None:
    db = firn.connect("memory://", writer="w")
    table = db.create_table("t", properties={"bloom_filters": "id, N"}, journal=journal)
    for start in range(0, 2000, 50):
        table.append(people(start))
    for start in (0, 777, 1999):
        (person,) = people(start, 1)
        for where in (f"id = '{person['id']}'", f"n = {person['n']}", f"n IN ({person['n']}, -5) AND w > 0"):
            scan = table.scan(where=where)
            assert 1 <= len(scan.files()) <= 3
            assert scan.to_arrow().to_pylist() == [person]
    either = table.scan(where=f"id = '{people(3, 1)[0]['id']}' OR n = {people(1500, 1)[0]['n']}")
    assert len(either.files()) <= 4 and either.count() == 2
    assert len(table.scan(where="id <> '000000'").files()) == 40


def test_a_scan_without_matches_reads_nothing(db: firn.Database) -> None:
    table = db.create_table("t", properties={"bloom_filters": ["id"]})
    for start in range(0, 500, 50):
        table.append(people(start))
    scan = table.scan(where="id = '500000x'")
    gets = db.bucket.counters.as_dict()["get"]
    scan.snapshot  # noqa: B018
    planned = db.bucket.counters.as_dict()["get"]
    assert planned >= gets and scan.to_arrow().num_rows == 0
    assert db.bucket.counters.as_dict()["get"] - planned <= 1


def blooms(table: Any) -> list[Any]:
    return [(file.extra or {}).get("bloom") for file in table.snapshot().files]


def test_maintenance_writes_filters_too(db: firn.Database) -> None:
    table = db.create_table("t", properties={"bloom_filters": "id"})
    for start in range(0, 200, 50):
        table.append(people(start))
    table.merge()
    assert [list(each) for each in blooms(table)] == [["id"]]
    table.delete(f"id = '{people(3, 1)[0]['id']}'")
    table.rewrite("n >= 0")
    table.checkpoint()
    again = db.table("t")
    (found,) = blooms(again)
    assert may_hold(found["id"], "VARCHAR", people(4, 1)[0]["id"])
    assert again.scan(where=f"id = '{people(3, 1)[0]['id']}'").count() == 0
    assert again.scan(where=f"id = '{people(4, 1)[0]['id']}'").count() == 1


def test_types_that_widen_keep_their_filters(db: firn.Database) -> None:
    table = db.create_table("t", schema={"k": "INTEGER"}, properties={"bloom_filters": "k"})
    for start in (0, 1, 2):
        table.append(pa.table({"k": pa.array(range(start, 300, 3), pa.int32())}))
    table.append(pa.table({"k": pa.array([2**40], pa.int64())}))
    assert table.snapshot().columns["k"] == "BIGINT"
    assert [len(table.scan(where=f"k = {k}").files()) for k in (60, 31, 2**40)] == [1, 1, 1]
    assert [table.scan(where=f"k = {k}").count() for k in (60, 31, 2**40, 2**41)] == [1, 1, 1, 0]


def test_without_the_property_there_are_none(db: firn.Database) -> None:
    table = db.create_table("t")
    table.append(people(0))
    assert blooms(table) == [None]


def test_auto_takes_identifiers(db: firn.Database) -> None:
    table = db.create_table("t", properties={"bloom_filters": "auto"})
    table.append(
        [{**person, "city": f"c{i % 3}", "at": dt.datetime(2026, 1, 1)} for i, person in enumerate(people(0))]
    )
    next_millisecond()
    table.append(people(50, 5))
    assert [list(each or []) for each in blooms(table)] == [["id", "n"], []]
    sample = pa.table({f"c{i}": list(range(100)) for i in range(9)})
    assert list(bloom_columns("auto", dict.fromkeys(sample.column_names, "BIGINT"), sample)) == [
        "c0", "c1", "c2", "c3",
    ]  # fmt: skip


def test_names_that_parquet_might_take_for_paths(db: firn.Database) -> None:
    names = ["a.b", "with space", 'q"uote', "é", "list.element"]
    table = db.create_table("t", properties={"bloom_filters": names})
    table.append([{**{name: f"{i}{name}" for name in names}, "s": {"b": i}} for i in range(20)])
    (found,) = blooms(table)
    assert list(found) == names
    for name in names:
        quoted = name.replace('"', '""')
        assert table.scan(where=f"\"{quoted}\" = '7{name}'").count() == 1
        assert table.scan(where=f"\"{quoted}\" = '7x{name}'").files() == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        ("auto", "auto"),
        ("id", ("id",)),
        ("id, other ", ("id", "other")),
        (["id", "a,b"], ("id", "a,b")),
        (["auto"], ("auto",)),
        ([], ()),
    ],
)
def test_the_property(value: Any, expected: Any) -> None:
    assert parse_bloom_filters(value) == expected
    check_properties({"bloom_filters": value})


@pytest.mark.parametrize("value", ["", "a,,b", ",", 5, True, {"a": 1}, ["a", 5], [""], "a,A", ["a", "a"]])
def test_values_that_the_property_cannot_have(db: firn.Database, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="bloom_filters"):
        db.create_table("t", properties={"bloom_filters": value})
    assert db.tables() == []


def test_columns_that_cannot_have_filters(db: firn.Database) -> None:
    with pytest.raises(InvalidInputError, match="'x', which is DOUBLE"):
        db.create_table("t", schema={"X": "DOUBLE", "a": "BIGINT"}, properties={"bloom_filters": "a, x"})
    table = db.create_table("t", properties={"bloom_filters": "a, x, nowhere"})
    table.append([{"a": 1, "x": 0.5}])
    assert [list(each) for each in blooms(table)] == [["a"]]


def test_a_pyarrow_that_writes_none(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_bloom, "_is_there", lambda: False)
    db.create_table("plain").append([{"a": 1}])
    table = db.create_table("t", properties={"bloom_filters": "a"})
    with pytest.raises(UnsupportedError, match="pyarrow 26"):
        table.append([{"a": 1}])
    assert table.scan().count() == 0
