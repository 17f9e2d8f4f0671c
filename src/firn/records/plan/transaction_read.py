"""Reads of a record table inside of a transaction: at its snapshot, with its own writes laid over that.

They run in this process, and count as reads of the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.engine import filter_table
from firn.bucket.base import Bucket
from firn.journal.model import ColumnTypes
from firn.reads import Unit, spelled
from firn.records.documents.documents import ID, Record
from firn.records.documents.tabular import indexed_columns, row_columns, table_of
from firn.records.plan.narrowed import NarrowedRead, ids_of
from firn.records.write.reads import documents_at

if TYPE_CHECKING:
    from firn.records.definition.definition import RecordDefinition
    from firn.records.table import RecordTable
    from firn.records.write.transaction import Transaction

BATCH_ROWS = 2000


class TransactionTable:
    """A record table as a transaction sees it."""

    kind = "records"

    def __init__(self, table: RecordTable, transaction: Transaction) -> None:
        self.name, self.bucket, self.transaction = table.name, table.bucket, transaction
        self.definition: RecordDefinition = table.definition
        self.documents = documents_at(transaction, table.name)
        self.indices, self.session = table.indices, table.session


@dataclass(frozen=True)
class TransactionRead(NarrowedRead):
    """What of a transaction's rows is wanted."""

    source: TransactionTable

    @staticmethod
    def of(
        table: TransactionTable, *, columns: Sequence[str] | None, where: str | None, indexed: bool
    ) -> TransactionRead:
        documents = table.documents
        state = table.session.store.log.head().catalog.get(table.name) if indexed else None
        own = () if state is None else indexed_columns(documents, state.fields)
        names = spelled(table.name, row_columns(documents, own), columns)
        read = TransactionRead(table, documents=documents, names=names, indexed=own)
        return read if where is None else read.where(where)

    @property
    def bucket(self) -> Bucket:
        return self.source.bucket

    @property
    def version(self) -> str:
        return str(self.source.transaction.snapshot)

    @property
    def known(self) -> ColumnTypes:
        return row_columns(self.documents, self.indexed)

    def units(self) -> list[Unit]:
        """The read as a whole: a transaction is of one process."""
        return [Unit(self.about_ids, 0)]

    def for_tasks(self) -> TransactionRead:
        return self

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        """1 GET a row that predicates name by its id; else 1 LIST sequence and 1 GET a row of the table."""
        transaction = self.source.transaction
        for about_ids in works:
            ids = ids_of(about_ids).points
            found: Iterable[Record] = (
                transaction.stream(self.table)
                if ids is None
                else transaction.get_many(self.table, [id for id in ids if id]).values()
            )
            each = iter(found)
            while batch := list(islice(each, BATCH_ROWS)):
                rows = self._table(batch)
                if self.sql is not None:
                    rows = filter_table(rows, self.sql, types=self.known)
                if rows.num_rows:
                    yield rows

    def _table(self, found: Sequence[Record]) -> pa.Table:
        bodies = [self.documents.body_of(row.id, row.document) for row in found]
        return table_of(self.known, {ID: [row.id for row in found]}, bodies, self.documents)
