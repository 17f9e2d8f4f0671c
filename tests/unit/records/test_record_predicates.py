"""Predicates: what matches, and that listing by them misses nothing that does."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import firn
from firn.records.documents.predicates import (
    Contains,
    Equal,
    IndexSpan,
    Prefix,
    Range,
    level_may_match,
    matches,
    may_match,
    of_values,
    predicate_of,
    sort_key,
    spans_of,
    value_at,
)
from firn.records.names.index_values import encode_value, normal, value_path

UTC = dt.timezone.utc
SHORT = st.text("ab._\u00e9\u0301!%~\U0010ffff", max_size=4)
TEXT = st.one_of(
    SHORT, st.text(max_size=8), st.tuples(st.sampled_from(["x" * 170, "é" * 40]), SHORT).map("".join)
)
NUMBERS = st.one_of(
    st.integers(-5, 5), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
KINDS = {
    "text": TEXT,
    "number": NUMBERS,
    "decimal": st.decimals(-100, 100, places=3),
    "date": st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1)),
    "time": st.datetimes(timezones=st.sampled_from([None, UTC, dt.timezone(dt.timedelta(hours=2))])),
    "bytes": st.one_of(st.binary(max_size=3), st.binary(min_size=90, max_size=102)),
    "bool": st.booleans(),
}
VALUES = st.one_of(*KINDS.values(), st.none())


@st.composite
def predicates(draw):
    kind = draw(st.sampled_from(sorted(KINDS)))
    values = KINDS[kind]
    shape = draw(st.sampled_from(["equal", "range", "from", "to", "prefix"]))
    if shape == "prefix":
        return Prefix(draw(TEXT))
    if shape == "equal":
        return Equal(draw(VALUES))
    start = None if shape == "to" else draw(values)
    end = None if shape == "from" else draw(values)
    return Range(start, end, closed=draw(st.booleans()))


def listed(values, predicate):
    """The values whose names a client sees that lists what the predicate says."""
    names = sorted({(value_path(value) + "/db___t___x", n) for n, value in enumerate(values)})
    keys = [name for name, _ in names]
    spans = spans_of(predicate)
    if spans is None:
        levels = {key.partition("/")[0] for key in keys}
        spans = tuple(IndexSpan(level + "/") for level in levels if level_may_match(level, predicate))
    found = set()
    for span in spans:
        at = max(bisect_left(keys, span.prefix), bisect_right(keys, span.after) if span.after else 0)
        for key, n in names[at:]:
            segment = key.split("/")[1]
            if not key.startswith(span.prefix) or (span.last and segment > span.last):
                break
            if may_match(segment, predicate):
                found.add(n)
    return [values[n] for n in sorted(found)]


@given(st.lists(VALUES, max_size=12), predicates())
def test_listing_misses_nothing_that_matches(values, predicate):
    found = [value for value in listed(values, predicate) if predicate.matches(value)]
    assert found == [value for value in values if predicate.matches(value)]


@given(st.lists(VALUES, max_size=6), predicates())
def test_a_list_contains_what_one_of_its_elements_is(values, predicate):
    asked = Contains(predicate)
    expected = any(predicate.matches(value) for value in values)
    assert asked.matches(values) == matches({"a": {"b": values}}, {"a.b": asked}) == expected
    assert asked.matches([[], *values, {"a": 1}]) == expected
    assert bool([v for v in listed(values, of_values(asked)) if predicate.matches(v)]) == expected
    assert not matches({"a": values}, {"a": predicate})


@given(VALUES, predicates())
def test_what_is_no_list_contains_nothing(value, predicate):
    for found in (value, {"a": value}):
        assert not matches({"a": found}, {"a": Contains(predicate)})
    assert not matches({}, {"a": Contains(None)})


@pytest.mark.parametrize("element", [Contains(1), ["x"], {"a": 1}, float("nan"), "\ud800"])
def test_what_no_element_can_be(element):
    with pytest.raises(firn.InvalidInputError):
        Contains(element)


@given(st.data(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_listing_a_range_misses_nothing_within(data, kind, closed):
    values = data.draw(st.lists(KINDS[kind], min_size=2, max_size=12))
    start, end = sorted(values[:2], key=sort_key)
    predicate = Range(start, end, closed=closed)
    inside = [
        v
        for v in values
        if sort_key(start) <= sort_key(v)
        and (sort_key(v) < sort_key(end) or (closed and sort_key(v) == sort_key(end)))
    ]
    assert [v for v in values if predicate.matches(v)] == inside
    assert [v for v in listed(values, predicate) if predicate.matches(v)] == inside


@given(
    st.lists(st.one_of(NUMBERS, KINDS["date"], KINDS["decimal"], KINDS["time"]), max_size=12), predicates()
)
def test_names_of_fixed_width_are_as_good_as_their_values(values, predicate):
    assume(isinstance(predicate, Range))
    found = listed(values, predicate)
    assert found == [value for value in values if predicate.matches(value)]


@given(VALUES, VALUES)
def test_equal_values_have_one_sort_key_and_one_name(one, other):
    same = sort_key(one) == sort_key(other)
    assert same == (encode_value(one) == encode_value(other))
    assert same == Equal(one).matches(other) == Equal(other).matches(one)


@given(st.lists(VALUES, max_size=8))
def test_all_values_can_be_sorted_and_sort_as_their_names_but_for_text(values):
    ordered = sorted(values, key=sort_key)
    others = [
        encode_value(v)
        for v in ordered
        if not isinstance(v, str) and not (isinstance(v, bytes) and len(v) > 80)
    ]
    assert others == sorted(others)


@given(TEXT, TEXT)
def test_a_prefix_matches_by_normal_form(prefix, text):
    assert Prefix(prefix).matches(text) == normal(text).startswith(normal(prefix))


def test_a_range_is_half_open_unless_closed():
    assert [n for n in range(6) if Range(2, 4).matches(n)] == [2, 3]
    assert [n for n in range(6) if Range(2, 4, closed=True).matches(n)] == [2, 3, 4]
    assert [n for n in range(6) if Range(end=2).matches(n)] == [0, 1]
    assert [n for n in range(6) if Range(start=4).matches(n)] == [4, 5]
    assert not Range(4, 2).matches(3) and spans_of(Range(4, 2)) == ()
    assert Range(4, 4, closed=True).matches(4) and not Range(4, 4).matches(4)


def test_kinds_dont_mix():
    for predicate in (Range(0), Range(end=9), Equal(1)):
        assert not any(map(predicate.matches, [None, True, "1", b"1", Decimal(1), dt.date(2026, 1, 1)]))
    assert not Range(Decimal(0)).matches(1)
    assert not Range(dt.date(2026, 1, 1)).matches(dt.datetime(2026, 1, 2))


def test_times_are_compared_as_moments():
    later = dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert Equal(dt.datetime(2026, 1, 1)).matches(later)
    assert Range(dt.datetime(2026, 1, 1), later, closed=True).matches(dt.datetime(2026, 1, 1, tzinfo=UTC))


def test_numbers_beyond_doubles_are_compared_exactly():
    assert not Equal(2**53 + 1).matches(float(2**53))
    assert Range(2**53, 2**53 + 1).matches(2**53) and not Range(2**53, 2**53 + 1).matches(2**53 + 1)


def test_what_is_listed():
    assert spans_of(Equal(None)) == (IndexSpan("!0/!0/"),)
    assert spans_of(Prefix("A")) == (IndexSpan("A"),)
    assert spans_of(Prefix("Ann")) == (IndexSpan("An/Ann"),)
    assert spans_of(Range(1, 2)) == (IndexSpan("!n/", "!n/!nbff0000000000000000", "!nc000000000000000000"),)
    assert spans_of(Range(start=1)) == (IndexSpan("!n/", "!n/!nbff0000000000000000", ""),)
    assert spans_of(Range("apple", "apricot")) == (IndexSpan("ap/ap"),)
    assert spans_of(Range("apple", "pear")) is None
    assert [level_may_match(level, Range("bb", "cc")) for level in ("aa", "b_", "bz", "cc", "cd", "!n")] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_a_long_prefix_lists_hashed_names():
    text = "x" * 190
    assert may_match(encode_value(text + "y" * 100), Prefix(text))
    assert not may_match(encode_value("y" * 300), Prefix(text))
    assert may_match(encode_value(text + "b" * 99), Range(text + "a", text + "c"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Range(), "start or an end"),
        (lambda: Range(1, "2"), "one kind"),
        (lambda: Range(True, 2), "one kind"),
        (lambda: Range([1]), "can't be looked up"),
        (lambda: Range(float("nan")), "no such number"),
        (lambda: Prefix(3), "takes text"),
        (lambda: Prefix("\ud800"), "Unicode"),
        (lambda: predicate_of({"a": 1}), "can't be looked up"),
        (lambda: predicate_of([1]), "can't be looked up"),
    ],
)
def test_what_cant_be_looked_for_is_refused(make, says):
    with pytest.raises(firn.InvalidInputError, match=says):
        make()


def test_a_predicate_stays_and_a_value_is_equality():
    assert predicate_of(Prefix("a")) == Prefix("a")
    assert predicate_of("a") == Equal("a")


def test_paths_lead_into_documents():
    document = {"a": {"b": {"c": 1}}, "a.b": 2, "list": [1], "n": None}
    assert value_at(document, "a.b.c") == 1
    assert value_at(document, "a.b") == 2
    assert [value_at(document, path) for path in ("x", "a.x", "n", "n.x", "list.0", "a.b.c.d")] == [None] * 6


def test_documents_match_by_all_of_their_fields():
    document = {"city": "Detroit", "n": 3, "tags": ["a"]}
    assert matches(document, {"city": Prefix("De"), "n": Range(3)})
    assert not matches(document, {"city": Prefix("De"), "n": Range(4)})
    assert matches(document, {"gone": Equal(None)})
    assert not matches(document, {"tags": Equal(None)})
    assert not matches({"n": {}}, {"n": Equal(None)})
    assert matches(document, {})
