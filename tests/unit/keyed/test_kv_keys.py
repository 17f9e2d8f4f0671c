"""Typed keys: their bytes sort as they do, nothing is the beginning of another, and Arrow's way gives the same."""

from __future__ import annotations

import math
import pickle
import struct
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firn.errors import CorruptObjectError, InvalidInputError
from firn.keyed.encoding.keys import MAX_KEY, Keys, successor
from firn.keyed.encoding.values import Values

single = st.floats(width=32)


def decimals(precision, scale):
    """All of them alike, those at the ends, and neighbours."""
    most = 10**precision - 1
    unscaled = st.integers(-most, most) | st.sampled_from([-most, -256, -1, 0, 1, 255, most])
    return unscaled.map(lambda n: Decimal(f"{n}E-{scale}"))


KINDS = {
    "BOOLEAN": st.booleans(),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 255, 256, 2**63 - 1]),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "UTINYINT": st.integers(0, 255),
    "DOUBLE": st.floats(),
    "FLOAT": single,
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(),
    "TIMESTAMP WITH TIME ZONE": st.datetimes(timezones=st.just(timezone.utc)),
    "DECIMAL(5,2)": decimals(5, 2),
    "DECIMAL(18,0)": decimals(18, 0),
    "DECIMAL(38,0)": decimals(38, 0),
    "DECIMAL(38,38)": decimals(38, 38),
    "UUID": st.uuids().map(str)
    | st.sampled_from([0, 1, 2**64 - 1, 2**64, 2**127, 2**128 - 1]).map(lambda n: str(uuid.UUID(int=n))),
    "VARCHAR": st.text(max_size=4) | st.text("a\0\x01ÿ", max_size=5),
    "BLOB": st.binary(max_size=4)
    | st.lists(st.sampled_from([b"\0", b"\xff", b"a"]), max_size=5).map(b"".join),
}


