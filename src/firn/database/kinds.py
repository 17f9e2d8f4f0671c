"""Kinds of tables: which one a definition in the bucket is of, and the error where none can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import orjson

from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.errors import InvalidInputError, ObjectNotFoundError, UnsupportedError
from firn.journal.backoff import whole
from firn.journal.definition import definition_key, replace_object
from firn.keyed.definition.definition import FORMAT_VERSION as KEYED_TABLES
from firn.keyed.definition.definition import KeyedDefinition
from firn.lake.definition.definition import Descriptor
from firn.records.definition.definition import FORMAT_VERSION as RECORD_TABLES
from firn.records.definition.definition import RecordDefinition

Kind = Literal["lake", "keyed", "records"]

LAKE: Literal["lake"] = "lake"
KEYED: Literal["keyed"] = "keyed"
RECORDS: Literal["records"] = "records"
KINDS = (LAKE, KEYED, RECORDS)

Definition = Descriptor | KeyedDefinition | RecordDefinition

_KINDS_OF: Mapping[str, tuple[Kind, ...]] = {
    "partition_by": (LAKE,),
    "sort_by": (LAKE,),
    "version_by": (LAKE,),
    "journal": (LAKE,),
    "key": (LAKE, KEYED),
    "merge": (KEYED,),
    "ttl": (KEYED,),
    "indices": (RECORDS,),
    "isolation": (RECORDS,),
}


def decode_definition(data: bytes, where: str) -> Definition:
    """The definition in `_firn/table.json`, whatever kind of table it is of.

    Raises:
        CorruptObjectError: it can't be read.
        UnsupportedError: a later version of Firn wrote it.
    """
    try:
        raw = orjson.loads(data)
        kind, version = raw["kind"], raw["firn"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        kind = version = None  # the lake's decoder says what is wrong with it
    if kind == KEYED or version == KEYED_TABLES:
        return KeyedDefinition.decode(data, where)
    if kind == RECORDS or version == RECORD_TABLES:
        return RecordDefinition.decode(data, where)
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


def read_current(
    bucket: Bucket, prefix: str, *, clock: Clock | None = None
) -> tuple[Definition | None, str | None]:
    """The definition and its ETag, by which it can be replaced. 1 GET, again if half of it came."""
    key = definition_key(prefix)
    try:
        blob = whole(bucket, bucket.get(key), clock or SystemClock())
    except ObjectNotFoundError:
        return None, None
    return decode_definition(blob.data, bucket.uri(key)), blob.info.etag


def change_definition(
    bucket: Bucket, prefix: str, change: Callable[[Definition | None], Definition | None], clock: Clock
) -> Definition | None:
    """Replace the definition by what `change` makes of it as it is now. 1 GET and 1 PUT, again after a race.

    Returns:
        What stands there; None if `change` said so, and nothing was changed.

    Raises:
        ConflictError: others change it all the time.
    """

    def replaced(data: bytes | None, where: str) -> tuple[bytes | None, Definition | None]:
        now = None if data is None else decode_definition(data, where)
        wanted = change(now)
        return None if wanted is None or wanted == now else wanted.encode(), wanted

    return replace_object(bucket, prefix, replaced, clock=clock)


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, KINDS))}.")


def check_options(kind: Kind, given: Mapping[str, Any]) -> None:
    """Refuse options of other kinds of tables."""
    foreign = [option for option in given if kind not in _KINDS_OF[option]]
    if foreign:
        kinds = " and ".join(repr(k) for k in _KINDS_OF[foreign[0]])
        raise InvalidInputError(f"{foreign[0]} is for tables of kind {kinds}; this one is to be {kind!r}.")


def wrong_kind(name: str, has: str, asked: str) -> InvalidInputError:
    """For a verb that only another kind of table has."""
    hint = {
        LAKE: "Use the verbs of lake tables.",
        KEYED: "Use `firn keyed`, or db.sql to query it.",
        RECORDS: "Use `firn records`, or db.begin to change it.",
    }[has]
    named: Mapping[str, str] = {RECORDS: "record"}
    return InvalidInputError(
        f"{name} is a {named.get(has, has)} table, and this needs a {named.get(asked, asked)} table. {hint}"
    )
