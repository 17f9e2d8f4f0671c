"""Transactions and record tables that are used through asyncio, with the verbs of those that aren't: the same tests
run both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from firn.concurrency.aio import Threads
from firn.database.database import Database
from firn.records.aio import AsyncTransaction
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.records.write.transaction import Transaction
from twins import Loop


class Blocking:
    """An asynchronous twin whose verbs wait. What it doesn't have is its twin's, whose instance it says it is."""

    def __init__(self, loop: Loop, handle: Any) -> None:
        self._loop, self._handle = loop, handle

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return type(self._handle.sync)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self._handle), name):
            return getattr(self._handle.sync, name)
        found = getattr(self._handle, name)
        if inspect.iscoroutinefunction(found):
            return lambda *args, **options: self._loop.run(found(*args, **options))
        if name == "scan":
            return lambda *args, **options: self._listed(found(*args, **options))
        return found

    def _listed(self, rows: Any) -> Iterator[Any]:
        async def listed() -> list[Any]:
            return [row async for row in rows]

        return iter(self._loop.run(listed()))

    def __enter__(self) -> Blocking:
        assert self._loop.run(self._handle.__aenter__()) is self._handle
        return self

    def __exit__(self, *error: Any) -> None:
        self._loop.run(self._handle.__aexit__(*error))


class BlockingDatabase:
    """A database whose record tables and transactions are used through asyncio."""

    def __init__(self, loop: Loop, twin: Database) -> None:
        self._loop, self._twin = loop, twin

    def begin(self, **options: Any) -> Any:
        return Blocking(self._loop, self._loop.run(self._twin.aio.begin(**options)))

    def transact(self, work: Callable[[Any], Any], **options: Any) -> Any:
        async def awaited(tx: AsyncTransaction) -> Any:
            return await asyncio.to_thread(work, Blocking(self._loop, tx))

        return self._loop.run(self._twin.aio.transact(awaited, **options))

    def create_table(self, *args: Any, **options: Any) -> Any:
        return self._blocking(self._twin.create_table(*args, **options))

    def table(self, *args: Any, **options: Any) -> Any:
        return self._blocking(self._twin.table(*args, **options))

    def _blocking(self, table: Any) -> Any:
        if isinstance(table, RecordTable | RowTable):
            return Blocking(self._loop, table.aio)
        return table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._twin, name)


class Twins:
    """Gives what it is given, or what does the same through asyncio."""

    def __init__(self, loop: Loop | None) -> None:
        self._loop = loop
        self._threads = Threads(8)

    def database(self, db: Database) -> Any:
        return db if self._loop is None else BlockingDatabase(self._loop, db)

    def table(self, table: RecordTable | RowTable) -> Any:
        return table if self._loop is None else Blocking(self._loop, table.aio)

    def transaction(self, tx: Transaction) -> Any:
        if self._loop is None:
            return tx
        return Blocking(self._loop, AsyncTransaction(tx, self._threads))


@contextmanager
def twins_of(way: str) -> Iterator[Twins]:
    """For a fixture with the params "sync" and "asyncio"."""
    loop = Loop() if way == "asyncio" else None
    yield Twins(loop)
    if loop is not None:
        loop.stop()
