from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from firn.journal.model import DataFile
from firn.lake.partition.partition import PartitionSpec
from firn.lake.prune.prune import Pruner
from firn.predicate.predicate import Predicate

COLUMNS = {
    "a": "BIGINT",
    "f": "DOUBLE",
    "g": "FLOAT",
    "n": "DECIMAL(9,2)",
    "s": "VARCHAR",
    "c": "BOOLEAN",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "m": "TIME",
    "raw": "BLOB",
}
DAY = 86_400_000_000
MID_2001 = (dt.date(2001, 6, 15) - dt.date(1970, 1, 1)).days


def verdict(
    where: str,
    stats: dict[str, Any],
    *,
    rows: int | None = 10,
    partitioning: PartitionSpec | None = None,
    path: str = "t/_data/x.parquet",
    columns: dict[str, str] = COLUMNS,
    **extra: Any,
) -> str:
    """What the pruner says of one file: "none", "all" or "some" of its rows match."""
    pruner = Pruner(Predicate.parse(where, columns), columns, partitioning)
    file = DataFile(path, 1, 0, {"rows": rows, "stats": stats, **extra})
    may, every = pruner.may_match(file), pruner.certainly_all(file)
    assert may or not every or rows == 0
    return "none" if not may else "all" if every else "some"


A = {"a": [3, 7, 0]}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a > 7", "none"),
        ("a >= 7", "some"),
        ("a > 2", "all"),
        ("a < 3", "none"),
        ("a <= 3", "some"),
        ("a < 8", "all"),
        ("a = 2", "none"),
        ("a = 5", "some"),
        ("a <> 2", "all"),
        ("a <> 5", "some"),
        ("8 < a", "none"),
        ("8 > a", "all"),
        ("a > -1", "all"),
        ("a IN (1, 2, 8)", "none"),
        ("a IN (1, 5)", "some"),
        ("a NOT IN (1, 2, 8)", "all"),
        ("a NOT IN (1, 5)", "some"),
        ("a BETWEEN 8 AND 9", "none"),
        ("a BETWEEN 3 AND 7", "all"),
        ("a NOT BETWEEN 3 AND 7", "none"),
        ("a NOT BETWEEN 8 AND 9", "all"),
        ("a BETWEEN SYMMETRIC 9 AND 8", "some"),
        ("NOT a > 7", "all"),
        ("NOT (a > 7 OR a < 3)", "all"),
        ("NOT (a > 2 AND a < 8)", "none"),
        ("a > 7 AND s = 'x'", "none"),
        ("a > 7 OR s = 'x'", "some"),
        ("a < 3 OR a > 7", "none"),
        ("a > 2 OR s = 'x'", "all"),
        ("a IS NULL", "none"),
        ("a IS NOT NULL", "all"),
        ("(a > 7) IS NOT TRUE", "all"),
        ("(a > 2) IS NOT TRUE", "none"),
        ("(a > 7) IS FALSE", "all"),
        ("a > 7.5", "none"),
        ("a < 2e0", "none"),
        ("a = 2 + 6", "none"),
        ("a = CAST(8 AS SMALLINT)", "none"),
        ("TRUE", "all"),
        ("FALSE", "none"),
        ("NULL", "none"),
        ("a = NULL", "some"),
        ("a NOT IN (9, NULL)", "some"),
        ("a + 1 > 100", "some"),
        ("a > f", "some"),
        ("a = '9'", "some"),
        ("abs(a) > 100", "some"),
    ],
)
def test_integers(where: str, expected: str) -> None:
    assert verdict(where, A) == expected


@pytest.mark.parametrize(
    ("where", "entry", "expected"),
    [
        ("a > 2", [3, 7, 1], "some"),
        ("a > 8", [3, 7, 1], "none"),
        ("a > 2", [None, None, 10], "none"),
        ("a IS NULL", [None, None, 10], "all"),
        ("a IS NOT NULL", [None, None, 10], "none"),
        ("NOT a > 2", [None, None, 10], "none"),
        ("(a > 2) IS NOT TRUE", [None, None, 10], "all"),
        ("a <> 5", [5, 5, 1], "none"),
        ("a = 5", [5, 5, 0], "all"),
        ("a = 5", [5, 5, 1], "some"),
        ("a > 2", [3, 7, None], "some"),
        ("a > 8", [3, 7, None], "none"),
        ("a > 8", [3, None, 0], "some"),
        ("a < 3", [3, None, 0], "none"),
        ("a > 2", [3, None, 0], "all"),
        ("a IS NULL", [3, 7, None], "some"),
        ("a IS NULL", [3, 7, 2], "some"),
    ],
)
def test_nulls_and_unknown_bounds(where: str, entry: list[Any], expected: str) -> None:
    assert verdict(where, {"a": entry}) == expected


