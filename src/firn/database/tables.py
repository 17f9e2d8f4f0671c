"""The tables of a database, of all kinds: found by name, and names that are free."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.concurrency.once import Once
from firn.database.kinds.definitions import EARLIEST, decode_definition, read_any, read_current
from firn.database.kinds.kind import StoredDefinition, TableKind, Vacant, kind_named, wrong_kind
from firn.degraded import warn_degraded
from firn.errors import CorruptObjectError, TableExistsError, TableNotFoundError, UnsupportedError
from firn.journal.definition import definition_key
from firn.kinds import Kind
from firn.names import is_name

if TYPE_CHECKING:
    from firn.database.kinds.lake import LakeTables
    from firn.database.kinds.records import AnyRecordTable
    from firn.database.writer_tables import WriterTables
    from firn.keyed.table import KeyedTable
    from firn.lake.results import DropReport, MendReport
    from firn.lake.table import LakeTable

    AnyTable = LakeTable | KeyedTable | AnyRecordTable


_SHOWN = 8
"""Tables that a message names."""


@dataclass(frozen=True)
class Tables:
    """A table is of the kind that its definition says; one that has none is a lake table."""

    bucket: Bucket
    prefix: str
    url: str
    kinds: Mapping[Kind, TableKind[Any, Any, Any]]
    writers: Once[WriterTables]

    @property
    def lakes(self) -> LakeTables:
        return cast("LakeTables", self.kinds[EARLIEST])

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
                if self._of(definition).is_listed(definition) and kind in (None, definition.kind):
                    found.add(name)
            elif kind not in (None, EARLIEST):
                continue  # without a definition there are lake tables only
            elif self.lakes.has_log(name):
                found.add(name)
            else:
                may_have_writers = True
        if may_have_writers:
            found.update(self.writers().names())
        return sorted(found)

    def find(self, name: str, kind: Kind | None = None) -> AnyTable:
        """See `Database.table`."""
        found = self._find(name, read_any(self.bucket, self._prefix(name)))
        if found is None:
            raise self._no_table(name)
        if kind is not None and kind != found.kind:
            raise wrong_kind(name, found.kind, kind)
        return found

    def create(self, name: str, kind: Kind, given: Mapping[str, Any]) -> Any:
        """See `Database.create_table`. `given`: the kind's options."""
        tables = self.kinds[kind]
        definition = tables.describe(name, tables.options(**given))
        return tables.create(definition, tables.vacate(definition, self))

    def drop(self, name: str, *, dry_run: bool) -> DropReport:
        """See `Database.drop_table`."""
        definition = read_any(self.bucket, self._prefix(name))
        if definition is None or definition.dropped:  # nobody opens one whose drop was interrupted
            undefined = self._undefined(name, definition)
            if undefined is not None:
                definition = undefined.context.definition
            elif definition is None:
                raise self._no_table(name)
        report = self._of(definition).drop(definition, dry_run=dry_run)
        if definition.dropped and not report.objects:
            raise self._no_table(name)
        return report

    def mend(self, name: str, *, dry_run: bool) -> MendReport:
        """See `Database.mend_table`."""
        if not self.bucket.list(f"{self._prefix(name)}/").objects and self.writers().find(name) is None:
            raise self._no_table(name)
        return self.lakes.mend(name, dry_run=dry_run)

    def free(self, name: str, kind: Kind = EARLIEST) -> Vacant:
        """See that no table has the name, and end the drop of one that had."""
        self.writers().check_free(name)
        there, over = read_current(self.bucket, self._prefix(name))
        if there is not None:
            taken = self._of(there).usable(there) is not None
        else:
            taken = not kind_named(kind).may_define_logs and self.lakes.log_to_define(name) is not None
        if taken:
            raise self._exists(name)
        return self._cleared(Vacant(name, there, over))

    def free_for_writers(self, name: str) -> Vacant:
        """The same for a table of writers' catalogs. 1 LIST, more where a table was dropped."""
        if self.bucket.list_dirs(f"{self._prefix(name)}/"):
            there, over = read_current(self.bucket, self._prefix(name))
            if there is None or not there.dropped:  # a table, or a writer
                raise self._exists(name, "is there already")
            return self._cleared(Vacant(name, there, over))
        return Vacant(name)

    # -- how

    def _of(self, definition: StoredDefinition) -> TableKind[Any, Any, Any]:
        return self.kinds[cast("Kind", definition.kind)]

    def _cleared(self, left: Vacant) -> Vacant:
        """End the drop of the table that had the name."""
        there = left.there
        if there is None or not there.dropped:  # then its creator may be alive, and somebody write to it
            return left
        self._of(there).erase(there)
        return left

    def _exists(self, name: str, what: str = "is a table already") -> TableExistsError:
        return TableExistsError(
            f"{self.bucket.uri(self._prefix(name))} {what}. Open it with db.table({name!r}), or choose another name."
        )

    def _find(self, name: str, definition: StoredDefinition | None) -> AnyTable | None:
        """The table with the definition that was read for it."""
        if definition is None or definition.dropped:
            return self._undefined(name, definition)
        tables = self._of(definition)
        usable = tables.usable(definition)
        found: AnyTable | None = None if usable is None else tables.open(usable)
        return found

    def _undefined(self, name: str, left: StoredDefinition | None) -> LakeTable | None:
        """A table without definition: the reference's, or of writers, who may have taken a dropped table's name."""
        return self.lakes.find(name) if left is None else self.writers().find(name)

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
        """The error for a table that has no definition any more. 1 GET, and 1 LIST or more where there is none."""
        if read_any(self.bucket, self._prefix(name)) is not None:
            return None
        return next((lost for kind in self.kinds.values() if (lost := kind.lost(name)) is not None), None)

    def _other_level(self, name: str) -> str:
        """Advice if a database was named for a table, or a table for its database. 1 LIST, 2 GETs."""
        if _is_table(self.bucket, self.prefix):
            return " That is a table itself: name its database."
        below = self.bucket.list_dirs(key_below(self._prefix(name), ""))
        inside = next(
            (n for n in below if is_name(n) and _is_table(self.bucket, f"{self._prefix(name)}/{n}")), None
        )
        return f" That is a database: name a table in it, like {inside!r}." if inside else ""

    def _prefix(self, name: str) -> str:
        return key_below(self.prefix, name)


def _is_table(bucket: Bucket, prefix: str) -> bool:
    key = definition_key(prefix).removeprefix("/")  # a database may be a whole bucket
    return bucket.get_many([key])[0] is not None
