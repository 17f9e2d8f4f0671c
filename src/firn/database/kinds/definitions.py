"""The definition of a table of any kind, in the bucket: read, decoded, changed, and left by a table that is dropped.

A dropped table's definition is never deleted, so nobody who is late in a drop deletes the next table's: that replaces
it, and it counts the tables of its name. If a lake table is shared with the reference, it says in the end that all is
erased: the reference, which knows no definition, may have filled the same paths anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import orjson

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.kinds.kind import StoredDefinition, kind_named
from firn.errors import TableNotFoundError
from firn.journal.backoff import find_whole
from firn.journal.definition import definition_key, replace_object
from firn.kinds import FORMAT_VERSIONS, Kind

EARLIEST: Kind = "lake"
"""The kind of what nothing tells apart: its decoder says what is wrong with it."""


def decode_definition(data: bytes, where: str) -> StoredDefinition:
    """The definition in `_firn/table.json`, whatever kind of table it is of.

    Raises:
        CorruptObjectError: it can't be read.
        UnsupportedError: a later version of Firn wrote it.
    """
    try:
        raw = orjson.loads(data)
        name, version = raw["kind"], raw["firn"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        name = version = None
    told = (kind for kind, number in FORMAT_VERSIONS.items() if name == kind or version == number)
    kind = next(told, EARLIEST)
    return cast("StoredDefinition", kind_named(kind).decode(data, where))


def read_any(bucket: Bucket, prefix: str) -> StoredDefinition | None:
    """1 GET; None where there is none."""
    blob = bucket.get_many([definition_key(prefix)])[0]
    return None if blob is None else decode_definition(blob.data, bucket.uri(blob.info.key))


def read_current(
    bucket: Bucket, prefix: str, *, clock: Clock | None = None
) -> tuple[StoredDefinition | None, str | None]:
    """The definition and its ETag, by which it can be replaced. 1 GET, again if half of it came."""
    key = definition_key(prefix)
    blob = find_whole(bucket, key, clock or SystemClock())
    if blob is None:
        return None, None
    return decode_definition(blob.data, bucket.uri(key)), blob.info.etag


def change_definition(
    bucket: Bucket,
    prefix: str,
    change: Callable[[StoredDefinition | None], StoredDefinition | None],
    clock: Clock,
) -> StoredDefinition | None:
    """Replace the definition by what `change` makes of it as it is now. 1 GET and 1 PUT, again after a race.

    Returns:
        The definition that stands there; None if `change` said so, and nothing was changed.

    Raises:
        ConflictError: others change it all the time.
    """

    def replaced(data: bytes | None, where: str) -> tuple[bytes | None, StoredDefinition | None]:
        now = None if data is None else decode_definition(data, where)
        wanted = change(now)
        return None if wanted is None or wanted == now else wanted.encode(), wanted

    return replace_object(bucket, prefix, replaced, clock=clock)


def is_same(there: StoredDefinition | None, definition: StoredDefinition) -> bool:
    """Whether a definition that was read is this very table's, whatever has changed of it since."""
    return there is not None and (there.kind, there.id, there.generation) == (
        definition.kind,
        definition.id,
        definition.generation,
    )


def is_dropped(there: StoredDefinition | None, definition: StoredDefinition) -> bool:
    """Whether a definition that was read is this very table's, which was dropped and isn't known to be erased."""
    return there is not None and there.dropped and not there.erased and is_same(there, definition)


def is_left(bucket: Bucket, prefix: str, definition: StoredDefinition) -> bool:
    """Whether the name still has this dropped table's definition: then what was listed before is no later table's, as
    that writes nothing before its definition is there. 1 GET."""
    return is_dropped(read_any(bucket, key_below(prefix, definition.name)), definition)


def mark_dropped(
    bucket: Bucket, prefix: str, definition: StoredDefinition, clock: Clock | None = None
) -> None:
    """Put a table's definition into the state in which nobody opens the table; never another table's. 1 GET, 1 PUT.

    A table without a definition (which has no id) gets one to be dropped by.

    Raises:
        TableNotFoundError: somebody else has dropped the table.
    """
    if definition.dropped:
        return

    def drop(now: StoredDefinition | None) -> StoredDefinition | None:
        if is_same(now, definition) or (now is None and not definition.id):
            return replace(now or definition, dropped=True)
        return None

    table = key_below(prefix, definition.name)
    if change_definition(bucket, table, drop, clock or SystemClock()) is None:
        raise TableNotFoundError(f"{bucket.uri(table)} was dropped by somebody else.")