@st.composite
def tables(draw, rows=2):
    """A key's columns, and some keys."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    columns = {f"c{at}": kind for at, kind in enumerate(kinds)}
    one = st.tuples(*(st.none() | KINDS[kind] for kind in kinds))
    pool = draw(st.lists(one, min_size=1, max_size=rows))
    # Keys that share parts are the ones whose order is hard.
    mixed = [tuple(draw(st.sampled_from(pool))[at] for at in range(len(kinds))) for _ in range(rows)]
    return Keys(columns), pool + mixed


def rank(key):
    """What keys sort by: null first, NaN last, -0.0 as 0.0."""
    return tuple(
        (0,)
        if part is None
        else (2,)
        if isinstance(part, float) and math.isnan(part)
        else (1, part.encode() if isinstance(part, str) else part)
        for part in key
    )


def encoded(keys, key):
    return keys.encode(key)


@settings(max_examples=80, deadline=None)
@given(tables())
def test_bytes_sort_as_keys_do_and_none_begins_another(table):
    keys, listed = table
    for one in listed:
        for other in listed:
            a, b = encoded(keys, one), encoded(keys, other)
            assert (a < b) == (rank(one) < rank(other))
            assert (a == b) == (rank(one) == rank(other))
            assert a == b or not b.startswith(a)


@settings(max_examples=80, deadline=None)
@given(tables(), st.integers(0, 3))
def test_keys_come_back(table, offset):
    """One by one, and as columns; of a slice too, whose rows begin somewhere in the buffers."""
    keys, listed = table
    array = pa.array([b"before"] * offset + [encoded(keys, key) for key in listed], pa.binary()).slice(offset)
    columns = keys.decode_array(array)
    assert [column.type for column in columns] == keys.schema.types
    for column in columns:
        column.validate(full=True)
    together = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert list(map(rank, together)) == [
        rank(k if len(listed[0]) > 1 else (k,)) for k in keys.decode_list(array)
    ]
    for key, raw, row in zip(listed, array.to_pylist(), together, strict=True):
        back = keys.decode(raw)
        back = back if len(key) > 1 else (back,)
        assert rank(back) == rank(key) == rank(row)
        assert [type(part) for part in back] == [type(part) for part in key]


@settings(max_examples=80, deadline=None)
@given(tables(rows=4), st.integers(0, 2))
def test_whole_columns_are_encoded_as_keys_one_by_one(table, offset):
    keys, listed = table
    columns = [
        pa.array([None] * offset + list(column), field.type).slice(offset)
        for column, field in zip(zip(*listed, strict=True), keys.schema, strict=True)
    ]
    assert keys.encode_arrays(columns).to_pylist() == [encoded(keys, key) for key in listed]


@settings(max_examples=80, deadline=None)
@given(tables(rows=4), st.data())
def test_the_first_columns_are_a_range(table, data):
    keys, listed = table
    count = data.draw(st.integers(1, len(listed[0])))
    first = data.draw(st.sampled_from(listed))[:count]
    last = list(keys.columns.values())[count - 1]
    assume(count < len(listed[0]) or first[-1] is None or last not in ("VARCHAR", "BLOB"))
    start, end = keys.prefix(first)
    for key in listed:
        raw = encoded(keys, key)
        inside = start <= raw and (end is None or raw < end)
        assert inside == (rank(key[:count]) == rank(first))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.binary(min_size=1, max_size=3) | st.sampled_from([b"\xff", b"\xff\xff", b"a\xff"]), max_size=8
    ),
    st.binary(max_size=2),
)
def test_keys_of_bytes_with_a_prefix_are_a_range(listed, prefix):
    start, end = Keys().prefix(prefix)
    for key in listed:
        assert ((start is None or start <= key) and (end is None or key < end)) == key.startswith(prefix)


def test_text_at_the_end_is_matched_by_how_it_begins():
    keys = Keys({"state": "VARCHAR", "city": "VARCHAR"})
    start, end = keys.prefix(("MI", "De"))
    inside = [c for c in ("D", "De", "De\0", "Detroit", "Df") if start <= keys.encode(("MI", c)) < end]
    assert inside == ["De", "De\0", "Detroit"]
    assert not start <= keys.encode(("MJ", "De")) < end
    (start, end) = keys.prefix("MI")
    assert start <= keys.encode(("MI", "zz")) < end
    assert not start <= keys.encode(("MI\0", "zz")) < end


def test_ranges_may_name_the_first_columns_only():
    keys = Keys({"state": "VARCHAR", "year": "BIGINT"})
    assert keys.bound(None) is None
    assert keys.bound(("MI",)) < keys.encode(("MI", -5)) < keys.encode(("MI", 2)) < keys.bound(("MN",))
    assert keys.bound("MI") == keys.bound(("MI",)) == keys.bound({"state": "MI"}) == keys.bound(["MI"])


def test_a_key_of_one_column_is_its_value():
    keys = Keys({"id": "BIGINT"})
    assert keys.encode(7) == keys.encode((7,)) == keys.encode({"id": 7})
    assert keys.decode(keys.encode(7)) == 7


def test_equal_numbers_are_one_key():
    floats = Keys({"x": "DOUBLE"})
    assert floats.encode(0.0) == floats.encode(-0.0) == floats.encode(0)
    nan = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
    assert floats.encode(nan) == floats.encode(math.nan)
    narrow = Keys({"x": "FLOAT"})
    assert narrow.encode(0.1) == narrow.encode(struct.unpack("f", struct.pack("f", 0.1))[0])


def test_equal_decimals_are_one_key():
    keys = Keys({"x": "DECIMAL(5,2)"})
    same = [Decimal("1.5"), Decimal("1.50"), Decimal("1.5000"), Decimal("0.15E1")]
    assert len({keys.encode(number) for number in same}) == 1
    assert keys.encode(2) == keys.encode(Decimal(2)) == keys.encode(Decimal("2.00"))
    assert keys.encode(Decimal("-0.0")) == keys.encode(Decimal("0E+500")) == keys.encode(0)
    assert str(keys.decode(keys.encode(2))) == "2.00"


def test_uuids_are_16_bytes_in_any_spelling():
    keys = Keys({"x": "UUID"})
    one = uuid.UUID("6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38")
    assert keys.encode(one) == keys.encode(str(one)) == keys.encode(str(one).upper()) == b"\x1b" + one.bytes
    assert keys.decode(keys.encode(one)) == str(one)
    assert keys.prefix(str(one)) == keys.prefix(one) == (keys.encode(one), keys.prefix(one)[1])
    column = pa.array([str(one), None, str(one).upper()])
    assert keys.encode_arrays([column]).to_pylist() == [keys.encode(one), keys.encode(None), keys.encode(one)]
    with pytest.raises(
        InvalidInputError, match=r"a str \('6f'\) doesn't fit the key column 'x', which is UUID"
    ):
        keys.encode_arrays([pa.array([str(one), None, "6f"])])


def test_a_decimal_of_too_many_digits_is_no_key():
    """Arrow doesn't look at the digits of a column that is built of bytes."""
    keys = Keys({"x": "DECIMAL(3,0)"})
    number = pa.array([Decimal(1000)], pa.decimal128(4, 0))
    column = pa.Array.from_buffers(pa.decimal128(3, 0), 1, number.buffers())
    with pytest.raises(
        InvalidInputError, match="'x', which is DECIMAL\\(3,0\\), holds a number of more digits"
    ):
        keys.encode_arrays([column])
    encoded = Keys({"x": "DECIMAL(4,0)"}).encode(1000)
    with pytest.raises(CorruptObjectError):
        keys.decode(encoded)
    with pytest.raises(CorruptObjectError):
        keys.decode_array(pa.array([encoded]))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_without_rows(kind):
    keys = Keys({"x": kind})
    assert keys.encode_arrays([pa.array([], keys.schema.types[0])]).to_pylist() == []
    assert keys.decode_array(pa.array([], pa.binary()))[0].type == keys.schema.types[0]