def test_unknown_is_never_empty() -> None:
    for where in ("a > 8", "a IS NULL", "a IS NOT NULL", "NOT a > 8", "s LIKE 'x%'"):
        assert verdict(where, {}) == "some"
        assert verdict(where, {"a": [None, None, None]}) == "some"
        assert verdict(where, A, rows=None) != "all" or where in ("a IS NOT NULL", "NOT a > 8")
        assert verdict(where, A, rows=0) == "none"
        pruner = Pruner(Predicate.parse(where, COLUMNS), COLUMNS)
        bare = DataFile("t/_data/x.parquet", 1, 0)
        assert pruner.may_match(bare)
        assert not pruner.certainly_all(bare)
    # nulls equal to the rows prove nothing where the rows aren't known
    assert verdict("a > 8", {"a": [None, None, 10]}, rows=None) == "some"


@pytest.mark.parametrize(
    ("where", "stats", "expected"),
    [
        # a NaN is larger than all numbers: no maximum, no pruning from above
        ("f > 100", {"f": [1.0, None, 0]}, "some"),
        ("f > 0", {"f": [1.0, None, 0]}, "all"),
        ("f <> 100", {"f": [1.0, None, 0]}, "some"),
        ("f < 1", {"f": [1.0, None, 0]}, "none"),
        ("f = CAST('nan' AS DOUBLE)", {"f": [1.0, 2.0, 0]}, "some"),
        ("f > 2.0", {"f": [1.0, 2.0, 0]}, "some"),
        ("f > 2e0", {"f": [1.0, 2.0, 0]}, "none"),
        ("f > 3", {"f": [1.0, 2.0, 0]}, "none"),
        # 2^53 + 1 is 2^53 as a double
        ("f = 9007199254740993", {"f": [2.0**53, 2.0**53, 0]}, "some"),
        ("a = 9007199254740993e0", {"a": [2**53 + 1, 2**53 + 1, 0]}, "some"),
        ("a IN (9007199254740993, 1e0)", {"a": [2**53, 2**53, 0]}, "some"),
        ("a = 9007199254740993", {"a": [2**53, 2**53, 0]}, "none"),
        ("a = 9007199254740993", {"a": [2**53 + 1, 2**53 + 1, 0]}, "all"),
        # 0.1 as a FLOAT lies above 0.1
        ("g = 0.1", {"g": [0.10000000149011612, 0.10000000149011612, 0]}, "some"),
        ("g > 0.2", {"g": [0.10000000149011612, 0.10000000149011612, 0]}, "none"),
        # and where a FLOAT is compared with, decimals and integers become FLOATs
        ("n = CAST(0.1 AS FLOAT)", {"n": ["0.10", "0.10", 0, "decimal"]}, "some"),
        ("n <> CAST(0.1 AS FLOAT)", {"n": ["0.10", "0.10", 0, "decimal"]}, "some"),
        ("a = CAST(16777216 AS FLOAT)", {"a": [2**24 + 1, 2**24 + 1, 0]}, "some"),
        ("a IN (16777216, CAST(1 AS FLOAT))", {"a": [2**24 + 1, 2**24 + 1, 0]}, "some"),
        ("a > CAST(16777216 AS FLOAT)", {"a": [1, 2**23, 0]}, "none"),
        ("f = CAST(0.1 AS FLOAT)", {"f": [0.1, 0.1, 0]}, "none"),
        ("n = 5", {"n": ["5.00", "5.00", 0, "decimal"]}, "all"),
        ("n > 5.001", {"n": ["4.00", "5.00", 0, "decimal"]}, "none"),
        ("n < 4e0", {"n": ["4.01", "5.00", 0, "decimal"]}, "none"),
        ("c", {"c": [False, False, 0]}, "none"),
        ("NOT c", {"c": [False, False, 0]}, "all"),
        ("c = true", {"c": [True, True, 0]}, "all"),
        ("c IS NOT TRUE", {"c": [True, True, 0]}, "none"),
        ("c", {"c": [False, True, 0]}, "some"),
        ("c = 1", {"c": [False, False, 0]}, "some"),
        ("m > TIME '12:00:00'", {"m": [0, 3_600_000_000, 0, "time"]}, "none"),
        ("raw IS NULL", {"raw": [None, None, 0]}, "none"),
        ("raw = 'x'", {"raw": [None, None, 0]}, "some"),
    ],
)
def test_families_and_their_traps(where: str, stats: dict[str, Any], expected: str) -> None:
    assert verdict(where, stats) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s = 'DTW'", "some"),
        ("s = 'dtw'", "none"),
        ("s > 'MIA'", "none"),
        ("s >= 'ATL' AND s <= 'MIA'", "all"),
        ("s LIKE 'D%'", "some"),
        ("s LIKE 'N%'", "none"),
        ("s LIKE 'A%'", "some"),
        ("s LIKE '%X'", "some"),
        ("s LIKE 'NYC'", "none"),
        ("s LIKE 'N_C'", "none"),
        ("s NOT LIKE 'N%'", "all"),
        ("s NOT LIKE 'D%'", "some"),
        ("starts_with(s, 'N')", "none"),
        ("NOT starts_with(s, 'N')", "all"),
        ("prefix(s, 'N')", "none"),
        ("s ^@ 'N'", "none"),
        ("s LIKE '%'", "all"),
        ("s NOT LIKE '%'", "none"),
        ("s LIKE 'N\\%'", "some"),
        ("s ILIKE 'n%'", "some"),
        ("s LIKE 'N$%' ESCAPE '$'", "some"),
        ("s COLLATE nocase = 'zzz'", "some"),
        ("upper(s) = 'ZZZ'", "some"),
        ("s = 'Z' || 'Z'", "none"),
    ],
)
def test_text(where: str, expected: str) -> None:
    assert verdict(where, {"s": ["ATL", "MIA", 0]}) == expected


