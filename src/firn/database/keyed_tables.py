"""The keyed tables of a database: made, opened, erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from firn.arrow.inputs import declared_columns
from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.engines import DatabaseEngines
from firn.database.kinds import read_any
from firn.database.tombstones import Vacant, is_same, mark_dropped
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
)
from firn.journal.definition import definition_key
from firn.journal.generations import Generations
from firn.keyed.definition.definition import KeyedDefinition, create_definition
from firn.keyed.encoding.entries import expiry
from firn.keyed.encoding.seqs import WIDE_SEQ
from firn.keyed.maintain.clones import clones_of, release
from firn.keyed.table import KeyedTable
from firn.lake.results import DropReport
from firn.units import parse_duration_ms

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KeyedOptions:
    """What `Database.create_table` was told of a keyed table."""

    schema: pa.Schema | Mapping[str, str] | None = None
    key: Sequence[str] | Mapping[str, str] | None = None
    merge: str | Mapping[str, str] | None = None
    ttl: float | str | timedelta | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyedTables:
    """Makes keyed tables of definitions."""

    bucket: Bucket
    prefix: str
    options: Mapping[str, Any]
    engines: DatabaseEngines
    clock: Clock = field(default_factory=SystemClock)

    def describe(self, name: str, asked: KeyedOptions) -> KeyedDefinition:
        """The definition that the options ask for. `InvalidInputError` for what can't be; no requests."""
        key = asked.key or None
        if key is not None and not isinstance(key, Mapping):
            raise InvalidInputError(
                f"key={asked.key!r}: of a keyed table, give names and types, like {{'state': 'VARCHAR'}}; keys are "
                "bytes without."
            )
        definition = KeyedDefinition(
            name,
            columns=None if asked.schema is None else declared_columns(asked.schema),
            key=None if key is None else declared_columns(key),
            merge=asked.merge,
            ttl_ms=None if asked.ttl is None else parse_duration_ms(asked.ttl),
            properties=dict(asked.properties),
            first_epoch=self.clock.now_ms(),
            features=(WIDE_SEQ,),
        )
        definition = replace(definition, features=(*definition.features, *definition.keys.features))
        definition.check()
        expiry(definition.first_epoch, definition.ttl_ms or 0)
        return definition

    def create(self, definition: KeyedDefinition, vacant: Vacant) -> KeyedTable:
        """Make a table. 2 PUTs: the definition, which claims the name, then the pointer; over the definition of a
        table with a generation 1 GET and 1 PUT more."""
        vacant.remember(self.generations)
        prefix = key_below(self.prefix, definition.name)
        made = create_definition(self.bucket, prefix, definition, over=vacant.over)
        table = self.open(made)
        try:
            table.found()
        except TableExistsError:
            with suppress(TableNotFoundError):  # it is another table's
                table.journal.pointer()
                return table  # whose reader was faster
            key = definition_key(table.prefix)
            self.bucket.delete(key)  # else readers would take it for a later table's
            raise CorruptObjectError(
                f"{self.bucket.uri(key)} is missing, and files of a keyed table are there. Copy it back from a "
                "backup, or choose another name."
            ) from None
        return table

    def open(self, definition: KeyedDefinition) -> KeyedTable:
        """No requests."""
        prefix = key_below(self.prefix, definition.name)
        return KeyedTable(
            self.bucket, prefix, definition, self.engines, options=self.options, clock=self.clock
        )

    def drop(self, definition: KeyedDefinition, *, dry_run: bool = False) -> DropReport:
        """See `Database.drop_table`."""
        if not definition.dropped and (held := clones_of(self.open(definition))):
            raise InvalidInputError(
                f"{definition.name} can't be dropped: its clones read its objects: {', '.join(held)}. Drop these "
                "first, or compact them with full=True and sweep them."
            )
        if not dry_run:
            mark_dropped(self.bucket, self.prefix, definition, self.clock)
        return self.erase(definition, dry_run=dry_run)

    def erase(self, definition: KeyedDefinition, *, dry_run: bool = False) -> DropReport:
        """Delete a dropped table's objects: the pointer first, without which no writer acknowledges anything, then
        what it led to, the definition last. Nothing, where another process has ended the drop.

        The count of the name's generations is raised, as ever: so the next table of another kind has directories
        that neither this nor a writer of the dropped table looks into."""
        prefix = key_below(self.prefix, definition.name)
        key = definition_key(prefix)
        if not dry_run:
            if not is_same(read_any(self.bucket, prefix), definition):
                return DropReport((), 0)
            self.generations.raise_to(definition.name, self.generations.of(definition.name) + 1)
        own = {i.key: i.size for i in self.bucket.list(f"{prefix}/").objects}
        if not dry_run:
            self.open(definition).journal.drop()
            own.update((i.key, i.size) for i in self.bucket.list(f"{prefix}/").objects)  # flushed meanwhile
            self.bucket.delete_many([name for name in own if name != key])
            release(self.open(definition))
            self.bucket.delete(key)
        return DropReport(tuple(sorted(own)), sum(own.values()), dry_run=dry_run)

    @property
    def generations(self) -> Generations:
        return Generations(self.bucket, self.prefix, self.clock)