def test_only_keys_that_need_it_have_a_feature():
    assert (
        Keys({"a": "BIGINT", "b": "DECIMAL(5,2)"}).features == Keys({"a": "UUID"}).features == ("key-types",)
    )
    assert Keys({"a": "BIGINT"}).features == Keys().features == ()


def test_times_are_moments():
    keys = Keys({"t": "TIMESTAMP WITH TIME ZONE"})
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert (
        keys.encode(there)
        == keys.encode(datetime(2026, 1, 1, tzinfo=timezone.utc))
        == keys.encode(datetime(2026, 1, 1))
    )
    assert keys.decode(keys.encode(there)) == there


BAD = [
    ({"a": "BIGINT"}, "1"),
    ({"a": "BIGINT"}, 1.0),
    ({"a": "BIGINT"}, True),
    ({"a": "BIGINT"}, 2**63),
    ({"a": "UTINYINT"}, -1),
    ({"a": "UTINYINT"}, 256),
    ({"a": "BOOLEAN"}, 1),
    ({"a": "VARCHAR"}, b"x"),
    ({"a": "VARCHAR"}, "\ud800"),
    ({"a": "BLOB"}, "x"),
    ({"a": "DATE"}, datetime(2026, 1, 1)),
    ({"a": "TIMESTAMP"}, date(2026, 1, 1)),
    ({"a": "TIMESTAMP"}, datetime(2026, 1, 1, tzinfo=timezone.utc)),
    ({"a": "DOUBLE"}, "1.0"),
    ({"a": "DOUBLE"}, 2**53 + 1),
    ({"a": "DOUBLE"}, 10**400),
    ({"a": "DECIMAL(5,2)"}, Decimal("1.234")),
    ({"a": "DECIMAL(5,2)"}, Decimal("1000")),
    ({"a": "DECIMAL(5,2)"}, 1000),
    ({"a": "DECIMAL(5,2)"}, 10**5000),
    ({"a": "DECIMAL(5,2)"}, 1.5),
    ({"a": "DECIMAL(5,2)"}, "1.5"),
    ({"a": "DECIMAL(5,2)"}, True),
    ({"a": "DECIMAL(5,2)"}, Decimal("NaN")),
    ({"a": "DECIMAL(5,2)"}, Decimal("sNaN")),
    ({"a": "DECIMAL(5,2)"}, Decimal("-Infinity")),
    ({"a": "DECIMAL(5,2)"}, Decimal("1E+999999999")),
    ({"a": "DECIMAL(5,2)"}, Decimal("1E-999999999")),
    ({"a": "DECIMAL(38,38)"}, 1),
    ({"a": "UUID"}, "6fa1c2e0"),
    ({"a": "UUID"}, "{6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38}"),
    ({"a": "UUID"}, "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c3g"),
    ({"a": "UUID"}, "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38\n"),
    ({"a": "UUID"}, "6fa1c2e093b54c7e8d215b0a9e4f7c38"),
    ({"a": "UUID"}, bytes(16)),
    ({"a": "UUID"}, 7),
]


@pytest.mark.parametrize(
    ("columns", "key"), BAD, ids=[f"{next(iter(c.values()))}-{at}" for at, (c, _) in enumerate(BAD)]
)
def test_what_is_not_a_key_is_refused(columns, key):
    with pytest.raises(InvalidInputError, match="key column 'a', which is"):
        Keys(columns).encode(key)


@pytest.mark.parametrize("key", ["x", 1, None, ("a",), 1.5])
def test_keys_of_bytes_are_bytes(key):
    with pytest.raises(InvalidInputError, match="not a key of this table"):
        Keys().encode(key)


