"""Reading at one commit (rules 10 and 11): rows by id, through an index, or all, as they were then."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.errors import InvalidInputError, NoSuchKeyError
from firn.journal.sequence import Head, RowWrite
from firn.records.apply.damage import must_have
from firn.records.documents.documents import ID, Record
from firn.records.documents.predicates import (
    Contains,
    Equal,
    Ids,
    Predicate,
    Prefix,
    Range,
    Scalar,
    Where,
    matches,
    of_values,
)
from firn.records.names.index_values import IndexValue
from firn.records.names.layout import IndexEntry
from firn.records.names.names import digest, id_part, part_text
from firn.records.objects.listing import row_names, row_pages
from firn.records.objects.row import Row, Version
from firn.records.objects.store import RecordStore, Table
from firn.records.read.candidates import LIST_COST, candidates, entries, newest
from firn.records.read.order import ALL, KeySpan, Page, in_order


@dataclass(frozen=True)
class SeenRow:
    """A row as a snapshot has it: the version's number, its body, and the document that this is."""

    id: str
    seq: int
    body: bytes
    document: Mapping[str, Any]

    def record(self, table: Table) -> Record:
        """As a user gets it: with a document of its own."""
        return Record(
            self.id, table.documents.decode(self.body, self.id), etag_of(table.name, self.id, self.seq)
        )


