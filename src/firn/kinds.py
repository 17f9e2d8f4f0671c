"""Kinds of tables: which one a definition in the bucket is of, and the error where none can tell."""

from __future__ import annotations

from typing import Literal

import orjson

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.definition import definition_key
from firn.keyed.definition import FORMAT_VERSION as KEYED_TABLES
from firn.keyed.definition import KeyedDefinition
from firn.lake.descriptor import Descriptor

Kind = Literal["lake", "keyed"]

LAKE: Literal["lake"] = "lake"
KEYED: Literal["keyed"] = "keyed"
KINDS = (LAKE, KEYED)

Definition = Descriptor | KeyedDefinition


def decode_definition(data: bytes, where: str) -> Definition:
    """The definition in `_firn/table.json`, whatever kind of table it is of.

    Raises:
        CorruptObjectError: it can't be read.
        UnsupportedError: a later version of Firn wrote it.
    """
    try:
        raw = orjson.loads(data)
        keyed = raw["kind"] == KEYED or raw["firn"] == KEYED_TABLES
    except (orjson.JSONDecodeError, KeyError, TypeError):
        keyed = False  # the lake's decoder says what is wrong with it
    if keyed:
        return KeyedDefinition.decode(data, where)
    descriptor = Descriptor.decode(data, where)
    if descriptor.kind != LAKE:
        raise UnsupportedError(
            f"{where} is of a table of kind {descriptor.kind!r}, which this version of Firn doesn't know. Upgrade "
            "Firn to open the table."
        )
    return descriptor


def read_any(bucket: Bucket, prefix: str) -> Definition | None:
    """1 GET; None where there is none."""
    blob = bucket.get_many([definition_key(prefix)])[0]
    return None if blob is None else decode_definition(blob.data, bucket.uri(blob.info.key))


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, KINDS))}.")


def wrong_kind(name: str, has: str, asked: str) -> InvalidInputError:
    """For a verb that only the other kind of table has."""
    hint = "Use `firn keyed`, or db.sql to query it." if has == KEYED else "Use the verbs of lake tables."
    return InvalidInputError(f"{name} is a {has} table, and this needs a {asked} table. {hint}")
