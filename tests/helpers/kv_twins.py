"""Writers and readers that are used through asyncio, with the verbs of those that aren't: the same tests run both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.keyed.table import KeyedTable
from twins import Loop


class Blocking:
    """An asynchronous handle whose verbs wait."""

    def __init__(self, loop: Loop, handle: Any) -> None:
        self._loop, self._handle = loop, handle

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if not callable(found) or name in ("stats",):
            return found
        if name in ("scan", "scan_prefix"):
            return lambda *args, **options: Scanned(self._loop, found(*args, **options))

        def verb(*args: Any, **options: Any) -> Any:
            result = self._loop.run(found(*args, **options))
            return Blocking(self._loop, result) if name == "snapshot" else result

        return verb

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run(self._handle.__aexit__(*error))


class Scanned:
    """A scan of one."""

    def __init__(self, loop: Loop, scan: Any) -> None:
        self._loop, self._scan = loop, scan

    def __iter__(self) -> Iterator[Any]:
        async def pairs() -> list[Any]:
            return [pair async for pair in self._scan]

        return iter(self._loop.run(pairs()))

    def to_batches(self) -> Iterator[Any]:
        async def batches() -> list[Any]:
            return [batch async for batch in self._scan.to_batches()]

        return iter(self._loop.run(batches()))

    def to_arrow(self) -> Any:
        return self._loop.run(self._scan.to_arrow())


class Twins:
    """Opens handles of a table, directly or through asyncio."""

    def __init__(self, loop: Loop | None) -> None:
        self._loop = loop

    def open(self, table: KeyedTable, **options: Any) -> Any:
        if self._loop is None:
            return table.open(**options)
        return Blocking(self._loop, self._loop.run(table.aio.open(**options)))

    def reader(self, table: KeyedTable, at: Any = None, **options: Any) -> Any:
        if self._loop is None:
            return table.reader(at, **options)
        return Blocking(self._loop, self._loop.run(table.aio.reader(at, **options)))
