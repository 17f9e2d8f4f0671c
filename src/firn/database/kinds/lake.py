"""The lake tables of a database that have a log of their own: made, opened, erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from firn.arrow.inputs import declared_columns
from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import SystemClock
from firn.concurrency.once import Once
from firn.database.kinds.definitions import (
    change_definition,
    decode_definition,
    is_dropped,
    is_left,
    mark_dropped,
)
from firn.database.kinds.kind import Place, StoredDefinition, TableKind, TableNames, Vacant, wrong_kind
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.definition import definition_key
from firn.journal.generations import Generations, generation_of
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.format.layout import FIRN_DIR, LOG_DIR
from firn.journal.leaderless.replay.damaged_logs import sort_logs
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.lock import ExclusiveLock
from firn.keeping import Turns
from firn.lake.definition.definition import (
    LakeDefinition,
    create_definition,
    for_new_table,
    read_times,
    tell_short_grace,
)
from firn.lake.definition.keys import parse_key
from firn.lake.definition.properties import check_keeping, check_properties
from firn.lake.partition.partition import PartitionSpec
from firn.lake.results import DropReport, MendReport
from firn.lake.table import LakeTable
from firn.lake.write.sort import parse_order
from firn.runner import Engines

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.database.writer_tables import WriterTables

JOURNALS = ("leaderless", "writer")


@dataclass(frozen=True)
class LakeOptions:
    """What `Database.create_table` was told of a lake table."""

    schema: pa.Schema | Mapping[str, str] | None = None
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    key: Sequence[str] | Mapping[str, str] | None = None
    version_by: str | None = None
    journal: str = "leaderless"
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LakeTables(TableKind[LakeOptions, LakeDefinition, LakeTable]):
    """Makes lake tables of definitions. `writers` has those of writers' catalogs, which it hands over to."""

    name = "lake"
    title = "lake"
    advice = "Use the verbs of lake tables."
    options = LakeOptions
    may_define_logs = True

    bucket: Bucket
    prefix: str
    store_options: Mapping[str, Any]
    engines: Engines
    writers: Once[WriterTables]
    lock: ExclusiveLock | None

    @staticmethod
    def decode(data: bytes, where: str) -> LakeDefinition:
        found = LakeDefinition.decode(data, where)
        if found.kind != LakeTables.name:
            raise UnsupportedError(
                f"{where} is of a table of kind {found.kind!r}, which this version of Firn doesn't know. Upgrade "
                "Firn to open the table."
            )
        return found

    @classmethod
    def at(cls, place: Place) -> LakeTables:
        return cls(place.bucket, place.prefix, place.options, place.engines, place.writers, place.lock)

    def describe(self, name: str, asked: LakeOptions) -> LakeDefinition:
        """The definition that the options ask for. `InvalidInputError` for what can't be; no requests."""
        journal, properties = asked.journal, dict(asked.properties)
        if journal not in JOURNALS:
            raise InvalidInputError(f"journal={journal!r}: there are {', '.join(map(repr, JOURNALS))}.")
        if isinstance(asked.key, Mapping):
            raise InvalidInputError(
                f"key={asked.key!r}: of a lake table, name the columns, like ['id']. Types are for kind='keyed'."
            )
        columns = declared_columns(asked.schema)
        check_properties(properties, columns, journal=journal)
        spec = PartitionSpec.parse(asked.partition_by, columns)
        spec.check_names()
        keys = parse_key(asked.key or (), asked.version_by, columns, [f.source for f in spec.fields])
        if keys is not None and properties.get("shared"):
            raise InvalidInputError(f"{name} can't be shared with the reference, which knows no keys.")
        order = parse_order(asked.sort_by or (keys.key if keys is not None else ()), columns)
        described = LakeDefinition(name, "lake", journal, columns, spec, order, properties, keys=keys)
        check_keeping(properties, name, self._log_place(described)[0])
        return replace(described, windowed=described.needs_window)

    def vacate(self, definition: LakeDefinition, names: TableNames) -> Vacant:
        if definition.journal == "writer":
            return names.free_for_writers(definition.name)
        return names.free(definition.name, self.name)

    def create(self, definition: LakeDefinition, vacant: Vacant) -> LakeTable:
        """Make a table. See `Database.create_table`."""
        if definition.journal == "writer":
            return self.writers().define(for_new_table(definition, conditional_put=True))
        name = definition.name
        prefix = key_below(self.prefix, name)
        generation = vacant.generation(self.generations)
        found = self.log_to_define(name) if vacant.there is None else None
        if found is not None:
            # A table of the reference's, or one that lost its definition: defining it keeps its data.
            logs = self._bare_journal(name).loader.load(scope=Scope.ALL).logs
            clocks = [file.clocks for log in logs for file in log.files]
            if definition.keys is None and any(clocks):
                raise InvalidInputError(
                    f"{self.bucket.uri(prefix)} holds rows of a table with a key, and without it would show "
                    "those that were replaced: give key= (and version_by=) as the table had it."
                )
            if definition.keys is not None and not (clocks and all(clocks)):
                raise UnsupportedError(
                    f"{self.bucket.uri(prefix)} holds a table of the reference's, whose rows have no clock: it "
                    "can't have a key. Make a table of another name, and append its rows there."
                )
            if not definition.properties.get("shared") and not any(log.nonce for log in logs):
                definition = shared(definition)
            generation = found
        else:
            fenced = self._log_place(definition)[0].capabilities.conditional_put
            definition = for_new_table(definition, conditional_put=fenced)
        tell_short_grace(definition)
        definition = replace(definition, generation=generation)
        return self.open(create_definition(self.bucket, prefix, definition, over=vacant.over))

    def open(self, definition: LakeDefinition, *, undefined: bool = False) -> LakeTable:
        """No requests. `undefined`: the table has no definition of its own, and this one has the defaults."""
        prefix = key_below(self.prefix, definition.name)
        log_bucket, log_root = self._log_place(definition)
        journal = LeaderlessJournal(
            self.bucket,
            prefix,
            log_bucket=log_bucket,
            log_root=log_root,
            rules=definition.rules,
            settings=LeaderlessSettings.from_properties(definition.properties),
            lock=self.lock,
            definition=None if undefined or definition.shared else definition.fields(),
            undefined=undefined,
            generation=definition.generation,
            shared=definition.shared,
            windowed=definition.windowed,
            times=definition.time_entries,
            read_times=partial(read_times, self.bucket, prefix) if definition.shared else None,
        )
        return LakeTable(self.bucket, prefix, definition, journal, self.engines)

    def keeper(self, table: LakeTable, *, named: bool) -> Turns | None:
        """Others may maintain a table that is shared with the reference, and no other process may use a writer's
        id.

        Raises:
            InvalidInputError: a table of writers' catalogs was named, and the connection has no writer.
        """
        from firn.lake.keep.one_table import keeper_of

        definition = table.context.definition
        if definition.journal == "writer":
            mine = self.writers().writer is not None
            if named and not mine:
                raise InvalidInputError(
                    f"{table.name}: of a table of writers' catalogs each writer's own process keeps its part: "
                    "firn.connect(url, writer=…).keep(). No other process can."
                )
        else:
            mine = named or not definition.shared
        return Turns(table.name, keeper_of(table.context)) if mine else None

    def find(self, name: str) -> LakeTable | None:
        """A table without a definition of its own: the reference's, or one of writers' catalogs."""
        generation = self.log_generation(name)
        if generation is not None:
            definition = LakeDefinition(name, generation=generation)
            return self.open(definition if generation else shared(definition), undefined=True)
        return self.writers().find(name)

    def mend(self, name: str, *, dry_run: bool) -> MendReport:
        """See `Database.mend_table`."""
        key = definition_key(key_below(self.prefix, name))
        blob = self.bucket.get_many([key])[0]
        found, objects = None, []
        if blob is not None:
            with suppress(CorruptObjectError):
                found = decode_definition(blob.data, self.bucket.uri(key))
        if (blob is None or (found is not None and found.dropped)) and self.writers().find(name) is not None:
            raise InvalidInputError(
                f"{name} is kept by writers' catalogs, which have no such objects. `firn fsck` finds what is "
                "damaged, and `firn rebuild --writer ID` brings a catalog back."
            )
        if found is not None and found.dropped:
            raise TableNotFoundError(f"{self.bucket.uri(key_below(self.prefix, name))} was dropped.")
        if found is not None and not isinstance(found, LakeDefinition):
            raise wrong_kind(name, found.kind, self.name)
        definition = found
        if definition is None:
            if not self.has_log(name):
                raise NotFoundError(
                    f"{self.bucket.uri(key_below(self.prefix, name))} has no leaderless log, so nothing tells how "
                    f"{self.bucket.uri(key)} was. Copy it back from a backup; of a record table, delete it and say "
                    f"what it was by create_table({name!r}, kind='records', …), after which the rows are there again."
                )
            definition = self._remembered(name)
            objects.append(self.bucket.uri(key))
            if not dry_run:
                self.bucket.put(key, definition.encode())
        journal = self.open(definition).journal
        if isinstance(journal, LeaderlessJournal):
            if mended := journal.mend_horizon(dry_run=dry_run):
                objects.append(mended)
            objects += journal.mend_logs(dry_run=dry_run)
        return MendReport(tuple(objects), dry_run)

    def _remembered(self, name: str) -> LakeDefinition:
        """The definition by the newest log that has a copy."""
        journal = self._bare_journal(name)
        for log in sorted(sort_logs(journal).readable, key=lambda log: log.order, reverse=True):
            if "table" in log.notes:
                where = journal.log_bucket.uri(journal.layout.log_key(log.name))
                return LakeDefinition.decode(orjson.dumps(log.notes["table"]), where)
        key = definition_key(key_below(self.prefix, name))
        raise CorruptObjectError(
            f"{self.bucket.uri(key)} can't be written anew: no log of {name} has a copy of it, as version 0.1 kept "
            "none. Copy it back from a backup; or delete it, and say what it was by create_table("
            f"{name!r}, …), which keeps the log and the data."
        )

    def _bare_journal(self, name: str) -> LeaderlessJournal:
        """The journal of a log beside the data, whatever the table's definition says."""
        generation = self.log_generation(name) or 0
        return LeaderlessJournal(self.bucket, key_below(self.prefix, name), generation=generation)

    def has_log(self, name: str) -> bool:
        """Whether there is a log, be it the reference's. See `log_generation`."""
        return self.log_generation(name) is not None

    def log_generation(self, name: str) -> int | None:
        """The generation of the newest log that is no dropped table's; None if there is none. 1 LIST, and 1 GET where
        there may be one."""
        return self._log_generation(name, self._dirs_of(name))

    def log_to_define(self, name: str) -> int | None:
        """The same as `log_generation`, for a name that a table is about to get. 1 LIST more for each directory that
        may be of a catalog.

        Raises:
            TableExistsError: the name is a writer's, whatever is left of the database's record of writers.
        """
        from firn.database.writer_tables import writer_exists
        from firn.journal.writer.federation.database_name import names_in_use

        dirs = self._dirs_of(name)
        if names_in_use(self.bucket, self.prefix, {name: dirs}):
            raise writer_exists(name, self.bucket.uri(self.prefix))
        return self._log_generation(name, dirs)

    def _dirs_of(self, name: str) -> list[str]:
        return self.bucket.list_dirs(f"{key_below(self.prefix, name)}/")

    def _log_generation(self, name: str, dirs: Sequence[str]) -> int | None:
        found = [g for g in (generation_of(each, LOG_DIR) for each in dirs) if g is not None]
        if not found or max(found) < self.generations.of(name):
            return None
        return max(found)

    @property
    def generations(self) -> Generations:
        return Generations(self.bucket, self.prefix)

    def drop(self, definition: LakeDefinition, *, dry_run: bool = False) -> DropReport:
        """See `Database.drop_table`."""
        if definition.journal == "writer":
            return self.writers().drop(definition.name, dry_run=dry_run)
        if dry_run:
            return self.erase(definition, dry_run=True)
        mark_dropped(self.bucket, self.prefix, definition)
        report = self.erase(definition)
        if definition.shared:
            mark_erased(self.bucket, self.prefix, definition)
        return report

    def erase(self, definition: LakeDefinition, *, dry_run: bool = False) -> DropReport:
        """Delete a dropped table's objects. Its definition stays, for the next table of the name to replace: nobody
        who is late here deletes that one's.

        Nothing of a table that is shared with the reference, once that is done: the reference may have filled the
        same paths anew.
        """
        if definition.erased:
            return DropReport((), 0, dry_run=dry_run)
        prefix = key_below(self.prefix, definition.name)
        key = definition_key(prefix)
        own = [i for i in self.bucket.list(f"{prefix}/").objects if i.key != key]
        logs, log_root = self._log_place(definition)
        apart = (logs.url, log_root) != (self.bucket.url, prefix)
        elsewhere = [
            info
            for part in (logs.list_dirs(key_below(log_root, "")) if apart else ())
            if generation_of(part, LOG_DIR) is not None or generation_of(part, FIRN_DIR) is not None
            for info in logs.list(key_below(log_root, part, "")).objects
        ]
        report = DropReport(
            (*(i.key for i in own), *(logs.uri(i.key) for i in elsewhere)),
            sum(i.size for i in (*own, *elsewhere)),
            dry_run=dry_run,
        )
        if dry_run or not report.objects:
            return report
        # The next table writes nothing before its definition is there: so nothing of what was listed is its.
        if not is_left(self.bucket, self.prefix, definition):
            return DropReport((), 0)
        logs.delete_many([i.key for i in elsewhere])
        self.bucket.delete_many([i.key for i in own])
        return report

    def _log_place(self, definition: LakeDefinition) -> tuple[Bucket, str]:
        """Where a table's `_log` is: beside its data, or in a store of its own."""
        log_url = definition.setting("log_url")
        if log_url is None:
            return self.bucket, key_below(self.prefix, definition.name)
        root, log_prefix = split_url(log_url)
        return open_bucket(root, options=self.store_options), key_below(log_prefix, definition.name)


def mark_erased(bucket: Bucket, prefix: str, definition: LakeDefinition) -> None:
    """Say of a dropped table, if it still has the name, that its objects are gone. 1 GET, 1 PUT."""

    def erase(now: StoredDefinition | None) -> StoredDefinition | None:
        return (
            replace(now, erased=True)
            if isinstance(now, LakeDefinition) and is_dropped(now, definition)
            else None
        )

    change_definition(bucket, key_below(prefix, definition.name), erase, SystemClock())


def shared(definition: LakeDefinition) -> LakeDefinition:
    return replace(definition, properties={**definition.properties, "shared": "icedb"})


PART = LakeTables
