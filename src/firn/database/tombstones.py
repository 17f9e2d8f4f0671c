"""What a dropped table leaves: its definition in the state `dropped`, which the next table of the name replaces.

It is never deleted, so nobody who is late in a drop deletes the next table's; and it counts the tables of its name.
Lake tables that are shared with the reference have no generation: they leave no definition, and
`_firn/generations/<table>` counts in their stead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

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
        return generations.after(self.name, self.there.generation if counts(self.there) else None)

    def remember(self, generations: Generations) -> None:
        """Before a definition that has no generation replaces one that has: keep the count. 1 GET and 1 PUT then."""
        if counts(there := self.there):
            generations.raise_to(self.name, there.generation + 1)


def counts(there: Definition | None) -> TypeGuard[Definition]:
    """Whether a definition tells the table's generation, and so stays when the table is dropped."""
    return there is not None and not (isinstance(there, Descriptor) and there.shared)


def is_same(there: Definition | None, definition: Definition) -> bool:
    """Whether a definition that was read is this very table's, whatever has changed of it since."""
    return there is not None and (there.kind, there.id, there.generation) == (
        definition.kind,
        definition.id,
        definition.generation,
    )


def is_left(bucket: Bucket, prefix: str, definition: Definition) -> bool:
    """Whether the name still has this dropped table's definition: then what was listed before is no later table's, as
    that writes nothing before its definition is there. 1 GET."""
    there = read_any(bucket, key_below(prefix, definition.name))
    return there is not None and there.dropped and is_same(there, definition)


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
