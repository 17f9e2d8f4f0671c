"""The tables of a database, of all kinds: found by name, and names that are free."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.database.keyed_tables import KeyedTables
from firn.database.kinds import (
    KEYED,
    LAKE,
    RECORDS,
    Definition,
    Kind,
    decode_definition,
    read_any,
    read_current,
    wrong_kind,
)
from firn.database.lake_tables import LakeTables
from firn.database.record_tables import AnyRecordTable, RecordTables
from firn.database.tombstones import Vacant
from firn.database.writer_tables import WriterTables
from firn.degraded import warn_degraded
from firn.errors import CorruptObjectError, TableExistsError, TableNotFoundError, UnsupportedError
from firn.journal.definition import definition_key
from firn.journal.manifest.pointer_store import has_pointer
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.table import KeyedTable
from firn.lake.results import DropReport, MendReport
from firn.lake.table import LakeTable
from firn.names import is_name
from firn.records.definition.definition import RecordDefinition

AnyTable = LakeTable | KeyedTable | AnyRecordTable


_SHOWN = 8
"""Tables that a message names."""


@dataclass(frozen=True)
class Tables:
    """Which kind a table is of is asked here, and nowhere above."""

    bucket: Bucket
    prefix: str
    url: str
    lakes: LakeTables
    keyed: KeyedTables
    records: RecordTables
    writers: WriterTables

    def names(self, kind: Kind | None) -> list[str]:
        """See `Database.tables`."""
        names = [n for n in self.bucket.list_dirs(key_below(self.prefix, "")) if is_name(n)]
        blobs = self.bucket.get_many([definition_key(self._prefix(n)) for n in names])
        found: set[str] = set()
        may_have_writers = False
        for name, blob in zip(names, blobs, strict=True):
            if blob is not None:
                try:
                    definition = decode_definition(blob.data, self.bucket.uri(blob.info.key))
                except (CorruptObjectError, UnsupportedError) as error:  # of it alone: the others go on
                    warn_degraded(self.bucket.uri(self._prefix(name)), str(error))
                    found.update([name] if kind is None else [])
                    continue
                if _listed(definition) and kind in (None, definition.kind):
                    found.add(name)
            elif kind in (KEYED, RECORDS):
                continue  # without a definition there are lake tables only
            elif self.lakes.has_log(name):
                found.add(name)
            else:
                may_have_writers = True
        if may_have_writers:
            found.update(self.writers.names())
        return sorted(found)

    def find(self, name: str, kind: Kind | None = None) -> AnyTable:
        """See `Database.table`."""
        found = self._find(name, read_any(self.bucket, self._prefix(name)))
        if found is None:
            raise self._no_table(name)
        has = _kind_of(found)
        if kind is not None and kind != has:
            raise wrong_kind(name, has, kind)
        return found

    def drop(self, name: str, *, dry_run: bool) -> DropReport:
        """See `Database.drop_table`."""
        definition = read_any(self.bucket, self._prefix(name))
        if definition is None or definition.dropped:  # nobody opens one whose drop was interrupted
            found = self._find(name, definition)
            if isinstance(found, LakeTable):
                definition = found.descriptor
            elif definition is None:
                raise self._no_table(name)
        if isinstance(definition, KeyedDefinition):
            report = self.keyed.drop(definition, dry_run=dry_run)
        elif isinstance(definition, RecordDefinition):
            report = self.records.drop(definition, dry_run=dry_run)
        else:
            report = self.lakes.drop(definition, dry_run=dry_run)
        if definition.dropped and not report.objects:
            raise self._no_table(name)
        return report

    def mend(self, name: str, *, dry_run: bool) -> MendReport:
        """See `Database.mend_table`."""
        if not self.bucket.list(f"{self._prefix(name)}/").objects and self.writers.find(name) is None:
            raise self._no_table(name)
        return self.lakes.mend(name, dry_run=dry_run)

    def free(self, name: str, *, kind: Kind = LAKE) -> Vacant:
        """See that no table has the name, and end the drop of one that had."""
        self.writers.check_free(name)
        prefix = self._prefix(name)
        there, over = read_current(self.bucket, prefix)
        if isinstance(there, RecordDefinition):
            taken = self.records.usable(there) is not None
        elif there is not None:
            taken = not there.dropped
        else:
            taken = kind != LAKE and self.lakes.log_to_define(name) is not None
        if taken:
            raise self._exists(name)
        return self._cleared(Vacant(name, there, over))

    def free_for_writers(self, name: str) -> None:
        """The same for a table of writers' catalogs. 1 LIST, more where a table was dropped."""
        if self.bucket.list_dirs(f"{self._prefix(name)}/"):
            there, over = read_current(self.bucket, self._prefix(name))
            if there is None or not there.dropped:  # a table, or a writer
                raise self._exists(name, "is there already")
            self._cleared(Vacant(name, there, over))

    # -- how

    def _cleared(self, left: Vacant) -> Vacant:
        """End the drop of the table that had the name."""
        there = left.there
        if there is None or not there.dropped:  # then its creator may be alive, and somebody write to it
            return left
        if isinstance(there, RecordDefinition):
            self.records.erase(there)
        elif isinstance(there, KeyedDefinition):
            self.keyed.erase(there)
        else:
            self.lakes.erase(there)
        return left

    def _exists(self, name: str, what: str = "is a table already") -> TableExistsError:
        return TableExistsError(
            f"{self.bucket.uri(self._prefix(name))} {what}. Open it with db.table({name!r}), or choose another name."
        )

    def _find(self, name: str, definition: Definition | None) -> AnyTable | None:
        """The table with the definition that was read for it."""
        if definition is None:
            return self.lakes.find(name)
        if definition.dropped:  # whose name writers may have taken
            return self.writers.find(name)
        if isinstance(definition, RecordDefinition):
            usable = self.records.usable(definition)
            return None if usable is None else self.records.open(usable)
        if isinstance(definition, KeyedDefinition):
            return self.keyed.open(definition)
        return self.lakes.open(definition)

    def _no_table(self, name: str) -> TableNotFoundError | CorruptObjectError:
        if (lost := self._lost(name)) is not None:
            return lost
        there = self.names(None)
        close = difflib.get_close_matches(name, there, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else self._other_level(name)
        if not hint and there:
            shown = ", ".join(map(repr, there[:_SHOWN]))
            hint = (
                f" There {'is' if len(there) == 1 else 'are'} {shown}{', …' if len(there) > _SHOWN else ''}."
            )
        where = "the working directory" if self.url == "." else self.url
        return TableNotFoundError(f"there is no table {name!r} in {where}.{hint}")

    def _lost(self, name: str) -> CorruptObjectError | None:
        """What to say of a table that has no definition any more. 1 GET, and 1 LIST or more where there is none."""
        if read_any(self.bucket, self._prefix(name)) is not None:
            return None
        key = self.bucket.uri(definition_key(self._prefix(name)))
        if has_pointer(self.bucket, self._prefix(name)):
            return CorruptObjectError(
                f"{key} is missing, and files of a keyed table are there. Copy it back from a backup; until then "
                "nobody can open the table."
            )
        if self.records.defines(name):
            return CorruptObjectError(
                f"{key} is missing, and the log of record tables has the table. Copy it back from a backup; or say "
                f"what it was by create_table({name!r}, kind='records', …), which raises TableExistsError and keeps "
                "the rows."
            )
        return None

    def _other_level(self, name: str) -> str:
        """What to say if a database was named for a table, or a table for its database. 1 LIST, 2 GETs."""
        if _is_table(self.bucket, self.prefix):
            return " That is a table itself: name its database."
        below = self.bucket.list_dirs(key_below(self._prefix(name), ""))
        inside = next(
            (n for n in below if is_name(n) and _is_table(self.bucket, f"{self._prefix(name)}/{n}")), None
        )
        return f" That is a database: name a table in it, like {inside!r}." if inside else ""

    def _prefix(self, name: str) -> str:
        return key_below(self.prefix, name)


def _kind_of(table: AnyTable) -> Kind:
    if isinstance(table, LakeTable):
        return LAKE
    return KEYED if isinstance(table, KeyedTable) else RECORDS


def _is_table(bucket: Bucket, prefix: str) -> bool:
    key = definition_key(prefix).removeprefix("/")  # a database may be a whole bucket
    return bucket.get_many([key])[0] is not None


def _listed(definition: Definition) -> bool:
    unborn = isinstance(definition, RecordDefinition) and definition.state != "ready"
    return not definition.dropped and not unborn
