"""Documents: what JSON and schemas allow, with the place of what they don't; kept and given back unchanged."""

from __future__ import annotations

import collections
import copy
import datetime as dt
import enum
import pickle
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firn
from firn.arrow.inputs import declared_columns
from firn.records.documents.documents import MAX_BODY, Documents, Record
from firn.records.documents.predicates import Contains, Equal, Prefix, Range

UTC = dt.timezone.utc
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(st.text().filter(lambda key: key != "_id"), JSON, max_size=5)

plain = Documents("t")
typed = Documents(
    "t",
    columns=declared_columns(
        {
            "flag": "BOOLEAN",
            "small": "TINYINT",
            "big": "UBIGINT",
            "ratio": "DOUBLE",
            "half": "FLOAT",
            "name": "VARCHAR",
            "day": "DATE",
            "at": "TIMESTAMP",
            "when": "TIMESTAMP WITH TIME ZONE",
            "raw": "BLOB",
            "price": "DECIMAL(5,2)",
            "tags": "VARCHAR[]",
            "home": "STRUCT(city VARCHAR, since DATE)",
            "seen": "MAP(VARCHAR, TIMESTAMP)",
        }
    ),
)
TYPED = {
    "flag": True,
    "small": -128,
    "big": 2**64 - 1,
    "ratio": 0.1,
    "half": 1.5,
    "name": "é",
    "day": dt.date(1815, 12, 10),
    "at": dt.datetime(2026, 1, 1, 12, 30, 0, 5),
    "when": dt.datetime(2026, 1, 1, tzinfo=UTC),
    "raw": b"\0\xff",
    "price": Decimal("-999.99"),
    "tags": ["a", None],
    "home": {"city": "Ann Arbor", "since": dt.date(2001, 2, 3)},
    "seen": {"dtw": dt.datetime(2026, 1, 1)},
}


@given(DOCUMENTS)
def test_documents_come_back_as_they_were(document):
    found = plain.decode(plain.encode("a", document))
    assert found == document
    assert repr(collections.OrderedDict(sorted(found.items()))) == repr(
        collections.OrderedDict(sorted(plain.decode(plain.encode("a", found)).items()))
    )


@given(DOCUMENTS)
def test_one_document_has_one_body(document):
    turned = dict(reversed(list(document.items())))
    assert plain.encode("a", document) == plain.encode("b", turned)
    assert plain.encode("a", plain.decode(plain.encode("a", document))) == plain.encode("a", document)


def test_an_encoded_document_is_no_longer_the_callers():
    document = {"tags": ["a"]}
    body = plain.encode("a", document)
    document["tags"].append("b")
    first, second = plain.decode(body), plain.decode(body)
    first["tags"].append("c")
    assert second == {"tags": ["a"]}


def test_a_row_can_be_written_back():
    row = Record("ada", {"n": 1}, "7.x")
    assert plain.encode("bob", row) == b'{"n":1}'
    assert plain.encode("bob", {**row, "n": 2}) == b'{"n":2}'


class Color(str, enum.Enum):
    RED = "red"


def test_subclasses_are_what_they_are_of():
    document = {
        "a": (1, 2),
        "b": collections.OrderedDict(x=1),
        "c": Color.RED,
        "d": enum.IntEnum("N", "x")["x"],
    }
    assert plain.decode(plain.encode("a", document)) == {"a": [1, 2], "b": {"x": 1}, "c": "red", "d": 1}


def deep(levels):
    found = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"a": float("nan")}, r"t\['id'\]: \$\.a is a float \(nan\)"),
        ({"a": [1, {"b": float("inf")}]}, r"\$\.a\[1\]\.b"),
        ({"a": 2**64}, r"\$\.a .*64 bits"),
        ({"a": -(2**63) - 1}, "64 bits"),
        ({"a": {1: 2}}, r"\$\.a has the key an int \(1\)"),
        ({3: 4}, r"\$ has the key"),
        ({None: 4}, r"\$ has the key"),
        ({"a": b"x"}, r"\$\.a is a bytes"),
        ({"a": dt.date(2026, 1, 1)}, "declare a schema"),
        ({"a": uuid.UUID(int=1)}, r"\$\.a"),
        ({"a": {1, 2}}, r"\$\.a is a set"),
        ({"a": object()}, r"\$\.a"),
        ({"a": "\ud800"}, "Unicode"),
        ({"\ud800": 1}, "Unicode"),
        (deep(101), "flatten"),
        ({"a": "x" * MAX_BODY}, "at most"),
        ([1], "isn't a document"),
        ("text", "isn't a document"),
        (None, "isn't a document"),
    ],
)
def test_what_json_cant_hold_is_refused_with_its_place(document, says):
    with pytest.raises(firn.InvalidInputError, match=says):
        plain.encode("id", document)