@dataclass(frozen=True)
class RecordSnapshot:
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
        """The document that a write of the log has put, read by the table as it was. As `RecordStore.body`."""
        return self.table(write.table).documents.decode(self.store.body(write), write.id)

    def get(self, table: Table, id: str) -> SeenRow | None:
        """The row of that id, None if there is none (rule 10). 1 GET, none if its last change isn't applied yet.

        Raises:
            SnapshotTooOldError: its version was collected.
        """
        # How far rows are applied is looked at before the row is: what isn't in the one is in the other.
        change = self.store.log.newest(table.name, id, self.number)
        if change is not None:
            return self._seen(table, id, *change)
        written = self.store.log.written(table.name, id)
        row = self.store.row(table.layout, id).row
        must_have(self.store, table, table.layout.row(id), row.newest, written)
        return self._at(table, id, row.at(self.number))

    def get_many(self, table: Table, ids: Sequence[str]) -> list[SeenRow]:
        """The rows that there are of these ids. 1 GET each, many at once, none for those whose last change isn't
        applied yet. Raises as `get`."""
        changes = {id: self.store.log.newest(table.name, id, self.number) for id in ids}
        lately = [self._seen(table, id, *change) for id, change in changes.items() if change is not None]
        names = [id_part(id) for id, change in changes.items() if change is None]
        found = [
            *lately,
            *(self._at(table, row.id, row.at(self.number)) for row in self._stored(table, names)),
        ]
        return [seen for seen in found if seen is not None]

    def find(self, table: Table, where: Where, page: Page = ALL) -> Iterator[SeenRow]:
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
    ) -> Iterator[SeenRow]:
        """`find` through the indices of these fields, or by ids; rows with ids in `without` are left out."""
        changes = self._changes(table, without)
        walked = self._may_walk(table, page)
        listed = [field for field in fields if not walked or field != page.order.first]
        names: dict[str, int] | None = None
        if listed:
            names = candidates(self.store.bucket, table, self.number, _of_values(where), listed)
            names = {name: seq for name, seq in names.items() if _ids(where).may_match(name)}
        elif ID in where or not walked:
            names = dict.fromkeys(self._names(table, where), 0)
        walk = self._walk(table, where, names, page) if walked else None
        # A missing entry tells nothing: only the horizon, read after the last page, says that none is.
        self.store.log.must_reach(self.head)
        if walk is not None:
            spans = [page.order.of_entry(entry.value, entry.id_name) for entry in walk]
            return self._in_order(table, spans, changes, where, page, newest(walk))
        assert names is not None
        return self._rows(table, without_ids(names, without), changes, where, page)

    def scan(self, table: Table, where: Where, page: Page = ALL) -> Iterator[SeenRow]:
        """The rows that match, without an index but that of the order. 1 LIST sequence of all rows, or of those whose
        ids begin alike; then 1 GET a row, of those that are taken or don't match and at most as many again."""
        if self._may_walk(table, page):
            return self.through(table, [], where, page)
        changes = self._changes(table)
        names = dict.fromkeys(self._names(table, where), 0)
        return self._rows(table, names, changes, where, page)

    def stream(self, table: Table, where: Where) -> Iterator[SeenRow]:
        """The rows that match, in no order that counts, a page of the LIST at a time. 1 LIST sequence, 1 GET a
        row."""
        changes, ids = self._changes(table), _ids(where)
        others = {id_part(id) for id in changes}
        unlisted = self._written(table, ids)
        for names in row_pages(self.store.bucket, table.layout, ids.name_prefix):
            for name in names:
                unlisted.pop(name, None)
            wanted = {name: 0 for name in names if name not in others and ids.may_match(name)}
            yield from self._rows(table, wanted, {}, where, ALL)
        self._must_be_listed(table, unlisted)
        yield from self._rows(table, {}, changes, where, ALL)

    def holders(self, table: Table, field: str, value: IndexValue, without: Collection[str] = ()) -> set[str]:
        """The ids of the rows with that value, by an index that new writes are entered in (rule 26). Those in
        `without` aren't read, and may be damaged."""
        asked: Predicate = Contains(value) if table.state.fields[field].each else Equal(value)
        return {seen.id for seen in self.through(table, [field], {field: asked}, without=without)}

    def _indexed(self, table: Table, where: Where) -> list[str]:
        """The fields whose indices can be used, those first that may have the fewest entries: equalities before
        prefixes, and these before ranges; a unique index before others, but for null, which any number of rows may
        have."""
        usable = [
            field for field in where if self._is_usable(table, field, each=isinstance(where[field], Contains))
        ]
        if not usable and ID not in where:
            fields = sorted(table.state.fields.items())
            there = (
                ", ".join(f"{name} by Contains" if index.each else name for name, index in fields) or "none"
            )
            raise InvalidInputError(
                f"find in {table.name!r} needs a field that is indexed ({there}); scan looks through all rows for "
                f"{', '.join(where) or 'anything'}, and an index may be built while others read and write"
            )

        values = _of_values(where)

        def entries(field: str) -> tuple[int, bool]:
            asked = values[field]
            kind = (Equal, Prefix, Range).index(type(asked))
            return kind, not table.state.fields[field].unique or asked == Equal(None)

        return sorted(usable, key=entries)

    def _is_usable(self, table: Table, field: str, *, each: bool = False) -> bool:
        """Whether there is an index to search, of values or of each element."""
        index = table.state.fields.get(field)
        if index is None or index.each != each:
            return False
        return index.stage == "ready" and index.ready <= self.number

    def _changes(self, table: Table, without: Collection[str] = ()) -> Mapping[str, tuple[int, RowWrite]]:
        """The last writes of rows that may not be in their objects. How far rows are applied is looked at before any
        name is listed: what isn't here is there."""
        changes = self.store.log.changes(table.name, self.number)
        return {id: change for id, change in changes.items() if id not in without}

    def _names(self, table: Table, where: Where) -> set[str]:
        """The parts of names that stand for ids, of all rows that may match by their ids. 1 LIST sequence."""
        ids = _ids(where)
        written = self._written(table, ids)
        names = row_names(self.store.bucket, table.layout, ids.name_prefix)
        found = {name for name in names if ids.may_match(name)}
        self._must_be_listed(table, {name: seq for name, seq in written.items() if name not in found})
        return found

    def _written(self, table: Table, ids: Ids) -> dict[str, int]:
        """By which commit rows were written, of those that this process remembers; they are listed from now on."""
        written = self.store.log.written_rows(table.name).items()
        names = {id_part(id): seq for id, seq in written if seq > table.state.since}
        return {name: seq for name, seq in names.items() if ids.may_match(name)}

    def _must_be_listed(self, table: Table, unlisted: Mapping[str, int]) -> None:
        for name, seq in unlisted.items():
            must_have(self.store, table, table.layout.row_named(name), 0, seq)

    def _stored(
        self, table: Table, names: Sequence[str], entered: Mapping[str, int] | None = None
    ) -> list[Row]:
        """The rows that there are of these names. `entered` are the numbers of entries that were listed: a row has
        the versions of those that are applied. 1 GET each, many at once."""
        log, entered = self.store.log, entered or {}
        applied = log.applied
        least = []
        for name in names:
            entry, id = entered.get(name, 0), part_text(name)
            written = 0 if id is None else log.written(table.name, id)
            least.append(max(written, entry if entry <= applied else 0))
        rows = self.store.rows_at([table.layout.row_named(name) for name in names])
        for name, row, seq in zip(names, rows, least, strict=True):
            must_have(self.store, table, table.layout.row_named(name), 0 if row is None else row.newest, seq)
        return [row for row in rows if row is not None]

    def _may_walk(self, table: Table, page: Page) -> bool:
        """Whether an index gives the order, and only some rows are wanted."""
        return page.limit is not None and self._is_usable(table, page.order.first)

    def _walk(
        self, table: Table, where: Where, names: Mapping[str, int] | None, page: Page
    ) -> list[IndexEntry] | None:
        """The entries of the index in whose order rows are wanted; of these rows, if names are given. None where it
        costs less to read these."""
        field = page.order.first
        most = None if names is None else len(names) // LIST_COST
        found = entries(self.store.bucket, table, self.number, field, _of_values(where).get(field), most)
        if found is None:
            return None
        return [entry for entry in found if names is None or entry.id_name in names]

    def _rows(
        self,
        table: Table,
        names: Mapping[str, int],
        changes: Mapping[str, tuple[int, RowWrite]],
        where: Where,
        page: Page,
    ) -> Iterator[SeenRow]:
        """The rows of these names, each with the number of an entry of it or 0, and those that lately changed, that
        match and are on the page."""
        if page.order.first == ID:
            return self._in_order(table, map(page.order.of_row, names), changes, where, page, names)
        spans = map(ALL.order.of_row, names)
        rows = self._in_order(table, spans, changes, where, ALL, names)
        return iter(sorted((row for row in rows if row in page), key=page.order.key))

    def _in_order(
        self,
        table: Table,
        spans: Iterable[KeySpan],
        changes: Mapping[str, tuple[int, RowWrite]],
        where: Where,
        page: Page,
        entered: Mapping[str, int],
    ) -> Iterator[SeenRow]:
        """The same by what names tell of keys, few at a time."""

        def read(some: Sequence[str]) -> Iterator[SeenRow]:
            rows = self._stored(table, some, entered)
            found = (self._at(table, row.id, row.at(self.number)) for row in rows)
            return matching(found)

        def matching(found: Iterable[SeenRow | None]) -> Iterator[SeenRow]:
            return (row for row in found if row is not None and matches(row.document, where, row.id))

        others = {id_part(id) for id in changes}
        stored = in_order((span for span in spans if span.name not in others), read, page)
        ids = sorted(id for id in changes if page.start is None or not page.order.by_id or (id,) > page.start)
        lately = matching(self._seen(table, id, *changes[id]) for id in ids)
        if not page.order.by_id:
            lately = iter(sorted((row for row in lately if row in page), key=page.order.key))
        return heapq.merge(stored, lately, key=page.order.key)

    def _at(self, table: Table, id: str, version: Version | None) -> SeenRow | None:
        return None if version is None else self._seen(table, id, version.seq, version)

    def _seen(self, table: Table, id: str, seq: int, version: Version | RowWrite) -> SeenRow | None:
        if (version.body is None and version.ref is None) or seq <= table.state.since:
            return None
        body = self.store.body(version)
        return SeenRow(id, seq, body, table.documents.decode(body, id))


def without_ids(names: Mapping[str, int], ids: Collection[str]) -> Mapping[str, int]:
    """Names without those of some rows."""
    left_out = {id_part(id) for id in ids}
    return {name: seq for name, seq in names.items() if name not in left_out} if left_out else names


def _of_values(where: Where) -> dict[str, Scalar]:
    """The predicates on the values in indices."""
    return {
        field: of_values(predicate) for field, predicate in where.items() if not isinstance(predicate, Ids)
    }


def _ids(where: Where) -> Ids:
    ids = where.get(ID, Ids())
    assert isinstance(ids, Ids)
    return ids


def etag_of(table: str, id: str, seq: int) -> str:
    """The ETag of a committed version: opaque text, another for each version of each row."""
    return f"{seq}.{digest(f'{table}/{id}'.encode(), 8)}"


def no_such_key(table: str, id: str) -> NoSuchKeyError:
    return NoSuchKeyError(f"{table!r} has no row {id!r}; insert it, or look for another")
