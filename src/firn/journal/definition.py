"""`<table>/_firn/table.json`: the object that says that there is a table, and what it was created with.

The process that creates it has the table's name, whatever kind of table it is. Its content depends on the kind.
Keyed and record tables share one frame, of version, features and checksum; lake tables have an older one of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import google_crc32c
import orjson

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.clock import Clock, SystemClock
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.backoff import Backoff, find_whole, whole

T = TypeVar("T")


def definition_key(prefix: str) -> str:
    """The object's key, of the table whose keys begin with `prefix`."""
    return f"{prefix}/_firn/table.json"


def read_object(
    bucket: Bucket, prefix: str, decode: Callable[[bytes, str], T], *, clock: Clock | None = None
) -> T | None:
    """What `decode` makes of its bytes and its name for messages; None where there is none. 1 GET, again if half
    of it came."""
    key = definition_key(prefix)
    blob = find_whole(bucket, key, clock or SystemClock())
    return None if blob is None else decode(blob.data, bucket.uri(key))


class Left(NamedTuple):
    """The definition that a dropped table left, of whatever kind."""

    generation: int
    etag: str


def read_left(bucket: Bucket, prefix: str, *, clock: Clock | None = None) -> Left | None:
    """The definition that a dropped table left, if nothing else of the table is there any more. 1 GET, 1 LIST."""
    key = definition_key(prefix)
    try:
        blob = whole(bucket, bucket.get(key), clock or SystemClock())
        fields = orjson.loads(blob.data)
        if not fields["dropped"] or [info.key for info in bucket.list(f"{prefix}/").objects] != [key]:
            return None
        return Left(int(fields.get("generation", 0)), blob.info.etag)
    except (ObjectNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def create_object(
    bucket: Bucket, prefix: str, name: str, data: bytes, *, nonce: str, over: str | None = None
) -> None:
    """Write it where none is: 1 conditional PUT, or GET + PUT where the store has none.

    Args:
        nonce: a text that stands in `data` and in no other table's definition.
        over: the ETag of the definition that it replaces: that of a table which was dropped, and keeps its own.

    Raises:
        TableExistsError: there is a table.
    """
    key = definition_key(prefix)
    try:
        if not bucket.capabilities.conditional_put:
            there = bucket.get_many([key])[0]
            if (None if there is None else there.info.etag) != over:
                raise ObjectExistsError(key)
            bucket.put(key, data)
        elif over is not None:
            swap(bucket, key, data, over, nonce=nonce)
        else:
            create(bucket, key, data, nonce=nonce)
    except (ObjectExistsError, ObjectChangedError):
        raise TableExistsError(
            f"{bucket.uri(prefix)} is a table already. Open it with db.table({name!r}), or choose another name."
        ) from None


def replace_object(
    bucket: Bucket,
    prefix: str,
    change: Callable[[bytes | None, str], tuple[bytes | None, T]],
    *,
    clock: Clock,
) -> T:
    """Replace it by what `change` makes of it as it is now. 1 GET and 1 PUT, again if others were faster.

    Args:
        change: makes of its bytes, None where there is none, and its name for messages the new bytes, and what to
            return then. None leaves it as it is. Where the store has no conditional puts, nobody else may change it
            meanwhile.

    Raises:
        ConflictError: others change it all the time.
    """
    key, backoff = definition_key(prefix), Backoff(clock)
    tried: tuple[bytes, T] | None = None
    while True:
        blob = find_whole(bucket, key, clock)
        data = None if blob is None else blob.data
        if tried is not None and data == tried[0]:  # by this very put, whose answer was lost
            return tried[1]
        sent, done = change(data, bucket.uri(key))
        if sent is None:
            return done
        tried = sent, done
        try:
            if not bucket.capabilities.conditional_put:
                bucket.put(key, sent)
            elif blob is None:
                bucket.put_if_absent(key, sent)
            else:
                bucket.put_if_match(key, sent, blob.info.etag)
            return done
        except (ObjectChangedError, ObjectExistsError, OutcomeUnknownError) as error:
            if not backoff.wait():
                raise ConflictError(f"others change {bucket.uri(key)} all the time; retry") from error


def is_definition_of(data: bytes, id: str) -> bool:
    """Whether these are the bytes of a table's definition with that id, which wasn't dropped; unreadable bytes may
    be."""
    try:
        found = orjson.loads(data)
    except ValueError:
        return True
    return not isinstance(found, dict) or (found.get("id") == id and not found.get("dropped"))


def check_generation(bucket: Bucket, prefix: str, generation: int) -> None:
    """See that the name is still this very table's: who has listed or got its objects before has them all, as the
    definition goes first when it is dropped. One that can't be read may be the table's. 1 GET.

    Raises:
        TableNotFoundError: the table was dropped, or its definition is missing.
    """
    found = read_object(bucket, prefix, lambda data, where: data)
    if found is not None and _may_be(found, generation):
        return
    raise TableNotFoundError(
        f"{bucket.uri(prefix)} was dropped since it was planned to read it: its rows are gone. Run the query "
        "again if there is a table of the name by now."
    )


def _may_be(data: bytes, generation: int) -> bool:
    try:
        found = orjson.loads(data)
    except ValueError:
        return True
    return not isinstance(found, dict) or (
        found.get("generation", 0) == generation and not found.get("dropped")
    )


def dropped(bucket: Bucket, prefix: str) -> TableNotFoundError:
    """The error for a handle of a table that is gone."""
    return TableNotFoundError(f"{bucket.uri(prefix)} was dropped; open the table again")


def encode_framed(version: int, kind: str, fields: Mapping[str, Any], features: Iterable[str] = ()) -> bytes:
    """A definition's bytes: JSON to be read by people, too, with a checksum. `features`: what readers must know."""
    body = {"firn": version, "features": sorted(features), "kind": kind, **fields}
    return orjson.dumps({**body, "crc": _crc(body)}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)


def decode_framed(
    data: bytes,
    where: str,
    read: Callable[[Mapping[str, Any]], T],
    *,
    version: int,
    noun: str,
    remedy: str,
    known: Collection[str] = (),
) -> T:
    """What `read` makes of a definition's fields.

    Args:
        where: the object's full name, for messages.
        noun: what it defines: "keyed table".
        remedy: what is untouched where it is damaged, and what to do.
        known: the features that this Firn knows.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
        UnsupportedError: it has another version, or a feature, which this Firn doesn't know.
    """

    def damaged(why: str) -> CorruptObjectError:
        return CorruptObjectError(f"{where} is not a {noun}'s definition ({why}). {remedy}")

    try:
        raw = orjson.loads(data)
        found, features = raw["firn"], sorted(set(raw.get("features", ())) - set(known))
        if found == version and raw.pop("crc") != _crc(raw):
            raise damaged("its checksum is wrong")
        if found != version or features:
            what = f"needs {', '.join(map(str, features))}" if features else f"has format version {found!r}"
            raise UnsupportedError(
                f"{where} {what}; this version of Firn reads {noun}s of format {version} without these features. "
                "Upgrade Firn to open the table."
            )
        return read(raw)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(repr(error)) from error


def _crc(body: Mapping[str, Any]) -> str:
    """CRC-32C of the rest, as compact JSON with sorted keys."""
    return f"{google_crc32c.value(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)):08x}"
