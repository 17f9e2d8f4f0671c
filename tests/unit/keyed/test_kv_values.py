"""Values: what is accepted comes back as it was put, also through Arrow; what can't be stored is refused."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import InvalidInputError
from firn.keyed.encoding.columns import sst_schema
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values

KINDS = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "UTINYINT": st.integers(0, 255),
    "DOUBLE": st.floats(allow_nan=False),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "BOOLEAN": st.booleans(),
    "VARCHAR": st.text(max_size=5),
    "BLOB": st.binary(max_size=5),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(),
    "TIMESTAMP WITH TIME ZONE": st.datetimes(timezones=st.just(timezone.utc)),
    "DECIMAL(9,2)": st.decimals(-1000, 1000, places=2),
    "BIGINT[]": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "STRUCT(a BIGINT, b VARCHAR)": st.fixed_dictionaries(
        {"a": st.integers(-5, 5), "b": st.none() | st.text(max_size=2)}
    ),
    "MAP(VARCHAR, BIGINT)": st.dictionaries(
        st.text("ab", max_size=1), st.none() | st.integers(0, 3), max_size=2
    ),
    "JSON": st.sampled_from(['{"a":1}', "[]"]),
}


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    values = Values({f"c{at}": kind for at, kind in enumerate(kinds)})
    one = st.fixed_dictionaries(
        {}, optional={f"c{at}": st.none() | KINDS[kind] for at, kind in enumerate(kinds)}
    )
    return values, draw(st.lists(one, min_size=1, max_size=5))


@settings(max_examples=80, deadline=None)
@given(tables(), st.integers(0, 2))
def test_rows_come_back(table, offset):
    values, listed = table
    stored = [values.check(row) for row in listed]
    whole = [{name: row.get(name) for name in values.names} for row in listed]
    assert [values.public(row) for row in stored] == whole
    entries = [Entry(b"%d" % at, at, PUT, None, row) for at, row in enumerate(stored)]
    batch = values.batch([Entry(b"", 0, DELETE, None, None)] * offset + entries).slice(offset)
    batch.validate(full=True)
    assert values.entries(batch) == entries
    assert [values.from_row(batch.columns[4:], at) for at in range(len(listed))] == stored
    assert [values.check(values.public(row)) for row in stored] == stored


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.binary(max_size=3), st.sampled_from([PUT, MERGE, DELETE]), st.none() | st.integers(0, 9))
    )
)
def test_bytes_come_back(listed):
    values = Values()
    entries = [
        Entry(b"k", at, kind, expiry, None if kind == DELETE else v)
        for at, (v, kind, expiry) in enumerate(listed)
    ]
    batch = values.batch(entries)
    assert batch.schema.equals(sst_schema(values.schema))
    assert values.entries(batch) == entries
    assert [values.from_row(batch.columns[4:], at) for at in range(len(listed))] == [
        entry.value for entry in entries
    ]


def test_a_delete_has_no_columns_and_a_row_of_nulls_is_a_row():
    values = Values({"a": "BIGINT"})
    entries = [Entry(b"a", 2, DELETE, None, None), Entry(b"b", 1, PUT, None, (None,))]
    assert values.entries(values.batch(entries)) == entries


def test_values_take_the_columns_type():
    values = Values({"x": "DOUBLE", "f": "FLOAT", "d": "DECIMAL(5,2)", "t": "TIMESTAMP WITH TIME ZONE"})
    stored = values.check({"x": 1, "f": 0.1, "d": 2, "t": datetime(2026, 1, 1)})
    assert stored == (
        1.0,
        pytest.approx(0.1, rel=1e-6),
        Decimal("2.00"),
        datetime(2026, 1, 1, tzinfo=timezone.utc),
    )
    assert [type(cell) for cell in stored[:2]] == [float, float]
    assert stored[1] != 0.1
    assert math.isnan(values.check({"x": math.nan})[0])


BAD = [
    ("BIGINT", 2**63),
    ("BIGINT", 1.5),
    ("BIGINT", "1"),
    ("BIGINT", True),
    ("UTINYINT", -1),
    ("UTINYINT", 256),
    ("DOUBLE", "1"),
    ("DOUBLE", 2**53 + 1),
    ("VARCHAR", b"x"),
    ("VARCHAR", 1),
    ("VARCHAR", "\ud800"),
    ("BLOB", "x"),
    ("BOOLEAN", 1),
    ("DATE", datetime(2026, 1, 1)),
    ("TIMESTAMP", date(2026, 1, 1)),
    ("TIMESTAMP", datetime(2026, 1, 1, tzinfo=timezone.utc)),
    ("TIME", time(1, tzinfo=timezone.utc)),
    ("DECIMAL(3,1)", Decimal("1.25")),
    ("BIGINT[]", [1, "x"]),
    ("BIGINT[]", 1),
    ("VARCHAR", object()),
]


@pytest.mark.parametrize(("kind", "value"), BAD, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(BAD)])
def test_what_the_column_cannot_hold_is_refused(kind, value):
    with pytest.raises(InvalidInputError, match="'c'"):
        Values({"c": kind}).check({"c": value})


@pytest.mark.parametrize("value", ["x", 1, None, {"a": 1}, [b"x"]])
def test_bytes_are_bytes(value):
    with pytest.raises(InvalidInputError, match="not a value of this table"):
        Values().check(value)


@pytest.mark.parametrize("value", [b"x", 1, None, (1,), [("a", 1)]])
def test_rows_are_mappings(value):
    with pytest.raises(InvalidInputError, match="give a dict with its columns, a"):
        Values({"a": "BIGINT"}).check(value)


def test_unknown_columns_are_named():
    with pytest.raises(InvalidInputError, match="no value column 'b'"):
        Values({"a": "BIGINT"}).check({"a": 1, "b": 2})


def test_a_value_has_a_greatest_size(monkeypatch):
    monkeypatch.setattr("firn.keyed.encoding.values.MAX_VALUE", 40)
    assert Values().check(bytearray(40)) == bytes(40)
    with pytest.raises(InvalidInputError, match="a value of 41 bytes is too large"):
        Values().check(bytes(41))
    rows = Values({"a": "VARCHAR", "b": "BLOB", "c": "VARCHAR[]"})
    assert rows.check({"a": "x" * 40, "b": bytes(40)}) == ("x" * 40, bytes(40), None)
    for row in ({"a": "x" * 41}, {"b": bytes(41)}, {"c": ["x" * 20, "y" * 20]}):
        with pytest.raises(InvalidInputError, match="too large for column"):
            rows.check(row)


@pytest.mark.parametrize("name", ["key", "SEQ", "Kind", "expire_at"])
def test_names_that_every_entry_has_are_taken(name):
    with pytest.raises(InvalidInputError, match="rename it"):
        Values({name: "BIGINT"})


@pytest.mark.parametrize(
    "columns", [{}, {"a": "nonsense("}, {"a": "TIMESTAMP_NS"}, {"a": "TIME_NS[]"}, {"": "BIGINT"}]
)
def test_columns_that_no_table_can_have(columns):
    with pytest.raises(InvalidInputError):
        Values(columns)


def test_a_schema_of_arrow_will_do():
    values = Values(pa.schema([("a", pa.int64()), ("b", pa.large_string())]))
    assert values.columns == {"a": "BIGINT", "b": "VARCHAR"}


def test_sizes():
    assert Values().size(b"abc") == 3
    assert Values().size(None) == 0
    rows = Values({"a": "BIGINT", "b": "VARCHAR", "c": "VARCHAR[]"})
    assert rows.size((1, "abc", None)) == 24 + 3
    assert rows.size((1, None, ["ab", "c"])) > rows.size((1, None, []))


def test_texts_of_other_types_are_refused_if_they_arent_one() -> None:
    values = Values({"id": "UUID", "note": "JSON", "size": "ENUM('s', 'l')", "all": "UUID[]"})
    told = UUID("6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38")
    row = (str(told), "[1]", "s", [str(told)])
    assert values.check({"id": told, "note": "[1]", "size": "s", "all": [told]}) == row
    assert values.check({"id": str(told).upper(), "note": "NaN"}) == (str(told), "NaN", None, None)
    for wrong in ({"id": "no"}, {"note": "{no"}, {"size": "m"}, {"all": ["no"]}):
        with pytest.raises(InvalidInputError, match=r"(isn't one|don't fit).*orrect the data"):
            values.check(wrong)
