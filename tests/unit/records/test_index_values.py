"""Index values: equal iff the values are, sorted as the values are, prefixes listed by their beginning."""

from __future__ import annotations

import datetime as dt
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firn
from firn.bucket.keys import check_key
from firn.records.names.index_values import (
    encode_value,
    level_of,
    level_text,
    normal,
    text_head,
    text_prefix,
    value_path,
)

INTS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**53) - 1, 2**62 + 1]),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(INTS, FLOATS, st.integers(-(2**63), 2**63).map(float))
ZONES = st.sampled_from([None, dt.timezone.utc, dt.timezone(dt.timedelta(hours=5, minutes=30))])
TIMES = st.datetimes(timezones=ZONES)
TEXT = st.one_of(
    st.text(max_size=40), st.text("._a%!~é\u0301e", max_size=12), st.text(min_size=100, max_size=300)
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=5) | st.decimals(
    min_value=Decimal(-(10**30)), max_value=Decimal(10**30), allow_nan=False
)


def compare(one, other):
    return (one > other) - (one < other)


def aware(time):
    return time.replace(tzinfo=dt.timezone.utc) if time.tzinfo is None else time


@given(NUMBERS, NUMBERS)
def test_numbers_sort_as_they_are(one, other):
    assert compare(encode_value(one), encode_value(other)) == compare(one, other)


@given(INTS)
def test_neighbours_beyond_doubles_are_told_apart(number):
    if number < 2**64 - 1:
        assert encode_value(number) < encode_value(number + 1)
    assert len(encode_value(number)) == 21


def test_one_number_has_one_name():
    assert encode_value(1) == encode_value(1.0) == "!nbff0000000000000000"
    assert encode_value(-0.0) == encode_value(0) == "!n8000000000000000000"
    assert encode_value(2**53 + 1) == "!nc340000000000000001"
    assert encode_value(2**64 - 1) == "!nc3efffffffffffff7ff"


@given(DECIMALS, DECIMALS)
def test_decimals_sort_as_they_are(one, other):
    assert compare(encode_value(one), encode_value(other)) == compare(one, other)


def test_decimals_are_named_by_their_digits():
    assert encode_value(Decimal("12.50")) == encode_value(Decimal("12.5")) == "!m2501125"
    assert encode_value(Decimal("-12.5")) == "!m0498874z"
    assert encode_value(Decimal("-12.5")) < encode_value(Decimal("-12.49")) < encode_value(Decimal(0))
    assert encode_value(Decimal("0E+5")) == encode_value(Decimal("-0")) == "!m1"


@given(TIMES, TIMES)
def test_times_sort_as_they_are(one, other):
    assert compare(encode_value(one), encode_value(other)) == compare(aware(one), aware(other))


@given(st.dates(), st.dates())
def test_dates_sort_as_they_are(one, other):
    assert compare(encode_value(one), encode_value(other)) == compare(one, other)


@given(st.binary(max_size=98), st.binary(max_size=98))
def test_short_bytes_sort_as_they_are(one, other):
    assert compare(encode_value(one), encode_value(other)) == compare(one, other)


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_bytes_have_one_name_each(one, other):
    assert (encode_value(one) == encode_value(other)) == (one == other)
    assert len(encode_value(one)) <= 200


def test_kinds_sort_null_bools_and_then_each_of_its_own():
    names = [
        value_path(v)
        for v in (None, False, True, dt.date(2026, 1, 1), Decimal(1), 1, "", dt.datetime(1, 1, 1), b"")
    ]
    assert names == sorted(names)
    assert max(names) < value_path("%") < value_path("-") < value_path("a")


@given(st.one_of(NUMBERS, DECIMALS, TIMES, st.dates(), st.binary(), TEXT, st.booleans(), st.none()))
def test_a_value_is_two_directories(value):
    path = value_path(value)
    level, segment = path.split("/")
    assert check_key(f"{path}/x")
    assert len(segment) <= 200 and level and segment
    assert not any(part.startswith(".") or part.endswith(".") for part in (level, segment))
    assert segment.isascii() and level.isascii()
    if not isinstance(value, str) or not value:
        assert level == segment[:2]


@given(TEXT, TEXT)
def test_texts_have_one_name_each_normal_form(one, other):
    assert (encode_value(one) == encode_value(other)) == (normal(one) == normal(other))


@given(TEXT)
def test_text_is_told_by_its_name(text):
    known = text_head(encode_value(text))
    assert known is not None
    head, whole = known
    assert normal(text).startswith(head)
    assert (head == normal(text)) == whole
    assert whole or len(head) >= 13
    if text:
        assert level_text(level_of(normal(text))) == normal(text)[:2].ljust(2, "_")


@given(TEXT, st.integers(0, 300))
def test_texts_are_listed_by_their_beginning(text, length):
    text = normal(text)
    prefix = text[:length]
    if text:
        assert encode_value(text).startswith(text_prefix(prefix))
    if len(prefix) >= 2:
        assert value_path(text).startswith(f"{level_of(prefix)}/{text_prefix(prefix)}")
    elif text:
        assert value_path(text).startswith(text_prefix(prefix))


@given(st.text(max_size=20), st.text(max_size=20))
def test_beginnings_are_of_the_normal_form(one, other):
    whole = normal(one + other)
    for length in range(len(whole) + 1):
        assert not whole[:length] or encode_value(whole).startswith(text_prefix(whole[:length]))


def test_normal_forms_are_one_value():
    assert value_path("\u00e9t\u00e9") == value_path("e\u0301te\u0301") == "%C3%A9t/%C3%A9t%C3%A9"


def test_case_is_kept():
    assert value_path("DTW") == "DT/DTW" and value_path("dtw") == "dt/dtw"


def test_long_texts_end_in_a_hash():
    one, other = "x" * 300 + "a", "x" * 300 + "b"
    assert encode_value(one) != encode_value(other)
    assert encode_value(one)[:168] == "x" * 167 + "~"
    assert encode_value("x" * 200) == "x" * 200
    assert encode_value("é" * 34).startswith("%C3%A9" * 27 + "~")
    assert unicodedata.is_normalized("NFC", text_head(encode_value("é" * 99))[0])


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**64,
        -(2**63) - 1,
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e600"),
        "\ud800",
    ],
)
def test_values_that_nothing_can_have_are_refused(value):
    with pytest.raises(firn.InvalidInputError):
        encode_value(value)


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), 1j, dt.time(1)])
def test_values_of_other_kinds_are_refused(value):
    with pytest.raises(firn.InvalidInputError, match="can't be looked up"):
        encode_value(value)
