"""A transaction's own writes, kept back until it commits, and what the log gets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from firn.errors import InvalidInputError, OutcomeUnknownError, StoreUnavailableError
from firn.journal.sequence import RowWrite
from firn.journal.sequence.proposal import LARGEST_BYTES
from firn.records.documents.documents import Record
from firn.records.documents.predicates import Where, matches
from firn.records.objects.own_etags import own_etag
from firn.records.objects.staged import STAGED_S, staged_ref
from firn.records.objects.store import RecordStore, Table
from firn.records.read.order import ALL, Page
from firn.records.read.snapshot import SeenRow

SMALLEST: Final = 4 << 10
"""Bytes of a body that is staged to make a record smaller: below that the object costs more than it saves."""

LARGEST: Final = 64 << 20
"""Bytes of bodies in a record, at most: all clients read it whole."""


@dataclass(frozen=True)
class PendingWrite:
    """A write that isn't committed: a body, or None for a delete. `base` is the version that it replaces, where the
    transaction has read it. `ref` names the object that a large body was staged in, `etag` is the write's own."""

    table: str
    id: str
    body: bytes | None
    base: SeenRow | None
    ref: str | None = None
    etag: str = ""

    def record(self, table: Table) -> Record:
        """The row as the transaction itself sees it."""
        assert self.body is not None
        return Record(self.id, table.documents.decode(self.body, self.id), self.etag)


@dataclass(frozen=True)
class Savepoint:
    """The writes of a transaction up to a moment; `Transaction.rollback` forgets those that it made since."""

    txid: str
    writes: Mapping[tuple[str, str], PendingWrite] = field(repr=False)


class Buffer:
    """The last write of each row."""

    def __init__(self, txid: str) -> None:
        self._txid = txid
        self._writes: dict[tuple[str, str], PendingWrite] = {}
        self.staged_s = 0.0

    def __len__(self) -> int:
        return len(self._writes)

    @property
    def tables(self) -> set[str]:
        return {table for table, _ in self._writes}

    def saved(self) -> Savepoint:
        """As they are now."""
        return Savepoint(self._txid, dict(self._writes))

    def restore(self, point: Savepoint) -> None:
        """As they were then.

        Raises:
            InvalidInputError: it is none, or another transaction's.
        """
        if not isinstance(point, Savepoint):
            raise InvalidInputError(f"rollback to {point!r}: it takes a savepoint of this transaction.")
        if point.txid != self._txid:
            raise InvalidInputError("that savepoint is another transaction's; give one of this transaction.")
        self._writes = dict(point.writes)

    def keys(self) -> set[tuple[str, str]]:
        """The rows that are written."""
        return set(self._writes)

    def get(self, key: tuple[str, str]) -> PendingWrite | None:
        return self._writes.get(key)

    def of(self, table: str) -> Mapping[str, PendingWrite]:
        """A table's writes, by id."""
        return {id: write for (of, id), write in self._writes.items() if of == table}

    def matching(self, table: Table, where: Where, page: Page = ALL) -> list[Record]:
        """A table's rows that match as they are written, and are on a page, in its order."""
        rows = (write.record(table) for write in self.of(table.name).values() if write.body is not None)
        found = (row for row in rows if matches(row.document, where, row.id) and row in page)
        return sorted(found, key=page.order.key)

    def put(self, write: PendingWrite) -> str:
        """The row's new write; its ETag."""
        etag = own_etag(self._txid, write.body)
        self._writes[write.table, write.id] = replace(write, etag=etag)
        return etag

    def stage(self, store: RecordStore, inline: Mapping[str, int]) -> None:
        """Put the bodies larger than their table's `inline`, and so many of the others that a record isn't too large,
        each once and under a name of its own, before anything names them. 1 PUT each, many at once.

        Raises:
            InvalidInputError: there is too much of small ones.
            StoreUnavailableError: one may not be there; nothing names it.
        """
        bodies = [(key, write.body) for key, write in self._writes.items() if write.body is not None]
        bodies.sort(key=lambda item: len(item[1]), reverse=True)
        left = sum(len(body) for _, body in bodies)
        chosen: list[tuple[tuple[str, str], str, bytes]] = []
        for key, body in bodies:
            if len(body) > inline[key[0]] or (left > LARGEST_BYTES and len(body) > SMALLEST):
                chosen.append((key, staged_ref(self._txid, len(chosen), body), body))
                left -= len(body)
        if left > LARGEST:
            raise InvalidInputError(
                f"this transaction writes {left:,} bytes of small documents; at most {LARGEST:,} fit in a commit. "
                "Write them in several transactions."
            )
        self.staged_s = store.log.now_s()
        layout = store.log.store.layout
        try:
            store.bucket.put_many([(layout.body_key(ref), body) for _, ref, body in chosen])
        except OutcomeUnknownError as error:
            raise StoreUnavailableError(
                f"a large row couldn't be put before its commit, which wasn't sent: {error}"
            ) from error
        for key, ref, _ in chosen:
            self._writes[key] = replace(self._writes[key], ref=ref)

    def may_be_swept(self, store: RecordStore) -> bool:
        """Whether bodies were staged so long ago that a sweep may soon take them for left over."""
        return store.log.now_s() - self.staged_s > STAGED_S and any(w.ref for w in self._writes.values())

    def to_log(self, tables: Mapping[str, Table]) -> tuple[RowWrite, ...]:
        """The writes with their index entries, by the definitions of these tables (rule 16).

        Raises:
            InvalidInputError: a field that is indexed holds what an index can't.
        """
        return tuple(_to_log(tables[write.table], write) for write in self._writes.values())


def _to_log(table: Table, write: PendingWrite) -> RowWrite:
    if write.body is None:
        return RowWrite(write.table, write.id)
    document = table.documents.decode(write.body, write.id)
    stems = tuple(
        table.layout.stem(name, value, write.id, index.generation)
        for name, index in table.state.fields.items()
        for value in table.documents.index_values(write.id, document, name, each=index.each)
    )
    staged = write.ref is not None
    return RowWrite(write.table, write.id, None if staged else write.body, write.ref, stems)
