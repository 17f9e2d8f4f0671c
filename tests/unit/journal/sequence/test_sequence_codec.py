"""The JSON of records, horizon and packs: round trips, damage, versions; names; what definitions become."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import (
    ConflictError,
    CorruptObjectError,
    InvalidInputError,
    NotFoundError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.envelope import Envelopes
from firn.journal.sequence import (
    Ddl,
    Horizon,
    IndexState,
    LogRecord,
    LogTransaction,
    Pack,
    RowWrite,
    SequenceLayout,
    TableState,
)
from firn.journal.sequence.catalog import after, changed
from firn.journal.sequence.codec import (
    canonical,
    decode_horizon,
    decode_pack,
    decode_record,
    encode_horizon,
    encode_pack,
    encode_record,
)

NUMBERS = st.integers(0, 2**53)
TEXT = st.text(max_size=5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(TEXT, JSON, max_size=3).map(canonical)
ENTRIES = st.lists(TEXT, max_size=2).map(tuple)
WRITES = st.builds(RowWrite, TEXT, TEXT, BODIES, st.none(), ENTRIES) | st.builds(
    RowWrite, TEXT, TEXT, st.none(), st.none() | TEXT, ENTRIES
)
ISOLATIONS = st.sampled_from(["snapshot", "row"])
DDL = st.builds(
    Ddl,
    st.sampled_from(["create", "drop", "build", "ready", "unindex"]),
    TEXT,
    ISOLATIONS,
    st.dictionaries(TEXT, st.booleans(), max_size=2).map(lambda d: tuple(sorted(d.items()))),
    TEXT,
    st.booleans(),
    each=st.lists(TEXT, max_size=2).map(tuple),
)
GROUP = st.lists(
    st.builds(
        LogTransaction, TEXT, NUMBERS, st.lists(WRITES, max_size=3).map(tuple), ENTRIES, st.none() | DDL
    ),
    max_size=3,
).map(tuple)
INDICES = st.builds(
    IndexState, st.sampled_from(["build", "ready"]), st.booleans(), NUMBERS, NUMBERS, NUMBERS, st.booleans()
)
CATALOGS = st.dictionaries(
    TEXT, st.builds(TableState, NUMBERS, ISOLATIONS, st.dictionaries(TEXT, INDICES, max_size=2)), max_size=2
)
RECORDS = st.builds(
    LogRecord, st.just(9), GROUP, st.integers(0, 5), st.sampled_from([(), (7,), (7, 8)]), CATALOGS
)
RECORD = LogRecord(
    9,
    (
        LogTransaction(
            "tx", 8, (RowWrite("t", "a", b'{"n":1}', None, ("n/1",)), RowWrite("t", "b")), ("t/n/1",)
        ),
    ),
    5,
    (7,),
    {"t": TableState(1, "snapshot", {"n": IndexState("ready", True, 1, 1)})},
)


@given(RECORDS)
@settings(max_examples=200, deadline=None)
def test_a_record_comes_back(record):
    assert decode_record(9, encode_record(record), where="x") == record


@given(st.lists(RECORDS, min_size=1, max_size=3), NUMBERS)
@settings(max_examples=50, deadline=None)
def test_a_pack_comes_back(records, first):
    renumbered = tuple(
        replace(record, number=first + 9 + n, applied=first, done=()) for n, record in enumerate(records)
    )
    pack = Pack(renumbered)
    assert decode_pack(first + 9, encode_pack(pack), where="x") == pack
    assert pack.hi == first + 8 + len(records)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_horizon_comes_back(horizon, lo, applied):
    value = Horizon(horizon, lo, applied)
    assert decode_horizon(encode_horizon(value), where="x") == value


def test_bodies_stand_in_a_record_as_they_are():
    raw = orjson.loads(encode_record(RECORD))
    put, delete = raw["group"][0]["writes"]
    assert (put["op"], put["body"]) == ("put", {"n": 1})
    assert delete["op"] == "delete" and "body" not in delete and "ref" not in delete


@pytest.mark.parametrize("at", range(0, len(encode_record(RECORD)), 7))
def test_a_flipped_bit_is_noticed(at):
    data = bytearray(encode_record(RECORD))
    data[at] ^= 1
    with pytest.raises((CorruptObjectError, UnsupportedError)):
        decode_record(9, bytes(data), where="x")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", encode_record(RECORD)[:-9], encode_horizon(Horizon())])
def test_what_is_no_record_is_refused_by_name(data):
    with pytest.raises(CorruptObjectError, match=r"^s3://b/x is not a commit of the log of record tables: "):
        decode_record(9, data, where="s3://b/x")


def test_a_record_of_another_number_is_refused():
    with pytest.raises(CorruptObjectError, match="it calls itself commit 9"):
        decode_record(8, encode_record(RECORD), where="x")


WRITE = {"table": "t", "id": "a", "entries": []}
SOUND = orjson.loads(encode_record(RECORD))


@pytest.mark.parametrize(
    "changes",
    [
        {"applied": 9},
        {"applied": -1},
        {"done": [9]},
        {"done": [3]},
        {"number": True},
        {
            "group": [
                {
                    **SOUND["group"][0],
                    "writes": [{**WRITE, "op": "delete", "ref": "r"}],
                }
            ]
        },
        {
            "group": [
                {
                    **SOUND["group"][0],
                    "writes": [{**WRITE, "op": "put", "body": 1}],
                }
            ]
        },
        {"group": [{**SOUND["group"][0], "ddl": {"verb": "truncate"}}]},
        {"catalog": {"t": {"since": 1, "isolation": "none", "fields": {}}}},
    ],
)
def test_nonsense_with_a_sound_checksum_is_refused(changes):
    fields = {k: v for k, v in SOUND.items() if k not in ("crc", "kind", "format", "features")}
    data = Envelopes("x", {}).encode("commit", {**fields, **changes})
    with pytest.raises(CorruptObjectError):
        decode_record(9, data, where="x")


def test_a_pack_with_a_hole_is_refused():
    data = encode_pack(Pack((RECORD, replace(RECORD, number=11))))
    with pytest.raises(
        CorruptObjectError, match=r"it has the commits \[9, 11\] instead of those from 9 to 11"
    ):
        decode_pack(9, data, where="x")


def test_names():
    layout = SequenceLayout("")
    assert layout.record_key(7) == "_commits/00000000000000000007"
    assert layout.parse_record("_commits/7") is None
    assert layout.parse_record("elsewhere/00000000000000000007") is None
    assert layout.parse_pack(layout.pack_key(3)) == 3
    with pytest.raises(InvalidInputError, match="0 is not the number of a commit"):
        layout.record_key(0)


def test_definitions_change_one_by_one():
    catalog = changed({}, Ddl("create", "t", indices=(("email", True),)), 3)
    assert catalog == {"t": TableState(3, "snapshot", {"email": IndexState("ready", True, 3, 3)})}
    catalog = changed(catalog, Ddl("build", "t", field="city"), 5)
    assert catalog["t"].fields["city"] == IndexState("build", False, 5, 0)
    catalog = changed(catalog, Ddl("ready", "t", field="city"), 8)
    assert catalog["t"].fields["city"] == IndexState("ready", False, 5, 8)
    catalog = changed(catalog, Ddl("unindex", "t", field="email"), 9)
    assert set(catalog["t"].fields) == {"city"}
    assert changed(catalog, Ddl("drop", "t"), 10) == {}


@pytest.mark.parametrize(
    ("ddl", "error"),
    [
        (Ddl("create", "t"), TableExistsError),
        (Ddl("drop", "u"), TableNotFoundError),
        (Ddl("build", "t", field="email"), ConflictError),
        (Ddl("ready", "t", field="city"), NotFoundError),
        (Ddl("unindex", "t", field="city"), NotFoundError),
    ],
)
def test_a_change_that_does_not_fit_is_refused(ddl, error):
    catalog = changed({}, Ddl("create", "t", indices=(("email", True),)), 3)
    with pytest.raises(error):
        changed(catalog, ddl, 4)


def test_an_index_of_elements_is_of_the_field_that_says_so():
    create = Ddl("create", "t", indices=(("email", True), ("tags", False)), each=("tags",))
    catalog = changed({}, create, 3)
    assert [index.each for index in catalog["t"].fields.values()] == [False, True]
    catalog = changed(catalog, Ddl("build", "t", field="roles", unique=True, each=("roles",)), 5)
    catalog = changed(catalog, Ddl("ready", "t", field="roles", unique=True), 8)
    assert catalog["t"].fields["roles"] == IndexState("ready", True, 5, 8, each=True)
    catalog = changed(catalog, Ddl("unindex", "t", field="tags"), 9)
    catalog = changed(catalog, Ddl("build", "t", field="tags"), 10)
    assert catalog["t"].fields["tags"] == IndexState("build", False, 10, 0, 1)


def test_objects_with_an_index_of_elements_need_its_feature():
    def needs(data):
        return orjson.loads(data)["features"]

    plain = {"t": TableState(1, "snapshot", {"n": IndexState("ready", True, 1, 1)})}
    each = {"t": TableState(1, "snapshot", {"n": IndexState("ready", True, 1, 1, each=True)})}
    builds = LogTransaction("a", 8, ddl=Ddl("build", "t", field="m", each=("m",)))
    assert needs(encode_record(replace(RECORD, catalog=plain))) == []
    assert needs(encode_record(replace(RECORD, catalog=each))) == ["each"]
    assert needs(encode_record(replace(RECORD, catalog=each, base=4))) == ["catalog", "each"]
    assert needs(encode_record(replace(RECORD, group=(builds,)))) == ["each"]
    assert needs(encode_horizon(Horizon(catalog=plain))) == ["catalog"]
    assert needs(encode_horizon(Horizon(catalog=each))) == ["catalog", "each"]
    later = replace(RECORD, number=10, catalog=each)
    assert needs(encode_pack(Pack((RECORD, later)))) == ["each"]


def test_a_record_carries_the_definitions_before_it():
    record = LogRecord(
        4, (LogTransaction("a", 3, ddl=Ddl("create", "u")), LogTransaction("b", 3)), 0, (), RECORD.catalog
    )
    assert set(after(record)) == {"t", "u"}
    assert after(record)["u"].since == 4
