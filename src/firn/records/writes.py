"""A transaction's own writes, kept back until it commits, and what the log gets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firn.errors import OutcomeUnknownError, StoreUnavailableError
from firn.journal.sequence import RowWrite
from firn.records.documents import Record
from firn.records.snapshot import Seen
from firn.records.store import RecordStore, Table


@dataclass(frozen=True)
class Pending:
    """A write that isn't committed: a body, or None for a delete. `base` is the version that it replaces, where the
    transaction has read it. `ref` names the object that a large body was staged in, `etag` is the write's own."""

    table: str
    id: str
    body: bytes | None
    base: Seen | None
    ref: str | None = None
    etag: str = ""

    def record(self, table: Table) -> Record:
        """The row as the transaction itself sees it."""
        assert self.body is not None
        return Record(self.id, table.documents.decode(self.body), self.etag)


class Buffer:
    """The last write of each row."""

    def __init__(self, txid: str) -> None:
        self._txid = txid
        self._writes: dict[tuple[str, str], Pending] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._writes)

    @property
    def tables(self) -> set[str]:
        return {table for table, _ in self._writes}

    def get(self, key: tuple[str, str]) -> Pending | None:
        return self._writes.get(key)

    def of(self, table: str) -> Mapping[str, Pending]:
        """A table's writes, by id."""
        return {id: write for (of, id), write in self._writes.items() if of == table}

    def put(self, write: Pending) -> str:
        """The row's new write; its ETag."""
        self._count += 1
        etag = f"tx:{self._txid}:{self._count}"
        self._writes[write.table, write.id] = replace(write, etag=etag)
        return etag

    def stage(self, store: RecordStore, inline: Mapping[str, int]) -> None:
        """Put the bodies larger than their table's `inline`, each once and under a name of its own, before anything
        names them. 1 PUT each.

        Raises:
            StoreUnavailableError: one may not be there; nothing names it.
        """
        for n, (key, write) in enumerate(self._writes.items()):
            if write.body is not None and len(write.body) > inline[write.table]:
                ref = f"{self._txid}.{n}"
                try:
                    store.bucket.put(store.log.store.layout.body_key(ref), write.body)
                except OutcomeUnknownError as error:
                    raise StoreUnavailableError(
                        f"row {write.id!r} of {write.table!r} is large and couldn't be put before its commit, which "
                        f"wasn't sent: {error}"
                    ) from error
                self._writes[key] = replace(write, ref=ref)

    def to_log(self, tables: Mapping[str, Table]) -> tuple[RowWrite, ...]:
        """The writes with their index entries, by the definitions of these tables (rule 16).

        Raises:
            InvalidInputError: a field that is indexed holds a list or an object.
        """
        return tuple(_to_log(tables[write.table], write) for write in self._writes.values())


def _to_log(table: Table, write: Pending) -> RowWrite:
    if write.body is None:
        return RowWrite(write.table, write.id)
    document = table.documents.decode(write.body)
    stems = tuple(
        table.layout.stem(
            name, table.documents.index_value(write.id, document, name), write.id, index.generation
        )
        for name, index in table.state.fields.items()
    )
    staged = write.ref is not None
    return RowWrite(write.table, write.id, None if staged else write.body, write.ref, stems)