def test_keys_have_a_length():
    assert Keys().encode(bytes(MAX_KEY)) == bytes(MAX_KEY)
    assert Keys().encode(bytearray(b"x")) == Keys().encode(memoryview(b"x")) == b"x"
    with pytest.raises(InvalidInputError, match="at most 65,535 fit"):
        Keys().encode(bytes(MAX_KEY + 1))
    with pytest.raises(InvalidInputError, match="at least one byte"):
        Keys().encode(b"")
    with pytest.raises(InvalidInputError, match="too long"):
        Keys({"a": "VARCHAR"}).encode("x" * MAX_KEY)


def test_a_tuple_has_all_columns():
    keys = Keys({"a": "BIGINT", "b": "BIGINT"})
    with pytest.raises(InvalidInputError, match="1 of the key's 2 columns"):
        keys.encode((1,))
    with pytest.raises(InvalidInputError, match="3 columns"):
        keys.bound((1, 2, 3))
    with pytest.raises(InvalidInputError, match="doesn't name"):
        keys.bound({"b": 1})


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"a": "DECIMAL(39,2)"},
        {"a": "DECIMAL(5,2)[]"},
        {"a": "HUGEINT"},
        {"a": "BIGINT[]"},
        {"a": "TIME"},
        {"a": "nonsense("},
    ],
)
def test_types_that_keys_cannot_have(columns):
    with pytest.raises(InvalidInputError):
        Keys(columns)


@settings(max_examples=80, deadline=None)
@given(tables(), st.data())
def test_damaged_keys_are_told_or_are_other_keys(table, data):
    """One by one and as columns alike."""
    keys, listed = table
    raw = bytearray(encoded(keys, listed[0]))
    how = data.draw(st.sampled_from(["cut", "flip", "longer"]))
    if how == "cut":
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    elif how == "flip":
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        raw += b"\0"
    whole = pa.array([bytes(raw)])
    if how != "flip":
        with pytest.raises(CorruptObjectError):
            keys.decode(bytes(raw))
        with pytest.raises(CorruptObjectError):
            keys.decode_array(whole)
        return
    try:
        back = keys.decode(bytes(raw))
        row = tuple(column[0].as_py() for column in keys.decode_array(whole))
    except (CorruptObjectError, OverflowError):  # Arrow has times that Python hasn't
        return
    if "FLOAT" not in (keys.columns or {}).values():  # a double that is no single has no agreed meaning
        assert rank(row) == rank(back if len(row) > 1 else (back,))


@pytest.mark.parametrize("rest", [["\0"], ["", "\0\0", None, "a\0ÿ", "\0a", "\x01", "a"], [None, None], []])
def test_zero_bytes_in_columns_of_text(rest):
    keys = Keys({"a": "VARCHAR", "n": "BIGINT", "b": "BLOB"})
    rows = [(text, 0, None if text is None else text.encode() + b"\0\xff") for text in rest]
    encoded = [keys.encode(row) for row in rows]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(keys.schema.types)]
    assert keys.encode_arrays(columns).to_pylist() == encoded
    assert keys.decode_list(pa.array(encoded, pa.binary())) == rows == [keys.decode(raw) for raw in encoded]


def test_what_comes_behind_a_prefix():
    assert [successor(p) for p in (b"a", b"a\xff\xff", b"\xff", b"")] == [b"b", b"b", None, None]


def test_a_flipped_terminator_of_one_row_does_not_swallow_the_next():
    keys = Keys({"a": "VARCHAR", "b": "BIGINT"})
    rows = [keys.encode(("x", 1)), keys.encode(("y", 2))]
    broken = rows[0].replace(b"\0\0", b"\0\xff", 1)
    with pytest.raises(CorruptObjectError, match="a VARCHAR, b BIGINT"):
        keys.decode_array(pa.array([broken, rows[1]]))


def test_keys_and_values_go_to_tasks():
    keys, values = Keys({"a": "VARCHAR", "b": "BIGINT"}), Values({"n": "BIGINT"})
    assert pickle.loads(pickle.dumps(keys)).encode(("x", 1)) == keys.encode(("x", 1))
    assert pickle.loads(pickle.dumps(values)).check({"n": 1}) == (1,)
    assert pickle.loads(pickle.dumps((Keys(), Values())))[0].encode(b"k") == b"k"


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view()])
def test_encoded_keys_of_other_arrow_types(kind):
    keys = Keys({"a": "VARCHAR", "b": "BIGINT"})
    array = pa.array([keys.encode(("x", 1)), keys.encode(("yy", 2))], kind)
    assert [column.to_pylist() for column in keys.decode_array(array)] == [["x", "yy"], [1, 2]]
