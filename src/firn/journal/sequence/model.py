"""The objects of the commit log, decoded. Everything is immutable and picklable.

Bodies are bytes and index entries are opaque names here: what they mean is the business of record tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

IndexStage = Literal["build", "ready"]
Isolation = Literal["snapshot", "row"]
DdlVerb = Literal["create", "drop", "build", "ready", "unindex", "alter"]


@dataclass(frozen=True, slots=True)
class RowWrite:
    """A row's new version: its body, or the name of the object that holds it, or neither for a delete.

    `entries` are the names of its index entries, without the sequence number that ends each.
    """

    table: str
    id: str
    body: bytes | None = None
    ref: str | None = None
    entries: tuple[str, ...] = ()

    @property
    def deletes(self) -> bool:
        return self.body is None and self.ref is None

    @property
    def weight(self) -> int:
        """Bytes that it takes in a record, about."""
        return len(self.body or b"") + len(self.id) + sum(len(entry) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """What the documents of a table may hold, since it was altered: `columns` are the declared ones in order, with
    their types, `schema` a JSON schema; None where there is none. `gone` are the columns that were dropped, with the
    types that their values have in older documents."""

    columns: tuple[tuple[str, str], ...] | None = None
    schema: Mapping[str, Any] | None = None
    gone: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ddl:
    """A change of the definitions. `indices` are the fields that a created table is indexed by at once, with
    whether each is unique; `field` and `unique` are of the index that is built, ready or dropped. `each` are those of
    the fields of new indices whose lists are indexed by their elements. `generation` tells the table that is created,
    and one that is dropped, from others of its name; `built` tells the index that is ready or dropped from others of
    its field, 0 for whichever there is. `properties` are those that are altered, None for the default again; so are
    `comments`, by column, "" for the table's own. `documents` is what these may hold from now on, where that changes.
    """

    verb: DdlVerb
    table: str
    isolation: Isolation = "snapshot"
    indices: tuple[tuple[str, bool], ...] = ()
    field: str = ""
    unique: bool = False
    generation: int = 0
    built: int = 0
    properties: tuple[tuple[str, Any], ...] = ()
    each: tuple[str, ...] = ()
    documents: DocumentRules | None = None
    comments: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class LogTransaction:
    """A member of a record's group. `snapshot` is what it read, `claims` are unique values that it brings in."""

    txid: str
    snapshot: int
    writes: tuple[RowWrite, ...] = ()
    claims: tuple[str, ...] = ()
    ddl: Ddl | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index: writers after `built` add entries; it may be read at snapshots from `ready` on, 0 for not yet.

    `generation` is how many indices of its field were dropped before it. Each has entries of its own, so that late
    deletions of one's entries don't harm the next. `each`: it has an entry for each element of the field's lists.
    """

    stage: IndexStage
    unique: bool
    built: int
    ready: int
    generation: int = 0
    each: bool = False


@dataclass(frozen=True, slots=True)
class TableState:
    """A record table: versions and entries with numbers up to `since` belong to an earlier one of its name.

    `gone` is how many indices of a field were dropped, `generation` how many tables of the name came before.
    `properties` are those that were altered since the table was created, None for the default; `comments` those that
    there are. `documents` is what these may hold where that was altered, by commit `altered` for the last time.
    """

    since: int
    isolation: Isolation
    fields: Mapping[str, IndexState]
    gone: Mapping[str, int] = field(default_factory=dict)
    generation: int = 0
    properties: Mapping[str, Any] = field(default_factory=dict)
    altered: int = 0
    documents: DocumentRules | None = None
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_altered(self) -> bool:
        """Whether anything of it isn't as it was created, but its indices."""
        return bool(self.properties or self.comments or self.documents is not None)

    @property
    def weight(self) -> int:
        """Bytes of it in a catalog, about."""
        rules = self.documents
        columns = 0 if rules is None else 40 * (len(rules.columns or ()) + len(rules.gone))
        schema = 0 if rules is None or rules.schema is None else len(str(rules.schema))
        return 100 * (1 + len(self.fields)) + columns + schema + sum(map(len, self.comments.values()))


Catalog = Mapping[str, TableState]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A commit: the point, the order and the redo record at once (rule 1).

    All numbers up to `applied` were, when it was written, and those in `done`, which are greater. `catalog` are the
    definitions before it. Its object has them, or it names another record in `base` whose object has the same; 0 for
    its own.
    """

    number: int
    group: tuple[LogTransaction, ...]
    applied: int
    done: tuple[int, ...]
    catalog: Catalog
    base: int = 0

    @property
    def writes(self) -> Iterator[RowWrite]:
        """The writes of all its members, in order."""
        return (write for member in self.group for write in member.writes)

    @property
    def base_after(self) -> int:
        """The record whose object has the definitions after this one; 0 for none, as it changes them."""
        return 0 if any(member.ddl is not None for member in self.group) else self.base or self.number

    @property
    def weight(self) -> int:
        """Bytes of documents, ids and entries in it, and of its catalog if its object has that, about."""
        tables = 0 if self.base else sum(table.weight for table in self.catalog.values())
        return tables + sum(write.weight for write in self.writes)


@dataclass(frozen=True, slots=True)
class Horizon:
    """The horizon, which holds for all clients (rule 2); each field only grows.

    `horizon`: versions that only older snapshots can read may be gone. `lo`: records up to here are in packs, their
    objects are no records any more. `applied`: records up to here are in rows and indices. `catalog`: the
    definitions after record `lo`, where records behind it may refer to one before it for them; else None.
    """

    horizon: int = 0
    lo: int = 0
    applied: int = 0
    catalog: Catalog | None = None


@dataclass(frozen=True, slots=True)
class Pack:
    """Records that follow one another, up to number `hi` (rule 3)."""

    records: tuple[LogRecord, ...]

    @property
    def hi(self) -> int:
        return self.records[-1].number


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the log as it was at one moment (rule 8): `number` was the last record's, and the next one is known
    not to have existed at `validated_s` by the process's own monotonic clock. `catalog` are the definitions after it,
    `base` the record whose object has these, 0 for none.
    """

    number: int
    validated_s: float
    catalog: Catalog
    base: int = 0
