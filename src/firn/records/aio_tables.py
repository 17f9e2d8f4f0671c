"""`asyncio` twins of record tables: the same verbs, awaited; each runs its twin in a thread of the database's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from firn.alter import AlterResult
from firn.concurrency.aio import Threads, each
from firn.journal.model import ColumnTypes
from firn.records.documents.documents import ID, Record
from firn.records.load.load import BATCH, RecordLoadReport
from firn.records.maintain.collection import ORPHAN_AGE, RETENTION, RecordSweepReport
from firn.records.maintain.repair import RowRepairReport
from firn.records.read.changes import BATCH_ROWS, Change, Changes
from firn.records.read.order import OrderBy
from firn.records.read.rows import Rows
from firn.runner import Runner

if TYPE_CHECKING:
    from firn.records.row_tables import RowTable
    from firn.records.session import Duration
    from firn.records.table import IndexInfo, RecordTable

T = TypeVar("T")

_ROWS: Final = 256
"""Rows of a scan that one step into its thread gives."""


class AsyncRecordTable:
    """See `RecordTable`. Get it as `table.aio`. Writes of tasks that run at the same time share commits.

    A task that is cancelled leaves the verb that it waits for to end by itself: a write is done or not, never half.
    One that hasn't begun yet is taken back.
    """

    def __init__(self, twin: RecordTable) -> None:
        self.twin = twin
        """The one that does it."""

    def __repr__(self) -> str:
        return f"{self.twin!r}.aio"

    @property
    def name(self) -> str:
        return self.twin.name

    async def alter(
        self, *, set_properties: Mapping[str, Any] | None = None, dry_run: bool = False
    ) -> AlterResult:
        """Change the table's properties; the number of the commit and what changed."""
        return await self.run(self.twin.alter, set_properties=set_properties, dry_run=dry_run)

    async def get(self, id: str) -> Record:
        """The row of that id."""
        return await self.run(self.twin.get, id)

    async def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id."""
        return await self.run(self.twin.get_many, ids)

    async def find(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, found through an index."""
        page = {"order_by": order_by, "limit": limit, "after": after}
        return await self.run(self.twin.find, where, **page, **equalities)

    async def scan(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, all by default, at one snapshot and without an index."""
        page = {"order_by": order_by, "limit": limit, "after": after}
        return await self.run(self.twin.scan, where, **page, **equalities)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> AsyncIterator[Record]:
        """The same, few rows at a time: `async for row in table.aio.stream()`."""
        return each(self.twin.session.threads, lambda: self.twin.stream(where, **equalities), _ROWS)

    async def count(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> int:
        """How many rows match, through an index; without conditions all."""
        return await self.run(self.twin.count, where, **equalities)

    async def changes(self, since: str | int | None = None, upto: str | int | None = None) -> AsyncChanges:
        """What was put and deleted, commit by commit: `async for change in await table.aio.changes(since)`."""
        return AsyncChanges(await self.run(self.twin.changes, since, upto), self.twin.session.threads)

    async def insert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """A new row; its ETag."""
        return await self.run(self.twin.insert, id, document, etag=etag)

    async def upsert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag."""
        return await self.run(self.twin.upsert, id, document, etag=etag)

    async def update(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document; its ETag."""
        return await self.run(self.twin.update, id, document, etag=etag)

    async def delete(self, id: str, *, etag: str | None = None) -> None:
        """Delete the row."""
        await self.run(self.twin.delete, id, etag=etag)

    async def insert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows, by id, all or none; their ETags."""
        return await self.run(self.twin.insert_many, rows)

    async def upsert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The rows become these documents, by id, whether they are there or not; their ETags."""
        return await self.run(self.twin.upsert_many, rows)

    async def delete_many(self, ids: Iterable[str]) -> list[str]:
        """Delete the rows that there are of these ids, which are returned."""
        return await self.run(self.twin.delete_many, ids)

    async def load(self, rows: Any, *, id: str = ID, batch: int = BATCH) -> RecordLoadReport:
        """Put many rows in place of what their ids had, a batch at a time. Where the task is cancelled, what is
        under way goes on to its end."""
        return await self.run(self.twin.load, rows, id=id, batch=batch)

    async def indices(self) -> list[IndexInfo]:
        """The indices that there are now, by field."""
        return await self.run(self.twin.indices)

    async def create_index(
        self, field: str, *, unique: bool = False, each: bool = False, runner: Runner | None = None
    ) -> int:
        """Build an index while others read and write; the number of the commit from which it is used."""
        return await self.run(self.twin.create_index, field, unique=unique, each=each, runner=runner)

    async def drop_index(self, field: str) -> int:
        """Use an index no more, from the commit on whose number is returned."""
        return await self.run(self.twin.drop_index, field)

    async def sweep(
        self,
        older_than: Duration = RETENTION,
        orphans: Duration = ORPHAN_AGE,
        *,
        dry_run: bool = False,
    ) -> RecordSweepReport:
        """Delete what no transaction reads any more, of all record tables of the database, which share a log."""
        return await self.run(self.twin.sweep, older_than, orphans, dry_run=dry_run)

    async def repair_rows(
        self, ids: Iterable[str], *, forget: bool = False, dry_run: bool = False
    ) -> RowRepairReport:
        """Mend rows whose objects are damaged: what the log still has of a row is put back."""
        return await self.run(self.twin.repair_rows, ids, forget=forget, dry_run=dry_run)

    async def run(self, verb: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Any verb, in a thread."""
        return await self.twin.session.threads.run(verb, *args, **options)


class AsyncChanges:
    """See `Changes`. `async for` gives each change."""

    def __init__(self, twin: Changes, threads: Threads) -> None:
        self.twin = twin
        """The ones that are read."""
        self._threads = threads

    @property
    def since(self) -> str:
        return self.twin.since

    @property
    def version(self) -> str:
        """For `since`, to go on."""
        return self.twin.version

    @property
    def columns(self) -> ColumnTypes:
        """Those of `to_batches`, with their DuckDB types."""
        return self.twin.columns

    def __aiter__(self) -> AsyncIterator[Change]:
        return each(self._threads, lambda: self.twin, BATCH_ROWS)

    def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow batches: `_id`, the declared columns or else `document`, `_kind` and `_seq`."""
        return each(self._threads, self.twin.to_batches, 1)

    async def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table."""
        return await self._threads.run(self.twin.to_arrow)


class AsyncRowTable:
    """See `RowTable`. Get it as `table.aio`.

    A task that is cancelled leaves the verb that it waits for to end by itself: a write is done or not. One that
    hasn't begun yet is taken back.
    """

    def __init__(self, twin: RowTable) -> None:
        self.twin = twin
        """The one that does it."""

    def __repr__(self) -> str:
        return f"{self.twin!r}.aio"

    def __getattr__(self, verb: str) -> Any:
        """Say why a verb of other record tables isn't here."""
        if not hasattr(AsyncRecordTable, verb):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {verb!r}")
        return getattr(self.twin, verb)

    @property
    def name(self) -> str:
        return self.twin.name

    async def alter(
        self, *, set_properties: Mapping[str, Any] | None = None, dry_run: bool = False
    ) -> AlterResult:
        """Change the table's properties; the revision of its definition and what changed."""
        return await self.run(self.twin.alter, set_properties=set_properties, dry_run=dry_run)

    async def get(self, id: str) -> Record:
        """The row of that id."""
        return await self.run(self.twin.get, id)

    async def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id."""
        return await self.run(self.twin.get_many, ids)

    async def insert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """A new row; its ETag."""
        return await self.run(self.twin.insert, id, document, etag=etag)

    async def upsert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag."""
        return await self.run(self.twin.upsert, id, document, etag=etag)

    async def update(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document; its ETag."""
        return await self.run(self.twin.update, id, document, etag=etag)

    async def delete(self, id: str, *, etag: str | None = None) -> None:
        """Delete the row."""
        await self.run(self.twin.delete, id, etag=etag)

    async def insert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows, by id, each by itself; their ETags."""
        return await self.run(self.twin.insert_many, rows)

    async def upsert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The rows become these documents, by id, whether they are there or not; their ETags."""
        return await self.run(self.twin.upsert_many, rows)

    async def delete_many(self, ids: Iterable[str]) -> list[str]:
        """Delete the rows that there are of these ids, which are returned."""
        return await self.run(self.twin.delete_many, ids)

    async def load(self, rows: Any, *, id: str = ID, batch: int = BATCH) -> RecordLoadReport:
        """Put many rows in place of what their ids had, a batch at a time. Where the task is cancelled, what is
        under way goes on to its end."""
        return await self.run(self.twin.load, rows, id=id, batch=batch)

    async def scan(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, each as it is when it is read."""
        page = {"order_by": order_by, "limit": limit, "after": after}
        return await self.run(self.twin.scan, where, **page, **equalities)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> AsyncIterator[Record]:
        """The same, few rows at a time: `async for row in table.aio.stream()`."""
        rows = self.twin.stream(where, **equalities)
        return each(self.twin.threads, lambda: rows, _ROWS)

    async def count(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> int:
        """How many rows match."""
        return await self.run(self.twin.count, where, **equalities)

    async def repair_rows(
        self, ids: Iterable[str], *, forget: bool = False, dry_run: bool = False
    ) -> RowRepairReport:
        """Let rows go whose objects are damaged."""
        return await self.run(self.twin.repair_rows, ids, forget=forget, dry_run=dry_run)

    async def run(self, verb: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Any verb, in a thread."""
        return await self.twin.threads.run(verb, *args, **options)