def test_as_deep_as_it_may_be():
    assert plain.decode(plain.encode("id", deep(99))) == deep(99)


def test_a_document_that_holds_itself_is_refused():
    document = {}
    document["me"] = document
    with pytest.raises(firn.InvalidInputError, match="flatten"):
        plain.encode("id", document)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"3", b"null", b"\xff"])
def test_what_is_no_document_is_corrupt(body):
    with pytest.raises(firn.CorruptObjectError, match="row of t"):
        plain.decode(body)


def test_declared_columns_take_and_give_python_values():
    assert typed.decode(typed.encode("a", TYPED)) == TYPED
    assert typed.from_json(typed.to_json(TYPED)) == TYPED


def test_what_declared_columns_are_in_json():
    assert typed.to_json({k: TYPED[k] for k in ("day", "at", "when", "raw", "price")}) == {
        "day": "1815-12-10",
        "at": "2026-01-01T12:30:00.000005",
        "when": "2026-01-01T00:00:00.000000+00:00",
        "raw": "AP8=",
        "price": "-999.99",
    }


def test_an_arrow_schema_declares_columns():
    columns = declared_columns(pa.schema([("day", pa.date32()), ("n", pa.int32())]))
    documents = Documents("t", columns=columns)
    assert documents.decode(documents.encode("a", {"day": dt.date(2026, 1, 1)})) == {
        "day": dt.date(2026, 1, 1),
        "n": None,
    }


def test_missing_and_null_are_none():
    assert set(typed.decode(typed.encode("a", {})).values()) == {None}
    assert typed.decode(typed.encode("a", dict.fromkeys(TYPED))) == dict.fromkeys(TYPED)


def test_values_that_fit_are_taken():
    encoded = typed.decode(
        typed.encode(
            "a",
            {
                "price": 3,
                "ratio": 3,
                "when": dt.datetime(2026, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
                "half": 0.1,
            },
        )
    )
    assert encoded["price"] == Decimal("3.00") and str(encoded["price"]) == "3.00"
    assert encoded["ratio"] == 3.0 and type(encoded["ratio"]) is float
    assert encoded["when"] == dt.datetime(2026, 1, 1, tzinfo=UTC)
    assert encoded["half"] == pytest.approx(0.1, rel=1e-6) and encoded["half"] != 0.1
    assert typed.decode(typed.encode("a", {"when": dt.datetime(2026, 1, 1)}))["when"] == dt.datetime(
        2026, 1, 1, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flag", 1),
        ("small", 128),
        ("small", True),
        ("small", 1.0),
        ("big", -1),
        ("ratio", float("nan")),
        ("ratio", 2**53 + 1),
        ("ratio", 2**2000),
        ("half", 1e39),
        ("name", 3),
        ("name", "\ud800"),
        ("day", dt.datetime(2026, 1, 1)),
        ("day", "2026-01-01"),
        ("at", dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("at", dt.date(2026, 1, 1)),
        ("when", dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))),
        ("raw", "text"),
        ("price", Decimal("1000")),
        ("price", Decimal("0.001")),
        ("price", Decimal("NaN")),
        ("price", Decimal("1e999999")),
        ("price", 0.5),
        ("tags", "a"),
        ("tags", [1]),
        ("home", {"town": "x"}),
        ("home", {"since": 3}),
        ("home", []),
        ("seen", {1: dt.datetime(2026, 1, 1)}),
        ("seen", {"x": 1}),
        ("nobody", 1),
    ],
)
def test_what_a_column_cant_hold_is_refused_with_its_place(field, value):
    with pytest.raises(firn.InvalidInputError, match=rf"t\['id'\]: .*{field}"):
        typed.encode("id", {field: value})


@given(st.decimals(-999, 999, places=2))
def test_decimals_come_back(price):
    assert typed.decode(typed.encode("a", {"price": price}))["price"] == price


@given(st.dictionaries(st.sampled_from(["when", "at"]), st.datetimes()))
def test_times_come_back(document):
    found = typed.decode(typed.encode("a", document))
    assert all(found[name].replace(tzinfo=None) == document[name] for name in document)


