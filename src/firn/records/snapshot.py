"""Reading at one commit (rules 10 and 11): rows by id, through an index, or all, as they were then."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.errors import InvalidInputError, NoSuchKeyError
from firn.journal.sequence import Head, RowWrite
from firn.records.candidates import candidates
from firn.records.documents import Record
from firn.records.in_order import ALL, Page, in_order
from firn.records.index_values import IndexValue
from firn.records.names import digest, id_part
from firn.records.predicates import Equal, Predicate, Prefix, Range, matches
from firn.records.row import Version
from firn.records.store import RecordStore, Table

Where = Mapping[str, Predicate]


@dataclass(frozen=True)
class Seen:
    """A row as a snapshot has it: the version's number, its body, and the document that this is."""

    id: str
    seq: int
    body: bytes
    document: Mapping[str, Any]

    def record(self, table: Table) -> Record:
        """As a user gets it: with a document of its own."""
        return Record(self.id, table.documents.decode(self.body), etag_of(table.name, self.id, self.seq))


@dataclass(frozen=True)
class Snapshot:
    """The database as it was after commit `head.number`, of which the process knew when it was the end of the log."""

    store: RecordStore
    head: Head

    @property
    def number(self) -> int:
        return self.head.number

    def table(self, name: str) -> Table:
        """A table that there was. Errors as `RecordStore.table`."""
        return self.store.table(name, self.head.catalog)

    def document(self, write: RowWrite) -> dict[str, Any]:
        """What a write of the log has put, read by the table as it was. As `RecordStore.body`."""
        return self.table(write.table).documents.decode(self.store.body(write))

    def get(self, table: Table, id: str) -> Seen | None:
        """The row of that id, None if there is none (rule 10). 1 GET, none if its last change isn't applied yet.

        Raises:
            SnapshotTooOldError: its version was collected.
        """
        # How far rows are applied is looked at before the row is: what isn't in the one is in the other.
        change = self.store.log.newest(table.name, id, self.number)
        if change is not None:
            return self._seen(table, id, *change)
        return self._at(table, id, self.store.row(table.layout, id).row.at(self.number))

    def get_many(self, table: Table, ids: Sequence[str]) -> list[Seen]:
        """The rows that there are of these ids. 1 GET each, many at once, none for those whose last change isn't
        applied yet. Raises as `get`."""
        changes = {id: self.store.log.newest(table.name, id, self.number) for id in ids}
        lately = [self._seen(table, id, *change) for id, change in changes.items() if change is not None]
        rows = self.store.rows([table.layout.row(id) for id, change in changes.items() if change is None])
        found = [*lately, *(self._at(table, row.id, row.at(self.number)) for row in rows)]
        return [seen for seen in found if seen is not None]

    def find(self, table: Table, where: Where, page: Page = ALL) -> Iterator[Seen]:
        """The rows that match, in the order of their ids (rule 11). 1 LIST sequence (for a range of text, 1 a first
        level that may hold any, and 1) and 1 for the horizon if nobody has asked for it within R; then 1 GET a row,
        of those that are taken and at most as many again. Where several fields have an index: see `candidates`.

        Raises:
            InvalidInputError: no field of `where` has an index that can be used at this snapshot.
            SnapshotTooOldError: what the snapshot sees may have been collected.
        """
        return self.through(table, self._indexed(table, where), where, page)

    def through(
        self,
        table: Table,
        fields: Sequence[str],
        where: Where,
        page: Page = ALL,
        without: Collection[str] = (),
    ) -> Iterator[Seen]:
        """`find` through the indices of these fields; rows with ids in `without` are left out."""
        changes = self.store.log.changes(table.name, self.number)
        changes = {id: change for id, change in changes.items() if id not in without}
        names = candidates(self.store.bucket, table, self.number, where, fields)
        # A missing entry tells nothing: only the horizon, read after the last page, says that none is.
        self.store.log.must_reach(self.head)
        names -= {id_part(id) for id in without}
        return self._matching(self._rows(table, names, changes, page), where)

    def scan(self, table: Table, where: Where, page: Page = ALL) -> Iterator[Seen]:
        """The rows that match, in the order of their ids, without an index. 1 LIST sequence of all rows; then 1 GET a
        row, of those that are taken or don't match and at most as many again."""
        changes = self.store.log.changes(table.name, self.number)
        listing = self.store.bucket.list(table.layout.rows)
        names = (table.layout.row_name(info.key) for info in listing.objects)
        there = {name for name in names if name is not None}
        return self._matching(self._rows(table, there, changes, page), where)

    def holders(self, table: Table, field: str, value: IndexValue, without: Collection[str] = ()) -> set[str]:
        """The ids of the rows with that value, by an index that new writes are entered in (rule 26). Those in
        `without` aren't read, and may be damaged."""
        return {seen.id for seen in self.through(table, [field], {field: Equal(value)}, without=without)}

    def _indexed(self, table: Table, where: Where) -> list[str]:
        """The fields whose indices can be used, those first that may have the fewest entries: equalities before
        prefixes, and these before ranges; a unique index before others, but for null, which any number of rows may
        have."""
        usable = [
            field
            for field in where
            if (index := table.state.fields.get(field)) is not None
            and index.stage == "ready"
            and index.ready <= self.number
        ]
        if not usable:
            there = ", ".join(sorted(table.state.fields)) or "none"
            raise InvalidInputError(
                f"find in {table.name!r} needs a field that is indexed ({there}); scan looks through all rows for "
                f"{', '.join(where) or 'anything'}, and an index may be built while others read and write"
            )

        def entries(field: str) -> tuple[int, bool]:
            kind = (Equal, Prefix, Range).index(type(where[field]))
            return kind, not table.state.fields[field].unique or where[field] == Equal(None)

        return sorted(usable, key=entries)

    def _rows(
        self, table: Table, names: set[str], changes: Mapping[str, tuple[int, RowWrite]], page: Page
    ) -> Iterator[Seen]:
        """The rows of these names, and those that lately changed, in the order of their ids. How far rows are applied
        was looked at before: what isn't in `changes` is in the row."""

        def read(some: Sequence[str]) -> Iterator[Seen]:
            rows = self.store.rows([table.layout.row_named(name) for name in some])
            found = (self._at(table, row.id, row.at(self.number)) for row in rows)
            return (seen for seen in found if seen is not None)

        stored = in_order(names - {id_part(id) for id in changes}, read, page)
        lately = (self._seen(table, id, *changes[id]) for id in sorted(changes) if id in page)
        return heapq.merge(stored, (seen for seen in lately if seen is not None), key=lambda seen: seen.id)

    def _matching(self, rows: Iterator[Seen], where: Where) -> Iterator[Seen]:
        return (seen for seen in rows if matches(seen.document, where))

    def _at(self, table: Table, id: str, version: Version | None) -> Seen | None:
        return None if version is None else self._seen(table, id, version.seq, version)

    def _seen(self, table: Table, id: str, seq: int, version: Version | RowWrite) -> Seen | None:
        if (version.body is None and version.ref is None) or seq <= table.state.since:
            return None
        body = self.store.body(version)
        return Seen(id, seq, body, table.documents.decode(body))


def etag_of(table: str, id: str, seq: int) -> str:
    """The ETag of a committed version: opaque text, another for each version of each row."""
    return f"{seq}.{digest(f'{table}/{id}'.encode(), 8)}"


def no_such_key(table: str, id: str) -> NoSuchKeyError:
    return NoSuchKeyError(f"{table!r} has no row {id!r}; insert it, or look for another")
