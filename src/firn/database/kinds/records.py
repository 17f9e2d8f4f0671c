"""The record tables of a database: made, opened, erased.

Whose definition stands in `_firn/table.json` has the name; the log has the table once it has a commit that creates
the one of that generation. So of several that make a table of one name at once, or crash at it, one wins, and
whoever comes next can end what was begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock, SystemClock
from firn.database.kinds.definitions import change_definition, mark_dropped, read_current
from firn.database.kinds.kind import Place, StoredDefinition, TableKind, Vacant
from firn.errors import CorruptObjectError, TableExistsError, TableNotFoundError
from firn.journal.definition import definition_key
from firn.journal.generations import Generations
from firn.journal.sequence import Ddl, TableState
from firn.journal.writer.federation.federation import default_name
from firn.keeping import Turns
from firn.lake.results import DropReport
from firn.records.definition.definition import (
    Index,
    Isolation,
    RecordDefinition,
    create_definition,
    indices_of,
    schema_of,
)
from firn.records.maintain.ddl import define
from firn.records.names.layout import generation_of
from firn.records.row_tables import RowTable
from firn.records.session import RecordSession
from firn.records.table import RecordTable
from firn.runner import Engines

if TYPE_CHECKING:
    import pyarrow as pa

AnyRecordTable = RecordTable | RowTable

KEPT = "record tables"
"""The name under which a keeper reports all of them."""


@dataclass(frozen=True)
class RecordOptions:
    """What `Database.create_table` was told of a record table."""

    schema: pa.Schema | Mapping[str, Any] | None = None
    indices: Iterable[str | Index] = ()
    isolation: Isolation = "snapshot"
    properties: Mapping[str, Any] = field(default_factory=dict)


class RecordTables(TableKind[RecordOptions, RecordDefinition, AnyRecordTable]):
    """Makes record tables of definitions. Making one costs no request and starts no thread."""

    name = "records"
    title = "record"
    advice = "Use `firn records`, or db.begin to change it."
    options = RecordOptions
    decode = RecordDefinition.decode

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        url: str,
        *,
        clock: Clock | None = None,
        background: bool = True,
        engines: Engines | None = None,
    ) -> None:
        self._engines = engines
        self._bucket, self._prefix, self._url = bucket, prefix, url
        self._clock: Clock = clock or SystemClock()
        self._generations = Generations(bucket, prefix)
        self.session = RecordSession(bucket, prefix, clock=self._clock, background=background, owner=engines)

    @classmethod
    def at(cls, place: Place) -> RecordTables:
        return cls(place.bucket, place.prefix, place.url, engines=place.engines)

    def describe(self, name: str, asked: RecordOptions) -> RecordDefinition:
        """The definition that the options ask for. `InvalidInputError` for what can't be; no requests."""
        columns, schema = schema_of(asked.schema)
        definition = RecordDefinition(
            name,
            db=default_name(self._url),
            indices=indices_of(asked.indices),
            columns=columns,
            schema=schema,
            isolation=asked.isolation,
            properties=dict(asked.properties),
        )
        definition.check()
        return definition

    def vacant(self, name: str) -> Vacant:
        """The name, where at most a record table was that is dropped, or whose creator didn't get to the end.

        Raises:
            TableExistsError: there is one.
        """
        there, etag = read_current(self._bucket, key_below(self._prefix, name), clock=self._clock)
        if isinstance(there, RecordDefinition):
            if self.usable(there) is not None:
                raise self._taken(name)
            if (
                there.dropped
            ):  # else its creator may be alive, and somebody write to it until the name is taken
                self.erase(there)
        elif there is not None and not there.dropped:
            raise self._taken(name)
        return Vacant(name, there, etag)

    def create(self, definition: RecordDefinition, vacant: Vacant | None = None) -> AnyRecordTable:
        """Make a table, where at most one was that is dropped, or whose creator didn't get to the end.

        PUT of the definition, which claims the name; a commit; PUT of the definition, which nobody need look up in
        the log any more.

        Raises:
            TableExistsError: there is one, or somebody else has made one meanwhile.
            UnsupportedError: the store has no conditional puts.
        """
        name = definition.name
        vacant = vacant or self.vacant(name)
        definition = replace(definition, generation=vacant.generation(self._generations))
        definition = create_definition(
            self._bucket, key_below(self._prefix, name), definition, over=vacant.over
        )
        try:
            define(self.session.store, definition.creation())
        except TableExistsError:  # of a later generation
            raise self._taken(name) from None
        ready = self._end(definition)
        if ready is None:
            raise self._taken(name)
        return self.open(ready)

    def open(self, definition: RecordDefinition) -> AnyRecordTable:
        """No requests."""
        prefix = key_below(self._prefix, definition.name)
        if definition.isolation == "row":
            return RowTable(
                self._bucket,
                prefix,
                definition,
                clock=self._clock,
                engines=self._engines,
                threads=self.session.threads,
            )
        self.session.store.knows(definition)
        return RecordTable(self._bucket, prefix, definition, self.session, self._engines)

    def usable(self, definition: RecordDefinition) -> RecordDefinition | None:
        """The definition of a table that is there, None if it is of none. No request, but for one whose creator may
        not have got to the end: as `SequenceLog.refresh`; then the end is made here, 1 GET, 1 PUT."""
        if definition.dropped or definition.state == "ready":
            return None if definition.dropped else definition
        return None if self._state(definition) is None else self._end(definition)

    def is_listed(self, definition: RecordDefinition) -> bool:
        return not definition.dropped and definition.state == "ready"

    def lost(self, name: str) -> CorruptObjectError | None:
        """1 LIST, and as `SequenceLog.refresh` where there is a log, which may have the table."""
        log = self.session.store.log
        if log.store.last(0) == 0 or name not in log.refresh().catalog:
            return None
        key = self._bucket.uri(definition_key(key_below(self._prefix, name)))
        return CorruptObjectError(
            f"{key} is missing, and the log of record tables has the table. Copy it back from a backup; or say what "
            f"it was by create_table({name!r}, kind='records', …), which raises TableExistsError and keeps the rows."
        )

    def keeper(self, table: AnyRecordTable, *, named: bool) -> Turns | None:
        """One for all tables, which share a log. Those with isolation="row" leave nothing behind."""
        from firn.records.maintain.keep import RecordsKeeper

        if isinstance(table, RowTable):
            return None
        return Turns(KEPT, RecordsKeeper(KEPT, self.session.store))

    def drop(self, definition: RecordDefinition, *, dry_run: bool = False) -> DropReport:
        """See `Database.drop_table`."""
        if not dry_run:
            mark_dropped(self._bucket, self._prefix, definition, self._clock)
        return self.erase(definition, dry_run=dry_run)

    def erase(self, definition: RecordDefinition, *, dry_run: bool = False) -> DropReport:
        """End the drop of a table: tell the log, after which nobody commits to it, then delete its objects.

        The definition stays, so that the next table of the name has objects of its own: whoever is asleep here, or
        in an applier of the log, mustn't touch its.
        """
        prefix = key_below(self._prefix, definition.name)
        if not dry_run and self._state(definition) is not None:
            self._undefine(definition)
        own = {
            info.key: info.size
            for above in (f"{prefix}/", f"{prefix}/_firn/")
            for name in self._bucket.list_dirs(above)
            if (generation := generation_of(name)) is not None and generation <= definition.generation
            for info in self._bucket.list(f"{above}{name}/").objects
        }
        if not dry_run:
            self._bucket.delete_many(list(own))
        return DropReport(tuple(sorted(own)), sum(own.values()), dry_run=dry_run)

    # -- how

    def _end(self, definition: RecordDefinition) -> RecordDefinition | None:
        """End a creation. Only then anybody writes to the table, or else who takes the name over could undo it."""

        def end(now: StoredDefinition | None) -> StoredDefinition | None:
            if not isinstance(now, RecordDefinition) or now.id != definition.id or now.dropped:
                return None
            return replace(now, state="ready")

        prefix = key_below(self._prefix, definition.name)
        ended = change_definition(self._bucket, prefix, end, self._clock)
        return ended if isinstance(ended, RecordDefinition) else None

    def _undefine(self, definition: RecordDefinition) -> None:
        try:
            define(self.session.store, Ddl("drop", definition.name, generation=definition.generation))
        except TableNotFoundError:
            return  # somebody else ended the same drop

    def _state(self, definition: RecordDefinition) -> TableState | None:
        """The log's state of that very table."""
        state = self.session.store.log.refresh().catalog.get(definition.name)
        return state if state is not None and state.generation == definition.generation else None

    def _uri(self, name: str) -> str:
        return self._bucket.uri(key_below(self._prefix, name))

    def _taken(self, name: str) -> TableExistsError:
        return TableExistsError(
            f"{self._uri(name)} is a table already. Open it with db.table({name!r}), or choose another name."
        )


PART = RecordTables