@pytest.mark.parametrize(
    "kind",
    ["INTERVAL", "TIME", "TIMESTAMP_NS", "HUGEINT", "MAP(INTEGER, VARCHAR)", "INTEGER[3]", "ENUM('a')"],
)
def test_columns_that_no_document_holds_are_refused(kind):
    with pytest.raises(firn.InvalidInputError, match=r"column 'x'.*can't hold"):
        Documents("t", columns={"x": kind}).check()


def test_the_id_is_no_column():
    with pytest.raises(firn.InvalidInputError, match="_id"):
        Documents("t", columns={"_id": "VARCHAR"}).check()


@pytest.mark.parametrize(
    "document", [{"day": "31.1.2026"}, {"day": 3}, {"price": "x"}, {"tags": 3}, {"raw": "!"}]
)
def test_json_that_isnt_a_columns_is_refused(document):
    with pytest.raises(firn.InvalidInputError, match="by t's schema"):
        typed.from_json(document)


SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0},
        "pattern": {"type": "string", "pattern": "^a+$"},
        "home": {"$ref": "#/$defs/place"},
    },
    "required": ["age"],
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_documents_follow_a_json_schema():
    people = Documents("people", schema=SCHEMA)
    people.check()
    document = {"age": 36, "pattern": "aa", "home": {"city": "London"}, "more": 1}
    assert people.decode(people.encode("ada", document)) == document


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "'age' is a required property at"),
        ({"age": -1}, r"-1 is less than the minimum of 0 at \$\.age"),
        ({"age": 1, "pattern": "b"}, r"at \$\.pattern"),
        ({"age": 1, "home": {"city": 3}}, r"at \$\.home\.city"),
        ({"age": float("nan")}, "no such number"),
    ],
)
def test_what_a_json_schema_refuses(document, says):
    with pytest.raises(firn.InvalidInputError, match=rf"people\['ada'\]: .*{says}"):
        Documents("people", schema=SCHEMA).encode("ada", document)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "nothing"}, "not a JSON schema"),
        ({"properties": 3}, "not a JSON schema"),
        ({"$schema": "http://example.com/mine"}, "dialect"),
        ({"$ref": "http://localhost:1/x.json"}, "nothing is fetched"),
        ({"items": [{"$ref": "file:///etc/passwd"}]}, "nothing is fetched"),
        ({"properties": {"a": {"pattern": "("}}}, "pattern"),
        ({"patternProperties": {"(": {}}}, "pattern"),
        ({"const": {1, 2}}, "JSON can't hold"),
    ],
)
def test_schemas_that_cant_be_are_refused(schema, says):
    with pytest.raises(firn.InvalidInputError, match=says):
        Documents("t", schema=schema).check()


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/none"}, {"$ref": "#"}])
def test_references_that_lead_nowhere_are_errors_of_their_own(schema):
    with pytest.raises(firn.InvalidInputError, match="refers to"):
        Documents("t", schema=schema).encode("a", {"x": 1})


def test_the_dialect_is_the_schemas_own():
    draft4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"maximum": 3, "exclusiveMaximum": True}},
    }
    with pytest.raises(firn.InvalidInputError, match="3"):
        Documents("t", schema=draft4).encode("a", {"n": 3})


def test_what_an_index_holds():
    document = {"n": 1, "home": {"city": "x"}, "tags": []}
    assert plain.index_values("a", document, "home.city", each=False) == ("x",)
    assert plain.index_values("a", document, "nobody", each=False) == (None,)
    for field in ("home", "tags"):
        with pytest.raises(firn.InvalidInputError, match=rf"t\['a'\] has .* at {field}, which is indexed"):
            plain.index_values("a", document, field, each=False)


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ([], []),
        (None, []),
        (["b", "a", "b"], ["b", "a"]),
        ([1, 1.0, True, "1", None, None], [1.0, True, "1", None]),
        (["e\u0301", "\u00e9"], ["\u00e9"]),
        (list(range(100)) * 2, list(range(100))),
    ],
)
def test_what_an_index_of_elements_holds(value, values):
    found = plain.index_values("a", {"home": {"tags": value}}, "home.tags", each=True)
    assert [(type(v), v) for v in found] == [(type(v), v) for v in values]


@pytest.mark.parametrize("value", ["x", 1, {}, [[]], ["x", {}], list(range(101))])
def test_what_an_index_of_elements_refuses(value):
    with pytest.raises(firn.InvalidInputError, match=r"t\['a'\] has .* at tags"):
        plain.index_values("a", {"tags": value}, "tags", each=True)


@pytest.mark.parametrize("field", ["", 3, None, "_id", "\ud800"])
def test_fields_that_cant_be_indexed(field):
    with pytest.raises(firn.InvalidInputError):
        plain.check_field(field)


