"""Load many rows: transactions of upserts, one after another, each applied before the next.

A load is no transaction: what of it is committed stays, whatever becomes of the rest, and running it again comes to
the same, as each row is put in place of what was there. Tasks of a cluster load a part of the rows each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from firn.errors import DuplicateKeyError, InvalidInputError
from firn.journal.sequence.proposal import LARGEST_BYTES
from firn.records.apply.apply import apply_only
from firn.records.load.rows import Row
from firn.records.objects.store import RecordStore, Table
from firn.records.write.reads import documents_at
from firn.records.write.retry import transact
from firn.records.write.transaction import Transaction

BATCH: Final = 1000
"""Rows of one transaction, at most."""

Body = tuple[str, bytes]
"""An id and its document's JSON."""


@dataclass
class _Batch:
    """Rows of one transaction, encoded by a table as it was when the batch began."""

    table: Table
    rows: list[Row] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    size: int = 0

    def encoded(self, tx: Transaction) -> list[Body]:
        """The bodies, judged by what the table allows at a transaction's snapshot."""
        documents = documents_at(tx, self.table.name)
        if documents == self.table.documents:
            return self.bodies
        return [(id, documents.encode(id, document)) for id, document in self.rows]


@dataclass(frozen=True)
class RecordLoadReport:
    """The result of a load: how many `rows` it was given, and in how many `commits` they are. `version` is the number
    of the last one; at it, and after it, all of them are there, unless they were changed since. A table with
    isolation="row" has no commits: 0 and None."""

    rows: int
    commits: int
    version: int | None


@dataclass(frozen=True)
class LoadedPart:
    """A part of a load: its rows, and the numbers of its commits, all of which are in rows and indices."""

    rows: int
    commits: tuple[int, ...]

    def report(self, head: int) -> RecordLoadReport:
        return RecordLoadReport(self.rows, len(self.commits), max(self.commits, default=head))


def check_batch(batch: int) -> None:
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise InvalidInputError(f"batch={batch!r}: give the number of rows that a transaction may have.")


def load(store: RecordStore, table: str, rows: Iterable[Row], *, batch: int = BATCH) -> LoadedPart:
    """Upsert rows in transactions of at most `batch` rows and about 4 MB; of rows with one id the last stays.

    Each transaction: 1 GET and 1 PUT, 1 GET a commit of others meanwhile, and 1 LIST a row and unique index; then
    1 GET and 1 PUT a row and 1 PUT an index entry to apply it. A row larger than the table's `inline`: 1 PUT more.

    Raises:
        InvalidInputError, DuplicateKeyError: a row that can't be; how many rows before it are loaded is told.
        ConflictError: others change the same rows all the time.
    """
    done = 0
    numbers: set[int] = set()
    try:
        for part in _batches(store, table, rows, batch):
            tx = transact(store, lambda tx, part=part: _written(tx, part))  # type: ignore[misc]
            assert tx.committed is not None
            numbers.add(tx.committed)
            done += len(part.bodies)
            # By number: one whose answer was lost, and that was found in the log since, is ours too.
            apply_only(store, numbers)
    except (InvalidInputError, DuplicateKeyError) as error:
        if not done:
            raise
        raise type(error)(
            f"{error} ({done:,} rows before it are loaded; mend it and load again: what is there already does no "
            "harm.)"
        ) from error
    return LoadedPart(done, tuple(sorted(numbers)))


def _written(tx: Transaction, batch: _Batch) -> Transaction:
    tx.put_bodies(batch.table.name, batch.encoded(tx))
    return tx


def _batches(store: RecordStore, table: str, rows: Iterable[Row], most: int) -> Iterator[_Batch]:
    """Encoded by the table as it is when each batch begins."""
    batch: _Batch | None = None
    for id, document in rows:
        if batch is None:
            batch = _Batch(store.table(table, store.log.head().catalog))
        body = batch.table.encode(id, document)
        inline = len(body) if len(body) <= batch.table.inline else 0
        if batch.bodies and (len(batch.bodies) >= most or batch.size + inline > LARGEST_BYTES):
            yield batch
            batch = _Batch(store.table(table, store.log.head().catalog))
        batch.rows.append((id, document))
        batch.bodies.append((id, body))
        batch.size += inline
    if batch is not None:
        yield batch
