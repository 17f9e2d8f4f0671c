"""The remains of a dropped table: its definition in the state `dropped`, which the next table of the name replaces.

It is never deleted, so nobody who is late in a drop deletes the next table's; and it counts the tables of its name.
If a lake table is shared with the reference, it says in the end that all is erased: the reference, which knows
no definition, may have filled the same paths anew.
"""

from __future__ import annotations

from dataclasses import replace

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.kinds.definitions import change_definition, read_any
from firn.database.kinds.kind import StoredDefinition
from firn.errors import TableNotFoundError


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
