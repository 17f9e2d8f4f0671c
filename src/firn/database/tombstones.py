"""What a dropped table leaves: its definition in the state `dropped`, which the next table of the name replaces.

It is never deleted, so nobody who is late in a drop deletes the next table's; and it counts the tables of its name.
Of a lake table that is shared with the reference, it says in the end that all is erased: the reference, which knows
no definition, may have filled the same paths anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.kinds import Definition, change_definition, read_any
from firn.errors import TableNotFoundError
from firn.journal.generations import Generations
from firn.lake.definition.definition import Descriptor


@dataclass(frozen=True)
class Vacant:
    """A name that no table has: the definition that the last one left, and its ETag; None where there is none."""

    name: str
    there: Definition | None = None
    over: str | None = None

    def generation(self, generations: Generations) -> int:
        """The generation of the next table. 1 GET where the definition may not tell."""
        return generations.after(self.name, None if self.there is None else self.there.generation)


def is_same(there: Definition | None, definition: Definition) -> bool:
    """Whether a definition that was read is this very table's, whatever has changed of it since."""
    return there is not None and (there.kind, there.id, there.generation) == (
        definition.kind,
        definition.id,
        definition.generation,
    )


def is_dropped(there: Definition | None, definition: Definition) -> bool:
    """Whether a definition that was read is this very table's, which was dropped and isn't known to be erased."""
    erased = isinstance(there, Descriptor) and there.erased
    return there is not None and there.dropped and not erased and is_same(there, definition)


def is_left(bucket: Bucket, prefix: str, definition: Definition) -> bool:
    """Whether the name still has this dropped table's definition: then what was listed before is no later table's, as
    that writes nothing before its definition is there. 1 GET."""
    return is_dropped(read_any(bucket, key_below(prefix, definition.name)), definition)


def mark_erased(bucket: Bucket, prefix: str, definition: Descriptor) -> None:
    """Say of a dropped table, if it still has the name, that its objects are gone. 1 GET, 1 PUT."""

    def erase(now: Definition | None) -> Definition | None:
        return (
            replace(now, erased=True) if isinstance(now, Descriptor) and is_dropped(now, definition) else None
        )

    change_definition(bucket, key_below(prefix, definition.name), erase, SystemClock())


def mark_dropped(bucket: Bucket, prefix: str, definition: Definition, clock: Clock | None = None) -> None:
    """Put a table's definition into the state in which nobody opens the table; never another table's. 1 GET, 1 PUT.

    A table without a definition (which has no id) gets one to be dropped by.

    Raises:
        TableNotFoundError: somebody else has dropped the table.
    """
    if definition.dropped:
        return

    def drop(now: Definition | None) -> Definition | None:
        if is_same(now, definition) or (now is None and not definition.id):
            return replace(now or definition, dropped=True)
        return None

    table = key_below(prefix, definition.name)
    if change_definition(bucket, table, drop, clock or SystemClock()) is None:
        raise TableNotFoundError(f"{bucket.uri(table)} was dropped by somebody else.")
