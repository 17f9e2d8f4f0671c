"""Reads of a transaction: of one snapshot, with its own writes laid over that, and noted for its commit."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from firn.arguments import checked
from firn.errors import InvalidInputError
from firn.records.documents.documents import Documents, Record
from firn.records.documents.predicates import Where, conditions_of
from firn.records.names.names import check_id
from firn.records.objects.store import Table
from firn.records.read.order import Order, OrderBy, Page
from firn.records.read.rows import Rows
from firn.records.read.snapshot import RecordSnapshot, SeenRow, no_such_key
from firn.records.write.validation import Footprint, RowKey
from firn.records.write.writes import Buffer


@checked
class TransactionReads:
    """The part of `Transaction` that reads. Whatever it tells of rows is in the footprint: misses and counts, too."""

    _at: RecordSnapshot
    _footprint: Footprint
    _seen: dict[RowKey, SeenRow | None]
    _streams: list[str]
    _writes: Buffer

    def get(self, table: str, id: str) -> Record:
        """The row of that id. 1 GET, none if the transaction read or wrote it, or its change isn't applied yet.

        Raises:
            NoSuchKeyError: there is none.
            SnapshotTooOldError: its version was collected; begin another transaction.
        """
        found = self._current(self._table(table), id)
        if found is None:
            raise no_such_key(table, id)
        return found

    def get_many(self, table: str, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id. 1 GET each as `get`, many at once.

        Raises:
            SnapshotTooOldError: a version was collected; begin another transaction.
        """
        opened = self._table(table)
        wanted = list(dict.fromkeys(check_id(id) for id in ids))
        self._read_many(opened, wanted)
        found = ((id, self._current(opened, id)) for id in wanted)
        return {id: row for id, row in found if row is not None}

    def find(
        self,
        table: str,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, found through an index. 1 LIST sequence (for a range of text, 1 a first level that may
        hold any, and 1), 1 GET a row that matches, and 1 for the horizon if nobody has asked for it within R. With a
        `limit`, in the order of ids or of a field that has an index: 1 GET a row that is returned, twice as many at
        most if some in between don't match the rest of the conditions; in the order of a field 1 LIST sequence of its
        index more.

        Args:
            where: what fields must be: a value, `firn.Prefix` or `firn.Range`; of lists, what they contain:
                `firn.Contains`. At least one field has an index, for `Contains` one with `each=True`, or is `_id`:
                names of rows tell their ids. As keywords, too, where the field's name can be one. Where several have
                an index, a page of each is listed in turn until one has come to its end, whatever their
                order, and more of the others as long as that costs less than the GETs that it spares.
            order_by: a field, or a list of them, like "n desc"; the rows' ids by default.
            limit: rows to return at most. In the order of a field without an index all that match are read all the
                same.
            after: the last row of the page before, or its id.

        Raises:
            InvalidInputError: no field has an index.
            SnapshotTooOldError: what the snapshot sees may have been collected.
        """
        conditions = conditions_of(where, equalities)
        return self._rows(self._at.find, self._table(table), conditions, Order(order_by), limit, after)

    def scan(
        self,
        table: str,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The same without an index: 1 LIST sequence of all rows, or of those whose ids begin alike by a condition on
        `_id`, 1 GET a row of the table. With a `limit`, in the order of ids or of a field that has an index: as many
        GETs as it says, and 1 a row in between that was deleted or doesn't match, twice as many at most; none for
        rows before `after`."""
        conditions = conditions_of(where, equalities)
        return self._rows(self._at.scan, self._table(table), conditions, Order(order_by), limit, after)

    def stream(
        self, table: str, where: Mapping[str, Any] | None = None, /, **equalities: Any
    ) -> Iterator[Record]:
        """The same as an iterator that holds few rows at a time, in no order that counts. 1 LIST sequence and 1 GET a
        row of the table; what the transaction writes meanwhile isn't in it."""
        opened = self._table(table)
        asked = self._asked(opened, conditions_of(where, equalities))
        return self._streamed(
            opened, asked, set(self._writes.of(table)), self._writes.matching(opened, asked)
        )

    def count(self, table: str, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> int:
        """How many rows match; all without conditions. Cost as `find`, or `scan`; it holds few rows at a time."""
        opened = self._table(table)
        asked = self._asked(opened, conditions_of(where, equalities))
        own, count = self._writes.of(table), 0
        for seen in self._at.find(opened, asked) if asked else self._at.scan(opened, asked):
            # Counted rows are read as found ones are: a second count must be the same, or the commit fail.
            self._footprint.reads.add((table, seen.id))
            count += seen.id not in own
        return count + len(self._writes.matching(opened, asked))

    # -- how

    def _must_be_open(self) -> None:
        raise NotImplementedError

    def _table(self, name: str) -> Table:
        self._must_be_open()
        found = self._at.table(name)
        if found.state.isolation == "row":
            raise InvalidInputError(
                f"{name!r} has isolation='row': its rows are changed one by one, in no transaction. Use the verbs of "
                f"db.table({name!r}), or a table with isolation='snapshot'."
            )
        return found

    def _asked(self, table: Table, where: Mapping[str, Any]) -> Where:
        asked = {field: table.documents.predicate(field, given) for field, given in where.items()}
        self._footprint.predicates.append((table.name, asked))
        return asked

    def _rows(
        self,
        look: Callable[[Table, Where, Page], Iterator[SeenRow]],
        table: Table,
        conditions: Mapping[str, Any],
        order: Order,
        limit: int | None,
        after: Record | str | None,
    ) -> Rows:
        """The rows that a snapshot finds, with own writes laid over them."""
        where = self._asked(table, conditions)
        order.known_to(table.documents)
        start = self.get(table.name, after) if isinstance(after, str) and not order.by_id else after
        page = order.wanted(limit, start)
        there = look(table, where, page)
        own, mine = self._writes.of(table.name), self._writes.matching(table, where, page)

        def stored() -> Iterator[Record]:
            for seen in there:
                self._seen[table.name, seen.id] = seen
                self._footprint.reads.add((table.name, seen.id))
                if seen.id not in own:
                    yield seen.record(table)

        found = heapq.merge(stored(), mine, key=order.key)
        return Rows.of(islice(found, limit), table.documents)

    def _streamed(
        self, table: Table, where: Where, own: set[str], mine: Iterable[Record]
    ) -> Iterator[Record]:
        # Until it ends, it reads at this snapshot: see `Transaction._look`.
        self._streams.append(table.name)
        try:
            for seen in self._at.stream(table, where):
                self._footprint.reads.add((table.name, seen.id))
                if seen.id not in own:
                    yield seen.record(table)
        finally:
            self._streams.remove(table.name)
        yield from mine

    def _current(self, table: Table, id: str) -> Record | None:
        """The row as this transaction sees it."""
        own = self._writes.get((table.name, check_id(id)))
        if own is not None:
            return own.record(table) if own.body is not None else None
        seen = self._read(table, id)
        return None if seen is None else seen.record(table)

    def _read(self, table: Table, id: str) -> SeenRow | None:
        """The row as the snapshot has it, read once."""
        key = (table.name, id)
        self._footprint.reads.add(key)
        if key not in self._seen:
            self._seen[key] = self._at.get(table, id)
        return self._seen[key]

    def _read_many(self, table: Table, ids: Iterable[str]) -> None:
        """Read the rows that weren't read or written yet, many at once."""
        unread = [
            id
            for id in ids
            if (table.name, id) not in self._seen and self._writes.get((table.name, id)) is None
        ]
        found = {seen.id: seen for seen in self._at.get_many(table, unread)}
        for id in unread:
            self._footprint.reads.add((table.name, id))
            self._seen[table.name, id] = found.get(id)


def documents_at(transaction: TransactionReads, table: str) -> Documents:
    """What documents of a table may hold at a transaction's snapshot, by which it judges those that it writes. No
    request."""
    return transaction._table(table).documents
