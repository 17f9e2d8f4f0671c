"""The keyed tables of a database: made, opened, erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from firn.arrow.inputs import declared_columns
from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.kinds.definitions import change_definition, is_left, is_same, mark_dropped, read_any
from firn.database.kinds.kind import Place, StoredDefinition, TableKind, Vacant
from firn.errors import CorruptObjectError, InvalidInputError, TableExistsError, TableNotFoundError
from firn.journal.definition import definition_key
from firn.journal.generations import Generations
from firn.journal.manifest.pointer_store import has_pointer
from firn.keeping import Turns
from firn.keyed.definition.definition import KeyedDefinition, create_definition
from firn.keyed.encoding.entries import expiry
from firn.keyed.encoding.seqs import WIDE_SEQ
from firn.keyed.founding import found
from firn.keyed.maintain.clones import clones_of, release
from firn.keyed.table import KeyedTable
from firn.lake.results import DropReport
from firn.runner import Engines
from firn.units import parse_duration_ms

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KeyedOptions:
    """What `Database.create_table` was told of a keyed table."""

    schema: pa.Schema | Mapping[str, str] | None = None
    key: Sequence[str] | Mapping[str, str] | None = None
    merge_operator: str | Mapping[str, str] | None = None
    ttl: float | str | timedelta | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyedTables(TableKind[KeyedOptions, KeyedDefinition, KeyedTable]):
    """Makes keyed tables of definitions."""

    name = "keyed"
    title = "keyed"
    advice = "Use `firn keyed`, or db.sql to query it."
    options = KeyedOptions
    decode = KeyedDefinition.decode

    bucket: Bucket
    prefix: str
    store_options: Mapping[str, Any]
    engines: Engines
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def at(cls, place: Place) -> KeyedTables:
        return cls(place.bucket, place.prefix, place.options, place.engines)

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
            merge_operator=asked.merge_operator,
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
        """Make a table. 2 PUTs: the definition, which claims the name, then the pointer; 1 GET for the generation;
        where no definition was there, 1 LIST.

        Raises:
            TableExistsError: there is one; or another table has the pointer of the property `pointer_url`.
            CorruptObjectError: there was one, which has lost its definition.
        """
        prefix = key_below(self.prefix, definition.name)
        if (
            vacant.there is None
            and has_pointer(self.bucket, prefix)
            and read_any(self.bucket, prefix) is None
        ):
            raise CorruptObjectError(
                f"{self.bucket.uri(definition_key(prefix))} is missing, and files of a keyed table are there. Copy "
                "it back from a backup, or choose another name."
            )
        definition = replace(definition, generation=vacant.generation(self.generations))
        table = self.open(create_definition(self.bucket, prefix, definition, over=vacant.over))
        try:
            found(table)
        except TableExistsError:
            with suppress(TableNotFoundError):  # it is another table's
                table.journal.pointer()
                return table  # whose reader was faster
            change_definition(self.bucket, prefix, partial(_given_up, table.definition), self.clock)
            raise
        return table

    def open(self, definition: KeyedDefinition) -> KeyedTable:
        """No requests."""
        prefix = key_below(self.prefix, definition.name)
        return KeyedTable(
            self.bucket, prefix, definition, self.engines, options=self.store_options, clock=self.clock
        )

    def keeper(self, table: KeyedTable, *, named: bool) -> Turns:
        from firn.keyed.maintain.keep import KeyedKeeper

        return Turns(table.name, KeyedKeeper(table))

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
        what it led to. The definition stays, for the next table of the name to replace: nobody who is late here
        deletes anything of that one, whose directories are others, as its pointer's place is."""
        table, key = self.open(definition), definition_key(key_below(self.prefix, definition.name))
        own = {i.key: i.size for i in self.bucket.list(f"{table.prefix}/").objects if i.key != key}
        if not dry_run and (own or table.settings.pointer_url):
            if not is_left(self.bucket, self.prefix, definition):
                return DropReport((), 0)
            table.journal.drop()
            flushed = {i.key: i.size for i in self.bucket.list(f"{table.prefix}/").objects if i.key != key}
            if is_left(self.bucket, self.prefix, definition):
                self.bucket.delete_many(list(flushed))
                own.update(flushed)
            release(table)
        return DropReport(tuple(sorted(own)), sum(own.values()), dry_run=dry_run)

    def lost(self, name: str) -> CorruptObjectError | None:
        """1 GET."""
        prefix = key_below(self.prefix, name)
        if not has_pointer(self.bucket, prefix):
            return None
        return CorruptObjectError(
            f"{self.bucket.uri(definition_key(prefix))} is missing, and files of a keyed table are there. Copy it "
            "back from a backup; until then nobody can open the table."
        )

    @property
    def generations(self) -> Generations:
        return Generations(self.bucket, self.prefix)


def _given_up(made: KeyedDefinition, now: StoredDefinition | None) -> StoredDefinition | None:
    """The definition of a table that got no pointer, as that of a dropped one, whose drop leaves another's alone."""
    if not is_same(now, made):
        return None
    properties = {name: value for name, value in made.properties.items() if name != "pointer_url"}
    return replace(made, properties=properties, dropped=True)


PART = KeyedTables