def test_prefixes_shared_by_both_bounds() -> None:
    assert verdict("s LIKE 'ab%'", {"s": ["aba", "abz", 0]}) == "all"
    assert verdict("s LIKE 'ab%'", {"s": ["aba", "abz", 1]}) == "some"
    assert verdict("s LIKE 'ab%z'", {"s": ["aba", "abz", 0]}) == "some"
    assert verdict("s NOT LIKE 'ab%'", {"s": ["aba", "abz", 1]}) == "none"
    assert verdict("s NOT LIKE 'ab%z'", {"s": ["aba", "abz", 0]}) == "some"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("d = DATE '2001-06-15'", "all"),
        ("d = '2001-06-15'", "all"),
        ("d > '2001-06-15'", "none"),
        ("d < TIMESTAMP '2001-06-15 00:00:01'", "all"),
        ("d >= TIMESTAMP '2001-06-15 00:00:01'", "none"),
        ("d >= DATE '2001-06-15' + INTERVAL 1 DAY", "none"),
        ("d > '2001-6-15'", "some"),
        ("d > '2001-06-15 12:00'", "some"),
        ("year(d) = 1999", "some"),
        ("ts >= '2001-06-16'", "none"),
        ("ts >= '2001-06-15T12:00:00'", "some"),
        ("ts >= '2001-06-15 12:00:00.000001'", "none"),
        ("ts < DATE '2001-06-15'", "none"),
        ("ts > '2001-07-15 12:00:00+02'", "some"),
        ("ts > TIMESTAMPTZ '2002-07-15 12:00:00+02'", "some"),
        # an offset fixes the moment; without one it depends on the session's zone
        ("tz > '2001-06-15 12:00:00Z'", "none"),
        ("tz > '2001-06-15 14:00:00+02:00'", "none"),
        ("tz > TIMESTAMPTZ '2001-06-15 14:00:00+02'", "none"),
        ("tz > '2001-06-15 13:00:00'", "some"),
        ("tz > '2001-06-17 13:00:00'", "none"),
        ("tz < DATE '2001-06-14'", "some"),
        ("tz < DATE '2001-06-13'", "none"),
        ("tz < '2001-06-18'", "all"),
    ],
)
def test_times(where: str, expected: str) -> None:
    midnight = MID_2001 * DAY
    stats = {
        "d": [MID_2001, MID_2001, 0, "date"],
        "ts": [midnight, midnight + DAY // 2, 0, "timestamp"],
        "tz": [midnight, midnight + DAY // 2, 0, "timestamptz"],
    }
    assert verdict(where, stats) == expected


def test_a_type_that_widened_keeps_old_files_readable() -> None:
    days = {"d": [MID_2001, MID_2001, 0, "date"]}
    assert verdict("d > '2002'", days, columns={"d": "VARCHAR"}) == "some"
    assert verdict("a > '8'", A, columns={"a": "VARCHAR"}) == "some"
    assert verdict("a > 8", A, columns={"a": "HUGEINT"}) == "none"
    assert verdict("a > 8.5", A, columns={"a": "DECIMAL(21,2)"}) == "none"
    assert verdict("a > 8", A, columns={"a": "DOUBLE"}) == "none"
    assert verdict("a > 8", {"a": ["3", "7", 0, "decimal"]}, columns={"a": "HUGEINT"}) == "none"


def partitioned(
    where: str, fields: list[str], directory: str, stats: dict[str, Any] | None = None, **extra: Any
) -> str:
    spec = PartitionSpec.parse(fields, COLUMNS)
    path = f"db/t/_data/{directory}/x.parquet"
    return verdict(where, stats or {}, partitioning=spec, path=path, **{"spec": spec.id, **extra})


@pytest.mark.parametrize(
    ("field", "value", "where", "expected"),
    [
        ("s", "DTW", "s = 'HNL'", "none"),
        ("s", "DTW", "s IN ('DTW', 'x')", "all"),
        ("s", "a%2Fb", "s = 'a/b'", "all"),
        ("s", "__HIVE_DEFAULT_PARTITION__", "s = 'x'", "none"),
        ("s", "__HIVE_DEFAULT_PARTITION__", "s IS NULL", "all"),
        ("s", "", "s = ''", "all"),
        ("a", "-5", "a < 0", "all"),
        ("c", "true", "NOT c", "none"),
        ("n", "1.50", "n = 1.5", "all"),
        ("d", "2001-06-15", "d < '2001-06-15'", "none"),
        ("ts", "2001-06-15%2012%3A00%3A00.5", "ts > '2001-06-15 12:00:00.500000'", "none"),
        ("tz", "2001-06-15%2012%3A00%3A00%2B00", "tz = '2001-06-15 12:00:00Z'", "all"),
        ("f", "1.5", "f > 2e0", "some"),
        ("month(d)", "2001-06", "d >= DATE '2001-07-01'", "none"),
        ("month(d)", "2001-06", "d BETWEEN '2001-06-01' AND '2001-06-30'", "all"),
        ("month(d)", "2001-06", "d = '2001-06-15'", "some"),
        ("month(d)", "__HIVE_DEFAULT_PARTITION__", "d > '1900-01-01'", "none"),
        ("year(ts)", "2001", "ts < '2001-01-01'", "none"),
        ("year(ts)", "2001", "ts <= '2001-12-31 23:59:59.999999'", "all"),
        ("hour(tz)", "2001-06-15-13", "tz >= '2001-06-15 14:00:00Z'", "none"),
        ("day(ts)", "1969-12-31", "ts < '1970-01-01'", "all"),
        ("truncate(10, a)", "-10", "a >= 0", "none"),
        ("truncate(10, a)", "-10", "a BETWEEN -10 AND -1", "all"),
        ("truncate(50, n)", "-0.50", "n >= 0", "none"),
        ("bucket(16, a)", "3", "a = 34", "some"),
        ("s", "x%3", "s = 'x'", "none"),
        ("a", "nonsense", "a = 5", "some"),
        ("month(d)", "nonsense", "d = '2001-01-01'", "some"),
    ],
)
def test_partition_values(field: str, value: str, where: str, expected: str) -> None:
    name = PartitionSpec.parse([field], COLUMNS).fields[0].name
    assert partitioned(where, [field], f"{name}={value}") == expected


def test_buckets_need_a_proof_of_the_type_that_was_hashed() -> None:
    fields, there = ["bucket(16, a)"], "a_bucket=4"
    known = {"a": [-100, 100, 0]}
    assert partitioned("a = 34", fields, "a_bucket=3", known) == "some"
    assert partitioned("a = 34", fields, there, known) == "none"
    assert partitioned("a IN (34, 35)", fields, there, known) == "none"
    assert partitioned("a <> 34", fields, there, known) == "some"
    assert partitioned("a > 34", fields, there, known) == "some"
    assert partitioned("a = 34", fields, there) == "some"
    assert partitioned("a = 34.0", fields, there, known) == "some"
    spec = PartitionSpec.parse(fields, COLUMNS)
    path = f"t/_data/{there}/x.parquet"
    for wider in ({"a": "DECIMAL(21,2)"}, {"a": "HUGEINT"}):
        assert verdict("a = 34", known, partitioning=spec, path=path, columns=wider, spec=spec.id) == "some"


def test_truncated_text_needs_a_proof_that_it_was_text() -> None:
    fields, there = ["truncate(2, s)"], "s_trunc=ab"
    known = {"s": ["a", "zz", 0]}
    assert partitioned("s LIKE 'b%'", fields, there, known) == "none"
    assert partitioned("s = 'abc'", fields, there, known) == "some"
    assert partitioned("s = 'a'", fields, "s_trunc=a", known) == "all"
    assert partitioned("s LIKE 'b%'", fields, there) == "some"


def test_only_files_of_this_spec_are_judged_by_their_directory() -> None:
    assert partitioned("s = 'HNL'", ["s"], "s=DTW") == "none"
    # the reference may call a directory after a column and put something else there
    assert partitioned("s = 'HNL'", ["s"], "s=DTW", spec=None) == "some"
    assert partitioned("s = 'HNL'", ["s"], "s=DTW", spec="other") == "some"
    assert partitioned("s = 'HNL'", ["s"], "t=DTW") == "some"
    assert partitioned("s = 'HNL'", ["a", "s"], "s=DTW/a=5") == "some"
    assert partitioned("s = 'HNL'", ["a", "s"], "a=5/s=DTW") == "none"


def test_hashed_values_are_read_from_the_marker_only() -> None:
    spec = PartitionSpec.parse(["s"], COLUMNS)
    from firn.lake.partition.partition import dir_of

    directory = dir_of({"s": "x" * 300})
    assert partitioned("s = 'y'", ["s"], directory) == "some"
    assert partitioned("s = 'y'", ["s"], directory, part={"s": "x" * 300}) == "none"
    assert partitioned(f"s = '{'x' * 300}'", ["s"], directory, part={"s": "x" * 300}) == "all"
    assert (
        verdict("s = 'y'", {}, partitioning=spec, path="elsewhere/x.parquet", spec=spec.id, part={"s": "x"})
        == "none"
    )


def test_statistics_and_partition_together() -> None:
    stats = {"d": [MID_2001, MID_2001 + 10, 0, "date"]}
    assert partitioned("d > '2001-06-26'", ["month(d)"], "d_month=2001-06", stats) == "none"
    assert partitioned("d > '2001-06-20'", ["month(d)"], "d_month=2001-06", stats) == "some"


def test_long_chains_compile_without_recursion() -> None:
    where = " OR ".join(f"a = {n}" for n in range(100, 1500))
    assert verdict(where, A) == "none"
    assert verdict(where, {"a": [700, 700, 0]}) == "all"


def test_broken_statistics_are_unknown() -> None:
    for entry in (["x", "y", 0], [None, None, 0, "decimal"], [{}, [], 0], [1.5, 2.5, 0], [3, 7, 0, "date"]):
        assert verdict("a > 100", {"a": entry}) == "some"


def test_row_groups_by_the_same_rules() -> None:
    pruner = Pruner(Predicate.parse("a > 7", COLUMNS), COLUMNS)
    assert not pruner.may_match_stats({"a": [3, 7, 0]}, 5)
    assert pruner.may_match_stats({"a": [3, 8, 0]}, 5)
    assert pruner.may_match_stats({}, None)
    assert not pruner.may_match_stats({}, 0)
