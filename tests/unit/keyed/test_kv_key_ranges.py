"""Predicates as ranges of encoded keys, and files in units for tasks: no wanted key is lost, none read twice."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.arrow.engine import filter_table
from firn.keyed.encoding.keys import Keys
from firn.keyed.maintain.key_shares import BlockMap, KeyRange
from firn.keyed.plan.key_ranges import EVERYTHING, common, key_ranges
from firn.keyed.plan.units import SHARE_BYTES, KeyFile, groups, reached, units_of
from firn.predicate.predicate import Predicate

TYPED = {"state": "VARCHAR", "year": "BIGINT", "at": "TIMESTAMP"}


def ranges(sql: str, columns: dict[str, str], typed: bool = True) -> tuple[KeyRange, ...]:
    return key_ranges([Predicate.parse(sql, columns)], columns, Keys(columns if typed else None))


def held(found: tuple[KeyRange, ...], key: bytes) -> int:
    return sum((r.start is None or key >= r.start) and (r.end is None or key < r.end) for r in found)


def test_the_first_columns_decide() -> None:
    keys = Keys(TYPED)
    one = ranges("state = 'MI' AND year = 2001", TYPED)
    assert one == (KeyRange(*keys.prefix(("MI", 2001))),)
    assert ranges("state IN ('OH', 'MI')", TYPED) == (
        KeyRange(*keys.prefix("MI")),
        KeyRange(*keys.prefix("OH")),
    )
    below = ranges("state = 'MI' AND year < 2001", TYPED)
    assert below[0].start == keys.prefix("MI")[0] and below[0].end == keys.prefix(("MI", 2001))[1]
    assert ranges("state LIKE 'M%'", TYPED) == (KeyRange(b" M", b" N"),)
    assert ranges("year = 2001", TYPED) == EVERYTHING
    assert ranges("state = 'A' AND state = 'B'", TYPED) == ()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("key = 'DTW'", (KeyRange(b"DTW", b"DTW\0"),)),
        (r"key >= 'A' AND key < '\x42\xFF'::BLOB", (KeyRange(b"A", b"B\xff\0"),)),
        ("key IN ('A', 'B')", (KeyRange(b"A", b"A\0"), KeyRange(b"B", b"B\0"))),
        ("key = 'A' OR key = 'C'", EVERYTHING),
        ("value = 'A'", EVERYTHING),
    ],
)
def test_keys_of_bytes(sql: str, expected: tuple[KeyRange, ...]) -> None:
    predicate = Predicate.parse(sql, {"key": "BLOB", "value": "BLOB"})
    assert key_ranges([predicate], {"key": "BLOB"}, Keys()) == expected


def test_decimals_bound_and_uuids_dont() -> None:
    columns = {"price": "DECIMAL(5,2)", "id": "UUID"}
    keys = Keys(columns)
    assert ranges("price = 1.5", columns) == (KeyRange(*keys.prefix(Decimal("1.5"))),)
    assert ranges("price >= -1 AND price < 2", columns) == (KeyRange(keys.prefix(-1)[0], keys.prefix(2)[1]),)
    assert ranges("price = 1.234 OR price < 0", columns) == ranges("price = 1.234", columns) == EVERYTHING
    assert ranges("id = '6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38'", {"id": "UUID"}) == EVERYTHING


def test_a_value_that_no_key_has_bounds_nothing_and_doubles_nothing() -> None:
    found = ranges("state = 'MI' AND year IN (1, 99999999999999999999999)", TYPED)
    assert held(found, Keys(TYPED).encode(("MI", 1, dt.datetime(2001, 1, 1)))) == 1


TEXTS = st.sampled_from(["", "A", "AB", "B", "b", "é", "\0", "Z"])
YEARS = st.sampled_from([-(2**63), -1, 0, 1, 2, 2001, 2**63 - 1])
TIMES = st.sampled_from(
    [dt.datetime(1969, 12, 31), dt.datetime(2001, 1, 1), dt.datetime(2001, 1, 1, 0, 0, 0, 1)]
)


NUMBERS = st.sampled_from(["-999.99", "-0.01", "0", "1.5", "1.50", "999.99", "999.995", "1e2", "12345"])
UUIDS = st.sampled_from([str(uuid.UUID(int=n)) for n in (0, 1, 2**127, 2**128 - 1)])
MORE = {**TYPED, "price": "DECIMAL(5,2)", "id": "UUID"}


def _quoted(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    texts = TEXTS.filter(lambda t: "\0" not in t)
    drawn = [("state", texts), ("year", YEARS), ("at", TIMES), ("price", NUMBERS), ("id", UUIDS)]
    column, values = draw(st.sampled_from(drawn))
    quoted = str if column == "price" else _quoted
    left = draw(values.map(quoted))
    right = draw(values.map(quoted))
    shape = draw(
        st.sampled_from(
            ["=", "<", "<=", ">", ">=", "<>", "mirrored", "in", "between", "like", "float", "null"]
        )
    )
    if shape == "in":
        return f"{column} IN ({left}, {right})"
    if shape == "between":
        return f"{column} BETWEEN {left} AND {right}"
    if shape == "like":
        return f"state LIKE '{draw(st.sampled_from(['A%', 'A_', '%', 'AB', 'b%b']))}'"
    if shape == "float":
        return (
            f"year {draw(st.sampled_from(['=', '<', '>=']))} {draw(st.sampled_from(['0.5', '1e0', '-1.5']))}"
        )
    if shape == "null":
        return f"{column} IS NULL"
    return f"{left} <= {column}" if shape == "mirrored" else f"{column} {shape} {left}"


PRICES = st.sampled_from(["-999.99", "-0.01", "0", "1.5", "100", "999.99"]).map(Decimal)
ROWS = st.tuples(*(st.none() | each for each in (TEXTS, YEARS, TIMES, PRICES, UUIDS)))


@given(
    st.lists(conditions(), min_size=1, max_size=4),
    st.lists(ROWS, min_size=1, max_size=12),
    st.permutations(list(MORE)),
)
def test_no_wanted_key_is_left_out(parts: list[str], rows: list[tuple[Any, ...]], order: list[str]) -> None:
    sql = " AND ".join(f"({part})" for part in parts)
    keys = Keys({name: MORE[name] for name in order})
    found = ranges(sql, keys.columns or {})
    listed = [dict(zip(MORE, row, strict=True)) for row in rows]
    wanted = filter_table(pa.Table.from_pylist(listed, keys.schema), Predicate.parse(sql, MORE).sql)
    for row in wanted.to_pylist():
        assert held(found, keys.encode(tuple(row.values()))) == 1
    for before, after in pairwise(found):
        assert before.end is not None and after.start is not None and before.end < after.start


KEYS = st.binary(min_size=1, max_size=2)


@given(
    st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=8), st.lists(KEYS, max_size=3), KEYS, st.booleans()
)
def test_each_key_is_in_one_unit_with_all_files_that_may_hold_it(
    spans: list[tuple[bytes, bytes]], points: list[bytes], key: bytes, divided: bool
) -> None:
    size = SHARE_BYTES if divided else 1
    files = [
        KeyFile(f"{number}", size, number, min(span), max(span), plain=True, hides=False)
        for number, span in enumerate(spans)
    ]
    asked = common(EVERYTHING, (KeyRange(p, p + b"\0") for p in points)) if points else EVERYTHING

    def map_of(file: KeyFile) -> BlockMap:
        return BlockMap([file.min_key, file.max_key], [size // 2, size // 2])

    units = [u for g in groups(reached(files, asked)) for u, _ in units_of(g, asked, map_of)]
    holders = {file.key for file in files if file.min_key <= key <= file.max_key}
    mine = [
        unit for unit in units if held((unit.range,), key) and holders & {file.key for file in unit.files}
    ]
    assert len(mine) == (1 if holders and held(asked, key) else 0)
    assert all(holders <= {file.key for file in unit.files} for unit in mine)
    for unit in units:
        assert [file.key for run in unit.runs() for file in run] == sorted(
            (file.key for file in unit.files), key=int
        )
