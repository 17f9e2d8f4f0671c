"""Names of record tables' objects: hostile ids and values stay in their place, are told apart, and come back."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import firn
from firn.bucket.keys import check_key, check_prefix
from firn.records.names.index_values import encode_value, value_path
from firn.records.names.layout import IndexEntry, RecordLayout
from firn.records.names.names import field_part, id_part, owner_part, part_text

HOSTILE = [
    "/",
    "..",
    ".",
    "...",
    "../../etc/passwd",
    "___",
    "a___b",
    "_",
    "__",
    "a_",
    "_a",
    "a__b",
    "%2F",
    "%",
    "~",
    "!",
    "!0",
    "!n8000000000000000000",
    "x" * 1000,
    "é" * 1000,
    "_" * 1000,
    "." * 1000,
    "a.",
    ".a",
    "😀",
    "😀" * 200,
    "\u00e9",
    "e\u0301",
    "\0",
    "a\0b",
    "a\nb",
    " ",
    "a b",
    "\\",
    "a\\b",
    "C:",
    "con",
    "*?<>|\"'",
    "a.json",
    "\u202e",
    "\ufeff",
]
TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=250), st.text("_./%~!a", min_size=1))
NAMES = st.from_regex(r"[A-Za-z0-9.\-][A-Za-z0-9_.\-]{0,99}", fullmatch=True)
PLAIN = re.compile(r"[A-Za-z0-9_.\-%~!]+")

layout = RecordLayout("db/people", "people", "db")


@given(TEXT)
def test_a_part_is_one_plain_segment_without_the_separator(text):
    for part, longest in ((id_part(text), 160), (field_part(text), 200), (owner_part(text), 32)):
        assert PLAIN.fullmatch(part) and len(part) <= longest
        assert "___" not in part and not part.startswith(("_", ".")) and not part.endswith(("_", "."))
        assert part_text(part) in (text, None)
        assert (part_text(part) is None) == ("~" in part)


@given(TEXT)
def test_a_part_of_up_to_its_length_is_not_hashed(text):
    if len(text) <= 160 and re.fullmatch("[a-z]+", text):
        assert id_part(text) == text
    if len(text.encode()) * 3 <= 160:
        assert part_text(id_part(text)) == text


@given(TEXT, TEXT)
def test_two_ids_have_two_names(one, other):
    assert (id_part(one) == id_part(other)) == (one == other)


def test_ids_that_differ_only_behind_the_cut_have_two_names():
    assert id_part("x" * 999 + "a") != id_part("x" * 999 + "b")
    assert len(id_part("x" * 1000)) == 160


def test_an_id_is_cut_between_characters():
    part = id_part("é" * 1000)
    assert part.partition("~")[0] == "%C3%A9" * 21


def test_normal_forms_are_two_ids():
    assert id_part("\u00e9") != id_part("e\u0301")


@pytest.mark.parametrize(
    ("id", "name"), [("", "''"), (3, "3"), (None, "None"), (b"a", "b'a'"), ("\ud800", "Unicode")]
)
def test_what_is_no_id_is_refused(id, name):
    with pytest.raises(firn.InvalidInputError, match=name):
        id_part(id)


@given(TEXT)
def test_nothing_leaves_its_prefix(text):
    for key, prefix in (
        (layout.row(text), "db/people/data/"),
        (layout.lock(text), "db/people/_firn/locks/"),
        (layout.entry("city", text, "ada", 1), "db/people/indices/city/"),
        (layout.entry(text, "x", "ada", 1), "db/people/indices/"),
        (layout.entry("city", "x", text, 1), "db/people/indices/city/x_/x/db___people___"),
    ):
        assert key.startswith(prefix)
        assert check_key(key) == key
        below = key.removeprefix(prefix)
        assert ".." not in below.split("/")
        assert not any(segment.endswith(".") or segment.startswith(".") for segment in below.split("/"))
    assert layout.row(text).count("/") == 3
    assert layout.entry(text, text, text, 1).count("/") == 6
    assert check_prefix(layout.index(text)) == layout.index(text)


@given(TEXT)
def test_a_row_is_found_again_from_its_key(id):
    name = layout.row_name(layout.row(id))
    assert name is not None and layout.row_named(name) == layout.row(id)
    assert part_text(name) in (id, None)


@pytest.mark.parametrize(
    "key", ["db/people/data/", "db/people/data/a/b.json", "db/people/data/a", "db/other/data/a.json"]
)
def test_what_is_no_row_has_no_name(key):
    assert layout.row_name(key) in (None, "")


@given(TEXT, TEXT, TEXT, NAMES, st.integers(0, 10**20 - 1))
def test_an_entry_tells_its_row_and_version(field, value, id, table, seq):
    of_table = RecordLayout(f"some/db/{table}", table, "db___x")
    found = of_table.parse_entry(field, of_table.entry(field, value, id, seq))
    assert found is not None
    assert of_table.row_named(found.id_name) == of_table.row(id)
    assert found == IndexEntry(*value_path(value).split("/"), id_part(id), seq)


def test_entries_of_a_copied_database_are_read_under_its_new_name():
    entry = RecordLayout("db/people", "people", "old").entry("city", "x", "ada", 3)
    assert layout.parse_entry("city", entry) == IndexEntry("x_", "x", "ada", 3)


@pytest.mark.parametrize(
    "key",
    [
        "db/people/indices/city/An/Ann/db___people___ada___7",
        "db/people/indices/city/An/Ann/db___people___ada",
        "db/people/indices/city/An/Ann/x___db___people___ada___00000000000000000007",
        "db/people/indices/city/An/Ann/db___people___ada___000000000000000000-7",
        "db/people/indices/city/An/Ann/db___people___ada___٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧",
        "db/people/indices/city/An/db___people___ada___00000000000000000007",
        "db/people/indices/city/An/Ann/",
        "db/people/indices/town/An/Ann/db___people___ada___00000000000000000007",
    ],
)
def test_what_is_no_entry_is_none(key):
    assert layout.parse_entry("city", key) is None


@given(TEXT, TEXT, TEXT)
def test_entries_differ_where_anything_they_name_does(one, other, value):
    def keys(field, value, id, seq):
        return layout.entry(field, value, id, seq)

    base = keys("f", value, one, 1)
    assert (keys("f", value, other, 1) == base) == (one == other)
    assert keys("f", value, one, 2) != base
    assert (keys("f", other, "a", 1) == keys("f", one, "a", 1)) == (
        unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)
    )
    assert (keys(one, value, "a", 1) == keys(other, value, "a", 1)) == (one == other)


@pytest.mark.parametrize("id", ["x" * 1000, "_" * 1000, "😀" * 1000, "." * 1000])
def test_the_longest_names_fit_into_a_key(id):
    table = "t" + "_" * 99
    longest = RecordLayout("p" * 200 + f"/{table}", table, "d" * 300)
    entry = longest.entry(id, id, id, 10**20 - 1)
    assert len(entry.encode()) <= 1000
    assert len(entry.removeprefix("p" * 200 + "/").encode()) <= 800
    assert all(len(segment.encode()) <= 255 for segment in entry.split("/"))
    for key in (entry, longest.row(id), longest.lock(id)):
        assert check_key(key) == key


def test_a_database_may_be_a_whole_bucket():
    assert RecordLayout("people", "people", "db").row("ada") == "people/data/ada.json"
    assert encode_value("ada") == "ada"