def test_fields_of_columns_that_can_be_indexed():
    typed.check_field("day")
    typed.check_field("home.city")
    for field, says in (
        ("tags", "can't be indexed"),
        ("home", "can't be indexed"),
        ("nobody", "no column"),
        ("no.body", "no column"),
    ):
        with pytest.raises(firn.InvalidInputError, match=says):
            typed.check_field(field)


def test_columns_whose_elements_can_be_indexed():
    lists = Documents("t", columns={"tags": "VARCHAR[]", "deep": "INTEGER[][]", "name": "VARCHAR"})
    lists.check_field("tags", each=True)
    plain.check_field("tags", each=True)
    for field in ("deep", "name"):
        with pytest.raises(firn.InvalidInputError, match=f"{field} is .*each=True is for lists"):
            lists.check_field(field, each=True)
    with pytest.raises(firn.InvalidInputError, match="no column"):
        lists.check_field("nobody", each=True)
    with pytest.raises(firn.InvalidInputError, match="index its elements with each=True"):
        lists.check_field("tags")
    with pytest.raises(firn.InvalidInputError, match="a field within may be"):
        lists.check_field("deep")


def test_predicates_take_the_columns_kind():
    assert typed.predicate("price", Range(1, 2)) == Range(Decimal(1), Decimal(2))
    assert typed.predicate("ratio", 3) == Equal(3)
    assert typed.predicate("name", Prefix("a")) == Prefix("a")
    assert typed.predicate("when", dt.datetime(2026, 1, 1)) == Equal(dt.datetime(2026, 1, 1, tzinfo=UTC))
    assert typed.predicate("small", 1000).matches(1000)
    assert typed.predicate("raw", None) == Equal(None)
    assert typed.predicate("raw", bytearray(b"x").__class__ and b"x") == Equal(b"x")
    for field, asked in (
        ("day", "2026-01-01"),
        ("small", "1"),
        ("price", Prefix("1")),
        ("name", 3),
        ("at", Range(1)),
    ):
        with pytest.raises(firn.InvalidInputError, match=field):
            typed.predicate(field, asked)
    assert plain.predicate("anything", 3) == Equal(3)


def test_what_is_asked_of_elements_takes_their_kind():
    lists = Documents("t", columns={"days": "DATE[]", "prices": "DECIMAL(5,2)[]", "name": "VARCHAR"})
    day = dt.date(2026, 1, 31)
    assert lists.predicate("days", Contains(day)) == Contains(Equal(day))
    assert lists.predicate("prices", Contains(Range(1, 2))).predicate == Range(Decimal(1), Decimal(2))
    assert plain.predicate("anything", Contains("x")) == Contains("x")
    for field, asked in (("days", "2026-01-31"), ("prices", Prefix("1")), ("name", "x")):
        with pytest.raises(firn.InvalidInputError, match=field):
            lists.predicate(field, Contains(asked))


def test_a_record_is_a_mapping_of_its_document_and_id():
    row = Record("ada", {"city": "London"}, "7.x")
    assert row["_id"] == row.id == "ada" and row["city"] == "London" and row.etag == "7.x"
    assert dict(row) == {"_id": "ada", "city": "London"} == row
    assert len(row) == 2 and "city" in row and row.get("x") is None
    assert row.document == {"city": "London"}
    assert "London" in repr(row) and "7.x" in repr(row)
    with pytest.raises(KeyError):
        row["nobody"]
    with pytest.raises(TypeError):
        row["city"] = 3  # type: ignore[index]


def test_a_record_crosses_processes():
    for again in (
        pickle.loads(pickle.dumps(Record("a", {"n": 1}, "7.x"))),
        copy.deepcopy(Record("a", {"n": 1}, "7.x")),
    ):
        assert again == {"_id": "a", "n": 1} and again.etag == "7.x"


def test_conditions_are_on_columns_that_there_are():
    documents = Documents("t", columns={"n": "BIGINT", "at": 'STRUCT("lat" DOUBLE)'})
    documents.predicate("n", 1)
    documents.predicate("at.lat", 1.0)
    for field in ("m", "lat", "m.n", 1):
        with pytest.raises(firn.InvalidInputError, match="t has no column"):
            documents.predicate(field, 1)
    assert documents.predicate("_id", "a").matches("a") and not documents.predicate("_id", "a").matches("aa")
    for asked in (1, None, firn.Range(1, 2)):
        with pytest.raises(firn.InvalidInputError, match="_id="):
            documents.predicate("_id", asked)
    Documents("t").predicate("m", 1)
