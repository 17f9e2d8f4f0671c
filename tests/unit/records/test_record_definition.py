"""Definitions of record tables: what they keep, what they refuse, and that one creator gets a name."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

import firn
from firn.records.definition.definition import (
    Index,
    RecordDefinition,
    create_definition,
    indices_of,
    read_definition,
    schema_of,
)
from firn.testing import SimStore

FULL = RecordDefinition(
    "people",
    db="prod",
    indices=(Index("city"), Index("email", unique=True)),
    columns={"email": "VARCHAR", "city": "VARCHAR", "born": "DATE"},
    properties={"inline": "1KB"},
    id="1f",
    state="ready",
)


@pytest.mark.parametrize(
    "definition",
    [
        FULL,
        RecordDefinition("t", indices=(Index("city"), Index("tags", unique=True, each=True))),
        RecordDefinition("t"),
        RecordDefinition("t", schema={"type": "object"}),
        RecordDefinition("t", isolation="row", dropped=True),
    ],
)
def test_definitions_come_back(definition):
    definition.check()
    assert RecordDefinition.decode(definition.encode(), "t") == definition
    again = pickle.loads(pickle.dumps(definition))
    assert again == definition and again.documents == definition.documents


def test_the_order_of_columns_is_kept():
    assert list(RecordDefinition.decode(FULL.encode(), "t").columns or ()) == ["email", "city", "born"]


def test_settings_are_the_properties():
    assert FULL.settings.inline == 1024
    assert RecordDefinition("t").settings.inline == 256 << 10


def test_the_layout_has_the_name_that_the_database_had():
    assert (
        FULL.layout("elsewhere/people")
        .entry("city", "x", "ada", 1)
        .endswith("/prod___people___ada___00000000000000000001")
    )


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        (RecordDefinition("t", properties={"flush_ms": 3}), "unknown table property 'flush_ms'"),
        (RecordDefinition("t", properties={"inline": "many"}), "size"),
        (RecordDefinition("t", isolation="none"), "isolation"),  # type: ignore[arg-type]
        (RecordDefinition("t", isolation="row", indices=(Index("a"),)), "no indices"),
        (RecordDefinition("t", indices=(Index("a"), Index("a", unique=True))), "two indices"),
        (RecordDefinition("t", indices=(Index("_id"),)), "_id"),
        (RecordDefinition("t", columns={"a": "INTERVAL"}), "column 'a'"),
        (RecordDefinition("t", columns={"a": "DATE"}, indices=(Index("b"),)), "no column 'b'"),
        (RecordDefinition("t", columns={"a": "DATE"}, indices=(Index("a", each=True),)), "no elements"),
        (RecordDefinition("t", schema={"type": 3}), "JSON schema"),
    ],
)
def test_what_cant_be_is_refused(definition, says):
    with pytest.raises(firn.InvalidInputError, match=says):
        definition.check()


@pytest.mark.parametrize("change", [{"name": "others"}, {"crc": "00000000"}, {"indices": []}])
def test_a_changed_definition_is_damaged(change):
    raw = {**json.loads(FULL.encode()), **change}
    with pytest.raises(firn.CorruptObjectError, match="checksum"):
        RecordDefinition.decode(json.dumps(raw).encode(), "s3://b/people")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"firn": 4}', b"\xff", FULL.encode()[:-20]])
def test_what_is_no_definition_is_corrupt(data):
    with pytest.raises(firn.CorruptObjectError, match="s3://b/people"):
        RecordDefinition.decode(data, "s3://b/people")


@pytest.mark.parametrize("change", [{"firn": 5}, {"firn": 1}])
def test_a_later_version_says_so(change):
    with pytest.raises(firn.UnsupportedError, match="Upgrade"):
        RecordDefinition.decode(json.dumps({**json.loads(FULL.encode()), **change}).encode(), "x")


def test_one_of_two_creators_gets_the_name():
    bucket = SimStore().bucket()
    assert read_definition(bucket, "db/people") is None
    made = create_definition(bucket, "db/people", FULL)
    assert made.id and made.id != "1f" and read_definition(bucket, "db/people") == made
    with pytest.raises(firn.TableExistsError, match="people"):
        create_definition(bucket, "db/people", FULL)
    assert read_definition(bucket, "db/people") == made


def test_without_conditional_puts_there_are_no_record_tables():
    with pytest.raises(firn.UnsupportedError, match="conditional puts"):
        create_definition(SimStore(conditional_put=False).bucket(), "db/people", FULL)


@pytest.mark.parametrize("given", ["city", [3], [None], Index("a")])
def test_what_is_no_index_is_refused(given):
    with pytest.raises(firn.InvalidInputError):
        indices_of(given)


def test_a_schema_is_columns_or_a_json_schema():
    assert schema_of(None) == (None, None)
    assert schema_of(pa.schema([("n", pa.int64())])) == ({"n": "BIGINT"}, None)
    assert schema_of({"n": "int"}) == ({"n": "INTEGER"}, None)
    assert schema_of({"$1": "int", "type": "date"}) == ({"$1": "INTEGER", "type": "DATE"}, None)
    for schema in ({"type": "object"}, {"properties": {"type": {}}}, {"$schema": "x"}, {"required": ["a"]}):
        assert schema_of(schema) == (None, schema)
    with pytest.raises(firn.InvalidInputError):
        schema_of(3)  # type: ignore[arg-type]
