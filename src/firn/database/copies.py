"""Copies of record tables in lake tables: all rows at one commit, or every change, exactly once.

A copy is an append under a name (`batch_id`) that follows from what is copied, and the target takes each name once.
For changes, the cursor (`firn.records.load.copy_cursor`) settles which commits have a common name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar, cast

import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.bucket.base import ObjectInfo
from firn.database.kinds.records import AnyRecordTable
from firn.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    SnapshotTooOldError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.model import ColumnTypes
from firn.lake.results import AppendResult
from firn.lake.table import LakeTable
from firn.records.documents.documents import ID, Documents
from firn.records.documents.tabular import row_columns, table_of
from firn.records.load.copy_cursor import Cursor, StoredCursor, read_cursor, write_cursor
from firn.records.maintain.indexes import TASKS_FROM
from firn.records.read.bulk import Found, TableAt, snapshot_at
from firn.records.read.changes import change_columns, change_table, changes
from firn.records.table import RecordTable

T = TypeVar("T")

PAGE_ROWS: Final = 1000
PAGE_BYTES: Final = 32 << 20
"""Rows that are in memory at once, at most, and bytes of their objects, about."""


@dataclass(frozen=True)
class CopyReport:
    """The result of a copy.

    Rows that are in the target because of it, `rows`; None where Spark, or another copier, has put them there. The
    target has the commits of the record table after `since` (None for all that there were) up to `upto` now, at its
    `version`, None if nothing had to be appended.
    """

    rows: int | None
    since: str | None
    upto: str
    version: str | None


def copy(
    table: AnyRecordTable,
    open_target: Callable[[], LakeTable],
    create_target: Callable[[ColumnTypes], LakeTable],
    *,
    changes: bool,
    at: Any,
) -> CopyReport:
    """See `Database.copy`. The target is created, with these columns, where it isn't there yet."""
    if changes and at is not None:
        raise InvalidInputError(
            f"at={at!r} is for a copy of rows; changes go on from where the last copy ended."
        )
    if table.definition.isolation == "row":
        raise InvalidInputError(
            f"{table.name} has isolation='row': no commits by which a copy could be told from another. Append "
            "its to_spark() to a table, or use a table with isolation='snapshot'."
        )
    source = cast("RecordTable", table)

    def columns() -> ColumnTypes:
        documents = snapshot_at(source.session.store, at).table(table.name).documents
        return change_columns(documents) if changes else row_columns(documents)

    into = _target(open_target, create_target, columns)
    if into.context.definition.journal == "writer":
        raise UnsupportedError(
            f"{into.name} is a table of writers' catalogs, where two that copy at once can't tell what the other has "
            "appended. Copy into a table with journal='leaderless'."
        )
    return copy_changes(source, into) if changes else copy_rows(source, into, at)


def _target(
    open_target: Callable[[], LakeTable],
    create_target: Callable[[ColumnTypes], LakeTable],
    columns: Callable[[], ColumnTypes],
) -> LakeTable:
    try:
        return open_target()
    except TableNotFoundError:
        try:
            return create_target(columns())
        except TableExistsError:  # by somebody who copies too
            return open_target()


def copy_rows(source: RecordTable, target: LakeTable, at: Any = None) -> CopyReport:
    """Append all rows as they were at one commit; a no-op where that was done.

    As beginning a transaction; 1 LIST sequence, 1 GET a row, and an append with a `batch_id`.
    """
    snapshot = snapshot_at(source.session.store, at)
    table = snapshot.table(source.name)
    name = f"{table.layout.db}/{table.name}~{table.layout.generation}@{snapshot.number}"
    rows = _AllRows(source, TableAt.of(snapshot, table), table.documents, row_columns(table.documents))
    done = target.append(rows.data(), batch_id=name)
    return CopyReport(None if done.duplicate else done.rows, None, str(snapshot.number), done.version)


def copy_changes(source: RecordTable, target: LakeTable) -> CopyReport:
    """Append what was committed since the last call, up to now; for the first time all rows, as if they were put.

    1 GET for the cursor, as beginning a transaction, 1 GET a record that isn't in memory; where there is something
    new 2 PUTs for the cursor and an append with a `batch_id`.

    Raises:
        SnapshotTooOldError: commits that weren't copied are swept.
    """
    return _ChangeCopy(source, target).run()


class _ChangeCopy:
    """One call: ends what somebody has begun, then copies up to the end of the log."""

    def __init__(self, source: RecordTable, target: LakeTable) -> None:
        self.source, self.target = source, target
        self.store = source.session.store
        self.bucket = source.bucket
        self.head = snapshot_at(self.store)
        self.table = self.head.table(source.name)
        self.key = self.table.layout.copy(target.name)
        self.columns = change_columns(self.table.documents)
        self.began: int | None = None
        self.rows: int | None = 0
        self.version: str | None = None

    def run(self) -> CopyReport:
        backoff = self.store.backoff()
        stored = read_cursor(self.bucket, self.key)
        if stored is not None and stored.cursor.target == self.target.context.definition.id:
            self.began = stored.cursor.since
        while True:
            try:
                stored = self._step(stored)
                if stored.cursor.settled and stored.cursor.upto >= self.head.number:
                    return CopyReport(
                        self.rows,
                        None if self.began is None else str(self.began),
                        str(stored.cursor.upto),
                        self.version,
                    )
            except (ObjectChangedError, ObjectExistsError):  # somebody else copies too
                stored = read_cursor(self.bucket, self.key)
                if not backoff.wait():
                    raise

    def _step(self, stored: StoredCursor | None) -> StoredCursor:
        """One PUT of the cursor: say what comes next; or append it, and say so."""
        if stored is None or stored.cursor.target != self.target.context.definition.id:
            # A target that was dropped and made again has nothing yet.
            first = Cursor.begin(self.target.context.definition.id, self.head.number)
            return write_cursor(self.bucket, self.key, first, stored)
        cursor = stored.cursor
        if not cursor.settled:
            self._append(cursor)
            return write_cursor(self.bucket, self.key, cursor.done(), stored)
        if cursor.upto >= self.head.number:
            return stored
        return write_cursor(self.bucket, self.key, cursor.next(self.head.number), stored)

    def _append(self, cursor: Cursor) -> None:
        try:
            done = self._appended(cursor)
        except SnapshotTooOldError as error:
            seen = self.target.journal.seen_batch(cursor.batch_id)
            if seen is None:
                raise SnapshotTooOldError(
                    f"{self.source.name} can't be copied to {self.target.name} from commit {cursor.since or 0} to "
                    f"{cursor.upto}: {error}. Copy more often than sweeps collect, or sweep with a larger "
                    "older_than; now drop the target, or take another, and copy all anew."
                ) from error
            done = AppendResult(seen, 0, 0, 0, duplicate=True)
        if done is None:
            return
        self.version = done.version
        if done.duplicate:
            self.rows = None
        elif self.rows is not None:
            self.rows += done.rows

    def _appended(self, cursor: Cursor) -> AppendResult | None:
        """None if there is nothing to append, which all who look see."""
        name = cursor.batch_id
        if cursor.since is None:
            snapshot = self.head if cursor.upto == self.head.number else snapshot_at(self.store, cursor.upto)
            at = TableAt.of(snapshot, self.table)
            rows = _AllRows(self.source, at, self.table.documents, self.columns)
            return self.target.append(rows.data(), batch_id=name)
        told = changes(self.store, self.table, cursor.since, cursor.upto)
        first = next(told, None)
        if first is None:
            return None
        pages = _pages(chain([first], told), lambda change: len(change.body or b""))
        tables = (change_table(page, self.table.documents, self.columns) for page in pages)
        return self.target.append(_reader(self.columns, tables), batch_id=name)


@dataclass(frozen=True)
class _AllRows:
    """The rows of a snapshot, as something to append."""

    source: RecordTable
    at: TableAt
    documents: Documents
    columns: ColumnTypes

    def data(self) -> Any:
        """A DataFrame where there are many rows and a cluster; else a reader of Arrow batches."""
        infos = self.at.listed()
        size = sum(info.size for info in infos)
        if len(infos) >= TASKS_FROM and self.source.engines.runner(size).distributed:
            return self._frame()
        return _reader(self.columns, self._tables(infos))

    def _frame(self) -> Any:
        own = [name for name in self.columns if name not in ("_kind", "_seq")]
        if len(own) == len(self.columns):
            return self.source.to_spark(at=self.at.snapshot)
        frame = self.source.to_spark(columns=[*own, "_seq"], at=self.at.snapshot)
        named = ["`" + name.replace("`", "``") + "`" for name in own]
        return frame.selectExpr(*named, "'put' AS `_kind`", "`_seq`")

    def _tables(self, infos: Sequence[ObjectInfo]) -> Iterator[pa.Table]:
        for page in _pages(infos, lambda info: info.size):
            yield self._table(self.at.read([info.key for info in page]))
        lately = self.at.lately()
        for start in range(0, len(lately), PAGE_ROWS):
            yield self._table(self.at.read_lately(lately[start : start + PAGE_ROWS]))

    def _table(self, rows: Sequence[Found]) -> pa.Table:
        own: dict[str, Sequence[Any]] = {
            ID: [row.id for row in rows],
            "_kind": ["put"] * len(rows),
            "_seq": [row.seq for row in rows],
        }
        if "_kind" not in self.columns:
            own = {ID: own[ID]}
        return table_of(self.columns, own, [row.body for row in rows], self.documents)


def _reader(columns: ColumnTypes, tables: Iterator[pa.Table]) -> pa.RecordBatchReader:
    """A reader of tables as they come; they are never all in memory."""
    schema = arrow_schema(columns)
    return pa.RecordBatchReader.from_batches(
        schema, (batch for table in tables for batch in table.to_batches())
    )


def _pages(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in pages of limited rows and bytes."""
    page: list[T] = []
    total = 0
    for item in items:
        if page and (len(page) >= PAGE_ROWS or total + size(item) > PAGE_BYTES):
            yield page
            page, total = [], 0
        page.append(item)
        total += size(item)
    if page:
        yield page
